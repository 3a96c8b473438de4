//! Sentences about jobs.

use std::fmt::{Display, Write as _};

use chrono::{DateTime, Utc};

use super::{as_is, counted, fenced};
use crate::short_text::{one_line, shortened};

/// Maximum length of a job's text in a list, in characters.
pub(super) const ABOUT_CHARS_MAX: usize = 80;

/// Maximum length of an outcome in a list, in characters.
const WORDS_CHARS_MAX: usize = 100;

pub const NO_JOBS: &str = "There are no jobs.";
pub const JOBS_USAGE: &str = "Use /jobs, or /jobs show, run, pause, resume, rm or history with the job's number. \
     /jobs add every 2h | WHAT TO DO makes a new job. Write message in place of add to send a fixed text, or \
     command to run a command. /jobs check NUMBER COMMAND sets a check.";
pub const WHICH_JOB: &str = "Which job? Give its number, as the list shows it.";
pub const WHEN_JOB: &str =
    "When? Give 20m, tomorrow 8:00, an ISO time, every 2h, or a cron line like 30 7 * * 1-5.";
pub const WHERE_JOB: &str =
    "Where to? Give CHANNEL:CHAT, because no owner has written to me in private yet.";
pub const WHAT_JOB: &str = "What should I do or send? Give a text.";
pub const NOTHING_TO_CHANGE: &str = "There is nothing to change. Give a new time or a new text.";
pub const PAUSE_BOUNDS: &str = "The interval must be from one minute to 366 days.";
pub const CRON_NEVER: &str = "That time never comes.";
pub const JOB_IS_MESSAGE: &str = "fixed text";
pub const JOB_IS_COMMAND: &str = "command";
pub const JOB_IS_CHECKED: &str = "with a check";
pub const CHECK_WITHOUT_PROMPT: &str = "Only a job with a prompt can have a check.";
pub const SAY_COMMAND: &str =
    "This job runs a command. To change it, give kind command (--command) with the new text.";
pub const NAME_COMMAND: &str = "Give the command as text. The job's present text is not a command.";
pub const COMMAND_NEEDS_APPROVAL: &str = "Not done: commands need approval here. Ask me in a normal message, so that I can request the approval, or \
     let my owner do it.";
pub const PRIVATE_JOB: &str = "(a private job of somebody else)";
pub const JOB_PRINTED: &str = "I forwarded the output of the job's command.";
pub const NUL_IN_JOB: &str = "I can't save a text that contains a NUL character.";
pub const RUN_ENDED: &str = "Its run was stopped.";
pub const JOB_INTERRUPTED: &str = "A new message there interrupted it.";
pub const JOB_BREAKS: &str = "it can't be read or saved";
pub const PERSON_WITHOUT_ACCESS: &str = "its person no longer has access";
pub const READER_WITHOUT_ACCESS: &str = "its reader no longer has access";
pub const COMMAND_LOST_ACCESS: &str = "its person has less access now than when it began";
pub const NO_JOBS_FOR_GUESTS: &str = "Guests can't have jobs.";

pub fn job_breaks(id: impl Display, why: &str) -> String {
    format!(
        "I can't read or save job {id}, so I paused it: {}. Use /jobs rm {id} to remove it.",
        as_is(why)
    )
}

pub fn unclear_time(text: &str) -> String {
    format!(
        "I don't understand the time “{}”. Try 20m, 2h30m, 18:00, tomorrow 8:00, monday 9:00 or 2026-12-24 18:00.",
        as_is(text)
    )
}

pub fn time_is_past(text: &str) -> String {
    format!("{} is in the past.", as_is(text))
}

pub fn time_is_too_far(text: &str) -> String {
    format!("{} is more than five years away.", as_is(text))
}

pub fn unclear_pause(text: &str) -> String {
    format!("I don't understand “{}”. Try every 30m, every 2h or every 1d.", as_is(text))
}

/// The reason of a cron line with too few or too many fields.
pub const CRON_FIELDS: &str = "it needs five fields, or six with seconds";

pub fn unclear_cron(reason: &str) -> String {
    format!("I don't understand this cron line: {}.", as_is(reason.trim_end_matches('.')))
}

pub fn unknown_zone(name: &str) -> String {
    format!("I don't know the time zone “{}”. Use a name like Europe/Berlin.", as_is(name))
}

