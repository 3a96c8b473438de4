//! A program in the sandbox that runs until it ends by itself or is dropped, such as an MCP server. Its three standard
//! streams are separate, and nobody waits for its end.

use std::io;
use std::os::fd::OwnedFd;
use std::process::Stdio;

use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::{UnixStream, unix::pipe};
use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio::time::timeout;

use super::start::{CommandEnding, END_TIME_MAX, REPORT_BYTES_MAX, begin, ending};
use super::supervisor::hand_over;
use super::{Sandbox, SandboxCommand};

/// A running program. Dropping it ends the program with all that it has started, and so does the death of the
/// daemon.
pub struct SandboxedProgram {
    child: Child,
    control: UnixStream,
    reports: Vec<u8>,
}

/// The three streams of a program, each a pipe.
pub struct ProgramStreams {
    pub stdin: ChildStdin,
    pub stdout: ChildStdout,
    pub stderr: pipe::Receiver,
}

impl SandboxedProgram {
    /// Starts the program of an order whose input is [`SeparateErrors`](super::CommandInput::SeparateErrors).
    /// If it cannot begin, its [`ending`](Self::ended) explains that.
    pub async fn start(
        sandbox: &Sandbox,
        order: &SandboxCommand,
    ) -> io::Result<(Self, ProgramStreams)> {
        let (mut child, control) = begin(sandbox, order, Stdio::piped(), Stdio::piped()).await?;
        let (errors, their_errors) = io::pipe()?;
        let their_errors = OwnedFd::from(their_errors);
        control.async_io(Interest::WRITABLE, || hand_over(&control, &their_errors)).await?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (stdin, stdout) = pipes.expect("both were asked for");
        let stderr = pipe::Receiver::from_owned_fd(errors.into())?;
        let streams = ProgramStreams { stdin, stdout, stderr };
        Ok((Self { child, control, reports: Vec::new() }, streams))
    }

    /// Waits until the program and all that it has started have ended. May be dropped and called again.
    pub async fn ended(&mut self) -> CommandEnding {
        while self.reports.len() < REPORT_BYTES_MAX {
            match self.control.read_buf(&mut self.reports).await {
                Ok(0) | Err(_) => break,
                Ok(_) => {}
            }
        }
        self.child.wait().await.ok();
        ending(&self.reports)
    }

    /// Ends the program at once with all that it has started.
    pub async fn kill(&mut self) -> CommandEnding {
        self.control.shutdown().await.ok();
        match timeout(END_TIME_MAX, self.ended()).await {
            Ok(ending) => ending,
            Err(_) => {
                tracing::warn!("A program takes too long to end, no longer waiting for it");
                CommandEnding::Lost
            }
        }
    }
}
