//! What the bot says of jobs.

use std::fmt::{Display, Write as _};

use chrono::{DateTime, Utc};
use chrono_tz::Tz;

use super::{as_is, fenced};

/// What of a job's text is shown in a list, in characters.
const ABOUT_CHARS_MAX: usize = 80;

/// What of an outcome is shown in a list, in characters.
const WORDS_CHARS_MAX: usize = 100;

pub const NO_JOBS: &str = "There are no jobs.";
pub const JOBS_USAGE: &str = "Say /jobs, or /jobs show, run, pause, resume, rm or history and the job's number; \
     /jobs add every 2h | WHAT TO DO, message in place of add to have a text sent as it is, command to have a \
     command run; /jobs check NUMBER COMMAND.";
pub const WHICH_JOB: &str = "Say which job: its number, as the list shows it.";
pub const WHEN_JOB: &str =
    "Say when: 20m, tomorrow 8:00, an ISO time, every 2h, or a cron line like 30 7 * * 1-5.";
pub const WHERE_JOB: &str =
    "Say where to, as CHANNEL:CHAT: no owner has written to me in private yet.";
pub const WHAT_JOB: &str = "Say what is to be done or sent.";
pub const NOTHING_TO_CHANGE: &str = "Nothing to change: say when, or what.";
pub const PAUSE_BOUNDS: &str =
    "Between two times there must be at least a minute, and at most 366 days.";
pub const CRON_NEVER: &str = "That time never comes.";
pub const JOB_IS_MESSAGE: &str = "sent as it is";
pub const JOB_IS_COMMAND: &str = "a command";
pub const JOB_IS_CHECKED: &str = "after a check";
pub const CHECK_WITHOUT_PROMPT: &str = "Only what a model works on has a check.";
pub const SAY_COMMAND: &str = "It is a command: say kind command (--command) with another text.";
pub const NAME_COMMAND: &str = "Say the command as text: what stands there now is none.";
pub const COMMAND_NEEDS_LEAVE: &str = "Not done: a command must be allowed here before it is run. Ask me for it in your own words, so that I \
     can ask for leave, or have my owner say it.";
pub const JOB_PRINTED: &str = "I have sent on what the job's command printed.";
pub const NUL_IN_JOB: &str = "A text with a NUL in it cannot be kept.";
pub const RUN_ENDED: &str = "What worked on it has been ended.";
pub const JOB_SPOKEN_INTO: &str = "Interrupted by what was said there.";
pub const JOB_BREAKS: &str = "it cannot be read or kept";
pub const JOB_OF_NOBODY: &str = "its person may not use me any more";
pub const NO_JOBS_FOR_GUESTS: &str = "Guests have no jobs.";

// Commands of jobs. Why there are none, as the rest of a sentence:

pub const COMMANDS_NOT_OFFERED: &str = "no commands are run here";
pub const COMMANDS_NOT_CAGED: &str =
    "files are not caged on this machine, so that commands are for the owner in private";

pub fn commands_need(needs: impl Display, is: impl Display) -> String {
    format!("commands need the role {needs}, and the person is {is} there")
}

/// `shell` says how the shell is.
pub fn no_commands(shell: &str) -> String {
    format!("Not done: {COMMANDS_NOT_OFFERED}. {shell}")
}

pub fn no_command(why: &str) -> String {
    format!("Not done: {}.", as_is(why))
}

pub fn job_may_not_command(id: impl Display, about: &str, why: &str) -> String {
    let (about, why) = (shortened(about, ABOUT_CHARS_MAX), as_is(why));
    format!(
        "Job {id} ({about}) has a command, which I have not run: {why}. I have paused it; /jobs resume {id} \
         once that is over, or /jobs rm {id}."
    )
}

/// `how` it ended, and its last lines.
pub fn command_failed<'l>(how: &str, lines: impl Iterator<Item = &'l str>) -> String {
    let lines: Vec<_> = lines.map(as_is).collect();
    match lines.is_empty() {
        true => format!("The command failed ({how})."),
        false => format!("The command failed ({how}): {}", lines.join("\n")),
    }
}

