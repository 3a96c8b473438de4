//! The daemon's side of a command: it is ordered, fed, heard, and ended. Letting go of a [`RunningSandbox`] ends
//! the command with all that it has started, and so does the death of the daemon.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream as StdStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixStream, unix::pipe};
use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio::time::{Instant, timeout, timeout_at};

use super::output::KeptOutput;
use super::{ENTRY, Enforced, Sandbox, SandboxCommand};
use crate::sandbox::wire::{self, ExceededLimit, GuardReport, SandboxSpec, SandboxTask};

/// A command that writes more is ended: nobody reads that, and taking it costs the machine.
pub const OUTPUT_BYTES_MAX: u64 = 1024 * 1024 * 1024;

/// Maximum time to wait for the end of a command after its stop order. Its guard goes on by itself: without it,
/// processes might be left.
pub(super) const END_TIME_MAX: Duration = Duration::from_secs(2);

/// All that a sandbox tells, by far.
pub(super) const REPORT_BYTES_MAX: usize = 16 * 1024;

const PIECE_BYTES: usize = 32 * 1024;

/// The size of a command's terminal.
const SIZE: Winsize = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };

/// The input of a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CommandInput {
    #[default]
    Pipe,
    /// A terminal of its own, which its output is, too.
    Terminal,
    /// A pipe, and standard error is apart from the output. For [`SandboxedProgram`](super::SandboxedProgram) only.
    Apart,
}

/// The end of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandEnding {
    Exit(i32),
    Signal(i32),
    /// It was ended for that.
    Over(ExceededLimit),
    /// It has not begun.
    Refused(String),
    /// It is gone, and nobody knows why.
    Lost,
}

/// The result of a command.
#[derive(Debug)]
pub struct FinishedCommand {
    pub kept: KeptOutput,
    pub ending: CommandEnding,
    pub took: Duration,
}

/// A command that runs.
pub struct RunningSandbox {
    child: Child,
    control: UnixStream,
    input: Option<StdinFeed>,
    output: OutputPipe,
    until: Instant,
}

/// Where a command's input goes in; its end is the end of that, but for a terminal.
pub struct StdinFeed(PipeOrTerminal<ChildStdin, pipe::Sender>);

struct OutputPipe(PipeOrTerminal<ChildStdout, pipe::Receiver>);

enum PipeOrTerminal<P, T> {
    Pipe(P),
    Terminal(T),
}

/// Runs a command to its end. If this is dropped, the command is ended.
pub async fn run(
    sandbox: &Sandbox,
    order: &SandboxCommand,
    input: &[u8],
) -> io::Result<FinishedCommand> {
    let began = Instant::now();
    let mut sandboxed = RunningSandbox::start(sandbox, order).await?;
    let mut kept = KeptOutput::default();
    let feed = sandboxed.feed();
    let feeding = async {
        if let Some(mut feed) = feed {
            // One that does not read it is none the worse for it.
            feed.write(input).await.ok();
        }
        std::future::pending::<()>().await;
    };
    let hearing = async {
        let mut piece = vec![0; PIECE_BYTES];
        while let Some(bytes) = sandboxed.hear(&mut piece).await {
            kept.take(&piece[..bytes]);
            if kept.total() > OUTPUT_BYTES_MAX {
                return sandboxed.end_for(ExceededLimit::Output).await;
            }
        }
        sandboxed.end().await
    };
    let ending = tokio::select! {
        () = feeding => unreachable!("it never ends"),
        ending = hearing => ending,
    };
    Ok(FinishedCommand { kept, ending, took: began.elapsed() })
}

impl RunningSandbox {
    /// Begins a command; says nothing of whether it could begin, as its end does that.
    pub async fn start(sandbox: &Sandbox, order: &SandboxCommand) -> io::Result<Self> {
        let (stdin, stdout, terminal) = match order.input {
            CommandInput::Pipe | CommandInput::Apart => (Stdio::piped(), Stdio::piped(), None),
            CommandInput::Terminal => {
                let (ours, theirs) = terminal()?;
                (Stdio::null(), Stdio::from(theirs), Some(ours))
            }
        };
        let (mut child, control) = begin(sandbox, order, stdin, stdout).await?;
        let (input, output) = match terminal {
            Some(ours) => {
                // Terminals are read and written as pipes are.
                let input = pipe::Sender::from_owned_fd_unchecked(ours.try_clone()?)?;
                let output = pipe::Receiver::from_owned_fd_unchecked(ours)?;
                (PipeOrTerminal::Terminal(input), PipeOrTerminal::Terminal(output))
            }
            None => {
                let pipes = child.stdin.take().zip(child.stdout.take());
                let (input, output) = pipes.expect("both were asked for");
                (PipeOrTerminal::Pipe(input), PipeOrTerminal::Pipe(output))
            }
        };
        let until = Instant::now() + order.time_max;
        Ok(Self {
            child,
            control,
            input: Some(StdinFeed(input)),
            output: OutputPipe(output),
            until,
        })
    }

    /// Where its input goes in; without that, it has none.
    pub fn feed(&mut self) -> Option<StdinFeed> {
        self.input.take()
    }

    /// The next piece of its output; none at its end, or when its time is over.
    pub async fn hear(&mut self, piece: &mut [u8]) -> Option<usize> {
        let heard = timeout_at(self.until, self.output.read(piece)).await;
        heard.ok()?.ok().filter(|bytes| *bytes > 0)
    }

    /// Waits for its end; brings it about when its time is over.
    pub async fn end(mut self) -> CommandEnding {
        let mut reports = Vec::new();
        let ended = timeout_at(self.until, read_reports(&mut self.control, &mut reports)).await;
        let over = ended.is_err().then_some(ExceededLimit::Time);
        self.stop(reports, over).await
    }

