//! Reads an answer in the form of the schema, `{"text":…,"used":[…]}`, while it arrives: the text for people, and the
//! numbers of the facts that it rests on. Lenient: an answer of any other form is a text. Pure.

use super::StopReason;

/// Maximum bytes before the text or the facts. An answer with a longer beginning is not of the form.
const BEGINNING_BYTES_MAX: usize = 64 * 1024;

/// Characters of a key that are kept: more than the two known keys have.
const KEY_CHARS_MAX: usize = 8;

/// Digits of the largest id.
const DIGITS_MAX: usize = 19;

/// Replaces an unpaired surrogate, and an escape without its digits.
const UNREADABLE: char = char::REPLACEMENT_CHARACTER;

/// Reads an answer in pieces.
#[derive(Debug)]
pub struct AnswerReader {
    /// The facts that the model was shown. Others do not count.
    shown: Vec<i64>,
    used: Vec<i64>,
    place: JsonPlace,
    /// The text that was read before the answer turned out to be of the form.
    beginning: String,
    key: String,
    digits: String,
    escape: JsonEscape,
    /// The high surrogate of a pair whose low one has not arrived.
    high_surrogate: Option<u32>,
    /// True once a field of the form was found.
    is_of_form: bool,
    has_text: bool,
}

/// The position in the JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum JsonPlace {
    Start,
    /// The answer is not JSON.
    Plain,
    BeforeKey,
    Key,
    BeforeColon,
    BeforeValue,
    Text,
    Used,
    /// A value of another field, with `open` open brackets.
    Other {
        open: usize,
        in_string: bool,
        is_escaped: bool,
    },
    /// After the object, or after an error in it. Further text is left out.
    Over,
}

/// The position in an escape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum JsonEscape {
    None,
    Begun,
    /// `left` hex digits are still to come.
    Unicode {
        left: u8,
        code: u32,
    },
}

impl AnswerReader {
    /// Creates a reader. `shown` are the numbers of the facts that the model was shown.
    pub fn new(shown: &[i64]) -> Self {
        Self {
            shown: shown.to_vec(),
            used: Vec::new(),
            place: JsonPlace::Start,
            beginning: String::new(),
            key: String::new(),
            digits: String::new(),
            escape: JsonEscape::None,
            high_surrogate: None,
            is_of_form: false,
            has_text: false,
        }
    }

    /// Adds a piece. Returns the text that is known so far.
    pub fn push(&mut self, piece: &str) -> String {
        let mut text = String::new();
        for sign in piece.chars() {
            self.take(sign, &mut text);
        }
        text
    }

    /// Ends the answer. Returns the rest of the text, and the facts that it rests on, each once.
    pub fn finish(&mut self, stop: StopReason) -> (String, Vec<i64>) {
        let mut text = String::new();
        self.end_surrogate(&mut text);
        // A cut beginning of JSON is of no use.
        let is_cut = matches!(stop, StopReason::MaxTokens | StopReason::Refused);
        if !self.is_of_form && self.place != JsonPlace::Plain && !is_cut {
            text.push_str(&self.beginning);
        }
        self.beginning.clear();
        (text, std::mem::take(&mut self.used))
    }

    fn take(&mut self, sign: char, text: &mut String) {
        if !self.is_of_form && self.place != JsonPlace::Plain {
            self.beginning.push(sign);
            if self.beginning.len() > BEGINNING_BYTES_MAX {
                return self.give_up(text);
            }
        }
        let is_space = sign.is_ascii_whitespace();
        self.place = match self.place {
            JsonPlace::Start if is_space => JsonPlace::Start,
            JsonPlace::Start if sign == '{' => JsonPlace::BeforeKey,
            JsonPlace::Start => return self.give_up(text),
            JsonPlace::Plain => {
                text.push(sign);
                JsonPlace::Plain
            }
            JsonPlace::BeforeKey if is_space || sign == ',' => JsonPlace::BeforeKey,
            JsonPlace::BeforeKey if sign == '"' => {
                self.key.clear();
                JsonPlace::Key
            }
            JsonPlace::BeforeKey if sign == '}' => JsonPlace::Over,
            JsonPlace::Key if sign == '"' => JsonPlace::BeforeColon,
            JsonPlace::Key => {
                if self.key.len() < KEY_CHARS_MAX {
                    self.key.push(sign);
                }
                JsonPlace::Key
            }
            JsonPlace::BeforeColon if is_space => JsonPlace::BeforeColon,
            JsonPlace::BeforeColon if sign == ':' => JsonPlace::BeforeValue,
            JsonPlace::BeforeKey | JsonPlace::BeforeColon => return self.give_up(text),
            JsonPlace::BeforeValue if is_space => JsonPlace::BeforeValue,
            JsonPlace::BeforeValue => self.begin_value(sign),
            JsonPlace::Text => return self.take_text(sign, text),
            JsonPlace::Used => return self.take_used(sign),
            JsonPlace::Other { open, in_string, is_escaped } => {
                skip(sign, open, in_string, is_escaped)
            }
            JsonPlace::Over => JsonPlace::Over,
        };
    }

