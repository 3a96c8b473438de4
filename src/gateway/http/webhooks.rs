//! `POST /hooks/NAME`: another program wakes the bot. A call with a valid proof becomes a job that is due at
//! once. Its body is untrusted content even if it is signed, because a code host signs what strangers write.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use chrono::Utc;
use hmac::{Hmac, Mac as _};
use rusqlite::Connection;
use serde_json::Value;
use sha2::Sha256;

use super::access::{bearer, is_same, shown_name};
use super::guard::{PathParts, read_body};
use super::refusal::HttpRefusal;
use super::state::HttpGateway;
use crate::channels::web::logins::{sha256_hex, unique};
use crate::gateway::config::{Webhook, WebhookAction, WebhookProof};
use crate::gateway::template::{Template, TemplatePart};
use crate::people::persons::PersonAccount;
use crate::people::{self, LOCAL, People, Role};
use crate::replies;
use crate::short_text::shortened;
use crate::store::Sync;
use crate::tasks::schedule::{
    JobId, JobScope, WebhookCall, WebhookCallAction, WebhookCallOutcome, accept_webhook_call,
    chat_kind_for, has_lost_reader, is_paused_without_reader,
};
use crate::types::message::{Address, ChatKind, Sender};

/// Maximum length of the body that a model gets, in characters.
const BODY_CHARS_MAX: usize = 20_000;

/// Maximum length of the body in a text that is sent, in characters.
const SENT_CHARS_MAX: usize = 3_000;

/// Maximum length of one value in a text, in characters.
const VALUE_CHARS_MAX: usize = 200;

/// Maximum number of calls without a valid proof in a minute, of all callers together. Others are not counted.
const WRONG_PER_MINUTE: u32 = 60;

/// The session of a person's page that gets results.
const SESSION: &str = "main";

/// Headers in which code hosts name the event.
const EVENT_HEADERS: [&str; 3] = ["x-github-event", "x-gitea-event", "x-gitlab-event"];

/// The event with which GitHub tests a new webhook.
const PING: &str = "ping";

/// Characters that have a meaning in Markdown.
const MARKUP: &str = "\\`*_[]()<>#|~!&:";

/// `POST /hooks/NAME`
pub(super) async fn call(
    State(gateway): State<Arc<HttpGateway>>,
    PathParts(name): PathParts<String>,
    request: Request,
) -> Result<StatusCode, HttpRefusal> {
    let Some(hook) = gateway.config.webhooks.get(&name) else {
        return Err(HttpRefusal::not_found("there is no webhook of this name"));
    };
    let outcome = accept(&gateway, &name, hook, request).await;
    let refused = outcome.as_ref().err().map(HttpRefusal::status);
    match (gateway.refused_calls.is_news(&name, refused), &outcome) {
        (true, Err(refusal)) => {
            tracing::warn!(hook = name, reason = refusal.words(), "Refused a call of a webhook");
        }
        (true, Ok(_)) => tracing::info!(hook = name, "A call of a webhook is accepted again"),
        (false, _) => {}
    }
    outcome
}

async fn accept(
    gateway: &HttpGateway,
    name: &str,
    hook: &Webhook,
    request: Request,
) -> Result<StatusCode, HttpRefusal> {
    let (head, body) = request.into_parts();
    let headers = head.headers;
    if let WebhookProof::Token(token) = &hook.proof {
        let given = bearer(&headers).or_else(|| text_header(&headers, "x-gitlab-token"));
        check_proof(gateway, given.is_some_and(|given| is_same(token, given)), "token")?;
    }
    let body = read_body(body, hook.bytes_max, gateway.config.times.body).await?;
    if let WebhookProof::Signature(secret) = &hook.proof {
        let is_signed = is_signed(secret.reveal().as_bytes(), &headers, &body);
        check_proof(gateway, is_signed, "signature in X-Hub-Signature-256")?;
    }
    if !gateway.limits.allows(&format!("webhook {name}"), hook.per_minute) {
        return Err(HttpRefusal::too_many());
    }
    if !is_wanted(hook, &headers) {
        return Ok(StatusCode::NO_CONTENT);
    }
    let body = String::from_utf8_lossy(&body);
    let key = match &hook.proof {
        // No signature covers the header: a call could be replayed with another key in it.
        WebhookProof::Signature(_) => sha256_hex(&body),
        WebhookProof::Token(_) => match text_header(&headers, "idempotency-key") {
            Some(key) => sha256_hex(key),
            None => unique(),
        },
    };
    let call =
        HookContent { headers: &headers, json: serde_json::from_str(&body).ok(), body: &body };
    publish(gateway, name, hook, key, &call).await
}

