//! The messages about deferred calls, which nobody could be asked about: complete, with a button for each call that
//! somebody may approve later.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use rusqlite::Connection;

use crate::bus::outbox;
use crate::conversation::deferred::{
    self, ApprovedCall, DeferredCall, DeferredId, LaterDecider, ReportTerms, UnreportedCall,
    UnreportedCalls,
};
use crate::replies::{self, CallNotMade};
use crate::types::commands::CommandId;
use crate::types::message::{
    Address, AllowedPressers, Attachment, Body, Choice, Content, MediaKind, Question,
};
use crate::types::session::TurnId;

/// Calls that one message shows. Platforms show so many buttons.
const SHOWN_MAX: usize = 6;

/// Messages about the calls of a turn. Nobody looks through more, and a run that goes astray does not flood its chat.
const MESSAGES_MAX: usize = 4;

/// The messages about the calls of a turn.
pub struct DeferredReport {
    pub to: Address,
    /// The text of all messages.
    pub text: String,
    /// The turn had read untrusted content.
    pub tainted: bool,
    messages: Vec<ReportMessage>,
    /// Those that are only counted, also because they cannot be read.
    more: Vec<DeferredId>,
}

struct ReportMessage {
    text: String,
    /// The whole calls, if the text has not all of them.
    file: Option<String>,
    shown: Vec<(DeferredId, DeferredCall)>,
}

impl DeferredReport {
    /// Makes the messages about a turn. None if people know of all its calls.
    pub fn of(store: &Connection, turn: TurnId) -> rusqlite::Result<Option<Self>> {
        let UnreportedCalls { calls: mut untold, unreadable } = deferred::unreported(store, turn)?;
        let terms = untold.first().map(|first| first.terms.clone());
        let at_worst = || {
            let to = unreadable.first()?.1.clone();
            Some(ReportTerms { to, task: None, change: None, follows: false })
        };
        let Some(ReportTerms { to, task, .. }) = terms.or_else(at_worst) else { return Ok(None) };
        let tainted = untold.iter().any(|it| it.call.tainted);
        let more = untold.split_off(untold.len().min(SHOWN_MAX * MESSAGES_MAX));
        let more = more.into_iter().map(|it| it.id);
        let more: Vec<_> = more.chain(unreadable.into_iter().map(|(id, _)| id)).collect();
        let calls = shown_calls(&untold);
        let messages = untold.chunks(SHOWN_MAX).zip(calls.chunks(SHOWN_MAX));
        let mut messages: Vec<_> = messages
            .map(|(untold, calls)| ReportMessage::of(task.as_deref(), untold, calls))
            .collect();
        match messages.last_mut() {
            None => {
                let text = replies::not_done_unreadable(more.len());
                messages.push(ReportMessage { text, file: None, shown: Vec::new() });
            }
            Some(_) if more.is_empty() => {}
            Some(last) => {
                last.text.push('\n');
                last.text.push_str(&replies::more_calls_not_made(more.len()));
            }
        }
        let texts: Vec<_> = messages.iter().map(|message| message.text.as_str()).collect();
        Ok(Some(Self { to, text: texts.join("\n"), tainted, messages, more }))
    }

    /// Opens the calls that it shows: from now on they can be made. It must be sent in the same transaction.
    pub fn open_calls(&self, store: &Connection, now: DateTime<Utc>) -> rusqlite::Result<()> {
        for message in &self.messages {
            let ids: Vec<_> = message.shown.iter().map(|(id, _)| *id).collect();
            deferred::mark_reported(store, &ids, now)?;
        }
        deferred::mark_reported(store, &self.more, now)?;
        self.more.iter().try_for_each(|id| deferred::settle(store, *id, false))
    }

    /// Sends it.
    pub fn send(self, store: &Connection) -> rusqlite::Result<()> {
        let Self { to, messages, .. } = self;
        for body in messages.into_iter().flat_map(ReportMessage::bodies) {
            outbox::put_body(store, &to, &body)?;
        }
        Ok(())
    }
}

/// Sends the messages that were held back for quiet hours, which are over.
pub(super) fn release(store: &Connection) -> rusqlite::Result<()> {
    for turn in deferred::held_turns(store)? {
        if let Some(report) = DeferredReport::of(store, turn)? {
            report.open_calls(store, Utc::now())?;
            report.send(store)?;
        }
    }
    deferred::release(store)
}

