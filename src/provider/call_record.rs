//! The record of calls that a summary replaces: a model that has forgotten a call makes it again.

use serde_json::Value;

use crate::types::session::{Call, CallOutcome, Step};

/// Maximum number of steps whose calls are named, the newest ones.
const STEPS_MAX: usize = 40;

/// Maximum length of a call's target, in characters.
const TARGET_CHARS_MAX: usize = 80;

/// Arguments that name what a call is about, in most tools.
const TARGETS: [&str; 7] = ["path", "url", "command", "query", "to", "name", "task"];

const HEADING: &str =
    "You have made these calls in this turn already; the summary above stands for their results:";

/// Returns the record of steps that were summarized, with a line for each; none if they had no calls.
pub(super) fn calls_record(steps: &[Step]) -> Option<String> {
    let with_calls = steps.iter().filter(|step| !step.calls.is_empty());
    let lines: Vec<_> = with_calls
        .map(|step| {
            let calls: Vec<_> = step.calls.iter().map(describe_call).collect();
            format!("- {}", calls.join("; "))
        })
        .collect();
    let left_out = lines.len().saturating_sub(STEPS_MAX);
    let more = (left_out > 0).then(|| format!("- and {left_out} steps before these"));
    let shown = lines[left_out..].iter().cloned();
    let all: Vec<_> = more.into_iter().chain(shown).collect();
    (!all.is_empty()).then(|| format!("[{HEADING}\n{}]", all.join("\n")))
}

/// Describes one call and its outcome.
pub fn describe_call(call: &Call) -> String {
    let outcome = match &call.outcome {
        CallOutcome::Planned | CallOutcome::Waiting | CallOutcome::Skipped => "not made",
        CallOutcome::Done(_) => "done",
        CallOutcome::Failed(_) => "failed",
        CallOutcome::Denied(_) => "not allowed",
        CallOutcome::Running { .. } | CallOutcome::Interrupted => "may or may not have happened",
    };
    let (tool, target) = (plain(&call.tool), target(&call.arguments));
    format!("{tool}{target}: {outcome}")
}

/// Returns the subject of a call: the argument that names it, or else the first text.
fn target(arguments: &str) -> String {
    let arguments: Value = serde_json::from_str(arguments).unwrap_or_default();
    let named = TARGETS.iter().filter_map(|name| arguments.get(*name));
    let all = arguments.as_object().into_iter().flat_map(|all| all.values());
    let text = named.chain(all).find_map(Value::as_str).map(plain).unwrap_or_default();
    if text.is_empty() { String::new() } else { format!(" `{text}`") }
}

/// Returns the beginning of a text on one line, without signs that could imitate a line of the program.
fn plain(text: &str) -> String {
    let signs = text.chars().map(|sign| if sign.is_control() { ' ' } else { sign });
    let signs = signs.filter(|sign| !"[]`".contains(*sign));
    signs.take(TARGET_CHARS_MAX).collect::<String>().trim().to_owned()
}
