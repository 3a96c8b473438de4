//! Shows a text to somebody who decides about it: whole, and with nothing in it that cannot be seen.

use std::fmt::Write as _;

use crate::short_text::is_invisible;

/// White space in a row that is shown as it is: as deep as code is indented.
const SPACES_MAX: usize = 24;

/// A text with its invisible characters named, and long runs of white space counted, so that nothing is pushed
/// out of sight. JSON's own words for white space count, too.
pub(super) fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let (length, units) = spaces(rest);
        match units {
            0 => {
                let sign = rest.chars().next().expect("it is not empty");
                if is_invisible(sign) {
                    write!(shown, "⟨U+{:04X}⟩", u32::from(sign)).expect("a string takes all");
                } else {
                    shown.push(sign);
                }
                rest = &rest[sign.len_utf8()..];
            }
            1..=SPACES_MAX => {
                shown.push_str(&rest[..length]);
                rest = &rest[length..];
            }
            _ => {
                write!(shown, "⟨{units} spaces⟩").expect("a string takes all");
                rest = &rest[length..];
            }
        }
    }
    shown
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
