//! The daemon that gets killed: this test binary again, told by the environment what to be.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chrono::Utc;
use futures_util::{StreamExt, stream};
use peacrab::bus::rates::RateLimits;
use peacrab::channels::intake::Intake;
use peacrab::config::AgentConfig;
use peacrab::conversation::asks::{ApprovalSettings, Approvals};
use peacrab::conversation::budgets::{Allowance, Budget, Budgets};
use peacrab::daemon::{Daemon, DaemonParts};
use peacrab::documents::DocumentReader;
use peacrab::memory;
use peacrab::people::{Access, Role};
use peacrab::provider::rehearsal::Rehearsal;
use peacrab::provider::{
    Delta, DeltaStream, Models, PromptMessage, Provider, ProviderError, Request, StopReason,
    ToolCall,
};
use peacrab::secret::Redactor;
use peacrab::store::{CommitEvent, Observer, Phase, StoreOptions};
use peacrab::tasks::schedule::Clock;
use peacrab::tools::{self, AnyTool, McpTools, ToolSet};
use peacrab::turn::services::ModelChoice;
use peacrab::workspace::skills::SkillEnvironment;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::shell;
use crate::support::platform::{OWNER, Platform, PlatformBehavior};
use crate::support::script::faults;
use crate::support::tools::ActingTool;

/// What kills the process of whoever works on it.
pub(super) const DEADLY: &str = "divide by zero";

/// What makes the model call a tool that acts outside, and one for which twice is as once.
pub(super) const ACT: &str = "act outside";
pub(super) const LOOK: &str = "look outside";

/// What makes the model hand a task on, beside the conversation and waiting for it.
pub(super) const SPAWN: &str = "hand it over";
pub(super) const AWAIT: &str = "have it done";
pub(super) const TASK: &str = "append crab to den.md";

/// What makes the model ask for a job that is due at once: a task, worked on alone or in the conversation,
/// and a text.
pub(super) const JOB: &str = "put it off";
pub(super) const JOB_HERE: &str = "do it here later";
pub(super) const REMIND: &str = "remind me of";

/// The same of a command, alone and before a task.
pub(super) const COMMAND: &str = "run it later";
pub(super) const CHECK: &str = "look before you do it";
const RUNS: &str = "echo ran >> ran.log; echo the crab ran";
/// What is said while the model cannot be reached: at first, and again once it has called a tool.
pub(super) const AWAY: &str = "come back later then append crab to den.md";
/// The questions of which this is true fail, counted over all processes.
const AWAY_AT: [usize; 2] = [1, 3];

/// Asks for so many calls, one in a step, of which the model takes only some at once.
pub(super) const MANY: &str = "count the crabs";
pub(super) const APPENDS: usize = 5;
/// Where they write.
pub(super) const COUNTED: &str = "counted.md";
const TAKEN_AT_ONCE: usize = 3;

/// What HEARTBEAT.md asks for, and what the model tells of it.
pub(super) const WATCH: &str = "watch the tide";
pub(super) const TIDE: &str = "The tide is high.";

/// The fact that the model notices in each conversation.
pub(super) const NOTICED: &str = "The crab is small";

/// In how many minutes; the child's clock is ahead by a little more.
const MINUTES: i64 = 20;

/// Where both write, in the home.
pub(super) const ACTS: &str = "acts.log";

/// The variable that holds the [`Spec`].
pub(super) const SPEC: &str = "PEACRAB_TEST_CRASH";

#[derive(Serialize, Deserialize)]
pub(super) struct Spec {
    pub(super) home: PathBuf,
    pub(super) platform: PathBuf,
    pub(super) manners: PlatformBehavior,
    pub(super) asks: Asks,
    pub(super) restarts: bool,
    /// Facts are noticed.
    pub(super) extracts: bool,
    pub(super) kill: Option<Kill>,
}

/// What the daemon asks people for, and for how long.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Asks {
    /// Calls that act must be allowed.
    pub(super) approve: bool,
    /// Until it takes silence for an answer; none is as usual.
    pub(super) time: Option<Duration>,
    /// The owner's tokens for a day, and for a month; none is no budget.
    pub(super) budget: Option<u64>,
    pub(super) month: Option<u64>,
}

/// Which commit kills.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Kill {
    pub(super) at: At,
    pub(super) when: When,
}

#[derive(Clone, Serialize, Deserialize)]
pub(super) enum At {
    /// The commit with this number.
    Commit(u64),
    /// The first commit with a change of this name.
    Label(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum When {
    Before,
    After,
}

/// The child's body; does nothing where it was not asked for.
#[test]
fn daemon() {
    #[expect(clippy::disallowed_methods, reason = "how a child of this very binary is told")]
    let Ok(spec) = std::env::var(SPEC) else { return };
    let spec: Spec = serde_json::from_str(&spec).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let plan = plan(spec);
        Daemon::open(plan).await.unwrap().run(CancellationToken::new(), || {}).await.unwrap();
    });
}

