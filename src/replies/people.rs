//! Sentences about people: the list, their roles, and accounts that become one person's.

use std::fmt::{Display, Write as _};

use super::{as_is, shown_name};

pub const PEOPLE_FOR_OWNER: &str =
    "Only my owner can see and change the people I know, in private.";

pub const PEOPLE_USAGE: &str = "\
Use /people, /people pNUMBER for one person with buttons, or /people guest, user, admin, block, unblock, remove or purge pNUMBER.";

pub const NO_SUCH_PERSON: &str = "There is no such person. /people lists them with their numbers.";

/// The answer to messages that waited when their sender lost access.
pub const ACCESS_HAS_ENDED: &str =
    "I did not answer what you had sent me, because you no longer have access.";

pub const NOBODY_YET: &str = "Nobody has written to me yet.";

/// A person, as the owner sees them.
#[derive(Clone, Debug)]
pub struct PersonShown {
    /// `p5`
    pub number: String,
    pub name: String,
    /// None if they may not speak.
    pub role: Option<&'static str>,
    pub is_blocked: bool,
    pub is_in_config: bool,
    /// `123 on home`
    pub accounts: Vec<String>,
    pub seen: String,
    /// Tokens and money of the last 30 days.
    pub used: (u64, String),
}

impl PersonShown {
    fn role(&self) -> String {
        let from = if self.is_in_config { ", by the config" } else { "" };
        match (self.is_blocked, self.role) {
            (true, None) => "blocked".to_owned(),
            (_, Some(role)) => format!("{role}{from}"),
            (false, None) => "has no access".to_owned(),
        }
    }
}

/// The answer to `/people`.
pub fn people(shown: &[PersonShown], left_out: usize) -> String {
    let mut text = "People".to_owned();
    for person in shown {
        let (number, name, role) = (&person.number, shown_name(&person.name), person.role());
        let _ = write!(text, "\n{number} {name}: {role}, seen {}", person.seen);
    }
    if left_out > 0 {
        let _ = write!(text, "\n… and {left_out} more; `peacrab people` lists all.");
    }
    let _ = write!(text, "\n/people pNUMBER shows one, with buttons.");
    text
}

/// The answer to `/people pNUMBER`.
pub fn person(person: &PersonShown) -> String {
    let accounts: Vec<_> = person.accounts.iter().map(as_is).collect();
    let (tokens, cost) = &person.used;
    let fixed = match person.is_in_config {
        true => "\nThe config names this person, so change their role there.",
        false => "",
    };
    format!(
        "{} {}\nRole: {}\nAccounts: {}\nLast seen: {}\nLast 30 days: {} tokens, {cost}{fixed}",
        person.number,
        shown_name(&person.name),
        person.role(),
        accounts.join(", "),
        person.seen,
        super::grouped(*tokens),
    )
}

pub const MAKE_ADMIN: &str = "Make admin";
pub const MAKE_USER: &str = "Make user";
pub const MAKE_GUEST: &str = "Make guest";
pub const BLOCK: &str = "Block";
pub const UNBLOCK: &str = "Unblock";
pub const REMOVE: &str = "Remove";

pub fn role_is_set(name: impl Display, role: impl Display) -> String {
    format!("{} is now {role}.", shown_name(name))
}

pub fn person_is_blocked(name: impl Display) -> String {
    format!("{} is blocked: I won't answer them. /people unblock undoes it.", shown_name(name))
}

pub fn person_is_unblocked(name: impl Display) -> String {
    format!("{} is no longer blocked.", shown_name(name))
}

pub fn person_is_removed(name: impl Display, number: impl Display) -> String {
    format!(
        "{} is removed. If they write again, I'll treat them as a stranger. Their files are archived; /people purge {number} \
         deletes them.",
        shown_name(name)
    )
}

pub fn person_is_purged(name: impl Display) -> String {
    format!(
        "{} is removed, and their files are deleted. If they write again, I'll treat them as a stranger.",
        shown_name(name)
    )
}

pub fn files_are_purged(number: impl Display) -> String {
    format!("The files of {number} are deleted.")
}

pub fn role_is_the_configs(name: impl Display) -> String {
    format!(
        "{} is named in the config file, so I can't change that here. Change the config, then run `peacrab reload`.",
        shown_name(name)
    )
}

pub const LINK_PRIVATELY: &str = "Please use /link in a private chat with me.";

pub const LINK_UNKNOWN: &str =
    "I don't know that code. A code is valid once, for ten minutes: /link gives you a new one.";

pub const LINK_JOINED_ALREADY: &str = "Both accounts are yours already.";

pub const LINK_WAITS: &str =
    "Now please confirm it on your other account, where I've just asked you.";

pub const LINK_DECLINED: &str = "The accounts stay separate.";

pub const LINK_TOO_OFTEN: &str = "You have tried too many codes. Please try again in a minute.";

pub const LINK_YES: &str = "Yes, both are mine";
pub const LINK_NO: &str = "No";

pub fn link_code(code: &str) -> String {
    format!(
        "To link another account of yours, send me this from it in a private chat, within ten minutes:\n/link {code}"
    )
}

/// The question on the account with the higher role.
pub fn link_asks(this: impl Display, other: impl Display, role: impl Display) -> String {
    let other = as_is(other);
    format!(
        "Is {other} yours, too? If so, it and {} become one person: {other} gets the role {role} and shares your budget. Answer no if you didn't send the code there yourself.",
        as_is(this),
    )
}

pub fn linked(one: impl Display, other: impl Display) -> String {
    format!("{} and {} are now one person. /unlink separates them again.", as_is(one), as_is(other))
}

pub fn owner_hears_of_link(one: impl Display, other: impl Display, number: impl Display) -> String {
    format!("{} and {} are now one person ({number}).", as_is(one), as_is(other))
}

pub const UNLINKED: &str = "This account is no longer linked to your others.";

pub const NOT_LINKED: &str = "This account is not linked to another one.";

pub const ACTIVATION_IN_GROUPS: &str = "This works in groups only. In private I always answer.";

pub const ACTIVATION_USAGE: &str =
    "Use /activation mention, /activation always or /activation default.";

pub fn activation_is(rule: &str) -> String {
    let when = match rule {
        "always" => "every message that I see here",
        "off" => "nothing here, as my config says",
        _ => "messages that mention me or reply to me",
    };
    format!("I answer {when} ({rule}).")
}
