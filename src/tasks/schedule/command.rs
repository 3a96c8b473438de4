//! Commands of jobs, run in the same sandbox and within the same limits as those of `exec`, for persons who may use it.
//! Their output is sent, or becomes input of a model, or reports that there is nothing to do.

use std::time::Duration;

use serde_json::Value;

use crate::memory::audience;
use crate::people::Role;
use crate::people::folder_roles::{FolderRoles, role_for_folders};
use crate::replies;
use crate::sandbox::{
    self, CommandEnding, CommandInput, KeptOutput, NetworkAccess, Sandbox, SandboxCommand, readable,
};
use crate::secret::Redactor;
use crate::tasks::schedule::needs::CommandNeeds;
use crate::types::message::{ChatKind, Printed};
use crate::workspace::command_folders::CommandPlace;
use crate::workspace::file_reads::FileReads;
use crate::workspace::named_paths::NamedPaths;
use crate::workspace::path::names_inbox;
use crate::workspace::{Audience, FileScope, Workspace};

/// Maximum length in characters of an output's beginning in a message; the next constant is for its end, where programs
/// report their errors.
const HEAD_CHARS: usize = 6_000;
const TAIL_CHARS: usize = 2_000;

/// Number of lines at the end of a failed command's output that are reported.
const REASON_LINES: usize = 5;
const REASON_CHARS: usize = 300;

/// The configuration for commands, if jobs may run any.
#[derive(Clone, Debug, PartialEq)]
pub struct Commands {
    pub sandbox: Sandbox,
    /// The roles whose commands see the paths of the sandbox's `read` and `write`.
    pub folder_roles: FolderRoles,
    /// The least role whose jobs may run commands.
    pub role: Role,
    pub time_max: Duration,
    /// True if the sandbox hides files. Without that, no job has a command.
    pub files_sandboxed: bool,
    /// True if the config lets commands request the network.
    pub network: bool,
}

/// The command of a run, with the needs that its job names.
#[derive(Clone, Copy, Debug)]
pub(super) struct JobCommand<'a> {
    pub(super) command: &'a str,
    pub(super) needs: &'a CommandNeeds,
    /// The role for which it sees paths of the config.
    pub(super) folder_role: Role,
}

/// The folders that the command of a run sees.
#[derive(Debug)]
pub(super) struct CommandFolders {
    pub(super) place: CommandPlace,
    pub(super) named: NamedPaths,
}

impl Commands {
    /// Returns the part of the workspace that a person's commands may see and change, or the reason why they may run none.
    pub fn permitted_audience(&self, role: Role, chat_kind: ChatKind) -> Result<Audience, String> {
        let effective_role = match chat_kind {
            ChatKind::Private => role,
            ChatKind::Group => role.min(Role::Admin),
        };
        if effective_role < self.role {
            return Err(replies::commands_need(self.role, effective_role));
        }
        match self.files_sandboxed {
            true => Ok(audience(effective_role, chat_kind)),
            // Each such command needs approval, and a job asks nobody.
            false => Err(replies::COMMANDS_NOT_SANDBOXED.to_owned()),
        }
    }

    /// Returns an error with the reason if no command may have these needs.
    pub fn check_needs(&self, needs: &CommandNeeds) -> Result<(), String> {
        match needs {
            CommandNeeds::Workspace => Ok(()),
            CommandNeeds::Network if !self.network => {
                Err(replies::NO_NETWORK_FOR_COMMANDS.to_owned())
            }
            CommandNeeds::Network | CommandNeeds::Paths(_) => Ok(()),
        }
    }

    /// Returns the role for which the commands of a person see paths of the config.
    pub(super) fn folder_role(&self, role: Role, chat_kind: ChatKind) -> Role {
        role_for_folders(role, chat_kind, self.role)
    }

    /// Returns the sandbox of a command with these needs. A command that names needs sees no other paths of the config.
    fn sandbox(&self, needs: &CommandNeeds, folder_role: Role) -> Sandbox {
        let mut sandbox = self.folder_roles.visible(&self.sandbox, folder_role);
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

    /// Starts to watch if a command reads untrusted files, as for `exec`. Must be called before the command begins.
    pub(super) async fn others(
        &self,
        command: JobCommand<'_>,
        scope: &FileScope,
        workspace: &Workspace,
    ) -> FileReads {
        let JobCommand { command, needs, .. } = command;
        match scope {
            _ if !needs.is_none() => FileReads::known(workspace, true),
            FileScope::Owner if names_inbox(command) => FileReads::known(workspace, true),
            FileScope::Owner => FileReads::watch(workspace).await,
            FileScope::Person { .. } => FileReads::known(workspace, false),
            FileScope::Group { .. } => FileReads::known(workspace, true),
        }
    }

    /// Runs a command to its end, and kills it if the future is dropped. Secrets in the output are neither
    /// stored nor shown to models.
    pub(super) async fn run(
        &self,
        JobCommand { command, needs, folder_role }: JobCommand<'_>,
        CommandFolders { place, named }: CommandFolders,
        others: &FileReads,
        redactor: &Redactor,
    ) -> CommandResult {
        let order = SandboxCommand {
            command: command.to_owned(),
            cwd: place.folder.clone(),
            folder: place.folder,
            home: place.home,
            read: named.read,
            write: named.write,
            time_max: self.time_max,
            input: CommandInput::Pipe,
        };
        let result = match sandbox::run(&self.sandbox(needs, folder_role), &order, &[]).await {
            Ok(result) => result,
            Err(error) => {
                return CommandResult::Failed(replies::command_refused(&error.to_string()));
            }
        };
        let output = Output::of(&result.kept, redactor);
        match result.ending {
            CommandEnding::Exit(0) => {
                let untrusted = others.has_read().await;
                CommandResult::Printed(Printed { text: output.shown(), untrusted, webhook: None })
            }
            ending => {
                let ending_text = ending.describe(self.time_max);
                CommandResult::Failed(replies::command_failed(&ending_text, output.last_lines()))
            }
        }
    }
}

/// The result of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandResult {
    /// It succeeded. Its output may be empty.
    Printed(Printed),
    Failed(String),
}

/// Returns true if the last line of a check reports that there is nothing to do: `{"wakeAgent": false}`.
pub(super) fn has_nothing_to_do(printed: &str) -> bool {
    let last = printed.lines().rev().find(|line| !line.trim().is_empty());
    let report = last.and_then(|line| serde_json::from_str::<Value>(line).ok());
    report.is_some_and(|report| report["wakeAgent"] == Value::Bool(false))
}

/// An output as text without secrets. They are redacted before the text is cut, because half of a secret would not be
/// recognized.
struct Output {
    begins: String,
    /// The output after a gap. None if there is no gap.
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
        // A line that the gap has cut may contain half of a secret.
        let whole_lines = head.iter().rposition(|byte| *byte == b'\n').unwrap_or_default();
        let next_line = tail.iter().position(|byte| *byte == b'\n').unwrap_or(tail.len());
        let (begins, ends) = (text(&head[..whole_lines]), text(&tail[next_line..]));
        Self { begins, ends: Some(ends), bytes }
    }

    /// Returns the text to be sent, shortened in its middle.
    fn shown(&self) -> String {
        let fits = self.begins.chars().count() <= HEAD_CHARS + TAIL_CHARS;
        if self.ends.is_none() && fits {
            return self.begins.clone();
        }
        let begins: String = self.begins.chars().take(HEAD_CHARS).collect();
        format!("{begins}\n{}\n{}", replies::cut_out(self.bytes), self.end(TAIL_CHARS))
    }

    /// Returns its last characters.
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
