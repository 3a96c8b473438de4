//! Commands that do not exist: what was typed, and what was probably meant.

use super::{COMMANDS, find};

/// A command that does not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MistypedCommand {
    /// As it was typed, with its slash.
    pub typed: String,
    /// The command that is nearly the same, if there is one.
    pub meant: Option<&'static str>,
}

/// Returns the command that a text seems to begin with, if there is none of that name. A text that goes on behind a word
/// that is like no command is none: `/tmp is full`.
pub fn mistyped(text: &str) -> Option<MistypedCommand> {
    let mut words = text.split_whitespace();
    let typed = words.next()?;
    let name = typed.strip_prefix('/')?;
    let is_name = name.len() <= NAME_BYTES_MAX
        && name.starts_with(|sign: char| sign.is_ascii_alphabetic())
        && name.chars().all(|sign| sign.is_ascii_alphanumeric() || matches!(sign, '_' | '-'));
    if !is_name || find(typed).is_some() {
        return None;
    }
    let name = name.to_ascii_lowercase();
    let names = COMMANDS.iter().flat_map(|spec| spec.aliases.iter().chain([&spec.name]));
    let alike = names.map(|known| (strsim::normalized_damerau_levenshtein(&name, known), *known));
    let best = alike.max_by(|one, other| one.0.total_cmp(&other.0));
    let meant = best.filter(|(likeness, _)| *likeness >= ALIKE).map(|(_, known)| known);
    (meant.is_some() || words.next().is_none())
        .then(|| MistypedCommand { typed: typed.to_owned(), meant })
}

/// A command's name in a chat (Telegram's Bot API, BotCommand).
const NAME_BYTES_MAX: usize = 32;

/// Of [`strsim::normalized_damerau_levenshtein`]: one slip in a short name, two in a longer one.
const ALIKE: f64 = 0.7;
