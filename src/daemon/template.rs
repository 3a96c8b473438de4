//! Updates the workspace to the template of a newer version of the program. Files that nobody has changed are
//! replaced. A file that somebody has changed in other lines gets both changes. One that was changed in the
//! same lines, removed, or made a link, stays. One that is new in a version is added. One that cannot be updated stops
//! no other. The owner is notified.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use crate::atomic_file;
use crate::bus::notices;
use crate::replies;
use crate::services::Services;
use crate::workspace::lost::RECORD;
use crate::workspace::merge::merge;
use crate::workspace::template::files;
use crate::workspace::{FileChange, FileError, Hash, Workspace, WorkspacePath};

/// The folder within the home for new texts of files that were changed.
pub const FOLDER: &str = "template";

/// The folder within that one for files as they were before a merge.
pub const BEFORE: &str = "before";

/// The template's files as they were last seen, by their paths. One that is not among them is new in this version.
pub type TemplateRecord = BTreeMap<String, FormerTemplate>;

/// A file of the template as it was last seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum FormerTemplate {
    /// The hash alone, as former versions of the program wrote it.
    Hash(String),
    Text {
        text: String,
    },
}

impl FormerTemplate {
    pub fn new(text: &[u8]) -> Self {
        match str::from_utf8(text) {
            Ok(text) => Self::Text { text: text.to_owned() },
            Err(_) => Self::Hash(Hash::of(text).to_string()),
        }
    }

    fn matches(&self, hash: &Hash) -> bool {
        match self {
            Self::Hash(known) => *hash == **known,
            Self::Text { text } => *hash == Hash::of(text.as_bytes()),
        }
    }

    fn text(&self) -> Option<&str> {
        match self {
            Self::Hash(_) => None,
            Self::Text { text } => Some(text),
        }
    }
}

/// The outcome of a comparison with the template.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TemplateUpdate {
    /// Files that follow the new template now.
    pub updated: Vec<String>,
    /// Files that were changed by somebody in other lines than by the template, and have both changes now.
    pub merged: Vec<String>,
    /// Files that are new in this version, and have been added.
    pub added: Vec<String>,
    /// Files with a new text that were changed by somebody, and stay.
    pub left: Vec<String>,
    /// Files with a new text that stay, because a link is in their path: the place where it leads is the owner's own.
    pub linked: Vec<String>,
    /// Files that differ from the template, and stay: the record was lost, so nobody knows if somebody has changed them.
    pub unknown: Vec<String>,
    /// Files that could not be updated, and are tried again at the next start.
    pub failed: Vec<FailedFile>,
}

/// A file that could not be updated, with the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedFile {
    pub name: String,
    pub reason: String,
}

/// The outcome of a comparison of one file with the template.
enum FileOutcome {
    /// There is nothing to do, or nothing that the program may do.
    Unaffected,
    Updated,
    Merged,
    Added,
    Left,
    Linked,
    Unknown,
}

/// The thing in the place of a file of the template.
enum Present {
    Nothing,
    File(Hash),
    /// A folder, or a link that leads outside or nowhere: it is the owner's own.
    Other,
}

/// Updates the workspace to the template, and notifies the owner of the changes.
pub(super) async fn follow(services: &Services, home: &Path) {
    let in_home = home.to_owned();
    let compared = services.workspace.run_blocking(move |workspace| {
        let former = read_record(&in_home)?;
        let mut record = former.clone().unwrap_or_default();
        let (template, folder) = (files(), in_home.join(FOLDER));
        let update = match &former {
            Some(_) => update(workspace, &template, &mut record, &folder),
            None => rebuild(workspace, &template, &mut record, &folder),
        };
        anyhow::Ok((update, (former.as_ref() != Some(&record)).then_some(record)))
    });
    let (update, record) = match compared.await {
        Ok(compared) => compared,
        Err(error) => {
            let error = format!("{error:#}");
            tracing::warn!(error, "Cannot read template.json, will try again at the next start");
            return;
        }
    };
    notify_of_failures(services, &update.failed).await;
    let has_changed = |update: &TemplateUpdate| {
        let TemplateUpdate { updated, merged, added, left, linked, unknown, failed: _ } = update;
        [updated, merged, added, left, linked, unknown].iter().any(|files| !files.is_empty())
    };
    if has_changed(&update) && !notify_owner(services, &update, &home.join(FOLDER)).await {
        return;
    }
    // Written last, so that the owner is notified again after a crash before it.
    let Some(record) = record else { return };
    let text = serde_json::to_vec_pretty(&record).expect("texts by their names");
    if let Err(error) = atomic_file::replace(&home.join(RECORD), &text, atomic_file::PRIVATE) {
        tracing::warn!(%error, "Cannot keep the state of the workspace's template");
    }
}

