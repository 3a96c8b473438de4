//! The shell: `exec` runs a command in the sandbox, `process` manages background commands. The owner's
//! commands, in a private chat, have the whole workspace. Those of others have its folder `shared`,
//! because the rest contains the owner's memory and the instructions.

mod places;
mod sessions;
mod shown;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;

use super::for_role::ForRole;
use super::{AnyTool, Kind, Reach, Tool, ToolContext, ToolError, ToolOutput, ToolSpec, tell};
use crate::memory::audience;
use crate::people::Role;
use crate::replies;
use crate::sandbox::{self, Cage, CageState, CommandEnding, Enforced, Input};
use crate::tasks::schedule::Commands;
use crate::types::message::Address;
use crate::types::source::Source;
use crate::workspace::Audience;
use crate::workspace::others::Others;
use crate::workspace::path::names_inbox;
use places::order;
use sessions::{BackgroundCommand, SessionRequest, Sessions};

pub const EXEC: &str = "exec";

/// Maximum length of a command, and of its input, in bytes.
const TEXT_BYTES_MAX: usize = 100_000;

/// Settings of the shell.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    pub enabled: bool,
    /// The lowest role that may use it.
    pub role: Role,
    pub cage: Cage,
    /// Time limit of a foreground command.
    pub time_max: Duration,
    /// Time limit of a background command.
    pub background_max: Duration,
}

/// Tests the sandbox once. Off if the shell is disabled.
pub fn standing(config: &Config) -> CageState {
    if config.enabled { sandbox::trial(&config.cage) } else { CageState::Off }
}

/// Returns the tools of the shell, if it is offered.
pub fn tools(config: &Config, standing: &CageState) -> Vec<Arc<dyn AnyTool>> {
    if !standing.is_offered() {
        return Vec::new();
    }
    let config = Config { cage: held(config, standing), ..config.clone() };
    let role = config.role;
    let (files_caged, sessions) = (config.cage.least.files(), Sessions::default());
    let shell = Arc::new(Shell { config, files_caged, sessions });
    let exec = ForRole(role, Exec(Arc::clone(&shell)));
    vec![Arc::new(exec), Arc::new(ForRole(role, ProcessTool(shell)))]
}

/// Returns the sandbox with the restrictions that the test confirmed, which each command must have.
fn held(config: &Config, standing: &CageState) -> Cage {
    let least = match standing {
        CageState::Caged { enforced, .. } => *enforced,
        CageState::Off | CageState::Refused { .. } | CageState::Uncaged => Enforced::default(),
    };
    Cage { least, ..config.cage.clone() }
}

/// Returns the settings for the commands of jobs, if the shell is offered.
pub fn commands(config: &Config, standing: &CageState) -> Option<Commands> {
    let cage = held(config, standing);
    standing.is_offered().then(|| Commands {
        files_caged: cage.least.files(),
        cage,
        role: config.role,
        time_max: config.time_max,
    })
}

struct Shell {
    config: Config,
    files_caged: bool,
    sessions: Sessions,
}

struct Exec(Arc<Shell>);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecArgs {
    command: String,
    #[serde(default)]
    cwd: String,
    /// Seconds.
    #[serde(default)]
    timeout: u32,
    #[serde(default)]
    background: bool,
    #[serde(default)]
    stdin: String,
    #[serde(default)]
    pty: bool,
}

#[async_trait]
impl Tool for Exec {
    type Args = ExecArgs;
    const SPEC: ToolSpec = ToolSpec {
        name: EXEC,
        description: "Run a shell command in the sandbox.",
        role: Role::Admin,
        kind: Kind::Acts { idempotent: false },
        retries: false,
    };

