//! Messages as a model is shown them, in parts with their sources: the line with the speaker, overheard and quoted
//! messages, the messages themselves, and changes of the memory.

use std::collections::HashMap;

use chrono::{DateTime, TimeDelta, Utc};
use chrono_tz::Tz;

use crate::bus::journal::{RowId, WaitingMessage};
use crate::people::Role;
use crate::turn::prompt::{files, plain};
use crate::types::message::{Cause, ChatKind, InboundContent, OverheardLine, Printed, Quote};
use crate::types::origin::{TaskId, TaskKind};
use crate::types::source::{Author, Source, SourcedPart, SourcedText};
use crate::types::untrusted;

/// Maximum length of a quoted message, in characters. A forwarded one is shown whole (Telegram's texts have at most
/// 4096); adapters give less of one that is replied to.
const QUOTE_CHARS_MAX: usize = 4_500;

/// Interval at which a private chat shows the time: often enough for "in an hour", and rarely enough for small models,
/// which read a line before each message as a part of it.
pub const TIME_AGAIN_AFTER: TimeDelta = TimeDelta::minutes(10);

/// Returns true if the time is due to be shown, after it was last shown at `last_shown`.
pub fn is_time_due(last_shown: Option<DateTime<Utc>>, now: DateTime<Utc>) -> bool {
    // If the clock was set back, the time that was shown is wrong.
    last_shown.is_none_or(|last_shown| now < last_shown || now - last_shown >= TIME_AGAIN_AFTER)
}

/// The context of a message.
pub struct PromptTail<'a> {
    pub now: DateTime<Tz>,
    /// True if a private chat shows the time now. In groups it is always shown.
    pub is_time_due: bool,
    pub role: Role,
    pub chat_kind: ChatKind,
    pub rows: &'a [WaitingMessage],
    /// The skills that rows invoke.
    pub(crate) invoked: &'a InvokedSkills,
    /// Earlier messages of the chat that were not for the bot.
    pub background: &'a [OverheardLine],
    /// Changes of memory, notes and plan that the model does not know yet.
    pub changes: Vec<SourcedText>,
}

/// The invoked skills by row.
pub(crate) type InvokedSkills = HashMap<RowId, SkillInvocation>;

/// A message that invokes a skill.
pub(crate) struct SkillInvocation {
    /// The skill's name. None if the person cannot use it.
    pub(crate) name: Option<String>,
    /// The program's text with the skill's body, or with the reason why there is none.
    pub(crate) told: String,
    /// The person's text after the skill's name.
    pub(crate) said: String,
}

/// Returns the messages as the model is shown them. The result is stored with the turn, and never made again.
pub fn tail(tail: &PromptTail<'_>) -> SourcedText {
    let mut text = SourcedText::default();
    if let Some(first) = tail.rows.first() {
        let source = match &first.inbound.cause {
            Cause::Person(_) => Source::Program,
            Cause::Job { .. } | Cause::Heartbeat { .. } => author(first),
        };
        if let Some(heading) = heading(tail, first) {
            text.push(source, heading);
        }
    }
    push_background(&mut text, tail.background, tail.now.timezone());
    for row in tail.rows {
        push_row(&mut text, row, tail.invoked);
    }
    for change in &tail.changes {
        text.push_program("\n[");
        text.append(change);
        text.push_program("]");
    }
    text
}

/// Returns the line with the time, and with the speaker or the due task. A private chat has only the time, because the
/// system prompt names the speaker.
fn heading(tail: &PromptTail<'_>, first: &WaitingMessage) -> Option<String> {
    let place = match tail.chat_kind {
        ChatKind::Private => "private",
        ChatKind::Group => "group",
    };
    let (now, who) = (tail.now.format("%a %Y-%m-%d %H:%M %:z"), plain(&first.sender().name));
    let channel = first.origin.channel();
    let role = tail.role;
    let is_private = tail.chat_kind == ChatKind::Private && first.origin.task().is_none();
    Some(match &first.inbound.cause {
        Cause::Person(_) if is_private => {
            let is_blank = tail.rows.iter().all(is_blank_message);
            return (tail.is_time_due || is_blank).then(|| format!("[{now}]"));
        }
        Cause::Person(_) => format!("[{now} · {who} ({role}) · {channel}, {place}]"),
        Cause::Heartbeat { tainted, .. } => {
            let tainted = match tainted {
                true => format!(", some of it by who {}", untrusted::HAS_READ),
                false => String::new(),
            };
            format!("[{now} · heartbeat for {who} ({role}){tainted} · {channel}, {place}]")
        }
        Cause::Job { job, due, late, tainted, .. } => {
            let due = due.with_timezone(&tail.now.timezone()).format("%a %Y-%m-%d %H:%M");
            let late =
                if *late { format!(", which was due on {due} and is late") } else { String::new() };
            let tainted = match tainted {
                true => format!(", asked for in a conversation that {}", untrusted::HAS_READ),
                false => String::new(),
            };
            format!("[{now} · job {job} of {who} ({role}){late}{tainted} · {channel}, {place}]")
        }
    })
}

