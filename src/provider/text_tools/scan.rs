//! Finds tool calls in a text that arrives in pieces, and outputs only the other text. Text that may begin a
//! block is held back until that is decided. The output does not depend on the splitting of the text.
//! `forms` parses the content of a block.

use super::finder::Finder;
use crate::provider::text_tools::forms::{
    self, BlockEnd, CallForm, FENCE, FENCE_BLANKS_MAX, FENCE_WORD_MAX, Fences, OpenerCheck,
    WrittenCall,
};
use crate::provider::{ToolCall, ToolSchema, wire};

/// Maximum length of a call's block. Far more than a tool's argument can be, and small enough to keep in
/// memory.
pub const BLOCK_BYTES_MAX: usize = 256 * 1024;
/// Maximum number of calls in one answer. A model that writes more is out of control.
const CALLS_MAX: usize = 64;
/// Maximum number of bytes after an opener that decide if it begins a block.
const LOOK_BYTES_MAX: usize = 256;
/// Bytes of a text that are processed at a time.
const PART_BYTES_MAX: usize = 4 * 1024;

/// A part of an answer, in its order.
#[derive(Clone, Debug, PartialEq)]
pub enum AnswerPiece {
    Text(String),
    /// Calls, and the block as it was written.
    Calls(Vec<ToolCall>, String),
}

/// Strictness of the reader, which depends on the kind of model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallStrictness {
    /// For a model that was asked to call in text: its mistakes are explained to it.
    Strict,
    /// For a model that calls natively: only an unmistakable call counts.
    Lenient,
}

/// Splits one answer into text and calls.
pub struct Scanner<'a> {
    tools: &'a [ToolSchema],
    reader: CallStrictness,
    /// Text that is not decided yet.
    held: String,
    place: ScanState,
    calls: usize,
    /// True if the last output character is a backtick.
    is_ticked: bool,
    pieces: Vec<AnswerPiece>,
}

enum ScanState {
    Beginning,
    /// `fenced`: the block before was in a code fence that is still to be closed.
    Outside {
        fenced: bool,
    },
    /// `held` begins with the block.
    Within(OpenBlock),
    /// The rest is neither for people nor a call.
    Swallowing {
        closer: Option<&'static str>,
    },
}

/// A block without its end so far.
struct OpenBlock {
    form: CallForm,
    body: usize,
    end: Finder,
    /// The code fence before it, which is output if the block is no call.
    lead: String,
    fenced: bool,
}

impl<'a> Scanner<'a> {
    pub fn new(tools: &'a [ToolSchema], reader: CallStrictness) -> Self {
        let (held, place) = (String::new(), ScanState::Beginning);
        Self { tools, reader, held, place, calls: 0, is_ticked: false, pieces: Vec::new() }
    }

    /// Takes the next text. Returns the parts that are decided now.
    pub fn take(&mut self, text: &str) -> Vec<AnswerPiece> {
        let mut rest = text;
        while !rest.is_empty() {
            // Small parts, because output is removed from the front of the held text.
            let (part, behind) = rest.split_at(rest.floor_char_boundary(PART_BYTES_MAX));
            self.held.push_str(part);
            self.run_steps(RemainingText::Coming);
            rest = behind;
        }
        std::mem::take(&mut self.pieces)
    }

    /// Returns the rest at the end of the text. `cut` if the model's token limit ended it.
    pub fn finish(&mut self, cut: bool) -> Vec<AnswerPiece> {
        self.run_steps(if cut { RemainingText::Cut } else { RemainingText::None });
        std::mem::take(&mut self.pieces)
    }

    fn run_steps(&mut self, rest: RemainingText) {
        while self.step(rest) {}
    }

