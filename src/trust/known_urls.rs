//! Finds the URL that a model requests in a text that somebody has written. People omit optional parts of a URL,
//! and put punctuation around it. Nothing else may differ that the server could tell apart, because every part that a
//! model can choose could leak data to it.

use reqwest::Url;

use crate::types::session::Call;

/// Characters that end a sentence, an emphasis or a link.
const ENDS: &str = ".,;:!?*_~'\"|)]}>";

/// Maximum number of such characters behind a URL that may not belong to it. Each of them makes another reading, and a
/// model could choose among them.
const ENDS_MAX: usize = 8;

/// Pairs of brackets that may enclose a URL.
const BRACKETS: [(char, char); 4] = [('(', ')'), ('[', ']'), ('{', '}'), ('<', '>')];

/// Returns true if a text contains the whole URL.
pub fn contains_url(text: &str, url: &str) -> bool {
    WantedUrl::read(url).is_some_and(|wanted| wanted.occurs_in(text))
}

/// A URL to look for.
pub(super) struct WantedUrl {
    url: Url,
    /// Its host as written and as sent, without `www.`.
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

    /// Returns the URL that a call requests, without its fragment, which is not sent.
    pub(super) fn of_call(call: &Call) -> Option<Self> {
        let arguments = serde_json::from_str::<serde_json::Value>(&call.arguments).ok()?;
        Self::read(arguments["url"].as_str()?)
    }

    pub(super) fn url(&self) -> &Url {
        &self.url
    }

    pub(super) fn is_same(&self, other: &Self) -> bool {
        is_same_url(&self.url, &other.url)
    }

    /// Returns true if a text contains the URL with its scheme, as in a link.
    pub(super) fn occurs_whole_in(&self, text: &str) -> bool {
        self.stands(text, true)
    }

    pub(super) fn occurs_in(&self, text: &str) -> bool {
        self.stands(text, false)
    }

    fn stands(&self, text: &str, with_scheme: bool) -> bool {
        // The lower case of some letters has another length; such texts are searched as they are.
        let lower = text.to_lowercase();
        let lower = if lower.len() == text.len() { &lower } else { text };
        self.hosts.iter().any(|host| {
            lower
                .match_indices(host.as_str())
                .any(|(at, _)| self.stands_at(text, lower, at, host.len(), with_scheme))
        })
    }

    /// Returns true if the URL occurs where its host begins at `at` and has this length.
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
        let (before, has_www) = match before.strip_suffix("www.") {
            Some(before) => (before, true),
            None => (before, false),
        };
        let (before, userinfo) = userinfo(before, text);
        let schemes = ["https://", "http://"];
        let scheme = schemes.into_iter().find(|scheme| before.ends_with(scheme));
        let before = scheme.map_or(before, |scheme| &before[..before.len() - scheme.len()]);
        let last = before.chars().next_back();
        let is_start = match scheme {
            Some(_) => last.is_none_or(|sign| !sign.is_ascii_alphanumeric()),
            None => {
                userinfo.is_empty()
                    && last.is_none_or(|sign| {
                        !sign.is_alphanumeric() && !"-._/@:%=&?#~+$\\".contains(sign)
                    })
            }
        };
        if !is_start || !self.fits_scheme(scheme) || (with_scheme && scheme.is_none()) {
            return false;
        }
        // A person who omits the scheme may omit this too.
        let www = if has_www || (scheme.is_none() && self.has_www()) { "www." } else { "" };
        let scheme =
            scheme.unwrap_or(if self.url.scheme() == "http" { "http://" } else { "https://" });
        let host = &text[at..at + length];
        candidates(rest, last).any(|rest| {
            let parsed = Url::parse(&format!("{scheme}{userinfo}{www}{host}{rest}"));
            parsed.is_ok_and(|parsed| is_same_request(&parsed, &self.url))
        })
    }

    fn has_www(&self) -> bool {
        self.url.host_str().is_some_and(|host| host.starts_with("www."))
    }

    /// Returns true if the URL may be requested where somebody wrote this scheme. One with https must not be requested
    /// with http. One with http may be requested with https, at the usual port.
    fn fits_scheme(&self, written: Option<&str>) -> bool {
        match written {
            None => true,
            Some("https://") => self.url.scheme() == "https",
            Some(_) => self.url.scheme() == "http" || self.url.port().is_none(),
        }
    }
}

/// Splits the text before a host into the rest and the user information. A URL without a scheme has none.
fn userinfo<'a, 'b>(before: &'a str, text: &'b str) -> (&'a str, &'b str) {
    let Some(at) = before.strip_suffix('@').and_then(|before| before.rfind("//")) else {
        return (before, "");
    };
    let from = at + 2;
    let userinfo_text = text.get(from..before.len()).unwrap_or_default();
    match userinfo_text.contains(|sign: char| sign.is_whitespace() || "/?#".contains(sign)) {
        true => (before, ""),
        false => (&before[..from], userinfo_text),
    }
}

/// Returns the possible rests of a URL after its host: everything up to a space, the same without trailing punctuation,
/// and everything up to the closing bracket.
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
    within.into_iter().chain(trimmed.take(ENDS_MAX + 1))
}

/// Returns true if a server gets the same request for two URLs, except for one slash at the end of the path. Everything
/// else that it could tell apart makes another URL. The fragment is not sent.
pub fn is_same_url(one: &Url, other: &Url) -> bool {
    one.scheme() == other.scheme() && is_same_request(one, other)
}

/// Returns true if two URLs are the same, whatever their scheme.
fn is_same_request(one: &Url, other: &Url) -> bool {
    one.host_str() == other.host_str()
        && one.port() == other.port()
        && (one.username(), one.password()) == (other.username(), other.password())
        && one.query() == other.query()
        && (one.path() == other.path()
            || (one.query().is_none() && (is_with_slash(one, other) || is_with_slash(other, one))))
}

/// Returns true if a path is the other path with a slash. A path that has one at its end gets no second one, or a model
/// could count with them.
fn is_with_slash(one: &Url, other: &Url) -> bool {
    !other.path().ends_with('/') && one.path().strip_suffix('/') == Some(other.path())
}

/// Returns a host without `www.`.
fn bare(host: &str) -> &str {
    host.strip_prefix("www.").unwrap_or(host)
}
