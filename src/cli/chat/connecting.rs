//! Reaches the daemon of a home, also one that reloads its config or restarts. Not here: the requests (`chat`).

use std::io;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use tokio::net::UnixStream;
use tokio::time::{Instant, sleep};

use crate::control;
use crate::store::{HomeLock, LockHolder, StartWork};

/// Maximum wait for a daemon that starts or ends: its turns, its commands and its MCP servers have some seconds to end.
pub(super) const AWAY_TIME_MAX: Duration = Duration::from_secs(10);

/// Pause before it is looked for again.
pub(super) const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// A connection that ended without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(in crate::cli) enum LostConnection {
    /// The daemon ended before it began with the request.
    #[error("the daemon is ending, and has done nothing: try again in a moment")]
    NotTaken,
    /// The request may or may not have been carried out.
    #[error("the daemon closed the connection; see its log")]
    Unanswered,
}

impl LostConnection {
    /// Returns true if an error means that the other side is gone.
    pub(super) fn is_cause_of(error: &io::Error) -> bool {
        matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
    }
}

/// Connects to the daemon of a home, and waits for one that starts, ends or reloads. None if none runs.
///
/// # Errors
/// Somebody else has the home locked for longer, or tells that it will take long.
pub(super) async fn reach(home: &Path) -> anyhow::Result<Option<UnixStream>> {
    let until = Instant::now() + AWAY_TIME_MAX;
    loop {
        if let Some(stream) = connect(home).await? {
            return Ok(Some(stream));
        }
        match HomeLock::holder(home) {
            // It may have come up since.
            None => return connect(home).await,
            Some(holder) if holder.work.is_some() || Instant::now() >= until => {
                bail!("{}: {}", not_open_yet(&holder), open_advice(&holder));
            }
            Some(_) => sleep(LOOK_AGAIN).await,
        }
    }
}

/// Connects to the daemon of a home. None if none can be asked at this moment.
pub(super) async fn connect(home: &Path) -> anyhow::Result<Option<UnixStream>> {
    use io::ErrorKind::{ConnectionRefused, ConnectionReset, NotFound, WouldBlock};
    match control::connect(home).await {
        Ok(stream) => Ok(Some(stream)),
        // The last one comes from a socket that is just being closed.
        Err(error) if matches!(error.kind(), NotFound | ConnectionRefused | ConnectionReset) => {
            Ok(None)
        }
        // Nobody accepts the connections that wait already.
        Err(error) if error.kind() == WouldBlock => Err(no_answer(home)),
        Err(error) => {
            Err(error).with_context(|| format!("cannot reach the daemon on {}", home.display()))
        }
    }
}

pub(super) fn no_answer(home: &Path) -> anyhow::Error {
    let process = HomeLock::last_holder(home).map(|pid| format!(" (process {pid})"));
    anyhow!(
        "the daemon{} does not answer. Its log may show why; restart it if it stays so",
        process.unwrap_or_default()
    )
}

/// Describes the process that has the home locked and has no socket.
pub(in crate::cli) fn not_open_yet(holder: &LockHolder) -> String {
    match holder.work {
        Some(StartWork::AwaitsSpace) => format!("the daemon cannot start ({holder})"),
        Some(StartWork::Updates(_)) => format!("the daemon is starting ({holder})"),
        None => format!("{holder} has the home locked, and cannot be asked"),
    }
}

/// Returns what to do about it.
pub(in crate::cli) fn open_advice(holder: &LockHolder) -> &'static str {
    const SHORT: &str =
        "it is a daemon that starts or ends, or another command: try again in a moment";
    holder.work.map_or(SHORT, StartWork::advice)
}
