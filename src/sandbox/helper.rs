//! Starts a process of our own program that reads untrusted content. It gets one file as its input, drops its rights
//! itself ([`super::reader::confine`]), and prints one result. Not here: commands of people.

use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::time::timeout;

/// Limits of one helper process.
#[derive(Clone, Copy, Debug)]
pub struct HelperLimits {
    /// Time limit from its start to its end. After that, it is killed.
    pub time: Duration,
    /// Maximum size of its result, in bytes. The rest is not read.
    pub result_bytes: u64,
}

/// The reason why a helper process gave no result.
#[derive(Debug, thiserror::Error)]
pub enum HelperError {
    #[error("it took too long")]
    TooSlow,
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Runs a hidden entry of the program with a file as its input, and returns its output. A process that fails has
/// printed nothing, or a part: the caller parses it.
pub async fn run(
    program: &Path,
    entry: &[&str],
    input: File,
    limits: HelperLimits,
) -> Result<Vec<u8>, HelperError> {
    let ended = timeout(limits.time, run_to_end(program, entry, input, limits.result_bytes)).await;
    Ok(ended.map_err(|_| HelperError::TooSlow)??)
}

#[expect(clippy::disallowed_methods, reason = "our own program, which takes its rights away")]
async fn run_to_end(
    program: &Path,
    entry: &[&str],
    input: File,
    result_bytes_max: u64,
) -> io::Result<Vec<u8>> {
    let mut command = Command::new(program);
    command.arg0("peacrab").args(entry).env_clear().current_dir("/");
    command.stdin(input).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
    let mut child = tokio::process::Command::from(command).kill_on_drop(true).spawn()?;
    let output = child.stdout.take().expect("it was asked for");
    let mut result = Vec::new();
    output.take(result_bytes_max).read_to_end(&mut result).await?;
    let ended = child.wait().await?;
    if !ended.success() {
        // Its input can make it end in any way.
        tracing::info!(entry = entry.first(), %ended, "A helper process failed");
    }
    Ok(result)
}
