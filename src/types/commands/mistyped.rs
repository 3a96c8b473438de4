//! Commands that do not exist, each with the command that was probably meant.

use super::{COMMANDS, find};

/// A command that does not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MistypedCommand {
    /// The text as typed, with its slash.
    pub typed: String,
    /// The most similar command, if one is similar enough.
    pub meant: Option<&'static str>,
}

/// Returns the unknown command that a text begins with. None if more text follows a word that resembles no command:
/// `/tmp is full`.
pub fn mistyped(text: &str) -> Option<MistypedCommand> {
    let mut words = text.split_whitespace();
    let typed = words.next()?;
    let name = typed.strip_prefix('/')?;
    let is_name = name.len() <= NAME_BYTES_MAX
        && name.starts_with(|character: char| character.is_ascii_alphabetic())
        && name
            .chars()
            .all(|character| character.is_ascii_alphanumeric() || matches!(character, '_' | '-'));
    if !is_name || find(typed).is_some() {
        return None;
    }
    let name = name.to_ascii_lowercase();
    let names = COMMANDS.iter().flat_map(|spec| spec.aliases.iter().chain([&spec.name]));
    let similarities =
        names.map(|known| (strsim::normalized_damerau_levenshtein(&name, known), *known));
    let most_similar = similarities.max_by(|one, other| one.0.total_cmp(&other.0));
    let meant = most_similar
        .filter(|(similarity, _)| *similarity >= SIMILARITY_MIN)
        .map(|(_, known)| known);
    (meant.is_some() || words.next().is_none())
        .then(|| MistypedCommand { typed: typed.to_owned(), meant })
}

/// Maximum length of a command's name in a chat (Telegram's Bot API, BotCommand).
const NAME_BYTES_MAX: usize = 32;

/// Least [`strsim::normalized_damerau_levenshtein`]: allows one slip in a short name, two in a longer one.
const SIMILARITY_MIN: f64 = 0.7;
