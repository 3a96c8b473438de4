//! The terminal's side of the control socket: connects, asks, talks. The daemon's own terminal is the same, over a
//! pipe in memory.

mod editor;
mod history;
mod screen;
mod talking;

use std::io::{IsTerminal, Read as _, stdin, stdout};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use chrono::Utc;
use chrono_tz::Tz;
use rusqlite::Connection;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, BufReader};
use tokio::net::UnixStream;
use tokio::time::{sleep, timeout};

use super::invocation::Invocation;
use super::print;
use super::shell_words::in_shell;
use crate::backup::restore;
use crate::channels::markup::unescaped;
use crate::config::{self, Environment, TERMINAL};
use crate::control::listing::{self, Listing};
use crate::control::{
    self, ChatLine, ControlRequest, ControlServer, MESSAGE_BYTES_MAX, Response, Status,
};
use crate::conversation::actions::{Action, ActionReader, ActionScope};
use crate::conversation::ledger::breakdown::describe_usage;
use crate::people::persons::PersonAccount;
use crate::people::{self, LOCAL, People};
use crate::provider::rehearsal;
use crate::replies::RESTORE_CUT_OFF;
use crate::store::{self, HomeLock, LockHolder};
use crate::tasks::schedule;
use talking::send;
pub(super) use talking::{ChatEnd, ChatOptions};

/// Time for a daemon to show its state: the longest that it takes by itself (`STATUS_TIME_MAX`), and a little more.
const STATUS_ANSWER_MAX: Duration = Duration::from_secs(15);

/// Time for reads and changes of the store. Work on the whole database, for which they wait, takes minutes.
const STORE_ANSWER_MAX: Duration = Duration::from_secs(600);

/// Time for a message to be delivered: the longest that the daemon waits for one with files, and a little more.
const SEND_ANSWER_MAX: Duration = Duration::from_secs(345);

/// Time for all models and platforms to be tried at the same time: that of a model on a small board, twice.
const DOCTOR_ANSWER_MAX: Duration = Duration::from_secs(180);

/// Silence after which a daemon is asked for its state. Most answers come earlier.
const SILENCE_MAX: Duration = Duration::from_secs(1);

/// Bytes that may be under way in the pipe.
const PIPE_BYTES: usize = 64 * 1024;

/// The greeting of the daemon's own terminal.
const HELLO: &str = "Peacrab is running. Type a message, or /help. Ctrl-C stops the current work, Ctrl-C twice exits, \
                     Ctrl-D ends this conversation only.";

/// The line after the end of the conversation at the daemon's own terminal.
fn daemon_goes_on(program: &str) -> String {
    format!(
        "This conversation has ended, and Peacrab goes on. Ctrl-C exits; `{program} chat` in another terminal starts a new one."
    )
}

/// The command by which the daemon of a home is started.
pub(super) fn start_command(home: &Path) -> String {
    format!("`{} run`", config::program(home, &Environment::of_process()))
}

/// Why there is nothing to list or to change.
pub(super) fn no_data(home: &Path) -> anyhow::Error {
    anyhow!("there is no data in this home yet; start the daemon with {}", start_command(home))
}

/// The lines before the greeting where neither a model nor a platform is set up.
fn nothing_set_up(program: &str) -> String {
    format!(
        "Nothing is set up yet, so rehearsal answers by fixed rules. To set up a model and a chat platform, end this and run:\n\
         {program} init"
    )
}

/// Returns the message to say at once: the option's text, or the whole standard input. None if somebody talks.
pub(super) fn message_to_say(option: Option<String>) -> anyhow::Result<Option<ChatLine>> {
    match option {
        Some(say) if say != "-" => Ok(Some(ChatLine { say, piped: false })),
        None if stdin().is_terminal() => Ok(None),
        _ => {
            let mut read = String::new();
            // One more than fits, which is then refused with an explanation.
            let most = MESSAGE_BYTES_MAX as u64 + 1;
            stdin().take(most).read_to_string(&mut read).context("cannot read what to say")?;
            let say = read.trim_end().to_owned();
            // Somebody who redirects their keyboard has written it.
            Ok(Some(ChatLine { say, piped: !stdin().is_terminal() }))
        }
    }
}

