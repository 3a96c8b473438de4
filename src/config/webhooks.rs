//! `[webhooks.NAME]`: requests of other programs that wake the bot.

use std::collections::BTreeMap;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::config::reading::NamedSection;
use crate::gateway::config::{WEB, Webhook, WebhookAction, WebhookProof};
use crate::gateway::template::Template;
use crate::people::Access;
use crate::types::message::Address;

use super::gateway::{long_secret, person};
use super::reading::{ConfigSource, Section};
use super::secrets::UnresolvedSecret;
use super::values::{At, Text, Within};

/// No job has a higher number.
const JOBS_MOST: u32 = 2_000_000_000;

/// Maximum number of events in one list; more are a mistake.
const EVENTS_MAX: usize = 50;

/// Maximum length of a template, in characters. A longer text belongs into a skill or a file of the workspace.
const TEMPLATE_CHARS_MAX: usize = 4_000;

/// A webhook: another program wakes the bot with `POST /hooks/NAME`. It needs `[gateway]`, one of
/// `token` and `secret`, and one of `prompt`, `message` and `job`. You choose the name.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct WebhookSection {
    /// A secret of at least 16 characters, which the caller sends as `Authorization: Bearer TOKEN` or
    /// in `X-Gitlab-Token`.
    token: Option<At<UnresolvedSecret>>,
    /// A secret of at least 16 characters, with which the caller signs the body: HMAC with SHA-256 in
    /// `X-Hub-Signature-256`, as GitHub, Gitea and Forgejo do.
    secret: Option<At<UnresolvedSecret>>,
    /// The task for the model, at most 4000 characters. {repository.name} stands for a value in a body
    /// of JSON, {header:NAME} for a header. The body comes along, as untrusted content.
    prompt: Option<Text<ShortTemplate>>,
    /// A text that is sent as it is, without a model, with the same places and {body}.
    message: Option<Text<ShortTemplate>>,
    /// The number of a job that is run now. It learns nothing of the request.
    job: Option<Within<1, JOBS_MOST, 1>>,
    /// The person on whose behalf it is: a name in `admins` or `allow` of [gateway]. Default: the
    /// owner.
    person: Option<At<String>>,
    /// The chat that gets the result: CHANNEL:CHAT or CHANNEL:CHAT:THREAD. Default: where the owner
    /// last wrote in private, or the person's page.
    to: Option<At<String>>,
    /// The events of a code host that count, such as ["push"], by `X-GitHub-Event`, `X-Gitea-Event` or
    /// `X-Gitlab-Event`. Others are acknowledged and ignored. Default: all.
    events: Option<At<Vec<String>>>,
    /// The largest body, in kB.
    body_kb: Within<1, 10_000, 256>,
    /// Calls in a minute. More are refused.
    per_minute: Within<1, 600, 10>,
}

/// A template within its bounds.
struct ShortTemplate(Template);

impl FromStr for ShortTemplate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim() {
            "" => Err("is empty".to_owned()),
            text if text.chars().count() > TEMPLATE_CHARS_MAX => {
                Err(format!("is longer than {TEMPLATE_CHARS_MAX} characters"))
            }
            text => text.parse().map(Self),
        }
    }
}

pub(super) fn webhooks(
    source: &ConfigSource<'_>,
    sections: BTreeMap<String, WebhookSection>,
    access: &Access,
    channels: &[&str],
) -> BTreeMap<String, Webhook> {
    let sections = source.named("webhooks", sections).into_iter();
    let read = sections.filter_map(|NamedSection { name, place, read: section }| {
        Some((name, section.webhook(&place, access, channels)?))
    });
    read.collect()
}

impl WebhookSection {
    fn webhook(
        self,
        place: &Section<'_, '_>,
        access: &Access,
        channels: &[&str],
    ) -> Option<Webhook> {
        let source = place.source;
        one_of(place, &["token", "secret"])?;
        one_of(place, &["prompt", "message", "job"])?;
        let person = person(source, self.person.as_ref(), access);
        let to = match &self.to {
            Some(to) => Some(address(source, to, channels)?),
            None => None,
        };
        if let Some(events) = self.events.as_ref().filter(|it| it.value.len() > EVENTS_MAX) {
            source.refuse(events, format!("has more than {EVENTS_MAX} entries"));
        }
        let proof = match (&self.token, &self.secret) {
            (Some(token), _) => WebhookProof::Token(long_secret(source, token)?),
            (None, Some(secret)) => WebhookProof::Signature(long_secret(source, secret)?),
            (None, None) => return None,
        };
        let action = match (self.prompt, self.message, self.job) {
            (Some(prompt), ..) => WebhookAction::Prompt(prompt.0.0),
            (None, Some(message), _) => WebhookAction::Message(message.0.0),
            (None, None, Some(job)) => WebhookAction::Job(job.0.into()),
            (None, None, None) => return None,
        };
        Some(Webhook {
            proof,
            person: person?,
            to,
            action,
            events: self.events.map(|events| events.value).unwrap_or_default(),
            bytes_max: self.body_kb.count() * 1_000,
            per_minute: self.per_minute.0,
        })
    }
}

/// Reports a section that does not have exactly one of these keys.
fn one_of(place: &Section<'_, '_>, keys: &[&str]) -> Option<()> {
    match keys.iter().filter(|key| place.has(key)).count() {
        1 => Some(()),
        _ => {
            place.fault(format!("{} needs exactly one of {}", place.title(), keys.join(", ")));
            None
        }
    }
}

fn address(source: &ConfigSource<'_>, to: &At<String>, channels: &[&str]) -> Option<Address> {
    let Ok(address) = to.value.parse::<Address>() else {
        source.refuse(to, "must be CHANNEL:CHAT or CHANNEL:CHAT:THREAD");
        return None;
    };
    let channel = address.channel.as_str();
    if channel != WEB && !channels.contains(&channel) {
        source.refuse(to, "names a channel that does not exist");
        return None;
    }
    Some(address)
}
