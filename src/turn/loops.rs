//! Detects turns that loop: steps with the same calls and the same results, two alternating steps, or only failures. A
//! step counts once, regardless of its number of calls, because the model made all of them before it saw a result.
//! Pure.

use crate::types::session::{Call, CallOutcome, Step};

/// Number of equal rounds after which the model is warned.
const WARN_AT: usize = 3;

/// Number of equal rounds after which the turn is ended.
const STOP_AT: usize = 5;

/// The same limits for steps in a row in which every call failed.
const FAILURES_WARN_AT: usize = 5;
const FAILURES_STOP_AT: usize = 8;

/// The verdict about the steps of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LoopVerdict {
    Fine,
    Warn,
    Stop,
}

/// Returns the verdict about the steps of a turn, in order. Unsettled calls, and steps without settled ones, do not
/// count.
pub fn verdict(steps: &[Step]) -> LoopVerdict {
    let settled = steps.iter().map(|step| step.calls.iter().filter(is_settled).collect());
    let steps: Vec<Vec<&Call>> = settled.filter(|calls: &Vec<&Call>| !calls.is_empty()).collect();
    let repeated = (1..=2).map(|period| repeats(&steps, period)).max().unwrap_or_default();
    let has_failed = |calls: &&Vec<&Call>| calls.iter().all(|call| call.outcome.is_error());
    let failures = steps.iter().rev().take_while(has_failed).count();
    judge(repeated, WARN_AT, STOP_AT).max(judge(failures, FAILURES_WARN_AT, FAILURES_STOP_AT))
}

fn is_settled(call: &&Call) -> bool {
    matches!(call.outcome, CallOutcome::Done(_) | CallOutcome::Failed(_) | CallOutcome::Denied(_))
}

fn judge(count: usize, warn_at: usize, stop_at: usize) -> LoopVerdict {
    match count {
        count if count >= stop_at => LoopVerdict::Stop,
        count if count >= warn_at => LoopVerdict::Warn,
        _ => LoopVerdict::Fine,
    }
}

/// Returns how often the last `period` steps are repeated at the end, including the last time.
fn repeats(steps: &[Vec<&Call>], period: usize) -> usize {
    let Some(start) = steps.len().checked_sub(period) else { return 0 };
    let last = &steps[start..];
    steps
        .rchunks_exact(period)
        .take_while(|round| round.iter().zip(last).all(|(one, other)| are_same(one, other)))
        .count()
}

fn are_same(one: &[&Call], other: &[&Call]) -> bool {
    let is_same_call = |(one, other): (&&Call, &&Call)| {
        (&one.tool, &one.arguments, &one.outcome) == (&other.tool, &other.arguments, &other.outcome)
    };
    one.len() == other.len() && one.iter().zip(other).all(is_same_call)
}
