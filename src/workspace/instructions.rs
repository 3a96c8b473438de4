//! The versions of the instructions that are in force: the last ones that could be read. A file that is
//! locked, exchanged for a pipe or made unreadable leaves its last good version in force, so that nobody can
//! switch instructions off without removing them, which the owner is shown. Keeping versions across a restart
//! and telling the owner is the work of `trust::instruction_versions`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tracing::warn;

use super::{FileError, OpenedFile, READ_BYTES_MAX, Workspace, WorkspacePath};

/// All versions together, in bytes: far above any instructions written by hand. What does not fit is read
/// from its file alone.
const VERSIONS_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The version of an instruction file that is in force.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InstructionVersion {
    /// None if it could never be read.
    pub text: Option<String>,
    /// The reason why the file itself cannot be read now; none if it can.
    pub blocked: Option<String>,
}

/// All versions, and which of them are not stored yet.
#[derive(Default)]
pub(super) struct Instructions {
    /// A lock, as prompts are built in many tasks; never held over a read of a file.
    state: Mutex<InstructionState>,
    unsaved: Notify,
}

#[derive(Default)]
struct InstructionState {
    versions: BTreeMap<WorkspacePath, InstructionVersion>,
    unsaved: BTreeSet<WorkspacePath>,
}

impl Workspace {
    /// The text of an instruction file that is in force: of the file, or if that cannot be read, of its last
    /// good version. None if there is no such file; an error if no version of it is known. At most
    /// [`READ_BYTES_MAX`].
    pub fn instruction(&self, path: &WorkspacePath) -> Result<Option<String>, FileError> {
        let read = self.open_file(path).and_then(|file| {
            file.check_trusted()?;
            file.read_text()
        });
        self.in_force(path, read)
    }

    /// As [`Self::instruction`] for a file that is shown to anybody: the first `max` bytes, and the reason if
    /// no version of it is known.
    pub(super) fn public_instruction(
        &self,
        path: &WorkspacePath,
        max: u64,
    ) -> Result<Option<String>, FileError> {
        let public = |file: OpenedFile| match file.path().is_private() {
            true => Err(FileError::Private(file.path().clone())),
            false => file.check_trusted().map(|()| file),
        };
        let read = self.open_file(path).and_then(public);
        let read = read.and_then(|file| file.read_page(0, max.min(READ_BYTES_MAX)));
        let text = read.map(|page| String::from_utf8_lossy(&page.bytes).into_owned());
        self.in_force(path, text)
    }

    /// Records what became of reading a file, and gives the text that is in force.
    fn in_force(
        &self,
        path: &WorkspacePath,
        read: Result<String, FileError>,
    ) -> Result<Option<String>, FileError> {
        let instructions = &self.0.instructions;
        let mut state = instructions.lock();
        let former = state.versions.get(path).cloned();
        let (version, in_force) = match read {
            Ok(text) => (
                Some(InstructionVersion { text: Some(text.clone()), blocked: None }),
                Ok(Some(text)),
            ),
            Err(FileError::Missing(_)) => (None, Ok(None)),
            Err(error) => {
                let text = former.as_ref().and_then(|former| former.text.clone());
                let blocked = Some(error.to_string());
                let in_force = text.clone().map_or(Err(error), |text| Ok(Some(text)));
                (Some(InstructionVersion { text, blocked }), in_force)
            }
        };
        if version != former {
            if let Some(reason) = version.as_ref().and_then(|version| version.blocked.as_ref()) {
                warn!(%path, reason, "Cannot read instructions; their last good version is in force");
            }
            state.put(path, version);
            instructions.unsaved.notify_one();
        }
        in_force
    }

    /// Puts the versions of a former process in force, before anything is read.
    pub fn restore_instructions(&self, versions: Vec<(WorkspacePath, InstructionVersion)>) {
        self.0.instructions.lock().versions = versions.into_iter().collect();
    }

    /// Returns true if a file of instructions cannot be read now. Its time of change says nothing about when
    /// it can be read again.
    pub(super) fn has_blocked_instructions(&self) -> bool {
        self.0.instructions.lock().versions.values().any(|version| version.blocked.is_some())
    }

    /// The files below a folder of which a version is in force.
    pub(super) fn known_instructions(&self, folder: &WorkspacePath) -> Vec<WorkspacePath> {
        let is_below = |path: &&WorkspacePath| {
            let rest = path.as_str().strip_prefix(folder.as_str());
            rest.is_some_and(|rest| rest.starts_with('/'))
        };
        self.0.instructions.lock().versions.keys().filter(is_below).cloned().collect()
    }

    /// Waits until a version is to be stored.
    pub async fn instructions_changed(&self) {
        self.0.instructions.unsaved.notified().await;
    }

    /// The versions that differ from what was stored; none if the file was removed.
    pub fn unsaved_instructions(&self) -> Vec<(WorkspacePath, Option<InstructionVersion>)> {
        let state = self.0.instructions.lock();
        let version = |path: &WorkspacePath| (path.clone(), state.versions.get(path).cloned());
        state.unsaved.iter().map(version).collect()
    }

    /// Notes that these versions are stored now.
    pub fn instructions_saved(&self, saved: &[(WorkspacePath, Option<InstructionVersion>)]) {
        let mut state = self.0.instructions.lock();
        for (path, version) in saved {
            if state.versions.get(path) == version.as_ref() {
                state.unsaved.remove(path);
            }
        }
    }
}

impl Instructions {
    fn lock(&self) -> MutexGuard<'_, InstructionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl InstructionState {
    fn put(&mut self, path: &WorkspacePath, version: Option<InstructionVersion>) {
        self.versions.remove(path);
        if let Some(mut version) = version {
            let length = |it: &InstructionVersion| it.text.as_ref().map_or(0, String::len);
            let all: usize = self.versions.values().map(length).sum();
            if all + length(&version) > VERSIONS_BYTES_MAX {
                warn!(%path, "Instructions are too large for a copy of their last good version");
                version.text = None;
            }
            self.versions.insert(path.clone(), version);
        }
        self.unsaved.insert(path.clone());
    }
}
