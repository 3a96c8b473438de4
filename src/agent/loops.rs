//! Whether a turn goes in circles: the same call with the same result again and again, two that take
//! turns, or nothing but failures. Pure.

use crate::session::{Call, Outcome, Step};

/// The model is told that it goes in circles when it has seen the same so often.
const WARN_AT: usize = 3;

/// The turn is ended.
const STOP_AT: usize = 5;

/// Calls in a row that failed.
const FAILURES_WARN_AT: usize = 5;
const FAILURES_STOP_AT: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    Fine,
    Warn,
    Stop,
}

/// Looks at the calls of a turn, in order; unsettled ones do not count.
pub fn verdict(steps: &[Step]) -> Verdict {
    let calls: Vec<&Call> = steps
        .iter()
        .flat_map(|step| &step.calls)
        .filter(|call| {
            matches!(call.outcome, Outcome::Done(_) | Outcome::Failed(_) | Outcome::Denied(_))
        })
        .collect();
    let rounds = (1..=2).map(|period| repeats(&calls, period)).max().unwrap_or_default();
    let failures = calls.iter().rev().take_while(|call| call.outcome.is_error()).count();
    judge(rounds, WARN_AT, STOP_AT).max(judge(failures, FAILURES_WARN_AT, FAILURES_STOP_AT))
}

fn judge(count: usize, warn_at: usize, stop_at: usize) -> Verdict {
    match count {
        count if count >= stop_at => Verdict::Stop,
        count if count >= warn_at => Verdict::Warn,
        _ => Verdict::Fine,
    }
}

/// How often the last `period` calls stand at the end, one round after another.
fn repeats(calls: &[&Call], period: usize) -> usize {
    let Some(start) = calls.len().checked_sub(period) else { return 0 };
    let last = &calls[start..];
    calls
        .rchunks_exact(period)
        .take_while(|round| round.iter().zip(last).all(|(one, other)| same(one, other)))
        .count()
}

fn same(one: &Call, other: &Call) -> bool {
    (&one.tool, &one.arguments, &one.outcome) == (&other.tool, &other.arguments, &other.outcome)
}
