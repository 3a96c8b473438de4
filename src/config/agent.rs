//! `[agent]` and `[asking]`: the agent as a whole, and the calls that people must approve.

use std::time::Duration;

use chrono_tz::Tz;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::bus::rates::RateLimits;
use crate::conversation::asks::{ApprovalSettings, Approvals, OnUntrusted};
use crate::conversation::budgets::Budgets;
use crate::conversation::sessions::Retention;
use crate::memory;
use crate::people::Role;
use crate::tasks::heartbeat;
use crate::tasks::schedule;
use crate::turn::personas::Personas;
use crate::types::session::{Finish, QueueMode};

use super::limits::LimitsSection;
use super::memory::MemorySection;
use super::reading::ConfigSource;
use super::retention::RetentionSection;
use super::values::{At, LengthOrOff, Text, Within, Zone, shown};

/// Maximum wait for a person: a week. The conversation waits meanwhile.
const MINUTES_MOST: u32 = 7 * 24 * 60;

/// Maximum wait for a model: a week. The person has forgotten the question by then.
const WAIT_SECONDS_MOST: u64 = 7 * 24 * 3600;

/// Default wait for a model: a night, and a machine that is repaired in the morning.
const WAIT_FOR_MODEL: Duration = Duration::from_secs(12 * 3600);

/// A meal or a meeting, after which people speak of something else.
const CLEAN_AFTER: Duration = Duration::from_secs(2 * 3600);

/// Below a minute, an answer would be forgotten while it is read; a month is as good as never.
const CLEAN_SECONDS_LEAST: u64 = 60;
const CLEAN_SECONDS_MOST: u64 = 30 * 24 * 3600;

/// Settings of the agent.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct AgentSection {
    /// The providers that answer, by name. The first one answers. The others are fallbacks, in this
    /// order. Default: all, in the order of the config file.
    #[schemars(example = ["main"])]
    providers: Option<At<Vec<At<String>>>>,
    /// The provider that summarizes older messages when a conversation fills the context window. A
    /// cheaper model is enough. It need not be in `providers`. Default: the provider that answers.
    summary_provider: Option<At<String>>,
    /// The provider for runs of jobs, by name. A cheaper model is often enough. It need not be in
    /// `providers`, which step in if it fails. Default: the provider that answers.
    job_provider: Option<At<String>>,
    /// The same for subagents. Default: the provider that answers in the conversation.
    subagent_provider: Option<At<String>>,
    /// Model calls in one turn, each with its tool calls.
    steps_max: Within<1, 100, 10>,
    /// Model calls of a subagent, which works on a task that the model has delegated.
    subagent_steps_max: Within<1, 100, 20>,
    /// Turns that run at a time, in different chats. One in eight (at least one of two, at most
    /// four) is reserved for the owner and admins. If all others are taken, people take turns.
    turns_max: Within<1, 256, 16>,
    /// Messages that can wait in one chat. More are refused with an explanation.
    waiting_max: Within<1, 10_000, 100>,
    /// The handling of a message that arrives while a turn works for its sender: steer (the turn
    /// reads it at its next step) | followup (each message waits and gets its own answer) | collect
    /// (messages wait and get one answer) | interrupt (the turn ends, and the new message is
    /// answered). /queue changes it for one chat.
    queue: QueueMode,
    /// The time for which an answer waits for a model that cannot be reached, is overloaded or refuses for too many
    /// requests, once all fallbacks have failed: a number with s, m, h or d, up to 7d. The turn is suspended and goes
    /// on by itself when the model is back; /stop ends that. A run of a repeated job or of the heartbeat waits at most
    /// until its next time. 0 or "off": people get an error at once.
    #[schemars(with = "String", extend("default" = shown(WAIT_FOR_MODEL.as_secs())))]
    wait_for_model: Option<LengthOrOff<1, WAIT_SECONDS_MOST>>,
    /// The pause in a private conversation after which it goes on without untrusted content and what the model wrote
    /// once it had read it: a number with s, m, h or d, from 1m to 30d. The words of people stay. The model is told how
    /// much was left out, and can open it, which makes the conversation untrusted again. 0 or "off": only /new, /clean
    /// and compaction do so.
    #[schemars(with = "String", extend("default" = shown(CLEAN_AFTER.as_secs())))]
    clean_after: Option<LengthOrOff<CLEAN_SECONDS_LEAST, CLEAN_SECONDS_MOST>>,
    /// The end of a turn: answer (a text without tool calls, which is the answer) | explicit (only
    /// the calls task_completion and converse; a text alone counts as thinking, and the model is
    /// reminded, at most three times). explicit suits models that announce an action instead of
    /// doing it. Subagents always work this way.
    finish: Finish,
    /// The tools that can be called where no persona counts, by name: ["read_file", "web_*"]. `web_*`
    /// stands for every tool whose name begins with web_. Roles bound them, too. Default: all.
    pub(super) tools: Option<Vec<String>>,
    /// The time zone of jobs and of the times that people name, by its name in the tz database.
    /// Default: $TZ; else the time zone that USER.md names at the start; else the machine's.
    timezone: Option<Text<Zone>>,
    /// A file with more MCP servers, in the `mcpServers` format of other programs. The path is
    /// relative to the config file. Only admins can use their tools. Default: none.
    pub(super) mcp_file: Option<At<String>>,
}

