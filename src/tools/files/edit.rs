//! Changing text as `edit_file` and `append_file` do: pure, without a file.

/// Where the nearest line is looked for: comparing is slow, and this is a hint only.
const NEAREST_LINES_MAX: usize = 5_000;
const NEAREST_CHARS_MAX: usize = 200;
/// Of [`strsim::normalized_levenshtein`]: below this, a line is not what was meant.
const NEAREST_SIMILARITY_MIN: f64 = 0.5;

/// `text` with `old` replaced by `new`, everywhere if `all`, or words on why not. Line
/// ends stay as the file has them.
pub(super) fn replaced(text: &str, old: &str, new: &str, all: bool) -> Result<String, String> {
    let (old, new) = (like(text, old), like(text, new));
    if old.is_empty() {
        return Err("`old` is empty; give the text to replace, or use append_file.".to_owned());
    }
    match text.matches(&old).count() {
        0 => Err(format!("`old` does not occur. {}", nearest(text, &old))),
        1 => Ok(text.replacen(&old, &new, 1)),
        _ if all => Ok(text.replace(&old, &new)),
        count => Err(format!(
            "`old` occurs {count} times. Give more of the text around it, so that it \
             occurs once, or set `all`."
        )),
    }
}

/// `text` with `content` on lines of its own after it.
pub(super) fn appended(mut text: String, content: &str) -> String {
    let content = like(&text, content);
    if !text.is_empty() && !text.ends_with('\n') {
        text.push_str(if text.contains("\r\n") { "\r\n" } else { "\n" });
    }
    text + &content
}

/// `piece` with the line ends of `text`, if those are all CRLF.
fn like(text: &str, piece: &str) -> String {
    let crlf = text.matches("\r\n").count();
    if crlf > 0 && crlf == text.matches('\n').count() {
        piece.replace("\r\n", "\n").replace('\n', "\r\n")
    } else {
        piece.to_owned()
    }
}

/// Which line looks most like the first of `old`.
fn nearest(text: &str, old: &str) -> String {
    let short = |line: &str| line.trim().chars().take(NEAREST_CHARS_MAX).collect::<String>();
    let wanted = old.lines().find(|line| !line.trim().is_empty()).map(short).unwrap_or_default();
    let (mut best, mut found) = (NEAREST_SIMILARITY_MIN, None);
    for (n, line) in text.lines().take(NEAREST_LINES_MAX).enumerate() {
        let line = short(line);
        let similarity = strsim::normalized_levenshtein(&wanted, &line);
        if similarity > best {
            (best, found) = (similarity, Some((n + 1, line)));
        }
    }
    match found {
        Some((n, line)) => format!("The nearest is line {n}: `{line}`. Spaces and case count."),
        None => "Read the file to see what it says now.".to_owned(),
    }
}
