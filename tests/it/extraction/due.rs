//! Which conversation is read next: pure.

use chrono::{DateTime, TimeDelta, Utc};
use peacrab::memory::extraction::due::{
    DueConversation, ReadingPlan, ReadingPriority, SeenTurn, plan,
};
use peacrab::memory::extraction::{ReadMark, ReadMarks};
use peacrab::types::session::{SessionId, TurnId};

fn now() -> DateTime<Utc> {
    DateTime::from_timestamp(1_800_000_000, 0).unwrap()
}

/// A turn that ended so many seconds ago; none: it runs.
fn turn(id: i64, session: i64, ago: Option<i64>) -> SeenTurn {
    SeenTurn {
        turn: TurnId(id),
        session: SessionId(session),
        ended: ago.map(|ago| now() - TimeDelta::seconds(ago)),
        is_closed: false,
        is_said: true,
    }
}

fn marks(floor: i64, taken: &[(i64, i64)]) -> ReadMarks {
    let mark = |taken| ReadMark { taken: TurnId(taken), failures: 0, next: None };
    let sessions = taken.iter().map(|(session, taken)| (SessionId(*session), mark(*taken)));
    ReadMarks { floor: TurnId(floor), sessions: sessions.collect(), forgets: 0 }
}

fn due(session: i64, after: i64, up_to: i64, turns: usize) -> DueConversation {
    let (session, after, up_to) = (SessionId(session), TurnId(after), TurnId(up_to));
    DueConversation { session, after, up_to, turns, is_retry: false, since: now() }
}

/// The same, due for so many seconds.
fn due_for(seconds: i64, talk: DueConversation) -> DueConversation {
    DueConversation { since: now() - TimeDelta::seconds(seconds), ..talk }
}

fn check(
    turns: &[SeenTurn],
    marks: &ReadMarks,
    talks: &[DueConversation],
    next: Option<i64>,
    floor: i64,
) {
    let next = next.map(|seconds| now() + TimeDelta::seconds(seconds));
    let expected = ReadingPlan { due: talks.to_vec(), next, floor: TurnId(floor) };
    assert_eq!(plan(turns, marks, now()), expected);
}

#[test]
fn two_quiet_minutes_or_six_turns_or_the_end_of_a_conversation() {
    check(&[], &marks(3, &[]), &[], None, 3);
    check(&[turn(4, 1, Some(119))], &marks(3, &[]), &[], Some(1), 3);
    check(&[turn(4, 1, Some(120))], &marks(3, &[]), &[due(1, 3, 4, 1)], None, 3);
    let six: Vec<_> = (1..=6).map(|id| turn(id, 1, Some(0))).collect();
    check(&six, &marks(0, &[]), &[due(1, 0, 6, 6)], None, 0);
    check(&six[..5], &marks(0, &[]), &[], Some(120), 0);
    check(&six, &marks(0, &[(1, 1)]), &[], Some(120), 1);
    let closed = SeenTurn { is_closed: true, ..turn(2, 1, Some(0)) };
    check(&[closed], &marks(0, &[]), &[due(1, 0, 2, 1)], None, 1);
}

#[test]
fn a_conversation_in_which_a_turn_runs_waits_and_holds_the_floor() {
    let turns = [turn(1, 1, Some(500)), turn(2, 1, None), turn(3, 2, Some(500))];
    check(&turns, &marks(0, &[]), &[due_for(380, due(2, 0, 3, 1))], None, 0);
    check(&turns, &marks(0, &[(1, 1), (2, 3)]), &[], None, 1);
}

#[test]
fn what_is_old_or_nobodys_is_left_unread() {
    let noted = SeenTurn { is_said: false, ..turn(1, 1, Some(500)) };
    check(&[noted, turn(2, 2, Some(90_000))], &marks(0, &[]), &[], None, 2);
}

#[test]
fn the_next_attempt_has_its_time_and_a_clock_that_was_set_back_delays_nothing() {
    let mut failed = marks(0, &[(1, 0)]);
    let later = now() + TimeDelta::seconds(60);
    failed
        .sessions
        .insert(SessionId(1), ReadMark { taken: TurnId(0), failures: 1, next: Some(later) });
    check(&[turn(1, 1, Some(500))], &failed, &[], Some(60), 0);
    check(&[turn(1, 1, Some(-9_000))], &marks(0, &[]), &[], Some(120), 0);
}

#[test]
fn a_long_conversation_is_read_in_parts_and_the_oldest_words_first() {
    let long: Vec<_> = (1..=25).map(|id| turn(id, 1, Some(200))).collect();
    let other = [turn(26, 2, Some(300))];
    let turns = [long, other.to_vec()].concat();
    let expected = [due_for(180, due(2, 0, 26, 1)), due_for(200, due(1, 0, 20, 20))];
    check(&turns, &marks(0, &[]), &expected, None, 0);
}

#[test]
fn a_conversation_that_is_never_idle_is_read_after_a_bounded_wait() {
    // A turn runs, and six are unread: they wait for ten minutes.
    let busy = |ago: i64| {
        let ended = (1..=8).map(move |id| turn(id, 1, Some(ago - id)));
        ended.chain([turn(9, 1, None)]).collect::<Vec<_>>()
    };
    check(&busy(605), &marks(0, &[]), &[], None, 0);
    check(&busy(606), &marks(0, &[]), &[due_for(600, due(1, 0, 8, 8))], None, 0);
    // New turns do not begin the wait anew.
    let mut quick = busy(606);
    quick.extend((10..=12).map(|id| turn(id, 1, Some(0))));
    check(&quick, &marks(0, &[]), &[due_for(600, due(1, 0, 8, 8))], None, 0);
    for (waited, expected, next) in [
        (599, ReadingPriority::Interruptible, Some(1)),
        (600, ReadingPriority::Uninterruptible, Some(600)),
        (1_199, ReadingPriority::Uninterruptible, Some(1)),
        (1_200, ReadingPriority::Immediate, None),
    ] {
        let talk = due_for(waited, due(1, 0, 8, 8));
        assert_eq!(talk.priority(now()), expected, "{waited}");
        let next = next.map(|seconds| now() + TimeDelta::seconds(seconds));
        assert_eq!(talk.next_priority_change(now()), next, "{waited}");
    }
}
