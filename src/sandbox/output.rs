//! Bounded output of a command: the beginning and the end are kept.

/// Maximum size of the kept beginning, in bytes, for whoever wants the whole output.
pub const WHOLE_BYTES_MAX: usize = 1024 * 1024;

/// Size of the kept end, in bytes, if the beginning does not reach it. Twice that is held for a while.
const TAIL_BYTES_MAX: usize = 64 * 1024;

#[derive(Debug, Default)]
pub struct KeptOutput {
    head: Vec<u8>,
    tail: Vec<u8>,
    total: u64,
}

impl KeptOutput {
    pub fn take(&mut self, piece: &[u8]) {
        self.total += piece.len() as u64;
        let head_left = WHOLE_BYTES_MAX - self.head.len();
        let (head, rest) = piece.split_at(piece.len().min(head_left));
        self.head.extend_from_slice(head);
        self.tail.extend_from_slice(rest);
        if self.tail.len() > 2 * TAIL_BYTES_MAX {
            self.tail.drain(..self.tail.len() - TAIL_BYTES_MAX);
        }
    }

    /// Returns the number of all bytes of the output.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Returns the number of bytes that are missing between the beginning and the end.
    pub fn missing(&self) -> u64 {
        self.total - (self.head.len() + self.tail.len()) as u64
    }

    /// Returns the output at `from` and later: before the gap, and after it.
    pub fn since(&self, from: u64) -> (&[u8], &[u8]) {
        let skip = |from: u64, length: usize| usize::try_from(from).unwrap_or(length).min(length);
        let tail_at = self.total - self.tail.len() as u64;
        let tail = skip(from.saturating_sub(tail_at), self.tail.len());
        (&self.head[skip(from, self.head.len())..], &self.tail[tail..])
    }

    /// Returns the whole output, with a line in place of missing bytes.
    pub fn whole(&self) -> Vec<u8> {
        let (head, tail) = self.since(0);
        let mut all = head.to_vec();
        if self.missing() > 0 {
            all.extend(format!("\n[{} bytes are left out]\n", self.missing()).into_bytes());
        }
        all.extend(tail);
        all
    }
}