/// Compares the workspace with a template. New texts of files that stay are put into `folder`, and texts that a merge
/// replaces into [`BEFORE`] within it. The record keeps the former text of a file that could not be updated.
pub fn update(
    workspace: &Workspace,
    template: &BTreeMap<&str, &[u8]>,
    record: &mut TemplateRecord,
    folder: &Path,
) -> TemplateUpdate {
    let mut update = TemplateUpdate::default();
    // A home from before there were records counts as up to date.
    let is_first = record.is_empty();
    for (name, text) in template {
        let path = path_of(name);
        let outcome = match record.get(*name) {
            Some(known) if known.matches(&Hash::of(text)) => Ok(FileOutcome::Unaffected),
            Some(known) => update_file(workspace, &path, text, known, folder),
            None if is_first => Ok(FileOutcome::Unaffected),
            None => add_file(workspace, &path, text, folder),
        };
        if update.take(name, outcome) {
            record.insert((*name).to_owned(), FormerTemplate::new(text));
        }
    }
    update
}

/// Compares the workspace with a template after the record was lost, and makes it again. No file of the workspace is
/// changed or added. The template's text of one that differs is put into `folder`.
pub fn rebuild(
    workspace: &Workspace,
    template: &BTreeMap<&str, &[u8]>,
    record: &mut TemplateRecord,
    folder: &Path,
) -> TemplateUpdate {
    let mut update = TemplateUpdate::default();
    for (name, text) in template {
        let path = path_of(name);
        let outcome = match look_at(workspace, &path) {
            Ok(Present::File(present)) if present != Hash::of(text) => {
                write_new_text(folder, &path, text).map(|()| FileOutcome::Unknown)
            }
            Ok(_) => Ok(FileOutcome::Unaffected),
            Err(error) => Err(error),
        };
        if update.take(name, outcome) {
            // Without it, a file that was removed would be added.
            record.insert((*name).to_owned(), FormerTemplate::new(text));
        }
    }
    update
}

fn path_of(name: &str) -> WorkspacePath {
    name.parse().expect("the template's names are paths")
}

impl TemplateUpdate {
    /// Adds the outcome of one file. Returns false if it failed.
    fn take(&mut self, name: &str, outcome: anyhow::Result<FileOutcome>) -> bool {
        let name = name.to_owned();
        match outcome {
            Ok(FileOutcome::Unaffected) => {}
            Ok(FileOutcome::Updated) => self.updated.push(name),
            Ok(FileOutcome::Merged) => self.merged.push(name),
            Ok(FileOutcome::Added) => self.added.push(name),
            Ok(FileOutcome::Left) => self.left.push(name),
            Ok(FileOutcome::Linked) => self.linked.push(name),
            Ok(FileOutcome::Unknown) => self.unknown.push(name),
            Err(error) => {
                self.failed.push(FailedFile { name, reason: format!("{error:#}") });
                return false;
            }
        }
        true
    }
}

/// Adds a file that is new in the template. One that is there already is the owner's own, and stays.
fn add_file(
    workspace: &Workspace,
    path: &WorkspacePath,
    text: &[u8],
    folder: &Path,
) -> anyhow::Result<FileOutcome> {
    if workspace.resolve(path).is_ok_and(|found| found != *path) {
        write_new_text(folder, path, text)?;
        return Ok(FileOutcome::Linked);
    }
    match look_at(workspace, path)? {
        // A crash may have come before the owner was notified.
        Present::File(present) if present == Hash::of(text) => return Ok(FileOutcome::Added),
        Present::File(_) => {
            write_new_text(folder, path, text)?;
            return Ok(FileOutcome::Left);
        }
        Present::Other => return Ok(FileOutcome::Unaffected),
        Present::Nothing => {}
    }
    workspace.apply(&FileChange::new(path.clone(), None, text.to_vec()))?;
    Ok(FileOutcome::Added)
}