    /// Ends it for that reason.
    pub async fn end_for(self, over: ExceededLimit) -> CommandEnding {
        self.stop(Vec::new(), Some(over)).await
    }

    async fn stop(mut self, mut reports: Vec<u8>, over: Option<ExceededLimit>) -> CommandEnding {
        let gone = async {
            self.control.shutdown().await.ok();
            read_reports(&mut self.control, &mut reports).await;
            self.child.wait().await.ok();
        };
        if timeout(END_TIME_MAX, gone).await.is_err() {
            tracing::warn!("A command takes too long to end, no longer waiting for it");
        }
        let ending = ending(&reports);
        match (over, ending) {
            // It was quicker.
            (
                _,
                ended @ (CommandEnding::Exit(_)
                | CommandEnding::Signal(_)
                | CommandEnding::Refused(_)),
            ) => ended,
            (Some(over), _) => CommandEnding::Over(over),
            (None, ended) => ended,
        }
    }
}

/// Starts a guard with these streams and gives it its order over the socket that it shares with us.
pub(super) async fn begin(
    sandbox: &Sandbox,
    order: &SandboxCommand,
    stdin: Stdio,
    stdout: Stdio,
) -> io::Result<(Child, UnixStream)> {
    let (ours, theirs) = StdStream::pair()?;
    let mut command = tokio::process::Command::from(command(sandbox));
    command.stdin(stdin).stdout(stdout).stderr(OwnedFd::from(theirs));
    let child = command.spawn()?;
    drop(command);
    ours.set_nonblocking(true)?;
    let mut control = UnixStream::from_std(ours)?;
    let spec = spec(sandbox, order, SandboxTask::Command(order.command.clone()));
    control.write_all(&wire::encode(&spec)?).await?;
    Ok((child, control))
}

async fn read_reports(control: &mut UnixStream, reports: &mut Vec<u8>) {
    let room = REPORT_BYTES_MAX.saturating_sub(reports.len()) as u64;
    control.take(room).read_to_end(reports).await.ok();
}

/// The last word on a command.
pub(super) fn ending(reports: &[u8]) -> CommandEnding {
    let mut ending = CommandEnding::Lost;
    for line in reports.split(|byte| *byte == b'\n') {
        ending = match serde_json::from_slice(line) {
            Ok(GuardReport::Exit(code)) => CommandEnding::Exit(code),
            Ok(GuardReport::Signal(signal)) => CommandEnding::Signal(signal),
            Ok(GuardReport::Over(over)) => CommandEnding::Over(over),
            Ok(GuardReport::Failed(why)) => CommandEnding::Refused(why),
            Ok(GuardReport::Ready(_) | GuardReport::Tried(_)) | Err(_) => continue,
        };
    }
    ending
}

/// Our own program at its hidden entry, without anything of ours.
#[expect(clippy::disallowed_methods, reason = "this is the sandbox")]
pub(super) fn command(sandbox: &Sandbox) -> Command {
    let mut command = Command::new(&sandbox.program);
    command.arg0("peacrab").arg(ENTRY).env_clear().current_dir("/").process_group(0);
    command
}

pub(super) fn spec(sandbox: &Sandbox, order: &SandboxCommand, task: SandboxTask) -> SandboxSpec {
    let env = sandbox.env.iter().map(|(name, value)| (name.clone(), value.reveal().to_owned()));
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
    let mut bounds = sandbox.bounds;
    bounds.cpu_seconds = order.time_max.as_secs().saturating_add(1).saturating_mul(cores);
    SandboxSpec {
        task,
        level: sandbox.level,
        cwd: order.cwd.clone(),
        home: order.folder.clone(),
        env: env.collect(),
        read: sandbox.read.iter().chain(&order.read).cloned().collect(),
        write: sandbox.write.iter().chain(&order.write).chain([&order.folder]).cloned().collect(),
        network: sandbox.network,
        terminal: order.input == CommandInput::Terminal,
        errors_apart: order.input == CommandInput::Apart,
        bounds,
        least: sandbox.least,
    }
}

/// Parses the protections that a sandbox has reported.
pub(super) fn enforced(reports: &[u8]) -> Option<Enforced> {
    let mut lines = reports.split(|byte| *byte == b'\n');
    lines.find_map(|line| match serde_json::from_slice(line) {
        Ok(GuardReport::Ready(enforced)) => Some(enforced),
        _ => None,
    })
}

/// A new terminal: our end, and the command's.
fn terminal() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let ours = openpt(flags)?;
    grantpt(&ours)?;
    unlockpt(&ours)?;
    let name = ptsname(&ours, Vec::new())?;
    let theirs = File::options()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NOCTTY)
        .open(OsStr::from_bytes(name.as_bytes()))?;
    tcsetwinsize(&theirs, SIZE)?;
    fcntl_setfl(&ours, fcntl_getfl(&ours)? | OFlags::NONBLOCK)?;
    Ok((ours, theirs.into()))
}

impl StdinFeed {
    pub async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.0 {
            PipeOrTerminal::Pipe(pipe) => pipe.write_all(bytes).await,
            PipeOrTerminal::Terminal(terminal) => terminal.write_all(bytes).await,
        }
    }
}

impl OutputPipe {
    async fn read(&mut self, piece: &mut [u8]) -> io::Result<usize> {
        match &mut self.0 {
            PipeOrTerminal::Pipe(pipe) => pipe.read(piece).await,
            PipeOrTerminal::Terminal(terminal) => terminal.read(piece).await,
        }
    }
}