fn plan(spec: Spec) -> DaemonParts {
    let platform = Platform::new(&spec.platform, spec.manners);
    let access = Access { owners: vec![OWNER.to_owned()], ..Access::default() };
    let observer = spec.kill.map(|kill| -> Observer { Arc::new(move |moment| kill.look(moment)) });
    let act = |name, idempotent| {
        let log = spec.home.join(ACTS);
        Arc::new(ActingTool { name, idempotent, log }) as Arc<dyn AnyTool>
    };
    let away = spec.home.join("away.log");
    let config = shell::config();
    let standing = tools::shell::check_sandbox(&config);
    let tools = ToolSet::standard_with(tools::shell::tools(&config, &standing));
    tools.set_mcp_tools(McpTools::new(vec![act("act", false), act("look", true)], Vec::new()));
    let usual = ApprovalSettings::default();
    // Where a role is asked about, "always" can be chosen, too.
    let approvals = Approvals { tools: Vec::new(), roles: vec![Role::Owner] };
    let asking = ApprovalSettings {
        approvals: if spec.asks.approve { approvals } else { Approvals::default() },
        approval_time: spec.asks.time.unwrap_or(usual.approval_time),
        question_time: spec.asks.time.unwrap_or(usual.question_time),
        ..usual
    };
    let day = Allowance { tokens: spec.asks.budget, cost: None };
    let month = Allowance { tokens: spec.asks.month, cost: None };
    let owner = Budget { day, month };
    let budgets = Budgets { owner, ..Budgets::default() };
    let usual = AgentConfig::default();
    let memory = memory::Config { extract: spec.extracts, ..usual.memory.clone() };
    DaemonParts {
        tools,
        home: spec.home,
        agent: AgentConfig { asking, budgets, limits: RateLimits::default(), memory, ..usual },
        models: ModelChoice {
            default: Arc::new(Watchful(Rehearsal, away.clone())),
            summariser: Arc::new(Watchful(Rehearsal, away)),
            all: Models::default(),
        },
        channels: [("home".into(), (Arc::new(platform) as _, access))].into(),
        mcp: BTreeMap::default(),
        store: StoreOptions { observer, ..StoreOptions::default() },
        intake: Intake {
            documents: Some(DocumentReader::new(env!("CARGO_BIN_EXE_peacrab"))),
            ..Intake::default()
        },
        skill_environment: SkillEnvironment::default(),
        program: "peacrab".to_owned(),
        restarts: spec.restarts,
        supervision: Default::default(),
        gateway: None,
        hooks: BTreeMap::default(),
        backup: None,
        commands: tools::shell::commands(&config, &standing),
        shell: Default::default(),
        clock: clock(),
        redactor: Redactor::default(),
    }
}

/// A clock that stands at a moment at which what is wanted in some minutes is just due.
fn clock() -> Clock {
    let (hands, clock) = watch::channel(Utc::now() + chrono::Duration::minutes(MINUTES + 2));
    // Nobody moves its hands.
    std::mem::forget(hands);
    Clock::with_hands(clock)
}

impl Kill {
    /// Ends the process at once, as a power cut would, with nothing cleaned up.
    fn look(&self, moment: CommitEvent<'_>) {
        let here = match &self.at {
            At::Commit(commit) => moment.commit == *commit,
            At::Label(label) => moment.labels.contains(&label.as_str()),
        };
        let now = match moment.phase {
            Phase::Before => When::Before,
            Phase::After => When::After,
        };
        if here && now == self.when {
            std::process::abort();
        }
    }
}

/// A model that takes no transcript that the vendors would not take.
struct Watchful(Rehearsal, PathBuf);

impl Watchful {
    /// Returns true if it cannot be reached now.
    fn is_away(&self, request: &Request<'_>) -> bool {
        let is_asked = |message: &PromptMessage<'_>| matches!(message, PromptMessage::User { text, .. } if text.contains(AWAY));
        if !request.messages.iter().any(is_asked) {
            return false;
        }
        let mut asked = std::fs::read_to_string(&self.1).unwrap_or_default();
        asked.push('x');
        std::fs::write(&self.1, &asked).unwrap();
        AWAY_AT.contains(&asked.len())
    }
}

/// Returns true if it is no turn, but the request for facts.
fn asks_for_facts(request: &Request<'_>) -> bool {
    matches!(request.messages.last(), Some(PromptMessage::User { text, .. }) if text.contains("Which lasting facts"))
}