    /// Ends the parsing of an answer that is not of the form. It is shown as it is, unless a part was of the form.
    fn give_up(&mut self, text: &mut String) {
        self.place = match self.is_of_form {
            true => JsonPlace::Over,
            false => {
                text.push_str(&std::mem::take(&mut self.beginning));
                JsonPlace::Plain
            }
        };
    }

    fn begin_value(&mut self, sign: char) -> JsonPlace {
        let is_known = matches!(self.key.as_str(), "text" | "used");
        if is_known {
            self.is_of_form = true;
            self.beginning.clear();
        }
        match (self.key.as_str(), sign) {
            ("text", '"') if !self.has_text => {
                self.has_text = true;
                JsonPlace::Text
            }
            ("used", '[') => JsonPlace::Used,
            _ => skip(sign, 0, false, false),
        }
    }

    fn take_text(&mut self, sign: char, text: &mut String) {
        match self.escape {
            JsonEscape::None => match sign {
                '\\' => self.escape = JsonEscape::Begun,
                '"' => {
                    self.end_surrogate(text);
                    self.place = JsonPlace::BeforeKey;
                }
                sign => self.push_char(sign, text),
            },
            JsonEscape::Begun => {
                self.escape = JsonEscape::None;
                match sign {
                    'u' => self.escape = JsonEscape::Unicode { left: 4, code: 0 },
                    'n' => self.push_char('\n', text),
                    't' => self.push_char('\t', text),
                    'r' => self.push_char('\r', text),
                    'b' => self.push_char('\u{8}', text),
                    'f' => self.push_char('\u{c}', text),
                    '"' | '\\' | '/' => self.push_char(sign, text),
                    // A backslash of the text, as of LaTeX, that was not escaped.
                    sign => {
                        self.push_char('\\', text);
                        self.push_char(sign, text);
                    }
                }
            }
            JsonEscape::Unicode { left, code } => match sign.to_digit(16) {
                Some(digit) => {
                    let code = code * 16 + digit;
                    self.escape = match left {
                        1 => JsonEscape::None,
                        left => JsonEscape::Unicode { left: left - 1, code },
                    };
                    if left == 1 {
                        self.push_escaped(code, text);
                    }
                }
                None => {
                    self.escape = JsonEscape::None;
                    self.push_char(UNREADABLE, text);
                    self.take_text(sign, text);
                }
            },
        }
    }

    fn push_char(&mut self, sign: char, text: &mut String) {
        self.end_surrogate(text);
        text.push(sign);
    }

    /// Adds the character of a `\u` escape, or of a pair of surrogates with its second escape.
    fn push_escaped(&mut self, code: u32, text: &mut String) {
        match (self.high_surrogate.take(), code) {
            (Some(high), 0xDC00..=0xDFFF) => {
                let whole = 0x1_0000 + ((high - 0xD800) << 10) + (code - 0xDC00);
                text.push(char::from_u32(whole).unwrap_or(UNREADABLE));
            }
            (surrogate, code) => {
                text.extend(surrogate.map(|_| UNREADABLE));
                match code {
                    0xD800..=0xDBFF => self.high_surrogate = Some(code),
                    code => text.push(char::from_u32(code).unwrap_or(UNREADABLE)),
                }
            }
        }
    }

    /// Replaces a high surrogate without a low one.
    fn end_surrogate(&mut self, text: &mut String) {
        text.extend(self.high_surrogate.take().map(|_| UNREADABLE));
    }

    fn take_used(&mut self, sign: char) {
        if sign.is_ascii_digit() {
            // One digit more than an id can have makes the number invalid.
            if self.digits.len() <= DIGITS_MAX {
                self.digits.push(sign);
            }
            return;
        }
        if let Ok(id) = std::mem::take(&mut self.digits).parse::<i64>()
            && self.shown.contains(&id)
            && !self.used.contains(&id)
        {
            self.used.push(id);
        }
        if sign == ']' {
            self.place = JsonPlace::BeforeKey;
        }
    }
}

/// Returns the place after a sign of a value that is skipped.
fn skip(sign: char, open: usize, in_string: bool, is_escaped: bool) -> JsonPlace {
    if in_string {
        return match sign {
            _ if is_escaped => JsonPlace::Other { open, in_string, is_escaped: false },
            '\\' => JsonPlace::Other { open, in_string, is_escaped: true },
            sign => JsonPlace::Other { open, in_string: sign != '"', is_escaped: false },
        };
    }
    let place = |open, in_string| JsonPlace::Other { open, in_string, is_escaped: false };
    match (sign, open) {
        ('"', _) => place(open, true),
        ('{' | '[', _) => place(open + 1, false),
        (',', 0) => JsonPlace::BeforeKey,
        ('}' | ']', 0) => JsonPlace::Over,
        ('}' | ']', _) => place(open - 1, false),
        _ => place(open, false),
    }
}