/// Returns the last actions: from the daemon, or where none runs, from the store.
pub(super) async fn actions(home: &Path, limit: usize) -> anyhow::Result<Vec<Action>> {
    if connect(home).await?.is_none() {
        let limit = limit.clamp(1, control::ACTIONS_MAX);
        let read = |store: &_| listed_actions(store, limit);
        return store::read_offline(home, read)?.ok_or_else(|| no_data(home));
    }
    match ask(home, &ControlRequest::Actions { limit }).await? {
        Response::Actions(actions) => Ok(actions),
        _ => bail!("the daemon's answer is unexpected: if it runs another version, restart it"),
    }
}

/// Reads the last actions. Without the config, the owner is the account of their last private message.
fn listed_actions(store: &Connection, limit: usize) -> rusqlite::Result<Vec<Action>> {
    let owner = people::owner(store)?;
    let owner =
        owner.and_then(|(at, sender)| Some(PersonAccount { channel: at.channel, sender: sender? }));
    let local = PersonAccount { channel: TERMINAL.into(), sender: LOCAL.into() };
    let accounts = owner.into_iter().chain([local]).collect();
    let reader = ActionReader { people: People::default(), accounts };
    reader.list(store, &ActionScope::ALL, None, limit)
}

/// Asks the running daemon one thing.
pub(super) async fn ask(home: &Path, request: &ControlRequest) -> anyhow::Result<Response> {
    let Some(stream) = connect(home).await? else {
        match HomeLock::holder(home) {
            Some(holder) => bail!("{}: {}", not_open_yet(&holder), open_advice(&holder)),
            None => {
                let cut_off = restore::is_unfinished(home).then(|| format!(" ({RESTORE_CUT_OFF})"));
                bail!(
                    "no daemon runs on {}{}: start it with {}",
                    home.display(),
                    cut_off.unwrap_or_default(),
                    start_command(home)
                )
            }
        }
    };
    let within = answer_time_max(request);
    let answer = async {
        let answered = timeout(within, ask_over(stream, request)).await;
        answered.unwrap_or_else(|_| Err(no_answer(home)))
    };
    match within <= STATUS_ANSWER_MAX {
        true => answer.await,
        false => while_alive(home, answer).await,
    }
}

/// Returns the longest time until the answer to a request.
fn answer_time_max(request: &ControlRequest) -> Duration {
    match request {
        ControlRequest::Status => STATUS_ANSWER_MAX,
        ControlRequest::Doctor => DOCTOR_ANSWER_MAX,
        ControlRequest::Send(_) => SEND_ANSWER_MAX,
        _ => STORE_ANSWER_MAX,
    }
}

/// Waits for an answer, but only while the daemon answers anything at all: one that is stopped or stuck accepts
/// connections and stays silent.
async fn while_alive<T>(
    home: &Path,
    answer: impl Future<Output = anyhow::Result<T>>,
) -> anyhow::Result<T> {
    let silence = async {
        sleep(SILENCE_MAX).await;
        let asked = async {
            if let Ok(Some(stream)) = connect(home).await {
                // An error is a sign of life, too.
                ask_over(stream, &ControlRequest::Status).await.ok();
            }
        };
        match timeout(STATUS_ANSWER_MAX, asked).await {
            Ok(()) => std::future::pending().await,
            Err(_) => no_answer(home),
        }
    };
    tokio::select! {
        biased;
        answered = answer => answered,
        error = silence => Err(error),
    }
}

fn no_answer(home: &Path) -> anyhow::Error {
    let process = HomeLock::last_holder(home).map(|pid| format!(" (process {pid})"));
    anyhow!(
        "the daemon{} does not answer. Its log may show why; restart it if it stays so",
        process.unwrap_or_default()
    )
}

/// Describes the process that has the home locked and has no socket.
pub(super) fn not_open_yet(holder: &LockHolder) -> String {
    match holder.awaits_space {
        true => format!("the daemon cannot start ({holder})"),
        false => format!("{holder} has the home locked, and cannot be asked"),
    }
}