pub fn job_text_too_long(most: usize) -> String {
    format!("A job's text can have at most {most} characters. Put the rest into a file.")
}

pub fn too_many_jobs(most: usize) -> String {
    format!("There are already {most} jobs, which is the limit. Remove some first.")
}

pub fn no_job(id: impl Display) -> String {
    format!("There is no job {id}.")
}

/// A job as people and models are shown it.
pub struct JobShown {
    pub id: i64,
    pub when: String,
    pub kind: Option<&'static str>,
    pub about: String,
    pub to: String,
    /// None: it is not due.
    pub next: Option<String>,
    /// Why, if that is known.
    pub paused: Option<String>,
    pub failures: u32,
    /// The files or the network that its command has in place of the workspace.
    pub sees: Option<String>,
    /// The calls that its runs make unasked, as [`job_unasked`] says it.
    pub unasked: Option<String>,
    /// The cost of its runs in the last 30 days, with the currency. None if it is zero, or nobody asks.
    pub cost: Option<String>,
    /// The cost of a run and of a month, as [`job_expected`] says it.
    pub expected: Option<String>,
}

pub(super) fn short_line(text: &str, most: usize) -> String {
    as_is(shortened(&one_line(text), most))
}

/// The text that [`as_is`] was given.
fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut signs = text.chars().peekable();
    while let Some(sign) = signs.next() {
        match signs.peek() {
            Some(next) if sign == '\\' && next.is_ascii_punctuation() => out.extend(signs.next()),
            _ => out.push(sign),
        }
    }
    out
}

fn head(job: &JobShown) -> String {
    let mut text = format!("{}, {}", job.id, as_is(&job.when));
    match (&job.paused, &job.next) {
        (Some(why), _) if why.is_empty() => text.push_str(", paused"),
        (Some(why), _) => {
            let _ = write!(text, ", paused: {}", as_is(why));
        }
        // What happens once is next when it is.
        (None, Some(next)) if !job.when.contains(next) => {
            let _ = write!(text, ", next {next}");
        }
        (None, Some(_)) => {}
        (None, None) => text.push_str(", done"),
    }
    if job.failures > 0 {
        let _ = write!(text, ", failed {} in a row", counted(job.failures.into(), "time"));
    }
    if let Some(kind) = job.kind {
        let _ = write!(text, ", {kind}");
    }
    for more in job.sees.iter().chain(&job.unasked) {
        let _ = write!(text, ", {more}");
    }
    if let Some(cost) = &job.cost {
        let _ = write!(text, ", {cost} in 30 days");
    }
    if let Some(expected) = &job.expected {
        let _ = write!(text, ", {expected}");
    }
    text
}

/// The expected cost of a run and of a month, in billionths of a dollar: `about 0.4 ct a run, 9.0 ct a month`.
pub fn job_expected(run: u64, month: u64) -> String {
    format!("about {} a run, {} a month", dollars_or_cents(run), dollars_or_cents(month))
}

/// The line below the first result of a job that repeats.
pub fn job_costs(id: impl Display, expected: &str) -> String {
    format!("Job {id} costs {expected}. /jobs lists it.")
}

/// Less than a dollar in cents, to a tenth.
fn dollars_or_cents(billionths: u64) -> String {
    let tenths = billionths.saturating_add(500_000) / 1_000_000;
    match tenths {
        0 => "less than 0.1 ct".to_owned(),
        1..1_000 => format!("{}.{} ct", tenths / 10, tenths % 10),
        _ => format!("${}.{:02}", tenths / 1_000, tenths % 1_000 / 10),
    }
}

/// One a line.
pub fn jobs(jobs: &[JobShown]) -> String {
    let lines = jobs
        .iter()
        .map(|job| format!("{}: {}", head(job), short_line(&job.about, ABOUT_CHARS_MAX)));
    let lines: Vec<_> = lines.collect();
    if lines.is_empty() { NO_JOBS.to_owned() } else { lines.join("\n") }
}

pub fn job_whole(job: &JobShown, text: &str) -> String {
    format!("Job {}, to {}\n{text}", head(job), as_is(&job.to))
}

pub fn job_with_check(text: &str, check: &str) -> String {
    format!("{text}\nCheck:\n{}", fenced("", check))
}

/// As it is, to be read and copied.
pub fn job_command(command: &str) -> String {
    fenced("", command)
}

