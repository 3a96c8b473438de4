//! The daemon's side of a command: it starts the command, writes its input, reads its output, and ends it. Dropping a
//! [`RunningSandbox`] ends the command with all that it has started, and so does the death of the daemon.

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
use tokio_util::sync::CancellationToken;

use super::output::KeptOutput;
use super::{ENTRY, KnownPlace, Protections, Sandbox, SandboxCommand};
use crate::sandbox::wire::{self, ExceededLimit, GuardReport, SandboxSpec, SandboxTask};

/// Maximum output of a command, in bytes. One that writes more is ended: nobody reads that, and it costs the machine.
const OUTPUT_BYTES_MAX: u64 = 1024 * 1024 * 1024;

/// Maximum time to wait for the end of a command after its stop order. Its guard goes on by itself: without it,
/// processes might be left.
pub(super) const END_TIME_MAX: Duration = Duration::from_secs(2);

/// Maximum size of all reports of a sandbox, in bytes: far more than it sends.
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
    SeparateErrors,
}

/// The end of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandEnding {
    Exit(i32),
    Signal(i32),
    /// It was ended for this reason.
    Over(ExceededLimit),
    /// It has not begun.
    Refused(String),
    /// It is gone for an unknown reason.
    Lost,
}

/// The result of a command.
#[derive(Debug)]
pub struct FinishedCommand {
    pub kept: KeptOutput,
    pub ending: CommandEnding,
    pub took: Duration,
}

/// A running command.
pub struct RunningSandbox {
    child: Child,
    control: UnixStream,
    input: Option<StdinFeed>,
    output: OutputPipe,
    until: Instant,
}

/// Writes a command's input. Dropping it ends the input, except for a terminal.
pub struct StdinFeed(PipeOrTerminal<ChildStdin, pipe::Sender>);

struct OutputPipe(PipeOrTerminal<ChildStdout, pipe::Receiver>);

enum PipeOrTerminal<P, T> {
    Pipe(P),
    Terminal(T),
}

/// Runs a command to its end. Dropping the future ends the command.
pub async fn run(
    sandbox: &Sandbox,
    order: &SandboxCommand,
    input: &[u8],
) -> io::Result<FinishedCommand> {
    run_until(sandbox, order, input, &CancellationToken::new()).await
}

/// Runs a command to its end, or ends it at `stop`. All of it is gone when this returns, unless that takes too long.
pub async fn run_until(
    sandbox: &Sandbox,
    order: &SandboxCommand,
    input: &[u8],
    stop: &CancellationToken,
) -> io::Result<FinishedCommand> {
    let began = Instant::now();
    let mut sandboxed = RunningSandbox::start(sandbox, order).await?;
    let mut kept = KeptOutput::default();
    let feed = sandboxed.take_stdin();
    let writing = async {
        if let Some(mut feed) = feed {
            // A command need not read its input.
            feed.write(input).await.ok();
        }
    };
    let mut take = |piece: &[u8]| kept.take(piece);
    let ending = sandboxed.follow(writing, &mut take, stop).await;
    Ok(FinishedCommand { kept, ending, took: began.elapsed() })
}

