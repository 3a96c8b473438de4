//! The one table of decisions: what becomes of an act, on a folder, in a turn that has or has not read untrusted
//! content, with or without a person who can be asked. Permission decisions, `peacrab explain` and the table in
//! `docs/trust.md` are made from it. Roles and the config are applied around it, in `permission`. Pure.

use std::fmt;

use crate::trust::acts::{CommandAccess, Reach};
use crate::workspace::Folder;

/// The act of a call, as far as the table tells calls apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Act {
    /// It looks at something, or stays within the conversation.
    Stay,
    /// It changes a file in that folder.
    Write(Folder),
    /// It changes instructions or skills.
    WriteInstructions,
    /// It changes the memory.
    WriteMemory,
    /// It runs a command.
    Run(CommandAccess),
    /// It opens a web address that a person or a search named, or one of the few links that may be followed.
    OpenNamedUrl,
    /// It opens any other web address.
    OpenUrl,
    /// It lets each run of a job do more than others may.
    GrantJob,
    /// It speaks to others or acts where nothing takes it back.
    ActOutside,
    /// It tells others what a person said in private.
    Tell,
}

/// The state of the turn that makes a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TurnState {
    /// Its model sees untrusted content.
    pub is_tainted: bool,
    /// A person began it, and can be asked.
    pub is_attended: bool,
}

/// The ruling about a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ruling {
    Do,
    /// It is refused; the same in the downloads is not.
    Downloads,
    Ask,
    Refuse,
}

impl Act {
    /// All acts, in the order of the table in the docs.
    pub fn all() -> impl Iterator<Item = Self> {
        let begin = [Self::Stay].into_iter();
        let files = Folder::ALL.map(Self::Write).into_iter();
        let own = [Self::WriteInstructions, Self::WriteMemory];
        let commands = CommandAccess::ALL.map(Self::Run);
        let rest =
            [Self::OpenNamedUrl, Self::OpenUrl, Self::GrantJob, Self::ActOutside, Self::Tell];
        begin.chain(files).chain(own).chain(commands).chain(rest)
    }

    /// The act of a call with this reach. `knows_url` is true for an address that may be opened.
    pub fn of(reach: &Reach, knows_url: bool) -> Self {
        match reach {
            Reach::Here => Self::Stay,
            Reach::File(folder) => Self::Write(*folder),
            Reach::Command(access) => Self::Run(*access),
            Reach::Outside => Self::ActOutside,
            Reach::JobNeeds => Self::GrantJob,
            Reach::Tell(_) => Self::Tell,
            Reach::Rules => Self::WriteInstructions,
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

/// Decides about an act in a turn.
pub fn decide(act: Act, turn: TurnState) -> Ruling {
    let TurnState { is_tainted, is_attended } = turn;
    let asks = match act {
        Act::Stay
        | Act::OpenNamedUrl
        | Act::Write(Folder::Downloads | Folder::Group)
        | Act::Run(CommandAccess::Downloads) => false,
        Act::Run(CommandAccess::AskedNetwork | CommandAccess::Both) | Act::GrantJob | Act::Tell => {
            true
        }
        Act::Write(Folder::Workspace | Folder::Shared)
        | Act::WriteInstructions
        | Act::WriteMemory
        | Act::Run(CommandAccess::Workspace | CommandAccess::Named | CommandAccess::Network)
        | Act::OpenUrl
        | Act::ActOutside => is_tainted,
    };
    let has_other_way = matches!(
        act,
        Act::Write(Folder::Workspace | Folder::Shared)
            | Act::Run(CommandAccess::Workspace | CommandAccess::Named)
    );
    match (asks, is_attended) {
        (false, _) => Ruling::Do,
        (true, true) => Ruling::Ask,
        (true, false) if has_other_way => Ruling::Downloads,
        (true, false) => Ruling::Refuse,
    }
}

/// The table as Markdown, for the docs.
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

/// As the rest of a sentence that begins with the tool: "writes a file of the workspace".
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
                "runs a command in `downloads/` that reads paths of the workspace"
            }
            Self::Run(CommandAccess::Network) => {
                "runs a command in `downloads/` with the network (`network = \"on\"`)"
            }
            Self::Run(CommandAccess::AskedNetwork) => {
                "runs a command in `downloads/` with the network (`network = \"ask\"`)"
            }
            Self::Run(CommandAccess::Both) => {
                "runs a command with the network and paths of the workspace"
            }
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
