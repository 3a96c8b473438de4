//! A terminal in which the program runs: a pseudo-terminal of a size, and what a person would see on it.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::binary::{PATIENCE, until};

/// The program on a terminal.
pub(crate) struct Pty {
    keys: File,
    /// All that was written to the terminal.
    written: Arc<Mutex<Vec<u8>>>,
    /// The bytes that were written before the last keys were pressed.
    before_keys: usize,
    /// Reads what is written. It ends when no program has the terminal any more.
    reader: JoinHandle<()>,
    columns: usize,
    child: Child,
}

impl Pty {
    /// The wrapper of a command whose terminal is its own, as after a login.
    pub(crate) fn session() -> [&'static OsStr; 2] {
        [OsStr::new("setsid"), OsStr::new("--ctty")]
    }

    /// Begins a program on a terminal of so many columns. It gets `TERM=xterm` unless the command names another.
    pub(crate) fn begin(mut command: Command, columns: u16) -> Self {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap();
        let theirs =
            rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())
                .unwrap();
        let size = Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&ours, size).unwrap();
        let side = |fd: &OwnedFd| Stdio::from(fd.try_clone().unwrap());
        command.stdin(side(&theirs)).stdout(side(&theirs)).stderr(side(&theirs));
        if !command.as_std().get_envs().any(|(name, _)| name == "TERM") {
            command.env("TERM", "xterm");
        }
        let child = command.spawn().unwrap();
        drop(theirs);
        let written = Arc::<Mutex<Vec<u8>>>::default();
        let mut screen = File::from(ours.try_clone().unwrap());
        let into = Arc::clone(&written);
        let reader = thread::spawn(move || {
            let mut some = [0; 4096];
            // It fails when nobody has the other side any more.
            while let Ok(read @ 1..) = screen.read(&mut some) {
                into.lock().unwrap().extend_from_slice(&some[..read]);
            }
        });
        let (keys, columns) = (File::from(ours), usize::from(columns));
        Self { keys, written, before_keys: 0, reader, columns, child }
    }

    /// Answers a prompt once it is there. What is typed before stands elsewhere, and is shown where it should not be.
    pub(crate) async fn answer(&mut self, prompt: &str, words: &str) {
        self.wait_for_prompt(prompt).await;
        self.type_keys(&format!("{words}\r"));
    }

    /// Waits for a prompt that was written after the last keys, wherever its lines end.
    pub(crate) async fn wait_for_prompt(&self, prompt: &str) {
        let is_there = |_: &[String]| {
            let written = self.written.lock().unwrap();
            let since_keys = String::from_utf8_lossy(&written[self.before_keys..]);
            since_keys.split_whitespace().collect::<Vec<_>>().join(" ").contains(prompt)
        };
        self.wait_for(prompt, is_there).await;
    }

    /// Presses keys.
    pub(crate) fn type_keys(&mut self, keys: &str) {
        self.type_bytes(keys.as_bytes());
    }

    /// Presses keys of a terminal that has another encoding.
    pub(crate) fn type_bytes(&mut self, bytes: &[u8]) {
        self.before_keys = self.written.lock().unwrap().len();
        self.keys.write_all(bytes).unwrap();
    }

    /// Pastes a text as terminals do that know bracketed paste.
    pub(crate) fn paste(&mut self, text: &str) {
        self.type_keys(&format!("\x1b[200~{}\x1b[201~", text.replace('\n', "\r")));
    }

    /// Everything that was written, as it was.
    pub(crate) fn raw(&self) -> String {
        String::from_utf8_lossy(&self.written.lock().unwrap()).into_owned()
    }

    /// The lines as a person sees them, those that have scrolled away too.
    pub(crate) fn screen(&self) -> Vec<String> {
        draw(&self.raw(), self.columns)
    }

    /// Waits until a line of the screen is this.
    pub(crate) async fn wait_for_line(&self, wanted: &str) {
        self.wait_for(wanted, |lines| lines.iter().any(|line| line.trim_end() == wanted)).await;
    }

    /// Waits until a line of the screen has these words.
    pub(crate) async fn wait_for_words(&self, words: &str) {
        self.wait_for(words, |lines| lines.iter().any(|line| line.contains(words))).await;
    }

    pub(crate) async fn wait_for(&self, what: &str, is_there: impl Fn(&[String]) -> bool) {
        let looked = timeout(
            Duration::from_secs(45),
            until(what, async || is_there(&self.screen()).then_some(())),
        );
        let text = || self.screen().join("\n");
        looked
            .await
            .unwrap_or_else(|_| panic!("no {what} on the screen:\n{}\n{:?}", text(), self.raw()));
    }

    /// Waits for the end, and for all that was written until then; its exit code.
    pub(crate) async fn ends(&mut self) -> Option<i32> {
        let ended = timeout(PATIENCE, self.child.wait()).await;
        let ended = ended.unwrap_or_else(|_| panic!("it does not end:\n{}", self.raw())).unwrap();
        // The kernel may still have some of it, and half a line would be taken for a whole one.
        until("the rest of the output", async || self.reader.is_finished().then_some(())).await;
        ended.code()
    }

    /// Returns true if the terminal shows what is typed.
    #[cfg(all(feature = "discord", feature = "slack", feature = "telegram"))]
    pub(crate) fn shows_keys(&self) -> bool {
        let modes = rustix::termios::tcgetattr(&self.keys).unwrap().local_modes;
        modes.contains(rustix::termios::LocalModes::ECHO)
    }

    /// Lets the terminal show what is typed, as a shell does.
    #[cfg(all(feature = "discord", feature = "slack", feature = "telegram"))]
    pub(crate) fn show_keys(&self) {
        use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
        let mut modes = tcgetattr(&self.keys).unwrap();
        modes.local_modes.insert(LocalModes::ECHO);
        tcsetattr(&self.keys, OptionalActions::Now, &modes).unwrap();
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id().expect("it runs")
    }
}

