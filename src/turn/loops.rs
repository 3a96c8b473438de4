//! Detects turns that go in circles: steps with the same calls and the same results again and again, two that
//! alternate, or nothing but failures. A step counts once, however many calls it has: the model has seen none of their
//! results before it made the others. Pure.

use crate::types::session::{Call, CallOutcome, Step};

/// The model is told that it goes in circles when it has seen the same so often.
const WARN_AT: usize = 3;

/// The turn is ended.
const STOP_AT: usize = 5;

/// Steps in a row of which every call failed.
const FAILURES_WARN_AT: usize = 5;
const FAILURES_STOP_AT: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LoopVerdict {
    Fine,
    Warn,
    Stop,
}

/// Looks at the steps of a turn, in order; unsettled calls, and steps without others, do not count.
pub fn verdict(steps: &[Step]) -> LoopVerdict {
    let settled = steps.iter().map(|step| step.calls.iter().filter(is_settled).collect());
    let steps: Vec<Vec<&Call>> = settled.filter(|calls: &Vec<&Call>| !calls.is_empty()).collect();
    let rounds = (1..=2).map(|period| repeats(&steps, period)).max().unwrap_or_default();
    let failed = |calls: &&Vec<&Call>| calls.iter().all(|call| call.outcome.is_error());
    let failures = steps.iter().rev().take_while(failed).count();
    judge(rounds, WARN_AT, STOP_AT).max(judge(failures, FAILURES_WARN_AT, FAILURES_STOP_AT))
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

/// Returns how often the last `period` steps stand at the end, one round after another.
fn repeats(steps: &[Vec<&Call>], period: usize) -> usize {
    let Some(start) = steps.len().checked_sub(period) else { return 0 };
    let last = &steps[start..];
    steps
        .rchunks_exact(period)
        .take_while(|round| round.iter().zip(last).all(|(one, other)| same(one, other)))
        .count()
}

fn same(one: &[&Call], other: &[&Call]) -> bool {
    let same = |(one, other): (&&Call, &&Call)| {
        (&one.tool, &one.arguments, &one.outcome) == (&other.tool, &other.arguments, &other.outcome)
    };
    one.len() == other.len() && one.iter().zip(other).all(same)
}
