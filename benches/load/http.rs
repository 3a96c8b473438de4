//! A small HTTP/1.1 server for the fakes: a thread for each connection, which is kept alive. It knows
//! bodies with a length and nothing else, so that a request costs some microseconds.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

/// There may be a thousand connections.
const STACK_BYTES: usize = 256 * 1024;

/// What is read at a time.
const PIECE_BYTES: usize = 64 * 1024;

/// A request, whole.
pub(crate) struct Request<'a> {
    pub(crate) path: &'a str,
    pub(crate) body: &'a [u8],
}

/// Serves on a port of 127.0.0.1 until the process ends; `answer` appends a whole response.
pub(crate) fn serve(
    answer: impl Fn(&Request<'_>, &mut Vec<u8>) + Send + Sync + 'static,
) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let answer = Arc::new(answer);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let answer = Arc::clone(&answer);
            let connection = move || talk(stream, &*answer).unwrap_or_default();
            thread::Builder::new().stack_size(STACK_BYTES).spawn(connection).ok();
        }
    });
    Ok(address)
}

/// Appends a response with a JSON body.
pub(crate) fn json(body: &str, response: &mut Vec<u8>) {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    );
    response.extend_from_slice(head.as_bytes());
    response.extend_from_slice(body.as_bytes());
}

/// Appends a response that streams server-sent events, each in a chunk of its own.
pub(crate) fn events<'a>(events: impl Iterator<Item = &'a str>, response: &mut Vec<u8>) {
    let head =
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    response.extend_from_slice(head.as_bytes());
    for event in events {
        let event = format!("data: {event}\n\n");
        response.extend_from_slice(format!("{:x}\r\n{event}\r\n", event.len()).as_bytes());
    }
    response.extend_from_slice(b"0\r\n\r\n");
}

/// Answers one request after the other until the connection closes.
fn talk(mut stream: TcpStream, answer: &impl Fn(&Request<'_>, &mut Vec<u8>)) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut received = Vec::new();
    let mut response = Vec::new();
    loop {
        let head = loop {
            match received.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                Some(end) => break end + 4,
                None if read_more(&mut stream, &mut received)? == 0 => return Ok(()),
                None => {}
            }
        };
        let lines = String::from_utf8_lossy(&received[..head]).into_owned();
        let end = head + content_length(&lines);
        while received.len() < end {
            if read_more(&mut stream, &mut received)? == 0 {
                return Ok(());
            }
        }
        let path = lines.split(' ').nth(1).unwrap_or_default();
        response.clear();
        answer(&Request { path, body: &received[head..end] }, &mut response);
        stream.write_all(&response)?;
        received.drain(..end);
    }
}

fn read_more(stream: &mut TcpStream, received: &mut Vec<u8>) -> io::Result<usize> {
    let before = received.len();
    received.resize(before + PIECE_BYTES, 0);
    let read = stream.read(&mut received[before..])?;
    received.truncate(before + read);
    Ok(read)
}

fn content_length(head: &str) -> usize {
    let mut headers = head.lines().filter_map(|line| line.split_once(':'));
    let length = headers.find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    length.and_then(|(_, value)| value.trim().parse().ok()).unwrap_or_default()
}
