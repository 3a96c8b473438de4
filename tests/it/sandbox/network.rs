//! The network: none by default, and never the daemon's own sockets.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixListener, UnixStream};
use std::time::Duration;

use super::{Scene, have};

/// Set for the copy of this program that is to connect: `tcp|udp|unix|abstract PLACE`.
const CONNECT: &str = "PEACRAB_CONNECT";

/// Tries to connect if it is asked to, and is an empty test otherwise.
#[test]
#[expect(clippy::print_stdout, reason = "its output is read by the test that has started it")]
#[expect(clippy::disallowed_methods, reason = "it is told by its parent what to do")]
fn connects_when_it_is_told_to() {
    let Ok(wanted) = std::env::var(CONNECT) else { return };
    let (how, place) = wanted.split_once(' ').unwrap();
    let tried = match how {
        "tcp" => {
            TcpStream::connect_timeout(&place.parse().unwrap(), Duration::from_secs(1)).map(drop)
        }
        "udp" => {
            let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0));
            socket
                .and_then(|socket| socket.send_to(b"hello", place.parse::<SocketAddr>().unwrap()))
                .map(drop)
        }
        "unix" => UnixStream::connect(place).map(drop),
        _ => UnixAddr::from_abstract_name(place)
            .and_then(|at| UnixStream::connect_addr(&at))
            .map(drop),
    };
    println!("{how} {}", if tried.is_ok() { "WENT THROUGH" } else { "held" });
}

/// Who listens outside.
struct Outside {
    tcp: TcpListener,
    udp: UdpSocket,
    control: UnixListener,
    hidden: UnixListener,
    name: String,
}

impl Outside {
    fn new(scene: &Scene) -> Self {
        let tcp = TcpListener::bind("0.0.0.0:0").unwrap();
        let udp = UdpSocket::bind("0.0.0.0:0").unwrap();
        let control = UnixListener::bind(scene.root().join("home/control.sock")).unwrap();
        let name = format!("peacrab-test-{:016x}", fastrand::u64(..));
        let hidden =
            UnixListener::bind_addr(&UnixAddr::from_abstract_name(&name).unwrap()).unwrap();
        for nonblocking in [tcp.set_nonblocking(true), udp.set_nonblocking(true)] {
            nonblocking.unwrap();
        }
        control.set_nonblocking(true).unwrap();
        hidden.set_nonblocking(true).unwrap();
        Self { tcp, udp, control, hidden, name }
    }

    /// Which of them have heard something.
    fn heard(&self) -> Vec<&'static str> {
        let heard = [
            ("tcp", self.tcp.accept().is_ok()),
            ("udp", self.udp.recv(&mut [0; 16]).is_ok()),
            ("control", self.control.accept().is_ok()),
            ("abstract", self.hidden.accept().is_ok()),
        ];
        heard.into_iter().filter(|(_, heard)| *heard).map(|(name, _)| name).collect()
    }
}

/// An address of this machine that is not the loopback's, if it has one.
fn own_address() -> Option<Ipv4Addr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    // Nothing is sent by that.
    socket.connect("192.0.2.1:9").ok()?;
    match socket.local_addr().ok()? {
        SocketAddr::V4(address) if !address.ip().is_loopback() => Some(*address.ip()),
        _ => None,
    }
}

/// Has this program try all ways out; gives what it has said.
async fn try_all(scene: &mut Scene, outside: &Outside) -> String {
    let program = std::env::current_exe().unwrap();
    scene.sandbox.read.push(program.parent().unwrap().to_owned());
    let (tcp, udp) =
        (outside.tcp.local_addr().unwrap().port(), outside.udp.local_addr().unwrap().port());
    let mut places = vec![
        format!("tcp 127.0.0.1:{tcp}"),
        format!("tcp [::1]:{tcp}"),
        format!("udp 127.0.0.1:{udp}"),
        format!("unix {}", scene.root().join("home/control.sock").display()),
        format!("abstract {}", outside.name),
    ];
    if let Some(own) = own_address() {
        places.extend([format!("tcp {own}:{tcp}"), format!("udp {own}:{udp}")]);
    }
    let lines: Vec<_> = places
        .iter()
        .map(|place| {
            format!(
                "{CONNECT}='{place}' '{}' --exact sandbox::network::connects_when_it_is_told_to --nocapture",
                program.display()
            )
        })
        .collect();
    let out = scene.run(&lines.join("\n")).await.well();
    let tried = out.lines().filter(|line| line.contains("held") || line.contains("WENT"));
    assert_eq!(tried.count(), places.len(), "{out}");
    out
}

