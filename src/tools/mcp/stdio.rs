//! JSON-RPC over a program's pipes, one message per line. Our own code for two reasons: a line has a bound, so
//! that only the call of a longer line fails and the program stays; and some programs print other lines, too.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, ErrorData, RequestId, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{ChildStdin, ChildStdout};

use super::RESULT_BYTES_MAX;
use super::flood::UnsolicitedBudget;
use super::process::Pipes;

/// Bytes at each end of an oversized message in which its id is searched.
const EDGE_BYTES: usize = 200;

/// Maximum number of open requests. The oldest were given up long ago.
const OPEN_MAX: usize = 64;

pub(super) struct Stdio {
    server: String,
    lines: MessageLines,
    stdin: Arc<tokio::sync::Mutex<Option<ChildStdin>>>,
    /// Requests without an answer. A mutex, because sending and receiving are two tasks.
    open: Arc<Mutex<VecDeque<RequestId>>>,
    /// Answers that are generated here, in place of unreadable ones.
    ready: VecDeque<ServerJsonRpcMessage>,
    unasked: UnsolicitedBudget,
}

impl Stdio {
    pub(super) fn new(server: &str, pipes: Pipes) -> Self {
        let (stdout, stdin) = pipes;
        Self {
            server: server.to_owned(),
            lines: MessageLines::new(stdout),
            stdin: Arc::new(tokio::sync::Mutex::new(Some(stdin))),
            open: Arc::default(),
            ready: VecDeque::new(),
            unasked: UnsolicitedBudget::new(),
        }
    }

    /// Parses a message. None if the line is not one.
    fn parse_line(&mut self, line: MessageLine) -> Option<ServerJsonRpcMessage> {
        let text = match line {
            MessageLine::Whole(text) => text,
            MessageLine::TooLong { begin, end } => {
                self.fail_calls(&begin, &end);
                return self.ready.pop_front();
            }
        };
        if text.iter().all(u8::is_ascii_whitespace) {
            return None;
        }
        let message = match serde_json::from_slice(&text) {
            Ok(message) => message,
            Err(error) => {
                tracing::debug!(server = self.server, %error, "An MCP server printed an invalid message");
                return None;
            }
        };
        let id = match &message {
            ServerJsonRpcMessage::Response(response) => Some(&response.id),
            ServerJsonRpcMessage::Error(error) => error.id.as_ref(),
            _ => None,
        };
        if let Some(id) = id {
            lock_open(&self.open).retain(|open| open != id);
        }
        Some(message)
    }

    /// Fails the calls to which an oversized message may belong.
    fn fail_calls(&mut self, begin: &[u8], end: &[u8]) {
        let (begin, end) = (String::from_utf8_lossy(begin), String::from_utf8_lossy(end));
        let mut open = lock_open(&self.open);
        let is_in_message = |id: &RequestId| {
            let id = serde_json::to_string(id).unwrap_or_default();
            let forms = [format!("\"id\":{id}"), format!("\"id\": {id}")];
            // Not the beginning of a longer number.
            let ends = |rest: &str| !rest.starts_with(|c: char| c.is_ascii_digit());
            forms.iter().any(|form| {
                let occurs_in = |text: &str| {
                    text.match_indices(form.as_str()).any(|(at, _)| ends(&text[at + form.len()..]))
                };
                occurs_in(&begin) || occurs_in(&end)
            })
        };
        let mut failed: Vec<_> = open.iter().filter(|id| is_in_message(id)).cloned().collect();
        if failed.is_empty() {
            failed.extend(open.iter().cloned());
        }
        open.retain(|id| !failed.contains(id));
        tracing::debug!(server = self.server, calls = failed.len(), "An MCP server sent too much");
        self.ready.extend(failed.into_iter().map(too_large));
    }
}

