//! The instructions as they were read last. Data only: `snapshot` reads them.

use super::Audience;
use super::stamp::Stamp;

/// Instructions for the beginning: read only in a brand-new workspace, in which nothing was remembered or noted yet.
pub(super) const BOOTSTRAP: &str = "BOOTSTRAP.md";

/// The instructions, in order; missing and empty files are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InstructionFiles {
    pub files: Vec<InstructionFile>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstructionFile {
    pub name: &'static str,
    /// The text, or at most [`super::snapshot::FILE_CHARS_MAX`] characters of it with a mark for the missing part.
    pub text: String,
}

/// The instructions as they were read last, and the stamps of their files.
#[derive(Default)]
pub(super) struct InstructionCache {
    pub(super) stamps: Option<Vec<Option<Stamp>>>,
    pub(super) instruction_files: InstructionFiles,
}

impl InstructionFiles {
    /// The files that `audience` may see; USER.md and BOOTSTRAP.md are for the owner alone.
    pub fn files_for(&self, audience: Audience) -> impl Iterator<Item = &InstructionFile> {
        let is_private = |file: &&InstructionFile| ["USER.md", BOOTSTRAP].contains(&file.name);
        self.files.iter().filter(move |file| audience == Audience::Owner || !is_private(file))
    }
}
