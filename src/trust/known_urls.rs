//! Finds an address that a model asks for in what somebody has written. People leave parts of it out that
//! everybody adds, and put signs around it; nothing else may differ, as whatever a model can choose in it
//! tells its server something.

use reqwest::Url;

use crate::types::session::Call;

/// Signs that end a sentence, an emphasis or a link.
const ENDS: &str = ".,;:!?*_~'\"|)]}>";

/// Pairs of brackets in which an address may stand.
const BRACKETS: [(char, char); 4] = [('(', ')'), ('[', ']'), ('{', '}'), ('<', '>')];

/// Returns true if a text contains the whole address.
pub fn stands_in(text: &str, url: &str) -> bool {
    WantedUrl::read(url).is_some_and(|wanted| wanted.stands_in(text))
}

/// An address that is looked for.
pub(super) struct WantedUrl {
    url: Url,
    /// Its host as it was written and as it is sent, without `www.`.
    hosts: Vec<String>,
}

impl WantedUrl {
    pub(super) fn read(url: &str) -> Option<Self> {
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

    /// The address that a call asks for. A fragment is not sent.
    pub(super) fn of_call(call: &Call) -> Option<Self> {
        let arguments = serde_json::from_str::<serde_json::Value>(&call.arguments).ok()?;
        Self::read(arguments["url"].as_str()?)
    }

    pub(super) fn url(&self) -> &Url {
        &self.url
    }

    pub(super) fn is_same(&self, other: &Self) -> bool {
        is_same(&self.url, &other.url)
    }

    /// Returns true if the address stands in a text with its scheme, as a link does.
    pub(super) fn stands_whole_in(&self, text: &str) -> bool {
        self.stands(text, true)
    }

    pub(super) fn stands_in(&self, text: &str) -> bool {
        self.stands(text, false)
    }

    fn stands(&self, text: &str, with_scheme: bool) -> bool {
        // Lower case of some letters has another length; such texts are looked at as they are.
        let lower = text.to_lowercase();
        let lower = if lower.len() == text.len() { &lower } else { text };
        self.hosts.iter().any(|host| {
            lower
                .match_indices(host.as_str())
                .any(|(at, _)| self.stands_at(text, lower, at, host.len(), with_scheme))
        })
    }

    /// Returns true if the address stands at the place where its host begins and has this length.
    fn stands_at(
        &self,
        text: &str,
        lower: &str,
        at: usize,
        length: usize,
        with_scheme: bool,
    ) -> bool {
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
        let is_told = scheme == Some("https://") && self.url.scheme() == "http";
        if !begins || is_told || (with_scheme && scheme.is_none()) {
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

/// Returns the text before a host, and the name and password between. An address without a scheme has none.
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

/// Returns the possible ends of an address behind its host: all up to a space, without the signs around it, or up to
/// the closing bracket.
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

/// Returns true if two addresses are the same except for parts that people leave out.
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
