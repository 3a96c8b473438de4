//! The command line: what it understands, and where it leads. Only `cli` prints.

mod chat;
mod cron;
mod doctor;
mod explain;
mod print;
mod send;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use chrono::Utc;
use chrono_tz::Tz;
use clap::{Parser, Subcommand};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::agent;
use crate::config::{self, Config, Environment};
use crate::control::{ControlRequest, Response};
use crate::daemon::{self, logging};
use crate::daemon::{Daemon, Plan};
use crate::secret::Redactor;
use crate::store::OnFull;
use crate::tasks::heartbeat::Wish;
use crate::workspace::Workspace;
use crate::workspace::skills::SkillEnvironment;
use crate::{people, replies, store};

/// Files and name lookups: these threads are made when they are needed and go after a second. So
/// many that lookups which hang without a network keep no file waiting.
const BLOCKING_THREADS_MAX: usize = 32;

/// One task that blocks must not stop all channels.
const WORKERS: usize = 2;

/// A terminal's conversation for `undo`, so that nobody else's answers come between.
const UNDO_SESSION: &str = "undo";

/// What is wrong is the command line or the config, and starting again will not help.
const USED_WRONGLY: u8 = 2;

/// A small assistant that answers on your chat platforms and loses nothing.
#[derive(Parser)]
#[command(name = "peacrab", version)]
struct Cli {
    /// The folder with all data [default: $PEACRAB_HOME, or your data folder]
    #[arg(long, global = true)]
    home: Option<PathBuf>,
    /// The config file [default: config.toml in the home]
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Write the log as JSON lines
    #[arg(long, global = true)]
    log_json: bool,
    #[command(subcommand)]
    command: Option<CliCommand>,
}