/// Returns all calls of a turn as messages show them. If a second change of a file was not worked out as one of the file
/// that the first leaves, its arguments are shown.
fn shown_calls(untold: &[UnreportedCall]) -> Vec<CallNotMade<'_>> {
    let (mut calls, mut changed_files) = (Vec::new(), BTreeSet::new());
    for UnreportedCall { call, terms, .. } in untold {
        let change = match terms.change.as_deref() {
            // The first lines name the file.
            Some(diff)
                if changed_files.insert(diff.lines().take(2).collect::<Vec<_>>())
                    || terms.follows =>
            {
                Some(diff)
            }
            _ => None,
        };
        let ApprovedCall { tool, arguments, files } = &call.approved;
        let files = files.as_ref();
        calls.push(CallNotMade { tool, arguments, change, files });
    }
    calls
}

impl ReportMessage {
    fn of(task: Option<&str>, untold: &[UnreportedCall], calls: &[CallNotMade<'_>]) -> Self {
        let (text, file) = replies::calls_not_made(task, calls);
        let shown = untold.iter().map(|it| (it.id, it.call.clone())).collect();
        Self { text, file, shown }
    }

    fn bodies(self) -> Vec<Body> {
        let Self { text, file, shown } = self;
        let file = file.map(|whole| {
            Body::File(Attachment {
                name: replies::CALLS_NOT_MADE_FILE.to_owned(),
                kind: MediaKind::Document,
                caption: String::new(),
                printed: true,
                content: Content::Text(whole),
            })
        });
        let can_be_made =
            |(_, call): &&(DeferredId, DeferredCall)| call.decider != LaterDecider::Nobody;
        let calls: Vec<_> = shown.iter().filter(can_be_made).cloned().collect();
        let body = match calls.len() {
            0 if shown.is_empty() => Body::Text(text),
            0 => Body::Text(replies::where_to_ask(&text)),
            count => {
                let mut text =
                    format!("{text}\n{}", replies::offer_deferred_calls(&numbers(&calls)));
                if count < shown.len() {
                    text.push('\n');
                    text.push_str(replies::ASK_FOR_REST);
                }
                question(text, &calls)
            }
        };
        file.into_iter().chain([body]).collect()
    }
}

/// Returns the question about the remaining calls of a report, once some are decided.
pub fn ask_about_rest(calls: &[(DeferredId, DeferredCall)]) -> Body {
    question(replies::offer_remaining_calls(&numbers(calls)), calls)
}

fn numbers(calls: &[(DeferredId, DeferredCall)]) -> Vec<(i64, &str)> {
    calls.iter().map(|(DeferredId(id), call)| (*id, call.approved.tool.as_str())).collect()
}

fn question(text: String, calls: &[(DeferredId, DeferredCall)]) -> Body {
    let choice = |label: String, says: String| Choice { label, says };
    let first = calls.first().map_or(0, |(DeferredId(id), _)| *id);
    let choices = match calls {
        [_] => vec![
            choice(
                replies::DO_IT.to_owned(),
                CommandId::Approve.line(format_args!("later {first}")),
            ),
            choice(replies::DENY.to_owned(), CommandId::Deny.line(format_args!("later {first}"))),
        ],
        calls => {
            let each = numbers(calls).into_iter().map(|(id, tool)| {
                choice(
                    replies::call_label(id, tool),
                    CommandId::Approve.line(format_args!("later {id}")),
                )
            });
            let all = choice(
                replies::ALL.to_owned(),
                CommandId::Approve.line(format_args!("later {first} all")),
            );
            let none = choice(
                replies::NONE.to_owned(),
                CommandId::Deny.line(format_args!("later {first} all")),
            );
            each.chain([all, none]).collect()
        }
    };
    // All of a turn are of one person.
    let who = match calls.first() {
        Some((_, DeferredCall { decider: LaterDecider::Person, sender, .. })) => {
            AllowedPressers::Only(sender.id.clone())
        }
        _ => AllowedPressers::Admins,
    };
    Body::Choice(Question::new(text, choices, who))
}
