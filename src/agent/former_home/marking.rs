//! Finds and marks the files of a former version that others wrote, or turns that had read untrusted content. Sends no
//! messages.

use std::collections::BTreeMap;

use rusqlite::Connection;

use crate::conversation::former_home::{WrittenFile, written_files};
use crate::conversation::sources;
use crate::memory;
use crate::people::{People, Role};
use crate::replies;
use crate::services::Services;
use crate::store::{StoreError, Sync};
use crate::tasks::schedule;
use crate::trust::marked_files::{self, FormerHomeState, MarkedFile};
use crate::trust::taint;
use crate::types::message::ChatKind;
use crate::types::session::{SessionId, TurnId};
use crate::workspace::{Audience, OpenedFile, Workspace, WorkspacePath};

/// The tool that replaces the whole content of a file.
const WRITES_WHOLE: &str = "write_file";

/// Marks the files, pauses the jobs that name them, and notes that it is done: one transaction.
pub(super) async fn mark(services: &Services) -> Result<(), StoreError> {
    let (store, people) = (&services.bus.store, services.bus.people.clone());
    let found = store.read(move |store| find(store, &people)).await?;
    let hash = |workspace: &Workspace| {
        let mut marked = Vec::new();
        for (path, author) in found {
            if let Some(hash) = hash_of(workspace, &path) {
                marked.push(MarkedFile { path, hash, author });
            }
        }
        marked
    };
    let marked = services.workspace.run_blocking(hash).await;
    tracing::info!(files = marked.len(), "Looked through the files of a former version");
    let keep = move |store: &Connection| {
        marked.iter().try_for_each(|file| marked_files::mark(store, file))?;
        let paths: Vec<_> = marked.into_iter().map(|file| file.path).collect();
        schedule::pause_those_naming(store, &paths)?;
        marked_files::set_former_home(store, FormerHomeState::Found)
    };
    store.write("files of a former version", Sync::Now, keep).await
}

/// Returns the files in the owner's workspace that others or tainted turns have written last, with the name of the
/// author. None for a tainted turn of the owner.
fn find(
    store: &Connection,
    people: &People,
) -> rusqlite::Result<BTreeMap<WorkspacePath, Option<String>>> {
    let (mut found, mut tainted) = (BTreeMap::new(), BTreeMap::new());
    for file in written_files(store)? {
        let Ok(path) = file.path.parse::<WorkspacePath>() else { continue };
        // Changes of these needed approval, or their folder makes them untrusted.
        let is_asked = path.is_change_reported() || memory::is_memory(&path);
        if path.is_beside_workspace() || path.is_untrusted() || is_asked {
            continue;
        }
        let author = match other_author(store, people, &file)? {
            Some(name) => FileAuthor::Other(name),
            None if is_tainted(store, &file, &mut tainted)? => FileAuthor::Tainted,
            None => FileAuthor::Owner,
        };
        match author {
            FileAuthor::Owner if file.tool == WRITES_WHOLE => {
                found.remove(&path);
            }
            FileAuthor::Owner => {}
            FileAuthor::Other(name) => {
                found.insert(path, Some(name));
            }
            FileAuthor::Tainted => {
                found.entry(path).or_insert(None);
            }
        }
    }
    Ok(found)
}

enum FileAuthor {
    /// The owner wrote it in a clean turn, or approved the call.
    Owner,
    Tainted,
    Other(String),
}

/// Returns the name of the person for whom a file was written. None for the owner.
fn other_author(
    store: &Connection,
    people: &People,
    file: &WrittenFile,
) -> rusqlite::Result<Option<String>> {
    let Some(sender) = &file.sender else { return Ok(Some(replies::SOMEBODY.to_owned())) };
    let role = people.role_of(store, file.origin.channel(), &sender.id)?;
    Ok((role != Some(Role::Owner)).then(|| sender.to_string()))
}

/// Returns true if the turn had read untrusted content, and nobody has approved the call. `first` caches the first such
/// turn of each session.
fn is_tainted(
    store: &Connection,
    file: &WrittenFile,
    first: &mut BTreeMap<SessionId, Option<TurnId>>,
) -> rusqlite::Result<bool> {
    if file.was_allowed {
        return Ok(false);
    }
    let audience = match file.chat_kind {
        Some(ChatKind::Private) => Audience::Owner,
        Some(ChatKind::Group) | None => Audience::Others,
    };
    let first = match first.get(&file.session) {
        Some(first) => *first,
        None => {
            let shown = sources::up_to(store, file.session, TurnId(i64::MAX))?;
            let untrusted = shown.iter().filter(|it| taint::is_untrusted(&it.1, audience));
            let turn = untrusted.map(|it| it.0).min();
            first.insert(file.session, turn);
            turn
        }
    };
    Ok(first.is_some_and(|first| first <= file.turn))
}

/// Returns the hash of a file in the workspace. None if it is missing, or is a link: a link does not hold the content.
pub(super) fn hash_of(workspace: &Workspace, path: &WorkspacePath) -> Option<String> {
    let hash = workspace.open_without_links(path).and_then(OpenedFile::hash);
    hash.ok().map(|hash| hash.to_string())
}
