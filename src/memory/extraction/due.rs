//! Chooses the conversations to read for facts: those that have been quiet for two minutes, are closed, or have six
//! unread turns. Also decides how long people's requests go first. Pure.

use std::collections::BTreeMap;

use chrono::{DateTime, TimeDelta, Utc};

use super::ReadMarks;
use crate::types::session::{SessionId, TurnId};

/// Number of unread turns at which a conversation is read without waiting until it is quiet.
pub const TURNS_DUE: usize = 6;

/// Time without a turn after which a conversation is read. By then people have finished, and the provider's cache
/// still has the prompt (Anthropic keeps it for five minutes).
pub const QUIET: TimeDelta = TimeDelta::minutes(2);

/// Maximum number of turns that are read at a time.
const TURNS_MAX: usize = 20;

/// Age after which turns are skipped: the daemon was off, or the budget was used up.
const AGE_MAX: TimeDelta = TimeDelta::days(1);

/// Time for which people's requests go before a due conversation. Without a limit, it would never be read on a bot that
/// is never idle.
pub const WAIT_MAX: TimeDelta = TimeDelta::minutes(10);

/// The properties of a turn that matter here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeenTurn {
    pub turn: TurnId,
    pub session: SessionId,
    /// None while it runs or is suspended.
    pub ended: Option<DateTime<Utc>>,
    /// True if its conversation is closed.
    pub is_closed: bool,
    /// False for background tasks and turns that the program began for itself.
    pub is_said: bool,
}

/// A conversation to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DueConversation {
    pub session: SessionId,
    /// The turn before the first one.
    pub after: TurnId,
    pub up_to: TurnId,
    /// Number of turns that people have begun.
    pub turns: usize,
    /// True if an attempt has failed.
    pub is_retry: bool,
    /// Time at which it became due.
    pub since: DateTime<Utc>,
}

/// The priority of reading a conversation against people who wait for the same provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReadingPriority {
    /// It begins when nobody waits, and is cancelled when somebody does.
    Interruptible,
    /// It begins when nobody waits, and is not cancelled.
    Uninterruptible,
    /// It begins even if others wait.
    Immediate,
}

impl DueConversation {
    /// Returns its present priority.
    pub fn priority(&self, now: DateTime<Utc>) -> ReadingPriority {
        match now - self.since {
            waited if waited < WAIT_MAX => ReadingPriority::Interruptible,
            waited if waited < WAIT_MAX * 2 => ReadingPriority::Uninterruptible,
            _ => ReadingPriority::Immediate,
        }
    }

    /// Returns the time at which its priority increases. None if it does not.
    pub fn next_priority_change(&self, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        match self.priority(now) {
            ReadingPriority::Interruptible => Some(self.since + WAIT_MAX),
            ReadingPriority::Uninterruptible => Some(self.since + WAIT_MAX * 2),
            ReadingPriority::Immediate => None,
        }
    }
}

/// The conversations to be read, and the time of the next one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadingPlan {
    /// The due conversations, those with the oldest turns first.
    pub due: Vec<DueConversation>,
    /// The time at which the next conversation will be due.
    pub next: Option<DateTime<Utc>>,
    /// The turn up to which all turns were read or can be skipped.
    pub floor: TurnId,
}

/// Returns the conversations to read, of the turns above the floor, which are sorted by id.
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
        let running = turns.iter().find(|turn| turn.ended.is_none());
        let is_new = |turn: &&&SeenTurn| {
            turn.is_said && turn.ended.is_some_and(|ended| ended > now - AGE_MAX)
        };
        let mut unread: Vec<_> = turns.iter().filter(is_new).collect();
        let first_needed =
            running.into_iter().chain(unread.first().copied()).map(|turn| turn.turn).min();
        if let Some(first_needed) = first_needed {
            floor = floor.min(TurnId(first_needed.0 - 1));
        }
        let mark = marks.sessions.get(&session);
        // Limited to now: otherwise a clock that was set back would delay it.
        let end_of = |turn: &SeenTurn| turn.ended.map_or(now, |ended| ended.min(now));
        let sixth = unread.get(TURNS_DUE - 1).map(|turn| end_of(turn));
        let has_waited = sixth.is_some_and(|sixth| sixth + WAIT_MAX <= now);
        if let Some(running) = running {
            if !has_waited {
                continue;
            }
            // A conversation that is never idle is read up to the running turn.
            unread.retain(|turn| turn.turn < running.turn);
        }
        let Some(last) = unread.last() else { continue };
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
        let up_to = unread.get(TURNS_MAX - 1).unwrap_or(last).turn;
        let after = mark.map_or(marks.floor, |mark| mark.taken.max(marks.floor));
        let is_retry = mark.is_some_and(|mark| mark.failures > 0);
        let turns = unread.len().min(TURNS_MAX);
        due.push((
            ended,
            DueConversation { session, after, up_to, turns, is_retry, since: due_at },
        ));
    }
    due.sort_by_key(|(ended, talk)| (*ended, talk.session));
    ReadingPlan { due: due.into_iter().map(|(_, talk)| talk).collect(), next, floor }
}
