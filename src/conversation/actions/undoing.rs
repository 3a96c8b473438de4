//! Finds the action to undo, and computes the change that undoes it. Not here: making that change.

use rusqlite::{Connection, named_params};

use super::before_images::BeforeImages;
use super::private::{ActionReader, HIDDEN_MAX};
use super::{ActionScope, SEEN, UNDO};
use crate::memory;
use crate::replies;
use crate::store::Json;
use crate::types::session::{CallId, FileUndo};
use crate::workspace::{
    FileChange, FileError, FileScope, Hash, OpenedFile, Workspace, WorkspacePath,
};

/// An action that may be undone.
#[derive(Clone, Debug, PartialEq)]
pub struct UndoTarget {
    pub id: CallId,
    pub tool: String,
    undo: Option<FileUndo>,
    undone: bool,
}

/// Returns the action with a number, or without one the last action that can be undone. None if there is none in
/// the scope that is shown to the reader.
pub fn find_undo_target(
    store: &Connection,
    reader: &ActionReader,
    scope: &ActionScope,
    id: Option<CallId>,
) -> rusqlite::Result<Option<UndoTarget>> {
    let mut rows = store.prepare_cached(&format!(
        "SELECT c.id, c.tool, iif(c.state IN ('done', 'interrupted'), c.undo, NULL), c.undone IS NOT NULL
         {SEEN} AND iif(:id IS NULL, c.undo IS NOT NULL AND c.undone IS NULL AND c.tool <> '{UNDO}'
         AND c.state IN ('done', 'interrupted'), c.id = :id) ORDER BY c.id DESC LIMIT :limit"
    ))?;
    let targets = rows.query_map(
        named_params! {
            ":whose": scope.whose,
            ":session": scope.session,
            ":id": id,
            ":limit": HIDDEN_MAX + 1,
        },
        |row| {
            let undo = row.get::<_, Option<Json<_>>>(2)?.map(|undo| undo.0);
            Ok(UndoTarget { id: row.get(0)?, tool: row.get(1)?, undo, undone: row.get(3)? })
        },
    )?;
    for target in targets {
        let target = target?;
        if !reader.is_kept_from(store, target.id)? {
            return Ok(Some(target));
        }
    }
    Ok(None)
}

/// Returns the change that undoes an action, or an explanation why it cannot be undone.
pub fn change_that_undoes(
    workspace: &Workspace,
    images: &BeforeImages,
    target: &UndoTarget,
    scope: &FileScope,
) -> Result<FileChange, String> {
    let number = target.id;
    if target.undone {
        return Err(replies::already_undone(number));
    }
    let Some(undo) = &target.undo else {
        return Err(replies::cannot_undo(number, &target.tool));
    };
    let path: WorkspacePath =
        undo.path.parse().map_err(|_| replies::cannot_undo(number, &target.tool))?;
    let refused = |error: FileError| replies::not_undone(&error.to_string());
    let (path, file) = workspace.open_to_change(&path, scope).map_err(refused)?;
    let current_hash = file.map(OpenedFile::hash).transpose().map_err(refused)?;
    if current_hash.as_ref().map(Hash::as_str) != undo.after.as_deref() {
        let difference = difference_since(workspace, images, &path, undo);
        return Err(replies::changed_since(&path, &difference));
    }
    match (&undo.before, current_hash) {
        (None, Some(current_hash)) => Ok(FileChange::removal(path, current_hash)),
        (None, None) => Err(replies::cannot_undo(number, &target.tool)),
        (Some(before), current_hash) => {
            let contents = Hash::parse(before).and_then(|before| images.get(&before));
            let contents = contents.ok_or_else(|| replies::old_content_gone(&path))?;
            Ok(FileChange::new(path, current_hash, contents))
        }
    }
}

/// Returns the difference of a file since an action. If its content after the action is no longer known, returns
/// the difference since before the action.
fn difference_since(
    workspace: &Workspace,
    images: &BeforeImages,
    path: &WorkspacePath,
    undo: &FileUndo,
) -> String {
    let text = |hash: &Option<String>| {
        let contents = images.get(&Hash::parse(hash.as_deref()?)?)?;
        String::from_utf8(contents).ok()
    };
    let current = match workspace.open_without_links(path).and_then(OpenedFile::read_text) {
        Ok(current) => Some(current),
        Err(FileError::Missing(_)) => None,
        Err(_) => return String::new(),
    };
    let former = match &undo.after {
        None => Some(String::new()),
        after => text(after).or_else(|| text(&undo.before)),
    };
    memory::changes(&former.unwrap_or_default(), &current.unwrap_or_default()).unwrap_or_default()
}
