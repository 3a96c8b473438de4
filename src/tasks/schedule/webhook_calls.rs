//! Calls of webhooks. Each creates a job that is due at once, or runs an existing job now, so that it is stored, bounded,
//! unattended and reported like every job.

use chrono::{DateTime, Utc};
use chrono_tz::Tz;
use rusqlite::{Connection, params};

use crate::store::{Time, slice};
use crate::tasks::schedule::job::{self, JobId, JobScope, Missed};
use crate::tasks::schedule::needs::CommandNeeds;
use crate::tasks::schedule::operation::{self, JobOperation};
use crate::tasks::schedule::payload::{JobConversation, Payload, WebhookBody};
use crate::tasks::schedule::preapproved_calls::PreapprovedCalls;
use crate::tasks::schedule::request::JobRequester;
use crate::tasks::schedule::timing::Timing;
use crate::types::message::{Address, ChannelName, ChatKind, Sender};

/// Maximum number of calls of a webhook whose jobs have not ended. Further calls are refused.
const WAITING_MAX: i64 = 10;

/// An authorized call of a webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookCall {
    pub hook: String,
    /// The key of the call, which a repeated call shares.
    pub key: String,
    /// The person on whose behalf it works, and the channel on which they are known.
    pub sender: Sender,
    pub known_on: ChannelName,
    /// The address for its result.
    pub to: Address,
    /// The kind of chat for which it works.
    pub chat_kind: ChatKind,
    pub action: WebhookCallAction,
}

/// The action of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WebhookCallAction {
    /// A model works on it.
    Prompt { text: String, body: Option<String> },
    /// A text is sent.
    Message(String),
    /// A job is run now, without any content of the call.
    Run { job: JobId, whose: JobScope },
}

/// The outcome of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WebhookCallOutcome {
    Accepted,
    /// A call with its key was accepted before.
    Repeated,
    /// Too many calls of this webhook wait.
    Full,
    /// The job cannot be run, for this reason.
    Refused(String),
}

/// Accepts a call, in the transaction around it.
pub fn accept_webhook_call(
    store: &Connection,
    call: WebhookCall,
    now: DateTime<Utc>,
    zone: Tz,
) -> rusqlite::Result<WebhookCallOutcome> {
    let WebhookCall { hook, key, sender, known_on, to, chat_kind, action } = call;
    let is_known = store
        .prepare_cached("SELECT 1 FROM webhook_calls WHERE hook = ? AND key = ?")?
        .exists([&hook, &key])?;
    if is_known {
        return Ok(WebhookCallOutcome::Repeated);
    }
    let payload = match action {
        WebhookCallAction::Message(text) => Payload::Message(text),
        WebhookCallAction::Prompt { text, body } => {
            let webhook = body.map(|body| WebhookBody { hook: hook.clone(), body });
            let (session, unasked) = (JobConversation::Own, PreapprovedCalls::default());
            Payload::Prompt { text, session, check: None, webhook, unasked }
        }
        WebhookCallAction::Run { job, whose } => {
            return Ok(
                match operation::handle(store, &whose, JobOperation::Run(job), now, zone)? {
                    Err(reason) => WebhookCallOutcome::Refused(reason),
                    Ok(_) => {
                        record_call(store, &hook, &key, now, None)?;
                        WebhookCallOutcome::Accepted
                    }
                },
            );
        }
    };
    if count_waiting(store, &hook)? >= WAITING_MAX {
        return Ok(WebhookCallOutcome::Full);
    }
    // Tainted, because its text may contain values of the call.
    let requester = JobRequester { to, known_on, chat_kind, sender, tainted: true };
    let needs = CommandNeeds::default();
    let definition = requester.define(Timing::At(now), payload, needs, Missed::Once);
    let job = job::insert(store, &definition, now, now)?;
    record_call(store, &hook, &key, now, Some(job))?;
    Ok(WebhookCallOutcome::Accepted)
}

fn record_call(
    store: &Connection,
    hook: &str,
    key: &str,
    now: DateTime<Utc>,
    job: Option<JobId>,
) -> rusqlite::Result<()> {
    store
        .prepare_cached("INSERT INTO webhook_calls (hook, key, at, job) VALUES (?, ?, ?, ?)")?
        .execute(params![hook, key, Time(now), job])
        .map(drop)
}

fn count_waiting(store: &Connection, hook: &str) -> rusqlite::Result<i64> {
    store
        .prepare_cached(
            "SELECT count(*) FROM webhook_calls c JOIN jobs j ON j.id = c.job
             WHERE c.hook = ? AND j.state = 'active'",
        )?
        .query_row([hook], |row| row.get(0))
}

/// Deletes a slice of the calls before a time. Returns their number.
pub fn prune_webhook_calls(store: &Connection, before: DateTime<Utc>) -> rusqlite::Result<usize> {
    store
        .prepare_cached(
            "DELETE FROM webhook_calls WHERE (hook, key) IN
             (SELECT hook, key FROM webhook_calls WHERE at < ? ORDER BY at LIMIT ?)",
        )?
        .execute(params![Time(before), slice()])
}
