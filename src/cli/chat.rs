//! The terminal's side of the control socket: says lines, shows answers as they come. The daemon's
//! own terminal is the same, over a pipe in memory.

use std::io::{IsTerminal, stdin, stdout};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use tokio::io::{
    AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader, Lines, WriteHalf,
};
use tokio::net::UnixStream;

use super::print;
use crate::control::{self, ControlRequest, ControlServer, Response, Say};
use crate::conversation::actions::{self, Action, Sight};
use crate::store;

/// Bytes that may be under way in the pipe.
const PIPE_BYTES: usize = 64 * 1024;

const PROMPT: &str = "> ";

/// What the daemon's own terminal begins with.
const HELLO: &str = "Peacrab is running. Type a message, or /help. Ctrl-C stops the current work; a second Ctrl-C exits.";

pub(super) struct ChatOptions {
    /// Say this and leave, else talk.
    pub(super) message: Option<String>,
    pub(super) session: String,
    pub(super) events: bool,
    /// What is said if it did not go well.
    pub(super) failed: &'static str,
}

/// What was done: as the daemon knows it, or where none runs, as the store has it.
pub(super) async fn actions(home: &Path, limit: usize) -> anyhow::Result<Vec<Action>> {
    if connect(home).await?.is_none() {
        let limit = limit.clamp(1, control::ACTIONS_MAX);
        let list = |store: &_| actions::list(store, &Sight::ALL, None, limit);
        return Ok(store::peek(home, list)?.unwrap_or_default());
    }
    match ask(home, &ControlRequest::Actions { limit }).await? {
        Response::Actions(actions) => Ok(actions),
        _ => bail!("the daemon gave an answer of another kind"),
    }
}

/// Asks the running daemon one thing.
pub(super) async fn ask(home: &Path, request: &ControlRequest) -> anyhow::Result<Response> {
    let Some(stream) = connect(home).await? else {
        bail!("no daemon runs on {}: start it with `peacrab run`", home.display());
    };
    let (read, mut write) = tokio::io::split(stream);
    send(&mut write, request).await?;
    let line = BufReader::new(read).lines().next_line().await?;
    let line = line.context("the daemon closed the connection; see its log")?;
    match serde_json::from_str(&line)? {
        Response::Failed(words) => bail!(words),
        response => Ok(response),
    }
}

/// Talks to the running daemon; false if none runs.
pub(super) async fn through_socket(home: &Path, options: &ChatOptions) -> anyhow::Result<bool> {
    match connect(home).await? {
        None => Ok(false),
        Some(stream) => talk(stream, options).await.map(|()| true),
    }
}

/// Talks to the daemon that this process is.
pub(super) async fn through_memory(
    server: Arc<ControlServer>,
    options: &ChatOptions,
) -> anyhow::Result<()> {
    let (ours, theirs) = tokio::io::duplex(PIPE_BYTES);
    tokio::select! {
        talked = talk(ours, options) => talked,
        served = control::serve(&server, theirs) => Ok(served?),
    }
}

/// The daemon's own terminal: ends when somebody wants the daemon to end, by Ctrl-C while nothing
/// is being worked on. Never ends because there is nobody there.
pub(super) async fn own_terminal(server: Arc<ControlServer>) {
    // In the background of a shell, reading from its terminal would stop the whole daemon.
    let foreground = rustix::termios::tcgetpgrp(stdin()) == Ok(rustix::process::getpgrp());
    let talks = foreground && stdin().is_terminal() && stdout().is_terminal();
    if !talks {
        tracing::info!("There is no terminal to chat in. Use `peacrab chat`");
        tokio::signal::ctrl_c().await.ok();
        return;
    }
    print::line(HELLO);
    let options =
        ChatOptions { message: None, session: "main".to_owned(), events: false, failed: "" };
    if let Err(error) = through_memory(server, &options).await {
        tracing::warn!(error = format!("{error:#}"), "Lost the terminal");
        tokio::signal::ctrl_c().await.ok();
    }
}

/// Whether a daemon runs there.
pub(super) async fn is_running(home: &Path) -> anyhow::Result<bool> {
    Ok(connect(home).await?.is_some())
}

async fn connect(home: &Path) -> anyhow::Result<Option<UnixStream>> {
    use std::io::ErrorKind::{ConnectionRefused, NotFound};
    match control::connect(home).await {
        Ok(stream) => Ok(Some(stream)),
        Err(error) if matches!(error.kind(), NotFound | ConnectionRefused) => Ok(None),
        Err(error) => {
            Err(error).with_context(|| format!("cannot reach the daemon on {}", home.display()))
        }
    }
}

