//! Questions on a terminal, in plain lines: no colour, no cursor movement, no column that matters, so that a narrow
//! screen, a screen reader and a pipe get the same.

use std::cell::RefCell;
use std::future::pending;
use std::io::{self, BufRead as _, IsTerminal as _, stdin};
use std::pin::pin;

use anyhow::{Context as _, bail};
use futures_util::FutureExt as _;
use rustix::process::Signal;
use rustix::termios::{
    LocalModes, OptionalActions, QueueSelector, Termios, tcflush, tcgetattr, tcsetattr,
};
use tokio::signal::unix::{SignalKind, signal};
use zeroize::Zeroizing;

use super::print::{self, wrap};
use crate::replies;

/// Wrong answers to one question; then something else is wrong.
pub(super) const TRIES_MAX: usize = 5;

/// The input has no more answers.
#[derive(Debug, thiserror::Error)]
#[error("the input ended before all questions were answered")]
pub(super) struct InputEnded;

/// The person at the terminal.
pub(super) struct Dialog {
    columns: usize,
    /// False if every answer was given on the command line.
    asks: bool,
    out: DialogOutput,
    /// Set from a question for a secret to the end of its step.
    hidden: RefCell<Option<Hidden>>,
}

/// The place where a dialog is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DialogOutput {
    Output,
    /// The standard error, where the standard output is for a script.
    Errors,
}

impl Dialog {
    pub(super) fn new(asks: bool) -> Self {
        let out = DialogOutput::Output;
        Self { columns: print::columns(), asks, out, hidden: RefCell::default() }
    }

    /// A dialog that asks nothing, beside the JSON for a script.
    pub(super) fn beside_json() -> Self {
        Self { out: DialogOutput::Errors, ..Self::new(false) }
    }

    pub(super) fn asks(&self) -> bool {
        self.asks
    }

    /// Prints a paragraph, wrapped at words. A line break at its end leaves a blank line.
    pub(super) fn say(&self, text: &str) {
        text.split('\n').for_each(|line| self.show(&wrap(line, self.columns)));
    }

    /// Prints lines as they are, to be copied.
    pub(super) fn show(&self, text: &str) {
        match self.out {
            DialogOutput::Output => print::line(text),
            DialogOutput::Errors => print::error(text),
        }
    }

    /// Asks for a line. An empty one means `default`.
    pub(super) async fn ask(
        &self,
        question: &str,
        default: Option<&str>,
    ) -> anyhow::Result<String> {
        self.ask_amid(question, default, pending()).await
    }

    /// As [`Self::ask`]. If the `news` come before the answer, they are said, and the question stands there again.
    pub(super) async fn ask_amid(
        &self,
        question: &str,
        default: Option<&str>,
        news: impl Future<Output = String>,
    ) -> anyhow::Result<String> {
        let prompt = match default {
            Some(default) => format!("{question} [{default}]:"),
            None => format!("{question}:"),
        };
        self.show_typed();
        let mut news = pin!(news.fuse());
        for _ in 0..TRIES_MAX {
            self.prompt(&prompt);
            let mut open = OpenPrompt { is_answered: false };
            let mut reading = pin!(read_line());
            let line = loop {
                tokio::select! {
                    line = &mut reading => break line?,
                    words = &mut news => {
                        print::line("");
                        self.say(&words);
                        self.prompt(&prompt);
                    }
                }
            };
            open.is_answered = true;
            let Some(line) = line else {
                self.say(replies::NOT_UTF8);
                continue;
            };
            return Ok(match (line.trim(), default) {
                ("", Some(default)) => default.to_owned(),
                (answer, _) => answer.to_owned(),
            });
        }
        bail!("none of the answers could be read");
    }

