//! `[limits]`: how much one person or one chat may ask for in a short time.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::bus::rates::RateLimits;

use super::values::Within;

/// Rate limits. The owner and commands are never limited, but for those that call a model (/btw, /compact), which count
/// as messages. The sender gets one line, not one for each message. 0: no limit.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct LimitsSection {
    /// Messages of one person in a minute.
    messages_per_minute: Within<0, 10_000, 30>,
    /// Messages in one chat in a minute, of all but the owner.
    chat_messages_per_minute: Within<0, 100_000, 120>,
    /// Files of one person in 24 hours.
    files_per_day: Within<0, 100_000, 200>,
    /// Turns of one person at a time, in different chats; others wait. The owner and admins are not limited.
    /// Without a limit nobody waits while there are free slots, and the last ones are for those who have few.
    turns_per_person: Within<0, 256, 0>,
}

impl LimitsSection {
    pub(super) fn limits(&self) -> RateLimits {
        RateLimits {
            person_per_minute: self.messages_per_minute.count(),
            chat_per_minute: self.chat_messages_per_minute.count(),
            files_per_day: self.files_per_day.count(),
            turns_per_person: self.turns_per_person.count(),
        }
    }
}