    async fn call(&self, args: ExecArgs, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let shell = &self.0;
        if args.command.trim().is_empty() {
            return tell("The command is empty.".to_owned());
        }
        if args.command.len().max(args.stdin.len()) > TEXT_BYTES_MAX || args.command.contains('\0')
        {
            return tell(format!(
                "A command and its stdin have at most {TEXT_BYTES_MAX} bytes each, and no NUL: put \
                 more into a file."
            ));
        }
        let most = match args.background {
            true => shell.config.background_max,
            false => shell.config.time_max,
        };
        let time_max = match args.timeout {
            0 => most,
            seconds => Duration::from_secs(seconds.into()),
        };
        if time_max > most {
            return tell(format!(
                "A command may take at most {} seconds{}.",
                most.as_secs(),
                if args.background { "" } else { "; longer ones go in the background" }
            ));
        }
        let mut order = order(shell, cx, &args).await?;
        order.time_max = time_max;
        order.input = if args.pty { Input::Terminal } else { Input::Pipe };
        let others = shell.others(&args, &order, cx).await;
        if args.background {
            let command = BackgroundCommand { order, others, stdin: &args.stdin };
            return shell.sessions.begin(&shell.config.cage, command, cx).await;
        }
        let ran = sandbox::run(&shell.config.cage, &order, args.stdin.as_bytes()).await;
        let ran = ran.map_err(|error| {
            ToolError::TellModel(format!("The command could not be started: {error}."))
        })?;
        if let CommandEnding::Refused(why) = &ran.ending {
            return tell(format!("The command was not started: {why}."));
        }
        let foreign = others.has_read().await;
        let whole = places::save(cx, &ran.kept, foreign).await;
        let head = format!("[{} after {}]", ran.ending.words(time_max), replies::seconds(ran.took));
        let words = format!("{head}\n{}", shown::all(&ran.kept, whole.as_deref()));
        Ok(output(foreign, words))
    }
}

impl Shell {
    /// Determines if a command's output may contain untrusted content: from the network, or from files
    /// that people sent. If that is not certain beforehand, the file accesses of the owner's command are
    /// watched.
    async fn others(
        &self,
        args: &ExecArgs,
        order: &sandbox::SandboxCommand,
        cx: &ToolContext,
    ) -> Others {
        let is_certain = self.config.cage.network
            || !order.read.is_empty()
            || [&args.command, &args.cwd, &args.stdin].into_iter().any(|text| names_inbox(text));
        match audience(cx.role, cx.place) {
            Audience::Owner if !is_certain => Others::watch(&cx.workspace).await,
            Audience::Owner | Audience::Others => Others::known(&cx.workspace, is_certain),
        }
    }
}

/// Returns a command's output for the model.
fn output(read_others: bool, words: String) -> ToolOutput {
    ToolOutput::of(Source::Command { read_others }, words)
}

struct ProcessTool(Arc<Shell>);

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
enum ProcessAction {
    List,
    Poll,
    Write,
    Kill,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProcessArgs {
    action: ProcessAction,
    #[serde(default)]
    id: String,
    /// To write, with its line end.
    #[serde(default)]
    text: String,
}

#[async_trait]
impl Tool for ProcessTool {
    type Args = ProcessArgs;
    const SPEC: ToolSpec = ToolSpec {
        name: "process",
        description: "Background commands; poll: new output.",
        role: Role::Admin,
        kind: Kind::Acts { idempotent: false },
        retries: false,
    };

    fn reach(args: &ProcessArgs, _: &Address) -> Reach {
        match args.action {
            ProcessAction::Write => Reach::Outside,
            ProcessAction::List | ProcessAction::Poll | ProcessAction::Kill => Reach::Here,
        }
    }

    async fn call(&self, args: ProcessArgs, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let sessions = &self.0.sessions;
        let asked = match args.action {
            ProcessAction::List => return Ok(ToolOutput::text(sessions.list(&cx.address))),
            ProcessAction::Poll => SessionRequest::Poll,
            ProcessAction::Write if args.text.len() > TEXT_BYTES_MAX => {
                return tell(format!("At most {TEXT_BYTES_MAX} bytes are written at once."));
            }
            ProcessAction::Write => SessionRequest::Write(args.text),
            ProcessAction::Kill => SessionRequest::Kill,
        };
        sessions.ask(&args.id, asked, cx).await
    }
}
