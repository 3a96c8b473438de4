//! A conversation at a terminal: says what is typed, shows answers as they come.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use rustix::process::Signal;
use tokio::io::{
    AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader, Lines, Split, Stdin,
    WriteHalf,
};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{MissedTickBehavior, interval};

use super::connecting::LostConnection;
use super::editor::{Editor, EditorEvents, Typed};
use super::print;
use super::screen::{SPIN_EVERY, Screen};
use crate::config::Environment;
use crate::control::{ChatLine, ControlRequest, MESSAGE_BYTES_MAX, Response};
use crate::replies;
use crate::types::commands::CommandId;

/// A second Ctrl-C within this time ends the program.
const PRESS_AGAIN_WITHIN: Duration = Duration::from_secs(3);

/// The hint after a first Ctrl-C where nothing can be stopped.
const PRESS_AGAIN: &str =
    "Nothing to stop. Press Ctrl-C again to exit; Ctrl-D ends the conversation.";

pub(in crate::cli) struct ChatOptions<'a> {
    /// Say this and leave, else talk.
    pub(in crate::cli) message: Option<ChatLine>,
    pub(in crate::cli) session: String,
    pub(in crate::cli) events: bool,
    /// The error message if it did not go well.
    pub(in crate::cli) failed: &'static str,
    /// Shows no messages, of a command for a script. The last one is the error message.
    pub(in crate::cli) is_silent: bool,
    pub(in crate::cli) home: PathBuf,
    pub(in crate::cli) environment: &'a Environment,
}

/// The end of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum ChatEnd {
    /// All is answered, or the person left the conversation.
    Conversation,
    /// The person interrupted the work that was to be answered before the end.
    Stopped,
    /// The person interrupted while nothing was being worked on.
    Interrupted,
}

/// Talks over a connection to the daemon until somebody leaves.
pub(super) async fn talk(
    stream: impl AsyncRead + AsyncWrite,
    options: &ChatOptions<'_>,
) -> anyhow::Result<ChatEnd> {
    let ChatOptions { message, session, events, failed, is_silent, home, environment } = options;
    if message.as_ref().is_some_and(|message| message.say.trim().is_empty()) {
        bail!("the message is empty");
    }
    let (read, write) = tokio::io::split(stream);
    let talks = message.is_none();
    let (editor, input) = match talks.then(|| Editor::begin(home, environment)) {
        None => (None, TerminalInput::None),
        Some(None) => (None, TerminalInput::Lines(BufReader::new(tokio::io::stdin()).split(b'\n'))),
        Some(Some((editor, events))) => (Some(editor), TerminalInput::Editor(events)),
    };
    let mut screen = Screen::new(editor, talks);
    screen.streams &= !is_silent;
    let mut talk = TerminalChat {
        write,
        busy: false,
        streamed: String::new(),
        shown: Vec::new(),
        unshown: is_silent.then(String::new),
        screen,
        leaves: !talks,
        is_stopped: false,
        failed,
        interrupted: None,
    };
    send(&mut talk.write, &ControlRequest::Chat { session: session.clone(), events: *events })
        .await?;
    if let Some(message) = message {
        talk.say_line(message.clone()).await?;
    }
    talk.run(BufReader::new(read).lines(), input).await
}

/// Where messages come from.
enum TerminalInput {
    None,
    /// A terminal without an editor: a line is a message.
    Lines(Split<BufReader<Stdin>>),
    Editor(EditorEvents),
}

/// An event of the terminal.
enum TerminalEvent {
    Typed(Typed),
    /// A line of the log, which must not go to the screen by itself.
    Logged(String),
    /// A line that is not UTF-8.
    Unreadable,
}

impl TerminalInput {
    async fn next(&mut self) -> std::io::Result<TerminalEvent> {
        match self {
            Self::None => std::future::pending().await,
            Self::Lines(lines) => {
                let Some(line) = lines.next_segment().await? else {
                    return Ok(TerminalEvent::Typed(Typed::End));
                };
                Ok(match String::from_utf8(line) {
                    Ok(line) => TerminalEvent::Typed(Typed::Message(line)),
                    Err(_) => TerminalEvent::Unreadable,
                })
            }
            Self::Editor(EditorEvents { typed, log }) => Ok(tokio::select! {
                Some(line) = log.recv() => TerminalEvent::Logged(line),
                typed = typed.recv() => TerminalEvent::Typed(typed.unwrap_or(Typed::End)),
            }),
        }
    }
}

