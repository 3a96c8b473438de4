//! The explanations of `/why` for scripts, as JSON. Not here: the words for people.

use serde_json::{Value, json};

use super::{Asker, FoundReasons, FoundSubject, WhySubject, find};
use crate::channels::markup::unescaped;
use crate::people;
use crate::replies;
use crate::services::Services;
use crate::store::StoreError;
use crate::types::message::{Address, ChannelName, ChatKind, Sender};
use crate::types::source::Source;

/// The conversation of the command line whose last answer is explained if nothing is named.
const MAIN: &str = "main";

/// Explains an action, a file or a fact to the person at the terminals of this machine. The error is a sentence for them.
pub async fn why_listing(
    services: &Services,
    terminal: &ChannelName,
    what: &str,
) -> Result<Result<Value, String>, StoreError> {
    let Some(asked) = WhySubject::parse(what) else {
        return Ok(Err(replies::WHY_USAGE.to_owned()));
    };
    let at = Address { channel: terminal.clone(), chat: MAIN.into(), thread: None };
    let who = Sender::person(people::LOCAL, people::LOCAL);
    let asker = Asker::read(services, at, who, ChatKind::Private).await?;
    let listed = find(services, &asker, &asked).await?.map(|found| match found {
        FoundSubject::Reasons(found) => reasons_json(&asker, &found),
        FoundSubject::Fact(found) => json!({
            "kind": "fact",
            "fact": found.fact.listing(services.zone),
            "sources": sources_json(&asker, &found.fact.sources, true),
            "former": found.former.iter().map(|it| it.listing(services.zone)).collect::<Vec<_>>(),
        }),
    });
    Ok(listed)
}

/// Returns the same as the words for a person say. The sources are null if they are not for the person who asks.
fn reasons_json(asker: &Asker, found: &FoundReasons) -> Value {
    let FoundReasons { reasons, is_own, undo, .. } = found;
    let own_name = reasons.person.as_ref().filter(|_| *is_own).map(|person| person.name.as_str());
    let sources = found.may_see().then(|| {
        json!({
            "of_turn": sources_json(asker, &reasons.of_turn, *is_own),
            "earlier": sources_json(asker, &reasons.earlier, *is_own),
        })
    });
    let action = reasons.action.clone().map(|action| match found.may_see() {
        true => action,
        false => action.without_texts(),
    });
    json!({
        "kind": if action.is_some() { "action" } else { "answer" },
        "action": action,
        "begun": reasons.begun,
        "is_own": is_own,
        "person": own_name.or_else(|| found.person()),
        "task": reasons.origin.task(),
        "sources": sources,
        "undo": undo,
    })
}

/// Lists sources as the person who asks may see them, without the program's own lines, which explain nothing.
fn sources_json(asker: &Asker, sources: &[Source], is_own: bool) -> Vec<Value> {
    let shown = sources.iter().filter_map(|source| {
        let words = asker.line(source, is_own)?;
        Some(json!({
            "kind": source.kind(),
            "name": source.name(),
            "is_own": asker.wrote(source, is_own),
            "is_untrusted": asker.distrusts(source),
            "words": unescaped(&words),
        }))
    });
    shown.collect()
}