#[derive(Subcommand)]
enum CliCommand {
    /// Run the daemon in the foreground (the default)
    Run,
    /// Chat with the bot in this terminal
    Chat {
        /// Send this message, print the answer and exit
        #[arg(short, long, value_name = "TEXT")]
        message: Option<String>,
        /// The conversation's name
        #[arg(long, default_value = "main", value_name = "NAME")]
        session: String,
        /// Show internal events too
        #[arg(short, long)]
        verbose: bool,
    },
    /// Check the config and show what would start
    Check,
    /// Test everything that a start needs: the config, the home, the sandbox of the shell
    Doctor,
    /// Show the state of the running daemon
    Status {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// List the last actions, newest first
    Actions {
        /// The number of actions
        #[arg(long, default_value_t = 20, value_name = "N")]
        limit: usize,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Undo a change of a file
    Undo {
        /// The number of the action, as `actions` shows it
        id: u64,
    },
    /// Show the tokens used, by provider
    Usage,
    /// List the skills, and what is missing for those that cannot be used
    Skills,
    /// Explain if a tool call would be allowed, and why
    Explain(explain::Explain),
    /// Send a message and wait until it is delivered
    Send {
        /// CHANNEL:CHAT, CHANNEL:CHAT:THREAD, or owner
        #[arg(long, value_name = "ADDRESS")]
        to: String,
        /// Attach this file; can be given several times
        #[arg(long, value_name = "PATH")]
        file: Vec<PathBuf>,
        /// Format the text as Markdown; without this it is sent as it is
        #[arg(long)]
        markdown: bool,
        /// The text; if there is none, and no file, it is read from standard input
        text: Option<String>,
    },
    /// Manage jobs, which run later, once or repeatedly
    #[command(subcommand)]
    Cron(cron::Cron),
    /// Show the heartbeat, turn it on or off, or run it now
    Heartbeat {
        #[arg(value_enum, default_value_t = Wish::Show)]
        wish: Wish,
    },
    /// Manage who can talk to the bot
    #[command(subcommand)]
    Pair(Pair),
}

#[derive(Subcommand)]
enum Pair {
    /// List open requests and paired people
    List,
    /// Approve a person by their code; the first one becomes the owner
    Approve {
        /// The code that the bot gave them
        code: String,
    },
    /// Decline a request by its code
    Deny {
        /// The code that the bot gave them
        code: String,
    },
    /// Remove a paired person
    Revoke {
        /// The channel's name in the config
        channel: String,
        /// Their id on the platform; `pair list` shows it
        id: String,
    },
}

/// Runs a command line: 0 done, 1 failed, 2 used wrongly; of `send` also 3 lost, 4 not arrived yet.
pub fn main(args: impl Iterator<Item = OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) => {
            error.print().ok();
            return ExitCode::from(u8::from(error.use_stderr()) * USED_WRONGLY);
        }
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .max_blocking_threads(BLOCKING_THREADS_MAX)
        .thread_keep_alive(std::time::Duration::from_secs(1))
        .enable_all()
        .build();
    let done = match &runtime {
        Ok(runtime) => runtime.block_on(Box::pin(obey(cli))),
        Err(error) => Err(anyhow::anyhow!("cannot start: {error}")),
    };
    // A terminal that is being read from would be waited for.
    runtime.map(tokio::runtime::Runtime::shutdown_background).ok();
    match done {
        Ok(code) => code,
        Err(error) => match error.downcast_ref() {
            Some(faults) => refuse(faults),
            None => {
                print::error(&format!("peacrab: {error:#}"));
                ExitCode::FAILURE
            }
        },
    }
}

async fn obey(cli: Cli) -> anyhow::Result<ExitCode> {
    let environment = Environment::of_process();
    let format = if cli.log_json { logging::Format::Json } else { logging::Format::Plain };
    let home = config::home(cli.home.clone(), &environment);
    let load = || config::load(&home, cli.config.as_deref(), &environment);
    match cli.command.unwrap_or(CliCommand::Run) {
        CliCommand::Run => {
            let config = prepare(load()?, &home, format, &environment)?;
            run(Plan::new(&home, config, &environment)?).await?;
        }
        CliCommand::Chat { message, session, verbose } => {
            let failed = "there was no answer; see the message above";
            let options = chat::ChatOptions { message, session, events: verbose, failed };
            talk(&home, &options, &environment, || prepare(load()?, &home, format, &environment))
                .await?;
        }
        CliCommand::Undo { id } => {
            let options = chat::ChatOptions {
                message: Some(format!("/undo {id}")),
                session: UNDO_SESSION.to_owned(),
                events: false,
                failed: "nothing was undone",
            };
            talk(&home, &options, &environment, || prepare(load()?, &home, format, &environment))
                .await?;
        }
        CliCommand::Actions { limit, json } => {
            let done = chat::actions(&home, limit).await?;
            print::line(&if json {
                serde_json::to_string_pretty(&done)?
            } else {
                let now = Utc::now().with_timezone(&owners_zone(&home, load()));
                let lines: Vec<_> = done.iter().map(|action| action.words(now)).collect();
                lines.join("\n")
            });
        }
        CliCommand::Doctor => return Ok(doctor::run(&home, &load())),
        CliCommand::Check => return Ok(check(&home, &load())),
        CliCommand::Status { json } => {
            let Response::Status(status) = chat::ask(&home, &ControlRequest::Status).await? else {
                anyhow::bail!("the daemon gave an answer of another kind");
            };
            print::line(&if json {
                serde_json::to_string_pretty(&status)?
            } else {
                print::status(&status)
            });
        }
        CliCommand::Usage => match chat::ask(&home, &ControlRequest::Usage).await? {
            Response::Done(words) => print::line(&words),
            _ => anyhow::bail!("the daemon gave an answer of another kind"),
        },
        CliCommand::Skills => {
            let workspace = Workspace::look(&home.join("workspace"), environment.surroundings())?;
            print::line(&workspace.off_thread(agent::skills_words).await);
        }
        CliCommand::Explain(explain) => {
            let config = load()?;
            let asking = config.agent.asking.clone();
            let plan = Plan::new(&home, config, &environment)?;
            print::line(&explain.words(&plan.tools, &asking)?);
        }
        CliCommand::Send { to, file, markdown, text } => {
            let parcel = send::parcel(to, file, text, markdown)?;
            if let Some(sent) = send::through_socket(&home, &parcel).await? {
                return Ok(send::tell(&sent));
            }
            let config = prepare(load()?, &home, format, &environment)?;
            let daemon = Daemon::open(Plan::new(&home, config, &environment)?).await?;
            return Ok(send::tell(&daemon.send(parcel).await?));
        }
        CliCommand::Cron(cron) => {
            cron::obey(&home, cron, owners_zone(&home, load())).await?;
        }
        CliCommand::Heartbeat { wish } => {
            match chat::ask(&home, &ControlRequest::Heartbeat { wish }).await? {
                Response::Done(words) => print::line(&words),
                _ => anyhow::bail!("the daemon gave an answer of another kind"),
            }
        }
        CliCommand::Pair(pair) => {
            match chat::ask(&home, &ControlRequest::Pair { words: pair.words() }).await? {
                Response::Done(words) => print::line(&words),
                Response::Failed(words) => anyhow::bail!(words),
                _ => anyhow::bail!("the daemon gave an answer of another kind"),
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Talks to the daemon; where none runs, to one without other channels for as long as this lasts.
async fn talk(
    home: &Path,
    options: &chat::ChatOptions,
    environment: &Environment,
    load: impl FnOnce() -> anyhow::Result<Config>,
) -> anyhow::Result<()> {
    if chat::through_socket(home, options).await? {
        return Ok(());
    }
    let mut config = load()?;
    config.channels.clear();
    let daemon = Daemon::open(Plan::new(home, config, environment)?).await?;
    let server = daemon.control_server();
    let stop = CancellationToken::new();
    let talk = async {
        let talked = tokio::select! {
            talked = chat::through_memory(server, options) => talked,
            () = stop.cancelled() => Ok(()),
        };
        stop.cancel();
        talked
    };
    let (ran, talked) = tokio::join!(run_until_end(daemon, &stop, || {}), talk);
    ran?;
    talked
}

impl Pair {
    fn words(&self) -> Vec<String> {
        let words: &[&str] = match self {
            Self::List => &["list"],
            Self::Approve { code } => &["approve", code],
            Self::Deny { code } => &["deny", code],
            Self::Revoke { channel, id } => &["revoke", channel, id],
        };
        words.iter().map(|word| (*word).to_owned()).collect()
    }
}

/// Begins to log, now that the secrets are known that must not be in it.
fn prepare(
    config: Config,
    home: &Path,
    format: logging::Format,
    environment: &Environment,
) -> anyhow::Result<Config> {
    rustls::crypto::ring::default_provider().install_default().ok();
    keep_to_ourselves();
    let redactor = Redactor::new(config.secrets());
    logging::init(format, redactor, environment)?;
    warnings(&config, home).iter().for_each(|warning| tracing::warn!("{warning}"));
    Ok(config)
}

/// Nobody else of this account reads our memory, nor is it written down when we crash: secrets are in it.
fn keep_to_ourselves() {
    if let Err(error) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
        tracing::warn!(%error, "Other programs of this account can read the memory of this process");
    }
}

/// The owner's time zone as the daemon knows it: of the config, of USER.md, or of this machine.
fn owners_zone(home: &Path, loaded: Result<Config, config::ConfigErrors>) -> Tz {
    let workspace = Workspace::look(&home.join("workspace"), SkillEnvironment::default());
    let path = daemon::USER.parse();
    let user = workspace.ok().zip(path.ok()).and_then(|(it, path)| it.read_text(&path).ok()?);
    let agent = loaded.map(|config| config.agent).unwrap_or_default();
    agent.zone(&user.unwrap_or_default())
}

fn warnings(config: &Config, home: &Path) -> Vec<String> {
    let paired = store::look(home, people::paired).unwrap_or_default();
    config.warnings(&paired)
}

/// The daemon: until a signal, with a terminal of its own if there is one.
async fn run(mut plan: Plan) -> anyhow::Result<()> {
    plan.store.on_full = OnFull::Wait;
    let daemon = Daemon::open(plan).await?;
    let stop = CancellationToken::new();
    let mut terminate = signal(SignalKind::terminate()).context("cannot watch for signals")?;
    let mut hangup = signal(SignalKind::hangup()).context("cannot watch for signals")?;
    let server = daemon.control_server();
    let until = stop.clone();
    let (ready, runs) = oneshot::channel();
    let own_terminal = async move {
        runs.await.ok();
        chat::own_terminal(server).await;
    };
    let signals = async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
            () = own_terminal => {}
            () = until.cancelled() => {}
        }
        sd_notify::notify(&[sd_notify::NotifyState::Stopping]).ok();
        until.cancel();
    };
    let ready = || {
        ready.send(()).ok();
        // Fails where no systemd listens, which is fine.
        sd_notify::notify(&[sd_notify::NotifyState::Ready]).ok();
    };
    let (ran, ()) = tokio::join!(run_until_end(daemon, &stop, ready), signals);
    ran
}

/// Runs the daemon; when it ends by itself, `stop` tells those beside it.
async fn run_until_end(
    daemon: Daemon,
    stop: &CancellationToken,
    ready: impl FnOnce(),
) -> anyhow::Result<()> {
    let ran = Box::pin(daemon.run(stop.clone(), ready)).await;
    stop.cancel();
    ran
}

fn check(home: &Path, loaded: &Result<Config, config::ConfigErrors>) -> ExitCode {
    match loaded {
        Ok(config) => {
            print::line(&format!("home: {}", home.display()));
            print::line(&config.describe());
            let warnings = warnings(config, home);
            warnings.iter().for_each(|warning| print::line(&format!("warning: {warning}")));
            match config.exposed(home) {
                None => ExitCode::SUCCESS,
                Some(exposure) if exposure.is_by_system => {
                    print::line(&format!("warning: {}", replies::shell_refused(&exposure.words)));
                    ExitCode::SUCCESS
                }
                Some(exposure) => {
                    print::error(&exposure.words);
                    ExitCode::from(USED_WRONGLY)
                }
            }
        }
        Err(faults) => refuse(faults),
    }
}

/// Says all that is wrong with the config.
fn refuse(faults: &config::ConfigErrors) -> ExitCode {
    print::error(&faults.to_string());
    ExitCode::from(USED_WRONGLY)
}
