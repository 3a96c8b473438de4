//! An MCP server program: started with only the declared part of our environment, in a process group of
//! its own, and ended with all processes that it started.

use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use super::Program;

/// Time for a program to end by itself once its input is closed, and then after SIGTERM: together well
/// within the daemon's own grace period.
const CLOSE_TIME_MAX: Duration = Duration::from_millis(500);
const TERMINATE_TIME_MAX: Duration = Duration::from_millis(1000);

/// Time for which its remaining error output is read.
const LAST_WORDS_WAIT: Duration = Duration::from_millis(100);

/// Maximum length of a line of its error output, in bytes.
const LINE_BYTES_MAX: usize = 400;

pub(super) struct ServerProcess {
    child: Child,
    group: ProcessGroup,
    stderr: Option<Errors>,
}

/// Kills a whole process group when it is dropped.
struct ProcessGroup(Option<Pid>);

/// The two pipes of the protocol.
pub(super) type Pipes = (ChildStdout, ChildStdin);

impl ServerProcess {
    #[expect(clippy::disallowed_methods, reason = "servers of tools are programs of the operator")]
    pub(super) fn start(server: &str, program: &Program) -> std::io::Result<(Self, Pipes)> {
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
        let stderr = child.stderr.take().map(|pipe| Errors::new(server, pipe));
        let pipes = child.stdout.take().zip(child.stdin.take()).expect("both were asked for");
        Ok((Self { child, group, stderr }, pipes))
    }

    /// Logs its error output until it has ended. Returns a description of its end.
    pub(super) async fn watch(&mut self) -> String {
        let status = tokio::select! {
            status = self.child.wait() => status,
            () = drain(&mut self.stderr) => self.child.wait().await,
        };
        self.last_words(status).await
    }

    /// Ends it. Its input is closed already; it gets SIGTERM, then it is killed with all processes that
    /// it started. Returns a description of its end.
    pub(super) async fn end(mut self) -> String {
        let status = match timeout(CLOSE_TIME_MAX, self.child.wait()).await {
            Ok(status) => status,
            Err(_) => {
                self.group.signal(Signal::TERM);
                match timeout(TERMINATE_TIME_MAX, self.child.wait()).await {
                    Ok(status) => status,
                    Err(_) => {
                        self.group.signal(Signal::KILL);
                        self.child.wait().await
                    }
                }
            }
        };
        self.last_words(status).await
    }

    async fn last_words(&mut self, status: std::io::Result<ExitStatus>) -> String {
        timeout(LAST_WORDS_WAIT, drain(&mut self.stderr)).await.ok();
        let how = match status {
            Ok(status) => format!("the program ended ({status})"),
            Err(error) => format!("the program is lost: {error}"),
        };
        match self.stderr.as_ref().map(Errors::last).filter(|last| !last.is_empty()) {
            Some(last) => format!("{how}: {last}"),
            None => how,
        }
    }
}

impl ProcessGroup {
    fn signal(&self, signal: Signal) {
        if let Some(group) = self.0 {
            // It may be gone.
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
    pipe: ChildStderr,
    line: Vec<u8>,
    last: String,
}

impl Errors {
    fn new(server: &str, pipe: ChildStderr) -> Self {
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
