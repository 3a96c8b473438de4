//! The commit that moves waiting rows into a new turn, and the one that resumes a turn after a crash.

use chrono::Utc;
use rusqlite::Connection;

use super::guarded::commit_if_running;
use crate::bus::journal::{self, WaitingMessage};
use crate::conversation::{proposals, transcript};
use crate::memory::facts::{self, FactId};
use crate::memory::recall;
use crate::store::{Store, Sync};
use crate::tasks;
use crate::turn::error::CommitError;
use crate::types::message::{ChatKind, MessageId, Sender};
use crate::types::origin::Origin;
use crate::types::session::{FrozenContext, SessionId, Step, TurnId};

/// The beginning of a turn.
pub(crate) struct TurnBeginning {
    pub(crate) origin: Origin,
    pub(crate) chat_kind: ChatKind,
    pub(crate) sender: Sender,
    pub(crate) reply_to: Option<MessageId>,
    pub(crate) rows: Vec<WaitingMessage>,
    /// The person's messages as the model is shown them, with the pictures.
    pub(crate) first: Step,
    pub(crate) frozen: FrozenContext,
    /// Facts that are related to the messages.
    pub(crate) used_facts: UsedFacts,
    pub(crate) provider: String,
}

/// Facts that are related to a message, and the maximum number of facts in the prompt.
#[derive(Default)]
pub(crate) struct UsedFacts {
    pub(crate) facts: Vec<FactId>,
    pub(crate) active_max: usize,
}

impl UsedFacts {
    fn note(&self, store: &Connection, turn: &TurnBeginning) -> rusqlite::Result<()> {
        let (Some(at), false) = (turn.origin.chat(), self.facts.is_empty()) else { return Ok(()) };
        let now = Utc::now();
        facts::count_use(store, &self.facts, now)?;
        let keys = recall::conversation_keys(store, at, turn.chat_kind, &turn.sender.id)?;
        facts::expire(store, &keys, self.active_max, now)
    }
}

/// Moves waiting rows into a new turn. The error is `Ended` if they do not wait any more.
pub(crate) async fn start_turn(
    store: &Store,
    beginning: TurnBeginning,
) -> Result<(SessionId, TurnId), CommitError> {
    let begin = move |store: &Connection| {
        if !journal::still_wait(store, &beginning.rows)? {
            return Ok(None);
        }
        let session = transcript::open_or_begin(store, &beginning.origin, beginning.chat_kind)?;
        let TurnBeginning { sender, reply_to, provider, .. } = &beginning;
        let turn = transcript::begin_turn(store, session, sender, reply_to.as_ref(), provider)?;
        journal::move_into_turn(store, &beginning.rows, turn)?;
        proposals::decide(store, &beginning.rows)?;
        let rows: Vec<_> = beginning.rows.iter().map(|row| row.id).collect();
        tasks::turn_begun(store, &rows, turn)?;
        transcript::put_step(store, turn, 0, &beginning.first)?;
        transcript::set_frozen(store, session, &beginning.frozen)?;
        beginning.used_facts.note(store, &beginning)?;
        Ok(Some((session, turn)))
    };
    store.write("turn start", Sync::Later, begin).await?.ok_or(CommitError::Ended)
}

/// Counts one more attempt at a turn that a crash interrupted.
pub(crate) async fn resume_turn(store: &Store, turn: TurnId) -> Result<(), CommitError> {
    commit_if_running(store, "turn resumed", Sync::Later, turn, move |store| {
        transcript::attempt_again(store, turn)
    })
    .await
}
