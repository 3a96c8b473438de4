//! Separates an account from its past when its person is removed. A later user of the account counts as somebody else,
//! and finds no earlier conversations, jobs or permissions. Also ends the turns of people who have lost their access.

use std::slice;

use rusqlite::Connection;

use crate::bus::journal::{self, InboundOutcome};
use crate::bus::{outbox, side_questions};
use crate::conversation::transcript::{self, UnfinishedTurn};
use crate::conversation::{asks, deferred, incognito, sessions};
use crate::people::persons::{self, PersonAccount};
use crate::people::{links, listing};
use crate::replies;
use crate::store::{Store, StoreError, Sync};
use crate::tasks::{schedule, subagents};
use crate::turn::background;
use crate::turn::commits::guarded::commit_if_running;
use crate::turn::commits::{delegated, jobs};
use crate::turn::error::CommitError;
use crate::types::message::Inbound;
use crate::types::origin::Origin;
use crate::types::session::{TurnId, TurnOutcome};

/// Ends all work for the account, withdraws what it has waiting in private, closes its private conversations, and removes
/// its jobs and its permanent permissions.
pub(crate) fn part_from_past(store: &Connection, account: &PersonAccount) -> rusqlite::Result<()> {
    end_work_of(store, account)?;
    journal::withdraw_private_of(store, account)?;
    for at in sessions::private_of(store, account)? {
        incognito::end(store, &at, None)?;
        sessions::close(store, &at)?;
    }
    schedule::remove_all_of(store, account)?;
    asks::revoke_all_of(store, account)?;
    persons::note_removal(store, account)
}

/// Ends all work for an account that loses its access: its background tasks, turns and side questions, and runs of others'
/// jobs that report to it. Questions of its turns are withdrawn, and so are codes of `/link` and the calls that could be
/// made later. What it has waiting is turned away once a turn would begin with it, and its jobs are paused once they are
/// due. Returns the turns of conversations that were at work.
pub(crate) fn end_work_of(
    store: &Connection,
    account: &PersonAccount,
) -> rusqlite::Result<Vec<UnfinishedTurn>> {
    // Those that wait would begin when others are stopped.
    deferred::drop_all_of(store, account)?;
    for run in schedule::running_of(store, account)? {
        jobs::stop_run(store, &run)?;
    }
    for run in schedule::running_to(store, account)? {
        jobs::stop_run(store, &run)?;
        schedule::pause_without_reader(store, &run.job)?;
    }
    background::stop(store, &subagents::running_of(store, account)?)?;
    let working = end_turns_of(store, account)?;
    side_questions::stop_all_of(store, account)?;
    links::withdraw(store, account)?;
    Ok(working)
}

fn end_turns_of(
    store: &Connection,
    account: &PersonAccount,
) -> rusqlite::Result<Vec<UnfinishedTurn>> {
    let PersonAccount { channel, sender } = account;
    let is_theirs =
        |turn: &UnfinishedTurn| turn.sender.id == *sender && turn.origin.channel() == channel;
    let mut working = Vec::new();
    for turn in transcript::unfinished(store)?.into_iter().filter(is_theirs) {
        // It may have ended with a turn that waited for it.
        if !transcript::is_running(store, turn.turn)? {
            continue;
        }
        end(store, turn.turn)?;
        if turn.origin.task().is_some() {
            // A task ends with its turn, or else it would take up a place forever.
            background::stop(store, slice::from_ref(&turn.origin))?;
        } else if !turn.suspended {
            working.push(turn);
        }
    }
    Ok(working)
}

fn end(store: &Connection, turn: TurnId) -> rusqlite::Result<()> {
    delegated::stop_awaited(store, turn)?;
    transcript::end_turn(store, turn, TurnOutcome::Stopped)?;
    journal::settle_turn(store, turn, InboundOutcome::Stopped)?;
    jobs::interrupt_run(store, turn)?;
    Ok(())
}

/// Ends a background task that was to begin or go on, because its person has no access any more.
pub(crate) async fn end_task_without_access(store: &Store, task: Origin) -> Result<(), StoreError> {
    let end = move |store: &Connection| background::end_without_access(store, &task);
    store.write("no access", Sync::Now, end).await
}

/// Ends a run of a job in a conversation with people that was to begin or go on, because its person has no access any more.
pub(crate) async fn end_run_without_access(
    store: &Store,
    run: schedule::Run,
) -> Result<(), StoreError> {
    let end = move |store: &Connection| jobs::stop_run(store, &run);
    store.write("no access", Sync::Now, end).await
}

/// Ends a turn that was to go on, because the person who began it with this message has no access any more. Explains it,
/// except to somebody who is blocked.
pub(crate) async fn end_without_access(
    store: &Store,
    turn: TurnId,
    first: Inbound,
) -> Result<(), CommitError> {
    commit_if_running(store, "no access", Sync::Now, turn, move |store| {
        end(store, turn)?;
        let sender = &first.cause.sender().id;
        if !listing::is_blocked(store, &first.from.channel, sender)? {
            outbox::put(store, &first.from, first.id.as_ref(), replies::ACCESS_HAS_ENDED)?;
        }
        Ok(())
    })
    .await
}