    /// Returns true if the held text must be examined again.
    fn step(&mut self, rest: RemainingText) -> bool {
        match &mut self.place {
            ScanState::Beginning => self.begin(rest),
            ScanState::Outside { fenced: false } => self.outside(rest),
            ScanState::Outside { fenced: true } => match fence_after(&self.held, rest) {
                Some(0) => self.outside(rest),
                Some(length) => {
                    self.held.drain(..length);
                    self.place = ScanState::Outside { fenced: false };
                    true
                }
                None => false,
            },
            ScanState::Within(_) => self.within(rest),
            ScanState::Swallowing { closer } => {
                match closer.map(|closer| (closer, find(&self.held, closer))) {
                    Some((closer, Some(at))) => {
                        self.held.drain(..at + closer.len());
                        self.place = ScanState::Outside { fenced: false };
                        true
                    }
                    Some((closer, None)) => {
                        let keep = partial(self.held.as_bytes(), closer);
                        self.held.drain(..self.held.len() - keep);
                        false
                    }
                    None => {
                        self.held.clear();
                        false
                    }
                }
            }
        }
    }

    /// Checks for forms that are the whole answer or nothing.
    fn begin(&mut self, rest: RemainingText) -> bool {
        let begins = forms::whole(decisive_part(&self.held), self.tools);
        let begins = if rest.is_over() || self.held.len() >= LOOK_BYTES_MAX {
            begins.decided()
        } else {
            begins
        };
        match begins {
            OpenerCheck::Perhaps => return false,
            OpenerCheck::No => self.place = ScanState::Outside { fenced: false },
            OpenerCheck::Yes => self.open(CallForm::Whole, 0, String::new(), false),
        }
        true
    }

    fn open(&mut self, form: CallForm, body: usize, lead: String, fenced: bool) {
        let end = Finder::new(form, body);
        self.place = ScanState::Within(OpenBlock { form, body, end, lead, fenced });
    }

    fn outside(&mut self, rest: RemainingText) -> bool {
        let fences = match self.reader {
            CallStrictness::Strict => Fences::Searched { after_tick: self.is_ticked },
            CallStrictness::Lenient => Fences::Ignored,
        };
        let Some(opener) = forms::first_opener(&self.held, fences) else {
            self.output_held(safe(&self.held, rest));
            return false;
        };
        let forms::FoundOpener { at, form, length } = opener;
        let body = at + length;
        let behind = &self.held[body..];
        let begins = match form {
            // A result that a model invents after its calls.
            CallForm::Result if self.reader == CallStrictness::Strict && self.calls > 0 => {
                OpenerCheck::Yes
            }
            CallForm::Result => OpenerCheck::No,
            form => match form.begins(decisive_part(behind), self.tools) {
                OpenerCheck::Yes if self.is_example(at) => OpenerCheck::No,
                begins => begins,
            },
        };
        let is_far = behind.len() >= LOOK_BYTES_MAX;
        match if rest.is_over() || is_far { begins.decided() } else { begins } {
            OpenerCheck::Perhaps => {
                self.output_held(fence_before(&self.held[..at]));
                false
            }
            OpenerCheck::No => {
                self.output_held(body);
                true
            }
            OpenerCheck::Yes => {
                let start = fence_before(&self.held[..at]);
                let lead = self.held[start..at].to_owned();
                let is_fenced = matches!(self.place, ScanState::Outside { fenced: true });
                let fenced = !lead.is_empty() || is_fenced && self.held[..at].trim().is_empty();
                self.output_held(start);
                self.held.drain(..lead.len());
                if form == CallForm::Result {
                    self.place = ScanState::Swallowing { closer: None };
                } else {
                    self.open(form, length, lead, fenced);
                }
                true
            }
        }
    }

    /// Returns true if a model with native tools shows a block as an example: within backticks.
    fn is_example(&self, at: usize) -> bool {
        let before = &self.held[..at];
        let is_ticked = if at == 0 { self.is_ticked } else { before.ends_with('`') };
        self.reader == CallStrictness::Lenient && (is_ticked || fence_before(before) < at)
    }