/// Updates one file to its new text, of which the template had the text `known` before.
fn update_file(
    workspace: &Workspace,
    path: &WorkspacePath,
    text: &[u8],
    known: &FormerTemplate,
    folder: &Path,
) -> anyhow::Result<FileOutcome> {
    // A removed file stays removed.
    let Present::File(present) = look_at(workspace, path)? else {
        return Ok(FileOutcome::Unaffected);
    };
    // A crash may have come before the owner was notified.
    if present == Hash::of(text) {
        return Ok(FileOutcome::Updated);
    }
    if workspace.resolve(path)? != *path {
        write_new_text(folder, path, text)?;
        return Ok(FileOutcome::Linked);
    }
    if known.matches(&present) {
        workspace.apply(&FileChange::new(path.clone(), Some(present), text.to_vec()))?;
        return Ok(FileOutcome::Updated);
    }
    if merge_file(workspace, path, [known.text(), str::from_utf8(text).ok()], folder)? {
        return Ok(FileOutcome::Merged);
    }
    write_new_text(folder, path, text)?;
    Ok(FileOutcome::Left)
}

/// Merges the template's changes into a file that somebody has changed. Returns false, and changes nothing, if
/// that is impossible. `texts` are the template's former and new text, where they are known.
fn merge_file(
    workspace: &Workspace,
    path: &WorkspacePath,
    texts: [Option<&str>; 2],
    folder: &Path,
) -> anyhow::Result<bool> {
    let [Some(former), Some(new)] = texts else { return Ok(false) };
    // A file that is not text, or too long, stays.
    let Ok(Some(own)) = workspace.read_text(path) else { return Ok(false) };
    let Some(merged) = merge(former, &own, new) else { return Ok(false) };
    // After a crash, the file may be merged already.
    if merged != own {
        write_private(&folder.join(BEFORE), path.as_str(), own.as_bytes())
            .context("cannot keep its present text")?;
        let present = Some(Hash::of(own.as_bytes()));
        workspace.apply(&FileChange::new(path.clone(), present, merged.into_bytes()))?;
    }
    Ok(true)
}

fn look_at(workspace: &Workspace, path: &WorkspacePath) -> anyhow::Result<Present> {
    match workspace.hash(path) {
        Ok(Some(present)) => Ok(Present::File(present)),
        Ok(None) => Ok(Present::Nothing),
        Err(error @ FileError::Io { .. }) => Err(error.into()),
        Err(_) => Ok(Present::Other),
    }
}

/// Writes the new text of a file that stays into the folder for them.
fn write_new_text(folder: &Path, path: &WorkspacePath, text: &[u8]) -> anyhow::Result<()> {
    write_private(folder, path.as_str(), text).context("cannot write its new text")
}

/// Writes a text into a folder of the home.
fn write_private(folder: &Path, name: &str, text: &[u8]) -> io::Result<()> {
    let file: PathBuf = folder.join(name);
    let parent = file.parent().unwrap_or(folder);
    DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
    atomic_file::replace(&file, text, atomic_file::PRIVATE)
}

/// Reads the record, which is empty if there is none. None if its content is broken.
fn read_record(home: &Path) -> anyhow::Result<Option<TemplateRecord>> {
    let text = match fs::read(home.join(RECORD)) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Some(BTreeMap::new())),
        Err(error) => return Err(error.into()),
    };
    let record = serde_json::from_slice(&text);
    Ok(record
        .inspect_err(|error| tracing::warn!(%error, "template.json is broken, will make it again"))
        .ok())
}

/// Queues a message to the owner, if there is one. Returns false if that fails.
async fn notify_owner(services: &Services, update: &TemplateUpdate, folder: &Path) -> bool {
    let news = replies::TemplateNews {
        updated: &update.updated,
        merged: &update.merged,
        added: &update.added,
        left: &update.left,
        linked: &update.linked,
        unknown: &update.unknown,
        folder,
    };
    let message = replies::template_updated(&news);
    notices::send_to_owner(&services.bus, "template updated", message).await
}

/// Logs the files that could not be updated, and notifies the owner: once for each version and reason.
async fn notify_of_failures(services: &Services, failed: &[FailedFile]) {
    if failed.is_empty() {
        return;
    }
    let with_reason = |file: &FailedFile| format!("{}: {}", file.name, file.reason);
    let files: Vec<_> = failed.iter().map(with_reason).collect();
    tracing::warn!(
        files = files.join("; "),
        "Cannot update some of the workspace's files to the template, will try again at the next start"
    );
    let key = format!("template {} {}", env!("CARGO_PKG_VERSION"), files.join("; "));
    let words = replies::template_failed(&files);
    if let Err(error) = notices::notify_owner(&services.bus, key, words).await {
        tracing::warn!(%error, "Cannot tell the owner of files that could not be updated");
    }
}
