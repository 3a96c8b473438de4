//! Handles messages that arrive while a turn works or is suspended: they join it, they wait, or they end it.

use std::time::Duration;

use chrono::Utc;
use tokio::sync::mpsc::error::TrySendError;

use crate::agent::Agent;
use crate::bus::journal::{self, NextAuthor, RowId, RowRange, WaitingMessage};
use crate::conversation::settings::settings_for;
use crate::conversation::transcript::UnfinishedTurn;
use crate::store::StoreError;
use crate::turn::commits;
use crate::types::message::{MessageAuthor, SenderId};
use crate::types::origin::Origin;
use crate::types::session::QueueMode;

/// Time to wait for further parts of one message, such as an album or a long paste.
const JOIN_PAUSE: Duration = Duration::from_secs(1);

/// Pause before another attempt to interrupt a turn that is not in the store yet.
const NOT_YET_PAUSE: Duration = Duration::from_millis(50);

/// Pause before another look at a turn that has not read its steering: a model takes time.
const UNREAD_PAUSE: Duration = Duration::from_secs(1);

impl Agent {
    /// Handles messages newer than a running turn by its queue mode. Returns the time until the next
    /// look.
    pub(super) async fn hand_over_more(
        &mut self,
        origin: &Origin,
        newest: RowId,
    ) -> Result<Option<Duration>, StoreError> {
        let Some(running) = self.running.get(origin) else { return Ok(None) };
        if running.compactions.is_some() {
            // A new message cancels the saving of notes, regardless of the queue mode.
            return self.steer(origin, newest).await;
        }
        let (at, after, author) = (origin.clone(), running.given, running.author.clone());
        let query = move |store: &_| {
            let mode = settings_for(store, &at)?.queue;
            Ok((mode, journal::has_ready_message(store, &at, RowRange::after(after), &author)?))
        };
        let (mode, speaks_again) = self.read(query).await?;
        match mode.unwrap_or(self.config.queue) {
            QueueMode::Steer => self.steer(origin, newest).await,
            QueueMode::Interrupt if speaks_again => self.interrupt(origin).await,
            QueueMode::Followup | QueueMode::Collect | QueueMode::Interrupt => Ok(None),
        }
    }

    /// Hands the newer messages of its person to a running turn.
    async fn steer(
        &mut self,
        origin: &Origin,
        newest: RowId,
    ) -> Result<Option<Duration>, StoreError> {
        let Some(running) = self.running.get(origin) else { return Ok(None) };
        let (at, author) = (origin.clone(), running.author.clone());
        let rows = RowRange { after: running.given, until: newest };
        let is_safe_mode = self.config.safe_mode.is_some();
        let read_next =
            move |store: &_| journal::next(store, &at, rows, next_of(&author, is_safe_mode));
        let rows = self.read(read_next).await?;
        if rows.first().is_some_and(|first| self.failing.must_begin_alone(origin, first.id)) {
            return Ok(None);
        }
        match self.find_pending_parts(&rows).await? {
            PendingParts::None => {}
            PendingParts::Within(pause) => return Ok(Some(pause)),
            PendingParts::Fetching => return Ok(None),
        }
        let running = self.running.get_mut(origin).expect("only the loop removes it");
        let Some(last) = rows.last().map(|row| row.id) else { return Ok(None) };
        match running.steer.try_send(rows) {
            Ok(()) => running.given = last,
            Err(TrySendError::Full(_)) => return Ok(Some(UNREAD_PAUSE)),
            // The turn has ended, and is about to be taken back.
            Err(TrySendError::Closed(_)) => return Ok(None),
        }
        // More messages may wait than one batch holds.
        Ok((last < newest).then_some(Duration::ZERO))
    }

