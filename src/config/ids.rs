//! The ids of accounts and chats, in the form in which each platform writes them.

use std::collections::BTreeMap;

use crate::people::Groups;

use super::reading::ConfigSource;
use super::values::{At, Id};

/// The forms of a platform's ids.
pub(super) struct Ids {
    pub(super) person: IdFormat,
    pub(super) bot: IdFormat,
    /// The form of a key of `chats`.
    pub(super) chat: IdFormat,
}

/// The form of an id. In messages `wanted` follows the name of the key.
pub(super) struct IdFormat {
    fits: fn(&str) -> bool,
    wanted: &'static str,
}

/// Maximum id of a forum topic. A greater number is a group's id that lost its minus.
const TOPIC_MAX: i64 = i32::MAX as i64;

const TELEGRAM_PERSON: IdFormat = IdFormat {
    fits: is_number,
    wanted: "must be a user id, which is a number, as \"12345678\" (/whoami shows it); a name can \
             change its owner",
};

pub(super) const TELEGRAM_IDS: Ids = Ids {
    person: TELEGRAM_PERSON,
    bot: TELEGRAM_PERSON,
    chat: IdFormat {
        fits: |id| id.parse::<i64>().is_ok_and(|id| id <= TOPIC_MAX),
        wanted: "must be a group's id, which is a negative number, as \"-1001234567890\", or a \
                 forum topic's, as \"5\"",
    },
};

const DISCORD_PERSON: IdFormat = IdFormat {
    fits: is_number,
    wanted: "must be a user id, which is a number, as \"80351110224678912\" (Developer Mode, Copy \
             User ID); a name can change its owner",
};

pub(super) const DISCORD_IDS: Ids = Ids {
    person: DISCORD_PERSON,
    bot: DISCORD_PERSON,
    chat: IdFormat {
        fits: is_number,
        wanted: "must be the id of a thread, a channel or a server, which is a number, as \
                 \"81384788765712384\" (Developer Mode, Copy Channel ID or Copy Server ID)",
    },
};

pub(super) const SLACK_IDS: Ids = Ids {
    person: IdFormat {
        fits: |id| is_slack_id(id, &['U', 'W']),
        wanted: "must be a member id, which begins with U or W, as \"U012ABCDEF\" (in Slack: a \
                 profile, ⋮, Copy member ID); a name can change its owner",
    },
    bot: IdFormat {
        fits: |id| is_slack_id(id, &['B', 'U', 'W']),
        wanted: "must be a bot's id, which begins with B, U or W, as \"B012ABCDEF\"; a name can \
                 change its owner",
    },
    chat: IdFormat {
        fits: |id| is_slack_id(id, &['C', 'D', 'G', 'T']),
        wanted: "must be a channel's id, which begins with C, D or G, as \"C012ABCDEF\" (in Slack: \
                 the channel's details, at the end), or a workspace's, which begins with T",
    },
};

fn is_number(id: &str) -> bool {
    !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_slack_id(id: &str, begins: &[char]) -> bool {
    id.len() > 1
        && id.starts_with(begins)
        && id.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
}

/// Parses the rules for answers in single chats, by chat id.
pub(super) fn chats(
    source: &ConfigSource<'_>,
    chats: BTreeMap<String, At<Groups>>,
    form: &IdFormat,
) -> BTreeMap<String, Groups> {
    let checked = chats.into_iter().map(|(id, groups)| {
        if !(form.fits)(&id) {
            source.refuse(&groups, form.wanted);
        }
        (id, groups.value)
    });
    checked.collect()
}

/// Returns a platform's user ids, or `everyone`. Reports those of another form. A config file (1 MiB) has room
/// for some 50,000.
pub(super) fn people(
    source: &ConfigSource<'_>,
    ids: Vec<At<Id>>,
    everyone: Option<&str>,
    form: &IdFormat,
) -> Vec<String> {
    for entry in &ids {
        let id = &*entry.value.0;
        match (form.fits)(id) || Some(id) == everyone {
            true => {}
            false if id == "*" => source.refuse(entry, "cannot be \"*\": name them one by one"),
            false => source.refuse(entry, form.wanted),
        }
    }
    ids.into_iter().map(|entry| entry.value.0).collect()
}