/// Returns the answer that replaces an oversized one.
pub(super) fn too_large(id: RequestId) -> ServerJsonRpcMessage {
    let message =
        format!("the result is larger than {} MB; ask for less", RESULT_BYTES_MAX / 1_000_000);
    ServerJsonRpcMessage::error(ErrorData::internal_error(message, None), Some(id))
}

fn lock_open(open: &Mutex<VecDeque<RequestId>>) -> std::sync::MutexGuard<'_, VecDeque<RequestId>> {
    open.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Transport<RoleClient> for Stdio {
    type Error = io::Error;

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        if let ClientJsonRpcMessage::Request(request) = &message {
            let mut open = lock_open(&self.open);
            open.push_back(request.id.clone());
            if open.len() > OPEN_MAX {
                open.pop_front();
            }
        }
        let stdin = Arc::clone(&self.stdin);
        async move {
            let mut line = serde_json::to_vec(&message)?;
            line.push(b'\n');
            let mut stdin = stdin.lock().await;
            let Some(stdin) = stdin.as_mut() else {
                return Err(io::ErrorKind::NotConnected.into());
            };
            stdin.write_all(&line).await?;
            stdin.flush().await
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            if let Some(ready) = self.ready.pop_front() {
                return Some(ready);
            }
            let line = self.lines.next().await?;
            let (bytes, before) = (line.bytes(), lock_open(&self.open).len());
            let message = self.parse_line(line);
            let is_answer = lock_open(&self.open).len() < before;
            if !is_answer && !self.unasked.take(bytes) {
                tracing::warn!(
                    server = self.server,
                    "An MCP server says too much unasked, will disconnect it"
                );
                return None;
            }
            if let Some(message) = message {
                return Some(message);
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        // A write that hangs keeps the lock. The pipe then ends with its task.
        if let Ok(mut stdin) = self.stdin.try_lock() {
            stdin.take();
        }
        Ok(())
    }
}

/// Reads bounded lines. A partly read line is kept when `next` is dropped.
struct MessageLines {
    stdout: BufReader<ChildStdout>,
    line: Vec<u8>,
    /// The last bytes of a line that is too long.
    end: Option<VecDeque<u8>>,
}

enum MessageLine {
    Whole(Vec<u8>),
    TooLong { begin: Vec<u8>, end: Vec<u8> },
}

impl MessageLine {
    fn bytes(&self) -> usize {
        match self {
            Self::Whole(line) => line.len(),
            Self::TooLong { .. } => RESULT_BYTES_MAX,
        }
    }
}

impl MessageLines {
    fn new(stdout: ChildStdout) -> Self {
        Self { stdout: BufReader::new(stdout), line: Vec::new(), end: None }
    }

    async fn next(&mut self) -> Option<MessageLine> {
        loop {
            let bytes = self.stdout.fill_buf().await.ok().filter(|bytes| !bytes.is_empty())?;
            let newline = bytes.iter().position(|byte| *byte == b'\n');
            let taken = newline.unwrap_or(bytes.len());
            let fits = self.line.len() + taken <= RESULT_BYTES_MAX;
            match &mut self.end {
                None if fits => self.line.extend_from_slice(&bytes[..taken]),
                None => {
                    let end = self.line.len().saturating_sub(EDGE_BYTES);
                    let mut end: VecDeque<u8> = self.line[end..].iter().copied().collect();
                    end.extend(&bytes[..taken]);
                    end.drain(..end.len().saturating_sub(EDGE_BYTES));
                    self.end = Some(end);
                    self.line.truncate(EDGE_BYTES);
                }
                Some(end) => {
                    end.extend(&bytes[..taken]);
                    end.drain(..end.len().saturating_sub(EDGE_BYTES));
                }
            }
            self.stdout.consume(taken + usize::from(newline.is_some()));
            if newline.is_some() {
                let line = std::mem::take(&mut self.line);
                return Some(match self.end.take() {
                    None => MessageLine::Whole(line),
                    Some(end) => MessageLine::TooLong { begin: line, end: end.into() },
                });
            }
        }
    }
}