    /// Asks for a line that is not shown while it is typed. Nothing that is typed is shown from then on, until
    /// [`Self::show_typed`] or a question whose answer is shown: while a secret is tested, people paste another one.
    pub(super) async fn ask_secret(&self, question: &str) -> anyhow::Result<Zeroizing<String>> {
        let prompt = format!("{question} (it is not shown):");
        // A shell to which Ctrl-Z leads has a terminal that shows what is typed, and gives it back like that.
        let continued = SignalKind::from_raw(Signal::CONT.as_raw());
        let mut continued = signal(continued).context("cannot watch for signals")?;
        for _ in 0..TRIES_MAX {
            // Before the prompt, which somebody may answer at once.
            let is_hidden = self.hide_typed();
            self.prompt(&prompt);
            let mut open = OpenPrompt { is_answered: false };
            let mut reading = pin!(read_line());
            let line = loop {
                tokio::select! {
                    line = &mut reading => break line?,
                    Some(()) = continued.recv() => {
                        self.hide_typed();
                        self.prompt(&prompt);
                    }
                }
            };
            // The end of a hidden line is not shown either.
            open.is_answered = !is_hidden;
            drop(open);
            let Some(line) = line else {
                self.say(replies::NOT_UTF8);
                continue;
            };
            let answer = Zeroizing::new(line.trim().to_owned());
            self.say(&format!("I got {} characters.", answer.chars().count()));
            return Ok(answer);
        }
        bail!("none of the answers could be read");
    }

    pub(super) async fn ask_yes(&self, question: &str) -> anyhow::Result<bool> {
        for _ in 0..TRIES_MAX {
            let answer = self.ask(&format!("{question} yes or no"), Some("yes")).await?;
            match answer.to_ascii_lowercase().as_str() {
                "y" | "yes" => return Ok(true),
                "n" | "no" => return Ok(false),
                _ => self.say("Please answer yes or no."),
            }
        }
        bail!("that was neither yes nor no");
    }

    /// Lets the terminal show what is typed, after [`Self::ask_secret`].
    pub(super) fn show_typed(&self) {
        drop(self.hidden.take());
    }

    /// Hides what is typed. Returns false if there is no terminal to hide anything on.
    fn hide_typed(&self) -> bool {
        let mut hidden = self.hidden.borrow_mut();
        if let Some(hidden) = hidden.as_ref() {
            hidden.hide();
        } else {
            *hidden = Hidden::begin();
        }
        hidden.is_some()
    }

    /// The last line of a prompt stays open, so that the answer stands behind it.
    fn prompt(&self, text: &str) {
        print::piece(&format!("{} ", wrap(text, self.columns - 1)));
    }
}

/// Reads a line. None if it is not UTF-8.
async fn read_line() -> anyhow::Result<Option<Zeroizing<String>>> {
    let reading = tokio::task::spawn_blocking(|| {
        let mut line: Zeroizing<Vec<u8>> = Zeroizing::default();
        stdin().lock().read_until(b'\n', &mut line).map(|read| (read > 0).then_some(line))
    });
    let read: io::Result<Option<_>> = reading.await.context("cannot read the answer")?;
    match read.context("cannot read the answer")? {
        Some(line) => {
            Ok(std::str::from_utf8(&line).ok().map(|text| Zeroizing::new(text.to_owned())))
        }
        None => Err(InputEnded.into()),
    }
}

/// A prompt whose answer would stand behind it. Without an answer, its end begins a new line.
struct OpenPrompt {
    is_answered: bool,
}

impl Drop for OpenPrompt {
    fn drop(&mut self) {
        if !self.is_answered {
            print::line("");
        }
    }
}

/// While this lives, the terminal does not show what is typed. What nobody has read of it at the end is dropped.
struct Hidden {
    before: Termios,
    hidden: Termios,
}

impl Hidden {
    /// None if there is no terminal to hide anything on.
    fn begin() -> Option<Self> {
        if !stdin().is_terminal() {
            return None;
        }
        let before = tcgetattr(stdin()).ok()?;
        let mut hidden = before.clone();
        hidden.local_modes.remove(LocalModes::ECHO);
        tcsetattr(stdin(), OptionalActions::Now, &hidden).ok()?;
        Some(Self { before, hidden })
    }

    /// Hides again what is typed, where somebody else has set the terminal meanwhile.
    fn hide(&self) {
        tcsetattr(stdin(), OptionalActions::Now, &self.hidden).ok();
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        // What was typed unseen may be a secret: the next question would show it, and a shell would run and keep it.
        tcflush(stdin(), QueueSelector::IFlush).ok();
        tcsetattr(stdin(), OptionalActions::Now, &self.before).ok();
    }
}
