//! The terminal's side of the control socket: connects, asks, talks. The daemon's own terminal is the same, over a
//! pipe in memory.

mod connecting;
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
use tokio::time::{Instant, sleep, timeout};

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
use crate::daemon::starts;
use crate::people::persons::PersonAccount;
use crate::people::{self, LOCAL, People};
use crate::provider::rehearsal;
use crate::replies;
use crate::store::{self, HomeLock, LockHolder};
use crate::tasks::schedule;
use connecting::{AWAY_TIME_MAX, LOOK_AGAIN, connect, no_answer, reach};
pub(super) use connecting::{LostConnection, not_open_yet, open_advice};
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

/// The paragraph before the greeting where neither a model nor a platform is set up. The command stands in a line of its
/// own, to be copied.
const NOTHING_SET_UP: &str = "Nothing is set up yet, so rehearsal answers by fixed rules. To set up a model and a chat \
                              platform, end this and run:";

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

/// Asks the running daemon one thing, and waits for one that reloads or restarts. Asks again if it ends before it has
/// answered, unless the request may have been carried out.
pub(super) async fn ask(home: &Path, request: &ControlRequest) -> anyhow::Result<Response> {
    let until = Instant::now() + AWAY_TIME_MAX;
    loop {
        let Some(stream) = reach(home).await? else { return Err(not_there(home)) };
        let error = match ask_once(home, stream, request).await {
            Ok(response) => return Ok(response),
            Err(error) => error,
        };
        let can_ask_again = match error.downcast_ref::<LostConnection>() {
            Some(LostConnection::NotTaken) => true,
            Some(LostConnection::Unanswered) => request.is_repeatable(),
            None => false,
        };
        if !can_ask_again || Instant::now() >= until {
            return Err(error);
        }
        sleep(LOOK_AGAIN).await;
    }
}

/// Explains why no daemon can be asked at this moment.
fn not_there(home: &Path) -> anyhow::Error {
    match HomeLock::holder(home) {
        Some(holder) => anyhow!("{}: {}", not_open_yet(&holder), open_advice(&holder)),
        None if starts::has_damage(home) => {
            anyhow!("no daemon runs on {}: {}", home.display(), replies::LAST_START_FOUND_DAMAGE)
        }
        None => {
            let cut_off = Some(format!(" ({})", replies::RESTORE_CUT_OFF));
            let cut_off = cut_off.filter(|_| restore::is_unfinished(home)).unwrap_or_default();
            let start = start_command(home);
            anyhow!("no daemon runs on {}{cut_off}: start it with {start}", home.display())
        }
    }
}

