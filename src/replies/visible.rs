//! Shows a text to somebody who decides about it: whole, and with nothing in it that cannot be seen.

use std::fmt::Write as _;

use crate::short_text::{EMOJI_SELECTOR, is_invisible, joins_emoji};

/// White space in a row that is shown as it is: as deep as code is indented.
const SPACES_MAX: usize = 24;

/// Line breaks in a row that are shown as they are.
const BREAKS_MAX: usize = 4;

/// Line breaks, also as JSON writes them.
const LINE_BREAKS: [&str; 4] = ["\n", "\\n", "\\u000a", "\\u000A"];

/// A text with its invisible characters named, and long runs of white space counted, so that nothing is pushed
/// out of sight. JSON's own words for white space count, too.
pub(super) fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let (length, units) = spaces(rest);
        match units {
            0 => {
                let mut signs = rest.chars();
                let sign = signs.next().expect("it is not empty");
                let is_stray =
                    sign == EMOJI_SELECTOR && !joins_emoji(shown.chars().next_back(), signs.next());
                if is_invisible(sign) || is_stray {
                    write!(shown, "⟨U+{:04X}⟩", u32::from(sign)).expect("a string takes all");
                } else {
                    shown.push(sign);
                }
                rest = &rest[sign.len_utf8()..];
            }
            _ => {
                push_spaces(&mut shown, &rest[..length], units);
                rest = &rest[length..];
            }
        }
    }
    shown
}

/// A unified diff in the same form. Its blank lines are counted as well: a sign stands before each of them.
pub(super) fn visible_diff(diff: &str) -> String {
    let lines: Vec<&str> = diff.split('\n').collect();
    let runs = lines.chunk_by(|line, next| {
        blank_line_sign(line).is_some() && blank_line_sign(line) == blank_line_sign(next)
    });
    let written = runs.map(|run| match run.first().and_then(|line| blank_line_sign(line)) {
        Some(sign) if run.len() > BREAKS_MAX => format!("{sign}⟨{} blank lines⟩", run.len()),
        _ => run.join("\n"),
    });
    visible(&written.collect::<Vec<_>>().join("\n"))
}

/// Returns the sign before a blank line of a diff. None for other lines.
fn blank_line_sign(line: &str) -> Option<char> {
    let sign = line.chars().next().filter(|sign| ['+', '-', ' '].contains(sign))?;
    line[1..].trim().is_empty().then_some(sign)
}

/// Adds white space as it is, or counted if it is long. Line breaks are always named: what follows them is a new line
/// for whoever reads the text later, such as a shell.
fn push_spaces(shown: &mut String, white: &str, units: usize) {
    let breaks = LINE_BREAKS.iter().map(|word| white.matches(word).count()).sum::<usize>();
    let written = match (units, breaks) {
        (..=SPACES_MAX, ..=BREAKS_MAX) => write!(shown, "{white}"),
        (_, 0) => write!(shown, "⟨{units} spaces⟩"),
        (_, breaks) if breaks == units => writeln!(shown, "⟨{breaks} line breaks⟩"),
        (_, breaks) => writeln!(shown, "⟨{breaks} line breaks, {} spaces⟩", units - breaks),
    };
    written.expect("a string takes all");
}

/// The white space that a text begins with: its bytes, and how many characters it stands for.
fn spaces(text: &str) -> (usize, usize) {
    const PLAIN: [&str; 4] = [" ", "\t", "\n", "\r"];
    const WRITTEN: [&str; 12] = [
        "\\n", "\\t", "\\r", "\\f", "\\u0020", "\\u0009", "\\u000a", "\\u000A", "\\u000d",
        "\\u000D", "\\u00a0", "\\u00A0",
    ];
    let (mut length, mut units) = (0, 0);
    while let Some(unit) =
        PLAIN.iter().chain(&WRITTEN).find(|unit| text[length..].starts_with(**unit))
    {
        length += unit.len();
        units += 1;
    }
    (length, units)
}
