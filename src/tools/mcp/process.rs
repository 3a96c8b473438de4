//! The program of an MCP server. It runs in the sandbox, or, if the config says so, in a process group of its own. It
//! gets only the declared part of our environment, and ends with all processes that it started.

use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use super::Program;
use super::launch::launch;
use crate::replies;
use crate::sandbox::{CommandEnding, ProgramStreams, SandboxedProgram};
use crate::workspace::Workspace;

/// Time for a program to end by itself once its input is closed, and then after SIGTERM: together well
/// within the daemon's own grace period.
const CLOSE_TIME_MAX: Duration = Duration::from_millis(500);
const TERMINATE_TIME_MAX: Duration = Duration::from_millis(1000);

/// Time for which its remaining error output is read.
const LAST_WORDS_WAIT: Duration = Duration::from_millis(100);

/// Maximum length of a line of its error output, in bytes.
const LINE_BYTES_MAX: usize = 400;

pub(super) struct ServerProcess {
    running: RunningProgram,
    stderr: Option<Errors>,
}

enum RunningProgram {
    Sandboxed(SandboxedProgram),
    Bare { child: Child, group: ProcessGroup },
}

/// Kills a whole process group when it is dropped.
struct ProcessGroup(Option<Pid>);

/// The two pipes of the protocol.
pub(super) type Pipes = (ChildStdout, ChildStdin);

impl ServerProcess {
    /// Starts a server's program. The error explains why that failed.
    pub(super) async fn start(
        server: &str,
        program: &Program,
        workspace: &Workspace,
    ) -> Result<(Self, Pipes), String> {
        let failed = |error: std::io::Error| format!("cannot start {}: {error}", program.command);
        if !program.is_sandboxed() {
            return start_bare(server, program).map_err(failed);
        }
        let (name, wanted) = (server.to_owned(), program.clone());
        let prepared = workspace.run_blocking(move |workspace| launch(&name, &wanted, workspace));
        let (sandbox, command) = prepared.await?;
        let started = SandboxedProgram::start(&sandbox, &command).await;
        let (running, ProgramStreams { stdin, stdout, stderr }) = started.map_err(failed)?;
        let stderr = Some(Errors::new(server, Box::new(stderr)));
        Ok((Self { running: RunningProgram::Sandboxed(running), stderr }, (stdout, stdin)))
    }

    /// Logs its error output until it has ended. Returns a description of its end.
    pub(super) async fn watch(&mut self) -> String {
        let Self { running, stderr } = self;
        let ending = tokio::select! {
            ending = running.ended() => ending,
            () = drain(stderr) => running.ended().await,
        };
        self.add_last_line(ending).await
    }

    /// Ends the program. Its input is closed already. Without a sandbox it gets SIGTERM, then it is killed with all
    /// processes that it started. Returns a description of its end.
    pub(super) async fn end(mut self) -> String {
        let ending = self.running.end().await;
        self.add_last_line(ending).await
    }

    async fn add_last_line(&mut self, ending: String) -> String {
        timeout(LAST_WORDS_WAIT, drain(&mut self.stderr)).await.ok();
        match self.stderr.as_ref().map(Errors::last).filter(|last| !last.is_empty()) {
            Some(last) => format!("{ending}: {last}"),
            None => ending,
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "servers of tools are programs of the operator")]
fn start_bare(server: &str, program: &Program) -> std::io::Result<(ServerProcess, Pipes)> {
    let mut command = Command::new(&program.command);
    command
        .args(&program.args)
        .env_clear()
        .envs(program.inherited.iter().map(|(name, value)| (name, value)))
        .envs(program.env.iter().map(|(name, value)| (name, value.reveal())))
        .process_group(0)
        .kill_on_drop(true)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if let Some(cwd) = &program.cwd {
        command.current_dir(cwd);
    }
    let mut child = command.spawn()?;
    let group = ProcessGroup(child.id().and_then(|id| Pid::from_raw(id.cast_signed())));
    let stderr = child.stderr.take().map(|pipe| Errors::new(server, Box::new(pipe)));
    let pipes = child.stdout.take().zip(child.stdin.take()).expect("both were asked for");
    Ok((ServerProcess { running: RunningProgram::Bare { child, group }, stderr }, pipes))
}

impl RunningProgram {
    /// Waits for its end, and describes it.
    async fn ended(&mut self) -> String {
        match self {
            Self::Sandboxed(program) => describe_ending(&program.ended().await),
            Self::Bare { child, .. } => describe_status(child.wait().await),
        }
    }

    async fn end(&mut self) -> String {
        if let Ok(ending) = timeout(CLOSE_TIME_MAX, self.ended()).await {
            return ending;
        }
        if let Self::Bare { group, .. } = self {
            group.signal(Signal::TERM);
        }
        if let Ok(ending) = timeout(TERMINATE_TIME_MAX, self.ended()).await {
            return ending;
        }
        match self {
            Self::Sandboxed(program) => describe_ending(&program.kill().await),
            Self::Bare { child, group } => {
                group.signal(Signal::KILL);
                describe_status(child.wait().await)
            }
        }
    }
}

fn describe_status(status: std::io::Result<ExitStatus>) -> String {
    match status {
        Ok(status) => format!("the program ended ({status})"),
        Err(error) => format!("the program is lost: {error}"),
    }
}

fn describe_ending(ending: &CommandEnding) -> String {
    match ending {
        CommandEnding::Refused(why) => replies::mcp_not_sandboxed(why),
        ending => format!("the program ended ({})", ending.describe(Duration::ZERO)),
    }
}

impl ProcessGroup {
    fn signal(&self, signal: Signal) {
        if let Some(group) = self.0 {
            // The group may be gone.
            kill_process_group(group, signal).ok();
        }
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

async fn drain(errors: &mut Option<Errors>) {
    if let Some(errors) = errors {
        errors.drain().await;
    }
}

/// A program's standard error, read so that it never blocks. The last line is kept.
struct Errors {
    server: String,
    pipe: Box<dyn AsyncRead + Send + Unpin>,
    line: Vec<u8>,
    last: String,
}

impl Errors {
    fn new(server: &str, pipe: Box<dyn AsyncRead + Send + Unpin>) -> Self {
        Self { server: server.to_owned(), pipe, line: Vec::new(), last: String::new() }
    }

    /// Reads until the other end is closed.
    async fn drain(&mut self) {
        let mut buffer = [0; 1024];
        while let Some(read) = read(&mut self.pipe, &mut buffer).await {
            for &byte in &buffer[..read] {
                match byte {
                    b'\n' => self.end_line(),
                    _ if self.line.len() < LINE_BYTES_MAX => self.line.push(byte),
                    _ => {}
                }
            }
        }
        self.end_line();
    }

    fn end_line(&mut self) {
        let line = String::from_utf8_lossy(&self.line);
        let line: String = line.trim().chars().filter(|c| !c.is_control()).collect();
        self.line.clear();
        if !line.is_empty() {
            tracing::debug!(server = self.server, line, "Output of an MCP server");
            self.last = line;
        }
    }

    fn last(&self) -> &str {
        &self.last
    }
}

async fn read(pipe: &mut (impl AsyncRead + Unpin), buffer: &mut [u8]) -> Option<usize> {
    pipe.read(buffer).await.ok().filter(|read| *read > 0)
}
