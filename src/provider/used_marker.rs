//! The mark at the end of an answer that names the facts of the prompt it rests on: `[used #1 #4]`. It is removed
//! from the text before anybody sees a part of it. Pure.

/// Asks for the mark. It follows the facts in the system prompt.
const ASK: &str =
    "If an answer rests on facts (#1), end it with a line that nobody sees: [used #1 #2].";

/// The beginning of the mark.
const BEGINS: &str = "[used ";

/// Maximum length of a mark, in bytes. A longer text in brackets is a text.
const MARK_BYTES_MAX: usize = 400;

/// Returns a system prompt that asks for the mark.
pub fn system_asking(system: &[String]) -> Vec<String> {
    let mut system = system.to_vec();
    match system.last_mut() {
        Some(last) => {
            last.push_str("\n\n");
            last.push_str(ASK);
        }
        None => system.push(ASK.to_owned()),
    }
    system
}

/// Removes the mark from a text that arrives in pieces.
#[derive(Debug, Default)]
pub(super) struct UsedMarkFilter {
    /// The end of the text, which may become the mark.
    held: String,
}

impl UsedMarkFilter {
    /// Adds a piece. Returns the text before a possible mark.
    pub(super) fn push(&mut self, piece: &str) -> String {
        self.held.push_str(piece);
        let mark_start = self.held.rfind('[').filter(|at| may_become_mark(&self.held[*at..]));
        let text = mark_start.map_or(&*self.held, |at| &self.held[..at]);
        let end = text.trim_end().len();
        let rest = self.held.split_off(end);
        std::mem::replace(&mut self.held, rest)
    }

    /// Ends the text. Returns the rest of it, and the numbers of the facts of its mark.
    pub(super) fn end(&mut self) -> (String, Vec<i64>) {
        let rest = std::mem::take(&mut self.held);
        match numbers(rest.trim()) {
            Some(used) => (String::new(), used),
            None => (rest, Vec::new()),
        }
    }
}

/// Returns true if a text from a bracket on is a mark, or the beginning of one.
fn may_become_mark(text: &str) -> bool {
    let text = text.trim_end();
    if text.len() > MARK_BYTES_MAX {
        return false;
    }
    match text.strip_prefix(BEGINS) {
        None => BEGINS.starts_with(text) || text == BEGINS.trim_end(),
        Some(rest) => {
            let inside = rest.strip_suffix(']').unwrap_or(rest);
            inside.chars().all(|sign| sign.is_ascii_digit() || matches!(sign, '#' | ' ' | ','))
        }
    }
}

/// Returns the numbers in a whole mark. None if it is not one.
fn numbers(mark: &str) -> Option<Vec<i64>> {
    let inside = mark.strip_prefix(BEGINS)?.strip_suffix(']')?;
    let words = inside.split([' ', ',']).filter(|word| !word.is_empty());
    words.map(|word| word.trim_start_matches('#').parse().ok()).collect()
}
