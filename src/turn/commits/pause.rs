//! The commit that leaves the untrusted parts of a private conversation out after a pause. They stay in the log, and a
//! call opens them.

use chrono::{DateTime, Utc};
use rusqlite::Connection;

use crate::conversation::{plans, transcript};
use crate::memory::audience;
use crate::people::Role;
use crate::store::{Store, StoreError, Sync};
use crate::turn::compaction::CompactionJob;
use crate::turn::compaction::separation::{self, SummarySeparation};
use crate::types::origin::Origin;
use crate::types::session::Session;

/// A private conversation in which nobody has spoken for a while.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PausedConversation {
    pub(crate) origin: Origin,
    /// The role of its person.
    pub(crate) role: Role,
    /// Nobody has spoken since.
    pub(crate) since: DateTime<Utc>,
    /// The size of a summary for its model.
    pub(crate) tokens_max: u64,
}

/// Leaves the untrusted parts out, and an open plan that a model kept after it had read some. What the program has noted
/// since the pause began stays as it is. False if nothing had to be left out.
pub(crate) async fn clean_conversation(
    store: &Store,
    paused: PausedConversation,
) -> Result<bool, StoreError> {
    store.write("cleaned", Sync::Later, move |store| clean(store, &paused)).await
}

fn clean(store: &Connection, paused: &PausedConversation) -> rusqlite::Result<bool> {
    let Some(session) = transcript::open_session(store, &paused.origin)? else { return Ok(false) };
    let is_cleaned = clean_turns(store, paused, &session)?;
    let Some(plan) = plans::take_untrusted(store, session.id)? else { return Ok(is_cleaned) };
    transcript::leave_out(store, session.id, &format!("The plan:\n{plan}"), &plan.source())?;
    Ok(true)
}

fn clean_turns(
    store: &Connection,
    paused: &PausedConversation,
    session: &Session,
) -> rusqlite::Result<bool> {
    let note = transcript::first_since(store, session.id, session.begins, paused.since)?;
    let job = CompactionJob::before_note(session, note);
    let audience = audience(paused.role, session.chat_kind);
    if !job.is_tainted(audience) {
        return Ok(false);
    }
    let whole = transcript::whole_summary(store, session.id)?;
    let summaries =
        separation::leave_out(&job, SummarySeparation { audience, whole }, paused.tokens_max);
    transcript::compact(store, session.id, &(job.from..job.to), &summaries, None)
}