    fn within(&mut self, rest: RemainingText) -> bool {
        let ScanState::Within(open) = &mut self.place else { return false };
        let window = self.held.len().min(BLOCK_BYTES_MAX);
        let (body_end, end) = match open.end.find(&self.held.as_bytes()[..window]) {
            Some((body, end)) => match open.end.quoted_closer {
                // The quotes are unbalanced, so the closer that seemed to be quoted is the end.
                Some(at) if !is_json(forms::strip_fence(&self.held[open.body..body])) => {
                    (at, at + open.end.closer_length())
                }
                _ => (body, end),
            },
            None if self.held.len() >= BLOCK_BYTES_MAX => return self.too_long(),
            None if !rest.is_over() => return false,
            None => match open.end.quoted_closer {
                Some(at) => (at, at + open.end.closer_length()),
                None => (self.held.len(), self.held.len()),
            },
        };
        self.close(body_end, end, rest);
        true
    }

    /// Ends the block at `end`, and its body at `body_end`.
    fn close(&mut self, body_end: usize, end: usize, rest: RemainingText) {
        let outside = ScanState::Outside { fenced: false };
        let ScanState::Within(open) = std::mem::replace(&mut self.place, outside) else { return };
        let raw: String = self.held.drain(..end).collect();
        let is_closed = end > body_end || open.end.rule == BlockEnd::Value && body_end < raw.len();
        match self.parse_block(&open, &raw, &raw[open.body..body_end]) {
            Some(calls)
                if is_closed || rest != RemainingText::Cut || calls.iter().all(is_sound) =>
            {
                self.place = ScanState::Outside { fenced: open.fenced };
                self.keep(calls, raw);
            }
            // The token limit cut the call: an incomplete call must not run.
            Some(_) => {}
            None if open.form == CallForm::Whole => self.held.insert_str(0, &raw),
            None => self.push_text(open.lead + &raw),
        }
    }

    fn parse_block(&self, open: &OpenBlock, raw: &str, body: &str) -> Option<Vec<ToolCall>> {
        let explain = |fault: &str| Some(vec![forms::explain_malformed(fault, raw)]);
        if open.form == CallForm::WithServer {
            return match forms::with_server(body, self.tools) {
                Ok(written) if self.reader == CallStrictness::Strict || self.knows(&written) => {
                    Some(vec![call(written)])
                }
                Err(fault) if self.reader == CallStrictness::Strict => explain(&fault),
                Ok(_) | Err(_) => None,
            };
        }
        let may_be_text = matches!(open.form, CallForm::Whole | CallForm::Fence);
        let is_sure = self.reader == CallStrictness::Strict && !may_be_text;
        match forms::parse_other_form(open.form, body, self.tools) {
            Some(written) if is_sure || written.iter().all(|call| self.knows(call)) => {
                Some(written.into_iter().map(call).collect())
            }
            None if is_sure => explain(&match open.form {
                CallForm::ToolCall => forms::fault(body),
                _ => "it cannot be read".to_owned(),
            }),
            Some(_) | None => None,
        }
    }

    fn knows(&self, written: &WrittenCall) -> bool {
        self.tools.iter().any(|tool| tool.name == written.name)
    }

    fn keep(&mut self, mut calls: Vec<ToolCall>, raw: String) {
        let calls_left = CALLS_MAX.saturating_sub(self.calls);
        if calls.len() > calls_left {
            calls.truncate(calls_left);
            let fault =
                format!("an answer can have at most {CALLS_MAX} calls; the rest was not read");
            calls.push(forms::explain_malformed(&fault, ""));
            self.place = ScanState::Swallowing { closer: None };
        }
        self.calls += calls.len();
        self.pieces.push(AnswerPiece::Calls(calls, raw));
    }

    fn too_long(&mut self) -> bool {
        let outside = ScanState::Outside { fenced: false };
        let ScanState::Within(open) = std::mem::replace(&mut self.place, outside) else {
            return false;
        };
        if open.form == CallForm::Whole {
            return true;
        }
        if self.reader == CallStrictness::Strict && open.form != CallForm::Fence {
            let fault = format!("it is longer than {} kB", BLOCK_BYTES_MAX / 1024);
            let shown = forms::explain_malformed(&fault, &self.held);
            self.keep(vec![shown], String::new());
            self.place = ScanState::Swallowing { closer: open.end.closer() };
        } else {
            self.held.insert_str(0, &open.lead);
            self.output_held(self.held.floor_char_boundary(open.lead.len() + BLOCK_BYTES_MAX));
        }
        true
    }