/// Who has changed what the command of a job changes.
pub fn command_of_job(id: impl Display) -> String {
    format!("the command of job {id}")
}

/// Stands where the middle of an output was.
pub fn cut_out(bytes: u64) -> String {
    format!("[… {bytes} bytes in all …]")
}

pub const JOB_COMMAND_CUT_OFF: &str =
    "Its command was cut off when I stopped; what it had done is done, and it is not run again.";

pub fn job_breaks(id: impl Display, why: &str) -> String {
    format!(
        "Job {id} cannot be read or kept, so I have paused it: {}. /jobs rm {id} removes it.",
        as_is(why)
    )
}

pub fn unclear_time(text: &str) -> String {
    format!(
        "I can't read the time “{}”. Write 20m, 2h30m, 18:00, tomorrow 8:00, monday 9:00 or 2026-12-24 18:00.",
        as_is(text)
    )
}

pub fn time_is_past(text: &str) -> String {
    format!("{} is past.", as_is(text))
}

pub fn time_is_too_far(text: &str) -> String {
    format!("{} is more than five years ahead.", as_is(text))
}

pub fn unclear_pause(text: &str) -> String {
    format!("I can't read “{}”. Write every 30m, every 2h or every 1d.", as_is(text))
}

pub fn unclear_cron(reason: &str) -> String {
    format!(
        "I can't read this cron line: {}. It has five fields, or six with seconds.",
        as_is(reason)
    )
}

pub fn unknown_zone(name: &str) -> String {
    format!("I don't know the time zone “{}”. Write one like Europe/Berlin.", as_is(name))
}

pub fn job_text_too_long(most: usize) -> String {
    format!("A job's text has at most {most} characters; put the rest into a file.")
}

pub fn too_many_jobs(most: usize) -> String {
    format!("There are {most} jobs already, which is the most. Remove some first.")
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
}

fn shortened(text: &str, most: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut shown: String = line.chars().take(most).collect();
    if shown.len() < line.len() {
        shown.push('…');
    }
    as_is(shown)
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
    let mut text = format!("{} {}", job.id, as_is(&job.when));
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
        let _ = write!(text, ", failed {} times in a row", job.failures);
    }
    if let Some(kind) = job.kind {
        let _ = write!(text, ", {kind}");
    }
    text
}

