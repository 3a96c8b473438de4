//! The line editor of a terminal: arrows, history, completion, pastes of several lines. It blocks, so it has a thread of
//! its own; another one prints above the line that is being typed.

use std::cell::RefCell;
use std::io::{ErrorKind, IsTerminal as _, Read as _, Write as _, stderr, stdin, stdout};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{self, kill_current_process_group};
use rustix::termios::{
    LocalModes, OptionalActions, QueueSelector, SpecialCodeIndex, Termios, tcflush, tcgetattr,
    tcsetattr,
};
use rustyline::completion::Completer;
use rustyline::error::{ReadlineError, Signal};
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::MemHistory;
use rustyline::validate::Validator;
use rustyline::{
    Cmd, ConditionalEventHandler, Context, Event, EventContext, EventHandler, ExternalPrinter as _,
    Helper, KeyCode, KeyEvent, Modifiers, Movement, RepeatCount,
};
use tokio::sync::mpsc;

use super::history::{self, History};
use super::print;
use crate::config::Environment;
use crate::daemon::logging::{self, LogDiversion};
use crate::replies;
use crate::types::commands;

/// The prompt of the terminal.
pub(super) const PROMPT: &str = "> ";

/// Terminals without what the editor needs, as `TERM` names them.
const PLAIN_TERMS: [&str; 3] = ["dumb", "cons25", "emacs"];

/// Lines that may wait to be printed above the input.
const PRINTS_MAX: usize = 32;

/// Lines of the log that may wait; beyond this they go to standard error at once.
const LOG_LINES_MAX: usize = 1_000;

/// Ends the bracketed paste mode (xterm, "Bracketed Paste Mode").
const PASTE_OFF: &[u8] = b"\x1b[?2004l";
const PASTE_ON: &[u8] = b"\x1b[?2004h";

/// Time within which all threads have stopped after Ctrl-Z: the signal may be for another one.
const STOPS_WITHIN: Duration = Duration::from_millis(100);

/// An event of the person at the terminal.
pub(super) enum Typed {
    /// A whole message; it may have several lines.
    Message(String),
    /// A key was pressed while the editor only watched.
    Begins,
    /// Ctrl-C on an empty line.
    Interrupt,
    /// Ctrl-D on an empty line, or the end of the input.
    End,
}

/// An order to the editor's thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EditorOrder {
    /// Show the prompt and read a message.
    Edit,
    /// Leave the screen alone until a key is pressed.
    Watch,
}

/// A terminal that is being edited on. Dropping it gives the terminal back as it was.
pub(super) struct Editor {
    orders: UnixStream,
    /// Prints above the line that is being typed.
    pub(super) above: mpsc::Sender<String>,
    _diverted: Option<LogDiversion>,
    restore: Restore,
}

/// The events of a terminal that is being edited on.
pub(super) struct EditorEvents {
    pub(super) typed: mpsc::Receiver<Typed>,
    /// Lines of the log; none come if the log goes elsewhere.
    pub(super) log: mpsc::Receiver<String>,
}

impl Editor {
    /// Begins to edit on this process's terminal; none if it is not one that can.
    pub(super) fn begin(home: &Path, environment: &Environment) -> Option<(Self, EditorEvents)> {
        let can = environment.text("TERM").is_some_and(|term| !PLAIN_TERMS.contains(&term));
        if !(can && stdin().is_terminal() && stdout().is_terminal()) {
            return None;
        }
        Self::try_begin(home)
            .inspect_err(|error| tracing::warn!(%error, "Cannot use the line editor here"))
            .ok()
    }

    fn try_begin(home: &Path) -> anyhow::Result<(Self, EditorEvents)> {
        let (history, entries) = History::open(home);
        let config = rustyline::Config::builder()
            .max_history_size(history::ENTRIES_MAX)?
            .completion_type(rustyline::CompletionType::List)
            .bracketed_paste(true)
            .build();
        let kept = MemHistory::with_config(&config);
        let mut editor = rustyline::Editor::with_history(config, kept)?;
        editor.set_helper(Some(CommandCompleter::default()));
        for entry in entries {
            editor.add_history_entry(entry)?;
        }
        let clears = EventHandler::Conditional(Box::new(ClearsFirst));
        editor.bind_sequence(KeyEvent::ctrl('C'), clears);
        let suspends =
            EventHandler::Conditional(Box::new(Suspends { before: tcgetattr(stdin())? }));
        editor.bind_sequence(KeyEvent::ctrl('Z'), suspends);
        for enter in [KeyEvent(KeyCode::Enter, Modifiers::ALT), KeyEvent::alt('\r')] {
            editor.bind_sequence(enter, EventHandler::Simple(Cmd::Newline));
        }
        let mut printer = editor.create_external_printer()?;
        let restore = Restore::quieten()?;
        let (orders, theirs) = UnixStream::pair()?;
        let (typed, is_typed) = mpsc::channel(1);
        let (above, mut to_print) = mpsc::channel::<String>(PRINTS_MAX);
        let (log, logged) = mpsc::channel(LOG_LINES_MAX);
        // Both end with their channels. The editor's may be waiting for a key when the program ends, so nobody joins it.
        thread::Builder::new().name("editor".to_owned()).spawn(move || {
            EditorThread { editor, history, orders: theirs, typed }.run();
        })?;
        thread::Builder::new().name("above".to_owned()).spawn(move || {
            while let Some(text) = to_print.blocking_recv() {
                printer.print(text).ok();
            }
        })?;
        let diverted = stderr().is_terminal().then(|| logging::divert(log));
        let editor = Self { orders, above, _diverted: diverted, restore };
        Ok((editor, EditorEvents { typed: is_typed, log: logged }))
    }

