//! Text changes of `edit_file` and `append_file`. Pure, without a file.

/// Maximum number of lines in the search for the nearest one: comparing is slow, and it is only a hint.
const NEAREST_LINES_MAX: usize = 5_000;
const NEAREST_CHARS_MAX: usize = 200;
/// Minimum [`strsim::normalized_levenshtein`] similarity. Below it, a line is not a plausible match.
const NEAREST_SIMILARITY_MIN: f64 = 0.5;

/// Replaces `old` by `new` in `text`, everywhere if `all`. Returns an explanation if that fails. Line
/// ends stay as in the file.
pub(super) fn replaced(text: &str, old: &str, new: &str, all: bool) -> Result<String, String> {
    let (old, new) = (with_line_ends_of(text, old), with_line_ends_of(text, new));
    check_old(&old)?;
    match text.matches(&old).count() {
        0 => Err(format!("`old` does not occur. {}", describe_nearest_line(text, &old))),
        1 => Ok(text.replacen(&old, &new, 1)),
        _ if all => Ok(text.replace(&old, &new)),
        count => Err(format!(
            "`old` occurs {count} times. Give more of the text around it, so that it \
             occurs once, or set `all`."
        )),
    }
}

/// Returns an error if there is no text to look for.
pub(super) fn check_old(old: &str) -> Result<(), String> {
    match old.is_empty() {
        true => Err("`old` is empty; give the text to replace, or use append_file.".to_owned()),
        false => Ok(()),
    }
}

/// Appends `content` on new lines.
pub(super) fn appended(mut text: String, content: &str) -> String {
    let content = with_line_ends_of(&text, content);
    if !text.is_empty() && !text.ends_with('\n') {
        text.push_str(if text.contains("\r\n") { "\r\n" } else { "\n" });
    }
    text + &content
}

/// Returns `piece` with CRLF line ends if `text` has only those.
fn with_line_ends_of(text: &str, piece: &str) -> String {
    let crlf = text.matches("\r\n").count();
    if crlf > 0 && crlf == text.matches('\n').count() {
        piece.replace("\r\n", "\n").replace('\n', "\r\n")
    } else {
        piece.to_owned()
    }
}

/// Describes the line that is most similar to the first line of `old`.
fn describe_nearest_line(text: &str, old: &str) -> String {
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
        Some((n, line)) => {
            format!("The nearest is line {n}: `{line}`. Spaces and case count.")
        }
        None => "Read the file to see what it says now.".to_owned(),
    }
}