/// One that happens once was paused while it was being done.
pub fn one_time_job_paused(id: impl Display) -> String {
    format!("Job {id} was a one-time job. {RUN_ENDED} Give it a new time to run it again.")
}

pub fn job_made(job: &JobShown) -> String {
    format!("Created: job {}.", head(job))
}

/// Confirms a change of a job. `drops_unasked`: the calls without approval were those of the former text.
pub fn job_changed(job: &JobShown, drops_unasked: bool) -> String {
    let dropped = if drops_unasked { JOB_UNASKED_DROPPED } else { "" };
    format!("Changed: job {}.{dropped}", head(job))
}

pub const JOB_UNASKED_DROPPED: &str = " Its approved tools and sites were cleared because the text changed. Name them again if it needs them.";

pub fn job_resumed(job: &JobShown) -> String {
    format!("Resumed: job {}.", head(job))
}

pub fn job_paused(id: impl Display) -> String {
    format!("Job {id} is paused. Use /jobs resume {id} to resume it.")
}

pub fn job_removed(id: impl Display) -> String {
    format!("Job {id} has been removed.")
}

pub fn job_runs_now(id: impl Display) -> String {
    format!("Job {id} is starting now.")
}

pub fn job_is_active(id: impl Display) -> String {
    format!("Job {id} is not paused.")
}

pub fn job_is_over(id: impl Display) -> String {
    format!("Job {id} has no more runs. Give it a new time.")
}

pub fn job_not_active(id: impl Display) -> String {
    format!("Job {id} is paused or done. Resume it or give it a new time first.")
}

pub fn once_at(time: &str) -> String {
    format!("once, {time}")
}

pub fn every(seconds: i64) -> String {
    let mut text = "every".to_owned();
    let mut left = seconds;
    for (unit, name) in [(86_400, "d"), (3_600, "h"), (60, "m"), (1, "s")] {
        if left >= unit {
            let _ = write!(text, " {}{name}", left / unit);
            left %= unit;
        }
    }
    text
}

pub fn by_cron(fields: &str, zone: Option<&str>) -> String {
    match zone {
        Some(zone) => format!("cron {fields} ({zone})"),
        None => format!("cron {fields}"),
    }
}

/// The words of a run in a list.
pub enum RunSummary<'a> {
    /// The words of a model, a command or a person.
    Quoted(&'a str),
    /// A sentence of the bot's own, in which others' words may be escaped already.
    Own(&'a str),
}

/// A run of a job in a list.
pub struct ListedRun<'a> {
    pub due: String,
    pub late: bool,
    pub state: &'a str,
    pub words: RunSummary<'a>,
}

/// The runs of a job, the newest first.
pub fn history<'a>(id: impl Display, runs: impl Iterator<Item = ListedRun<'a>>) -> String {
    let mut text = String::new();
    for ListedRun { due, late, state, words } in runs {
        let late = if late { ", late" } else { "" };
        let _ = write!(text, "{due}, {state}{late}");
        let words = match words {
            RunSummary::Quoted(words) => short_line(words, WORDS_CHARS_MAX),
            RunSummary::Own(words) => short_line(&unescaped(words), WORDS_CHARS_MAX),
        };
        let _ = match words {
            words if words.is_empty() => writeln!(text),
            words => writeln!(text, ": {words}"),
        };
    }
    match text.trim_end() {
        "" => format!("Job {id} has not run yet."),
        text => text.to_owned(),
    }
}

pub fn no_channel(name: impl Display) -> String {
    format!("There is no channel {}.", as_is(name))
}

// What is sent from the command line.

pub const DELIVERED: &str = "Delivered.";
pub const NOTHING_TO_SEND: &str = "There is nothing to send.";
pub const NO_OWNER_ADDRESS: &str = "No owner has written to me in private yet.";

/// The refusal of a message to the owner whose last private message came on this channel.
pub fn owner_out_of_reach(channel: impl Display) -> String {
    format!(
        "The owner's last private message came on the channel {}, to which I can't send now. If it is the terminal, start the \
         daemon; else have the owner write on another channel, or give its address.",
        as_is(channel)
    )
}

pub const WORDS_FOR_FILE: &str =
    "The file couldn't be sent. A message with the reason was delivered instead.";

pub fn not_delivered(reason: &str) -> String {
    format!("It couldn't be delivered: {}.", as_is(reason))
}

