//! Lines of a client of the control socket, bounded in length.

use std::io;

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

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

    /// The next line; none at the end.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidData`] if a line is longer than [`LINE_BYTES_MAX`] or no UTF-8: nothing can be
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
                let words = format!("a line is longer than {LINE_BYTES_MAX} bytes");
                return Err(io::Error::new(io::ErrorKind::InvalidData, words));
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
