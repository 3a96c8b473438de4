//! The control socket: where a home's path is longer than a socket's can be, and against clients that take
//! too much or are not the owner's.

use std::fs;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use peacrab::control::{self, LINE_BYTES_MAX, SOCKET};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::time::timeout;

use crate::support::rig::Rig;

#[tokio::test]
async fn a_home_with_a_long_path_has_a_socket_too() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("a-long-name-".repeat(10)).join("another-".repeat(10));
    let refused = control::connect(&home).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotFound);
    fs::create_dir_all(&home).unwrap();
    // As after a crash.
    fs::write(home.join(SOCKET), "").unwrap();
    let listener = control::bind(&home).unwrap();
    let (client, served) = tokio::join!(control::connect(&home), listener.accept());
    let (mut client, mut served) = (client.unwrap(), served.unwrap().0);
    client.write_all(b"hello").await.unwrap();
    drop(client);
    let mut heard = String::new();
    served.read_to_string(&mut heard).await.unwrap();
    assert_eq!(heard, "hello");
    let names: Vec<_> = fs::read_dir(&home).unwrap().map(|it| it.unwrap().file_name()).collect();
    assert_eq!(names, [SOCKET]);
}

/// What the daemon of a rig answers to these bytes.
async fn answer(rig: &Rig, bytes: &[u8]) -> String {
    let mut client = control::connect(&rig.path()).await.unwrap();
    // It may hang up in the middle.
    client.write_all(bytes).await.ok();
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).await.ok();
    String::from_utf8(answer).unwrap()
}

#[tokio::test]
async fn a_line_without_an_end_is_refused() {
    let rig = Rig::new().await;
    rig.wait_until(|rig| rig.path().join(SOCKET).exists()).await;
    let mut client = control::connect(&rig.path()).await.unwrap();
    let part = vec![b'x'; LINE_BYTES_MAX / 4];
    let mut written = 0;
    while written <= 16 * LINE_BYTES_MAX && client.write_all(&part).await.is_ok() {
        written += part.len();
    }
    assert!(written < 4 * LINE_BYTES_MAX, "{written} bytes were taken");
    assert!(answer(&rig, b"{\"verb\":\"status\"}\n").await.contains("\"version\""));
    rig.finish().await;
}

#[tokio::test]
async fn clients_that_chat_leave_room_for_commands() {
    let rig = Rig::new().await;
    rig.wait_until(|rig| rig.path().join(SOCKET).exists()).await;
    let mut chats = Vec::new();
    for _ in 0..16 {
        let mut client = control::connect(&rig.path()).await.unwrap();
        client.write_all(b"{\"verb\":\"chat\",\"session\":\"a\"}\n").await.unwrap();
        chats.push(client);
    }
    let mut refused = String::new();
    while !refused.contains("terminals are connected") {
        let one_more = answer(&rig, b"{\"verb\":\"chat\",\"session\":\"b\"}\n");
        refused = timeout(Duration::from_millis(500), one_more).await.unwrap_or_default();
    }
    assert!(answer(&rig, b"{\"verb\":\"status\"}\n").await.contains("\"version\""));
    drop(chats);
    rig.finish().await;
}

#[tokio::test]
async fn a_client_that_sends_no_request_is_hung_up_on() {
    let rig = Rig::new().await;
    rig.wait_until(|rig| rig.path().join(SOCKET).exists()).await;
    let silent = answer(&rig, b"");
    // A request without an end is none.
    let unfinished = answer(&rig, b"{\"verb\":");
    let both = async { tokio::join!(silent, unfinished) };
    let heard = timeout(Duration::from_secs(30), both).await.expect("they are hung up on");
    assert_eq!(heard, (String::new(), String::new()));
    rig.finish().await;
}

#[tokio::test]
async fn clients_that_send_no_request_leave_room_for_those_that_do() {
    let rig = Rig::new().await;
    rig.wait_until(|rig| rig.path().join(SOCKET).exists()).await;
    let mut silent = Vec::new();
    for _ in 0..80 {
        silent.push(control::connect(&rig.path()).await.unwrap());
    }
    assert!(answer(&rig, b"{\"verb\":\"status\"}\n").await.contains("\"version\""));
    // It did not wait until they were hung up on: those that came last still have their places.
    let is_open = |client: &UnixStream| {
        let heard = client.try_read(&mut [0]);
        heard.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    };
    assert!(silent.iter().rev().take(20).all(is_open));
    let mut heard = String::new();
    silent[0].read_to_string(&mut heard).await.ok();
    assert_eq!(heard, "");
    rig.finish().await;
}

/// As root, so that there is another account to try it with.
#[tokio::test]
#[expect(unsafe_code, reason = "only the kernel's own call changes one thread's account")]
async fn another_account_is_refused_whatever_the_sockets_mode() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let rig = Rig::new().await;
    rig.wait_until(|rig| rig.path().join(SOCKET).exists()).await;
    let path = rig.path();
    for open in [path.as_path(), path.parent().unwrap()] {
        fs::set_permissions(open, fs::Permissions::from_mode(0o777)).unwrap();
    }
    fs::set_permissions(path.join(SOCKET), fs::Permissions::from_mode(0o777)).unwrap();
    let heard = tokio::task::spawn_blocking(move || {
        let asking = std::thread::spawn(move || {
            // SAFETY: a plain call with numbers; without the library around it, it is for this thread alone.
            let changed = unsafe { libc::syscall(libc::SYS_setresuid, 65_534, 65_534, 65_534) };
            assert_eq!(changed, 0);
            let mut client = std::os::unix::net::UnixStream::connect(path.join(SOCKET)).unwrap();
            client.write_all(b"{\"verb\":\"status\"}\n").ok();
            let mut heard = String::new();
            client.read_to_string(&mut heard).ok();
            heard
        });
        asking.join().unwrap()
    });
    assert_eq!(heard.await.unwrap(), "");
    assert!(answer(&rig, b"{\"verb\":\"status\"}\n").await.contains("\"version\""));
    rig.finish().await;
}
