//! The verbs of jobs: the same for `/jobs` in chat, `peacrab cron` and the tool `schedule`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::types::words::words;

// A doc comment here would become part of the tool's schema, and so of each prompt. The tool takes the
// verbs by their variant names; people write `names`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum JobVerb {
    Add,
    List,
    Edit,
    Pause,
    Resume,
    Remove,
    // Models do not get the next three: people use them directly.
    #[schemars(skip)]
    Show,
    #[schemars(skip)]
    Run,
    #[schemars(skip)]
    History,
}

impl JobVerb {
    /// All verbs, in the order of the help texts.
    pub const ALL: [Self; 9] = [
        Self::List,
        Self::Add,
        Self::Edit,
        Self::Show,
        Self::Run,
        Self::Pause,
        Self::Resume,
        Self::Remove,
        Self::History,
    ];

    /// Returns the words that people can write for the verb; help and docs show the first.
    pub const fn names(self) -> &'static [&'static str] {
        match self {
            Self::Add => &["add"],
            Self::List => &["list"],
            Self::Edit => &["edit"],
            Self::Pause => &["pause"],
            Self::Resume => &["resume"],
            Self::Remove => &["rm", "remove"],
            Self::Show => &["show"],
            Self::Run => &["run"],
            Self::History => &["history"],
        }
    }

    pub const fn name(self) -> &'static str {
        self.names()[0]
    }

    /// Returns one line about the verb, for the command line's help and the docs.
    pub const fn description(self) -> &'static str {
        match self {
            Self::Add => "Add a job that runs later, once or repeatedly",
            Self::List => "List the jobs and their next times",
            Self::Edit => "Change a job's time or text",
            Self::Pause => "Pause a job",
            Self::Resume => "Resume a paused job",
            Self::Remove => "Remove a job",
            Self::Show => "Show a job in full",
            Self::Run => "Run a job now",
            Self::History => "Show a job's past runs",
        }
    }

    /// Parses a person's text, in upper or lower case.
    pub fn parse(word: &str) -> Option<Self> {
        let is_named = |verb: &Self| verb.names().iter().any(|it| it.eq_ignore_ascii_case(word));
        Self::ALL.into_iter().find(is_named)
    }

    /// Returns true if the verb is followed by the number of one job and nothing else.
    pub const fn takes_only_a_number(self) -> bool {
        match self {
            Self::Add | Self::List | Self::Edit => false,
            Self::Pause | Self::Resume | Self::Remove | Self::Show | Self::Run | Self::History => {
                true
            }
        }
    }

    /// Returns true if the verb changes nothing, so that it works without a running daemon.
    pub const fn only_reads(self) -> bool {
        matches!(self, Self::List | Self::Show | Self::History)
    }
}

/// The shortcuts of `/jobs`. Each stands for a verb with one of its settings, which the command line and the tool
/// take as an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobShortcut {
    /// Adds a job that sends a text.
    Message,
    /// Adds a job that runs a command.
    Command,
    /// Edits the check of a job.
    Check,
}

words!(JobShortcut { Message = "message", Command = "command", Check = "check" });
