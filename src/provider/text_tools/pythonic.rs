//! Parses calls in Python syntax, with which Llama 4 answers: `[look(path="a"), note(lines=[1, 2])]`.
//! Only literals are supported. A text with anything else is not a call.

use serde_json::{Map, Number, Value};

use super::forms::WrittenCall;

pub(super) const START: &str = "<|python_start|>";
const ENDS: [&str; 2] = ["<|python_end|>", "<|eot|>"];
/// Maximum nesting of lists. No argument needs more.
const DEPTH_MAX: usize = 32;

/// Returns the calls if `text` consists of them completely.
pub(super) fn calls(text: &str) -> Option<Vec<WrittenCall>> {
    let mut text = text.trim();
    text = text.strip_prefix(START).unwrap_or(text);
    for end in ENDS.iter().rev() {
        text = text.strip_suffix(end).unwrap_or(text).trim_end();
    }
    let mut python = Python { rest: text };
    python.require('[')?;
    let calls = python.list(']', Python::call)?;
    python.skip_blanks();
    python.rest.is_empty().then_some(calls)
}

struct Python<'a> {
    rest: &'a str,
}

impl<'a> Python<'a> {
    fn skip_blanks(&mut self) {
        self.rest = self.rest.trim_start();
    }

    /// Skips `sign` and returns true if it is the next one.
    fn has(&mut self, sign: char) -> bool {
        self.skip_blanks();
        match self.rest.strip_prefix(sign) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn require(&mut self, sign: char) -> Option<()> {
        self.has(sign).then_some(())
    }

    /// Parses items with commas between them, up to `end`.
    fn list<T>(&mut self, end: char, item: impl Fn(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let mut items = Vec::new();
        while !self.has(end) {
            if !items.is_empty() {
                self.require(',')?;
                if self.has(end) {
                    break;
                }
            }
            items.push(item(self)?);
        }
        Some(items)
    }

    fn word(&mut self) -> Option<&'a str> {
        self.skip_blanks();
        let is_inside = |sign: char| sign.is_ascii_alphanumeric() || "_.-+".contains(sign);
        let end = self.rest.find(|sign| !is_inside(sign)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        (!word.is_empty()).then_some(word)
    }

    fn call(&mut self) -> Option<WrittenCall> {
        let name = self.word()?.to_owned();
        self.require('(')?;
        let pairs = self.list(')', |python| {
            let key = python.word()?.to_owned();
            python.require('=')?;
            Some((key, python.value(0)?))
        })?;
        let arguments = Value::from(pairs.into_iter().collect::<Map<_, _>>());
        Some(WrittenCall { name, arguments: arguments.to_string() })
    }

    fn value(&mut self, depth: usize) -> Option<Value> {
        if depth > DEPTH_MAX {
            return None;
        }
        self.skip_blanks();
        if self.has('[') {
            return self.list(']', |python| python.value(depth + 1)).map(Value::from);
        }
        if self.has('{') {
            let pairs = self.list('}', |python| {
                python.skip_blanks();
                let key = python.text()?;
                python.require(':')?;
                Some((key, python.value(depth + 1)?))
            })?;
            return Some(pairs.into_iter().collect::<Map<_, _>>().into());
        }
        if self.rest.starts_with(['"', '\'']) {
            return self.text().map(Value::from);
        }
        match self.word()? {
            "None" | "null" => Some(Value::Null),
            "True" | "true" => Some(true.into()),
            "False" | "false" => Some(false.into()),
            word => serde_json::from_str::<Number>(word).ok().map(Value::from),
        }
    }

    fn text(&mut self) -> Option<String> {
        let quote = self.rest.chars().next().filter(|sign| "\"'".contains(*sign))?;
        let mut text = String::new();
        let mut signs = self.rest[1..].char_indices();
        while let Some((at, sign)) = signs.next() {
            match sign {
                _ if sign == quote => {
                    self.rest = &self.rest[1 + at + 1..];
                    return Some(text);
                }
                '\n' => return None,
                '\\' => match signs.next()?.1 {
                    'n' => text.push('\n'),
                    't' => text.push('\t'),
                    'r' => text.push('\r'),
                    'x' => text.push(code(&mut signs, 2)?),
                    'u' => text.push(code(&mut signs, 4)?),
                    sign @ ('\\' | '\'' | '"') => text.push(sign),
                    // Python leaves unknown escapes as they are.
                    sign => text.extend(['\\', sign]),
                },
                sign => text.push(sign),
            }
        }
        None
    }
}

fn code(signs: &mut std::str::CharIndices<'_>, digits: usize) -> Option<char> {
    let digits: String = signs.take(digits).map(|(_, sign)| sign).collect();
    char::from_u32(u32::from_str_radix(&digits, 16).ok()?)
}
