//! A workspace that a home had, and that is gone. A new one is not begun in its place without a word: it would have none of
//! the owner's files, and backups of it would push out those that have them.

use std::fmt::{self, Display};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The file beside a workspace with the texts of the template as they were last seen. A home that has it had a workspace
/// with files.
pub const RECORD: &str = "template.json";

/// A workspace that is gone. Its message says what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostWorkspace {
    root: PathBuf,
    state: LostState,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum LostState {
    Gone,
    /// The folder on which a disk is mounted is empty without it.
    Empty,
    /// The link's target is not there.
    DanglingLink(PathBuf),
}

impl LostWorkspace {
    /// Looks for the workspace `root`. None if it is there, or if the home never had one.
    pub fn find(root: &Path) -> Option<Self> {
        let state = match fs::read_dir(root) {
            Ok(mut entries) => entries.next().is_none().then_some(LostState::Empty)?,
            Err(error) if error.kind() == ErrorKind::NotFound => match fs::read_link(root) {
                Ok(target) => LostState::DanglingLink(target),
                Err(_) => LostState::Gone,
            },
            // It is there, and cannot be used.
            Err(_) => return None,
        };
        let is_lost = match state {
            LostState::DanglingLink(_) => true,
            LostState::Gone | LostState::Empty => {
                root.parent().is_some_and(|home| home.join(RECORD).exists())
            }
        };
        is_lost.then(|| Self { root: root.to_owned(), state })
    }

    /// Describes what is lost.
    pub fn words(&self) -> String {
        let root = self.root.display();
        match &self.state {
            LostState::Gone => format!("{root} is gone, although this home was in use"),
            LostState::Empty => format!("{root} is empty, although this home was in use"),
            LostState::DanglingLink(target) => {
                format!("{root} is a link to {}, which is not there", target.display())
            }
        }
    }

    /// Returns the ways out.
    pub fn advice(&self) -> String {
        match &self.state {
            LostState::Gone | LostState::Empty => format!(
                "bring the folder back (mount its disk, if it has one), or restore the newest backup \
                 (`peacrab restore FILE --replace`), or move {RECORD}, which is beside it, away to begin with the template"
            ),
            LostState::DanglingLink(_) => "mount its disk, or bring that folder back".to_owned(),
        }
    }
}

impl Display for LostWorkspace {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}: {}", self.words(), self.advice())
    }
}

impl std::error::Error for LostWorkspace {}
