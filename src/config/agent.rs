//! `[agent]` and `[asking]`: the agent as a whole, and the calls that people must approve.

use chrono_tz::Tz;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::conversation::asks::{Approvals, Asking, OnForeign};
use crate::people::Role;
use crate::tasks::heartbeat;
use crate::tasks::schedule;
use crate::types::session::{Finish, QueueMode};

use super::reading::Source;
use super::values::{At, Text, Within, Zone};

/// A week; the conversation waits meanwhile.
const MINUTES_MOST: u32 = 7 * 24 * 60;

/// The agent as a whole.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct AgentSection {
    /// The providers that answer, by name: the first one answers, the others are fallbacks, in this
    /// order. Default: all, in the order of the config file.
    #[schemars(example = ["main"])]
    providers: Option<At<Vec<At<String>>>>,
    /// The provider that summarizes older messages when a conversation fills the model's context; a
    /// cheaper model will do. `providers` may leave it out. Default: the provider that answers.
    summary_provider: Option<At<String>>,
    /// Completions in one turn, each with its tool calls.
    steps_max: Within<1, 100, 10>,
    /// Completions of a subagent, which works on a task that the model has handed on.
    subagent_steps_max: Within<1, 100, 20>,
    /// Turns that run at a time, in different chats. One in eight (at least one of two, at most
    /// four) is kept for the owner and admins; if all others are taken, people take turns.
    turns_max: Within<1, 256, 16>,
    /// Messages that wait in one chat. Further ones are refused with an answer.
    waiting_max: Within<1, 10_000, 100>,
    /// The handling of a message that arrives while a turn works for its sender: steer (the turn is
    /// shown it at its next step) | followup (each message waits, and is answered by itself) |
    /// collect (it waits, and all are answered as one) | interrupt (the turn ends, and the new
    /// message is answered). In a chat, /queue changes it there.
    queue: QueueMode,
    /// The end of a turn: answer (a text without tool calls, which is the answer) | explicit (only
    /// the calls task_completion and converse; a text alone is thought aloud, and the model is
    /// reminded, at most three times). explicit suits models that announce what they will do instead
    /// of doing it. Subagents always work so.
    finish: Finish,
    /// The time zone of jobs and of the times that people name, as the tz database calls it.
    /// Default: $TZ; else the one that USER.md names on a line about the time zone, as it is at the
    /// start; else the machine's.
    timezone: Option<Text<Zone>>,
    /// A file with further MCP servers, in the `mcpServers` form of other programs; the path is
    /// relative to the config file. All their tools are for admins. Default: none.
    pub(super) mcp_file: Option<At<String>>,
}

/// The calls that people must approve, and how long they are waited for. The model's questions go
/// to the person who speaks. Approvals are asked of admins and the owner: where the call was made if
/// it is their own, else in private.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct AskingSection {
    /// Tools whose calls must be approved each time, by name: ["write_file", "mcp_*"], where `mcp_*`
    /// stands for every tool that begins so. Default: none.
    approve_tools: Vec<String>,
    /// Roles whose calls must be approved unless they only read, such as ["user"]: guest, user,
    /// admin, owner. Default: none.
    approve_roles: Vec<Role>,
    /// Minutes after which a call without an answer counts as denied.
    approval_minutes: Within<1, MINUTES_MOST, 5>,
    /// Minutes after which the model goes on without an answer to its question. The conversation
    /// waits meanwhile.
    question_minutes: Within<1, MINUTES_MOST, 60>,
    /// Once the model has read untrusted content (pages, files, MCP servers, others in a group), that
    /// may have asked for what the model does. Its calls that reach outside (commands, messages to
    /// other chats, changes of its rules and skills and of its memory, jobs, addresses that nobody
    /// wrote) must then be approved (ask), are refused (deny) or are made (allow).
    foreign: OnForeign,
}

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

impl AgentSection {
    /// Its providers must be among `names`, and are all of these by default.
    pub(super) fn config(&self, source: &Source<'_>, names: &[&str]) -> AgentConfig {
        let order = self.providers.as_ref().map(|it| source.order(it, "provider", names));
        let all = || names.iter().map(|&name| name.to_owned()).collect();
        let one = |name| source.one(name, "provider", names);
        AgentConfig {
            providers: order.unwrap_or_else(all),
            summary_provider: self.summary_provider.as_ref().and_then(one),
            ..self.limits()
        }
    }

    /// The config apart from providers.
    fn limits(&self) -> AgentConfig {
        AgentConfig {
            providers: Vec::new(),
            summary_provider: None,
            steps_max: self.steps_max.count(),
            subagent_steps_max: self.subagent_steps_max.count(),
            turns_max: self.turns_max.count(),
            waiting_max: self.waiting_max.count(),
            queue: self.queue,
            timezone: self.timezone.as_ref().map(|zone| zone.0.0),
            finish: self.finish,
            asking: Asking::default(),
            heartbeat: heartbeat::Config::default(),
        }
    }
}

impl From<AskingSection> for Asking {
    fn from(section: AskingSection) -> Self {
        Self {
            approvals: Approvals { tools: section.approve_tools, roles: section.approve_roles },
            approval_time: section.approval_minutes.minutes(),
            question_time: section.question_minutes.minutes(),
            foreign: section.foreign,
        }
    }
}

impl Default for AgentConfig {
    fn default() -> Self {
        Self { providers: vec!["rehearsal".to_owned()], ..AgentSection::default().limits() }
    }
}

impl AgentConfig {
    /// The zone by which jobs are due, if `user` is what is known of the owner.
    pub fn zone(&self, user: &str) -> Tz {
        self.timezone.or_else(|| schedule::zone_in(user)).unwrap_or_else(schedule::system_zone)
    }
}
