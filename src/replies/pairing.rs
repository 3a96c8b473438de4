//! Sentences about strangers, and about letting them in.

use std::fmt::Display;

use super::as_is;

/// `program` is how the machine's owner starts this program for this home.
pub fn pairing_code(program: &str, code: &str, have_owner: bool) -> String {
    let how = if have_owner {
        format!("Ask my owner to send me: /pair approve {code}")
    } else {
        format!(
            "If this is your bot, run this command on its machine to become its owner:\n\
             {} pair approve {code}",
            as_is(program)
        )
    };
    format!("I don't know you yet. Your code is {code}, which is valid for one hour.\n{how}")
}

pub fn stranger_asks(stranger: impl Display, channel: impl Display, code: &str) -> String {
    let (stranger, channel) = (as_is(stranger), as_is(channel));
    format!(
        "{stranger} wants to talk to me on {channel}.\n\
         To approve: /pair approve {code}\nTo decline: /pair deny {code}"
    )
}

/// A line of `/pair list` about somebody who waits.
pub fn pending_person(stranger: impl Display, channel: impl Display, code: &str) -> String {
    format!("{} waits on {} with code {code}", as_is(stranger), as_is(channel))
}

/// A line of `/pair list` about somebody who was let in.
pub fn is_paired(person: impl Display, channel: impl Display, role: impl Display) -> String {
    format!("{} on {} is {role}", as_is(person), as_is(channel))
}

pub const APPROVE_PERSON: &str = "Approve";
pub const DECLINE_PERSON: &str = "Decline";

pub const WELCOME_OWNER: &str =
    "You are my owner now. Send me a message, or /help to see what I can do.";
/// The last message of `peacrab init` to an owner who was greeted after the pairing just now.
pub const SETUP_IS_COMPLETE: &str = "Setup is complete.";
/// The first message in the chat of an owner whom `peacrab init` was told.
pub const SETUP_COMPLETE: &str = "Setup is complete. I'm your assistant now. Ask me anything, or send /help to see what I can do.";
pub const WELCOME_USER: &str =
    "You now have access. Send me a message, or /help to see what I can do.";
pub const PERSON_DECLINED: &str = "Sorry, my owner has declined your request.";
pub const UNKNOWN_CODE: &str =
    "I don't know this code. Codes are valid for one hour. /pair list shows the open requests.";
pub const NOBODY_WAITS: &str = "Nobody is waiting for approval, and nobody has been paired.";
pub const PAIR_USAGE: &str =
    "Use /pair list, /pair approve CODE, /pair deny CODE or /pair revoke CHANNEL ID.";
pub const OWNER_ONLY: &str = "Only my owner can do that.";

pub fn approved(person: impl Display, role: impl Display) -> String {
    format!("{} now has access as {role}.", as_is(person))
}

pub fn denied(person: impl Display) -> String {
    format!("The request of {} was declined.", as_is(person))
}

pub fn revoked(person: impl Display) -> String {
    format!("{} no longer has access.", as_is(person))
}

/// `linked` are the other accounts of the same person.
pub fn revoked_with_linked(person: impl Display, linked: &[String]) -> String {
    let linked: Vec<_> = linked.iter().map(as_is).collect();
    format!(
        "{} no longer has access, nor have the accounts that are linked to it: {}.",
        as_is(person),
        linked.join(", ")
    )
}

/// The reply about somebody who was let in, whom the config lets in as well.
pub fn has_access_by_config(person: impl Display, role: impl Display) -> String {
    format!(
        "{} still has access as {role}, because of config.toml. Nothing else lets them in any more.",
        as_is(person)
    )
}

pub fn not_paired(person: impl Display) -> String {
    format!("{} was not paired. If they are in config.toml, remove them there.", as_is(person))
}