/// Returns true for a message without a text, a file or a quote: some providers reject a message without a visible
/// character.
fn is_blank_message(row: &WaitingMessage) -> bool {
    let InboundContent { text, quoted, media, .. } = &row.inbound.body;
    text.trim().is_empty() && quoted.is_none() && media.is_empty()
}

/// Returns the source of a row's text, if the row has no sources for its parts.
fn author(row: &WaitingMessage) -> Source {
    let inbound = &row.inbound;
    let source = |kind, number, read_others| {
        let (channel, id) = (row.origin.channel().clone(), row.sender().id.clone());
        Source::Task { kind, number, by: Some(Author { channel, id }), read_others }
    };
    match (&inbound.cause, row.origin.task()) {
        (Cause::Job { job, tainted, .. }, _) => source(TaskKind::Job, Some(*job), *tainted),
        (Cause::Heartbeat { tainted, .. }, task) => {
            source(TaskKind::Heartbeat, task.map(|task| task.number), *tainted)
        }
        // A task usually has sources. Without them, its author is unknown.
        (Cause::Person(_), Some(TaskId { kind, number })) => source(kind, Some(number), true),
        (Cause::Person(sender), None) => {
            let (channel, id) = (inbound.from.channel.clone(), sender.id.clone());
            match inbound.body.press {
                Some(_) => Source::Button { channel, id },
                None => Source::Person { channel, id },
            }
        }
    }
}

fn push_row(text: &mut SourcedText, row: &WaitingMessage, invoked: &InvokedSkills) {
    let InboundContent { text: said, quoted, media, sources, .. } = &row.inbound.body;
    let author = author(row);
    if let Some(quote) = quoted {
        push_quote(text, quote);
    }
    let invoked = invoked.get(&row.id);
    if let Some(invoked) = invoked {
        let source = match &invoked.name {
            Some(name) => Source::Skill { name: name.clone() },
            None => Source::Program,
        };
        begin_line(text, source.clone());
        text.push(source, &invoked.told);
    }
    for file in media {
        begin_line(text, author.clone());
        text.append(&files::line(file, &author, quoted.as_ref()));
    }
    let said = match invoked {
        Some(invoked) => SourcedText::of(author.clone(), &invoked.said),
        None if sources.is_empty() => SourcedText::of(author.clone(), said),
        None => SourcedText::from_stored(said.clone(), sources.clone()),
    };
    let is_alone = media.is_empty() && quoted.is_none();
    if is_alone || !said.trim().is_empty() {
        // A message without a text also belongs to its author.
        begin_line(text, if sources.is_empty() { author } else { Source::Program });
        push_said(text, &said);
    }
    if let Cause::Job { printed: Some(printed), .. } = &row.inbound.cause {
        push_printed(text, printed);
    }
}

fn push_quote(text: &mut SourcedText, quote: &Quote) {
    let author = plain(&quote.author);
    let quoted: String = quote.text.chars().take(QUOTE_CHARS_MAX).collect();
    let quoted = untrusted::normalize_newlines(&quoted).replace('\n', "\n> ");
    let source = Source::Quoted { author: author.clone(), by_others: quote.by_others };
    begin_line(text, source.clone());
    text.push(source.clone(), format!("> {author}"));
    if quote.by_others {
        text.push_program(untrusted::QUOTED_AUTHOR_NOTE);
    }
    text.push(source, format!(": {quoted}"));
}

fn begin_line(text: &mut SourcedText, source: Source) {
    if !text.is_empty() {
        text.push(source, "\n");
    }
}

/// Adds a message at the beginning of a line. Its lines cannot pass for lines of the program.
fn push_said(text: &mut SourcedText, said: &SourcedText) {
    let mut begins_line = true;
    for SourcedPart { source, text: part } in said.iter() {
        let part = untrusted::normalize_newlines(part);
        let defused = part.replace("\n[", "\n [");
        if begins_line && defused.starts_with('[') {
            text.push(source.clone(), " ");
        }
        text.push(source.clone(), defused);
        begins_line = part.ends_with('\n');
    }
}

/// Adds the output of a job's check or the data of a webhook, as data.
fn push_printed(text: &mut SourcedText, printed: &Printed) {
    let heading = match (&printed.webhook, printed.untrusted) {
        (Some(hook), _) => format!("The webhook {hook} was called with:"),
        (None, true) => format!("The job's check, which {}, printed:", untrusted::HAS_READ),
        (None, false) => "The job's check printed:".to_owned(),
    };
    text.push_program(format!("\n[{heading}]\n"));
    let source = Source::Command { read_others: printed.untrusted };
    text.push(source, untrusted::wrap(&printed.text));
}

/// Adds overheard lines. They cannot pass for messages to the bot or lines of the program.
fn push_background(text: &mut SourcedText, lines: &[OverheardLine], zone: Tz) {
    if lines.is_empty() {
        return;
    }
    text.push_program(format!("\n{}", untrusted::OVERHEARD_HEADER));
    for line in lines {
        let said = untrusted::normalize_newlines(line.text.trim()).replace('\n', "\n|   ");
        let at = line.at.with_timezone(&zone).format("%H:%M");
        let author = plain(&line.author);
        let said = format!("\n| {at} {author}: {said}");
        text.push(Source::Overheard { author }, said);
    }
    text.push_program("\n[To you:]");
}
