//! The commit that suspends a turn until a model can be reached again.

use crate::bus::outbox;
use crate::conversation::model_waits::{self, ModelWait};
use crate::conversation::transcript;
use crate::store::{Store, Sync};
use crate::turn::commits::guarded::commit_if_running;
use crate::turn::error::CommitError;
use crate::types::message::{Address, MessageId};
use crate::types::session::TurnId;

/// The commit of a turn whose model cannot be reached.
pub(crate) struct Suspension {
    pub(crate) wait: ModelWait,
    /// The notice to the people who wait for the answer. It is sent once.
    pub(crate) line: Option<WaitNotice>,
}

/// A notice that a turn waits for the model.
pub(crate) struct WaitNotice {
    pub(crate) to: Address,
    pub(crate) reply_to: Option<MessageId>,
    pub(crate) words: String,
}

/// Suspends a turn until a model can be reached. Returns the draft, which no answer replaces for now.
pub(crate) async fn suspend_for_model(
    store: &Store,
    turn: TurnId,
    Suspension { wait, line }: Suspension,
) -> Result<Option<MessageId>, CommitError> {
    commit_if_running(store, "waits for a model", Sync::Later, turn, move |store| {
        model_waits::suspend(store, turn, &wait)?;
        if let Some(WaitNotice { to, reply_to, words }) = &line
            && model_waits::note_reported_wait(store, turn, to)?
        {
            outbox::put(store, to, reply_to.as_ref(), words)?;
        }
        let draft = transcript::draft(store, turn)?;
        transcript::set_draft(store, turn, None)?;
        Ok(draft)
    })
    .await
}
