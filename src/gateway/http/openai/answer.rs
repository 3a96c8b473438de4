//! The answer to a message while it is written: drafts of the turn, and the stored messages of the session
//! after it, until the message has its outcome or somebody is asked.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use rusqlite::Connection;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

use super::super::access::WebPerson;
use super::super::limits::HeldConnection;
use super::super::refusal::HttpRefusal;
use super::super::state::HttpGateway;
use super::super::stream_access::StreamAccess;
use crate::bus::feed::{self, Cursor, Post, PostContent};
use crate::bus::journal::{self, InboundOutcome, MessageProgress};
use crate::channels::web::PageNotice;
use crate::conversation::{asks, ledger};
use crate::provider::Usage;
use crate::replies;
use crate::turn::end::NO_REPLY;
use crate::types::message::{Address, Body, DedupKey};

/// Maximum number of messages that are read at a time.
const READ_MAX: usize = 50;

/// Interval after which the store is read again without a notice, because a notice may be lost.
const READ_EVERY: Duration = Duration::from_secs(5);

/// The next part of an answer.
pub(super) enum AnswerProgress {
    /// Text of a message that is being written.
    Draft(String),
    /// A message, or the rest of one.
    Text(String),
    /// The answer is complete.
    Done(Usage),
}

/// An answer that a client waits for.
pub(super) struct PendingAnswer {
    gateway: Arc<HttpGateway>,
    access: StreamAccess,
    pub(super) address: Address,
    key: DedupKey,
    cursor: Cursor,
    notices: mpsc::Receiver<PageNotice>,
    deliveries: watch::Receiver<()>,
    passes: watch::Receiver<()>,
    until: Instant,
    /// True if parts of a message are sent before it is complete.
    pub(super) shows_drafts: bool,
    text: AnswerText,
    ready: VecDeque<AnswerProgress>,
    has_text: bool,
    _held: HeldConnection,
}

/// The stored state of a message, and of the messages after it.
struct AnswerState {
    standing: Option<MessageProgress>,
    is_asked: bool,
    usage: Usage,
    posts: Vec<Post>,
}

impl PendingAnswer {
    /// Prepares to wait for the answer to a message that is published next.
    pub(super) async fn prepare(
        gateway: &Arc<HttpGateway>,
        person: &WebPerson,
        address: Address,
        id: &str,
    ) -> Result<Self, HttpRefusal> {
        let held = gateway.held.hold(&person.id)?;
        let bus = &gateway.services().bus;
        let (notices, key) = (gateway.web.attach(&address.chat), gateway.message_key(person, id));
        let chat = address.chat.clone();
        let cursor = bus.store.read(move |store: &Connection| feed::end(store, &chat)).await?;
        Ok(Self {
            gateway: Arc::clone(gateway),
            access: StreamAccess::of(gateway, person),
            address,
            key,
            cursor,
            notices,
            deliveries: bus.outbox.watch(),
            passes: bus.passes.watch(),
            until: Instant::now(),
            shows_drafts: false,
            text: AnswerText::default(),
            ready: VecDeque::new(),
            has_text: false,
            _held: held,
        })
    }

    pub(super) fn wait_until(&mut self, until: Instant) {
        self.until = until;
    }

    /// Waits for the next part. An error ends the answer, for example because the person has lost access.
    pub(super) async fn next(&mut self) -> Result<AnswerProgress, HttpRefusal> {
        let closing = self.gateway.closing.clone();
        loop {
            if let Some(ready) = self.ready.pop_front() {
                self.check_access().await?;
                return Ok(ready);
            }
            self.deliveries.mark_unchanged();
            self.passes.mark_unchanged();
            if self.read_news().await? {
                continue;
            }
            let next_read = (Instant::now() + READ_EVERY).min(self.until);
            tokio::select! {
                () = closing.cancelled() => return Err(self.later("the daemon stops")),
                Some(notice) = self.notices.recv() => self.handle_notice(notice),
                () = self.access.login_ended() => self.check_access().await?,
                _ = self.deliveries.changed() => {}
                _ = self.passes.changed() => {}
                () = sleep_until(next_read) => if Instant::now() >= self.until {
                    return Err(self.later("this takes longer than a request can wait"));
                }
            }
        }
    }

    async fn check_access(&mut self) -> Result<(), HttpRefusal> {
        self.access.check(&self.gateway).await.ok_or_else(|| {
            HttpRefusal::last(StatusCode::UNAUTHORIZED, "your access has ended; sign in again")
        })
    }

    /// Returns an error for an answer that comes later. The message stays accepted.
    fn later(&self, why: &str) -> HttpRefusal {
        let session = self.session();
        let explanation = format!("{why}; the answer will be in the session {session}");
        HttpRefusal::last(StatusCode::GATEWAY_TIMEOUT, explanation)
    }

    fn session(&self) -> &str {
        self.address.chat.as_str().split_once('/').map_or("", |(_, session)| session)
    }

