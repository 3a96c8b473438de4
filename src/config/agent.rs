//! What the config says of the agent as a whole.

use chrono_tz::Tz;

use crate::conversation::asks::Asking;
use crate::tasks::heartbeat;
use crate::tasks::schedule;
use crate::types::session::{Finish, QueueMode};

/// The `[agent]` section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentConfig {
    /// The first answers; the others are fallbacks. Never empty, all exist.
    pub providers: Vec<String>,
    /// Who sums conversations up that have become long; none leaves it to who answers. It exists.
    pub summary_provider: Option<String>,
    /// Completions of one turn.
    pub steps_max: usize,
    /// Completions of one subagent.
    pub subagent_steps_max: usize,
    /// Turns that run at a time.
    pub turns_max: usize,
    /// Messages that wait in one chat; what comes beyond is refused in words.
    pub waiting_max: usize,
    /// What becomes of what is said meanwhile, where nobody chose otherwise.
    pub queue: QueueMode,
    /// The owner's; none: the machine's.
    pub timezone: Option<Tz>,
    /// What ends a turn of a conversation.
    pub finish: Finish,
    /// The `[asking]` section.
    pub asking: Asking,
    /// The `[heartbeat]` section.
    pub heartbeat: heartbeat::Config,
}

impl Default for AgentConfig {
    fn default() -> Self {
        Self {
            providers: vec!["rehearsal".to_owned()],
            summary_provider: None,
            steps_max: 10,
            subagent_steps_max: 20,
            turns_max: 16,
            waiting_max: 100,
            queue: QueueMode::default(),
            timezone: None,
            finish: Finish::default(),
            asking: Asking::default(),
            heartbeat: heartbeat::Config::default(),
        }
    }
}

impl AgentConfig {
    /// The zone by which jobs are due, if `user` is what is known of the owner.
    pub fn zone(&self, user: &str) -> Tz {
        self.timezone.or_else(|| schedule::zone_in(user)).unwrap_or_else(schedule::system_zone)
    }
}