/// One a line.
pub fn jobs(jobs: &[JobShown]) -> String {
    let lines =
        jobs.iter().map(|job| format!("{}: {}", head(job), shortened(&job.about, ABOUT_CHARS_MAX)));
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
pub fn job_stopped_for_good(id: impl Display) -> String {
    format!(
        "Job {id} was for once and is over: {RUN_ENDED} Give it another time to have it done again."
    )
}

pub fn job_made(job: &JobShown) -> String {
    format!("Job {}.", head(job))
}

pub fn job_changed(job: &JobShown) -> String {
    format!("Now: job {}.", head(job))
}

pub fn job_resumed(job: &JobShown) -> String {
    format!("It goes on: job {}.", head(job))
}

pub fn job_paused(id: impl Display) -> String {
    format!("Job {id} is paused. /jobs resume {id} lets it go on.")
}

pub fn job_removed(id: impl Display) -> String {
    format!("Job {id} is removed.")
}

pub fn job_runs_now(id: impl Display) -> String {
    format!("Job {id} runs now.")
}

pub fn job_is_active(id: impl Display) -> String {
    format!("Job {id} is not paused.")
}

pub fn job_is_over(id: impl Display) -> String {
    format!("Job {id} is not due any more; give it another time.")
}

pub fn job_not_active(id: impl Display) -> String {
    format!("Job {id} is paused or done; resume it, or give it another time, first.")
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
pub enum RunWords<'a> {
    /// The words of a model, a command or a person.
    Theirs(&'a str),
    /// A sentence of the bot's own, in which others' words may be escaped already.
    Ours(&'a str),
}

/// Due times with whether they came late, state and words; the newest first.
pub fn history<'a>(
    id: impl Display,
    runs: impl Iterator<Item = (String, bool, &'a str, RunWords<'a>)>,
) -> String {
    let mut text = String::new();
    for (due, late, state, words) in runs {
        let late = if late { ", late" } else { "" };
        let _ = write!(text, "{due} {state}{late}");
        let words = match words {
            RunWords::Theirs(words) => shortened(words, WORDS_CHARS_MAX),
            RunWords::Ours(words) => shortened(&unescaped(words), WORDS_CHARS_MAX),
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
pub const NO_OWNER_PLACE: &str = "No owner has written to me in private yet.";

pub const WORDS_FOR_FILE: &str =
    "The file could not be sent; words that say why were delivered in its place.";

pub fn not_delivered(reason: &str) -> String {
    format!("It could not be delivered: {}.", as_is(reason))
}

pub fn not_delivered_yet(reason: &str) -> String {
    let reason = if reason.is_empty() { "nobody was there to take it" } else { reason };
    format!("It is not delivered yet: {}. I go on trying while I run.", as_is(reason))
}

pub fn too_long_to_send(bytes_max: usize) -> String {
    format!("A text has at most {bytes_max} bytes; send the rest as a file.")
}

pub fn too_many_to_send(files_max: usize) -> String {
    format!("At most {files_max} files can be sent at once.")
}

pub fn unreadable_file(name: &dyn Display, reason: &dyn Display) -> String {
    format!("I can't read {}: {}.", as_is(name), as_is(reason))
}

// What comes of jobs.

/// Something that was promised once and comes too late.
pub fn late_job(due: DateTime<Tz>, words: &str) -> String {
    let due = due.format("%a %Y-%m-%d %H:%M");
    format!("(This was due on {due}; I was not running then.)\n{words}")
}

pub fn job_failed(id: i64, about: &str, reason: &str) -> String {
    let about = shortened(about, ABOUT_CHARS_MAX);
    format!("Job {id} ({about}) could not be done, and I don't try again by myself. {reason}")
}

pub fn job_fails(id: i64, about: &str, times: u32, reason: &str) -> String {
    let about = shortened(about, ABOUT_CHARS_MAX);
    format!(
        "Job {id} ({about}) has failed {times} times in a row: {reason}\n\
         I go on trying, with longer pauses; /jobs pause {id} ends that."
    )
}

pub fn job_paused_itself(id: i64, about: &str, times: u32, reason: &str) -> String {
    let about = shortened(about, ABOUT_CHARS_MAX);
    format!(
        "Job {id} ({about}) has failed {times} times in a row, so I have paused it: {reason}\n\
         /jobs resume {id} lets it go on."
    )
}

pub fn failed_too_often(times: u32) -> String {
    format!("failed {times} times in a row")
}

pub const JOB_CUT_OFF: &str =
    "It was interrupted by a restart three times, and was given up; what it had done is done.";
pub const JOB_BROKE: &str = "Something broke inside me; it is in my log.";

pub fn job_interrupted(id: i64, about: &str) -> String {
    let about = shortened(about, ABOUT_CHARS_MAX);
    format!("Job {id} ({about}) was interrupted, and is not done again until it is due next.")
}

pub fn job_of_nobody(id: impl Display, about: &str, person: impl Display) -> String {
    let (about, person) = (shortened(about, ABOUT_CHARS_MAX), as_is(person));
    format!(
        "Job {id} ({about}) is {person}'s, who may not use me any more, so I have paused it. \
         /jobs resume {id} once they may, or /jobs rm {id}."
    )
}

pub fn clock_is_wrong(now: DateTime<Utc>) -> String {
    let now = now.format("%Y-%m-%d %H:%M");
    format!("My clock shows {now} UTC, which can't be right. Jobs wait until it is set.")
}
