//! The settings of the loop.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use tokio_util::sync::CancellationToken;

use crate::sandbox::SandboxState;
use crate::tasks::subagents::SubagentId;
use crate::types::origin::{TaskId, TaskKind};
use crate::types::safe_mode::SafeMode;
use crate::types::session::QueueMode;

/// Checks the config that the next start would read. The error explains to the owner why it cannot be used.
pub type ConfigCheck = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

/// The way to restart the daemon.
#[derive(Clone)]
pub struct Restart {
    /// Ends the daemon, which is then started again.
    pub stop: CancellationToken,
    /// None if the next start reads no config.
    pub check: Option<ConfigCheck>,
}

impl Restart {
    /// Runs the check, off the loop's thread: it reads files and tries the sandbox.
    pub(super) async fn check(&self) -> Result<(), String> {
        let Some(check) = self.check.clone() else { return Ok(()) };
        let checked = tokio::task::spawn_blocking(move || check()).await;
        checked.unwrap_or_else(|error| Err(error.to_string()))
    }
}

/// Settings of the agent loop and its commands.
pub struct Config {
    pub turns_max: usize,
    /// Handling of messages that arrive during a turn, unless the conversation has its own setting.
    pub queue: QueueMode,
    /// State of the shell's sandbox, which tells if commands can run.
    pub shell: SandboxState,
    /// The time at which the daemon started.
    pub since: DateTime<Utc>,
    /// None if nothing would start the daemon again.
    pub restart: Option<Restart>,
    /// Work that starts without a person's request waits in safe mode.
    pub safe_mode: Option<SafeMode>,
    /// The newest subagent at the start of the daemon. Later ones work for what people say now.
    pub newest_subagent: SubagentId,
    /// The entrance to the web page. None without the gateway.
    #[cfg(feature = "gateway")]
    pub web: Option<crate::channels::web::WebEntrance>,
}

impl Config {
    /// Returns true if safe mode holds a background task back: it starts without a person's request, or was there before.
    pub(super) fn holds_back(&self, task: TaskId) -> bool {
        let is_of_before = match task.kind {
            TaskKind::Subagent => SubagentId(task.number) <= self.newest_subagent,
            TaskKind::Job | TaskKind::Heartbeat => false,
        };
        self.safe_mode.is_some() && (task.kind.starts_without_request() || is_of_before)
    }

    /// Returns true if safe mode holds back a message of such a task in a conversation, as a job has that works there.
    pub(super) fn holds_back_message_of(&self, task: TaskKind) -> bool {
        self.safe_mode.is_some() && task.starts_without_request()
    }
}