/// A terminal that talks.
struct TerminalChat<S> {
    write: WriteHalf<S>,
    /// Something was said whose outcome is not known yet.
    busy: bool,
    /// The answer that is being written, as far as it has come.
    streamed: String,
    /// Texts that were shown before it, whose messages may still come.
    shown: Vec<String>,
    /// The last message of a conversation that shows none. None if it shows them.
    unshown: Option<String>,
    screen: Screen,
    /// Leaves when all is answered.
    leaves: bool,
    /// Ctrl-C has stopped what was said.
    is_stopped: bool,
    failed: &'static str,
    /// When Ctrl-C was pressed with nothing to stop.
    interrupted: Option<Instant>,
}

impl<S: AsyncWrite> TerminalChat<S> {
    async fn run(
        &mut self,
        mut lines: Lines<impl AsyncBufReadExt + Unpin>,
        mut input: TerminalInput,
    ) -> anyhow::Result<ChatEnd> {
        let mut listens = true;
        // One watch for the whole conversation: `ctrl_c()` would miss a signal that comes while an event is handled.
        let mut interrupts = signal(SignalKind::interrupt()).context("cannot watch for Ctrl-C")?;
        let continued = SignalKind::from_raw(Signal::CONT.as_raw());
        let mut continued = signal(continued).context("cannot watch for signals")?;
        let mut spin = interval(SPIN_EVERY);
        spin.set_missed_tick_behavior(MissedTickBehavior::Delay);
        if !self.leaves {
            self.screen.prompt().await;
        }
        loop {
            tokio::select! {
                line = lines.next_line() => {
                    let line = line?.context("the daemon closed the connection; see its log")?;
                    if let Some(end) = self.show(serde_json::from_str(&line)?).await? {
                        return Ok(end);
                    }
                }
                event = input.next(), if listens => match event? {
                    TerminalEvent::Logged(line) => self.screen.print_beside(&line).await,
                    TerminalEvent::Unreadable => {
                        self.screen.said();
                        self.screen.print_beside(replies::NOT_UTF8).await;
                        self.go_on().await;
                    }
                    TerminalEvent::Typed(Typed::Begins) => self.screen.edit().await,
                    TerminalEvent::Typed(Typed::Message(text)) => {
                        self.screen.edited();
                        self.say(text).await?;
                    }
                    TerminalEvent::Typed(Typed::Interrupt) => {
                        self.screen.edited();
                        if self.interrupt().await? {
                            return Ok(ChatEnd::Interrupted);
                        }
                    }
                    // No more will be said; what was said still gets its answer.
                    TerminalEvent::Typed(Typed::End) if self.busy => {
                        self.screen.edited();
                        (listens, self.leaves) = (false, true);
                    }
                    TerminalEvent::Typed(Typed::End) => return Ok(ChatEnd::Conversation),
                },
                Some(()) = continued.recv() => self.screen.continued(),
                _ = spin.tick(), if self.screen.spins() => self.screen.spin(),
                Some(()) = interrupts.recv() => {
                    if self.interrupt().await? {
                        return Ok(ChatEnd::Interrupted);
                    }
                }
            }
        }
    }

    /// Stops the running turn; returns true if there is none and the person wants to leave.
    async fn interrupt(&mut self) -> anyhow::Result<bool> {
        if self.busy {
            self.is_stopped = true;
            self.say(CommandId::Stop.line("")).await?;
            return Ok(false);
        }
        let is_again = self.interrupted.is_some_and(|at| at.elapsed() < PRESS_AGAIN_WITHIN);
        if !self.screen.asks() || is_again {
            self.screen.fresh_line().await;
            return Ok(true);
        }
        self.interrupted = Some(Instant::now());
        self.screen.line(PRESS_AGAIN).await;
        self.screen.prompt().await;
        Ok(false)
    }

