//! Whether somebody has written an address that a model asks for. People leave parts of it out that
//! everybody adds, and put signs around it; nothing else may differ, as whatever a model can choose in it
//! tells its server something.

use reqwest::Url;

use crate::types::session::{Call, Outcome, Session};
use crate::types::source::{Parts, Source};

/// Signs that end a sentence, an emphasis or a link.
const ENDS: &str = ".,;:!?*_~'\"|)]}>";

/// What closes what an address may stand in.
const BRACKETS: [(char, char); 4] = [('(', ')'), ('[', ']'), ('{', '}'), ('<', '>')];

/// Returns true if somebody else has written an address, so that the model can have put nothing into it: a
/// person, or a page or search that it was shown. What it wrote itself may come back to it in many ways, by
/// tools, notes and tasks; those do not count.
pub(crate) fn knows(session: &Session, url: &str) -> bool {
    let Some(wanted) = Wanted::read(url) else { return false };
    let mut steps = session.turns.iter().flat_map(|turn| &turn.steps);
    steps.any(|step| {
        let mut said = step.heard.iter().flat_map(Parts::iter);
        said.any(|part| is_by_somebody(part.source) && wanted.stands_in(part.text))
            || step.calls.iter().any(|call| was_read(call, &wanted))
    })
}

/// Returns true if a person has written a part of what was heard. Of a heartbeat's task, that is the owner's
/// file, of which the owner has been asked about each change.
fn is_by_somebody(source: &Source) -> bool {
    match source {
        Source::Person { .. }
        | Source::Quoted { .. }
        | Source::Overheard { .. }
        | Source::Skill { .. }
        | Source::File { .. } => true,
        Source::Program
        | Source::Button { .. }
        | Source::Memory
        | Source::Plan { .. }
        | Source::Proposal { .. }
        | Source::Task { .. }
        | Source::Page { .. }
        | Source::Search { .. }
        | Source::McpServer { .. }
        | Source::Command { .. }
        | Source::Past { .. }
        | Source::LinkedFile { .. }
        | Source::Unknown => false,
    }
}

/// Returns true if an address stands in what a call has read of the web, or was asked for by it.
fn was_read(call: &Call, wanted: &Wanted) -> bool {
    let is_web = |source: &Source| matches!(source, Source::Page { .. } | Source::Search { .. });
    matches!(call.outcome, Outcome::Done(_))
        && ((call.sources.iter().any(is_web) && wanted.stands_in(call.outcome.for_model()))
            || (call.tool == "web_fetch" && wanted.was_asked_by(&call.arguments)))
}

/// Whether an address stands in a text, whole.
pub fn stands_in(text: &str, url: &str) -> bool {
    Wanted::read(url).is_some_and(|wanted| wanted.stands_in(text))
}

/// An address that is looked for.
struct Wanted {
    url: Url,
    /// Its host as it was written and as it is sent, without `www.`.
    hosts: Vec<String>,
}

impl Wanted {
    fn read(url: &str) -> Option<Self> {
        let mut parsed = Url::parse(url.trim()).ok()?;
        if !["http", "https"].contains(&parsed.scheme()) {
            return None;
        }
        parsed.set_fragment(None);
        let after = url.trim().split_once("//")?.1;
        let authority = after.split(['/', '?', '#']).next()?;
        let written = authority.rsplit('@').next()?;
        let written = written.rsplit_once(':').map_or(written, |(host, _)| host);
        let mut hosts: Vec<_> = [written, parsed.host_str()?]
            .into_iter()
            .map(|host| bare(&host.to_lowercase()).to_owned())
            .collect();
        hosts.dedup();
        hosts.retain(|host| !host.is_empty());
        Some(Self { url: parsed, hosts })
    }

    /// Whether a call with these arguments, as JSON, asked for it: a fragment, which was not sent, may have
    /// held another one.
    fn was_asked_by(&self, arguments: &str) -> bool {
        let arguments = serde_json::from_str::<serde_json::Value>(arguments).unwrap_or_default();
        let asked = arguments["url"].as_str().and_then(Self::read);
        asked.is_some_and(|asked| is_same(&asked.url, &self.url))
    }

