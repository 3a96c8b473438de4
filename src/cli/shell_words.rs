//! Commands of a chat as commands of a shell, in the words that the daemon answers with.

/// Chat commands that the command line has, too, with the same words behind them, and their names there.
const COMMON: [(&str, &str); 6] = [
    ("pair", "pair"),
    ("people", "people"),
    ("budget", "budget"),
    ("heartbeat", "heartbeat"),
    ("usage", "usage"),
    ("jobs", "cron"),
];

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
        let known = COMMON.iter().find(|(chat, _)| begins && ends && *chat == name);
        match known {
            Some((chat, shell)) => {
                shown.push_str("peacrab ");
                shown.push_str(shell);
                rest = &from[1 + chat.len()..];
            }
            None => {
                shown.push('/');
                rest = &from[1..];
            }
        }
    }
    shown + rest
}
