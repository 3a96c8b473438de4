//! Lines of the control socket. A client's are bounded in length, and ours in time.

use std::io;
use std::time::Duration;

use serde::Serialize;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::time::timeout;

/// The longest line of a client, in bytes: a text of `peacrab send` with each byte escaped.
pub const LINE_BYTES_MAX: usize = 1024 * 1024;

/// Reads lines. A part of a line that was read is kept when `next` is dropped.
pub(super) struct BoundedLines<R> {
    reader: BufReader<R>,
    line: Vec<u8>,
}

impl<R: AsyncRead + Unpin> BoundedLines<R> {
    pub(super) fn new(reader: R) -> Self {
        Self { reader: BufReader::new(reader), line: Vec::new() }
    }

    /// Returns the next line. None at the end.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidData`] if a line is longer than [`LINE_BYTES_MAX`] or not UTF-8. Nothing can be
    /// read after it.
    pub(super) async fn next(&mut self) -> io::Result<Option<String>> {
        loop {
            let bytes = self.reader.fill_buf().await?;
            if bytes.is_empty() && self.line.is_empty() {
                return Ok(None);
            }
            let newline = bytes.iter().position(|byte| *byte == b'\n');
            let taken = newline.unwrap_or(bytes.len());
            if self.line.len() + taken > LINE_BYTES_MAX {
                let message = format!("a line is longer than {LINE_BYTES_MAX} bytes");
                return Err(io::Error::new(io::ErrorKind::InvalidData, message));
            }
            self.line.extend_from_slice(&bytes[..taken]);
            let is_end = bytes.is_empty() || newline.is_some();
            self.reader.consume(taken + usize::from(newline.is_some()));
            if is_end {
                let line = std::mem::take(&mut self.line);
                let line = String::from_utf8(line);
                return line.map(Some).map_err(|_| {
                    io::Error::new(io::ErrorKind::InvalidData, "a line is not UTF-8")
                });
            }
        }
    }
}

/// Maximum time to write a line. A client that reads nothing for longer is gone.
const WRITE_TIME_MAX: Duration = Duration::from_secs(30);

/// Writes a line of JSON.
pub(super) async fn write_line(
    out: &mut (impl AsyncWrite + Unpin),
    line: &impl Serialize,
) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(line).expect("our own types have string keys");
    line.push(b'\n');
    let write = async {
        out.write_all(&line).await?;
        out.flush().await
    };
    timeout(WRITE_TIME_MAX, write).await.map_err(|_| std::io::ErrorKind::TimedOut)?
}
