//! The lists of the page, and their actions: jobs, pending decisions, usage, and the channels. The code of the
//! chat command carries out each, with the rights of the person who asks.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use chrono::Utc;
use chrono_tz::Tz;
use rusqlite::Connection;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::access::WebPerson;
use super::chat::Message;
use super::guard::{Fields, PathParts};
use super::refusal::HttpRefusal;
use super::state::HttpGateway;
use crate::agent::{ApprovalJudge, ApprovalVerdict, VerdictRefusal};
use crate::channels::markup::unescaped;
use crate::control::channel_statuses;
use crate::conversation::asks::{AskId, AskedCall};
use crate::conversation::ledger::breakdown::{self, UsageBy};
use crate::people::People;
use crate::people::Role;
use crate::people::persons::{self, PersonAccount};
use crate::replies;
use crate::store::Sync;
use crate::tasks::schedule::{self, JobId, JobRequest, JobRequester, JobScope};
use crate::turn::commits::handle_order;
use crate::types::commands::CommandId;
use crate::types::job_verb::JobVerb;
use crate::types::message::{Address, ChatKind};

/// The longer of the two periods of `/usage`.
const USAGE_TIME: chrono::Duration = chrono::Duration::days(30);

/// Maximum number of actions of a person in a minute.
const ACTIONS_PER_MINUTE: u32 = 60;

/// The session that gets messages which an action of the page sends.
const SESSION: &str = "main";

/// The answer to an action.
#[derive(Serialize)]
pub(super) struct ActionAnswer {
    said: String,
}

impl HttpGateway {
    /// Counts an action. Returns an error if there were too many in the last minute.
    pub(super) fn check_actions(&self, person: &WebPerson) -> Result<(), HttpRefusal> {
        match self.limits.allows(&format!("actions {}", person.id), ACTIONS_PER_MINUTE) {
            true => Ok(()),
            false => Err(HttpRefusal::too_many()),
        }
    }

    /// Returns the outcome of an action as a response for a person to read.
    pub(super) fn action_response(
        &self,
        done: Result<String, String>,
    ) -> Result<Json<ActionAnswer>, HttpRefusal> {
        // The page shows it as plain text, not as markup.
        let to_plain = |text: String| unescaped(&self.services().redactor.redact(&text));
        match done {
            Ok(text) => Ok(Json(ActionAnswer { said: to_plain(text) })),
            Err(text) => Err(HttpRefusal::new(StatusCode::CONFLICT, to_plain(text))),
        }
    }

    /// Returns the account with which a person signs in.
    pub(super) fn account(&self, person: &WebPerson) -> PersonAccount {
        PersonAccount { channel: self.web.name().clone(), sender: person.id.clone() }
    }

    /// Returns the person of a request as the owner of jobs.
    fn job_owner(&self, person: &WebPerson) -> JobOwner {
        let people = self.services().bus.people.clone();
        JobOwner { people, role: person.role, account: self.account(person) }
    }

    fn judge(&self, person: &WebPerson) -> ApprovalJudge {
        ApprovalJudge {
            role: person.role,
            people: self.services().bus.people.clone(),
            account: self.account(person),
            name: person.sender().name,
            at: self.web.address(&person.id, SESSION),
            chat_kind: ChatKind::Private,
        }
    }

    /// Returns a list as a response, without secrets.
    pub(super) fn listed(&self, list: &Value) -> Response {
        let text = self.services().redactor.redact(&list.to_string()).into_owned();
        ([(header::CONTENT_TYPE, "application/json")], text).into_response()
    }
}

/// A person whose jobs are listed or changed.
struct JobOwner {
    people: People,
    role: Role,
    account: PersonAccount,
}

impl JobOwner {
    /// Returns the jobs that the person may see and change: all for the owner, else those of each of their
    /// accounts.
    fn scopes(self, store: &Connection) -> rusqlite::Result<Vec<JobScope>> {
        if self.role == Role::Owner {
            return Ok(vec![JobScope::of_owner(store, &self.people, &self.account)?]);
        }
        let PersonAccount { channel, sender } = &self.account;
        let mut accounts = persons::accounts_of_same(store, channel, sender)?;
        if accounts.is_empty() {
            accounts.push(self.account);
        }
        Ok(accounts.into_iter().map(|it| JobScope::Of(it.channel, it.sender)).collect())
    }

