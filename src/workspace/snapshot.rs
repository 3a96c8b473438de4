//! The instructions that the operator has written for the bot. Only changed files are read again. Not here: their place in
//! the prompt (`turn::instructions`).

use super::instruction_files::{BOOTSTRAP, InstructionCache};
pub use super::instruction_files::{InstructionFile, InstructionFiles};
use super::stamp::Stamp;
use super::{EntryKind, Workspace, WorkspacePath};

/// Maximum length of a file, and of all together, in characters. Other assistants with such a workspace have the same
/// limits, so that a workspace can be moved here.
pub const FILE_CHARS_MAX: usize = 20_000;
pub const INSTRUCTIONS_CHARS_MAX: usize = 60_000;

/// The files in the order of the prompt.
const FILES: [&str; 6] = ["AGENTS.md", "SOUL.md", "TOOLS.md", "IDENTITY.md", "USER.md", BOOTSTRAP];

/// The files that show that a workspace is not new.
const MEMORIES: [&str; 2] = ["memory", "MEMORY.md"];

impl Workspace {
    /// Returns the present instructions. Only changed files are read.
    pub fn instruction_files(&self) -> InstructionFiles {
        let mut cache =
            self.0.instruction_files.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        cache.instruction_files(self)
    }
}

impl InstructionCache {
    fn instruction_files(&mut self, workspace: &Workspace) -> InstructionFiles {
        let mut stamps: Vec<_> = FILES.iter().map(|name| stamp(workspace, name)).collect();
        // BOOTSTRAP.md is read only while these files are empty.
        if stamps.last().is_some_and(Option::is_some) {
            stamps.extend(MEMORIES.iter().map(|name| stamp(workspace, name)));
            stamps.push(stamp(workspace, "memory/MEMORY.md"));
        }
        if self.stamps.as_ref() != Some(&stamps) {
            self.instruction_files = read(workspace);
            let is_settled = stamps.iter().flatten().all(Stamp::is_settled)
                && !workspace.has_blocked_instructions();
            self.stamps = is_settled.then_some(stamps);
        }
        self.instruction_files.clone()
    }
}

/// Returns a text of at most `max` characters and a mark that names the file. If the text is longer, its middle is left
/// out: the beginning of a file says what it is about, and its end was added last.
pub fn cut_middle(text: &str, max: usize, name: &str) -> String {
    let length = text.chars().count();
    if length <= max {
        return text.to_owned();
    }
    let head = max * 2 / 3;
    let byte = |chars: usize| text.char_indices().nth(chars).map_or(text.len(), |(at, _)| at);
    let (end_of_head, start_of_tail) = (byte(head), byte(length - (max - head)));
    format!(
        "{}\n\n[{} characters of {name} are left out here; it is longer than {max}.]\n\n{}",
        &text[..end_of_head],
        length - max,
        &text[start_of_tail..]
    )
}

fn read(workspace: &Workspace) -> InstructionFiles {
    let mut left = INSTRUCTIONS_CHARS_MAX;
    let mut instruction_files = InstructionFiles::default();
    for name in FILES {
        if name == BOOTSTRAP && !is_new(workspace) {
            continue;
        }
        let text = workspace.instruction(&path(name)).ok().flatten().unwrap_or_default();
        let text = text.trim();
        if !text.is_empty() {
            let max = FILE_CHARS_MAX.min(left);
            instruction_files
                .files
                .push(InstructionFile { name, text: cut_middle(text, max, name) });
            left -= max.min(text.chars().count());
        }
    }
    instruction_files
}

/// Returns true if nothing was remembered or noted yet.
fn is_new(workspace: &Workspace) -> bool {
    let is_empty =
        |text: String| text.lines().all(|it| it.trim().is_empty() || it.starts_with('#'));
    let text = |name: &str| workspace.read_text(&path(name)).ok().flatten().unwrap_or_default();
    let has_memories = ["memory/MEMORY.md", "MEMORY.md"].iter().any(|name| !is_empty(text(name)));
    let folder = workspace.list(Some(&path("memory")));
    let has_notes = folder.is_ok_and(|it| it.entries.iter().any(|it| it.kind == EntryKind::Folder));
    !has_memories && !has_notes
}

pub(super) fn stamp(workspace: &Workspace, name: &str) -> Option<Stamp> {
    workspace.0.dir.metadata(name).ok().as_ref().map(Stamp::from)
}

fn path(name: &str) -> WorkspacePath {
    name.parse().expect("the names of instructions are paths")
}
