//! The fate of a call that a crash interrupted, from what it was to change.

use crate::services::Services;
use crate::types::session::Intent;
use crate::workspace::{Hash, WorkspacePath};

/// The fate of an interrupted call.
pub(crate) enum CallFate {
    Happened,
    NotHappened,
    Unknown,
}

/// Finds out if an interrupted call has happened. An idempotent one counts as not happened: it may run again.
pub(crate) async fn find_fate(services: &Services, intent: &Intent) -> CallFate {
    let (path, before, after) = match intent {
        Intent::File { path, before, after, .. } => (path, before, after),
        Intent::Act { idempotent: true } => return CallFate::NotHappened,
        Intent::Act { idempotent: false } => return CallFate::Unknown,
    };
    let Ok(path) = path.parse::<WorkspacePath>() else { return CallFate::Unknown };
    let hash = services.workspace.run_blocking(move |workspace| workspace.hash(&path)).await;
    let Ok(current) = hash else { return CallFate::Unknown };
    match current.as_ref().map(Hash::as_str) {
        current if current == after.as_deref() => CallFate::Happened,
        current if current == before.as_deref() => CallFate::NotHappened,
        _ => CallFate::Unknown,
    }
}