    /// Outputs the first `length` bytes.
    fn output_held(&mut self, length: usize) {
        let text: String = self.held.drain(..length).collect();
        if !text.trim().is_empty()
            && let ScanState::Outside { fenced } = &mut self.place
        {
            *fenced = false;
        }
        self.push_text(text);
    }

    fn push_text(&mut self, text: String) {
        if !text.is_empty() {
            self.is_ticked = text.ends_with('`');
        }
        match self.pieces.last_mut() {
            _ if text.is_empty() => {}
            Some(AnswerPiece::Text(before)) => before.push_str(&text),
            _ => self.pieces.push(AnswerPiece::Text(text)),
        }
    }
}

/// Knowledge about the text after the held part.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RemainingText {
    Coming,
    None,
    Cut,
}

impl RemainingText {
    fn is_over(self) -> bool {
        self != Self::Coming
    }
}

fn call(WrittenCall { name, arguments }: WrittenCall) -> ToolCall {
    ToolCall { id: wire::new_id(), name, arguments }
}

/// Returns true if a call without its end is complete all the same.
fn is_sound(call: &ToolCall) -> bool {
    call.name != forms::MALFORMED_CALL && wire::arguments(&call.arguments).is_some()
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}

/// Returns the part of a text that is examined for a decision.
fn decisive_part(text: &str) -> &str {
    &text[..text.floor_char_boundary(LOOK_BYTES_MAX)]
}

/// Returns how many bytes certainly belong to no block.
fn safe(text: &str, rest: RemainingText) -> usize {
    if rest.is_over() {
        return text.len();
    }
    let openers = forms::OPENERS.iter().map(|(opener, _)| partial(text.as_bytes(), opener));
    let at = text.len() - openers.max().unwrap_or_default();
    let fence = fence_before(&text[..at]);
    let ticks = text.len() - text.trim_end_matches('`').len();
    if fence < at {
        fence
    } else if at == text.len() && ticks < FENCE.len() {
        at - ticks
    } else {
        at
    }
}

/// Returns the start of a code fence at the end of `text`. The end of `text` if there is none.
fn fence_before(text: &str) -> usize {
    let bare = text.trim_end_matches([' ', '\t', '\r', '\n']);
    let word = bare.trim_end_matches(|sign: char| sign.is_ascii_alphanumeric() || sign == '_');
    let is_near =
        text.len() - bare.len() <= FENCE_BLANKS_MAX && bare.len() - word.len() <= FENCE_WORD_MAX;
    match word.strip_suffix(FENCE).filter(|before| is_near && !before.ends_with('`')) {
        Some(before) => before.len(),
        None => text.len(),
    }
}

/// Returns the length of a code fence's end at the start of `text`. None if that is not decided yet.
fn fence_after(text: &str, rest: RemainingText) -> Option<usize> {
    let bare = text.trim_start();
    let blanks = text.len() - bare.len();
    if bare.starts_with(FENCE) && blanks <= FENCE_BLANKS_MAX {
        return Some(blanks + FENCE.len());
    }
    let may_come = FENCE.starts_with(bare) && blanks <= FENCE_BLANKS_MAX;
    (rest.is_over() || !may_come).then_some(0)
}

/// Returns how many bytes at the end of `text` may be the beginning of `mark`.
fn partial(text: &[u8], mark: &str) -> usize {
    let most = text.len().min(mark.len() - 1);
    let fits = |&length: &usize| {
        text[text.len() - length..].eq_ignore_ascii_case(&mark.as_bytes()[..length])
    };
    (1..=most).rev().find(fits).unwrap_or_default()
}

fn find(text: &str, mark: &str) -> Option<usize> {
    text.as_bytes().windows(mark.len()).position(|it| it.eq_ignore_ascii_case(mark.as_bytes()))
}
