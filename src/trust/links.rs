//! The addresses that a model may ask for without a question once it has read untrusted content: those that a person or a
//! search named, and a few links of what it has read. Each choice among links tells a server something, so
//! both the links and the choices are bounded, and where nobody can be asked there are none. Pure.

use reqwest::Url;

use super::known_urls::WantedUrl;
use crate::trust::taint::is_own_file;
use crate::types::origin::TaskKind;
use crate::types::session::{Call, CallOutcome, Session, Turn};
use crate::types::source::{Part, Parts, Source};

/// Links of a page that may be followed: its first ones. Three choices among 64 carry 18 bits.
pub const LINKS_OF_PAGE_MAX: usize = 64;

/// Links that are followed in a turn.
pub const FOLLOWED_MAX: usize = 3;

/// The tool whose calls ask for addresses.
const FETCH: &str = "web_fetch";

/// Returns true if a model may ask for an address without a person's yes: somebody named it, or it is among the
/// links that may be followed in this turn. In a turn that nobody attends, only the person and the job name addresses.
pub(crate) fn may_be_fetched(session: &Session, url: &str, is_attended: bool) -> bool {
    let Some(wanted) = WantedUrl::read(url) else { return false };
    if is_named_by_person(session, &wanted) || was_read(session.turns.iter(), &wanted) {
        return true;
    }
    if !is_attended {
        return false;
    }
    if is_named_by_search(session, &wanted) {
        return true;
    }
    if !is_link(session, &wanted) {
        return false;
    }
    let followed = followed(session);
    let rank = followed.iter().position(|before| before.is_same(&wanted));
    rank.unwrap_or(followed.len()) < FOLLOWED_MAX
}

/// Returns true if a person named an address: in what they said, in the text of their job, or in HEARTBEAT.md.
fn is_named_by_person(session: &Session, wanted: &WantedUrl) -> bool {
    let steps = session.turns.iter().flat_map(|turn| &turn.steps);
    let mut said = steps.filter_map(|step| step.input.as_ref()).flat_map(Parts::iter);
    said.any(|part| is_by_person(part.source) && wanted.stands_in(part.text))
}

/// Returns true if an address stands among the results of a search.
fn is_named_by_search(session: &Session, wanted: &WantedUrl) -> bool {
    let steps = session.turns.iter().flat_map(|turn| &turn.steps);
    let mut calls = steps.flat_map(|step| &step.calls);
    calls.any(|call| is_search(call) && stands_in_links(call, wanted))
}

/// Returns true if a person wrote a part, or handed it on as their own. A file that somebody sent is not theirs.
fn is_by_person(source: &Source) -> bool {
    match source {
        Source::Person { .. }
        | Source::Skill { .. }
        | Source::Task { kind: TaskKind::Job, read_others: false, .. } => true,
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

/// Returns true if somebody else wrote a part that a person passed on, or said it in their hearing.
fn is_by_others(part: &Part<'_>) -> bool {
    matches!(part.source, Source::Quoted { by_others: true, .. } | Source::Overheard { .. })
}

fn is_done(call: &Call) -> bool {
    matches!(call.outcome, CallOutcome::Done(_))
}

fn is_search(call: &Call) -> bool {
    is_done(call) && call.sources.iter().any(|source| matches!(source, Source::Search { .. }))
}

/// Returns true if an address stands among the first links of what a call has shown.
fn stands_in_links(call: &Call, wanted: &WantedUrl) -> bool {
    wanted.stands_whole_in(first_links(call.outcome.for_model()))
}

/// Returns true if an address is a link of a page on the same site, or of what others said here.
fn is_link(session: &Session, wanted: &WantedUrl) -> bool {
    let mut steps = session.turns.iter().flat_map(|turn| &turn.steps);
    steps.any(|step| {
        let mut said = step.input.iter().flat_map(Parts::iter);
        said.any(|part| is_by_others(&part) && wanted.stands_in(first_links(part.text)))
            || step.calls.iter().any(|call| is_link_of_page(call, wanted))
    })
}

fn is_link_of_page(call: &Call, wanted: &WantedUrl) -> bool {
    let on_site = |source: &Source| match source {
        // The address of a page stands above its text, and is no link of it.
        Source::Page { url } => Url::parse(url).is_ok_and(|page| {
            is_same_site(&page, wanted.url())
                && !WantedUrl::read(url).is_some_and(|it| it.is_same(wanted))
        }),
        _ => false,
    };
    is_done(call)
        && call.sources.iter().any(on_site)
        && begins_page(call)
        // The page's own address stands before its links.
        && wanted.stands_whole_in(up_to_link(call.outcome.for_model(), LINKS_OF_PAGE_MAX + 1))
}

/// Returns true unless a call has read on in a page: its first links stand in its first part.
fn begins_page(call: &Call) -> bool {
    let arguments = serde_json::from_str::<serde_json::Value>(&call.arguments).unwrap_or_default();
    arguments["offset"].as_u64().unwrap_or_default() == 0
}

/// A text up to the link after the first [`LINKS_OF_PAGE_MAX`].
fn first_links(text: &str) -> &str {
    up_to_link(text, LINKS_OF_PAGE_MAX)
}

/// A text up to the link after so many.
fn up_to_link(text: &str, links: usize) -> &str {
    match text.match_indices("://").nth(links) {
        Some((at, _)) => &text[..at],
        None => text,
    }
}

/// The links that were followed in the turn that is under way, in the order of its calls, each once. A call
/// that failed counts: its server was asked.
fn followed(session: &Session) -> Vec<WantedUrl> {
    let Some((turn, before)) = session.turns.split_last() else { return Vec::new() };
    let calls = turn.steps.iter().flat_map(|step| &step.calls);
    let asked = calls.filter(|call| call.tool == FETCH).filter_map(WantedUrl::of_call);
    let mut followed: Vec<WantedUrl> = Vec::new();
    for wanted in asked {
        if !followed.iter().any(|known| known.is_same(&wanted))
            && !is_named_by_person(session, &wanted)
            && !is_named_by_search(session, &wanted)
            && !was_read(before.iter(), &wanted)
            && is_link(session, &wanted)
        {
            followed.push(wanted);
        }
    }
    followed
}

/// Returns true if a page was read in these turns; it is kept for a while and not fetched again.
fn was_read<'a>(turns: impl Iterator<Item = &'a Turn>, wanted: &WantedUrl) -> bool {
    let mut calls = turns.flat_map(|turn| &turn.steps).flat_map(|step| &step.calls);
    calls.any(|call| {
        let asked = || WantedUrl::of_call(call).is_some_and(|asked| asked.is_same(wanted));
        call.tool == FETCH && is_done(call) && asked()
    })
}

/// Returns true if two hosts belong to whoever registered one domain, by the public suffix list.
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