async fn talk(stream: impl AsyncRead + AsyncWrite, options: &ChatOptions) -> anyhow::Result<()> {
    if options.message.as_ref().is_some_and(|message| message.trim().is_empty()) {
        bail!("the message is empty");
    }
    let (read, write) = tokio::io::split(stream);
    let mut talk = Talk {
        write,
        busy: false,
        open_line: false,
        streamed: String::new(),
        shown: Vec::new(),
        streams: stdout().is_terminal(),
        prompts: options.message.is_none() && stdin().is_terminal(),
        leaves: options.message.is_some(),
        failed: options.failed,
    };
    let ChatOptions { session, events, .. } = options;
    send(&mut talk.write, &ControlRequest::Chat { session: session.clone(), events: *events })
        .await?;
    if let Some(message) = &options.message {
        talk.say(message.clone()).await?;
    }
    talk.run(BufReader::new(read).lines()).await
}

/// A terminal that talks.
struct Talk<S> {
    write: WriteHalf<S>,
    /// Something was said whose outcome is not known yet.
    busy: bool,
    /// The cursor is not at the beginning of a line.
    open_line: bool,
    /// What is on the screen of the answer that is being written.
    streamed: String,
    /// Texts that were shown before it, whose messages may still come.
    shown: Vec<String>,
    /// Shows answers while they are written.
    streams: bool,
    prompts: bool,
    /// Leaves when all is answered.
    leaves: bool,
    failed: &'static str,
}

impl<S: AsyncWrite> Talk<S> {
    async fn run(&mut self, mut lines: Lines<impl AsyncBufReadExt + Unpin>) -> anyhow::Result<()> {
        let mut typed = BufReader::new(tokio::io::stdin()).lines();
        let mut listens = !self.leaves;
        self.prompt();
        loop {
            tokio::select! {
                line = lines.next_line() => {
                    let line = line?.context("the daemon closed the connection; see its log")?;
                    if self.show(serde_json::from_str(&line)?)? {
                        return Ok(());
                    }
                }
                line = typed.next_line(), if listens => match line? {
                    Some(line) => self.say(line).await?,
                    // No more will be said; what was said still gets its answer.
                    None if self.busy => (listens, self.leaves) = (false, true),
                    None => return Ok(()),
                },
                pressed = tokio::signal::ctrl_c() => {
                    pressed?;
                    if !self.busy {
                        self.fresh_line();
                        return Ok(());
                    }
                    self.say("/stop".to_owned()).await?;
                }
            }
        }
    }

    async fn say(&mut self, say: String) -> anyhow::Result<()> {
        if say.trim().is_empty() {
            self.prompt();
            return Ok(());
        }
        (self.busy, self.open_line) = (true, false);
        Ok(send(&mut self.write, &Say { say }).await?)
    }

    /// Shows a line of the daemon's; true if it was the last that is wanted.
    fn show(&mut self, response: Response) -> anyhow::Result<bool> {
        match response {
            Response::Text(text) if self.streams => {
                print::piece(&text);
                self.streamed.push_str(&text);
                self.open_line = !text.ends_with('\n');
            }
            Response::Again if self.streams => {
                self.fresh_line();
                self.shown.push(std::mem::take(&mut self.streamed).trim_end().to_owned());
            }
            Response::Text(_)
            | Response::Again
            | Response::Status(_)
            | Response::Actions(_)
            | Response::Sent(_) => {}
            Response::Message(text) if self.shown.contains(&text) => {
                self.shown.retain(|shown| *shown != text);
            }
            Response::Message(text) => {
                match text.strip_prefix(self.streamed.trim_end()) {
                    Some(rest) if !self.streamed.is_empty() => {
                        print::line(rest);
                        self.streamed.clear();
                    }
                    _ => {
                        self.fresh_line();
                        print::line(&text);
                    }
                }
                self.open_line = false;
            }
            Response::Done(text) => print::line(&text),
            Response::Failed(words) if self.leaves => bail!(words),
            Response::Failed(words) => {
                print::error(&words);
                self.busy = false;
                self.prompt();
            }
            Response::Event(event) => {
                if let Some(line) = print::event(&event.what) {
                    self.fresh_line();
                    print::error(&line);
                }
            }
            Response::Settled { well } => {
                self.fresh_line();
                self.busy = false;
                self.shown.clear();
                if self.leaves && !well {
                    bail!(self.failed);
                }
                if self.leaves {
                    return Ok(true);
                }
                self.prompt();
            }
        }
        Ok(false)
    }

    fn prompt(&mut self) {
        if self.prompts {
            print::piece(PROMPT);
            self.open_line = true;
        }
    }

    fn fresh_line(&mut self) {
        if self.open_line {
            print::line("");
            self.open_line = false;
        }
    }
}

async fn send(
    write: &mut (impl AsyncWrite + Unpin),
    line: &impl serde::Serialize,
) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(line)?;
    line.push(b'\n');
    write.write_all(&line).await?;
    write.flush().await
}
