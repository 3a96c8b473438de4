//! Commands of jobs: run as `exec` runs them, in the same sandbox and within the same bounds, for whom that is
//! allowed. What they print is what is sent, or what a model is told, or that there is nothing to do.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use crate::memory::audience;
use crate::people::Role;
use crate::replies;
use crate::sandbox::{
    self, CommandEnding, CommandInput, KeptOutput, NetworkAccess, Sandbox, SandboxCommand, readable,
};
use crate::secret::Redactor;
use crate::tasks::schedule::needs::CommandNeeds;
use crate::types::message::{ChatKind, Printed};
use crate::workspace::file_reads::FileReads;
use crate::workspace::named_paths::NamedPaths;
use crate::workspace::path::names_inbox;
use crate::workspace::{Audience, FileScope, Workspace};

/// Maximum length of an output's beginning in a message, in characters; the next constant is for its end, where
/// programs report their errors.
const HEAD_CHARS: usize = 6_000;
const TAIL_CHARS: usize = 2_000;

/// Number of lines at the end of a failed command's output that are reported.
const REASON_LINES: usize = 5;
const REASON_CHARS: usize = 300;

/// The means for running commands, where that is offered.
#[derive(Clone, Debug, PartialEq)]
pub struct Commands {
    pub sandbox: Sandbox,
    /// The least role that may have them run.
    pub role: Role,
    pub time_max: Duration,
    /// The sandbox keeps files away. Without that, no job has a command.
    pub files_sandboxed: bool,
    /// The config lets commands ask for the network.
    pub network: bool,
}

/// The command of a run, with what its job named for it.
#[derive(Clone, Copy, Debug)]
pub(super) struct JobCommand<'a> {
    pub(super) command: &'a str,
    pub(super) needs: &'a CommandNeeds,
}

/// The folders that the command of a run sees.
#[derive(Debug)]
pub(super) struct CommandFolders {
    pub(super) folder: PathBuf,
    pub(super) named: NamedPaths,
}

impl Commands {
    /// Returns the part of the workspace that somebody's commands may see and change. Else the reason why they may have
    /// none.
    pub fn may(&self, role: Role, chat_kind: ChatKind) -> Result<Audience, String> {
        let in_place = match chat_kind {
            ChatKind::Private => role,
            ChatKind::Group => role.min(Role::Admin),
        };
        if in_place < self.role {
            return Err(replies::commands_need(self.role, in_place));
        }
        match self.files_sandboxed {
            true => Ok(audience(in_place, chat_kind)),
            // Each such command is asked about, and a job asks nobody.
            false => Err(replies::COMMANDS_NOT_SANDBOXED.to_owned()),
        }
    }

    /// Returns the reason why no command may have these needs, if so.
    pub fn may_need(&self, needs: &CommandNeeds) -> Result<(), String> {
        match needs {
            CommandNeeds::Workspace => Ok(()),
            CommandNeeds::Network if !self.network => {
                Err(replies::NO_NETWORK_FOR_COMMANDS.to_owned())
            }
            CommandNeeds::Network | CommandNeeds::Paths(_) => Ok(()),
        }
    }

    /// The sandbox of a command with these needs. One that names them sees no other paths of the config.
    fn sandbox(&self, needs: &CommandNeeds) -> Sandbox {
        let mut sandbox = self.sandbox.clone();
        if !needs.is_none() {
            sandbox.read.clear();
            sandbox.write.clear();
        }
        if *needs == CommandNeeds::Network {
            sandbox.network = true;
            sandbox.least.network = NetworkAccess::Open;
        }
        sandbox
    }

    /// Watches if a command reads untrusted files, as for a command that runs at once. To be called before it begins.
    pub(super) async fn others(
        &self,
        command: JobCommand<'_>,
        scope: &FileScope,
        workspace: &Workspace,
    ) -> FileReads {
        let JobCommand { command, needs } = command;
        match scope {
            _ if !needs.is_none() => FileReads::known(workspace, true),
            FileScope::Owner if names_inbox(command) => FileReads::known(workspace, true),
            FileScope::Owner => FileReads::watch(workspace).await,
            FileScope::Person { .. } => FileReads::known(workspace, false),
            FileScope::Group { .. } => FileReads::known(workspace, true),
        }
    }

