//! Texts that have to fit: on one line, or within a number of characters. Pure. Not here: messages
//! that are split for platforms, of which nothing is lost (`channels::text`).

/// Returns a text on one line: each run of white space becomes one space.
pub fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the first `max` characters of a text, or all if it has fewer.
pub fn first_chars(text: &str, max: usize) -> &str {
    text.char_indices().nth(max).map_or(text, |(end, _)| &text[..end])
}

/// Returns a text, or its first `max` characters and `…` if it has more.
pub fn shortened(text: &str, max: usize) -> String {
    let first = first_chars(text, max);
    match first.len() == text.len() {
        true => text.to_owned(),
        false => format!("{}…", first.trim_end()),
    }
}