    async fn say(&mut self, say: String) -> anyhow::Result<()> {
        self.say_line(ChatLine { say, piped: false }).await
    }

    async fn say_line(&mut self, line: ChatLine) -> anyhow::Result<()> {
        if line.say.len() > MESSAGE_BYTES_MAX {
            let words = replies::too_long_to_say(line.say.len(), MESSAGE_BYTES_MAX);
            if self.leaves {
                bail!(words);
            }
            self.screen.print_beside(&words).await;
        } else if !line.say.trim().is_empty() {
            self.busy = true;
            self.screen.said();
            return Ok(send(&mut self.write, &line).await?);
        }
        self.go_on().await;
        Ok(())
    }

    /// Goes on after a line that was not said.
    async fn go_on(&mut self) {
        match self.busy {
            true => self.screen.watch(),
            false => self.screen.prompt().await,
        }
    }

    /// Shows a line of the daemon's. Returns the end if it was the last that is wanted.
    async fn show(&mut self, response: Response) -> anyhow::Result<Option<ChatEnd>> {
        match response {
            Response::Text(text) if self.screen.streams => {
                self.screen.draft(&text).await;
                self.streamed.push_str(&text);
            }
            Response::Again if self.screen.streams => {
                self.screen.fresh_line().await;
                self.shown.push(std::mem::take(&mut self.streamed).trim_end().to_owned());
            }
            Response::Message(text) | Response::Done(text) if self.unshown.is_some() => {
                self.unshown = Some(text);
            }
            Response::Asks if !self.leaves => self.screen.prompt().await,
            Response::Text(_)
            | Response::Again
            | Response::Asks
            | Response::Status(_)
            | Response::Actions(_)
            | Response::Listing(_)
            | Response::Findings(_)
            | Response::Sent(_) => {}
            Response::Message(text) if self.shown.contains(&text) => {
                self.shown.retain(|shown| *shown != text);
            }
            // An answer is sent without the blanks at its end, which a draft may have shown.
            Response::Message(text) => match text
                .strip_prefix(self.streamed.as_str())
                .or_else(|| text.strip_prefix(self.streamed.trim_end()))
            {
                Some(rest) if !self.streamed.is_empty() => {
                    self.screen.finish_draft(rest).await;
                    self.streamed.clear();
                }
                _ => self.screen.line(&text).await,
            },
            Response::Done(text) => self.screen.line(&text).await,
            Response::NotTaken => return Err(LostConnection::NotTaken.into()),
            Response::Failed(words) if self.leaves => bail!(words),
            Response::Failed(words) => {
                self.screen.print_beside(&print::strip_control(&words)).await;
                self.busy = false;
                self.screen.prompt().await;
            }
            Response::Event(event) => {
                if let Some(line) = print::event(&event.what) {
                    self.screen.print_beside(&line).await;
                }
            }
            Response::Settled { well } => {
                self.screen.fresh_line().await;
                self.busy = false;
                self.shown.clear();
                let is_stopped = std::mem::take(&mut self.is_stopped);
                if self.leaves && is_stopped {
                    return Ok(Some(ChatEnd::Stopped));
                }
                if self.leaves && !well {
                    let words = self.unshown.take().filter(|words| !words.is_empty());
                    bail!(words.unwrap_or_else(|| self.failed.to_owned()));
                }
                if self.leaves {
                    return Ok(Some(ChatEnd::Conversation));
                }
                self.screen.prompt().await;
            }
        }
        Ok(None)
    }
}

/// Sends a line. A daemon that has closed the connection has said why: that is read next.
pub(super) async fn send(
    write: &mut (impl AsyncWrite + Unpin),
    line: &impl serde::Serialize,
) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(line)?;
    line.push(b'\n');
    let sent = async {
        write.write_all(&line).await?;
        write.flush().await
    };
    match sent.await {
        Err(error) if LostConnection::is_cause_of(&error) => Ok(()),
        sent => sent,
    }
}
