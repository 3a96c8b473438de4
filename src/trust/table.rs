//! The one table of decisions: the ruling about each act, by the state of the turn. The turn has read untrusted content
//! or not, and a person can be asked or not. Permission decisions, `peacrab explain` and the table in `docs/trust.md`
//! use this table. `permission` adds roles and the config. Pure.

use std::fmt;

use crate::trust::acts::{CommandAccess, Reach};
use crate::workspace::Folder;

/// The act of a call: the distinction that the table makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Act {
    /// It only reads, or stays within the conversation.
    Stay,
    /// It changes a file in that folder.
    Write(Folder),
    /// It changes instructions or skills.
    WriteInstructions,
    /// It changes the memory.
    WriteMemory,
    /// It runs a command.
    Run(CommandAccess),
    /// It writes to a running command.
    WriteToCommand,
    /// It opens a web address that a person or a search named, or one of the few links that may be followed.
    OpenNamedUrl,
    /// It opens any other web address.
    OpenUrl,
    /// It gives a job more rights than other jobs have.
    GrantJob,
    /// It sends something to others, or its action cannot be undone.
    ActOutside,
    /// It sends a person's private content to others.
    Tell,
}

/// The state of the turn that makes a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TurnState {
    /// True if its model sees untrusted content.
    pub is_tainted: bool,
    /// True if a person began it and can be asked.
    pub is_attended: bool,
}

/// The ruling about a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ruling {
    Do,
    /// It is refused, but the same act in the downloads is allowed.
    Downloads,
    Ask,
    Refuse,
}

impl Act {
    /// Returns all acts, in the order of the table in the docs.
    pub fn all() -> impl Iterator<Item = Self> {
        let first = [Self::Stay].into_iter();
        let files = Folder::ALL.map(Self::Write).into_iter();
        let knowledge = [Self::WriteInstructions, Self::WriteMemory];
        let commands = CommandAccess::ALL.map(Self::Run);
        let rest = [
            Self::WriteToCommand,
            Self::OpenNamedUrl,
            Self::OpenUrl,
            Self::GrantJob,
            Self::ActOutside,
            Self::Tell,
        ];
        first.chain(files).chain(knowledge).chain(commands).chain(rest)
    }

    /// Returns the act of a call with this reach. `knows_url` is true if the URL may be opened.
    pub fn of(reach: &Reach, knows_url: bool) -> Self {
        match reach {
            Reach::Here => Self::Stay,
            Reach::File(folder) => Self::Write(*folder),
            Reach::Command(access) => Self::Run(*access),
            Reach::RunningCommand => Self::WriteToCommand,
            Reach::Outside => Self::ActOutside,
            Reach::JobNeeds => Self::GrantJob,
            Reach::Tell(_) => Self::Tell,
            Reach::Instructions => Self::WriteInstructions,
            Reach::Memory => Self::WriteMemory,
            Reach::Url(_) if knows_url => Self::OpenNamedUrl,
            Reach::Url(_) => Self::OpenUrl,
        }
    }
}

impl TurnState {
    pub const ALL: [Self; 4] = [
        Self { is_tainted: false, is_attended: true },
        Self { is_tainted: false, is_attended: false },
        Self { is_tainted: true, is_attended: true },
        Self { is_tainted: true, is_attended: false },
    ];
}

/// Returns the ruling about an act in a turn.
pub fn decide(act: Act, turn: TurnState) -> Ruling {
    let TurnState { is_tainted, is_attended } = turn;
    let needs_approval = match act {
        Act::Stay
        | Act::OpenNamedUrl
        | Act::Write(Folder::Downloads | Folder::Group)
        | Act::Run(CommandAccess::Downloads) => false,
        Act::Run(
            CommandAccess::AskedNetwork | CommandAccess::NamedAndShared | CommandAccess::Both,
        )
        | Act::GrantJob
        | Act::Tell => true,
        Act::Write(Folder::Workspace | Folder::Shared)
        | Act::WriteInstructions
        | Act::WriteMemory
        | Act::Run(
            CommandAccess::Workspace
            | CommandAccess::Named
            | CommandAccess::Shared
            | CommandAccess::Network,
        )
        | Act::WriteToCommand
        | Act::OpenUrl
        | Act::ActOutside => is_tainted,
    };
    let has_other_way = matches!(
        act,
        Act::Write(Folder::Workspace | Folder::Shared)
            | Act::Run(CommandAccess::Workspace | CommandAccess::Named | CommandAccess::Shared)
    );
    match (needs_approval, is_attended) {
        (false, _) => Ruling::Do,
        // The command may have the workspace, and nobody can see what it will do with the text.
        (true, _) if act == Act::WriteToCommand => Ruling::Refuse,
        (true, true) => Ruling::Ask,
        (true, false) if has_other_way => Ruling::Downloads,
        (true, false) => Ruling::Refuse,
    }
}

/// Returns the table as Markdown, for the docs.
pub fn markdown() -> String {
    let mut table = String::from(
        "|a call that|in a clean turn|clean, nobody to ask|after untrusted content|after it, nobody to ask|\n\
         |---|---|---|---|---|\n",
    );
    for act in Act::all() {
        let rulings = TurnState::ALL.map(|turn| decide(act, turn).to_string());
        table.push_str(&format!("|{act}|{}|\n", rulings.join("|")));
    }
    table
}

/// Writes the act as the rest of a sentence that begins with the tool: "writes a file of the workspace".
impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stay => "acts only in this conversation",
            Self::Write(Folder::Workspace) => "changes a file of the workspace",
            Self::Write(Folder::Downloads) => "changes a file in `downloads/`",
            Self::Write(Folder::Shared) => "changes a file in `shared/`",
            Self::Write(Folder::Group) => "changes a file of the group",
            Self::WriteInstructions => "changes my instructions or skills",
            Self::WriteMemory => "changes my memory",
            Self::Run(CommandAccess::Workspace) => "runs a command in the workspace",
            Self::Run(CommandAccess::Downloads) => "runs a command in `downloads/`",
            Self::Run(CommandAccess::Named) => {
                "runs a command in `downloads/` that sees named paths"
            }
            Self::Run(CommandAccess::Shared) => {
                "runs a command in `downloads/` that changes `shared/` or a folder of `[exec] write`"
            }
            Self::Run(CommandAccess::Network) => {
                "runs a command in `downloads/` with the network (`network = \"on\"`)"
            }
            Self::Run(CommandAccess::AskedNetwork) => {
                "runs a command in `downloads/` with the network (`network = \"ask\"`)"
            }
            Self::Run(CommandAccess::NamedAndShared) => {
                "runs a command with named paths and `shared/` or a folder of `[exec] write`"
            }
            Self::Run(CommandAccess::Both) => "runs a command with named paths and the network",
            Self::WriteToCommand => "writes to a running command",
            Self::OpenNamedUrl => "opens a web address that somebody named",
            Self::OpenUrl => {
                "opens an address that nobody here has named, or one link too many, which could leak data"
            }
            Self::GrantJob => "makes a job that has the network, named paths, or tools and sites unasked",
            Self::ActOutside => "acts outside this conversation",
            Self::Tell => "tells somebody else what was said in private",
        })
    }
}

impl fmt::Display for Ruling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Do => "do",
            Self::Downloads => "only in `downloads/`",
            Self::Ask => "ask",
            Self::Refuse => "refuse",
        })
    }
}
