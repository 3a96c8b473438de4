//! Finds mentions and commands in a text, with their addressees, and removes those that only address the
//! bot.

use teloxide::types::{Message, MessageEntity, MessageEntityKind};

use super::TelegramIdentity;
use crate::types::message::ChatKind;

/// Returns the mentions and commands of a message, in order.
pub(super) fn marks<'a>(message: &'a Message, bot: &TelegramIdentity) -> Vec<TextMark<'a>> {
    let (text, entities) =
        (message.text().unwrap_or_default(), message.entities().unwrap_or_default());
    entities.iter().filter_map(|entity| TextMark::read(entity, text, bot)).collect()
}

/// A mention or a command in a text, with byte positions.
pub(super) struct TextMark<'a> {
    pub(super) text: &'a str,
    pub(super) start: usize,
    end: usize,
    pub(super) is_command: bool,
    pub(super) is_for: MarkAddressee,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum MarkAddressee {
    Us,
    Another,
    /// A command without a name.
    Anyone,
}

impl<'a> TextMark<'a> {
    fn read(entity: &MessageEntity, text: &'a str, bot: &TelegramIdentity) -> Option<Self> {
        let start = byte_at(text, entity.offset)?;
        let end = byte_at(text, entity.offset.checked_add(entity.length)?)?;
        let marked = text.get(start..end)?;
        let named = |name: &str| {
            if name.eq_ignore_ascii_case(&bot.username) {
                MarkAddressee::Us
            } else {
                MarkAddressee::Another
            }
        };
        let (is_command, is_for) = match &entity.kind {
            MessageEntityKind::Mention => (false, named(marked.strip_prefix('@')?)),
            MessageEntityKind::TextMention { user } if user.id.0 == bot.id => {
                (false, MarkAddressee::Us)
            }
            MessageEntityKind::BotCommand => (
                true,
                marked.split_once('@').map_or(MarkAddressee::Anyone, |(_, name)| named(name)),
            ),
            _ => return None,
        };
        Some(Self { text: marked, start, end, is_command, is_for })
    }
}

/// Converts an offset in UTF-16 units, as Telegram counts, to bytes. None beyond the end or inside a
/// character.
fn byte_at(text: &str, units: usize) -> Option<usize> {
    let mut passed = 0;
    for (at, char) in text.char_indices() {
        if passed >= units {
            return (passed == units).then_some(at);
        }
        passed += char.len_utf16();
    }
    (passed == units).then_some(text.len())
}

/// Converts `/command@us args` to `/command args`. In groups it removes a mention of us at either end. A
/// text that is nothing but a mention stays.
pub(super) fn without_address(text: &str, marks: &[TextMark<'_>], chat_kind: ChatKind) -> String {
    let mut rest = text.to_owned();
    for mark in marks.iter().rev().filter(|mark| mark.is_for == MarkAddressee::Us) {
        // An overlapping entity may have been removed already.
        let (Some(before), Some(after)) = (rest.get(..mark.start), rest.get(mark.end..)) else {
            continue;
        };
        if mark.is_command {
            let command = mark.text.split('@').next().unwrap_or_default();
            rest = format!("{before}{command}{after}");
        } else if chat_kind == ChatKind::Group && before.trim().is_empty() {
            rest = after.trim_start_matches([',', ':', ' ', '\n']).to_owned();
        } else if chat_kind == ChatKind::Group && after.trim().is_empty() {
            rest = before.trim_end_matches([',', ' ', '\n']).to_owned();
        }
    }
    let rest = rest.trim();
    if rest.is_empty() { text.trim().to_owned() } else { rest.to_owned() }
}
