//! The screen of a chat: what is written while somebody may be typing. Only one of the two has the last line: the answer
//! that is being written, or the editor; then the rest is printed above.

use std::io::{IsTerminal as _, stdin, stdout};
use std::time::{Duration, Instant};

use super::editor::{Editor, EditorOrder, PROMPT};
use super::print;

/// The interval between two turns of the spinner.
pub(super) const SPIN_EVERY: Duration = Duration::from_millis(120);

/// ASCII, so that every terminal and font has them.
const FRAMES: [char; 4] = ['|', '/', '-', '\\'];

/// To the beginning of the line, and erase it (ECMA-48, EL).
const ERASE_LINE: &str = "\r\x1b[K";

pub(super) struct Screen {
    pub(super) editor: Option<Editor>,
    /// The editor has the last line.
    is_editing: bool,
    /// Shows answers while they are written.
    pub(super) streams: bool,
    /// Shows a prompt, without an editor.
    prompts: bool,
    /// The cursor is not at the beginning of a line.
    open_line: bool,
    /// The last line of the answer that is being written, while the editor has that of the screen.
    pending: String,
    spinner: Option<Spinner>,
}

struct Spinner {
    since: Instant,
    turns: usize,
    is_shown: bool,
}

impl Screen {
    pub(super) fn new(editor: Option<Editor>, asks: bool) -> Self {
        Self {
            is_editing: false,
            streams: stdout().is_terminal(),
            prompts: asks && editor.is_none() && stdin().is_terminal(),
            open_line: false,
            pending: String::new(),
            spinner: None,
            editor,
        }
    }

    /// Goes on after the program was stopped, as by Ctrl-Z. A line that is edited comes back by itself.
    pub(super) fn continued(&self) {
        if let Some(editor) = self.editor.as_ref().filter(|_| !self.is_editing) {
            editor.take_back();
        }
    }

    /// Returns true if a person is asked for messages here.
    pub(super) fn asks(&self) -> bool {
        self.editor.is_some() || self.prompts
    }

    /// Lets the person type: the prompt, in one way or the other.
    pub(super) async fn prompt(&mut self) {
        self.stop_spinner();
        if self.editor.is_some() {
            self.edit().await;
        } else if self.prompts {
            print::piece(PROMPT);
            self.open_line = true;
        }
    }

    /// Gives the last line to the editor.
    pub(super) async fn edit(&mut self) {
        if self.is_editing {
            return;
        }
        self.fresh_line().await;
        self.stop_spinner();
        if let Some(editor) = &mut self.editor {
            editor.order(EditorOrder::Edit);
            self.is_editing = true;
        }
    }

    /// The editor has given the last line back: a message was typed, or nothing.
    pub(super) fn edited(&mut self) {
        self.is_editing = false;
    }

    /// A message was said, on a line of its own.
    pub(super) fn said(&mut self) {
        self.open_line = false;
        self.watch();
    }

    /// Has the last line for the answer, until a key is pressed.
    pub(super) fn watch(&mut self) {
        if self.is_editing {
            return;
        }
        if let Some(editor) = &mut self.editor {
            editor.order(EditorOrder::Watch);
            self.spinner = Some(Spinner { since: Instant::now(), turns: 0, is_shown: false });
        }
        if !self.pending.is_empty() {
            let pending = std::mem::take(&mut self.pending);
            self.spinner = None;
            print::piece(&pending);
            self.open_line = true;
        }
    }

    /// More of the answer that is being written.
    pub(super) async fn draft(&mut self, more: &str) {
        self.stop_spinner();
        if !self.is_editing {
            print::piece(more);
            self.open_line = !more.ends_with('\n');
            return;
        }
        self.pending.push_str(more);
        if let Some(end) = self.pending.rfind('\n') {
            let rest = self.pending.split_off(end + 1);
            let lines = std::mem::replace(&mut self.pending, rest);
            self.above(print::strip_control(&lines)).await;
        }
    }

    /// The rest of the answer, to its end.
    pub(super) async fn finish_draft(&mut self, rest: &str) {
        self.stop_spinner();
        if self.is_editing {
            let line = std::mem::take(&mut self.pending) + rest;
            self.above(print::strip_control(&line)).await;
        } else {
            print::line(rest);
        }
        self.open_line = false;
    }

    /// Whole lines.
    pub(super) async fn line(&mut self, text: &str) {
        self.fresh_line().await;
        self.stop_spinner();
        if self.is_editing {
            self.above(print::strip_control(text)).await;
        } else {
            print::line(text);
        }
    }

    /// Whole lines beside the conversation: what goes wrong, what happens inside, the log.
    pub(super) async fn print_beside(&mut self, text: &str) {
        self.fresh_line().await;
        if self.is_editing {
            self.above(text.trim_end().to_owned()).await;
        } else {
            print::error(text.trim_end());
        }
    }

    /// Ends a line that was begun.
    pub(super) async fn fresh_line(&mut self) {
        self.hide_spinner();
        if !self.pending.is_empty() {
            let pending = std::mem::take(&mut self.pending);
            self.above(print::strip_control(&pending)).await;
        }
        if std::mem::take(&mut self.open_line) {
            print::line("");
        }
    }

    pub(super) fn spins(&self) -> bool {
        self.spinner.is_some() && !self.is_editing
    }

    /// Turns the spinner on.
    pub(super) fn spin(&mut self) {
        let Some(spinner) = &mut self.spinner else { return };
        let frame = FRAMES[spinner.turns % FRAMES.len()];
        spinner.turns += 1;
        spinner.is_shown = true;
        print::raw(&format!("{ERASE_LINE}{frame} {} s", spinner.since.elapsed().as_secs()));
    }

    fn hide_spinner(&mut self) {
        if let Some(spinner) = &mut self.spinner
            && std::mem::take(&mut spinner.is_shown)
        {
            print::raw(ERASE_LINE);
        }
    }

    fn stop_spinner(&mut self) {
        self.hide_spinner();
        self.spinner = None;
    }

    async fn above(&self, text: String) {
        if let Some(editor) = &self.editor {
            editor.above.send(text).await.ok();
        }
    }
}
