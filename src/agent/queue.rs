//! What becomes of what is said while a turn works: it is handed over, it waits, or it ends the turn.

use std::time::Duration;

use chrono::Utc;
use tokio::sync::mpsc::error::TrySendError;

use crate::agent::Agent;
use crate::bus::journal::{self, RowId, Span, Waiting};
use crate::conversation::settings::settings_for;
use crate::store::StoreError;
use crate::turn::commits;
use crate::types::message::SenderId;
use crate::types::origin::Origin;
use crate::types::session::QueueMode;

/// How long the parts of one thing are waited for: an album, a long paste.
const JOIN_PAUSE: Duration = Duration::from_secs(1);

/// How long until a turn is looked at again that is to be interrupted and is not in the store yet.
const NOT_YET_PAUSE: Duration = Duration::from_millis(50);

/// How long until a turn is looked at again that has not read what it was handed: a model thinks.
const UNREAD_PAUSE: Duration = Duration::from_secs(1);

impl Agent {
    /// Messages for the next turn at an origin, the newest of which is known; none while parts of one
    /// are still to come, with when to look again.
    pub(super) async fn next(
        &self,
        origin: &Origin,
        newest: RowId,
    ) -> Result<(Vec<Waiting>, Option<Duration>), StoreError> {
        let at = origin.clone();
        let look = move |store: &_| {
            let mode = settings_for(store, &at)?.queue;
            let rows = Span { after: RowId(0), until: newest };
            Ok((mode, journal::next(store, &at, rows, None)?))
        };
        let (mode, mut rows) = self.read(look).await?;
        let is_apart = rows.first().is_some_and(|first| self.failing.is_apart(origin, first.id));
        match mode.unwrap_or(self.config.queue) {
            _ if is_apart => rows.truncate(first_message(&rows)),
            QueueMode::Followup => rows.truncate(first_message(&rows)),
            QueueMode::Steer | QueueMode::Collect | QueueMode::Interrupt => {}
        }
        Ok(match self.parts_to_come(&rows).await? {
            Parts::None => (rows, None),
            Parts::Within(pause) => (Vec::new(), Some(pause)),
            Parts::Fetching => (Vec::new(), None),
        })
    }

    /// Does with what is newer than a running turn as its conversation wishes. Says when to look again.
    pub(super) async fn hear_more(
        &mut self,
        origin: &Origin,
        newest: RowId,
    ) -> Result<Option<Duration>, StoreError> {
        let Some(running) = self.running.get(origin) else { return Ok(None) };
        if running.folds.is_some() {
            // Who takes notes gives that up as soon as somebody speaks, however the queue is.
            return self.steer(origin, newest).await;
        }
        let (at, after, sender) = (origin.clone(), running.given, running.sender.id.clone());
        let look = move |store: &_| {
            let mode = settings_for(store, &at)?.queue;
            Ok((mode, journal::speaks_again(store, &at, Span::after(after), &sender)?))
        };
        let (mode, speaks_again) = self.read(look).await?;
        match mode.unwrap_or(self.config.queue) {
            QueueMode::Steer => self.steer(origin, newest).await,
            QueueMode::Interrupt if speaks_again => self.interrupt(origin).await,
            QueueMode::Followup | QueueMode::Collect | QueueMode::Interrupt => Ok(None),
        }
    }

    /// Hands a running turn what its person said since.
    async fn steer(
        &mut self,
        origin: &Origin,
        newest: RowId,
    ) -> Result<Option<Duration>, StoreError> {
        let Some(running) = self.running.get(origin) else { return Ok(None) };
        let (at, sender) = (origin.clone(), running.sender.id.clone());
        let rows = Span { after: running.given, until: newest };
        let next = move |store: &_| journal::next(store, &at, rows, Some(&sender));
        let rows = self.read(next).await?;
        if rows.first().is_some_and(|first| self.failing.is_apart(origin, first.id)) {
            return Ok(None);
        }
        match self.parts_to_come(&rows).await? {
            Parts::None => {}
            Parts::Within(pause) => return Ok(Some(pause)),
            Parts::Fetching => return Ok(None),
        }
        let running = self.running.get_mut(origin).expect("only the loop removes it");
        let Some(last) = rows.last().map(|row| row.id) else { return Ok(None) };
        match running.steer.try_send(rows) {
            Ok(()) => running.given = last,
            Err(TrySendError::Full(_)) => return Ok(Some(UNREAD_PAUSE)),
            // It has ended, and is taken back.
            Err(TrySendError::Closed(_)) => return Ok(None),
        }
        // More than is handed over at once may wait.
        Ok((last < newest).then_some(Duration::ZERO))
    }

    /// Whether more of the last row's thing is to come: more of an album, or of a long paste.
    pub(super) async fn parts_to_come(&self, rows: &[Waiting]) -> Result<Parts, StoreError> {
        let Some(last) = rows.last().filter(|last| last.inbound.body.more) else {
            return Ok(Parts::None);
        };
        let part = last.clone();
        let unready = move |store: &_| {
            let within = chrono::Duration::from_std(JOIN_PAUSE).expect("a second");
            journal::next_is_unready(store, &part, within)
        };
        if self.read(unready).await? {
            return Ok(Parts::Fetching);
        }
        // No age if the clock was set back.
        let age = (Utc::now() - last.received).to_std().unwrap_or(JOIN_PAUSE);
        let pause = JOIN_PAUSE.checked_sub(age).filter(|pause| !pause.is_zero());
        Ok(pause.map_or(Parts::None, Parts::Within))
    }

    /// Ends a running turn, because its person has said something new; what waits begins the next.
    async fn interrupt(&mut self, origin: &Origin) -> Result<Option<Duration>, StoreError> {
        let Some(running) = self.running.get(origin).filter(|it| !it.stop.is_cancelled()) else {
            return Ok(None);
        };
        let sender = running.sender.id.clone();
        let is_interrupted = self.end_interrupted(origin, sender).await?;
        Ok((!is_interrupted).then_some(NOT_YET_PAUSE))
    }

    /// The same with a turn that waits for somebody, if its conversation wishes that. True if it has
    /// ended.
    pub(super) async fn interrupt_parked(
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

    async fn end_interrupted(
        &mut self,
        origin: &Origin,
        sender: SenderId,
    ) -> Result<bool, StoreError> {
        let interrupted = commits::interrupted(&self.services.bus.store, origin.clone(), sender);
        let Some(subagents) = interrupted.await? else { return Ok(false) };
        if let Some(running) = self.running.get(origin) {
            running.stop.cancel();
        }
        self.idle.take(origin);
        self.cancel(&subagents);
        self.services.bus.outbox.up();
        Ok(true)
    }
}

/// What may follow the last row as a part of the same thing.
pub(super) enum Parts {
    None,
    /// If anything, then within that time.
    Within(Duration),
    /// It is there, and its files are not; who fetches them wakes the loop.
    Fetching,
}

/// How many of the rows are one message: the first, and what belongs to it.
fn first_message(rows: &[Waiting]) -> usize {
    let parts = rows.iter().take_while(|row| row.inbound.body.more).count();
    rows.len().min(parts + 1)
}