    fn list(self, store: &Connection, zone: Tz) -> rusqlite::Result<Vec<Value>> {
        let mut jobs = Vec::new();
        for scope in self.scopes(store)? {
            jobs.extend(schedule::listing(store, &scope, zone)?);
        }
        jobs.sort_by_key(|job| job["id"].as_i64());
        Ok(jobs)
    }

    /// Returns the scope that contains a job, or else the first one.
    fn scope_of(self, store: &Connection, id: JobId) -> rusqlite::Result<JobScope> {
        let PersonAccount { channel, sender } = self.account.clone();
        let mut found = None;
        for scope in self.scopes(store)? {
            if found.is_none() || schedule::get(store, id, &scope)?.is_some() {
                found = Some(scope);
            }
        }
        Ok(found.unwrap_or(JobScope::Of(channel, sender)))
    }
}

/// `GET /jobs`
pub(super) async fn jobs(
    State(gateway): State<Arc<HttpGateway>>,
    person: WebPerson,
) -> Result<Response, HttpRefusal> {
    person.check_allowed(CommandId::Jobs)?;
    let (owner, zone) = (gateway.job_owner(&person), gateway.services().zone);
    let list = move |store: &Connection| owner.list(store, zone);
    let jobs = gateway.services().bus.store.read(list).await?;
    Ok(gateway.listed(&json!({ "jobs": jobs })))
}

/// An action on a job.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct JobAction {
    action: JobVerb,
}

/// `POST /jobs/ID`
pub(super) async fn change_job(
    State(gateway): State<Arc<HttpGateway>>,
    person: WebPerson,
    PathParts(id): PathParts<i64>,
    Fields(JobAction { action }): Fields<JobAction>,
) -> Result<Json<ActionAnswer>, HttpRefusal> {
    person.check_allowed(CommandId::Jobs)?;
    gateway.check_actions(&person)?;
    if !matches!(action, JobVerb::Run | JobVerb::Pause | JobVerb::Resume | JobVerb::Remove) {
        return Err(HttpRefusal::bad("`action` is run, pause, resume or remove"));
    }
    let services = gateway.services();
    let (owner, now, zone) = (gateway.job_owner(&person), Utc::now(), services.zone);
    let requester = JobRequester {
        to: gateway.web.address(&person.id, SESSION),
        known_on: gateway.web.name().clone(),
        chat_kind: ChatKind::Private,
        sender: person.sender(),
        tainted: false,
    };
    let request = JobRequest { id: Some(id), ..JobRequest::new(action) };
    let order = request.read(requester, now, zone).map_err(HttpRefusal::bad)?;
    let change = move |store: &Connection| {
        let scope = owner.scope_of(store, JobId(id))?;
        handle_order(store, &scope, order, now, zone)
    };
    let done = services.bus.store.write("job", Sync::Now, change).await?;
    services.bus.jobs.notify();
    services.bus.inbox.notify();
    services.bus.outbox.notify();
    gateway.action_response(done)
}

/// Returns a waiting call as JSON, with all that its question shows.
fn waiting_call(call: &AskedCall) -> Value {
    let made_for = call.made_for.as_ref();
    let shown = call.shown.as_ref();
    let change = shown.and_then(|shown| shown.change.as_deref());
    json!({
        "id": call.ask.id.0, "tool": call.tool, "offers_always": call.offers_always,
        "arguments": replies::call_arguments(&call.arguments),
        "for": made_for.map(|(channel, sender, _)| format!("{sender} on {channel}")),
        "why": shown.map(|shown| replies::call_arguments(&shown.why)),
        "change": change.map(replies::call_change),
        "files": call.files.as_ref().and_then(replies::shown_files),
        "tells": shown.and_then(|shown| shown.tells.as_deref()).map(replies::call_arguments),
    })
}

