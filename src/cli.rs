//! The command line: what it understands, and where it leads. Only `cli` prints. Not here: the work itself, which
//! is in the module of its subject or in the daemon.

mod arguments;
mod chat;
mod check;
mod cron;
mod dialog;
mod doctor;
mod explain;
pub mod file_settings;
mod help;
pub mod import;
mod init;
mod interrupts;
mod invocation;
mod backup_commands;
mod manual;
mod pair;
mod print;
pub mod progress;
mod run;
mod send;
mod sessions;
mod undo;
mod usage;
pub mod service;
mod service_environment;
pub mod shell_words;
mod systemd;
mod talk;
mod update;
mod web;

use std::ffi::OsString;
use std::process::ExitCode;

use chrono::Utc;
use clap::{ArgMatches, CommandFactory as _, FromArgMatches as _};
use serde_json::json;

use crate::agent::{self, BudgetCommand, PeopleCommand};
use crate::channels::markup::unescaped;
use crate::config::{self, Environment};
use crate::control::listing::Listing;
use crate::control::{ControlRequest, Response};
use crate::daemon::logging;
use crate::replies;
use crate::tasks::heartbeat::HeartbeatRequest;
use crate::types::commands::CommandId;
use crate::workspace::Workspace;
use arguments::{Cli, CliCommand};
use chat::ChatOptions;
use init::InitOptions;
use invocation::{Invocation, done, shown};
use print::ResultForm;
use shell_words::in_shell;
use talk::{ask_command, talk};

/// Files and name lookups: these threads are made when they are needed and go after a second. So
/// many that lookups which hang without a network keep no file waiting.
const BLOCKING_THREADS_MAX: usize = 32;

/// One task that blocks must not stop all channels.
const WORKERS: usize = 2;

/// Exit code for a wrong command line or config: starting again will not help.
const USED_WRONGLY: u8 = 2;

/// Runs a command line: 0 done, 1 failed, 2 used wrongly; of `send` also 3 lost, 4 not arrived yet; of `chat` 130 stopped.
pub fn main(args: impl Iterator<Item = OsString>) -> ExitCode {
    let (mut cli, form) = match parse(&args.collect::<Vec<_>>()) {
        Ok(parsed) => parsed,
        Err(error) if error.use_stderr() => {
            help::show(&error);
            return ExitCode::from(USED_WRONGLY);
        }
        // The help, or the version.
        Err(asked) => {
            help::show(&asked);
            return with_output(ExitCode::SUCCESS);
        }
    };
    let command = cli.command.take();
    let on = surroundings(cli);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .max_blocking_threads(BLOCKING_THREADS_MAX)
        .thread_keep_alive(std::time::Duration::from_secs(1))
        .enable_all()
        .build();
    let done = match &runtime {
        Ok(runtime) => runtime.block_on(Box::pin(handle(&on, command))),
        Err(error) => Err(anyhow::anyhow!("cannot start: {error}")),
    };
    // A terminal that is being read from would be waited for.
    runtime.map(tokio::runtime::Runtime::shutdown_background).ok();
    match done {
        Ok(code) => with_output(code),
        Err(error) => fail(&on, &error, form),
    }
}

/// Reads a command line. Returns also the form in which it wants the result.
fn parse(args: &[OsString]) -> Result<(Cli, ResultForm), clap::Error> {
    let matches = match Cli::command().try_get_matches_from(args) {
        Err(error) if error.use_stderr() => {
            help::with_whole_usage(Cli::command()).try_get_matches_from(args)?
        }
        parsed => parsed?,
    };
    let cli = Cli::from_arg_matches(&matches);
    let cli = cli.map_err(|error| error.format(&mut Cli::command()))?;
    Ok((cli, ResultForm::of(is_json(&matches))))
}

/// Returns true if a command has the option `--json`.
fn is_json(matches: &ArgMatches) -> bool {
    let is_here = matches.try_get_one::<bool>("json").ok().flatten().is_some_and(|json| *json);
    is_here || matches.subcommand().is_some_and(|(_, below)| is_json(below))
}

