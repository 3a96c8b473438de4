//! Which conversation is read for facts next: one that has been quiet for two minutes, that is over, or that has six
//! turns which were not read; and how long it makes way for people. Pure.

use std::collections::BTreeMap;

use chrono::{DateTime, TimeDelta, Utc};

use super::ReadMarks;
use crate::types::session::{SessionId, TurnId};

/// Turns of one conversation that are read without waiting for it to be quiet.
pub const TURNS_DUE: usize = 6;

/// Time without a turn after which a conversation is read: people have said what they wanted to say, and the
/// provider's cache still has its prompt (Anthropic keeps it for five minutes).
pub const QUIET: TimeDelta = TimeDelta::minutes(2);

/// Turns that are read at a time.
const TURNS_MAX: usize = 20;

/// Turns that ended earlier are left unread: the daemon was off, or the budget was used up.
const AGE_MAX: TimeDelta = TimeDelta::days(1);

/// Time for which a conversation that is due makes way for everybody. On a bot that is never idle it would else never
/// be read.
pub const WAIT_MAX: TimeDelta = TimeDelta::minutes(10);

/// A turn, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeenTurn {
    pub turn: TurnId,
    pub session: SessionId,
    /// None while it runs, or waits.
    pub ended: Option<DateTime<Utc>>,
    /// Its conversation is over.
    pub is_closed: bool,
    /// False for background tasks and for turns of the program's own.
    pub is_said: bool,
}

/// A conversation to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DueTalk {
    pub session: SessionId,
    /// The turn before the first one.
    pub after: TurnId,
    pub up_to: TurnId,
    /// Turns that people have begun.
    pub turns: usize,
    /// An attempt has failed.
    pub is_retry: bool,
    /// When it became due.
    pub since: DateTime<Utc>,
}

/// The degree to which the reading of a conversation makes way for people who wait for the same provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReadingPatience {
    /// It begins while nobody waits, and is cancelled when somebody comes.
    MakesWay,
    /// It begins while nobody waits.
    Finishes,
    /// It begins beside others.
    Begins,
}

impl DueTalk {
    /// Returns how far it makes way by now.
    pub fn patience(&self, now: DateTime<Utc>) -> ReadingPatience {
        match now - self.since {
            waited if waited < WAIT_MAX => ReadingPatience::MakesWay,
            waited if waited < WAIT_MAX * 2 => ReadingPatience::Finishes,
            _ => ReadingPatience::Begins,
        }
    }

    /// Returns when it makes less way than now, if ever.
    pub fn next_patience(&self, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        match self.patience(now) {
            ReadingPatience::MakesWay => Some(self.since + WAIT_MAX),
            ReadingPatience::Finishes => Some(self.since + WAIT_MAX * 2),
            ReadingPatience::Begins => None,
        }
    }
}

/// The conversations to be read, and the time of the next one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadingPlan {
    /// The oldest words come first.
    pub due: Vec<DueTalk>,
    /// When the next conversation will be due.
    pub next: Option<DateTime<Utc>>,
    /// All turns up to it were read, or need not be.
    pub floor: TurnId,
}

/// Plans what to read of the turns above the floor, which are sorted by their ids.
pub fn plan(turns: &[SeenTurn], marks: &ReadMarks, now: DateTime<Utc>) -> ReadingPlan {
    let mut sessions: BTreeMap<SessionId, Vec<&SeenTurn>> = BTreeMap::new();
    for turn in turns {
        let taken = marks.sessions.get(&turn.session).map(|mark| mark.taken);
        if Some(turn.turn) > taken {
            sessions.entry(turn.session).or_default().push(turn);
        }
    }
    let mut due = Vec::new();
    let mut next: Option<DateTime<Utc>> = None;
    let mut floor = turns.last().map_or(marks.floor, |turn| turn.turn);
    for (session, turns) in sessions {
        let runs = turns.iter().find(|turn| turn.ended.is_none());
        let is_new = |turn: &&&SeenTurn| {
            turn.is_said && turn.ended.is_some_and(|ended| ended > now - AGE_MAX)
        };
        let mut said: Vec<_> = turns.iter().filter(is_new).collect();
        let held = runs.into_iter().chain(said.first().copied()).map(|turn| turn.turn).min();
        if let Some(held) = held {
            floor = floor.min(TurnId(held.0 - 1));
        }
        let mark = marks.sessions.get(&session);
        // A clock that was set back would keep it waiting.
        let end_of = |turn: &SeenTurn| turn.ended.map_or(now, |ended| ended.min(now));
        let sixth = said.get(TURNS_DUE - 1).map(|turn| end_of(turn));
        let has_waited = sixth.is_some_and(|sixth| sixth + WAIT_MAX <= now);
        if let Some(runs) = runs {
            if !has_waited {
                continue;
            }
            // A conversation that is never idle is read up to the turn that runs.
            said.retain(|turn| turn.turn < runs.turn);
        }
        let Some(last) = said.last() else { continue };
        let ended = end_of(last);
        let is_due = last.is_closed || sixth.is_some();
        let due_at = match sixth {
            Some(sixth) if !last.is_closed => sixth,
            _ if is_due => ended,
            _ => ended + QUIET,
        };
        let due_at = mark.and_then(|mark| mark.next).map_or(due_at, |next| next.max(due_at));
        if due_at > now {
            next = Some(next.map_or(due_at, |next| next.min(due_at)));
            continue;
        }
        let up_to = said.get(TURNS_MAX - 1).unwrap_or(last).turn;
        let after = mark.map_or(marks.floor, |mark| mark.taken.max(marks.floor));
        let is_retry = mark.is_some_and(|mark| mark.failures > 0);
        let turns = said.len().min(TURNS_MAX);
        due.push((ended, DueTalk { session, after, up_to, turns, is_retry, since: due_at }));
    }
    due.sort_by_key(|(ended, talk)| (*ended, talk.session));
    ReadingPlan { due: due.into_iter().map(|(_, talk)| talk).collect(), next, floor }
}
