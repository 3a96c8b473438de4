//! A site of the web on an address of its own, down to the bytes, so that it can misbehave in every
//! way; and names that lead where a test says, one answer after the other.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::sleep;

/// What a path is answered with.
#[derive(Clone)]
pub(crate) enum Answer {
    /// The bytes as they go over the wire.
    Raw(Vec<u8>),
    /// A head, and then more of this for ever.
    Endless(String, Vec<u8>),
    /// A head, and then this, byte by byte, each after so long.
    Slow(String, Vec<u8>, Duration),
    Silence,
}

impl Answer {
    pub(crate) fn page(content_type: &str, body: impl AsRef<[u8]>) -> Self {
        let body = body.as_ref();
        let length = body.len();
        let head = format!("200 OK\r\ncontent-type: {content_type}\r\ncontent-length: {length}");
        Self::of(&head, body)
    }

    pub(crate) fn html(body: impl AsRef<[u8]>) -> Self {
        Self::page("text/html; charset=utf-8", body)
    }

    pub(crate) fn redirect(status: u16, to: &str) -> Self {
        Self::of(&format!("{status} Moved\r\nlocation: {to}\r\ncontent-length: 0"), b"")
    }

    pub(crate) fn status(status: u16) -> Self {
        Self::of(&format!("{status} So\r\ncontent-type: text/html\r\ncontent-length: 3"), b"so!")
    }

    /// Status and headers, without the first words and the end.
    pub(crate) fn of(head: &str, body: &[u8]) -> Self {
        Self::Raw([format!("HTTP/1.1 {head}\r\n\r\n").as_bytes(), body].concat())
    }
}

#[derive(Default)]
struct Seen {
    pages: BTreeMap<String, Answer>,
    asked: Vec<String>,
    faults: Vec<String>,
}

/// Answers what it was told to, and finds fault with requests that no reader should send.
pub(crate) struct Site {
    pub(crate) at: SocketAddr,
    seen: Arc<Mutex<Seen>>,
    _server: JoinSet<()>,
}

impl Site {
    pub(crate) async fn start() -> Self {
        Self::start_at("127.0.0.1:0".parse().unwrap()).await
    }

    pub(crate) async fn start_at(at: SocketAddr) -> Self {
        let listener = TcpListener::bind(at).await.unwrap();
        let at = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Seen::default()));
        let mut server = JoinSet::new();
        let shared = Arc::clone(&seen);
        server.spawn(async move {
            let mut links = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                links.spawn(serve(stream, Arc::clone(&shared)));
            }
        });
        Self { at, seen, _server: server }
    }

    pub(crate) fn has(&self, path: &str, answer: Answer) {
        self.seen.lock().unwrap().pages.insert(path.to_owned(), answer);
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.at)
    }

    /// The paths that were asked for.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.seen.lock().unwrap().asked.clone()
    }

    /// Every request was as it should be, and these are all.
    pub(crate) fn finish(&self, asked: &[&str]) {
        let seen = self.seen.lock().unwrap();
        assert_eq!(seen.faults, Vec::<String>::new());
        assert_eq!(seen.asked, asked);
    }
}

async fn serve(mut stream: TcpStream, seen: Arc<Mutex<Seen>>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return,
        }
    }
    let head = String::from_utf8(head).unwrap();
    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
    let answer = {
        let mut seen = seen.lock().unwrap();
        let found = faults(&head);
        seen.faults.extend(found);
        seen.asked.push(path.clone());
        seen.pages.get(&path).cloned()
    };
    let answer = answer.unwrap_or_else(|| Answer::status(404));
    // Who has read enough hangs up.
    match answer {
        Answer::Raw(bytes) => drop(stream.write_all(&bytes).await),
        Answer::Silence => sleep(Duration::from_secs(600)).await,
        Answer::Endless(head, more) => {
            let head = format!("HTTP/1.1 {head}\r\n\r\n");
            if stream.write_all(head.as_bytes()).await.is_ok() {
                while stream.write_all(&more).await.is_ok() {}
            }
        }
        Answer::Slow(head, bytes, pause) => {
            let head = format!("HTTP/1.1 {head}\r\n\r\n");
            drop(stream.write_all(head.as_bytes()).await);
            for byte in bytes {
                sleep(pause).await;
                if stream.write_all(&[byte]).await.is_err() {
                    return;
                }
            }
        }
    }
    drop(stream.shutdown().await);
}

/// What no request of a reader of pages has.
fn faults(head: &str) -> Vec<String> {
    let mut lines = head.lines();
    let first = lines.next().unwrap_or_default();
    let mut faults = Vec::new();
    if !first.starts_with("GET /") || !first.ends_with(" HTTP/1.1") {
        faults.push(format!("a strange request: {first}"));
    }
    let headers: BTreeMap<String, String> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    for name in headers.keys() {
        if !matches!(name.as_str(), "host" | "accept" | "accept-encoding" | "user-agent") {
            faults.push(format!("{first} came with {name}"));
        }
    }
    let agent = headers.get("user-agent").map_or("", String::as_str);
    if !agent.starts_with(concat!("peacrab/", env!("CARGO_PKG_VERSION"), " (+")) {
        faults.push(format!("it does not say who it is: {agent}"));
    }
    if headers.get("accept-encoding").map(String::as_str) != Some("identity") {
        faults.push("it wants bodies compressed".to_owned());
    }
    faults
}

/// Names with the answers that they get, the first one first. Each is given once.
#[derive(Clone, Default)]
pub(crate) struct Names(Arc<Mutex<BTreeMap<String, VecDeque<Vec<IpAddr>>>>>);

impl Names {
    pub(crate) fn of(answers: &[(&str, &[&str])]) -> Self {
        let names = Self::default();
        for (name, addresses) in answers {
            let addresses = addresses.iter().map(|address| address.parse().unwrap()).collect();
            let mut known = names.0.lock().unwrap();
            known.entry((*name).to_owned()).or_default().push_back(addresses);
        }
        names
    }

    /// How many answers were not asked for.
    pub(crate) fn left(&self) -> usize {
        self.0.lock().unwrap().values().map(VecDeque::len).sum()
    }
}

impl Resolve for Names {
    fn resolve(&self, name: Name) -> Resolving {
        let mut known = self.0.lock().unwrap();
        let answer = known.get_mut(name.as_str()).and_then(VecDeque::pop_front);
        Box::pin(async move {
            let answer = answer.ok_or("no such name")?;
            // The port is not for a name to say.
            Ok(Box::new(answer.into_iter().map(|ip| SocketAddr::new(ip, 9))) as Addrs)
        })
    }
}
