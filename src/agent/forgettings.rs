//! Runs `/forget` in tasks beside the loop, so that other chats go on. Meanwhile no turn begins in the chats whose
//! texts are changed, nor in a background task.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tokio::task::{Id, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::agent::command::{self, Command};
use crate::agent::forget::ForgetWork;
use crate::bus::journal::{RowId, WaitingMessage};
use crate::store::{ChatPlace, StoreError};
use crate::turn::services::TurnServices;
use crate::types::message::Address;
use crate::types::origin::Origin;

/// The running tasks that remove words, or show what would be removed.
#[derive(Default)]
pub(super) struct Forgettings {
    tasks: JoinSet<Result<(), StoreError>>,
    running: HashMap<Id, Forgetting>,
    /// Commands that wait until other work in their chats has ended.
    deferred: HashSet<RowId>,
}

struct Forgetting {
    row: RowId,
    origin: Origin,
    chats: Vec<ChatPlace>,
    /// Cancelled once all texts are changed.
    blanked: CancellationToken,
}

/// The end of a task that forgets words.
pub(super) struct EndedForgetting {
    pub(super) row: RowId,
    pub(super) origin: Origin,
    pub(super) result: Result<Result<(), StoreError>, JoinError>,
}

impl Forgettings {
    /// Starts the task of a command.
    pub(super) fn begin(
        &mut self,
        turns: Arc<TurnServices>,
        control: WaitingMessage,
        work: ForgetWork,
    ) {
        let blanked = CancellationToken::new();
        if !work.is_final() {
            // Nothing is changed before the person has confirmed.
            blanked.cancel();
        }
        let (row, origin) = (control.id, control.origin.clone());
        let forgetting =
            Forgetting { row, origin, chats: work.chats().to_vec(), blanked: blanked.clone() };
        let task = async move { Box::pin(work.run(&turns, &control, &blanked)).await };
        self.running.insert(self.tasks.spawn(task).id(), forgetting);
    }

    /// Returns true if nothing may begin for an origin now.
    pub(super) fn hold(&self, origin: &Origin) -> bool {
        let mut blanking = self.running.values().filter(|it| !it.blanked.is_cancelled());
        blanking.any(|it| origin.chat().is_none_or(|at| include_address(&it.chats, at)))
    }

    /// Returns true if a command must wait.
    pub(super) fn delay(&self, control: &WaitingMessage) -> bool {
        let is_running = self.running.values().any(|it| it.row == control.id);
        if is_running || self.deferred.contains(&control.id) {
            return true;
        }
        match command::parse(&control.inbound.body.text) {
            // One after another: each rewrites the database.
            Command::Forget(Some(order)) if order.is_final => !self.running.is_empty(),
            Command::Stop | Command::Status | Command::Help | Command::WhoAmI => false,
            _ => self.hold(&control.origin),
        }
    }

    pub(super) fn is_any(&self) -> bool {
        !self.running.is_empty()
    }

    /// Makes a command wait until other work in its chats has ended.
    pub(super) fn defer(&mut self, row: RowId) {
        self.deferred.insert(row);
    }

    /// Makes deferred commands due again.
    pub(super) fn try_deferred(&mut self) {
        self.deferred.clear();
    }

    /// Waits until a task ends. None if no task runs.
    pub(super) async fn next_ended(&mut self) -> Option<EndedForgetting> {
        let (id, result) = match self.tasks.join_next_with_id().await? {
            Ok((id, result)) => (id, Ok(result)),
            Err(error) => (error.id(), Err(error)),
        };
        let Forgetting { row, origin, .. } = self.running.remove(&id)?;
        Some(EndedForgetting { row, origin, result })
    }

    /// Ends all tasks. Their commands are carried out again after the next start.
    pub(super) async fn wind_down(mut self) {
        self.tasks.shutdown().await;
    }
}

/// Returns true if an address is in one of the chats.
pub(super) fn include_address(chats: &[ChatPlace], at: &Address) -> bool {
    chats.iter().any(|it| it.channel == *at.channel.to_string() && it.chat == *at.chat.to_string())
}
