//! Removes untrusted content from a conversation: keeps everything before the first untrusted part, and only messages
//! of people after it. Pure.

use crate::people::Role;
use crate::trust::taint;
use crate::types::session::{CallOutcome, Session, Step, Turn};
use crate::types::source::{Source, SourcedText};
use crate::types::summary::SourcedSummary;
use crate::workspace::Audience;

/// Maximum length of the record, in characters; the newest lines are kept. A summary has this length in a usual context
/// window.
const KEPT_CHARS_MAX: usize = 8_000;

/// Maximum length of one message in the record, in characters.
const MESSAGE_CHARS_MAX: usize = 1_500;

/// Replaces the outcome of a call if others wrote it.
const LEFT_OUT: &str = "(left out: others wrote it)";

/// A private conversation without its untrusted content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptConversation {
    /// The kept lines, as the summary of the next conversation. Empty if nothing is kept.
    pub record: String,
    /// Number of messages of the bot that were left out.
    pub left_out: usize,
}

/// Returns the trusted part of a private conversation for a person with this role. None if the model sees no
/// untrusted content.
pub fn keep(session: &Session, role: Role, audience: Audience) -> Option<KeptConversation> {
    taint::session_taint(session, role)?;
    let is_untrusted = |source: &Source| taint::is_untrusted(source, audience);
    let (mut is_tainted, mut left_out) = (session.summary_sources.iter().any(is_untrusted), 0);
    let summary = first_trusted(session.summaries(), audience);
    // A long one leaves its beginning out.
    let lines = summary.iter().flat_map(|summary| summary.text.lines());
    let mut lines: Vec<String> = lines.map(str::to_owned).collect();
    for step in session.turns.iter().flat_map(|turn| &turn.steps) {
        let input: Vec<_> = step.input.iter().flat_map(SourcedText::iter).collect();
        is_tainted |= input.iter().any(|part| is_untrusted(part.source));
        let by_person = input.iter().filter(|part| match part.source {
            Source::Person { .. } => true,
            // The bot wrote the text of a button.
            Source::Button { .. } => !is_tainted,
            _ => false,
        });
        let by_person: String = by_person.map(|part| part.text).collect();
        if !by_person.trim().is_empty() {
            lines.push(format!("The person: {}", short(&by_person)));
        }
        // The model saw these before it wrote the step's text.
        match (step.text.trim(), is_tainted) {
            ("", _) => {}
            (text, false) => lines.push(format!("You: {}", short(text))),
            (_, true) => left_out += 1,
        }
        let calls_are_tainted = step.calls.iter().flat_map(|call| &call.sources).any(is_untrusted);
        is_tainted |= calls_are_tainted;
    }
    Some(KeptConversation { record: newest(&lines), left_out })
}

/// Returns the first summary that is trusted for an audience.
pub(crate) fn first_trusted(
    mut summaries: impl Iterator<Item = SourcedSummary>,
    audience: Audience,
) -> Option<SourcedSummary> {
    summaries.find(|summary| !summary.sources.iter().any(|it| taint::is_untrusted(it, audience)))
}

/// The trusted parts of turns.
pub(crate) struct TrustedParts {
    pub(crate) turns: Vec<Turn>,
    /// Number of parts that were left out.
    pub(crate) left_out: usize,
}

/// Returns the trusted parts of turns, for a summary of them alone: what people and the program said, and what the model
/// wrote before it was shown the first untrusted part. `is_tainted` is true if it was shown one before these turns.
pub(crate) fn trusted_parts(turns: &[Turn], is_tainted: bool, audience: Audience) -> TrustedParts {
    let mut sieve = TrustSieve { audience, is_tainted, left_out: 0 };
    let of_turn = |turn: &Turn| {
        let steps = turn.steps.iter().map(|step| sieve.trusted_step(step));
        let has_content =
            |step: &Step| step.input.is_some() || !step.text.is_empty() || !step.calls.is_empty();
        let steps: Vec<_> = steps.filter(has_content).collect();
        Turn { steps, ..turn.clone() }
    };
    let turns: Vec<_> = turns.iter().map(of_turn).collect();
    let turns = turns.into_iter().filter(|turn| !turn.steps.is_empty()).collect();
    TrustedParts { turns, left_out: sieve.left_out }
}

/// Goes through the steps of a conversation in their order.
struct TrustSieve {
    audience: Audience,
    /// The model was shown an untrusted part.
    is_tainted: bool,
    left_out: usize,
}

impl TrustSieve {
    fn trusted_step(&mut self, step: &Step) -> Step {
        let audience = self.audience;
        let is_untrusted = |source: &Source| taint::is_untrusted(source, audience);
        let mut input = SourcedText::default();
        for part in step.input.iter().flat_map(SourcedText::iter) {
            let is_by_bot = matches!(part.source, Source::Button { .. });
            self.is_tainted |= is_untrusted(part.source);
            match is_untrusted(part.source) || (is_by_bot && self.is_tainted) {
                true => self.left_out += 1,
                false => input.push(part.source.clone(), part.text),
            }
        }
        let (mut text, mut calls) = (String::new(), Vec::new());
        if self.is_tainted {
            self.left_out += usize::from(!step.text.trim().is_empty()) + step.calls.len();
        } else {
            (text, calls) = (step.text.clone(), step.calls.clone());
            for call in &mut calls {
                if call.sources.iter().any(is_untrusted) {
                    call.outcome = CallOutcome::Done(LEFT_OUT.to_owned());
                    call.sources.clear();
                    self.left_out += 1;
                }
            }
        }
        let by_calls = step.calls.iter().flat_map(|call| &call.sources).any(is_untrusted);
        self.is_tainted |= by_calls;
        let input = (!input.trim().is_empty()).then_some(input);
        Step { input, text, calls, is_summarized: step.is_summarized, ..Step::default() }
    }
}

fn short(text: &str) -> String {
    let text = text.trim();
    match text.char_indices().nth(MESSAGE_CHARS_MAX) {
        None => text.to_owned(),
        Some((at, _)) => format!("{} […]", &text[..at]),
    }
}

/// Returns the last lines that fit into the record, joined.
fn newest(lines: &[String]) -> String {
    let mut chars_left = KEPT_CHARS_MAX;
    let fits = |line: &&String| {
        let fits = line.chars().count() < chars_left;
        chars_left = chars_left.saturating_sub(line.chars().count() + 1);
        fits
    };
    let mut kept: Vec<_> = lines.iter().rev().take_while(fits).cloned().collect();
    kept.reverse();
    kept.join("\n")
}
