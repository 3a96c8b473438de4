//! Decides which URLs a model may request without approval after it has read untrusted content: those that a
//! person or a search named, and a few links of what it has read. Each choice among links could leak data to a
//! server, so both the links and the choices are bounded, and where nobody can be asked there are none. Pure.

use reqwest::Url;
use serde_json::Value;

use super::known_urls::WantedUrl;
use crate::trust::taint::{SourceReader, is_own_file};
use crate::types::origin::TaskKind;
use crate::types::session::{Call, CallId, CallOutcome, Session, Turn, TurnId};
use crate::types::source::{Source, SourcedPart, SourcedText};

/// Number of links of a page that may be followed, from its first one. Three choices among 64 carry 18 bits.
pub const LINKS_OF_PAGE_MAX: usize = 64;

/// Maximum number of links that are followed in a turn together with its subagents.
pub const FOLLOWED_MAX: usize = 3;

/// The tool whose calls request URLs.
const FETCH: &str = "web_fetch";

/// A turn with its conversation, and the person who reads it.
#[derive(Clone, Copy)]
pub(crate) struct TurnAndReader<'a> {
    pub(crate) turn: TurnId,
    pub(crate) session: &'a Session,
    pub(crate) reader: &'a SourceReader,
}

/// The turns that work on the same request: one that a person or a job began, and those of its subagents.
pub(crate) struct RequestTurns<'a> {
    /// The turn whose model wants to fetch.
    pub(crate) own: TurnAndReader<'a>,
    /// The turn that was begun first, which may be the same. None if it was deleted, so that nobody knows which links
    /// were followed.
    pub(crate) first: Option<TurnAndReader<'a>>,
    /// All except the own one.
    pub(crate) others: Vec<TurnAndReader<'a>>,
}

/// Returns true if a model may request a URL without approval: somebody named it, or it is among the links that
/// may be followed in this turn and its subagents. In an unattended turn only the person and the job name URLs.
pub(crate) fn may_be_fetched(turns: &RequestTurns<'_>, url: &str, is_attended: bool) -> bool {
    let Some(wanted) = WantedUrl::read(url) else { return false };
    let TurnAndReader { session, reader, .. } = turns.own;
    if turns.is_named_by_person(turns.own, &wanted) || was_read(session.turns.iter(), &wanted) {
        return true;
    }
    if !is_attended {
        return false;
    }
    if is_named_by_search(session, &wanted) {
        return true;
    }
    if turns.first.is_none() || !is_link(session, reader, &wanted) {
        return false;
    }
    let followed_links = turns.followed();
    let rank = followed_links.iter().position(|before| before.is_same(&wanted));
    rank.unwrap_or(followed_links.len()) < FOLLOWED_MAX
}

impl RequestTurns<'_> {
    /// Returns true if a person named a URL to the model of a turn. To a subagent a URL of its task is named if a person
    /// named it in the conversation that delegated the task. That the other model wrote it into the task is not enough.
    fn is_named_by_person(&self, of: TurnAndReader<'_>, wanted: &WantedUrl) -> bool {
        is_named_by_person(of.session, of.reader, wanted)
            || self.first.is_some_and(|first| {
                first.turn != of.turn
                    && is_in_task(of.session, wanted)
                    && is_named_by_person(first.session, first.reader, wanted)
            })
    }

    /// Returns the links that were followed in all of these turns, in the order of their calls, each once.
    fn followed(&self) -> Vec<WantedUrl> {
        let turns = self.others.iter().chain([&self.own]);
        let mut requested: Vec<_> = turns.flat_map(|turn| self.followed_in(*turn)).collect();
        // The ids are in the order in which the calls of all turns were stored, which is before any of them is checked.
        requested.sort_by_key(|(call, _)| *call);
        let mut followed: Vec<WantedUrl> = Vec::new();
        for (_, wanted) in requested {
            if !followed.iter().any(|known| known.is_same(&wanted)) {
                followed.push(wanted);
            }
        }
        followed
    }

    /// Returns the links that were followed in a turn, with their calls. A failed call counts, because its server got the
    /// request.
    fn followed_in(&self, of: TurnAndReader<'_>) -> Vec<(CallId, WantedUrl)> {
        let TurnAndReader { turn: id, session, reader } = of;
        let before = || session.turns.iter().take_while(move |turn| turn.id != id);
        let own = session.turns.iter().filter(|turn| turn.id == id);
        let calls = own.flat_map(|turn| &turn.steps).flat_map(|step| &step.calls);
        let is_sent = |call: &&Call| {
            call.tool == FETCH
                && !matches!(call.outcome, CallOutcome::Denied(_) | CallOutcome::Skipped)
        };
        // The page with the link may have been left out since. Then each URL counts that nobody named.
        let is_whole = session.summary.is_none() && session.shortened.is_none();
        let requested = calls.filter(is_sent);
        let requested = requested.filter_map(|call| Some((call.id, WantedUrl::of_call(call)?)));
        let is_followed = |(_, wanted): &(CallId, WantedUrl)| {
            !self.is_named_by_person(of, wanted)
                && !is_named_by_search(session, wanted)
                && !was_read(before(), wanted)
                && (!is_whole || is_link(session, reader, wanted))
        };
        requested.filter(is_followed).collect()
    }
}