impl RunningSandbox {
    /// Starts a command. If it cannot begin, its ending explains that.
    pub async fn start(sandbox: &Sandbox, order: &SandboxCommand) -> io::Result<Self> {
        let (stdin, stdout, terminal) = match order.input {
            CommandInput::Pipe | CommandInput::SeparateErrors => {
                (Stdio::piped(), Stdio::piped(), None)
            }
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

    /// Returns the writer of its input, once.
    pub fn take_stdin(&mut self) -> Option<StdinFeed> {
        self.input.take()
    }

    /// Follows it to its end, while `write` writes its input and `take` gets each piece of its output. Ends it at `stop`,
    /// and when its output is too long. All of it is gone when this returns, unless that takes too long.
    pub async fn follow(
        mut self,
        write: impl Future<Output = ()>,
        take: &mut (dyn FnMut(&[u8]) + Send),
        stop: &CancellationToken,
    ) -> CommandEnding {
        let writing = async {
            write.await;
            std::future::pending::<()>().await;
        };
        let reading = async {
            let mut piece = vec![0; PIECE_BYTES];
            let mut total: u64 = 0;
            let exceeded = loop {
                let read = tokio::select! {
                    () = stop.cancelled() => break Some(ExceededLimit::Asked),
                    read = self.read_output(&mut piece) => read,
                };
                let Some(bytes) = read else { break None };
                take(&piece[..bytes]);
                total += bytes as u64;
                if total > OUTPUT_BYTES_MAX {
                    break Some(ExceededLimit::Output);
                }
            };
            match exceeded {
                Some(exceeded) => self.stop(Vec::new(), Some(exceeded)).await,
                None => self.end_by(stop).await,
            }
        };
        tokio::select! {
            () = writing => unreachable!("it never ends"),
            ending = reading => ending,
        }
    }

    /// Reads the next piece of its output, and returns its length. None at the end, or when its time is over.
    async fn read_output(&mut self, piece: &mut [u8]) -> Option<usize> {
        let read = timeout_at(self.until, self.output.read(piece)).await;
        read.ok()?.ok().filter(|bytes| *bytes > 0)
    }

    /// Waits for its end, and ends it at `stop` and when its time is over.
    async fn end_by(mut self, stop: &CancellationToken) -> CommandEnding {
        let mut reports = Vec::new();
        let ended = timeout_at(self.until, read_reports(&mut self.control, &mut reports));
        let exceeded = tokio::select! {
            () = stop.cancelled() => Some(ExceededLimit::Asked),
            ended = ended => ended.is_err().then_some(ExceededLimit::Time),
        };
        self.stop(reports, exceeded).await
    }

    /// Ends it for this reason, unless it has ended by itself.
    async fn stop(
        mut self,
        mut reports: Vec<u8>,
        exceeded: Option<ExceededLimit>,
    ) -> CommandEnding {
        let shutdown = async {
            self.control.shutdown().await.ok();
            read_reports(&mut self.control, &mut reports).await;
            self.child.wait().await.ok();
        };
        if timeout(END_TIME_MAX, shutdown).await.is_err() {
            tracing::warn!("A command takes too long to end, no longer waiting for it");
        }
        let ending = ending(&reports);
        match (exceeded, ending) {
            // It ended by itself first.
            (
                _,
                ended @ (CommandEnding::Exit(_)
                | CommandEnding::Signal(_)
                | CommandEnding::Refused(_)),
            ) => ended,
            (Some(exceeded), _) => CommandEnding::Over(exceeded),
            (None, ended) => ended,
        }
    }
}

/// Starts a guard with these streams, and sends it the order over the socket that it shares with us.
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
    let bytes_left = REPORT_BYTES_MAX.saturating_sub(reports.len()) as u64;
    control.take(bytes_left).read_to_end(reports).await.ok();
}

/// Parses the ending in the reports of a sandbox: the last one counts.
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

/// Returns our own program at its hidden entry, without our environment.
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
    let read: Vec<_> = sandbox.read.iter().chain(&order.read).cloned().collect();
    let write = sandbox.write.iter().chain(&order.write).chain([&order.folder]);
    let write: Vec<_> = write.cloned().collect();
    let is_visible = |it: &&KnownPlace| read.contains(&it.path) || write.contains(&it.path);
    let places = sandbox.places.iter().filter(is_visible).cloned().collect();
    SandboxSpec {
        task,
        level: sandbox.level,
        cwd: order.cwd.clone(),
        folder: order.folder.clone(),
        home: order.home.clone(),
        env: env.collect(),
        read,
        write,
        network: sandbox.network,
        terminal: order.input == CommandInput::Terminal,
        errors_apart: order.input == CommandInput::SeparateErrors,
        bounds,
        least: sandbox.least,
        places,
    }
}

/// Parses the protections that a sandbox has reported.
pub(super) fn enforced(reports: &[u8]) -> Option<Protections> {
    let mut lines = reports.split(|byte| *byte == b'\n');
    lines.find_map(|line| match serde_json::from_slice(line) {
        Ok(GuardReport::Ready(enforced)) => Some(enforced),
        _ => None,
    })
}

/// Opens a new terminal. Returns our end, and the command's.
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
