//! The snapshot at the beginning of a conversation: jobs that are due soon, proposals that wait for a decision, and
//! facts that have ended lately. It is part of the first message, and of the first one after a compaction, so that the
//! system prompt is the same for all conversations. It shows trusted content, and the number of the other items.

use std::fmt::Write as _;

use chrono::{DateTime, TimeDelta, Utc};
use chrono_tz::Tz;
use rusqlite::Connection;

use crate::conversation::{proposals, tokens};
use crate::memory::facts::{Fact, FactStatus};
use crate::people::persons::{self, PersonAccount};
use crate::short_text::{one_line, shortened};
use crate::tasks::schedule::{self, Job};
use crate::trust::taint;
use crate::types::message::{Address, ChatKind, SenderId};
use crate::types::source::{Source, SourcedText};
use crate::workspace::Audience;

/// Maximum length in tokens: a few lines, of which most conversations need none.
const TOKENS_MAX: u64 = 250;

/// Maximum number of lines of each kind.
const LINES_MAX: usize = 4;

/// The time within which a job is due soon, and a fact has ended lately.
const SOON: TimeDelta = TimeDelta::days(2);
const LATELY: TimeDelta = TimeDelta::days(7);

/// Maximum length of a text in a line, in characters.
const TEXT_CHARS_MAX: usize = 80;

/// Jobs and proposals of a person, read in one state of the store.
pub(crate) struct Upcoming {
    jobs: Vec<Job>,
    proposals: Vec<proposals::Proposal>,
}

/// Reads the jobs of all accounts of a person that are due soon, and the proposals at an address.
pub(crate) fn upcoming(
    store: &Connection,
    at: &Address,
    who: &SenderId,
    now: DateTime<Utc>,
) -> rusqlite::Result<Upcoming> {
    let mut accounts = persons::accounts_of_same(store, &at.channel, who)?;
    if accounts.is_empty() {
        accounts.push(PersonAccount { channel: at.channel.clone(), sender: who.clone() });
    }
    let mut jobs = Vec::new();
    for account in &accounts {
        // One more than is shown, as the count of the rest.
        jobs.extend(schedule::due_soon(store, account, now + SOON, LINES_MAX + 1)?);
    }
    jobs.retain(|job| job.definition.chat_kind == ChatKind::Private);
    jobs.sort_by_key(|job| (job.next, job.id));
    Ok(Upcoming { jobs, proposals: proposals::open_at(store, at, LINES_MAX + 1)? })
}

/// Returns the text of the snapshot. None if it would be empty.
pub(crate) fn text(
    upcoming: &Upcoming,
    facts: &[Fact],
    audience: Audience,
    now: DateTime<Tz>,
) -> Option<SourcedText> {
    let mut lines = SnapshotLines::default();
    for job in &upcoming.jobs {
        let Some(next) = job.next else { continue };
        let at = next.with_timezone(&now.timezone()).format("%a %Y-%m-%d %H:%M");
        let line = format!("- due {at}: job {}, {}", job.id, short(job.definition.payload.text()));
        lines.add(job.definition.tainted, line);
    }
    lines.end_kind();
    for proposal in &upcoming.proposals {
        let is_untrusted = is_untrusted(&proposal.sources, audience);
        let line = format!("- proposed, not decided: {} {}", proposal.id, short(&proposal.title));
        lines.add(is_untrusted, line);
    }
    lines.end_kind();
    let mut ended: Vec<_> = facts.iter().filter(|it| it.status == FactStatus::Former).collect();
    ended.retain(|fact| fact.ended.is_some_and(|ended| now.to_utc() - ended < LATELY));
    ended.sort_by_key(|fact| std::cmp::Reverse((fact.ended, fact.id)));
    for fact in ended {
        let day = fact.ended.map(|ended| ended.with_timezone(&now.timezone()).format("%Y-%m-%d"));
        let day = day.map(|day| day.to_string()).unwrap_or_default();
        let line = format!("- no longer so since {day}: {}", short(&fact.text));
        // Untrusted former facts are not even counted, because they may be anything.
        if !is_untrusted(&fact.deciding_sources(), audience) {
            lines.add(false, line);
        }
    }
    lines.end_kind();
    lines.text()
}

fn is_untrusted(sources: &[Source], audience: Audience) -> bool {
    sources.iter().any(|source| taint::is_untrusted(source, audience))
}

/// The collected lines.
#[derive(Default)]
struct SnapshotLines {
    shown: Vec<String>,
    tokens: u64,
    of_kind: usize,
    untrusted: usize,
}

impl SnapshotLines {
    fn add(&mut self, is_untrusted: bool, line: String) {
        if is_untrusted {
            self.untrusted += 1;
            return;
        }
        let tokens = self.tokens + tokens::tokens(&line);
        if self.of_kind < LINES_MAX && tokens <= TOKENS_MAX {
            self.shown.push(line);
            (self.tokens, self.of_kind) = (tokens, self.of_kind + 1);
        }
    }

    fn end_kind(&mut self) {
        self.of_kind = 0;
    }

    fn text(self) -> Option<SourcedText> {
        if self.shown.is_empty() {
            return None;
        }
        let mut text = SourcedText::default();
        text.push_program("As this conversation begins:\n");
        text.push(Source::Memory, self.shown.join("\n"));
        if self.untrusted > 0 {
            let mut more = String::new();
            let _ = write!(more, "\n{} more with untrusted content.", self.untrusted);
            text.push_program(more);
        }
        Some(text)
    }
}

/// Returns the beginning of a text on one line, without brackets, so that it cannot pass for a line of the program.
fn short(text: &str) -> String {
    shortened(&one_line(&text.replace(['[', ']'], " ")), TEXT_CHARS_MAX)
}