/// What the model does that was asked for many calls; none if it was asked for something else.
fn count(request: &Request<'_>) -> Option<Result<Vec<Delta>, ProviderError>> {
    let texts = request.messages.iter().filter_map(|message| match message {
        PromptMessage::User { text, .. } => Some(text.as_str()),
        _ => None,
    });
    let told = texts.collect::<Vec<_>>().join("\n");
    if !told.contains(MANY) {
        return None;
    }
    let says = |text: &str| vec![Delta::Text(text.to_owned()), Delta::End(StopReason::Done)];
    if request.tools.is_empty() {
        return Some(Ok(says("The crab counts.")));
    }
    let shown = request.messages.iter().filter(|it| matches!(it, PromptMessage::Results(_)));
    let shown = shown.count();
    if shown > TAKEN_AT_ONCE {
        return Some(Err(ProviderError::TooLong));
    }
    // What it has forgotten, the program's record tells.
    let made = shown + told.matches("- append_file `counted.md`: done").count();
    if made == APPENDS {
        return Some(Ok(says("All are there.")));
    }
    let arguments = json!({"path": COUNTED, "content": format!("{made}\n")}).to_string();
    let (id, name) = ("outside".to_owned(), "append_file".to_owned());
    let call = Delta::Call(ToolCall { id, name, arguments });
    Some(Ok(vec![call, Delta::End(StopReason::Calls)]))
}

#[async_trait]
impl Provider for Watchful {
    fn name(&self) -> &str {
        self.0.name()
    }

    async fn stream<'a>(
        &'a self,
        request: &'a Request<'a>,
    ) -> Result<DeltaStream<'a>, ProviderError> {
        if !faults(&request.messages).is_empty() {
            // The parent sees a daemon that ended by itself.
            std::process::exit(3);
        }
        if request.messages.last().is_some_and(
            |message| matches!(message, PromptMessage::User { text, .. } if text.contains(DEADLY)),
        ) {
            std::process::abort();
        }
        if self.is_away(request) {
            return Err(ProviderError::busy("away"));
        }
        if asks_for_facts(request) {
            let said = json!({ "new": [{ "text": NOTICED }] }).to_string();
            let deltas = [Delta::Text(said), Delta::End(StopReason::Done)];
            return Ok(stream::iter(deltas.map(Ok)).boxed());
        }
        if let Some(deltas) = count(request) {
            return deltas.map(|deltas| stream::iter(deltas.into_iter().map(Ok)).boxed());
        }
        let task = format!(r#"{{"task":"{TASK}"}}"#);
        let later = |text: &str, kind: &str| {
            let when = format!("{MINUTES}m");
            json!({"action": "add", "when": when, "text": text, "kind": kind}).to_string()
        };
        let said = match request.messages.last() {
            Some(PromptMessage::User { text, .. }) => text.as_str(),
            _ => "",
        };
        let after_check = || {
            let mut job: Value = serde_json::from_str(&later(TASK, "prompt")).unwrap();
            job["check"] = RUNS.into();
            job.to_string()
        };
        let tide = json!({"text": TIDE}).to_string();
        let reminder = said.split_once(REMIND).map_or("", |(_, of)| of.trim());
        for (words, tool, arguments) in [
            (ACT, "act", "{}"),
            (LOOK, "look", "{}"),
            (SPAWN, "spawn", &*task),
            (AWAIT, "subagent", &*task),
            (JOB, "schedule", &*later(TASK, "prompt")),
            (JOB_HERE, "schedule", &*later(TASK, "here")),
            (REMIND, "schedule", &*later(reminder, "message")),
            (COMMAND, "schedule", &*later(RUNS, "command")),
            (CHECK, "schedule", &*after_check()),
            (WATCH, "converse", &*tide),
        ] {
            if said.contains(words) {
                let (id, name) = ("outside".to_owned(), tool.to_owned());
                let call = Delta::Call(ToolCall { id, name, arguments: arguments.to_owned() });
                let deltas = [call, Delta::End(StopReason::Calls)];
                return Ok(stream::iter(deltas.map(Ok)).boxed());
            }
        }
        let answer = self.0.stream(request).await?;
        if request.facts.is_empty() {
            return Ok(answer);
        }
        // It says that its answers rest on all facts.
        let used = Delta::UsedFacts(request.facts.to_vec());
        let with_used = move |delta| match delta {
            Ok(Delta::End(_)) => vec![Ok(used.clone()), delta],
            delta => vec![delta],
        };
        Ok(answer.flat_map(move |delta| stream::iter(with_used(delta))).boxed())
    }
}
