//! Bounded output of a command: the beginning and the end are kept.

/// The beginning, for whoever wants it whole.
pub const WHOLE_BYTES_MAX: usize = 1024 * 1024;

/// The end, where the beginning does not reach it; twice that is held for a while.
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
        let room = WHOLE_BYTES_MAX - self.head.len();
        let (head, rest) = piece.split_at(piece.len().min(room));
        self.head.extend_from_slice(head);
        self.tail.extend_from_slice(rest);
        if self.tail.len() > 2 * TAIL_BYTES_MAX {
            self.tail.drain(..self.tail.len() - TAIL_BYTES_MAX);
        }
    }

    /// Bytes that there were.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Bytes that are missing between the beginning and the end.
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

    /// The whole, with a line in place of what is missing.
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