/// Calls that need approval, and the time to wait for an answer. The model's questions go to the
/// person who speaks. Requests for approval go to admins and the owner: in the chat of the call if
/// it is their own, else in private.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct AskingSection {
    /// Tools whose calls need approval each time, by name: ["write_file", "mcp_*"]. `mcp_*` stands
    /// for every tool whose name begins with mcp_. Default: none.
    approve_tools: Vec<String>,
    /// Roles whose calls need approval unless they only read, such as ["user"]: guest, user, admin,
    /// owner. Default: none.
    approve_roles: Vec<Role>,
    /// Minutes to wait for an approval in a private chat. A call without an answer is refused.
    approval_minutes: Within<1, MINUTES_MOST, 720>,
    /// The same in a group.
    group_approval_minutes: Within<1, MINUTES_MOST, 5>,
    /// Minutes to wait for the answer to a question of the model. Then it continues without the
    /// answer. The conversation waits meanwhile.
    question_minutes: Within<1, MINUTES_MOST, 60>,
    /// The rule for calls after the model has read untrusted content (pages, files, MCP servers,
    /// other people in a group), which may contain instructions. It applies to calls that act
    /// outside the conversation: commands, messages to other chats, changes of instructions, skills
    /// and memory, jobs, and addresses that nobody wrote. ask (they need approval) | deny (they are
    /// refused) | allow (they run).
    #[serde(alias = "foreign")]
    untrusted: OnUntrusted,
}

/// The `[agent]` section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentConfig {
    /// The first answers; the others are fallbacks. Never empty, all exist.
    pub providers: Vec<String>,
    /// The provider that summarizes long conversations. None: the one that answers. It exists.
    pub summary_provider: Option<String>,
    /// The provider for runs of jobs and for subagents. It exists.
    pub job_provider: Option<String>,
    pub subagent_provider: Option<String>,
    /// Completions of one turn.
    pub steps_max: usize,
    /// Completions of one subagent.
    pub subagent_steps_max: usize,
    /// Turns that run at a time.
    pub turns_max: usize,
    /// The time for which a turn waits for a model that cannot be reached. None: not at all.
    pub wait_for_model: Option<Duration>,
    /// The pause after which a private conversation goes on without its untrusted parts. None: it does not.
    pub clean_after: Option<Duration>,
    /// Maximum number of waiting messages in one chat. More are refused with an explanation.
    pub waiting_max: usize,
    /// The queue mode where nobody chose another.
    pub queue: QueueMode,
    /// The owner's time zone. None: the machine's.
    pub timezone: Option<Tz>,
    /// The event that ends a turn of a conversation.
    pub finish: Finish,
    /// The `[asking]` section.
    pub asking: ApprovalSettings,
    /// The `[heartbeat]` section.
    pub heartbeat: heartbeat::Config,
    /// The `[budgets.NAME]` sections.
    pub budgets: Budgets,
    /// The `[limits]` section.
    pub limits: RateLimits,
    /// The `[personas.NAME]` sections.
    pub personas: Personas,
    /// The `[memory]` section.
    pub memory: memory::Config,
    /// The `[retention]` section.
    pub retention: Retention,
}

impl AgentSection {
    /// Returns the config. Its providers must be among `names`, and are all of them by default.
    pub(super) fn config(&self, source: &ConfigSource<'_>, names: &[&str]) -> AgentConfig {
        let order = self.providers.as_ref().map(|it| source.order(it, "provider", names));
        let all = || names.iter().map(|&name| name.to_owned()).collect();
        let one = |name| source.one(name, "provider", names);
        AgentConfig {
            providers: order.unwrap_or_else(all),
            summary_provider: self.summary_provider.as_ref().and_then(&one),
            job_provider: self.job_provider.as_ref().and_then(&one),
            subagent_provider: self.subagent_provider.as_ref().and_then(&one),
            ..self.limits()
        }
    }

    /// Returns the config apart from providers.
    fn limits(&self) -> AgentConfig {
        AgentConfig {
            providers: Vec::new(),
            summary_provider: None,
            job_provider: None,
            subagent_provider: None,
            steps_max: self.steps_max.count(),
            subagent_steps_max: self.subagent_steps_max.count(),
            turns_max: self.turns_max.count(),
            wait_for_model: self.wait_for_model.map_or(Some(WAIT_FOR_MODEL), |wait| wait.0),
            clean_after: self.clean_after.map_or(Some(CLEAN_AFTER), |after| after.0),
            waiting_max: self.waiting_max.count(),
            queue: self.queue,
            timezone: self.timezone.as_ref().map(|zone| zone.0.0),
            finish: self.finish,
            asking: ApprovalSettings::default(),
            heartbeat: heartbeat::Config::default(),
            budgets: Budgets::default(),
            limits: LimitsSection::default().limits(),
            personas: Personas::new(Vec::new(), self.tools.clone()),
            memory: MemorySection::default().without_provider(),
            retention: RetentionSection::default().config(),
        }
    }
}

impl From<AskingSection> for ApprovalSettings {
    fn from(section: AskingSection) -> Self {
        Self {
            approvals: Approvals { tools: section.approve_tools, roles: section.approve_roles },
            approval_time: section.approval_minutes.minutes(),
            group_approval_time: section.group_approval_minutes.minutes(),
            question_time: section.question_minutes.minutes(),
            untrusted: section.untrusted,
        }
    }
}

impl Default for AgentConfig {
    fn default() -> Self {
        Self { providers: vec!["rehearsal".to_owned()], ..AgentSection::default().limits() }
    }
}

impl AgentConfig {
    /// Returns the time zone of jobs. `user` is the text about the owner, which may name one.
    pub fn zone(&self, user: &str) -> Tz {
        self.timezone.or_else(|| schedule::zone_in(user)).unwrap_or_else(schedule::system_zone)
    }
}