fn check_proof(gateway: &HttpGateway, is_right: bool, what: &str) -> Result<(), HttpRefusal> {
    match is_right {
        true => Ok(()),
        false if !gateway.limits.allows("wrong webhook", WRONG_PER_MINUTE) => {
            Err(HttpRefusal::too_many())
        }
        false => {
            Err(HttpRefusal::new(StatusCode::UNAUTHORIZED, format!("there is no right {what}")))
        }
    }
}

/// Returns true if the body has a valid signature. Compares in constant time.
fn is_signed(secret: &[u8], headers: &HeaderMap, body: &[u8]) -> bool {
    let given = text_header(headers, "x-hub-signature-256");
    let given = given.and_then(|given| given.strip_prefix("sha256=")).and_then(bytes_of_hex);
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret) else { return false };
    mac.update(body);
    given.is_some_and(|given| mac.verify_slice(&given).is_ok())
}

fn bytes_of_hex(text: &str) -> Option<Vec<u8>> {
    if !text.is_ascii() || !text.len().is_multiple_of(2) {
        return None;
    }
    let digits = (0..text.len()).step_by(2);
    digits.map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok()).collect()
}

fn text_header<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}

/// Returns true if the hook handles the event of a call. A call without an event is always handled.
fn is_wanted(hook: &Webhook, headers: &HeaderMap) -> bool {
    let event = EVENT_HEADERS.iter().find_map(|name| text_header(headers, name));
    event.is_none_or(|event| match hook.events.is_empty() {
        true => event != PING,
        false => hook.events.iter().any(|known| known == event),
    })
}

async fn publish(
    gateway: &HttpGateway,
    name: &str,
    hook: &Webhook,
    key: String,
    content: &HookContent<'_>,
) -> Result<StatusCode, HttpRefusal> {
    let services = gateway.services();
    let (bus, zone, channel) = (&services.bus, services.zone, gateway.web.name().clone());
    let sender = Sender::person(hook.person.clone(), shown_name(&hook.person));
    let action = content.action(hook, gateway);
    let page = gateway.web.address(&hook.person, SESSION);
    let (hook_name, to, people) = (name.to_owned(), hook.to.clone(), bus.people.clone());
    let take_webhook_call = move |store: &Connection| {
        let role = people.role_of(store, &channel, &sender.id)?;
        if role.is_none_or(|role| role < Role::User) {
            return Ok(None);
        }
        if let Some(at) = &to
            && has_lost_reader(store, &people, at)?
            && is_paused_without_reader(store, at)?
        {
            let why = replies::READER_WITHOUT_ACCESS.to_owned();
            return Ok(Some(WebhookCallOutcome::Refused(why)));
        }
        let person = PersonAccount { channel: channel.clone(), sender: sender.id.clone() };
        let (to, chat_kind) = match to {
            // The owner's address is a private chat, and so is the person's page.
            None => (address(store, &sender, page)?, ChatKind::Private),
            Some(to) => {
                let chat_kind = chat_kind_at(store, &people, &person, &to)?;
                (to, chat_kind)
            }
        };
        let (hook, known_on) = (hook_name, channel);
        let call = WebhookCall { hook, key, sender, known_on, to, chat_kind, action };
        accept_webhook_call(store, call, Utc::now(), zone).map(Some)
    };
    let refused = |status, explanation: String| Err(HttpRefusal::new(status, explanation));
    match bus.store.write("webhook", Sync::Now, take_webhook_call).await? {
        None => refused(StatusCode::FORBIDDEN, "its person no longer has access".to_owned()),
        Some(WebhookCallOutcome::Accepted) => {
            bus.jobs.notify();
            Ok(StatusCode::ACCEPTED)
        }
        Some(WebhookCallOutcome::Repeated) => Ok(StatusCode::OK),
        Some(WebhookCallOutcome::Full) => refused(
            StatusCode::TOO_MANY_REQUESTS,
            "too many calls of this webhook wait; try again in a minute".to_owned(),
        ),
        Some(WebhookCallOutcome::Refused(explanation)) => {
            refused(StatusCode::CONFLICT, explanation)
        }
    }
}

