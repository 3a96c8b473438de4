//! Finds the end of a block in a text that arrives in pieces. A closer inside a JSON string does not
//! count.

use super::forms::{BlockEnd, CallForm};

/// Searches for the end of a block, without reading a byte twice.
pub(super) struct Finder {
    pub(super) rule: BlockEnd,
    next: usize,
    /// The first byte that is not blank.
    first: Option<u8>,
    is_json: bool,
    in_string: bool,
    escaped: bool,
    depth: usize,
    /// The first closer inside a string.
    pub(super) quoted_closer: Option<usize>,
}

impl Finder {
    pub(super) fn new(form: CallForm, body: usize) -> Self {
        Self {
            rule: form.ends(),
            next: body,
            first: None,
            is_json: false,
            in_string: false,
            escaped: false,
            depth: 0,
            quoted_closer: None,
        }
    }

    pub(super) fn closer(&self) -> Option<&'static str> {
        match self.rule {
            BlockEnd::Closer(closer) => Some(closer),
            BlockEnd::Value | BlockEnd::Never => None,
        }
    }

    pub(super) fn closer_length(&self) -> usize {
        self.closer().map_or(0, str::len)
    }

    /// Returns the end of the body, and of the block.
    pub(super) fn find(&mut self, bytes: &[u8]) -> Option<(usize, usize)> {
        while let Some(&byte) = bytes.get(self.next) {
            if let BlockEnd::Closer(closer) = self.rule {
                let rest = &bytes[self.next..];
                let length = rest.len().min(closer.len());
                if rest[..length].eq_ignore_ascii_case(&closer.as_bytes()[..length]) {
                    if length < closer.len() {
                        return None;
                    }
                    if !self.in_string {
                        return Some((self.next, self.next + length));
                    }
                    self.quoted_closer.get_or_insert(self.next);
                }
            }
            self.next += 1;
            if self.pass(byte) && self.rule == BlockEnd::Value {
                return Some((self.next, self.next));
            }
        }
        None
    }

    /// Tracks JSON. Returns true if a value ends with this byte.
    fn pass(&mut self, byte: u8) -> bool {
        if self.first.is_none() && !byte.is_ascii_whitespace() {
            self.first = Some(byte);
        }
        let opens = match self.rule {
            // A name with `[ARGS]` after it may precede the value.
            BlockEnd::Value => {
                byte == b'{' || byte == b'[' && (self.is_json || self.first == Some(b'['))
            }
            BlockEnd::Closer(_) | BlockEnd::Never => {
                matches!(byte, b'{' | b'[') && matches!(self.first, Some(b'{' | b'[' | b'`'))
            }
        };
        match byte {
            _ if self.escaped => self.escaped = false,
            b'\\' if self.in_string => self.escaped = true,
            b'"' if self.is_json => self.in_string = !self.in_string,
            _ if self.in_string => {}
            _ if opens => {
                self.is_json = true;
                self.depth += 1;
            }
            b'}' | b']' if self.is_json => {
                self.depth = self.depth.saturating_sub(1);
                return self.depth == 0;
            }
            _ => {}
        }
        false
    }
}
