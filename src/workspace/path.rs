//! Names of files in the workspace. A [`WorkspacePath`] can only be had by parsing, and what parsed
//! leads nowhere outside; links are the business of the open directory in `workspace.rs`.

use std::borrow::Cow;
use std::fmt;
use std::path::Path;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use super::folders::{
    DOWNLOADS, FOLDERS_BESIDE, Folder, GROUPS, OUTPUTS, PEOPLE, SHARED, WORKSPACE,
};

/// The folder of the workspace in which former versions kept what people sent. It stays readable, and untrusted.
pub const INBOX: &str = "inbox";

/// The end of the name of an output of a former version that may contain untrusted content.
pub const UNTRUSTED_OUTPUT_MARK: &str = "-others";

/// Returns true if a text names the folder of received files, as far as can be seen.
pub fn names_inbox(text: &str) -> bool {
    text.to_ascii_lowercase().contains(INBOX)
}

/// The prefix that tells leftovers of an interrupted write from the operator's files.
pub const TEMPORARY_PREFIX: &str = ".peacrab-tmp-";

/// Maximum length of a path, in bytes: a quarter of Linux's PATH_MAX, because the path of the workspace precedes it.
const PATH_BYTES_MAX: usize = 1_024;

/// Maximum length of a name, in bytes: Linux's NAME_MAX without the part that the name of a temporary file needs.
const NAME_BYTES_MAX: usize = 200;

/// The paths of instructions for the bot.
const INSTRUCTION_PATHS: &[&str] = &[
    "AGENTS.md",
    "SOUL.md",
    "TOOLS.md",
    "IDENTITY.md",
    "BOOTSTRAP.md",
    "HEARTBEAT.md",
    "personas",
    "skills",
    ".agents",
];

/// The file about its owner, which it follows in the owner's conversations.
const USER: &str = "USER.md";

/// The file with the instructions of a skill.
const SKILL: &str = "SKILL.md";

/// Files and folders of which the owner is shown each change.
pub(super) fn reported_paths() -> impl Iterator<Item = &'static str> {
    INSTRUCTION_PATHS.iter().copied().chain([USER])
}

/// A file or folder below the workspace's root: one or more names with `/` between, none of them
/// `.` or `..`, no control characters, at most [`PATH_BYTES_MAX`] bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct WorkspacePath(String);

/// Each says what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    #[error("the path is empty; name a file, such as `notes/plan.md`")]
    Empty,
    #[error("`{0}` is absolute; use a path relative to the workspace, such as `notes/plan.md`")]
    Absolute(String),
    #[error("`{0}` climbs with `..`; a path stays below the workspace")]
    Climbs(String),
    #[error("`{0}` contains `\\`; put `/` between folders")]
    Backslash(String),
    #[error("the path contains a control character")]
    Control,
    #[error("`{0}` begins in a home folder; use a path relative to the workspace, such as `{1}`")]
    Home(String, String),
    #[error("`{0}` is an address; use a path relative to the workspace, such as `{1}`")]
    Address(String, String),
    #[error(
        "the path contains a character that turns the direction of writing; write it without (`{0}`)"
    )]
    Bidi(String),
    #[error(
        "the path is too long: at most {NAME_BYTES_MAX} bytes a name and {PATH_BYTES_MAX} together"
    )]
    TooLong,
    #[error("names that start with `{TEMPORARY_PREFIX}` are for files in the making")]
    Temporary,
}

impl WorkspacePath {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The last name.
    pub fn name(&self) -> &str {
        self.0.rsplit_once('/').map_or(&self.0, |(_, name)| name)
    }

    /// None where the parent is the workspace itself.
    pub fn parent(&self) -> Option<Self> {
        self.0.rsplit_once('/').map(|(parent, _)| Self(parent.to_owned()))
    }

    /// Refuses a name that is meant otherwise than it would be taken: `~/…` and `file:…`, which would become
    /// folders of these names, and one that is shown otherwise than it reads. For files that a model makes; one
    /// that is there may have any name.
    pub fn check_new(&self) -> Result<(), PathError> {
        let path = self.0.as_str();
        if path.contains(is_bidi) {
            return Err(PathError::Bidi(path.replace(is_bidi, "")));
        }
        let below = |rest: &str| {
            let rest = rest.trim_matches('/');
            if rest.is_empty() { "notes/plan.md".to_owned() } else { rest.to_owned() }
        };
        if let Some(rest) = path.strip_prefix('~') {
            let rest = rest.split_once('/').map_or(rest, |(_, rest)| rest);
            return Err(PathError::Home(path.to_owned(), below(rest)));
        }
        let scheme = path.get(..5).filter(|scheme| scheme.eq_ignore_ascii_case("file:"));
        match scheme {
            Some(_) => Err(PathError::Address(path.to_owned(), below(&path[5..]))),
            None => Ok(()),
        }
    }

    /// Returns true if only the owner may see it, alone: MEMORY.md, the notes beside it, longer notes,
    /// USER.md, what commands of theirs have written, and what people have sent (who sent it may see it,
    /// too; that is not known here).
    /// Upper and lower case are the same here, as they are to some file systems.
    pub fn is_private(&self) -> bool {
        let first = self.0.split('/').next().unwrap_or_default();
        ["memory", "notes", "MEMORY.md", USER, INBOX, OUTPUTS]
            .iter()
            .any(|name| first.eq_ignore_ascii_case(name))
    }

    /// Returns true if people have sent it.
    pub fn is_received(&self) -> bool {
        self.0.split('/').next().is_some_and(|first| first.eq_ignore_ascii_case(INBOX))
    }

