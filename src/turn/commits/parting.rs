//! Separates an account from its past when its person is removed. A later user of the account counts as somebody else,
//! and finds no earlier conversations, jobs or permissions.

use std::slice;

use rusqlite::Connection;

use crate::bus::journal::{self, InboundOutcome};
use crate::bus::side_questions;
use crate::conversation::transcript::{self, UnfinishedTurn};
use crate::conversation::{asks, deferred, incognito, sessions};
use crate::people::persons::{self, PersonAccount};
use crate::tasks::{schedule, subagents};
use crate::turn::background;
use crate::turn::commits::{delegated, jobs};
use crate::types::session::TurnOutcome;

/// Ends the account's background tasks, turns and side questions, withdraws what it has waiting in private, closes its
/// private conversations, and removes its jobs, its permanent permissions and the calls that it could have made later.
pub(crate) fn part_from_past(store: &Connection, account: &PersonAccount) -> rusqlite::Result<()> {
    let PersonAccount { channel, sender } = account;
    let is_theirs =
        |turn: &UnfinishedTurn| turn.sender.id == *sender && turn.origin.channel() == channel;
    for run in schedule::running_of(store, account)? {
        jobs::stop_run(store, &run)?;
    }
    background::stop(store, &subagents::running_of(store, account)?)?;
    for turn in transcript::unfinished(store)?.into_iter().filter(is_theirs) {
        delegated::stop_awaited(store, turn.turn)?;
        if turn.origin.task().is_some() {
            // It ends with its turn, or else it would take up a place forever.
            background::stop(store, slice::from_ref(&turn.origin))?;
            continue;
        }
        transcript::end_turn(store, turn.turn, TurnOutcome::Stopped)?;
        journal::settle_turn(store, turn.turn, InboundOutcome::Stopped)?;
        jobs::interrupt_run(store, turn.turn)?;
    }
    side_questions::stop_all_of(store, account)?;
    journal::withdraw_private_of(store, account)?;
    for at in sessions::private_of(store, account)? {
        incognito::end(store, &at, None)?;
        sessions::close(store, &at)?;
    }
    schedule::remove_all_of(store, account)?;
    asks::revoke_all_of(store, account)?;
    deferred::drop_all_of(store, account)?;
    persons::note_removal(store, account)
}