async fn ask_once(
    home: &Path,
    stream: UnixStream,
    request: &ControlRequest,
) -> anyhow::Result<Response> {
    let within = answer_time_max(request);
    let program = config::program(home, &Environment::of_process());
    let answer = async {
        let answered = timeout(within, ask_over(stream, request, &program)).await;
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
                ask_over(stream, &ControlRequest::Status, "").await.ok();
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

/// The daemon of a home, as far as it can be asked.
pub(super) enum DaemonState {
    /// None runs.
    Absent,
    /// This process has the home locked, and no socket: a daemon that starts or ends, or another command.
    Starting(LockHolder),
    Answers(Box<Status>),
    /// One runs, or may run, and cannot be asked for this reason.
    Silent(String),
    /// This account may not ask one, for this reason.
    Forbidden(String),
}

impl DaemonState {
    pub(super) fn status(&self) -> Option<&Status> {
        match self {
            Self::Answers(status) => Some(status),
            Self::Absent | Self::Starting(_) | Self::Silent(_) | Self::Forbidden(_) => None,
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
        Err(error) if is_denied(&error) => return DaemonState::Forbidden(format!("{error:#}")),
        Err(error) => return DaemonState::Silent(format!("{error:#}")),
    }
    match status_now(home).await {
        Ok(status) => DaemonState::Answers(Box::new(status)),
        Err(error) => DaemonState::Silent(format!("{error:#}")),
    }
}

/// Returns true if this account may not do what has failed.
fn is_denied(error: &anyhow::Error) -> bool {
    let cause = error.downcast_ref::<std::io::Error>();
    cause.is_some_and(|cause| cause.kind() == std::io::ErrorKind::PermissionDenied)
}

/// Asks the daemon that this process has opened one thing. `program` is named in the answer's commands.
pub(super) async fn ask_in_memory(
    server: Arc<ControlServer>,
    request: &ControlRequest,
    program: &str,
) -> anyhow::Result<Response> {
    let (ours, theirs) = tokio::io::duplex(PIPE_BYTES);
    let asked = ask_over(ours, request, program);
    let (answered, served) = tokio::join!(asked, control::serve(&server, theirs));
    served?;
    answered
}

async fn ask_over(
    stream: impl AsyncRead + AsyncWrite,
    request: &ControlRequest,
    program: &str,
) -> anyhow::Result<Response> {
    let (read, mut write) = tokio::io::split(stream);
    send(&mut write, request).await?;
    let line = match BufReader::new(read).lines().next_line().await {
        Ok(Some(line)) => line,
        Ok(None) => return Err(LostConnection::Unanswered.into()),
        Err(error) if LostConnection::is_cause_of(&error) => {
            return Err(LostConnection::Unanswered.into());
        }
        Err(error) => return Err(error.into()),
    };
    let is_of_chat = is_answered_as_in_chat(request);
    // Jobs and heartbeats have texts of people, which are not ours to change.
    let has_texts =
        matches!(request, ControlRequest::Cron { .. } | ControlRequest::Heartbeat { .. });
    match serde_json::from_str(&line)? {
        Response::NotTaken => Err(LostConnection::NotTaken.into()),
        Response::Failed(words) if is_of_chat => bail!(in_shell(&unescaped(&words), program)),
        Response::Failed(words) => bail!(words),
        Response::Done(words) if is_of_chat && has_texts => Ok(Response::Done(unescaped(&words))),
        Response::Done(words) if is_of_chat => {
            Ok(Response::Done(in_shell(&unescaped(&words), program)))
        }
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
            | ControlRequest::Why { .. }
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

/// Asks the running daemon how it is, and waits for one that reloads or restarts.
pub(super) async fn status(home: &Path) -> anyhow::Result<Status> {
    status_of(ask(home, &ControlRequest::Status).await?)
}

/// Asks the daemon how it is, if it can be asked at this moment.
pub(super) async fn status_now(home: &Path) -> anyhow::Result<Status> {
    let Some(stream) = connect(home).await? else { return Err(not_there(home)) };
    status_of(ask_once(home, stream, &ControlRequest::Status).await?)
}

fn status_of(response: Response) -> anyhow::Result<Status> {
    match response {
        Response::Status(status) => Ok(*status),
        _ => bail!("the daemon's answer is unexpected: if it runs another version, restart it"),
    }
}

/// Talks to the running daemon. None if none runs.
pub(super) async fn through_socket(options: &ChatOptions<'_>) -> anyhow::Result<Option<ChatEnd>> {
    let until = Instant::now() + AWAY_TIME_MAX;
    loop {
        let Some(stream) = reach(&options.home).await? else { return Ok(None) };
        let talk = Box::pin(talking::talk(stream, options));
        match while_alive(&options.home, talk).await {
            Ok(end) => return Ok(Some(end)),
            Err(error)
                if Instant::now() < until
                    && matches!(
                        error.downcast_ref::<LostConnection>(),
                        Some(LostConnection::NotTaken)
                    ) =>
            {
                sleep(LOOK_AGAIN).await;
            }
            Err(error) => return Err(error),
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
        print::wrapped("", NOTHING_SET_UP);
        print::line(&format!("{} init", on.program()));
    }
    print::wrapped("", HELLO);
    let (session, home, environment) = ("main".to_owned(), on.home.clone(), &on.environment);
    let (message, events, failed, is_silent) = (None, false, "", false);
    let options = ChatOptions { message, session, events, failed, is_silent, home, environment };
    match through_memory(server, &options).await {
        Ok(ChatEnd::Interrupted) => return,
        Ok(ChatEnd::Conversation | ChatEnd::Stopped) => {
            print::wrapped("", &daemon_goes_on(&on.program()))
        }
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

/// Returns true if a daemon runs there, and can be asked at this moment.
pub(super) async fn is_running(home: &Path) -> anyhow::Result<bool> {
    Ok(connect(home).await?.is_some())
}

/// Returns true if a daemon runs there, and waits for one that reloads or restarts. Where it returns false, this process
/// may open the home.
pub(super) async fn is_reached(home: &Path) -> anyhow::Result<bool> {
    Ok(reach(home).await?.is_some())
}
