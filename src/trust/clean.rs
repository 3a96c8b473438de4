//! Removes untrusted content from a conversation: keeps everything before the first untrusted part, and only messages
//! of people after it. Pure.

use crate::conversation::shorten;
use crate::conversation::tokens::{percent, tokens};
use crate::people::Role;
use crate::short_text;
use crate::trust::taint;
use crate::types::session::{Call, CallOutcome, Session, Step, Turn};
use crate::types::source::{self, Source, SourcedText};
use crate::types::summary::SourcedSummary;
use crate::workspace::Audience;

/// The part of the context window for the record, in percent: as much as for turns that stay whole after a compaction.
const RECORD_PERCENT: u64 = 25;

/// The parts of the record of which a former summary may have one.
const SUMMARY_PARTS: u64 = 2;

/// Minimum size of a message that is cut, in tokens: of less, nobody could make sense.
const CUT_TOKENS_MIN: u64 = 20;

/// Maximum length of a call's arguments in the record, in characters.
const ARGUMENTS_CHARS_MAX: usize = 1_000;

/// Replaces the outcome of a call if others wrote it.
const LEFT_OUT: &str = "(left out: others wrote it)";

/// A private conversation without its untrusted content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptConversation {
    /// The kept lines, as the summary of the next conversation. Empty if nothing is kept.
    pub record: String,
    /// The trusted sources that the model saw before the first untrusted part, each once: also of lines that had no
    /// room, but not of the person's later messages.
    pub sources: Vec<Source>,
    /// Number of messages of the bot that were left out.
    pub left_out: usize,
    /// Number of messages of the person that are missing or cut, as there was no room for them.
    pub cut: usize,
}

/// Returns the trusted part of a private conversation for a person with this role, for a model with this context window,
/// in tokens. None if the model sees no untrusted content.
pub fn keep(
    session: &Session,
    role: Role,
    audience: Audience,
    context_window: u64,
) -> Option<KeptConversation> {
    taint::session_taint(session, role)?;
    let is_untrusted = |source: &Source| taint::is_untrusted(source, audience);
    let (mut is_tainted, mut left_out) = (session.summary_sources.iter().any(is_untrusted), 0);
    let summary = first_trusted(session.summaries(), audience);
    let mut sources = summary.as_ref().map(|it| it.sources.clone()).unwrap_or_default();
    let mut lines = Vec::new();
    for step in session.turns.iter().flat_map(|turn| &turn.steps) {
        let input: Vec<_> = step.input.iter().flat_map(SourcedText::iter).collect();
        is_tainted |= input.iter().any(|part| is_untrusted(part.source));
        if !is_tainted {
            input.iter().for_each(|part| source::add(&mut sources, part.source));
        }
        let by_person = input.iter().filter(|part| match part.source {
            Source::Person { .. } => true,
            // The bot wrote the text of a button.
            Source::Button { .. } => !is_tainted,
            _ => false,
        });
        let by_person: String = by_person.map(|part| part.text).collect();
        if !by_person.trim().is_empty() {
            lines.push(RecordLine::own(format!("The person: {}", by_person.trim())));
        }
        // The model saw these before it wrote the step's text.
        match (step.text.trim(), is_tainted) {
            ("", _) => {}
            (text, false) => lines.push(RecordLine::other(format!("You: {text}"))),
            (_, true) => left_out += 1,
        }
        // A summary tells of the calls of a summarized step.
        if !is_tainted && !step.is_summarized {
            for call in &step.calls {
                let is_left_out = call.sources.iter().any(is_untrusted);
                lines.push(RecordLine::other(call_line(call, is_left_out)));
                let kept = call.sources.iter().filter(|source| !is_untrusted(source));
                kept.for_each(|it| source::add(&mut sources, it));
            }
        }
        is_tainted |= step.calls.iter().flat_map(|call| &call.sources).any(is_untrusted);
    }
    let tokens_max = percent(context_window, RECORD_PERCENT);
    let summary = summary.map(|summary| within(summary.text, tokens_max / SUMMARY_PARTS));
    let (record, cut) = newest(summary, lines, tokens_max);
    Some(KeptConversation { record, sources, left_out, cut })
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

/// A line of the record.
struct RecordLine {
    text: String,
    /// True if the person said it.
    is_own: bool,
}

impl RecordLine {
    fn own(text: String) -> Self {
        Self { text, is_own: true }
    }

    fn other(text: String) -> Self {
        Self { text, is_own: false }
    }
}

/// Describes a call and its outcome, which is left out if others wrote it.
fn call_line(call: &Call, is_left_out: bool) -> String {
    let arguments = short_text::shortened(&call.arguments, ARGUMENTS_CHARS_MAX);
    let short = shorten::shortened(call);
    let outcome = match is_left_out {
        true => LEFT_OUT,
        false => short.as_deref().unwrap_or_else(|| call.outcome.for_model()),
    };
    format!("You called {} {arguments}\nResult: {outcome}", call.tool)
}

/// Returns a record within so many tokens, and the number of messages of the person that are missing or cut in it. Their
/// messages come first, and of these and of the other lines the newest. Nothing stands before a gap.
fn newest(summary: Option<String>, mut lines: Vec<RecordLine>, tokens_max: u64) -> (String, usize) {
    let mut tokens_left = tokens_max.saturating_sub(summary.as_deref().map_or(0, tokens));
    let (mut is_kept, mut kept_whole) = (vec![false; lines.len()], 0);
    for is_own in [true, false] {
        for (line, is_kept) in lines.iter_mut().zip(&mut is_kept).rev() {
            if line.is_own != is_own {
                continue;
            }
            let size = tokens(&line.text);
            if size > tokens_left {
                // The newest message that has no room is better than none.
                if is_own && tokens_left >= CUT_TOKENS_MIN {
                    line.text = within(std::mem::take(&mut line.text), tokens_left);
                    *is_kept = true;
                }
                tokens_left = 0;
                break;
            }
            tokens_left -= size;
            *is_kept = true;
            kept_whole += usize::from(is_own);
        }
    }
    let cut = lines.iter().filter(|line| line.is_own).count() - kept_whole;
    let lines =
        lines.into_iter().zip(is_kept).filter_map(|(line, is_kept)| is_kept.then_some(line.text));
    let texts: Vec<_> = summary.into_iter().chain(lines).collect();
    (texts.join("\n"), cut)
}

/// Returns a text, or its beginning if it has more tokens.
fn within(text: String, tokens_max: u64) -> String {
    let size = tokens(&text);
    if size <= tokens_max {
        return text;
    }
    // Characters differ in tokens, so only half of the share by their number is kept.
    let chars = text.chars().count() as u64 * tokens_max / size / 2;
    short_text::shortened(&text, usize::try_from(chars).unwrap_or_default())
}