pub fn not_delivered_yet(reason: &str) -> String {
    let reason = if reason.is_empty() { "nobody is connected to receive it" } else { reason };
    format!("It is not delivered yet: {}. I'll keep trying while I'm running.", as_is(reason))
}

/// The outcome for a sender whose message the daemon takes over its own end.
pub const DELIVERED_AFTER_RESTART: &str = "It is not delivered yet: I'm ending or reading my config again. I'll send it as soon as I'm back.";

/// The outcome for a sender whose daemon has ended without an answer.
pub const DELIVERY_UNKNOWN: &str = "The daemon ended before it could tell if it took the message. If it did, it delivers \
     it when it is back: look there before you send it again.";

pub fn too_long_to_send(bytes_max: usize) -> String {
    format!("A text can have at most {bytes_max} bytes. Send the rest as a file.")
}

pub fn too_long_to_say(bytes: usize, bytes_max: usize) -> String {
    format!(
        "Your message has {bytes} bytes, and I take {bytes_max} at a time here. Put it into a file in my workspace, and \
         ask me to read that."
    )
}

pub fn too_many_to_send(files_max: usize) -> String {
    format!("You can send at most {files_max} files at once.")
}

pub fn unreadable_file(name: &dyn Display, reason: &dyn Display) -> String {
    format!("I can't read {}: {}.", as_is(name), as_is(reason))
}

// What comes of jobs.

/// The text of a one-time job that is late, below the time at which it was due.
pub fn late_job(due: &str, words: &str) -> String {
    format!("(This was due {due}, but I wasn't running then.)\n{words}")
}

pub fn job_failed(id: i64, about: &str, reason: &str) -> String {
    let about = short_line(about, ABOUT_CHARS_MAX);
    format!("Job {id} ({about}) failed, and I won't retry it by myself. {reason}")
}

pub fn job_fails(id: i64, about: &str, times: u32, reason: &str) -> String {
    let about = short_line(about, ABOUT_CHARS_MAX);
    format!(
        "Job {id} ({about}) has failed {times} times in a row: {reason}\n\
         I'll keep trying, with longer pauses. Use /jobs pause {id} to stop it."
    )
}

pub fn job_paused_itself(id: i64, about: &str, times: u32, reason: &str) -> String {
    let about = short_line(about, ABOUT_CHARS_MAX);
    format!(
        "Job {id} ({about}) has failed {times} times in a row, so I paused it: {reason}\n\
         Use /jobs resume {id} to resume it."
    )
}

pub fn failed_too_often(times: u32) -> String {
    format!("failed {times} times in a row")
}

pub const JOB_CUT_OFF: &str =
    "Restarts interrupted it three times, so I gave up on it. I can't tell how much it had done.";
pub const JOB_BROKE: &str = "Something went wrong on my side. The details are in my log.";

pub fn job_interrupted(id: i64, about: &str) -> String {
    let about = short_line(about, ABOUT_CHARS_MAX);
    format!("Job {id} ({about}) was interrupted. It will run again when next due.")
}

pub fn job_person_without_access(id: impl Display, about: &str, person: impl Display) -> String {
    let (about, person) = (short_line(about, ABOUT_CHARS_MAX), as_is(person));
    format!(
        "Job {id} ({about}) belongs to {person}, who no longer has access, so I paused it. \
         Use /jobs resume {id} once they have access again, or /jobs rm {id} to remove it."
    )
}

/// The notice to the person who made a job that reports to somebody else, or to the owner.
pub fn job_reader_without_access(id: impl Display, about: &str, to: impl Display) -> String {
    let (about, to) = (short_line(about, ABOUT_CHARS_MAX), as_is(to));
    format!(
        "Job {id} ({about}) reports to {to}, whose reader no longer has access, so it does not run. \
         Use /jobs resume {id} once they have access again, or /jobs rm {id} to remove it."
    )
}

/// The notice to the owner about a job that was private until now.
pub fn job_works_as_in_a_group(id: impl Display, to: impl Display) -> String {
    format!(
        "Job {id} reports to {}, which I don't know as a private chat of its person. So it now runs \
         without their private files, memory and conversations. If it is their chat, they can write to me there; \
         then remove the job with /jobs rm {id}, and make it again.",
        as_is(to)
    )
}

pub fn clock_is_wrong(now: DateTime<Utc>) -> String {
    let now = now.format("%Y-%m-%d %H:%M");
    format!("My clock shows {now} UTC, which can't be right. Jobs wait until the clock is set.")
}