    fn handle_notice(&mut self, notice: PageNotice) {
        if let (PageNotice::Draft(text), true) = (notice, self.shows_drafts) {
            let text = self.gateway.services().redactor.redact(&text).into_owned();
            let more = self.text.draft(&text);
            self.ready.extend(more.map(AnswerProgress::Draft));
        }
    }

    /// Reads new messages and the outcome. Returns true if there is something to send.
    async fn read_news(&mut self) -> Result<bool, HttpRefusal> {
        let (key, chat, cursor) = (self.key.clone(), self.address.chat.clone(), self.cursor);
        let read = move |store: &Connection| {
            // The outcome is read first, because its messages were committed with it.
            let standing = journal::progress_of(store, &key)?;
            let turn = standing.and_then(|standing| standing.turn);
            let is_asked = turn.map_or(Ok(false), |turn| asks::has_open(store, turn))?;
            let usage =
                turn.map_or(Ok(Usage::default()), |turn| ledger::turn_usage(store, turn))?;
            let posts = feed::after(store, &chat, cursor, READ_MAX)?;
            Ok(AnswerState { standing, is_asked, usage, posts })
        };
        let state = self.gateway.services().bus.store.read(read).await?;
        let is_behind = state.posts.len() >= READ_MAX;
        // For whole messages, the access is checked each time.
        self.access.expire();
        let last_text = self.queue_posts(state.posts);
        if is_behind {
            return Ok(true);
        }
        match state.standing.map(|standing| standing.outcome) {
            // The message was deleted, which happens to finished ones only.
            None | Some(Some(InboundOutcome::Refused)) => {
                let explanation = last_text.unwrap_or_else(|| replies::API_NO_ANSWER.to_owned());
                return Err(HttpRefusal::last(StatusCode::BAD_GATEWAY, explanation));
            }
            Some(Some(
                InboundOutcome::Answered
                | InboundOutcome::Handled
                | InboundOutcome::Stopped
                | InboundOutcome::Late
                | InboundOutcome::Withdrawn
                | InboundOutcome::TurnedAway,
            )) => self.ready.push_back(AnswerProgress::Done(state.usage)),
            Some(None) if state.is_asked => {
                if !self.has_text {
                    let explanation = replies::api_waits_for_others(self.session());
                    self.ready.extend(self.text.message(&explanation).map(AnswerProgress::Text));
                }
                self.ready.push_back(AnswerProgress::Done(state.usage));
            }
            Some(None) => {}
        }
        Ok(!self.ready.is_empty())
    }

    /// Queues the bot's messages. Returns the text of the last one.
    fn queue_posts(&mut self, posts: Vec<Post>) -> Option<String> {
        let mut last = None;
        for post in posts {
            self.cursor = post.cursor;
            // A message that replaces another one shows the outcome of a question.
            let PostContent::Sent { body, replaces: None, .. } = post.content else { continue };
            let text = self.plain_text(&body);
            self.ready.extend(self.text.message(&text).map(AnswerProgress::Text));
            self.has_text = true;
            last = Some(text);
        }
        last
    }

    /// Returns a message of the bot as text for a program that has no buttons.
    fn plain_text(&self, body: &Body) -> String {
        let text = self.gateway.services().redactor.redact(body.text()).into_owned();
        match body {
            Body::Text(_) => text,
            Body::Printed(_) => format!("```\n{text}\n```"),
            Body::File(file) => format!("{text}\n\n[{}]", file.name).trim().to_owned(),
            Body::Choice(question) => {
                let says = question.choices.iter().map(|choice| choice.says.as_str());
                format!("{text}\n\n{}", replies::api_choices(self.session(), says))
            }
        }
    }
}

/// The text of an answer as it grows. Only whole words of a draft are sent, because sent text cannot be taken
/// back, and a secret is recognized once it is whole.
#[derive(Default)]
struct AnswerText {
    has_begun: bool,
    /// The part of the current message that was sent.
    draft: String,
}

impl AnswerText {
    /// Returns the new part of a draft that can be sent.
    fn draft(&mut self, text: &str) -> Option<String> {
        let text = text.trim_start();
        if text.is_empty() || NO_REPLY.starts_with(text) || text.starts_with(NO_REPLY) {
            return None;
        }
        let whole = &text[..text.rfind(char::is_whitespace)?];
        if self.draft.starts_with(whole) {
            return None;
        }
        Some(self.grow(whole)).filter(|more| !more.is_empty())
    }

    /// Returns what a message adds to its draft.
    fn message(&mut self, text: &str) -> Option<String> {
        let more = self.grow(text.trim());
        self.draft.clear();
        Some(more).filter(|more| !more.is_empty())
    }

    fn grow(&mut self, text: &str) -> String {
        let more = match text.strip_prefix(self.draft.as_str()).filter(|_| !self.draft.is_empty()) {
            Some(more) => more.to_owned(),
            // It is another message, or one that was started again.
            None if self.has_begun => format!("\n\n{text}"),
            None => text.to_owned(),
        };
        text.clone_into(&mut self.draft);
        self.has_begun = true;
        more
    }
}
