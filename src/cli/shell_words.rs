//! Commands in sentences as a shell takes them: those of a chat, and those of this program for its home.

/// Chat commands that the command line has, too, with the same words behind them, and their names there.
const COMMON: [(&str, &str); 6] = [
    ("pair", "pair"),
    ("people", "people"),
    ("budget", "budget"),
    ("heartbeat", "heartbeat"),
    ("usage", "usage"),
    ("jobs", "cron"),
];

/// The beginning of a command in a sentence.
const BARE: &str = "`peacrab ";

/// Names the commands in a sentence as they reach a home: `program` is the program with that home, in the place of a bare
/// `peacrab`. A command that has options before its name is left as it is.
pub fn with_program(words: &str, program: &str) -> String {
    let mut parts = words.split(BARE);
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.starts_with('-') {
            true => shown.push_str(BARE),
            false => shown.push_str(&format!("`{program} ")),
        }
        shown.push_str(part);
    }
    shown
}

/// Names chat commands as a shell knows them: `/people` is `peacrab people`, with `program` in the place of `peacrab`.
pub fn in_shell(words: &str, program: &str) -> String {
    let mut shown = String::with_capacity(words.len());
    let mut rest = words;
    while let Some(at) = rest.find('/') {
        let (before, from) = rest.split_at(at);
        shown.push_str(before);
        let begins =
            shown.chars().last().is_none_or(|sign| sign.is_whitespace() || "(`".contains(sign));
        let name: String = from[1..].chars().take_while(char::is_ascii_lowercase).collect();
        let after = from[1 + name.len()..].chars().next();
        let ends = after.is_none_or(|sign| sign.is_whitespace() || ".,;:)`".contains(sign));
        let known = COMMON.iter().find(|(chat, _)| begins && ends && *chat == name);
        match known {
            Some((chat, shell)) => {
                shown.push_str(program);
                shown.push(' ');
                shown.push_str(shell);
                rest = &from[1 + chat.len()..];
            }
            None => {
                shown.push('/');
                rest = &from[1..];
            }
        }
    }
    with_program(&(shown + rest), program)
}
