//! Removes backslash escapes (CommonMark, section 2.4) from Markdown that people read without a renderer.

/// Returns the text without its backslash escapes. Code keeps its backslashes, which are literal there. The result for a
/// prefix of a text is a prefix of the result, except for a backslash at its end.
pub fn unescaped(markdown: &str) -> String {
    let mut out = String::with_capacity(markdown.len());
    let mut fence: Option<String> = None;
    let mut span = 0;
    for line in markdown.split_inclusive('\n') {
        let trimmed = line.trim_start();
        let marker = fence_of(trimmed);
        if let Some(open) = &fence {
            if trimmed.starts_with(open.as_str())
                && trimmed.trim_end().trim_matches(['`', '~']).is_empty()
            {
                fence = None;
            }
            out.push_str(line);
        } else if !marker.is_empty() {
            fence = Some(marker.to_owned());
            out.push_str(line);
        } else {
            if trimmed.is_empty() {
                span = 0;
            }
            span = unescape_line(line, span, &mut out);
        }
    }
    out
}

/// Returns the signs with which a line opens a fence, or nothing.
fn fence_of(line: &str) -> &str {
    let sign = if line.starts_with("~~~") { '~' } else { '`' };
    let length = line.len() - line.trim_start_matches(sign).len();
    if length >= 3 { &line[..length] } else { "" }
}

/// Appends a line; `span` backticks have opened a code span before it. Returns how many have at its end.
fn unescape_line(line: &str, mut span: usize, out: &mut String) -> usize {
    let mut rest = line;
    while let Some(char) = rest.chars().next() {
        let ticks = rest.len() - rest.trim_start_matches('`').len();
        let escaped = rest[char.len_utf8()..].chars().next();
        let piece = if ticks > 0 {
            span = match span {
                0 => ticks,
                open if open == ticks => 0,
                open => open,
            };
            &rest[..ticks]
        } else if char == '\\' && span == 0 && escaped.is_some_and(|it| it.is_ascii_punctuation()) {
            rest = &rest[1..];
            &rest[..1]
        } else {
            &rest[..char.len_utf8()]
        };
        out.push_str(piece);
        rest = &rest[piece.len()..];
    }
    span
}