/// Returns true if a URL stands in the task of a subagent.
fn is_in_task(session: &Session, wanted: &WantedUrl) -> bool {
    let steps = session.turns.iter().flat_map(|turn| &turn.steps);
    let mut parts = steps.filter_map(|step| step.input.as_ref()).flat_map(SourcedText::iter);
    parts.any(|part| {
        matches!(part.source, Source::Task { kind: TaskKind::Subagent, .. })
            && wanted.occurs_in(part.text)
    })
}

/// Returns true if a person named a URL: in a message, in the text of their job, or in HEARTBEAT.md, because the owner
/// approves each change of that file. Of a person with a lower role nothing counts, nor what they quote.
fn is_named_by_person(session: &Session, reader: &SourceReader, wanted: &WantedUrl) -> bool {
    let steps = session.turns.iter().flat_map(|turn| &turn.steps);
    let inputs = steps.filter_map(|step| step.input.as_ref());
    // A plan of theirs stands in the messages of others too.
    let is_of_lower = |part: SourcedPart<'_>| {
        reader.is_of_lower(part.source) && !matches!(part.source, Source::Plan { .. })
    };
    let of_equals = inputs.filter(|input| !input.iter().any(is_of_lower));
    let mut said = of_equals.flat_map(SourcedText::iter);
    said.any(|part| is_by_person(part.source, reader) && wanted.occurs_in(part.text))
}

/// Returns true if a URL is the address of a result of a search. What titles and snippets say names nothing. Nor does a
/// result whose address stood in the query: the model chose it, and the engine only repeats it.
fn is_named_by_search(session: &Session, wanted: &WantedUrl) -> bool {
    let steps = session.turns.iter().flat_map(|turn| &turn.steps);
    let mut calls = steps.flat_map(|step| &step.calls);
    calls.any(|call| is_done(call) && is_result(call, wanted) && !stands_in_query(call, wanted))
}

fn is_result(call: &Call, wanted: &WantedUrl) -> bool {
    let results = call.sources.iter().flat_map(|source| match source {
        Source::Search { urls, .. } => urls.as_slice(),
        _ => &[],
    });
    results.filter_map(|url| WantedUrl::read(url)).any(|result| result.is_same(wanted))
}

fn stands_in_query(call: &Call, wanted: &WantedUrl) -> bool {
    arguments(call)["query"].as_str().is_none_or(|query| wanted.occurs_in(query))
}

