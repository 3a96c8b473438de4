//! Reads an answer that was asked for by a schema, `{"text":…,"used":[…]}`, while it arrives: the text as people see
//! it, and the numbers of the facts that it rests on. Lenient: an answer of any other form is a text. Pure.

use super::StopReason;

/// Maximum length of what comes before the text or the facts, in bytes. A longer beginning is no such answer.
const BEGINNING_BYTES_MAX: usize = 64 * 1024;

/// Longer than the names of the two fields; only they are told apart.
const KEY_CHARS_MAX: usize = 8;

/// Digits of the largest id.
const DIGITS_MAX: usize = 19;

/// Stands for what no text can hold: half of a pair, or an escape without its digits.
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
    /// The first half of a character that takes two escapes.
    high_half: Option<u32>,
    /// A field of the form was found.
    is_of_form: bool,
    has_text: bool,
}

/// The position in the JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum JsonPlace {
    Start,
    /// It is no JSON.
    Plain,
    BeforeKey,
    Key,
    BeforeColon,
    BeforeValue,
    Text,
    Used,
    /// A value of another field: so many brackets are open.
    Other {
        open: usize,
        in_string: bool,
        is_escaped: bool,
    },
    /// Text that follows the object, or makes no sense in it, is left out.
    Over,
}

/// The position in an escape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum JsonEscape {
    None,
    Begun,
    /// So many hex digits are to come.
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
            high_half: None,
            is_of_form: false,
            has_text: false,
        }
    }

    /// Adds a piece. Returns the text that is known by now.
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
        self.end_half(&mut text);
        // Its beginning tells nobody anything.
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
                return self.leave(text);
            }
        }
        let is_space = sign.is_ascii_whitespace();
        self.place = match self.place {
            JsonPlace::Start if is_space => JsonPlace::Start,
            JsonPlace::Start if sign == '{' => JsonPlace::BeforeKey,
            JsonPlace::Start => return self.leave(text),
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
            JsonPlace::BeforeKey | JsonPlace::BeforeColon => return self.leave(text),
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

    /// It is no answer of the form: it is shown as it is, unless a part of it was of the form.
    fn leave(&mut self, text: &mut String) {
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
                    self.end_half(text);
                    self.place = JsonPlace::BeforeKey;
                }
                sign => self.say(sign, text),
            },
            JsonEscape::Begun => {
                self.escape = JsonEscape::None;
                match sign {
                    'u' => self.escape = JsonEscape::Unicode { left: 4, code: 0 },
                    'n' => self.say('\n', text),
                    't' => self.say('\t', text),
                    'r' => self.say('\r', text),
                    'b' => self.say('\u{8}', text),
                    'f' => self.say('\u{c}', text),
                    '"' | '\\' | '/' => self.say(sign, text),
                    // A backslash of the text, as of LaTeX, that was not escaped.
                    sign => {
                        self.say('\\', text);
                        self.say(sign, text);
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
                        self.say_code(code, text);
                    }
                }
                None => {
                    self.escape = JsonEscape::None;
                    self.say(UNREADABLE, text);
                    self.take_text(sign, text);
                }
            },
        }
    }

    fn say(&mut self, sign: char, text: &mut String) {
        self.end_half(text);
        text.push(sign);
    }

    /// Adds the character of a `\u` escape; of two that are its halves, with the second.
    fn say_code(&mut self, code: u32, text: &mut String) {
        match (self.high_half.take(), code) {
            (Some(high), 0xDC00..=0xDFFF) => {
                let whole = 0x1_0000 + ((high - 0xD800) << 10) + (code - 0xDC00);
                text.push(char::from_u32(whole).unwrap_or(UNREADABLE));
            }
            (half, code) => {
                text.extend(half.map(|_| UNREADABLE));
                match code {
                    0xD800..=0xDBFF => self.high_half = Some(code),
                    code => text.push(char::from_u32(code).unwrap_or(UNREADABLE)),
                }
            }
        }
    }

    /// The second half of a character did not come.
    fn end_half(&mut self, text: &mut String) {
        text.extend(self.high_half.take().map(|_| UNREADABLE));
    }

    fn take_used(&mut self, sign: char) {
        if sign.is_ascii_digit() {
            // One digit more than an id can have makes it none.
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

/// Goes on in a value that is not needed.
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