    /// Runs a command to its end. If this is dropped, the command is ended. What it came upon of secrets is
    /// neither kept nor shown to models.
    pub(super) async fn run(
        &self,
        JobCommand { command, needs }: JobCommand<'_>,
        CommandFolders { folder, named }: CommandFolders,
        others: &FileReads,
        redactor: &Redactor,
    ) -> CommandResult {
        let order = SandboxCommand {
            command: command.to_owned(),
            cwd: folder.clone(),
            folder,
            read: named.read,
            write: named.write,
            time_max: self.time_max,
            input: CommandInput::Pipe,
        };
        let ran = match sandbox::run(&self.sandbox(needs), &order, &[]).await {
            Ok(ran) => ran,
            Err(error) => {
                return CommandResult::Failed(replies::command_refused(&error.to_string()));
            }
        };
        let output = Output::of(&ran.kept, redactor);
        match ran.ending {
            CommandEnding::Exit(0) => {
                let untrusted = others.has_read().await;
                CommandResult::Printed(Printed { text: output.shown(), untrusted, webhook: None })
            }
            ending => {
                let how = ending.words(self.time_max);
                CommandResult::Failed(replies::command_failed(&how, output.last_lines()))
            }
        }
    }
}

/// The result of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandResult {
    /// It went well; what it has printed may be nothing.
    Printed(Printed),
    Failed(String),
}

/// Returns true if the last line of a check says that nothing need be done: `{"wakeAgent": false}`.
pub(super) fn lets_sleep(printed: &str) -> bool {
    let last = printed.lines().rev().find(|line| !line.trim().is_empty());
    let said = last.and_then(|line| serde_json::from_str::<Value>(line).ok());
    said.is_some_and(|said| said["wakeAgent"] == Value::Bool(false))
}

/// An output as text without secrets. They are taken out before anything is cut, as half of one would not be
/// known for what it is.
struct Output {
    begins: String,
    /// The output after a gap.
    ends: Option<String>,
    bytes: u64,
}

impl Output {
    fn of(kept: &KeptOutput, redactor: &Redactor) -> Self {
        let text = |bytes: &[u8]| redactor.redact(&readable(bytes)).trim_end().to_owned();
        let (head, tail) = kept.since(0);
        let bytes = kept.total();
        if kept.missing() == 0 {
            return Self { begins: text(&kept.whole()), ends: None, bytes };
        }
        // A line that the gap has cut may hold half of a secret.
        let whole_lines = head.iter().rposition(|byte| *byte == b'\n').unwrap_or_default();
        let next_line = tail.iter().position(|byte| *byte == b'\n').unwrap_or(tail.len());
        let (begins, ends) = (text(&head[..whole_lines]), text(&tail[next_line..]));
        Self { begins, ends: Some(ends), bytes }
    }

    /// As it is sent: shortened in its middle.
    fn shown(&self) -> String {
        let fits = self.begins.chars().count() <= HEAD_CHARS + TAIL_CHARS;
        if self.ends.is_none() && fits {
            return self.begins.clone();
        }
        let begins: String = self.begins.chars().take(HEAD_CHARS).collect();
        format!("{begins}\n{}\n{}", replies::cut_out(self.bytes), self.end(TAIL_CHARS))
    }

    /// Its last characters.
    fn end(&self, chars: usize) -> &str {
        let text = self.ends.as_ref().unwrap_or(&self.begins);
        let last = text.char_indices().rev().take(chars).last();
        last.map_or("", |(at, _)| &text[at..])
    }

    fn last_lines(&self) -> impl Iterator<Item = &str> {
        let lines: Vec<_> =
            self.end(REASON_CHARS).lines().filter(|line| !line.trim().is_empty()).collect();
        let skipped = lines.len().saturating_sub(REASON_LINES);
        lines.into_iter().skip(skipped)
    }
}