    fn stands_in(&self, text: &str) -> bool {
        // Lower case of some letters has another length; such texts are looked at as they are.
        let lower = text.to_lowercase();
        let lower = if lower.len() == text.len() { &lower } else { text };
        self.hosts.iter().any(|host| {
            lower
                .match_indices(host.as_str())
                .any(|(at, _)| self.stands_at(text, lower, at, host.len()))
        })
    }

    /// Whether it stands where its host begins and has this length.
    fn stands_at(&self, text: &str, lower: &str, at: usize, length: usize) -> bool {
        let (Some(before), Some(rest)) = (lower.get(..at), text.get(at + length..)) else {
            return false;
        };
        let before = before.strip_suffix("www.").unwrap_or(before);
        let (before, userinfo) = userinfo(before, text);
        let schemes = ["https://", "http://"];
        let scheme = schemes.into_iter().find(|scheme| before.ends_with(scheme));
        let before = scheme.map_or(before, |scheme| &before[..before.len() - scheme.len()]);
        let last = before.chars().next_back();
        let begins = match scheme {
            Some(_) => last.is_none_or(|sign| !sign.is_ascii_alphanumeric()),
            None => {
                userinfo.is_empty()
                    && last.is_none_or(|sign| {
                        !sign.is_alphanumeric() && !"-._/@:%=&?#~+$\\".contains(sign)
                    })
            }
        };
        // Who wrote it encrypted does not want it told on the way.
        if !begins || (scheme == Some("https://") && self.url.scheme() == "http") {
            return false;
        }
        let scheme =
            scheme.unwrap_or(if self.url.scheme() == "http" { "http://" } else { "https://" });
        let host = &text[at..at + length];
        candidates(rest, last).any(|rest| {
            let read = Url::parse(&format!("{scheme}{userinfo}{host}{rest}"));
            read.is_ok_and(|read| is_same(&read, &self.url))
        })
    }
}

/// What stands before a host, and name and password between; an address without a scheme has none.
fn userinfo<'a, 'b>(before: &'a str, text: &'b str) -> (&'a str, &'b str) {
    let Some(at) = before.strip_suffix('@').and_then(|before| before.rfind("//")) else {
        return (before, "");
    };
    let from = at + 2;
    let between = text.get(from..before.len()).unwrap_or_default();
    match between.contains(|sign: char| sign.is_whitespace() || "/?#".contains(sign)) {
        true => (before, ""),
        false => (&before[..from], between),
    }
}

/// What may belong to an address of what stands behind its host: all up to a space, without the signs around
/// it, or up to what closes the bracket that it stands in.
fn candidates(rest: &str, before: Option<char>) -> impl Iterator<Item = &str> {
    let stops = |sign: char| sign.is_whitespace() || sign.is_control() || "<>\"`".contains(sign);
    let whole = rest.split(stops).next().unwrap_or_default();
    let whole = whole.split('#').next().unwrap_or_default();
    let closes =
        BRACKETS.iter().find(|(opens, _)| Some(*opens) == before).map(|(_, closes)| *closes);
    let within = closes.and_then(|sign| whole.find(sign)).map(|end| &whole[..end]);
    let is_end = |sign: char| ENDS.contains(sign) || !(sign.is_ascii() || sign.is_alphanumeric());
    let trimmed = std::iter::successors(Some(whole), move |part| {
        let (at, last) = part.char_indices().next_back()?;
        is_end(last).then(|| &part[..at])
    });
    within.into_iter().chain(trimmed)
}

/// Whether two addresses are the same but for what people leave out.
fn is_same(one: &Url, other: &Url) -> bool {
    let host = |url: &Url| url.host_str().map(|host| bare(host).to_owned());
    host(one) == host(other)
        && one.port() == other.port()
        && (one.username(), one.password()) == (other.username(), other.password())
        && one.path().trim_end_matches('/') == other.path().trim_end_matches('/')
        && one.query() == other.query()
}

/// A host without what stands before the hosts of pages.
fn bare(host: &str) -> &str {
    host.strip_prefix("www.").unwrap_or(host)
}
