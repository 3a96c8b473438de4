//! A program that lends tools: started with nothing of ours but what is declared, in a process
//! group of its own, and ended with all that it has started.

use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use super::Program;

/// How long a program may take to end by itself once its input is closed, and then after SIGTERM:
/// together well within the daemon's own grace.
const CLOSE_TIME_MAX: Duration = Duration::from_millis(500);
const TERMINATE_TIME_MAX: Duration = Duration::from_millis(1000);

/// What is still read of its last words.
const LAST_WORDS_WAIT: Duration = Duration::from_millis(100);

/// What is kept of a line of its errors.
const LINE_BYTES_MAX: usize = 400;

pub(super) struct ServerProcess {
    child: Child,
    group: ProcessGroup,
    stderr: Option<Errors>,
}

/// Kills all of a process group when it goes.
struct ProcessGroup(Option<Pid>);

/// The two ends that are spoken over.
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

    /// Reads its errors into the log until it has ended; says how it did.
    pub(super) async fn watch(&mut self) -> String {
        let status = tokio::select! {
            status = self.child.wait() => status,
            () = drain(&mut self.stderr) => self.child.wait().await,
        };
        self.last_words(status).await
    }

    /// Ends it: its input is closed already; it is asked, then killed, with all that it started.
    /// Says how it ended.
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

/// A program's standard error, read so that it never blocks, of which the last line is kept.
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
            tracing::debug!(server = self.server, line, "An MCP server writes");
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
