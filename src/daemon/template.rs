//! Updates the workspace to the template of a newer version of the program. Files that nobody has changed are
//! replaced. A file that somebody has changed in other lines gets both changes. One that was changed in the
//! same lines, or removed, stays. The owner is notified.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder};
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
use crate::workspace::{FileChange, Hash, Workspace, WorkspacePath};

/// The folder within the home for new texts of files that were changed.
pub const FOLDER: &str = "template";

/// The folder within that one for files as they were before a merge.
pub const BEFORE: &str = "before";

/// The template's files as they were last seen, by their paths.
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
    /// Files with a new text that were changed by somebody, and stay.
    pub left: Vec<String>,
}

/// Updates the workspace to the template, and notifies the owner of the changes.
pub(super) async fn follow(services: &Services, home: &Path) {
    let in_home = home.to_owned();
    let compared = services.workspace.run_blocking(move |workspace| {
        let (mut record, former) = (read_record(&in_home), read_record(&in_home));
        let update = update(workspace, &files(), &mut record, &in_home.join(FOLDER))?;
        anyhow::Ok((update, (record != former).then_some(record)))
    });
    let (update, record) = match compared.await {
        Ok(compared) => compared,
        Err(error) => {
            tracing::warn!(%error, "Cannot update the workspace's template, will try again at the next start");
            return;
        }
    };
    if update != TemplateUpdate::default()
        && !notify_owner(services, &update, &home.join(FOLDER)).await
    {
        return;
    }
    // Written last, so that the owner is notified again of kept files after a crash before it.
    let Some(record) = record else { return };
    let text = serde_json::to_vec_pretty(&record).expect("texts by their names");
    if let Err(error) = atomic_file::replace(&home.join(RECORD), &text, atomic_file::PRIVATE) {
        tracing::warn!(%error, "Cannot keep the state of the workspace's template");
    }
}

/// Compares the workspace with a template. New texts of files that stay are put into `folder`, and texts that a merge
/// replaces into [`BEFORE`] within it.
pub fn update(
    workspace: &Workspace,
    template: &BTreeMap<&str, &[u8]>,
    record: &mut TemplateRecord,
    folder: &Path,
) -> anyhow::Result<TemplateUpdate> {
    let mut update = TemplateUpdate::default();
    for (name, text) in template {
        let path: WorkspacePath = name.parse().context("the template has a path that is none")?;
        let new = Hash::of(text);
        let known = record.insert((*name).to_owned(), FormerTemplate::new(text));
        // A home from before there were records counts as up to date.
        let Some(known) = known.filter(|known| !known.matches(&new)) else { continue };
        // A removed file stays removed. Anything but a file is the owner's own.
        let Ok(Some(present)) = workspace.hash(&path) else { continue };
        if present == new {
            continue;
        }
        if known.matches(&present) {
            let change = FileChange::new(path, Some(present), text.to_vec());
            workspace.apply(&change).with_context(|| format!("cannot update {name}"))?;
            update.updated.push((*name).to_owned());
        } else if merge_file(workspace, &path, [known.text(), str::from_utf8(text).ok()], folder)
            .with_context(|| format!("cannot merge {name}"))?
        {
            update.merged.push((*name).to_owned());
        } else {
            write_private(folder, name, text).with_context(|| format!("cannot write {name}"))?;
            update.left.push((*name).to_owned());
        }
    }
    Ok(update)
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
        write_private(&folder.join(BEFORE), path.as_str(), own.as_bytes())?;
        let present = Some(Hash::of(own.as_bytes()));
        workspace.apply(&FileChange::new(path.clone(), present, merged.into_bytes()))?;
    }
    Ok(true)
}

/// Writes a text into a folder of the home.
fn write_private(folder: &Path, name: &str, text: &[u8]) -> std::io::Result<()> {
    let file: PathBuf = folder.join(name);
    let parent = file.parent().unwrap_or(folder);
    DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
    atomic_file::replace(&file, text, atomic_file::PRIVATE)
}

/// Reads the record. An unreadable one counts as empty.
fn read_record(home: &Path) -> TemplateRecord {
    let text = fs::read(home.join(RECORD)).unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_default()
}

/// Queues a message to the owner, if there is one. Returns false if that fails.
async fn notify_owner(services: &Services, update: &TemplateUpdate, folder: &Path) -> bool {
    let message =
        replies::template_updated([&update.updated, &update.merged, &update.left], folder);
    notices::send_to_owner(&services.bus, "template updated", message).await
}
