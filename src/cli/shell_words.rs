//! Commands of a chat as commands of a shell, in the words that the daemon answers with.

/// The chat commands that the command line has under the same name, with the same words behind it.
const COMMON: [&str; 5] = ["pair", "people", "budget", "heartbeat", "usage"];

/// Names chat commands as a shell knows them: `/people` is `peacrab people`.
pub fn in_shell(words: &str) -> String {
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
        match begins && ends && COMMON.contains(&name.as_str()) {
            true => shown.push_str("peacrab "),
            false => shown.push('/'),
        }
        rest = &from[1..];
    }
    shown + rest
}