    /// Takes the terminal back from a shell, if nothing is edited.
    pub(super) fn take_back(&self) {
        tcsetattr(stdin(), OptionalActions::Drain, &self.restore.quiet).ok();
    }

    pub(super) fn order(&mut self, order: EditorOrder) {
        let byte = match order {
            EditorOrder::Edit => b'e',
            EditorOrder::Watch => b'w',
        };
        self.orders.write_all(&[byte]).ok();
    }
}

/// The terminal's modes from before, which come back when this is dropped, and those while nothing is edited.
struct Restore {
    before: Termios,
    quiet: Termios,
}

impl Restore {
    /// Switches off what a terminal does by itself with what is typed, but not its signals.
    fn quieten() -> anyhow::Result<Self> {
        let before = tcgetattr(stdin())?;
        let mut quiet = before.clone();
        quiet.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        quiet.special_codes[SpecialCodeIndex::VMIN] = 1;
        quiet.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(stdin(), OptionalActions::Drain, &quiet)?;
        Ok(Self { before, quiet })
    }
}

impl Drop for Restore {
    fn drop(&mut self) {
        stdout().write_all(PASTE_OFF).and_then(|()| stdout().flush()).ok();
        tcsetattr(stdin(), OptionalActions::Drain, &self.before).ok();
    }
}

struct EditorThread {
    editor: rustyline::Editor<CommandCompleter, MemHistory>,
    history: History,
    orders: UnixStream,
    typed: mpsc::Sender<Typed>,
}

impl EditorThread {
    /// Obeys until the other end is gone.
    fn run(mut self) {
        let mut order = [0];
        while self.orders.read_exact(&mut order).is_ok() {
            let typed = match order {
                [b'e'] => self.edit(),
                _ if self.is_typed() => Typed::Begins,
                _ => continue,
            };
            if self.typed.blocking_send(typed).is_err() {
                return;
            }
        }
    }

    fn edit(&mut self) -> Typed {
        let mut begun = String::new();
        loop {
            match self.editor.readline_with_initial(PROMPT, (begun.as_str(), "")) {
                Ok(text) => {
                    // A paste may have some.
                    let text = print::without_controls(&text);
                    if self.history.add(&text) {
                        self.editor.add_history_entry(text.as_str()).ok();
                    }
                    return Typed::Message(text);
                }
                Err(ReadlineError::Interrupted | ReadlineError::Signal(Signal::Interrupt)) => {
                    return Typed::Interrupt;
                }
                Err(ReadlineError::Signal(_)) => {}
                Err(ReadlineError::Io(error)) if error.kind() == ErrorKind::InvalidData => {
                    // The rest of a paste would be taken for keys.
                    tcflush(stdin(), QueueSelector::IFlush).ok();
                    print::wrapped("", replies::NOT_UTF8);
                    begun = self.editor.helper().map(CommandCompleter::line).unwrap_or_default();
                }
                Err(ReadlineError::Eof) => return Typed::End,
                Err(error) => {
                    tracing::warn!(%error, "Cannot read from the terminal");
                    return Typed::End;
                }
            }
        }
    }

    /// Waits for a key or for another order; returns true if it was a key.
    fn is_typed(&self) -> bool {
        let keys = rustix::stdio::stdin();
        loop {
            let mut ready =
                [PollFd::new(&keys, PollFlags::IN), PollFd::new(&self.orders, PollFlags::IN)];
            match poll(&mut ready, None) {
                Err(Errno::INTR) => {}
                Err(_) => return false,
                Ok(_) => return ready[1].revents().is_empty(),
            }
        }
    }
}

/// Ctrl-C clears the line; where there is none, it interrupts.
struct ClearsFirst;

impl ConditionalEventHandler for ClearsFirst {
    fn handle(&self, _: &Event, _: RepeatCount, _: bool, at: &EventContext<'_>) -> Option<Cmd> {
        Some(match at.line().is_empty() {
            true => Cmd::Interrupt,
            false => Cmd::Kill(Movement::WholeBuffer),
        })
    }
}

/// Ctrl-Z lends the terminal to the shell. The editor's own way takes it back before the program has stopped, so that the
/// shell's modes hold after `fg`.
struct Suspends {
    before: Termios,
}

impl ConditionalEventHandler for Suspends {
    fn handle(&self, _: &Event, _: RepeatCount, _: bool, _: &EventContext<'_>) -> Option<Cmd> {
        let write = |signs| stdout().write_all(signs).and_then(|()| stdout().flush()).ok();
        let edited = tcgetattr(stdin()).ok()?;
        write(PASTE_OFF);
        tcsetattr(stdin(), OptionalActions::Drain, &self.before).ok();
        // As the terminal would: those beside this process belong to the same job of the shell.
        kill_current_process_group(process::Signal::TSTP).ok();
        thread::sleep(STOPS_WITHIN);
        tcsetattr(stdin(), OptionalActions::Drain, &edited).ok();
        write(PASTE_ON);
        Some(Cmd::Repaint)
    }
}

/// Completes the names of commands, and knows the line as it is.
#[derive(Default)]
struct CommandCompleter {
    line: RefCell<String>,
}

impl CommandCompleter {
    fn line(&self) -> String {
        self.line.borrow().clone()
    }
}

impl Completer for CommandCompleter {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        pos: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        Ok((0, commands::completions(&line[..pos])))
    }
}

/// It is asked for a hint after each change of the line, and has none.
impl Hinter for CommandCompleter {
    type Hint = String;

    fn hint(&self, line: &str, _: usize, _: &Context<'_>) -> Option<String> {
        line.clone_into(&mut self.line.borrow_mut());
        None
    }
}
impl Highlighter for CommandCompleter {}
impl Validator for CommandCompleter {}
impl Helper for CommandCompleter {}