/// Returns what to do about it.
pub(super) fn open_advice(holder: &LockHolder) -> &'static str {
    match holder.awaits_space {
        true => "free some space: the daemon goes on by itself, and nothing is lost",
        false => "it is a daemon that starts or ends, or another command: try again in a moment",
    }
}

/// The daemon of a home, as far as it can be asked.
pub(super) enum DaemonState {
    /// None runs.
    Absent,
    /// This process has the home locked, and no socket: a daemon that starts or ends, or another command.
    Starting(LockHolder),
    Answers(Box<Status>),
    /// One runs, or may run, and cannot be asked for this reason.
    Silent(String),
}

impl DaemonState {
    pub(super) fn status(&self) -> Option<&Status> {
        match self {
            Self::Answers(status) => Some(status),
            Self::Absent | Self::Starting(_) | Self::Silent(_) => None,
        }
    }
}

/// Asks the daemon of a home for its state.
pub(super) async fn daemon_state(home: &Path) -> DaemonState {
    match is_running(home).await {
        Ok(false) => {
            return HomeLock::holder(home).map_or(DaemonState::Absent, DaemonState::Starting);
        }
        Ok(true) => {}
        Err(error) => return DaemonState::Silent(format!("{error:#}")),
    }
    match status(home).await {
        Ok(status) => DaemonState::Answers(Box::new(status)),
        Err(error) => DaemonState::Silent(format!("{error:#}")),
    }
}

/// Asks the daemon that this process has opened one thing.
pub(super) async fn ask_in_memory(
    server: Arc<ControlServer>,
    request: &ControlRequest,
) -> anyhow::Result<Response> {
    let (ours, theirs) = tokio::io::duplex(PIPE_BYTES);
    let (answered, served) = tokio::join!(ask_over(ours, request), control::serve(&server, theirs));
    served?;
    answered
}

async fn ask_over(
    stream: impl AsyncRead + AsyncWrite,
    request: &ControlRequest,
) -> anyhow::Result<Response> {
    let (read, mut write) = tokio::io::split(stream);
    send(&mut write, request).await?;
    let line = BufReader::new(read).lines().next_line().await?;
    let line = line.context("the daemon closed the connection; see its log")?;
    let is_of_chat = is_answered_as_in_chat(request);
    // Jobs and heartbeats have texts of people, which are not ours to change.
    let has_texts =
        matches!(request, ControlRequest::Cron { .. } | ControlRequest::Heartbeat { .. });
    match serde_json::from_str(&line)? {
        Response::Failed(words) if is_of_chat => bail!(in_shell(&unescaped(&words))),
        Response::Failed(words) => bail!(words),
        Response::Done(words) if is_of_chat && has_texts => Ok(Response::Done(unescaped(&words))),
        Response::Done(words) if is_of_chat => Ok(Response::Done(in_shell(&unescaped(&words)))),
        response => Ok(response),
    }
}

/// Returns true if the daemon answers with the Markdown that a chat gets, which nothing renders on a command line.
fn is_answered_as_in_chat(request: &ControlRequest) -> bool {
    matches!(
        request,
        ControlRequest::Usage
            | ControlRequest::Pair { .. }
            | ControlRequest::Cron { .. }
            | ControlRequest::Heartbeat { .. }
            | ControlRequest::People { .. }
            | ControlRequest::Budget { .. }
    )
}

/// Returns what was used, in words; where no daemon runs, from the store.
pub(super) async fn usage(home: &Path, zone: Tz) -> anyhow::Result<String> {
    if connect(home).await?.is_none() {
        let midnight = schedule::midnight(Utc::now(), zone);
        let read = |store: &_| describe_usage(store, midnight, zone);
        let words = store::read_offline(home, read)?.ok_or_else(|| no_data(home))?;
        return Ok(unescaped(&words));
    }
    match ask(home, &ControlRequest::Usage).await? {
        Response::Done(words) => Ok(words),
        _ => bail!("the daemon's answer is unexpected: if it runs another version, restart it"),
    }
}