#[tokio::test]
async fn there_is_no_network_unless_the_config_says_so() {
    let mut scene = Scene::new();
    let outside = Outside::new(&scene);
    let out = try_all(&mut scene, &outside).await;
    // A datagram may be sent to nobody.
    assert!(
        !out.contains("tcp WENT") && !out.contains("unix WENT") && !out.contains("abstract WENT"),
        "{out}"
    );
    assert_eq!(outside.heard(), Vec::<&str>::new());
    scene.check();
}

#[tokio::test]
async fn with_the_network_on_the_daemons_own_sockets_stay_out_of_reach() {
    let mut scene = Scene::new();
    scene.sandbox.network = true;
    let outside = Outside::new(&scene);
    let out = try_all(&mut scene, &outside).await;
    assert!(out.contains("tcp WENT THROUGH"), "{out}");
    assert!(!out.contains("unix WENT") && !out.contains("abstract WENT"), "{out}");
    assert_eq!(outside.heard(), ["tcp", "udp"]);
    scene.check();
}

#[tokio::test]
async fn a_command_can_talk_to_itself() {
    // Without Python there is no server at hand; sockets in pairs are tried by sh's own pipes.
    if !have("python3") {
        return;
    }
    let scene = Scene::new();
    scene.write(
        "server.py",
        "import socket, threading\n\
         def serve(s):\n    c, _ = s.accept()\n    c.sendall(b'hello')\n    c.close()\n\
         for family, at in [(socket.AF_INET, ('127.0.0.1', 0)), (socket.AF_UNIX, 'here.sock')]:\n\
         \x20   s = socket.socket(family)\n    s.bind(at)\n    s.listen()\n\
         \x20   threading.Thread(target=serve, args=(s,)).start()\n\
         \x20   c = socket.socket(family)\n    c.connect(s.getsockname())\n    print(c.recv(5).decode())\n",
    );
    assert_eq!(scene.run("python3 server.py").await.well(), "hello\nhello\n");
}

#[tokio::test]
async fn python_finds_no_way_out_either() {
    // Without Python, this program has tried the same above.
    if !have("python3") {
        return;
    }
    let scene = Scene::new();
    let outside = Outside::new(&scene);
    let (tcp, udp) =
        (outside.tcp.local_addr().unwrap().port(), outside.udp.local_addr().unwrap().port());
    let script = format!(
        "import socket\n\
         def attempt(name, call):\n    try:\n        call()\n        print(name, 'WENT THROUGH')\n    except OSError:\n        print(name, 'held')\n\
         attempt('tcp', lambda: socket.create_connection(('127.0.0.1', {tcp}), 1))\n\
         attempt('name', lambda: socket.create_connection(('example.com', 80), 1))\n\
         attempt('control', lambda: socket.socket(socket.AF_UNIX).connect('{root}/home/control.sock'))\n\
         attempt('abstract', lambda: socket.socket(socket.AF_UNIX).connect('\\0{name}'))\n\
         attempt('raw', lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))\n\
         attempt('packet', lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0))\n\
         socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', {udp}))\n",
        root = scene.root().display(),
        name = outside.name,
    );
    scene.write("out.py", script);
    let out = scene.run("python3 out.py").await.well();
    assert_eq!(out, "tcp held\nname held\ncontrol held\nabstract held\nraw held\npacket held\n");
    assert_eq!(outside.heard(), Vec::<&str>::new());
}

#[test]
fn what_listens_outside_would_hear_it() {
    let scene = Scene::new();
    let outside = Outside::new(&scene);
    let port = outside.tcp.local_addr().unwrap().port();
    let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    UnixStream::connect(scene.root().join("home/control.sock")).unwrap();
    UnixStream::connect_addr(&UnixAddr::from_abstract_name(&outside.name).unwrap()).unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    udp.send_to(b"x", ("127.0.0.1", outside.udp.local_addr().unwrap().port())).unwrap();
    assert_eq!(outside.heard(), ["tcp", "udp", "control", "abstract"]);
    drop(stream);
}
