//! Carries out the owner's decision about marked files: trust them, move them, or keep them marked. Only updates the
//! marks of listed files.

use rusqlite::Connection;

use super::marking::hash_of;
use super::{MARKED, MarkedChoice, list};
use crate::bus::journal::WaitingMessage;
use crate::replies;
use crate::services::Services;
use crate::store::{StoreError, Sync};
use crate::trust::marked_files::{self, MarkedFile};
use crate::turn::commits;
use crate::types::message::Body;
use crate::workspace::{FileChange, FileError, Hash, Workspace, WorkspacePath};

/// The folder to which marked files are moved.
const MOVED: &str = "downloads/marked";

/// Maximum size of a file that is moved, in bytes.
const MOVED_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// An order about marked files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::agent) enum MarkedFilesCommand {
    List,
    /// Decides about one path, or about all.
    Decide(MarkedChoice, Option<String>),
    Unclear,
}

impl MarkedFilesCommand {
    /// Parses the arguments of `/trust`. None if they are not about marked files.
    pub(in crate::agent) fn parse(arguments: &str) -> Option<Self> {
        let (first, rest) = arguments.trim().split_once(' ').unwrap_or((arguments.trim(), ""));
        if first != MARKED {
            return None;
        }
        let (word, path) = rest.trim().split_once(' ').unwrap_or((rest.trim(), ""));
        let path = Some(path.trim()).filter(|path| !path.is_empty()).map(str::to_owned);
        Some(match (word, MarkedChoice::parse(word)) {
            ("", _) => Self::List,
            (_, Some(choice)) => Self::Decide(choice, path),
            (_, None) => Self::Unclear,
        })
    }
}

/// Shows the marked files to their owner, or decides about them.
pub(in crate::agent) async fn handle(
    services: &Services,
    control: &WaitingMessage,
    order: MarkedFilesCommand,
) -> Result<(), StoreError> {
    let store = &services.bus.store;
    let reply = match order {
        MarkedFilesCommand::Unclear => replies::MARKED_USAGE.to_owned(),
        MarkedFilesCommand::Decide(MarkedChoice::Leave, _) => replies::MARKED_STAY.to_owned(),
        MarkedFilesCommand::List => match list_anew(services).await? {
            Some(list) => return commits::reply_with_bodies(store, control, vec![list]).await,
            None => replies::NO_MARKED_FILES.to_owned(),
        },
        MarkedFilesCommand::Decide(choice, path) => decide(services, choice, path).await?,
    };
    commits::reply(store, control, reply).await
}

/// Lists the files with their present hashes, because the owner decides about the content that was listed last.
async fn list_anew(services: &Services) -> Result<Option<Body>, StoreError> {
    let store = &services.bus.store;
    let files = store.read(marked_files::list).await?;
    let rehash = |workspace: &Workspace| {
        let with_present_hash = |file: MarkedFile| match hash_of(workspace, &file.path) {
            Some(hash) => MarkedFile { hash, ..file },
            None => file,
        };
        files.into_iter().map(with_present_hash).collect::<Vec<_>>()
    };
    let files = services.workspace.run_blocking(rehash).await;
    let store_marks = move |store: &Connection| {
        files.iter().try_for_each(|file| marked_files::mark(store, file))?;
        list(store)
    };
    store.write("marked files listed", Sync::Now, store_marks).await
}

async fn decide(
    services: &Services,
    choice: MarkedChoice,
    path: Option<String>,
) -> Result<String, StoreError> {
    let store = &services.bus.store;
    let mut files = store.read(marked_files::list).await?;
    if let Some(path) = &path {
        files.retain(|file| file.path.as_str() == path);
    }
    if files.is_empty() {
        let no_files = || replies::NO_MARKED_FILES.to_owned();
        return Ok(path.map_or_else(no_files, |path| replies::not_marked(&path)));
    }
    let work = move |workspace: &Workspace| {
        let (mut settled, mut failures) = (Vec::new(), Vec::new());
        for file in files {
            match settle(workspace, &file, choice) {
                Ok(()) => settled.push(file.path),
                Err(failure) => failures.push(failure),
            }
        }
        (settled, failures)
    };
    let (settled, failures) = services.workspace.run_blocking(work).await;
    let reply = match choice {
        MarkedChoice::Trust => replies::marked_trusted(settled.len(), &failures),
        MarkedChoice::Downloads | MarkedChoice::Leave => {
            replies::marked_moved(settled.len(), &failures)
        }
    };
    let unmark = move |store: &Connection| {
        settled.iter().try_for_each(|path| marked_files::unmark(store, path))?;
        marked_files::list(store)
    };
    let marked = store.write("marked files decided", Sync::Now, unmark).await?;
    services.workspace.set_marked(marked.into_iter().map(|file| file.path));
    Ok(reply)
}

/// Carries out a decision about one file. Can be repeated after a crash. The error explains a failure to the owner.
fn settle(workspace: &Workspace, file: &MarkedFile, choice: MarkedChoice) -> Result<(), String> {
    let failed = |error: FileError| replies::marked_failed(file.path.as_str(), &error);
    let opened = match workspace.open_without_links(&file.path) {
        // It was moved before a crash, or its owner has deleted it.
        Err(FileError::Missing(_)) => return Ok(()),
        opened => opened.map_err(failed)?,
    };
    let bytes = opened.read_up_to(MOVED_BYTES_MAX).map_err(failed)?;
    let hash = Hash::of(&bytes);
    if choice == MarkedChoice::Trust {
        let is_listed = hash.to_string() == file.hash;
        return is_listed.then_some(()).ok_or_else(|| replies::marked_changed(file.path.as_str()));
    }
    let to: WorkspacePath = format!("{MOVED}/{}", file.path)
        .parse()
        .map_err(|error| replies::marked_failed(file.path.as_str(), &error))?;
    match workspace.apply(&FileChange::new(to.clone(), None, bytes)) {
        // A copy with the same content was made before a crash.
        Err(FileError::Changed(_)) if workspace.hash(&to).ok() == Some(Some(hash.clone())) => {}
        applied => applied.map_err(failed)?,
    }
    workspace.apply(&FileChange::removal(file.path.clone(), hash)).map_err(failed)
}