/// Returns the kind of chat for which a call of a person works, if its result goes to this address. A page belongs to the
/// person whom its address names.
fn chat_kind_at(
    store: &Connection,
    people: &People,
    person: &PersonAccount,
    to: &Address,
) -> rusqlite::Result<ChatKind> {
    if to.channel != person.channel {
        return chat_kind_for(store, people, person, to);
    }
    let Some((reader, _)) = to.chat.as_str().split_once('/') else { return Ok(ChatKind::Group) };
    let reader = PersonAccount { channel: to.channel.clone(), sender: reader.into() };
    let is_own = people.are_same(store, person, &reader)?;
    Ok(if is_own { ChatKind::Private } else { ChatKind::Group })
}

/// Returns the address of the result, if the config does not name one.
fn address(store: &Connection, person: &Sender, page: Address) -> rusqlite::Result<Address> {
    match person.id.as_str() {
        LOCAL => Ok(people::owner_address(store)?.unwrap_or(page)),
        _ => Ok(page),
    }
}

/// The content of a call.
struct HookContent<'a> {
    headers: &'a HeaderMap,
    body: &'a str,
    json: Option<Value>,
}

impl HookContent<'_> {
    fn action(&self, hook: &Webhook, gateway: &HttpGateway) -> WebhookCallAction {
        let redactor = &gateway.services().redactor;
        match &hook.action {
            WebhookAction::Prompt(template) => {
                let body = redactor.redact(self.body);
                let body = shortened(body.trim(), BODY_CHARS_MAX);
                let body = Some(body).filter(|body| !body.is_empty());
                WebhookCallAction::Prompt { text: self.prompt(template), body }
            }
            WebhookAction::Message(template) => WebhookCallAction::Message(self.message(template)),
            WebhookAction::Job(job) => {
                let whose = match hook.person.as_str() {
                    LOCAL => JobScope::All,
                    _ => JobScope::Of(gateway.web.name().clone(), hook.person.clone()),
                };
                WebhookCallAction::Run { job: JobId(*job), whose }
            }
        }
    }

    /// Returns the task for a model. Its values are short and on one line. The body is passed separately.
    fn prompt(&self, template: &Template) -> String {
        template.render(|placeholder| match placeholder {
            TemplatePart::Body => "(below)".to_owned(),
            placeholder => self.value(placeholder).replace(['[', ']'], " "),
        })
    }

    /// Returns a text for people. Nothing in its values becomes markup.
    fn message(&self, template: &Template) -> String {
        template.render(|placeholder| match placeholder {
            TemplatePart::Body => literal(&shortened(self.body.trim(), SENT_CHARS_MAX)),
            placeholder => literal(&self.value(placeholder)),
        })
    }

    /// Returns a value on one line. Empty if the call does not have it.
    fn value(&self, placeholder: &TemplatePart) -> String {
        let value = match placeholder {
            TemplatePart::Text(_) | TemplatePart::Body => String::new(),
            TemplatePart::Header(name) => {
                text_header(self.headers, name).unwrap_or_default().to_owned()
            }
            TemplatePart::Value(path) => {
                let get = |value: &'_ Value, key: &String| match value {
                    Value::Array(values) => values.get(key.parse::<usize>().ok()?).cloned(),
                    value => value.get(key).cloned(),
                };
                let whole = self.json.clone();
                match path.iter().try_fold(whole.unwrap_or_default(), |at, key| get(&at, key)) {
                    Some(Value::String(text)) => text,
                    None | Some(Value::Null) => String::new(),
                    Some(other) => other.to_string(),
                }
            }
        };
        let words: Vec<_> = value.split(|c: char| c.is_whitespace() || c.is_control()).collect();
        shortened(&words.join(" "), VALUE_CHARS_MAX)
    }
}

/// Returns a text without markup: each character that could begin some is escaped.
fn literal(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if MARKUP.contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}