    /// Returns the messages that the person of a turn sent while it waited for a model. Empty unless the queue mode
    /// makes them join the turn.
    pub(super) async fn read_joining(
        &self,
        turn: &UnfinishedTurn,
    ) -> Result<Vec<WaitingMessage>, StoreError> {
        let Some(newest) =
            self.work_queue.newest(&turn.origin).filter(|_| turn.model_wait.is_some())
        else {
            return Ok(Vec::new());
        };
        let (at, author) = (turn.origin.clone(), MessageAuthor::Person(turn.sender.id.clone()));
        let is_safe_mode = self.config.safe_mode.is_some();
        let query = move |store: &_| {
            let mode = settings_for(store, &at)?.queue;
            let rows = RowRange { after: RowId(0), until: newest };
            Ok((mode, journal::next(store, &at, rows, next_of(&author, is_safe_mode))?))
        };
        let (mode, rows) = self.read(query).await?;
        let must_join = mode.unwrap_or(self.config.queue) == QueueMode::Steer;
        let is_apart =
            |first: &WaitingMessage| self.failing.must_begin_alone(&turn.origin, first.id);
        if !must_join || rows.first().is_some_and(is_apart) {
            return Ok(Vec::new());
        }
        match self.find_pending_parts(&rows).await? {
            PendingParts::None => Ok(rows),
            _ => Ok(Vec::new()),
        }
    }

    /// Returns the further parts of the last row's message that may follow: more of an album, or of a long paste.
    pub(super) async fn find_pending_parts(
        &self,
        rows: &[WaitingMessage],
    ) -> Result<PendingParts, StoreError> {
        let Some(last) = rows.last().filter(|last| last.inbound.body.more) else {
            return Ok(PendingParts::None);
        };
        let part = last.clone();
        let is_unready = move |store: &_| {
            let within = chrono::Duration::from_std(JOIN_PAUSE).expect("a second");
            journal::next_is_unready(store, &part, within)
        };
        if self.read(is_unready).await? {
            return Ok(PendingParts::Fetching);
        }
        // No age if the clock was set back.
        let age = (Utc::now() - last.received).to_std().unwrap_or(JOIN_PAUSE);
        let pause = JOIN_PAUSE.checked_sub(age).filter(|pause| !pause.is_zero());
        Ok(pause.map_or(PendingParts::None, PendingParts::Within))
    }

    /// Ends a running turn, because its person has sent a new message. The waiting messages begin the
    /// next turn.
    async fn interrupt(&mut self, origin: &Origin) -> Result<Option<Duration>, StoreError> {
        let Some(running) = self.running.get(origin).filter(|it| !it.stop.is_cancelled()) else {
            return Ok(None);
        };
        let MessageAuthor::Person(sender) = running.author.clone() else { return Ok(None) };
        let is_interrupted = self.end_interrupted(origin, sender).await?;
        Ok((!is_interrupted).then_some(NOT_YET_PAUSE))
    }

    /// Ends a suspended turn in the same way, if the queue mode is `interrupt`. Returns true if it has
    /// ended.
    pub(super) async fn interrupt_suspended(
        &mut self,
        origin: &Origin,
        sender: SenderId,
    ) -> Result<bool, StoreError> {
        let at = origin.clone();
        let mode = self.read(move |store| Ok(settings_for(store, &at)?.queue)).await?;
        match mode.unwrap_or(self.config.queue) {
            QueueMode::Interrupt => self.end_interrupted(origin, sender).await,
            QueueMode::Steer | QueueMode::Followup | QueueMode::Collect => Ok(false),
        }
    }

    /// Ends a turn in the store, and cancels its task and its subagents. Returns false if it has not ended.
    async fn end_interrupted(
        &mut self,
        origin: &Origin,
        sender: SenderId,
    ) -> Result<bool, StoreError> {
        let interrupted = commits::interrupt_turn(&self.services.bus.store, origin.clone(), sender);
        let Some(subagents) = interrupted.await? else { return Ok(false) };
        if let Some(running) = self.running.get(origin) {
            running.stop.cancel();
        }
        self.idle.take(origin);
        self.cancel(&subagents);
        self.services.bus.outbox.notify();
        Ok(true)
    }
}

/// Returns the speaker of more messages for a turn: a person, who passes what safe mode holds back.
fn next_of(author: &MessageAuthor, is_safe_mode: bool) -> NextAuthor<'_> {
    match is_safe_mode {
        true => NextAuthor::OfRequest(author),
        false => NextAuthor::Of(author),
    }
}

/// Further parts of the last row's message.
pub(super) enum PendingParts {
    None,
    /// More parts may follow, within this time.
    Within(Duration),
    /// The next part is there, but its files are not. The intake wakes the loop when they are fetched.
    Fetching,
}
