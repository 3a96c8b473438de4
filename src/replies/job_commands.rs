//! Sentences about the commands of jobs: what they need, why there are none, and how they end.

use std::fmt::Display;

use super::jobs::{ABOUT_CHARS_MAX, short_line};
use super::{as_is, job_removed};

pub const JOB_HAS_NETWORK: &str = "with the network";
pub const NETWORK_OR_PATHS: &str = "A job's command has the network or sees files, not both. With the network it sees only a folder of its own.";
pub const NEEDS_WITHOUT_COMMAND: &str =
    "Only a job with a command or a check can have the network or paths.";

pub const UNASKED_WITHOUT_PROMPT: &str = "Only a job with a prompt, in a session of its own, can name tools and sites that it may use without approval.";

pub fn too_many_unasked(most: usize) -> String {
    format!("A job can name at most {most} tools and sites.")
}

pub fn wrong_unasked(name: &str) -> String {
    let name = short_line(name, ABOUT_CHARS_MAX);
    format!("\"{name}\" is neither the name of a tool nor a site. Write a site as example.org.")
}

/// A part of a list: `without approval: mcp_mail_send, example.org`.
pub fn job_unasked<'a>(names: impl Iterator<Item = &'a str>) -> String {
    format!("without approval: {}", short_names(names))
}

/// A part of a list: `sees downloads, notes/plan.md`.
pub fn job_sees<'a>(paths: impl Iterator<Item = &'a str>) -> String {
    format!("sees {}", short_names(paths))
}

fn short_names<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<_> = names.map(|name| short_line(name, ABOUT_CHARS_MAX)).collect();
    names.join(", ")
}

pub fn too_many_job_paths(most: usize) -> String {
    format!("A job's command can name at most {most} paths.")
}

pub fn wrong_job_path(why: &dyn Display) -> String {
    format!("I can't use this path: {}.", as_is(why))
}

pub fn job_state_full(id: impl Display, bytes_max: u64) -> String {
    format!(
        "The command of job {id} was not run: the files that it keeps take more than {} MB. Create the job again, \
         which deletes them.",
        bytes_max / 1_000_000
    )
}

// The reasons why there are none, as the rest of a sentence:

pub const NO_NETWORK_FOR_COMMANDS: &str =
    "commands have no network here ([exec] network in the config)";
pub const JOBS_NOT_OF_PERSONA: &str =
    "I can't make jobs here. /persona shows what I can do for you.";
pub const COMMANDS_NOT_OF_PERSONA: &str =
    "the persona has no shell commands here (/persona shows its tools)";
pub const COMMANDS_NOT_OFFERED: &str = "shell commands are not available here";
pub const COMMANDS_NOT_SANDBOXED: &str =
    "files can't be sandboxed on this machine, so jobs can't run commands";

pub fn commands_need(needs: impl Display, is: impl Display) -> String {
    format!("commands need the role {needs}, but this person has the role {is} there")
}

/// `shell` says how the shell is.
pub fn no_commands(shell: &str) -> String {
    format!("Not done: {COMMANDS_NOT_OFFERED}. {shell}")
}

pub fn no_command(why: &str) -> String {
    format!("Not done: {}.", as_is(why))
}

pub fn job_may_not_command(id: impl Display, about: &str, why: &str) -> String {
    let (about, why) = (short_line(about, ABOUT_CHARS_MAX), as_is(why));
    format!(
        "I didn't run the command of job {id} ({about}): {why}. I paused the job. Use /jobs resume {id} once \
         this is fixed, or /jobs rm {id} to remove it."
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

/// The author of a change that the command of a job made.
pub fn command_of_job(id: impl Display) -> String {
    format!("the command of job {id}")
}

/// Stands where the middle of an output was.
pub fn cut_out(bytes: u64) -> String {
    format!("[… shortened; {bytes} bytes in total …]")
}

pub const JOB_COMMAND_CUT_OFF: &str = "Its command was cut off when I stopped. I can't tell how much it had done, and I won't repeat it.";

/// `had_state` is true for a job with a state folder.
pub fn job_removed_with(id: impl Display, had_state: bool) -> String {
    let state = if had_state { " The files that its command kept are deleted." } else { "" };
    format!("{}{state}", job_removed(id))
}
