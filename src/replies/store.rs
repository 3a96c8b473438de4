//! What the bot says when its disk is full or failing, or holds what it cannot read.

use std::fmt::Display;

pub const STORE_FAILED: &str = "I can't keep your message just now: my disk is full or failing. I will see it once that is mended; whoever runs me should look.";

/// The same, where the message is not delivered again by itself.
pub const NOT_KEPT: &str = "I can't keep your message just now: my disk is full or failing. Say it again once that is mended.";

pub const DISK_IS_FULL: &str = "My disk is full. I have started on the little room that I keep for that, and can't keep much more. Please make room; I go on by myself then.";

pub const MESSAGE_UNREADABLE: &str = "I kept a message of yours and can't read it any more, so I have set it aside. Please send it again.";

pub const TURN_UNREADABLE: &str = "I can't read any more what I had written down about what I was working on here, so I have stopped. Please ask again.";

pub const MESSAGE_FAILED: &str = "I could not begin to work on your message: I tried several times, and keeping it failed each time. The reason is in my log. Say /new to begin a fresh conversation, then send it again.";

pub const COMMAND_FAILED: &str = "I could not carry out this command: I tried several times, and it failed each time. The reason is in my log.";

pub const ASK_FAILED: &str = "I have asked something here and could not go on with it: I tried several times, and keeping what came of it failed each time. So I have stopped. The reason is in my log. Please ask me again.";

pub const RULES_UNREADABLE: &str = "I can't read any more what my instructions and skills were before the last command ran, so I can't tell whether it changed them. Please look through AGENTS.md and my skills.";

/// A file of instructions is there and cannot be read.
pub fn instructions_blocked(path: &impl Display, reason: &str, has_version: bool) -> String {
    let now = match has_version {
        true => "I go on by the last version of it that I could read.",
        false => "I go on without it.",
    };
    format!(
        "I can't read my instructions in `{path}`: {reason}. {now} Please look at the file, and at what ran \
         here last (/actions)."
    )
}

/// Stands in for somebody whose name cannot be read.
pub const SOMEBODY: &str = "somebody";