/// Says why a command failed; to a script also on the standard output, if the command has shown nothing there.
fn fail(on: &Invocation, error: &anyhow::Error, form: ResultForm) -> ExitCode {
    let faults = error.downcast_ref::<config::ConfigErrors>();
    if form == ResultForm::Json && !print::has_shown() {
        let words = faults.map_or_else(|| format!("{error:#}"), ToString::to_string);
        print::json(&json!({ "error": on.name_commands(&words) }));
    }
    if let Some(faults) = faults {
        return refuse(on, faults);
    }
    print::failure_words(&on.name_commands(&format!("peacrab: {error:#}")));
    match error.is::<WrongWords>() {
        true => ExitCode::from(USED_WRONGLY),
        false => ExitCode::FAILURE,
    }
}

/// Words of a command line that its command does not know. The text says which it takes.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct WrongWords(String);

/// Returns the exit code of a command that was carried out: that of a failure if its output was lost.
fn with_output(code: ExitCode) -> ExitCode {
    let Some(error) = print::failure() else { return code };
    print::error(&format!("peacrab: cannot write the output: {error}"));
    ExitCode::FAILURE
}

/// Returns the invocation that the general options describe.
fn surroundings(cli: Cli) -> Invocation {
    let environment = Environment::of_process();
    let format = if cli.log_json { logging::Format::Json } else { logging::Format::Plain };
    let home = config::home(cli.home, &environment);
    let config = cli.config.map(config::absolute);
    Invocation { home, config, environment, format }
}

async fn handle(on: &Invocation, command: Option<CliCommand>) -> anyhow::Result<ExitCode> {
    if let Some(command) = command {
        return Box::pin(carry_out(on, command)).await;
    }
    match init::is_wanted(on).await? {
        true => Box::pin(init::run(on, &InitOptions::default())).await,
        false => run::run(on).await,
    }
}