/// `GET /waiting`: the calls that the person may decide about, and their questions and proposals on all platforms.
pub(super) async fn waiting(
    State(gateway): State<Arc<HttpGateway>>,
    person: WebPerson,
) -> Result<Response, HttpRefusal> {
    let may_approve = person.check_allowed(CommandId::Approve).is_ok();
    let (judge, asked) = (gateway.judge(&person), gateway.asked(&person));
    let read = move |store: &Connection| {
        let calls = if may_approve { judge.waiting(store)? } else { Vec::new() };
        Ok((calls, asked.questions(store)?, asked.proposals(store)?))
    };
    let (calls, asked, proposed) = gateway.services().bus.store.read(read).await?;
    let approvals: Vec<_> = calls.iter().map(waiting_call).collect();
    let redactor = &gateway.services().redactor;
    let prefix = format!("{}/", person.id);
    let question_json = |at: &Address, post, ask: Option<i64>, proposal: Option<i64>| {
        let on_page = (at.channel == *gateway.web.name()).then(|| at.chat.as_str());
        let session = on_page.and_then(|chat| chat.strip_prefix(&prefix));
        let (channel, message) = (at.channel.as_str(), Message::of(post, redactor));
        json!({
            "id": ask, "proposal": proposal, "channel": channel, "session": session,
            "message": message,
        })
    };
    let asked =
        asked.into_iter().map(|(ask, post)| question_json(&ask.at, post, Some(ask.id.0), None));
    let proposed = proposed.into_iter().map(|it| question_json(&it.at, it.post, None, Some(it.id)));
    let questions: Vec<_> = asked.chain(proposed).collect();
    Ok(gateway.listed(&json!({ "approvals": approvals, "questions": questions })))
}

/// A decision about a waiting call.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ApprovalAction {
    action: ApprovalChoice,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ApprovalChoice {
    Approve,
    /// Approves later calls of the tool, too.
    Always,
    Deny,
}

/// `POST /approvals/ID`
pub(super) async fn decide(
    State(gateway): State<Arc<HttpGateway>>,
    person: WebPerson,
    PathParts(id): PathParts<i64>,
    Fields(ApprovalAction { action }): Fields<ApprovalAction>,
) -> Result<Json<ActionAnswer>, HttpRefusal> {
    person.check_allowed(CommandId::Approve)?;
    gateway.check_actions(&person)?;
    let (judge, ask) = (gateway.judge(&person), AskId(id));
    let verdict = match action {
        ApprovalChoice::Approve => ApprovalVerdict::Approve { ask, always: false },
        ApprovalChoice::Always => ApprovalVerdict::Approve { ask, always: true },
        ApprovalChoice::Deny => ApprovalVerdict::Deny(ask),
    };
    let bus = &gateway.services().bus;
    let decide = move |store: &Connection| judge.decide(store, verdict);
    let done = bus.store.write("approval", Sync::Now, decide).await?;
    bus.inbox.notify();
    bus.outbox.notify();
    match done {
        Err(VerdictRefusal::NotTheirs(explanation)) => {
            Err(HttpRefusal::new(StatusCode::FORBIDDEN, explanation))
        }
        done => gateway.action_response(done.map_err(VerdictRefusal::words)),
    }
}

/// `GET /usage`
pub(super) async fn usage(
    State(gateway): State<Arc<HttpGateway>>,
    person: WebPerson,
) -> Result<Json<Value>, HttpRefusal> {
    person.check_allowed(CommandId::Usage)?;
    let (now, zone) = (Utc::now(), gateway.services().zone);
    let read_usage = move |store: &Connection| {
        let since = |since| breakdown::usage_by(store, UsageBy::Provider, since, zone);
        Ok((since(schedule::midnight(now, zone))?, since(now - USAGE_TIME)?))
    };
    let (today, days_30) = gateway.services().bus.store.read(read_usage).await?;
    Ok(Json(json!({ "today": today, "days_30": days_30 })))
}

/// `GET /channels`: their state, for those who can see the usage.
pub(super) async fn channels(
    State(gateway): State<Arc<HttpGateway>>,
    person: WebPerson,
) -> Result<Response, HttpRefusal> {
    person.check_allowed(CommandId::Usage)?;
    let channels = channel_statuses(&gateway.control).await?;
    Ok(gateway.listed(&json!({ "channels": channels })))
}
