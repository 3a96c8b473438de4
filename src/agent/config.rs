//! The settings of the loop.

use chrono::{DateTime, Utc};
use tokio_util::sync::CancellationToken;

use crate::sandbox::SandboxState;
use crate::types::safe_mode::SafeMode;
use crate::types::session::QueueMode;

/// Settings of the agent loop and its commands.
pub struct Config {
    pub turns_max: usize,
    /// Handling of messages that arrive during a turn, unless the conversation has its own setting.
    pub queue: QueueMode,
    /// State of the shell's sandbox, which tells if commands can run.
    pub shell: SandboxState,
    /// The time at which the daemon started.
    pub since: DateTime<Utc>,
    /// Ends the daemon. None if nothing would start it again.
    pub restart: Option<CancellationToken>,
    /// Jobs and heartbeat runs wait in safe mode.
    pub safe_mode: Option<SafeMode>,
    /// The entrance to the web page. None without the gateway.
    #[cfg(feature = "gateway")]
    pub web: Option<crate::channels::web::WebEntrance>,
}