    /// Returns true if others may have written the file: it lies in an untrusted folder, or where former
    /// versions kept files of others in the workspace.
    pub fn is_untrusted(&self) -> bool {
        let (first, _) = self.split_first();
        let is_output = first.eq_ignore_ascii_case(OUTPUTS);
        self.folder() != Folder::Workspace
            || self.is_received()
            || (is_output && self.name().contains(UNTRUSTED_OUTPUT_MARK))
    }

    /// The kind of the folder in which the path lies.
    pub fn folder(&self) -> Folder {
        match self.split_first() {
            (DOWNLOADS, _) => Folder::Downloads,
            (SHARED, _) => Folder::Shared,
            (GROUPS, _) => Folder::Group,
            (PEOPLE, rest) => match rest.split('/').nth(1) {
                Some(WORKSPACE) => Folder::Workspace,
                _ => Folder::Downloads,
            },
            _ => Folder::Workspace,
        }
    }

    /// Returns true if the path lies beside the workspace and not in it.
    pub fn is_beside_workspace(&self) -> bool {
        self.beside().is_some()
    }

    /// The folder beside the workspace in which the path lies.
    fn beside(&self) -> Option<&'static str> {
        FOLDERS_BESIDE.into_iter().find(|name| *name == self.split_first().0)
    }

    /// The folder beside the workspace in which the path lies: of one person or group. None in the workspace.
    pub(super) fn own_folder(&self) -> Option<Self> {
        let names = match self.beside()? {
            GROUPS => 2,
            PEOPLE => 3,
            _ => 1,
        };
        let names: Vec<&str> = self.0.split('/').take(names).collect();
        Some(Self(names.join("/")))
    }

    /// The first name, and the path below it.
    pub fn split_first(&self) -> (&str, &str) {
        self.0.split_once('/').unwrap_or((&self.0, ""))
    }

    /// Returns true for a folder itself and all below it.
    pub fn is_within(&self, folder: &Self) -> bool {
        let rest = self.0.strip_prefix(folder.as_str());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// Returns the path from a folder on, if it lies below that one.
    pub(super) fn below(&self, folder: &Self) -> Option<Self> {
        let rest = self.0.strip_prefix(folder.as_str())?.strip_prefix('/')?;
        Some(Self(rest.to_owned()))
    }

    /// A path below this one; `below` is one or more names that have been parsed, or our own.
    pub(super) fn join(&self, below: &str) -> Self {
        Self(format!("{}/{below}", self.0))
    }

    /// The folder of all persons.
    pub fn shared() -> Self {
        Self::own(SHARED)
    }

    /// One of our own names.
    pub(super) fn own(name: &'static str) -> Self {
        Self(name.to_owned())
    }

    /// Returns true if the owner is shown a tool's changes of it: instructions, and the file about the owner.
    pub fn is_change_reported(&self) -> bool {
        self.is_instruction() || self.0.eq_ignore_ascii_case(USER)
    }

    /// Returns true if it holds instructions, which only the owner may have changed: whoever writes there gives orders
    /// in the owner's own sessions.
    pub fn is_instruction(&self) -> bool {
        let first = self.0.split('/').next().unwrap_or_default();
        INSTRUCTION_PATHS.iter().any(|name| first.eq_ignore_ascii_case(name))
    }

    /// Returns true if it has the name of instructions, in whatever folder it lies: `AGENTS.md`, `SKILL.md`.
    pub fn is_named_as_rule(&self) -> bool {
        let mut names = INSTRUCTION_PATHS.iter().copied().chain([USER, SKILL]);
        names.any(|name| self.name().eq_ignore_ascii_case(name))
    }
}

/// The characters that change the direction of writing (Unicode, `Bidi_Control`).
fn is_bidi(sign: char) -> bool {
    matches!(sign, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

impl FromStr for WorkspacePath {
    type Err = PathError;

    /// `./` and doubled or final slashes are dropped.
    fn from_str(text: &str) -> Result<Self, PathError> {
        if text.len() > PATH_BYTES_MAX {
            return Err(PathError::TooLong);
        }
        if text.chars().any(char::is_control) {
            return Err(PathError::Control);
        }
        if text.starts_with('/') {
            return Err(PathError::Absolute(text.to_owned()));
        }
        if text.contains('\\') {
            return Err(PathError::Backslash(text.to_owned()));
        }
        let names: Vec<&str> =
            text.split('/').filter(|name| !name.is_empty() && *name != ".").collect();
        for name in &names {
            if *name == ".." {
                return Err(PathError::Climbs(text.to_owned()));
            }
            if name.len() > NAME_BYTES_MAX {
                return Err(PathError::TooLong);
            }
            if name.starts_with(TEMPORARY_PREFIX) {
                return Err(PathError::Temporary);
            }
        }
        if names.iter().all(|name| name.trim().is_empty()) {
            return Err(PathError::Empty);
        }
        let mut path = names.join("/");
        // Some file systems take upper and lower case for the same.
        let first = path.split('/').next().unwrap_or_default().len();
        let beside =
            FOLDERS_BESIDE.into_iter().find(|name| path[..first].eq_ignore_ascii_case(name));
        if let Some(name) = beside {
            path.replace_range(..first, name);
        }
        Ok(Self(path))
    }
}

impl TryFrom<String> for WorkspacePath {
    type Error = PathError;

    fn try_from(text: String) -> Result<Self, PathError> {
        text.parse()
    }
}

impl AsRef<Path> for WorkspacePath {
    fn as_ref(&self) -> &Path {
        Path::new(&self.0)
    }
}

impl fmt::Display for WorkspacePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A plain string to the model.
impl JsonSchema for WorkspacePath {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "WorkspacePath".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        String::json_schema(generator)
    }
}
