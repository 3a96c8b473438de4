//! The signatures of functions: few parameters, and none of them several in disguise.

use std::collections::BTreeSet;

use crate::tidy::{File, none, rust_files};

/// Parameters beside `self`.
const PARAMETERS_MAX: usize = 5;

/// The values of a row of the store, and those of its columns for an address.
const OF_ROWS: [&str; 2] = ["src/store", "src/bus/journal/origins.rs"];

/// The name of a function with the text between it and its body.
struct Signature {
    line: usize,
    name: String,
    text: String,
}

/// The signatures in a file, of which comments and texts are left out.
fn signatures(file: &File) -> Vec<Signature> {
    let code = without_texts(&file.code().map(|(_, line)| format!("{line}\n")).collect::<String>());
    let lines: Vec<_> = file.code().map(|(at, _)| at).collect();
    let mut found = Vec::new();
    for (at, _) in code.match_indices("fn ") {
        let is_word = code[..at].chars().next_back().is_none_or(|sign| sign.is_whitespace());
        let behind = &code[at + 3..];
        let name: String =
            behind.chars().take_while(|sign| sign.is_alphanumeric() || *sign == '_').collect();
        if is_word && !name.is_empty() {
            let line = lines.get(code[..at].matches('\n').count()).copied().unwrap_or_default();
            let text = before_body(&behind[name.len()..]).to_owned();
            found.push(Signature { line, name, text });
        }
    }
    found
}

/// The text up to the body of a function, or to the end of a declaration without one.
fn before_body(text: &str) -> &str {
    let (mut depth, mut before) = (0, ' ');
    for (at, sign) in text.char_indices() {
        match sign {
            '{' | ';' if depth == 0 => return &text[..at],
            '(' | '[' | '<' | '{' => depth += 1,
            '>' if before == '-' => {}
            ')' | ']' | '>' | '}' => depth -= 1,
            _ => {}
        }
        before = sign;
    }
    text
}

/// Blanks the literal texts, and with them the brackets in them.
fn without_texts(code: &str) -> String {
    let mut kept = String::new();
    for line in code.lines() {
        let mut parts = line.split('"');
        kept.push_str(parts.next().unwrap_or_default());
        for outside in parts.skip(1).step_by(2) {
            kept.push_str("\"\"");
            kept.push_str(outside);
        }
        kept.push('\n');
    }
    kept
}

/// A pair of brackets with what is between them, split at its own commas.
struct Group {
    /// The first bracket is that of the parameters themselves.
    is_list: bool,
    /// A name stands before it, as in `Fn(A, B)` or `Some(x)`.
    is_named: bool,
    /// A type follows, as for a parameter that is taken apart.
    is_pattern: bool,
    parts: Vec<String>,
}

fn groups(text: &str) -> Vec<Group> {
    let signs: Vec<char> = text.chars().collect();
    let mut open: Vec<(usize, char, Vec<usize>)> = Vec::new();
    let mut found = Vec::new();
    let mut has_list = false;
    for (at, sign) in signs.iter().enumerate() {
        match sign {
            '(' | '[' | '<' | '{' => open.push((at, *sign, Vec::new())),
            ',' => open.last_mut().into_iter().for_each(|(.., commas)| commas.push(at)),
            '>' if at > 0 && signs[at - 1] == '-' => {}
            ')' | ']' | '>' | '}' => {
                let Some((from, bracket, commas)) = open.pop() else { continue };
                if bracket != '(' {
                    continue;
                }
                let mut parts = Vec::new();
                let mut begin = from + 1;
                for end in commas.into_iter().chain([at]) {
                    parts.push(signs[begin..end].iter().collect::<String>().trim().to_owned());
                    begin = end + 1;
                }
                parts.retain(|part| !part.is_empty());
                let before = signs[..from].iter().rev().find(|sign| !sign.is_whitespace());
                let is_list = open.is_empty() && !has_list;
                has_list |= is_list;
                found.push(Group {
                    is_list,
                    is_named: before.is_some_and(|sign| sign.is_alphanumeric()),
                    is_pattern: signs.get(at + 1) == Some(&':'),
                    parts,
                });
            }
            _ => {}
        }
    }
    found
}

fn is_self(parameter: &str) -> bool {
    let name = parameter.split(':').next().unwrap_or_default();
    name.split([' ', '&']).next_back() == Some("self")
}

fn is_of_rows(file: &File) -> bool {
    OF_ROWS.iter().any(|path| file.name().starts_with(path))
}

#[test]
fn a_function_has_few_parameters_and_none_is_several() {
    let mut found = BTreeSet::new();
    for file in rust_files(&["src"]) {
        for Signature { line, name, text } in signatures(&file) {
            let mut say =
                |words: &str| found.insert(format!("{}:{line}: `{name}` {words}", file.name()));
            for group in groups(&text) {
                let own = group.parts.iter().filter(|part| !is_self(part));
                if group.is_list && own.count() > PARAMETERS_MAX {
                    say("has too many parameters");
                }
                if group.is_list || group.is_named {
                    continue;
                }
                if group.is_pattern && group.parts.len() > 1 {
                    say("takes a pair apart that are two parameters");
                }
                if group.parts.len() > 2 && !is_of_rows(&file) {
                    say("has a tuple of three or more");
                }
            }
        }
    }
    none(found, "a type with names is missing");
}

#[test]
fn tuples_are_found_in_parameters_and_in_what_is_returned() {
    let found = |text: &str| {
        let groups = groups(text).into_iter();
        groups.filter(|it| !it.is_list && !it.is_named).map(|it| it.parts.len()).max().unwrap_or(0)
    };
    assert_eq!(found("<T>(a: T, b: impl Fn(A, B, C) -> D) -> Result<(), E>"), 0);
    assert_eq!(found("(a: impl Iterator<Item = (A, B<C, D>, E)>)"), 3);
    assert_eq!(found("(&self) -> Result<Option<(A, (B, C))>, E> where T: Sized"), 2);
    assert_eq!(found("((a, b): (A, B)) -> io::Result<(A, [u8; 2], B)>"), 3);
}
