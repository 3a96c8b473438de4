//! Sentences for a disk that is full or failing, or holds unreadable data.

use std::fmt::Display;

pub const STORE_FAILED: &str = "I couldn't save your message: my disk is full or failing. I'll answer once that's fixed. My owner should check the disk.";

/// The same, of a database that only a restore brings back.
pub const STORE_DAMAGED: &str = "I couldn't save your message: my database is damaged. My owner should restore my newest backup.";

/// The same, where the message is not delivered again by itself.
pub const NOT_KEPT: &str = "I couldn't save your message: my disk is full or failing. Please send it again once that's fixed.";

pub const DISK_IS_FULL: &str = "My disk is full. I'm using my small reserve, and can't save much more. Please free some space. I'll continue by myself then.";

/// Tells the owner that the store takes nothing more.
pub const DISK_HAS_NO_SPACE: &str = "My disk is full, and I can't save anything more. Messages to me wait. Please free some space. I'll continue by myself then.";

/// Tells the owner that the daemon cannot start.
pub const START_WAITS_FOR_SPACE: &str = "My disk is full, so I can't start. Messages to me wait. Please free some space. I'll continue by myself then.";

/// Tells the owner that the daemon cannot start, once.
pub const START_FINDS_DAMAGE: &str = "My database is damaged, so I can't start. Messages to me wait. Please restore the newest backup on my machine: peacrab restore FILE --replace. My log has the details.";

/// The reason why none runs, in `peacrab status` and the like.
pub const LAST_START_FOUND_DAMAGE: &str = "its last start failed, because the database is damaged. Restore the newest backup: `peacrab restore FILE --replace`. The log and `peacrab doctor` have the details";

/// Tells the owner that the disk does not take what is written.
pub const DISK_FAILS: &str = "My disk doesn't take what I save. Messages to me wait. Please check the disk: my log and the kernel's (dmesg) may show the reason.";

/// Tells the owner that a part of the database cannot be read.
pub const DATABASE_DAMAGED: &str = "My database is damaged, and I can't save or find everything any more. I make no more backups of it. Please stop me and restore the newest backup: peacrab restore FILE --replace. My log has the details.";

/// Tells the owner that the newest changes of the database are gone.
pub const LOG_LOST: &str = "A file of my database (state.db-wal) was lost or damaged while I was off. What I saved shortly before that may be gone: messages, answers, jobs. Please check what you asked me last, and the disk.";

pub const MESSAGE_UNREADABLE: &str =
    "I can no longer read one of your messages that I had saved. Please send it again.";

pub const TURN_UNREADABLE: &str =
    "I can no longer read my saved work on this, so I stopped. Please ask again.";

pub const MESSAGE_FAILED: &str = "I couldn't start on your message. I tried several times, and saving my work failed each time. The reason is in my log. Use /new to start a new conversation, then send it again.";

pub const COMMAND_FAILED: &str = "I couldn't carry out this command. I tried several times, and it failed each time. The reason is in my log.";

pub const ASK_FAILED: &str = "I asked a question here but couldn't continue. I tried several times, and saving the result failed each time, so I stopped. The reason is in my log. Please ask me again.";

pub const INSTRUCTIONS_UNREADABLE: &str = "I can no longer read the old state of my instructions and skills, so I can't tell whether the last command changed them. Please check AGENTS.md and my skills.";

/// The state of a migration, on one line, for systemd and `peacrab update`. It differs from one report to the next.
pub fn updating_database(reached: u32, newest: u32, seconds: u64) -> String {
    match reached < newest {
        true => {
            format!("Updating the database: version {reached} of {newest}, {seconds} s so far.")
        }
        false => format!("Updated the database to version {newest} in {seconds} s."),
    }
}

/// A file of instructions is there and cannot be read.
pub fn instructions_blocked(path: &impl Display, reason: &str, has_version: bool) -> String {
    let now = match has_version {
        true => "I use the last version that I could read.",
        false => "I continue without it.",
    };
    format!(
        "I can't read my instructions in `{path}`: {reason}. {now} Please check the file and my last \
         actions (/actions)."
    )
}

/// Stands in for somebody whose name cannot be read.
pub const SOMEBODY: &str = "someone";
