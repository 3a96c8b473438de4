//! Texts that have to fit: on one line, or within a number of characters, and names that others chose. Pure. Not here:
//! messages that are split for platforms, of which nothing is lost (`channels::text`).

use std::fmt::Write as _;

/// Maximum length of a name in a prompt, a question or a list, in characters.
pub const NAME_CHARS_MAX: usize = 40;

/// The variation selector of emoji. It is part of ordinary texts, and distinguishes nothing in a name.
pub const EMOJI_SELECTOR: char = '\u{fe0f}';

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

/// Returns the name of a person, group, file or conversation as it may stand in a prompt or a question, whoever chose it:
/// on one line, at most [`NAME_CHARS_MAX`] characters, and without invisible ones. None if nothing is left.
pub fn clean_name(name: &str) -> Option<String> {
    let line = visible_line(name);
    let name = first_chars(&line, NAME_CHARS_MAX).trim_end();
    (!name.is_empty()).then(|| name.to_owned())
}

/// Returns a text on one line, with plain spaces, and without controls, marks of direction, zero-width characters,
/// variation selectors and tags.
pub fn visible_line(text: &str) -> String {
    let shown = |sign: char| match sign {
        sign if sign.is_whitespace() => Some(' '),
        sign if sign.is_control() || sign == EMOJI_SELECTOR || is_invisible(sign) => None,
        sign => Some(sign),
    };
    one_line(&text.chars().filter_map(shown).collect::<String>())
}

/// Returns a path with its invisible characters written as in JSON (`\u202e`), so that a model sees each and can name
/// the file exactly.
pub fn escaped_path(path: &str) -> String {
    let mut shown = String::with_capacity(path.len());
    for sign in path.chars() {
        if is_invisible(sign) {
            for unit in sign.encode_utf16(&mut [0; 2]) {
                write!(shown, "\\u{unit:04x}").expect("a string takes all");
            }
        } else {
            shown.push(sign);
        }
    }
    shown
}

/// Returns true for what takes no room, or looks like a space and is none: controls, formats such as zero-width
/// and bidi marks, tags, fillers, and variation selectors but the one of emoji (Unicode 16, Cf, Default_Ignorable and
/// White_Space; also the blank braille pattern, the blank notehead and the object replacement character).
pub fn is_invisible(sign: char) -> bool {
    if sign.is_control() {
        return !matches!(sign, '\n' | '\t' | '\r');
    }
    matches!(sign,
        '\u{a0}' | '\u{ad}' | '\u{34f}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}'
        | '\u{890}'..='\u{891}' | '\u{8e2}' | '\u{115f}'..='\u{1160}' | '\u{1680}'
        | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}' | '\u{2000}'..='\u{200f}'
        | '\u{2028}'..='\u{202f}' | '\u{205f}'..='\u{206f}' | '\u{2800}' | '\u{3000}' | '\u{3164}'
        | '\u{fe00}'..='\u{fe0e}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffc}'
        | '\u{110bd}' | '\u{110cd}' | '\u{13430}'..='\u{1343f}' | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d159}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// Returns true if an emoji selector between these characters is part of an emoji or a keycap. Anywhere else it only
/// hides (Unicode 16, emoji-variation-sequences.txt, by blocks).
pub fn joins_emoji(before: Option<char>, after: Option<char>) -> bool {
    match before {
        Some('0'..='9' | '#' | '*') => after == Some('\u{20e3}'),
        Some(sign) => matches!(sign,
            '\u{a9}' | '\u{ae}' | '\u{203c}' | '\u{2049}' | '\u{2122}' | '\u{2139}'
            | '\u{2194}'..='\u{21aa}' | '\u{231a}'..='\u{2328}' | '\u{23cf}'..='\u{23fa}' | '\u{24c2}'
            | '\u{25aa}'..='\u{25fe}' | '\u{2600}'..='\u{27bf}' | '\u{2934}'..='\u{2935}'
            | '\u{2b05}'..='\u{2b55}' | '\u{3030}' | '\u{303d}' | '\u{3297}' | '\u{3299}'
            | '\u{1f000}'..='\u{1faff}'),
        None => false,
    }
}

/// Returns true for what reorders or hides text on a screen: marks of direction, zero-width characters and tags. Joiners
/// and variation selectors are not among them, because scripts and emoji need them.
pub fn reorders_or_hides(sign: char) -> bool {
    matches!(sign,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}'..='\u{200f}'
        | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e007f}')
}
