//! The commits that end a turn from beside: `/stop`, `/new`, and a newer message that interrupts.

use rusqlite::Connection;

use crate::bus::journal::{self, Fate, RowId, Span, Waiting};
use crate::bus::{asides, outbox};
use crate::conversation::transcript::{self, Unfinished};
use crate::conversation::{asks, sessions};
use crate::people::Role;
use crate::replies;
use crate::store::{Store, StoreError, Sync};
use crate::turn::background;
use crate::turn::commits::{delegated, jobs};
use crate::types::message::{Place, SenderId};
use crate::types::origin::Origin;
use crate::types::session::Ending;

/// What `/stop` and `/new` do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopKind {
    Stop,
    /// Also closes the session.
    New,
}

/// What `/stop` and `/new` have ended, of what has a task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stopped {
    /// The turn that ran there, or was to be taken up again.
    pub(crate) turn: bool,
    /// What waited, commands that are being carried out included.
    pub(crate) waiting: bool,
    /// Questions aside: all of them, or one person's.
    pub(crate) asides: bool,
    /// The background tasks that worked for it: all of them, or one person's.
    pub(crate) tasks: Vec<Origin>,
}

/// Ends the turn that runs where the command was said, with its background tasks, withdraws what waited there
/// before it, and confirms.
pub(crate) async fn stopped(
    store: &Store,
    control: &Waiting,
    role: Role,
    kind: StopKind,
) -> Result<Stopped, StoreError> {
    let control = control.clone();
    let stop = move |store: &Connection| {
        let (at, speaker) = (&control.inbound.from, control.sender());
        if !journal::settle(store, control.id, Fate::Obeyed)? {
            return Ok(Stopped::default());
        }
        let commands_all = role >= Role::Admin || control.inbound.place == Place::Private;
        let running =
            transcript::unfinished(store)?.into_iter().find(|turn| turn.origin == control.origin);
        let (mine, theirs): (Vec<_>, Vec<_>) =
            running.into_iter().partition(|turn| commands_all || turn.sender.id == speaker.id);
        let say = |words: &str| outbox::put_urgent(store, at, control.inbound.id.as_ref(), words);
        if kind == StopKind::New && !commands_all {
            say(replies::NOT_YOURS_TO_CLOSE)?;
            return Ok(Stopped::default());
        }
        for turn in &mine {
            transcript::end_turn(store, turn.turn, Ending::Stopped)?;
            journal::settle_turn(store, turn.turn, Fate::Stopped)?;
        }
        let whose = (!commands_all).then_some(&speaker.id);
        let withdrawn = journal::withdraw(store, &control.origin, control.id, whose)?;
        let asides = asides::stop(store, at, whose)?;
        let tasks = background::stop_for(store, at, whose)?;
        if kind == StopKind::New {
            sessions::close(store, at)?;
            say(replies::NEW_SESSION)?;
            return Ok(Stopped { turn: true, waiting: true, asides: true, tasks });
        }
        match (mine.is_empty(), withdrawn) {
            (true, 0) if asides > 0 || !tasks.is_empty() => say(replies::STOPPED)?,
            (true, 0) if !theirs.is_empty() => say(replies::NOT_YOURS_TO_STOP)?,
            (true, 0) => say(replies::NOTHING_TO_STOP)?,
            (_, withdrawn) => say(&replies::stopped_and_withdrawn(withdrawn))?,
        };
        let (turn, waiting, asides) = (!mine.is_empty(), withdrawn > 0, asides > 0);
        Ok(Stopped { turn, waiting, asides, tasks })
    };
    store.write("stop", Sync::Now, stop).await
}

/// Ends the turn of an origin that runs or waits for a person, and the subagents for which it waits,
/// without a word: what they said since is the answer to why. Returns those subagents; none if there is no
/// such turn, or what they said is what it waits for.
pub(crate) async fn interrupted(
    store: &Store,
    origin: Origin,
    sender: SenderId,
) -> Result<Option<Vec<Origin>>, StoreError> {
    let interrupt = move |store: &Connection| {
        let mut running = transcript::unfinished(store)?.into_iter();
        let theirs = running.find(|turn| turn.origin == origin && turn.sender.id == sender);
        let Some(theirs) = theirs else { return Ok(None) };
        if theirs.parked && !is_passed_over(store, &theirs)? {
            return Ok(None);
        }
        let subagents = delegated::stop_awaited(store, theirs.turn)?;
        transcript::end_turn(store, theirs.turn, Ending::Stopped)?;
        journal::settle_turn(store, theirs.turn, Fate::Stopped)?;
        jobs::interrupted(store, theirs.turn)?;
        Ok(Some(subagents))
    };
    store.write("interrupt", Sync::Now, interrupt).await
}

/// Whether its person has said something else than what a turn waits for: of what waits for the answer to
/// a question, only what was said before the question.
fn is_passed_over(store: &Connection, parked: &Unfinished) -> rusqlite::Result<bool> {
    let asked = asks::questions(store)?.into_iter().find(|ask| ask.turn == parked.turn);
    let until = asked.map_or(RowId(i64::MAX), |ask| ask.after);
    let rows = Span { after: RowId(0), until };
    journal::speaks_again(store, &parked.origin, rows, &parked.sender.id)
}
