//! The loop's state of running work: turns and compactions. Data only.

use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::claim::Claim;
use super::work_queue::Person;
use crate::bus::journal::{RowId, WaitingMessage};
use crate::conversation::ledger::Charge;
use crate::conversation::transcript::Summaries;
use crate::provider::ProviderError;
use crate::turn::compaction::CompactionJob;
use crate::turn::draft::Draft;
use crate::types::message::{MessageAuthor, Sender};
use crate::types::origin::Origin;

/// The loop's state of a running turn.
pub(super) struct Running {
    pub(super) steer: mpsc::Sender<Vec<WaitingMessage>>,
    pub(super) stop: CancellationToken,
    pub(super) sender: Sender,
    /// The speaker of its messages, and of those that join it.
    pub(super) author: MessageAuthor,
    /// The person whose slot it uses.
    pub(super) claim: Claim<Person>,
    /// The rows with which it began.
    pub(super) rows: Vec<RowId>,
    /// The last row that was handed to it.
    pub(super) given: RowId,
    /// Its visible draft. The draft has no turn until the turn is in the store.
    pub(super) shown: watch::Receiver<Draft>,
    /// Set if the task is not a turn, but saves notes before a compaction.
    pub(super) compactions: Option<CompactionRequest>,
}

/// A request for a compaction: automatic, because the conversation has become long, or by a command.
#[derive(Clone, Default)]
pub(super) struct CompactionRequest {
    pub(super) control: Option<WaitingMessage>,
    pub(super) focus: Option<String>,
}

/// The result of a compaction.
pub(super) struct CompactionResult {
    pub(super) origin: Origin,
    pub(super) job: CompactionJob,
    pub(super) request: CompactionRequest,
    pub(super) summaries: Result<Summaries, ProviderError>,
    pub(super) spent: Charge,
}
