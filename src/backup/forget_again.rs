//! Forgets again, in an unpacked backup, what was forgotten since it was made.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::Context as _;
use rusqlite::Connection;

use crate::bus::forgetting::JOURNAL_TEXTS;
use crate::conversation::actions::BeforeImages;
use crate::conversation::blanking::{before_images_of, blank_steps};
use crate::memory::attachments;
use crate::memory::blanking::{find, remove_lines, sent_with_words};
use crate::memory::facts;
use crate::memory::forgotten::{self, ForgottenRecord, ForgottenScope};
use crate::memory::recall::files as recalled;
use crate::store::{
    BlankPass, BlankedSlice, ChatPlace, ForgottenWords, RowKey, blank_slice, try_read,
};
use crate::tasks::blanking::all_texts;
use crate::trust::marked_files;
use crate::workspace::skills::SkillEnvironment;
use crate::workspace::{FileScope, Workspace, WorkspacePath};

/// The files of a backup, where something was forgotten since.
#[derive(Default)]
pub(super) struct FilesOfBackup {
    /// MEMORY.md and notes from which lines were removed.
    changed: BTreeSet<WorkspacePath>,
    /// None if nothing was forgotten since.
    workspace: Option<Workspace>,
}

/// Removes the words from the memory, the notes and the former versions of files. `home` is the unpacked one; its store is
/// not changed.
pub(super) fn in_files(home: &Path, records: &[ForgottenRecord]) -> anyhow::Result<FilesOfBackup> {
    if records.is_empty() {
        return Ok(FilesOfBackup::default());
    }
    let mut changed = BTreeSet::new();
    let workspace = open(home)?;
    let images = BeforeImages::open(home).context("cannot open the folder `undo`")?;
    for record in records {
        let words = record.words();
        if let Some(scope) = &record.scope.files {
            for path in find(&workspace, scope, &words).memory {
                remove_lines(&workspace, &path, &words)?;
                changed.insert(path);
            }
        }
        let chats = record.scope.chats.clone();
        let undo = try_read(home, move |store| {
            let kept = chats.iter().map(|chat| before_images_of(store, chat));
            kept.collect::<rusqlite::Result<Vec<_>>>()
        });
        let undo = undo.context("cannot read the store")?;
        let undo: Vec<_> = undo.into_iter().flatten().collect();
        images.forget(&undo, &words).context("cannot remove former versions of files")?;
    }
    Ok(FilesOfBackup { changed, workspace: Some(workspace) })
}

/// Deletes files of the unpacked home.
pub(super) fn delete(home: &Path, files: &[WorkspacePath]) -> anyhow::Result<()> {
    if !files.is_empty() {
        let workspace = open(home)?;
        files.iter().for_each(|file| workspace.remove(file));
    }
    Ok(())
}

fn open(home: &Path) -> anyhow::Result<Workspace> {
    Workspace::open_in(&home.join("workspace"), SkillEnvironment::default())
}

/// Removes the words from the texts of the store, the changed files from the index, and keeps the records. Returns the files
/// that came with messages and have the words, and the marked ones with such names: they are to be deleted.
pub(super) fn in_store(
    store: &Connection,
    records: &[ForgottenRecord],
    files: &FilesOfBackup,
) -> rusqlite::Result<Vec<WorkspacePath>> {
    let mut deleted = Vec::new();
    let Some(workspace) = &files.workspace else { return Ok(deleted) };
    for record in records {
        let words = record.words();
        for fact in facts::list(store, &record.scope.keys)? {
            if words.are_in(&fact.text) {
                facts::remove(store, fact.id)?;
            }
        }
        for folder in folders_of(&record.scope) {
            let sought = attachments::with_words(store, &folder, &words)?;
            let sent = sent_with_words(workspace, sought, &words);
            attachments::remove(store, &sent)?;
            attachments::delete(store, &sent)?;
            deleted.extend(sent.into_iter().map(|file| file.path));
        }
        if record.scope.files == Some(FileScope::Owner) {
            // Without their marks, these files would be trusted.
            let marked = marked_files::with_words(store, &words)?;
            marked.iter().try_for_each(|path| marked_files::unmark(store, path))?;
            marked_files::forget_authors(store, &words)?;
            deleted.extend(marked);
        }
        for chat in &record.scope.chats {
            blank_chat(store, chat, &words)?;
        }
        forgotten::note(store, record)?;
    }
    files.changed.iter().try_for_each(|path| recalled::forget(store, path))?;
    Ok(deleted)
}

/// The folders with the files that people sent.
fn folders_of(scope: &ForgottenScope) -> Vec<WorkspacePath> {
    match &scope.files {
        Some(files) => vec![files.downloads()],
        None => {
            let of_group = |chat: &ChatPlace| {
                let (channel, chat) = (chat.channel.as_str().into(), chat.chat.as_str().into());
                FileScope::of_group(&channel, &chat).downloads()
            };
            scope.chats.iter().map(of_group).collect()
        }
    }
}

fn blank_chat(
    store: &Connection,
    chat: &ChatPlace,
    words: &ForgottenWords,
) -> rusqlite::Result<()> {
    all_slices(|pass| blank_steps(store, chat, words, pass))?;
    for table in all_texts().chain([&JOURNAL_TEXTS]) {
        all_slices(|pass| blank_slice(store, table, chat, words, pass))?;
    }
    Ok(())
}

fn all_slices(blank: impl Fn(BlankPass) -> rusqlite::Result<BlankedSlice>) -> rusqlite::Result<()> {
    let mut pass = BlankPass { after: RowKey::FIRST, blanks: true, excluded_row: None };
    while let Some(next) = blank(pass)?.next {
        pass.after = next;
    }
    Ok(())
}