async fn carry_out(on: &Invocation, command: CliCommand) -> anyhow::Result<ExitCode> {
    let Invocation { home, environment, .. } = on;
    check_words(on, &command)?;
    match command {
        CliCommand::Run => return run::run(on).await,
        CliCommand::Reload { json } => {
            let asked = chat::ask(home, &ControlRequest::Reload { json }).await;
            print::line(&asked.and_then(shown)?);
        }
        CliCommand::Chat { message, session, verbose } => {
            let is_piped = message.is_none();
            let message = chat::message_to_say(message)?;
            if !(is_piped && message.as_ref().is_some_and(|message| message.say.is_empty())) {
                let (home, failed) = (home.clone(), "there was no answer; see the message above");
                let (events, is_silent) = (verbose, false);
                let options =
                    ChatOptions { message, session, events, failed, is_silent, home, environment };
                return talk(on, &options).await;
            }
        }
        CliCommand::Undo(asked) => return undo::handle(on, asked).await,
        CliCommand::Why { what, json: true } => {
            print::line(&shown(on.ask(&ControlRequest::Why { what }).await?)?);
        }
        CliCommand::Why { what, json: false } => {
            if !chat::is_reached(home).await? {
                on.refuse_unmigrated()?;
            }
            let (command, failed) = (CommandId::Why.line(what), "nothing was explained");
            return ask_command(on, command, failed, ResultForm::Words).await;
        }
        CliCommand::Status { json } => return show_status(on, json).await,
        CliCommand::Doctor { fix, json } => return doctor::run(on, fix, json).await,
        CliCommand::Init(options) => return Box::pin(init::run(on, &options)).await,
        CliCommand::Backup { file, json } => {
            return backup_commands::back_up(on, file, ResultForm::of(json));
        }
        CliCommand::Restore { file, replace, json } => {
            backup_commands::restore(on, &file, replace, ResultForm::of(json))?;
        }
        CliCommand::Service(command) => return service::handle(on, command).await,
        CliCommand::Import { bot, path, json } => {
            import::import(on, bot, &path, ResultForm::of(json))?;
        }
        CliCommand::Update(asked) => update::handle(on, &asked).await?,
        CliCommand::Completions { shell } => manual::completions(shell),
        CliCommand::Man { folder } => manual::pages(&folder)?,
        CliCommand::Check { json } => {
            let daemon = chat::daemon_state(home).await;
            return Ok(check::check(on, &daemon, ResultForm::of(json)));
        }
        CliCommand::Explain(explain) => {
            let config = on.load()?;
            let asking = config.agent.asking.clone();
            print::line(&explain.shown(&on.plan(config)?.tools, &asking)?);
        }
        CliCommand::Send { to, file, markdown, json, text } => {
            let request = send::request(to, file, text, markdown)?;
            return send::handle(on, request, ResultForm::of(json)).await;
        }
        CliCommand::Cron(cron) => cron::handle(on, cron).await?,
        CliCommand::Heartbeat { wish, json } => {
            print::line(&shown(on.ask(&ControlRequest::Heartbeat { wish, json }).await?)?);
        }
        CliCommand::Sessions { command, json } => sessions::handle(on, command, json).await?,
        CliCommand::Web(web) => print::line(&web.handle(on).await?),
        CliCommand::People { mut words, purge, json: false } => {
            words.extend(purge.then(|| "purge".to_owned()));
            print::line(&done(on.ask(&ControlRequest::People { words }).await?)?);
        }
        CliCommand::Budget { words, json } => {
            print::line(&shown(on.ask(&ControlRequest::Budget { words, json }).await?)?);
        }
        CliCommand::Pair(pair) => pair::handle(on, pair).await?,
        lists => list(on, lists).await?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns an error for words that a command does not know, before anybody is asked.
fn check_words(on: &Invocation, command: &CliCommand) -> Result<(), WrongWords> {
    // The words are those of a chat.
    let refused = |usage: &str| Err(WrongWords(in_shell(&unescaped(usage), &on.program())));
    match command {
        CliCommand::People { words, purge, .. } => {
            let words = words.iter().map(String::as_str).chain(purge.then_some("purge"));
            match PeopleCommand::parse(words) {
                Some(_) => Ok(()),
                None => refused(replies::PEOPLE_USAGE),
            }
        }
        CliCommand::Budget { words, .. } => {
            match BudgetCommand::parse(words.iter().map(String::as_str)) {
                Some(_) => Ok(()),
                None => refused(replies::BUDGET_USAGE.trim_start()),
            }
        }
        CliCommand::Heartbeat { wish, json: true } if *wish != HeartbeatRequest::Show => {
            let words = "--json shows the heartbeat, and cannot be given with an order";
            Err(WrongWords(words.to_owned()))
        }
        _ => Ok(()),
    }
}

/// Shows the state of the daemon. Fails if it is unhealthy, for a health check.
async fn show_status(on: &Invocation, json: bool) -> anyhow::Result<ExitCode> {
    let mut status = chat::status(&on.home).await?;
    status.config_warnings = check::count_warnings(on);
    match json {
        true => print::line(&serde_json::to_string_pretty(&status)?),
        false => print::wrapped("", &on.name_commands(&print::status(&status))),
    }
    Ok(if status.health.is_well() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The commands that only show something, as words or as JSON.
async fn list(on: &Invocation, command: CliCommand) -> anyhow::Result<()> {
    let home = &on.home;
    print::line(&match command {
        CliCommand::Actions { limit, json: true } => {
            serde_json::to_string_pretty(&chat::actions(home, limit).await?)?
        }
        CliCommand::Actions { limit, .. } => {
            let done = chat::actions(home, limit).await?;
            let now = Utc::now().with_timezone(&on.owners_zone());
            done.iter().map(|action| action.describe(now)).collect::<Vec<_>>().join("\n")
        }
        CliCommand::People { .. } => {
            let asked = on.ask(&ControlRequest::Listing { what: Listing::People }).await?;
            let Response::Listing(listed) = asked else {
                anyhow::bail!(
                    "the daemon's answer is unexpected: if it runs another version, restart it"
                );
            };
            serde_json::to_string_pretty(&listed)?
        }
        CliCommand::Memory { json } => {
            let asked = on.ask(&ControlRequest::Listing { what: Listing::Facts }).await?;
            let Response::Listing(listed) = asked else {
                anyhow::bail!(
                    "the daemon's answer is unexpected: if it runs another version, restart it"
                );
            };
            if json { serde_json::to_string_pretty(&listed)? } else { print::facts(&listed) }
        }
        CliCommand::Usage(asked) => usage::show(home, &asked, on.owners_zone()).await?,
        CliCommand::Skills { json } => {
            let skill_environment = on.environment.skill_environment();
            let workspace = Workspace::open_read_only(&home.join("workspace"), skill_environment)?;
            let words = if json { agent::skills_json } else { agent::skills_text };
            let words = workspace.run_blocking(words).await;
            if json { words } else { unescaped(&words) }
        }
        _ => anyhow::bail!("this command shows nothing"),
    });
    Ok(())
}

/// Says all that is wrong with the config.
fn refuse(on: &Invocation, faults: &config::ConfigErrors) -> ExitCode {
    print::failure_words(&on.name_commands(&faults.to_string()));
    ExitCode::from(USED_WRONGLY)
}