/// Returns a listing: of the running daemon, or where none runs, from the store.
pub(super) async fn listing(home: &Path, what: Listing, zone: Tz) -> anyhow::Result<Value> {
    if connect(home).await?.is_none() {
        let nobody = People::default();
        let read = |store: &_| listing::read(store, &nobody, what, zone);
        return store::read_offline(home, read)?.ok_or_else(|| no_data(home));
    }
    match ask(home, &ControlRequest::Listing { what }).await? {
        Response::Listing(listed) => Ok(listed),
        _ => bail!("the daemon's answer is unexpected: if it runs another version, restart it"),
    }
}

/// Asks the running daemon how it is.
pub(super) async fn status(home: &Path) -> anyhow::Result<Status> {
    match ask(home, &ControlRequest::Status).await? {
        Response::Status(status) => Ok(*status),
        _ => bail!("the daemon's answer is unexpected: if it runs another version, restart it"),
    }
}

/// Talks to the running daemon; false if none runs.
pub(super) async fn through_socket(options: &ChatOptions<'_>) -> anyhow::Result<bool> {
    match connect(&options.home).await? {
        None => Ok(false),
        Some(stream) => {
            let talk = Box::pin(talking::talk(stream, options));
            while_alive(&options.home, talk).await.map(|_| true)
        }
    }
}

/// Talks to the daemon that this process is.
pub(super) async fn through_memory(
    server: Arc<ControlServer>,
    options: &ChatOptions<'_>,
) -> anyhow::Result<ChatEnd> {
    let (ours, theirs) = tokio::io::duplex(PIPE_BYTES);
    tokio::select! {
        talked = talking::talk(ours, options) => talked,
        served = control::serve(&server, theirs) => Ok(served.map(|()| ChatEnd::Conversation)?),
    }
}

/// The daemon's own terminal: ends when somebody wants the daemon to end, by Ctrl-C while nothing
/// is being worked on. Never ends because there is nobody there.
pub(super) async fn run_own_terminal(server: Arc<ControlServer>, on: &Invocation) {
    if !has_own_terminal() {
        tracing::info!("There is no terminal to chat in. Use `{} chat`", on.program());
        tokio::signal::ctrl_c().await.ok();
        return;
    }
    if server.turns.models.default.name() == rehearsal::NAME && server.links.len() == 1 {
        print::line(&nothing_set_up(&on.program()));
    }
    print::line(HELLO);
    let (session, home, environment) = ("main".to_owned(), on.home.clone(), &on.environment);
    let options =
        ChatOptions { message: None, session, events: false, failed: "", home, environment };
    match through_memory(server, &options).await {
        Ok(ChatEnd::Interrupted) => return,
        Ok(ChatEnd::Conversation) => print::line(&daemon_goes_on(&on.program())),
        Err(error) => tracing::warn!(error = format!("{error:#}"), "Lost the terminal"),
    }
    tokio::signal::ctrl_c().await.ok();
}

/// Returns true if somebody may sit at the terminal in which this process runs.
pub(super) fn has_own_terminal() -> bool {
    // In the background of a shell, reading from its terminal would stop the whole daemon. A terminal whose group is
    // outside of this PID namespace is an error here; this process's group may be outside as well, and is not asked for.
    let foreground =
        rustix::termios::tcgetpgrp(stdin()).is_ok_and(|group| group == rustix::process::getpgrp());
    foreground && stdin().is_terminal() && stdout().is_terminal()
}

/// Returns true if a daemon runs there.
pub(super) async fn is_running(home: &Path) -> anyhow::Result<bool> {
    Ok(connect(home).await?.is_some())
}

async fn connect(home: &Path) -> anyhow::Result<Option<UnixStream>> {
    use std::io::ErrorKind::{ConnectionRefused, NotFound, WouldBlock};
    match control::connect(home).await {
        Ok(stream) => Ok(Some(stream)),
        Err(error) if matches!(error.kind(), NotFound | ConnectionRefused) => Ok(None),
        // Nobody accepts the connections that wait already.
        Err(error) if error.kind() == WouldBlock => Err(no_answer(home)),
        Err(error) => {
            Err(error).with_context(|| format!("cannot reach the daemon on {}", home.display()))
        }
    }
}
