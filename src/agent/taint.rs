//! Whether a conversation has read what strangers wrote. Found out from what the model is shown, and kept
//! nowhere: as long as it sees their words, they may speak to it.

use std::fmt;

use crate::errands::Errand;
use crate::session::{Call, Outcome, Session, Step};
use crate::tools::{ask, foreign};

/// What brought the newest of their words in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taint {
    /// A call of this tool.
    Tool(String),
    /// What others said here, quoted or overheard.
    Said,
    /// Another conversation, which has read them.
    HandedOn,
}

impl fmt::Display for Taint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tool(tool) => write!(f, "by {tool}"),
            Self::Said => f.write_str("in what others said here"),
            Self::HandedOn => f.write_str("in what was handed on"),
        }
    }
}

/// What a conversation is tainted with; none if its model sees nobody's words but its person's.
pub(super) fn of(session: &Session) -> Option<Taint> {
    shown(session).rev().find_map(|step| {
        // An answer that a call asked for comes as messages do.
        let theirs = |call: &&Call| {
            let result = call.outcome.for_model();
            foreign::is_wrapped(result) || (call.tool == ask::NAME && foreign::is_of_others(result))
        };
        let by_call = step.calls.iter().rev().find(theirs);
        by_call.map(|call| Taint::Tool(call.tool.clone())).or_else(|| {
            let heard = step.heard.as_deref().unwrap_or_default();
            match foreign::is_of_others(heard) {
                true => Some(Taint::Said),
                false => heard.contains(foreign::HAS_READ).then_some(Taint::HandedOn),
            }
        })
    })
}

/// Whether somebody else has written an address as it stands, so that the model can have put nothing into
/// it: a person, or a page or search that it was shown. What it wrote itself may come back to it in many
/// ways, by tools, notes and tasks; those do not count.
pub(super) fn knows(session: &Session, url: &str) -> bool {
    let url = url.split('#').next().unwrap_or_default().trim_end_matches('/');
    let is_errand = Errand::of(&session.address).is_some();
    shown(session).any(|step| {
        let heard = step.heard.as_deref().filter(|_| !is_errand).unwrap_or_default();
        // What changed in memory, notes and plan stands after what was said.
        let said = heard.split("\n[Your ").next().unwrap_or_default();
        stands_in(said, url) || step.calls.iter().any(|call| was_read(call, url))
    })
}

/// Whether an address stands in what a call has read of the web, or was asked for by it.
fn was_read(call: &Call, url: &str) -> bool {
    let is_web = call.tool.starts_with("web_") && matches!(call.outcome, Outcome::Done(_));
    let result = call.outcome.for_model();
    is_web
        && ((foreign::is_wrapped(result) && stands_in(result, url))
            || (call.tool == "web_fetch" && stands_in(&call.arguments, url)))
}

/// Whether `url` stands in a text, whole.
fn stands_in(text: &str, url: &str) -> bool {
    let goes_on =
        |sign: char| sign.is_ascii_alphanumeric() || "-._~:/?#[]@!$&'()*+,;=%".contains(sign);
    text.match_indices(url).any(|(at, _)| {
        let rest = &text[at + url.len()..];
        let end = rest.find(|sign| !goes_on(sign)).unwrap_or(rest.len());
        let more = rest[..end].split('#').next().unwrap_or_default();
        // Signs that end a sentence or a link.
        more.trim_start_matches('/').trim_matches(|sign| ".,;:!?)]'*".contains(sign)).is_empty()
    })
}

fn shown(session: &Session) -> impl DoubleEndedIterator<Item = &Step> {
    session.turns.iter().flat_map(|turn| &turn.steps)
}