/// Draws what was written, as xterm does: the part of it that the program uses.
fn draw(written: &str, columns: usize) -> Vec<String> {
    let mut screen = Drawing { columns, ..Drawing::default() };
    let mut signs = written.chars().peekable();
    while let Some(sign) = signs.next() {
        match sign {
            '\r' => screen.column = 0,
            '\n' => screen.row += 1,
            '\x08' => screen.column = screen.column.saturating_sub(1),
            '\x07' => {}
            '\x1b' => {
                let Some('[') = signs.next() else { continue };
                let mut number = String::new();
                while let Some(part) = signs.next_if(|it| !it.is_ascii_alphabetic()) {
                    number.push(part);
                }
                let count = number.parse().unwrap_or(1);
                match signs.next() {
                    Some('A') => screen.row = screen.row.saturating_sub(count),
                    Some('B') => screen.row += count,
                    Some('C') => screen.column += count,
                    Some('D') => screen.column = screen.column.saturating_sub(count),
                    Some('K') => screen.erase_line(number.parse().unwrap_or(0)),
                    Some('J') => screen.erase_below(),
                    _ => {}
                }
            }
            sign => screen.put(sign),
        }
    }
    screen.lines.iter().map(|line| line.iter().collect::<String>().trim_end().to_owned()).collect()
}

#[derive(Default)]
struct Drawing {
    columns: usize,
    lines: Vec<Vec<char>>,
    row: usize,
    column: usize,
}

impl Drawing {
    fn line(&mut self) -> &mut Vec<char> {
        while self.lines.len() <= self.row {
            self.lines.push(Vec::new());
        }
        &mut self.lines[self.row]
    }

    fn put(&mut self, sign: char) {
        // It wraps when the next sign comes.
        if self.column >= self.columns {
            (self.row, self.column) = (self.row + 1, 0);
        }
        let column = self.column;
        let line = self.line();
        while line.len() <= column {
            line.push(' ');
        }
        line[column] = sign;
        self.column += 1;
    }

    fn erase_line(&mut self, how: usize) {
        let column = if how == 2 { 0 } else { self.column };
        self.line().truncate(column);
    }

    fn erase_below(&mut self) {
        let column = self.column;
        self.line().truncate(column);
        let row = self.row;
        self.lines.truncate(row + 1);
    }
}
