//! Separates an account from its past when its person is removed. A later user of the account counts as somebody else,
//! and finds no earlier conversations, jobs or permissions. Also ends the turns of people who have lost their access.

use rusqlite::Connection;

use crate::bus::journal::{self, InboundOutcome, RowId};
use crate::bus::outbox;
use crate::conversation::transcript::{self, UnfinishedTurn};
use crate::conversation::{asks, deferred, incognito, sessions};
use crate::people::listing;
use crate::people::persons::{self, PersonAccount};
use crate::replies;
use crate::store::{Store, Sync};
use crate::tasks::schedule;
use crate::turn::commits::guarded::commit_if_running;
use crate::turn::commits::{delegated, jobs};
use crate::turn::error::CommitError;
use crate::types::message::Inbound;
use crate::types::origin::Origin;
use crate::types::session::{TurnId, TurnOutcome};

/// Ends the account's turns, withdraws what it has waiting in private, closes its private conversations, and removes its
/// jobs, its permanent permissions and the calls that it could have made later.
pub(crate) fn part_from_past(store: &Connection, account: &PersonAccount) -> rusqlite::Result<()> {
    end_turns_of(store, account, |_| true)?;
    journal::withdraw_private_of(store, account)?;
    for at in sessions::private_of(store, account)? {
        // A run of a job of theirs may wait there.
        journal::withdraw(store, &Origin::Chat(at.clone()), RowId(i64::MAX), None)?;
        incognito::end(store, &at, None)?;
        sessions::close(store, &at)?;
    }
    schedule::remove_all_of(store, account)?;
    asks::revoke_all_of(store, account)?;
    deferred::drop_all_of(store, account)?;
    persons::note_removal(store, account)
}

/// Ends the account's turns that wait for an answer, a subagent or a model. Their questions are withdrawn.
pub(crate) fn end_suspended_of(
    store: &Connection,
    account: &PersonAccount,
) -> rusqlite::Result<()> {
    end_turns_of(store, account, |turn| turn.suspended)
}

fn end_turns_of(
    store: &Connection,
    account: &PersonAccount,
    ends: impl Fn(&UnfinishedTurn) -> bool,
) -> rusqlite::Result<()> {
    let PersonAccount { channel, sender } = account;
    let is_theirs =
        |turn: &UnfinishedTurn| turn.sender.id == *sender && turn.origin.channel() == channel;
    let turns = transcript::unfinished(store)?.into_iter();
    turns.filter(|turn| is_theirs(turn) && ends(turn)).try_for_each(|turn| end(store, turn.turn))
}

fn end(store: &Connection, turn: TurnId) -> rusqlite::Result<()> {
    delegated::stop_awaited(store, turn)?;
    transcript::end_turn(store, turn, TurnOutcome::Stopped)?;
    journal::settle_turn(store, turn, InboundOutcome::Stopped)?;
    jobs::interrupt_run(store, turn)?;
    Ok(())
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
