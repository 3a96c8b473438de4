//! Commands of jobs: run as `exec` runs them, in the same cage and within the same bounds, for whom that is
//! allowed. What they print is what is sent, or what a model is told, or that there is nothing to do.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use crate::memory::audience;
use crate::message::{Place, Printed};
use crate::people::Role;
use crate::replies;
use crate::sandbox::{self, Cage, Ending, Input, Kept, Order, readable};
use crate::workspace::{Audience, path};

/// What is sent or told of an output: its beginning, and its end, where programs say what went wrong. In
/// characters.
const HEAD_CHARS: usize = 6_000;
const TAIL_CHARS: usize = 2_000;

/// A character takes at most so many bytes.
const CHAR_BYTES_MAX: usize = 4;

/// What is told of a command that failed: so much of its end.
const REASON_LINES: usize = 5;
const REASON_CHARS: usize = 300;

/// How commands are run, where that is offered.
#[derive(Clone, Debug, PartialEq)]
pub struct Commands {
    pub cage: Cage,
    /// The least role that may have them run.
    pub role: Role,
    pub time_max: Duration,
    /// The cage keeps files away, so that others than the owner may.
    pub files_caged: bool,
}

impl Commands {
    /// What of the workspace somebody's commands may see and change; else why they may have none.
    pub fn may(&self, role: Role, place: Place) -> Result<Audience, String> {
        let in_place = match place {
            Place::Private => role,
            Place::Group => role.min(Role::Admin),
        };
        if in_place < self.role {
            return Err(replies::commands_need(self.role, in_place));
        }
        match audience(in_place, place) {
            Audience::Others if !self.files_caged => Err(replies::COMMANDS_NOT_CAGED.to_owned()),
            audience => Ok(audience),
        }
    }

    /// Runs a command to its end. If this is dropped, the command is ended.
    pub(super) async fn run(&self, command: &str, folder: PathBuf) -> Came {
        let order = Order {
            command: command.to_owned(),
            cwd: folder.clone(),
            folder,
            read: Vec::new(),
            time_max: self.time_max,
            input: Input::Pipe,
        };
        let foreign = self.cage.network || path::names_inbox(command);
        match sandbox::run(&self.cage, &order, &[]).await {
            Err(error) => Came::Failed(replies::command_refused(&error.to_string())),
            Ok(ran) => match ran.ending {
                Ending::Exit(0) => Came::Printed(Printed { text: shown(&ran.kept), foreign }),
                ending => {
                    let how = ending.words(self.time_max);
                    Came::Failed(replies::command_failed(&how, &last_lines(&ran.kept)))
                }
            },
        }
    }
}

/// What came of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Came {
    /// It went well; what it has printed may be nothing.
    Printed(Printed),
    Failed(String),
}

/// Whether a check says, in its last line, that nothing need be done: `{"wakeAgent": false}`.
pub(super) fn lets_sleep(printed: &str) -> bool {
    let last = printed.lines().rev().find(|line| !line.trim().is_empty());
    let said = last.and_then(|line| serde_json::from_str::<Value>(line).ok());
    said.is_some_and(|said| said["wakeAgent"] == Value::Bool(false))
}

/// An output as it is sent: text, shortened in its middle.
fn shown(kept: &Kept) -> String {
    let (head, tail) = kept.since(0);
    let near = (HEAD_CHARS + TAIL_CHARS) * CHAR_BYTES_MAX;
    let begins = readable(&head[..head.len().min(near + 1)]);
    let is_short = head.len() <= near && tail.is_empty();
    if is_short && begins.chars().count() <= HEAD_CHARS + TAIL_CHARS {
        return begins.trim_end().to_owned();
    }
    let begins: String = begins.chars().take(HEAD_CHARS).collect();
    format!("{begins}\n{}\n{}", replies::cut_out(kept.total()), end(kept, TAIL_CHARS))
}

fn last_lines(kept: &Kept) -> String {
    let end = end(kept, REASON_CHARS);
    let lines: Vec<_> = end.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(REASON_LINES)..].join("\n")
}

/// The last characters of an output.
fn end(kept: &Kept, chars: usize) -> String {
    let (head, tail) = kept.since(0);
    let last = if tail.is_empty() { head } else { tail };
    let text = readable(&last[last.len().saturating_sub(chars * CHAR_BYTES_MAX)..]);
    let text = text.trim_end();
    let skipped = text.chars().count().saturating_sub(chars);
    text.chars().skip(skipped).collect()
}
