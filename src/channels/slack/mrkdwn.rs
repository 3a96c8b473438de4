//! Converts Slack's markup to the text that people wrote: `&lt;` becomes `<`, and `<@U1>` a name.

use crate::short_text::clean_name;

/// A part of a text as Slack sends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MrkdwnPart<'a> {
    Text(&'a str),
    /// The text between `<` and `>`.
    Link(&'a str),
}

/// Returns the people whose names [`plain`] will need.
pub(super) fn people(text: &str) -> impl Iterator<Item = &str> {
    parts(text).filter_map(|part| match part {
        MrkdwnPart::Link(link) => {
            let (target, label) = split(link);
            target.strip_prefix('@').filter(|_| label.is_none())
        }
        MrkdwnPart::Text(_) => None,
    })
}

/// Returns true if `person` is mentioned.
pub(super) fn mentions(text: &str, person: &str) -> bool {
    parts(text).any(|part| is_mention(part, person))
}

/// Returns true if the text addresses anybody: by a mention at its start, or by calling many people at
/// once.
pub(super) fn addresses(text: &str) -> bool {
    const CALLS: &[&str] = &["!here", "!channel", "!everyone"];
    let calls = |part| match part {
        MrkdwnPart::Link(link) => CALLS.contains(&split(link).0) || link.starts_with("!subteam^"),
        MrkdwnPart::Text(_) => false,
    };
    matches!(parts(text.trim_start()).next(), Some(MrkdwnPart::Link(link)) if link.starts_with('@'))
        || parts(text).any(calls)
}

/// Returns the text without mentions of `person` at either end that only address them. A text that is
/// nothing else stays.
pub(super) fn without_address<'a>(text: &'a str, person: &str) -> &'a str {
    let mut rest = text.trim();
    while let Some((link, after)) = rest.strip_prefix('<').and_then(|rest| rest.split_once('>')) {
        if !is_mention(MrkdwnPart::Link(link), person) {
            break;
        }
        rest = after.trim_start_matches([',', ':', ' ', '\n', '\u{a0}']);
    }
    while let Some((before, link)) = rest.strip_suffix('>').and_then(|rest| rest.rsplit_once('<')) {
        if !is_mention(MrkdwnPart::Link(link), person) {
            break;
        }
        rest = before.trim_end_matches([',', ' ', '\n', '\u{a0}']);
    }
    if rest.is_empty() { text.trim() } else { rest }
}

/// Returns the text as its author saw it. `name_of` returns a person's name for an id.
pub(super) fn plain(text: &str, name_of: &dyn Fn(&str) -> String) -> String {
    parts(text)
        .map(|part| match part {
            MrkdwnPart::Text(text) => unescaped(text),
            MrkdwnPart::Link(link) => shown(link, name_of),
        })
        .collect()
}

fn is_mention(part: MrkdwnPart<'_>, person: &str) -> bool {
    match part {
        MrkdwnPart::Link(link) => split(link).0.strip_prefix('@') == Some(person),
        MrkdwnPart::Text(_) => false,
    }
}

fn parts(text: &str) -> impl Iterator<Item = MrkdwnPart<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (part, after) = match (rest.is_empty(), rest.strip_prefix('<')) {
            (true, _) => return None,
            (_, Some(link)) => match link.split_once('>') {
                Some((link, after)) => (MrkdwnPart::Link(link), after),
                // Slack escapes every other `<`. An unexpected one stays as it is.
                None => (MrkdwnPart::Text(rest), ""),
            },
            (_, None) => {
                let (text, after) = rest.split_at(rest.find('<').unwrap_or(rest.len()));
                (MrkdwnPart::Text(text), after)
            }
        };
        rest = after;
        Some(part)
    })
}

/// Splits a link into its target and its label.
fn split(link: &str) -> (&str, Option<&str>) {
    match link.split_once('|') {
        Some((target, label)) => (target, Some(label).filter(|label| !label.is_empty())),
        None => (link, None),
    }
}

fn shown(link: &str, name_of: &dyn Fn(&str) -> String) -> String {
    let (target, label) = split(link);
    let label = label.map(unescaped);
    // Others have chosen the name, which stands among the author's words. Without one, the id is shown.
    let with_sign = |sign: char, name: &str| {
        let name = clean_name(name.strip_prefix(sign).unwrap_or(name));
        format!("{sign}{}", name.as_deref().unwrap_or(&target[1..]))
    };
    match target.chars().next() {
        Some('@') => with_sign('@', &label.unwrap_or_else(|| name_of(&target[1..]))),
        Some('#') => with_sign('#', label.as_deref().unwrap_or(&target[1..])),
        // `!here`, `!channel`, `!subteam^S1|@crew`, `!date^…|when`.
        Some('!') => match target.strip_prefix("!subteam^") {
            Some(id) => with_sign('@', label.as_deref().unwrap_or(id)),
            None => label.unwrap_or_else(|| format!("@{}", &target[1..])),
        },
        _ => {
            let target = unescaped(target);
            let bare = target.strip_prefix("mailto:").or(target.strip_prefix("tel:"));
            match label {
                // Slack itself labels text that looks like a link: `example.com`, an address.
                Some(label) if Some(label.as_str()) == bare => label,
                Some(label) if target.ends_with(label.as_str()) => target,
                Some(label) => format!("{label} ({target})"),
                None => bare.map_or(target.clone(), str::to_owned),
            }
        }
    }
}

/// Unescapes the three characters that Slack escapes.
fn unescaped(text: &str) -> String {
    text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
}
