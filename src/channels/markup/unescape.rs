//! Markdown for people who read it as it is written: without backslash escapes (CommonMark, section 2.4), which only a
//! renderer takes away.

/// Returns the text without its backslash escapes. Code keeps its backslashes: there they mean themselves. The result of
/// the beginning of a text is the beginning of its result, but for a backslash at the very end.
pub fn unescaped(markdown: &str) -> String {
    let mut out = String::with_capacity(markdown.len());
    let mut fence: Option<String> = None;
    let mut span = 0;
    for line in markdown.split_inclusive('\n') {
        let begins = line.trim_start();
        let ticks = fence_of(begins);
        if let Some(open) = &fence {
            if begins.starts_with(open.as_str())
                && begins.trim_end().trim_matches(['`', '~']).is_empty()
            {
                fence = None;
            }
            out.push_str(line);
        } else if !ticks.is_empty() {
            fence = Some(ticks.to_owned());
            out.push_str(line);
        } else {
            if begins.is_empty() {
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
    while let Some(sign) = rest.chars().next() {
        let ticks = rest.len() - rest.trim_start_matches('`').len();
        let escaped = rest[sign.len_utf8()..].chars().next();
        let taken = if ticks > 0 {
            span = match span {
                0 => ticks,
                open if open == ticks => 0,
                open => open,
            };
            &rest[..ticks]
        } else if sign == '\\' && span == 0 && escaped.is_some_and(|it| it.is_ascii_punctuation()) {
            rest = &rest[1..];
            &rest[..1]
        } else {
            &rest[..sign.len_utf8()]
        };
        out.push_str(taken);
        rest = &rest[taken.len()..];
    }
    span
}
