//! Shows a text to somebody who decides about it: whole, and with nothing in it that cannot be seen.

use std::fmt::Write as _;

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

/// Returns true for what takes no room, or looks like a space and is none: controls, formats such as zero-width
/// and bidi marks, tags, fillers, and variation selectors but the one of emoji (Unicode 16, Default_Ignorable and
/// White_Space).
pub fn is_invisible(sign: char) -> bool {
    if sign.is_control() {
        return !matches!(sign, '\n' | '\t' | '\r');
    }
    matches!(sign,
        '\u{a0}' | '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{1680}'
        | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}' | '\u{2000}'..='\u{200f}'
        | '\u{2028}'..='\u{202f}' | '\u{205f}'..='\u{206f}' | '\u{2800}' | '\u{3000}' | '\u{3164}'
        | '\u{fe00}'..='\u{fe0e}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
        | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}