/// Returns true if a person wrote a part, or adopted it as their own. A file that somebody sent is not theirs.
fn is_by_person(source: &Source, reader: &SourceReader) -> bool {
    match source {
        Source::Person { .. } | Source::Skill { .. } => true,
        Source::Task { kind: TaskKind::Job, .. } => !reader.distrusts(source),
        Source::File { path } => is_own_file(path),
        Source::Quoted { by_others, .. } => !by_others,
        Source::Program
        | Source::Overheard { .. }
        | Source::Button { .. }
        | Source::Memory
        | Source::Plan { .. }
        | Source::Proposal { .. }
        | Source::Task { .. }
        | Source::Page { .. }
        | Source::Search { .. }
        | Source::McpServer { .. }
        | Source::Command { .. }
        | Source::LinkedFile { .. }
        | Source::MarkedFile { .. }
        | Source::Past { .. }
        | Source::Unknown => false,
    }
}

/// Returns true if others wrote a part that a person quoted, or that was overheard in the group, or somebody with a lower
/// role wrote it.
fn is_by_others(part: &SourcedPart<'_>, reader: &SourceReader) -> bool {
    matches!(part.source, Source::Quoted { by_others: true, .. } | Source::Overheard { .. })
        || reader.is_of_lower(part.source)
}

fn is_done(call: &Call) -> bool {
    matches!(call.outcome, CallOutcome::Done(_))
}

fn arguments(call: &Call) -> Value {
    serde_json::from_str(&call.arguments).unwrap_or_default()
}

/// Returns true if a URL is a link of a page on the same site, or of a message of others here. In a message it counts
/// with its scheme only, because by the schemes the first links are counted.
fn is_link(session: &Session, reader: &SourceReader, wanted: &WantedUrl) -> bool {
    let mut steps = session.turns.iter().flat_map(|turn| &turn.steps);
    steps.any(|step| {
        let mut said = step.input.iter().flat_map(SourcedText::iter);
        said.any(|part| {
            is_by_others(&part, reader) && wanted.occurs_whole_in(first_links(part.text))
        }) || step.calls.iter().any(|call| is_link_of_page(call, wanted))
    })
}

fn is_link_of_page(call: &Call, wanted: &WantedUrl) -> bool {
    let on_site = |source: &Source| match source {
        // The URL of the page itself comes before its text, and is not one of its links.
        Source::Page { url } => Url::parse(url).is_ok_and(|page| {
            is_same_site(&page, wanted.url())
                && !WantedUrl::read(url).is_some_and(|it| it.is_same(wanted))
        }),
        _ => false,
    };
    is_done(call)
        && call.sources.iter().any(on_site)
        && begins_page(call)
        // One more, for the page's own URL.
        && wanted.occurs_whole_in(up_to_link(call.outcome.for_model(), LINKS_OF_PAGE_MAX + 1))
}

/// Returns true if a call has read the first part of a page, which has its first links.
fn begins_page(call: &Call) -> bool {
    arguments(call)["offset"].as_u64().unwrap_or_default() == 0
}

/// Returns a text up to the end of its first [`LINKS_OF_PAGE_MAX`] links.
fn first_links(text: &str) -> &str {
    up_to_link(text, LINKS_OF_PAGE_MAX)
}

/// Returns a text up to the link after the first `links` ones.
fn up_to_link(text: &str, links: usize) -> &str {
    match text.match_indices("://").nth(links) {
        Some((at, _)) => &text[..at],
        None => text,
    }
}

/// Returns true if a page was read in these turns. It is cached for a while, so it is not fetched again.
fn was_read<'a>(turns: impl Iterator<Item = &'a Turn>, wanted: &WantedUrl) -> bool {
    let mut calls = turns.flat_map(|turn| &turn.steps).flat_map(|step| &step.calls);
    calls.any(|call| {
        let asked = || WantedUrl::of_call(call).is_some_and(|asked| asked.is_same(wanted));
        call.tool == FETCH && is_done(call) && asked()
    })
}

/// Returns true if two hosts belong to the same registrable domain, by the public suffix list.
pub fn is_same_site(one: &Url, other: &Url) -> bool {
    let (Some(one), Some(other)) = (one.host_str(), other.host_str()) else { return false };
    let plain = |host: &str| host.trim_end_matches('.').to_ascii_lowercase();
    let (one, other) = (plain(one), plain(other));
    one == other
        || match (psl::domain_str(&one), psl::domain_str(&other)) {
            (Some(one), Some(other)) => one == other,
            _ => false,
        }
}
