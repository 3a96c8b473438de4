//! docs/commands.md: made from the table of commands and the verbs of jobs, and as committed.

use std::fs;
use std::path::Path;

use peacrab::people::Role;
use peacrab::types::commands::{COMMANDS, CommandRoles};
use peacrab::types::job_verb::JobVerb;

const PAGE: &str = "docs/commands.md";

const INTRODUCTION: &str = "# Commands in chat

This page is made from the table in `src/types/commands/table.rs`; the tests check that it is current.

Send a command as a message. Upper and lower case are the same. In Slack, write `/peacrab stop`, or `!stop` in
threads. Commands are answered at once, even while a turn runs, unless the table says otherwise. `/model`, `/think`
and `/queue` hold for the conversation until `/new`, and reach a running turn at its next step.

| command | what it does | who may use it |
|---|---|---|
";

const JOBS: &str = "
## Verbs of jobs

`/jobs`, `peacrab cron` and the tool `schedule` share these verbs. In chat, a new job is written as
`/jobs add WHEN | WHAT`. Write `message` instead of `add` to send the text as it is, or `command` to run a shell
command. `/jobs check NUMBER COMMAND` sets the command that runs before a job's prompt.

| verb | what it does | in chat | command line |
|---|---|---|---|
";

#[test]
fn the_committed_page_is_made_from_the_table() {
    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGE);
    let made = page();
    if fs::read_to_string(&committed).unwrap_or_default() != made {
        let fresh = Path::new(env!("CARGO_TARGET_TMPDIR")).join("commands.md");
        fs::write(&fresh, made).unwrap();
        panic!("{PAGE} is not current: cp {} {}", fresh.display(), committed.display());
    }
}

fn page() -> String {
    let mut page = INTRODUCTION.to_owned();
    for spec in COMMANDS {
        let usage = format!("{} {}", spec.name, spec.arguments);
        page += &row(&[&code(&format!("/{}", usage.trim())), spec.details, who(spec.allowed)]);
    }
    page += JOBS;
    for verb in JobVerb::ALL {
        let number = if verb.takes_only_a_number() { " NUMBER" } else { "" };
        let in_chat = match verb {
            JobVerb::Add => code("/jobs add WHEN | WHAT"),
            JobVerb::Edit => "–".to_owned(),
            verb => code(&format!("/jobs {}{number}", verb.name())),
        };
        let number = if verb == JobVerb::Edit { " NUMBER" } else { number };
        let options = if matches!(verb, JobVerb::Add | JobVerb::Edit) { " …" } else { "" };
        let command_line = code(&format!("peacrab cron {}{number}{options}", verb.name()));
        page += &row(&[&code(verb.name()), verb.description(), &in_chat, &command_line]);
    }
    page
}

fn row(cells: &[&str]) -> String {
    format!("| {} |\n", cells.join(" | "))
}

fn code(text: &str) -> String {
    format!("`{}`", text.replace('|', "\\|"))
}

fn who(allowed: CommandRoles) -> &'static str {
    match (allowed.in_private, allowed.in_groups) {
        (Role::Guest, Some(Role::Admin)) => "everybody; in groups admins",
        (Role::Guest, _) => "everybody",
        (Role::User, Some(Role::Admin)) => "users; in groups admins",
        (Role::User, _) => "users",
        (Role::Admin, _) => "admins",
        (Role::Owner, Some(_)) => "the owner",
        (Role::Owner, None) => "the owner, in private",
    }
}
