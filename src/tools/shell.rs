//! The shell: `exec` runs a command in the sandbox, `process` manages background commands. A command never has both
//! private data and the network without approval: it has the workspace of its person without the network, or the
//! untrusted downloads, and the network only with these.

mod changes;
pub mod more_paths;
mod network;
mod places;
mod sessions;
mod shown;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;

use super::for_role::ForRole;
use super::{
    AnyTool, CallPlace, Reach, Tool, ToolContext, ToolError, ToolKind, ToolOutput, ToolSpec, tell,
};
use crate::people::Role;
use crate::people::folder_roles::{FolderRoles, role_for_folders};
use crate::replies;
use crate::sandbox::{self, CommandEnding, Protections, Sandbox, SandboxState};
use crate::tasks::schedule::Commands;
use crate::trust::acts::CommandAccess;
use crate::types::call_files::CallFiles;
use crate::types::message::{Address, ChatKind};
use crate::workspace::FileScope;
use crate::workspace::file_reads::FileReads;
use crate::workspace::path::names_inbox;
use changes::{ComparedCommand, WatchedCommand, WatchedCommands, WatchedPaths};
use network::ByNetworkRule;
pub use network::NetworkRule;
pub use places::ExecArgs;
use places::prepare_command;
use sessions::{BackgroundCommand, SessionRequest, Sessions};

pub const EXEC: &str = "exec";

/// The result for the model of a command that was ended with the access of its person.
const ACCESS_LOST: &str = "The command was ended: its person has less access now than when it began. What it had done \
     stays done.";

/// Maximum length of a command, and of its input, in bytes.
const TEXT_BYTES_MAX: usize = 100_000;

/// Settings of the shell.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    pub enabled: bool,
    /// The lowest role that may use it.
    pub role: Role,
    /// Decides if a call can ask for the network.
    pub network: NetworkRule,
    pub sandbox: Sandbox,
    /// Time limit of a foreground command.
    pub time_max: Duration,
    /// Time limit of a background command.
    pub background_max: Duration,
    /// The paths of the sandbox's `read` and `write`, and paths below them, whose files count as trusted.
    pub trusted: Vec<PathBuf>,
    /// The roles whose commands see the paths of the sandbox's `read` and `write`.
    pub folder_roles: FolderRoles,
}

/// Tests the sandbox once. Off if the shell is disabled.
pub fn check_sandbox(config: &Config) -> SandboxState {
    if config.enabled { sandbox::test_sandbox(&config.sandbox) } else { SandboxState::Off }
}

/// [`check_sandbox`] for commands in this workspace. A daemon that is root must be able to give them access to it.
pub fn check_sandbox_in(config: &Config, workspace: &Path) -> SandboxState {
    let mut config = config.clone();
    // Before the first start there is no workspace.
    config.sandbox.write.extend(workspace.exists().then(|| workspace.to_owned()));
    check_sandbox(&config)
}

/// Returns the tools of the shell, if it is offered.
pub fn tools(config: &Config, standing: &SandboxState) -> Vec<Arc<dyn AnyTool>> {
    if !standing.is_offered() {
        return Vec::new();
    }
    let config = Config { sandbox: with_confirmed(config, standing), ..config.clone() };
    let (role, rule) = (config.role, config.network);
    let files_sandboxed = config.sandbox.least.files();
    let (sessions, watched) = (Sessions::default(), WatchedCommands::default());
    let shell = Arc::new(Shell { config, files_sandboxed, sessions, watched });
    let exec = ByNetworkRule { rule, files_sandboxed, tool: Exec(Arc::clone(&shell)) };
    let exec = ForRole(role, exec);
    vec![Arc::new(exec), Arc::new(ForRole(role, ProcessTool(shell)))]
}

/// Returns the sandbox with the restrictions that the test confirmed, which each command must have, and with the present
/// places of its paths.
fn with_confirmed(config: &Config, standing: &SandboxState) -> Sandbox {
    let least = match standing {
        SandboxState::Sandboxed { enforced, .. } => *enforced,
        SandboxState::Off | SandboxState::Refused { .. } | SandboxState::Unsandboxed => {
            Protections::default()
        }
    };
    let mut sandbox = Sandbox { least, ..config.sandbox.clone() };
    sandbox.places = sandbox::find_places(&sandbox, &config.trusted);
    sandbox
}

/// Returns the settings for the commands of jobs, if the shell is offered.
pub fn commands(config: &Config, standing: &SandboxState) -> Option<Commands> {
    let sandbox = with_confirmed(config, standing);
    standing.is_offered().then(|| Commands {
        files_sandboxed: sandbox.least.files(),
        sandbox: more_paths::trusted_only(sandbox, &config.trusted),
        folder_roles: config.folder_roles.clone(),
        role: config.role,
        time_max: config.time_max,
        network: config.network != NetworkRule::Off,
    })
}

struct Shell {
    config: Config,
    files_sandboxed: bool,
    sessions: Sessions,
    watched: WatchedCommands,
}

struct Exec(Arc<Shell>);

#[async_trait]
impl Tool for Exec {
    type Args = ExecArgs;
    const SPEC: ToolSpec = ToolSpec {
        name: EXEC,
        description: "Run a shell command in the sandbox.",
        role: Role::Admin,
        kind: ToolKind::Acts { idempotent: false },
        retries: false,
    };

    fn reach(args: &ExecArgs, _: &Address) -> Reach {
        Reach::Command(places::access(args))
    }

    fn check_args(&self, args: &ExecArgs, place: &CallPlace<'_>) -> Result<(), String> {
        let shell = &self.0;
        if args.command.trim().is_empty() {
            return Err("The command is empty.".to_owned());
        }
        if args.command.len().max(args.stdin.len()) > TEXT_BYTES_MAX || args.command.contains('\0')
        {
            return Err(format!(
                "A command and its stdin have at most {TEXT_BYTES_MAX} bytes each, and no NUL: put \
                 more into a file."
            ));
        }
        if args.background && places::changes_own(args) {
            return Err(
                "A command with the network and paths of the workspace runs in the foreground, because its changes are \
                 listed when it ends: leave out `background`."
                    .to_owned(),
            );
        }
        shell.time_max(args)?;
        if let Some(path) = shell.hidden_path(args, place) {
            return Err(format!(
                "Denied: others may write in {}, so a command that sees it needs `untrusted`, and then sees downloads/ in \
                 place of the workspace. It changes a folder of [exec] write only if `paths` names it.",
                path.display()
            ));
        }
        let visible = shell.visible(place.role, place.chat_kind);
        more_paths::check_named(&visible, &args.paths)?;
        more_paths::check_cwd(&visible, &shell.config.trusted, &args.cwd)?;
        places::check(args, shell.files_sandboxed, place)
    }

    async fn call_files(
        &self,
        args: ExecArgs,
        cx: &ToolContext,
    ) -> Result<Option<CallFiles>, ToolError> {
        places::seen_paths(cx, &args).await
    }

    async fn call(&self, args: ExecArgs, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let shell = &self.0;
        let time_max = shell.time_max(&args).map_err(ToolError::TellModel)?;
        let mut order = prepare_command(cx, &args).await?;
        order.time_max = time_max;
        let others = shell.untrusted_reads(&args, cx).await;
        let sandbox = shell.sandbox(&args, cx);
        let read_only = shell.read_only_path(&args, cx);
        if args.background {
            let command = BackgroundCommand { order, others, stdin: &args.stdin };
            return shell.sessions.begin(&sandbox, command, cx).await;
        }
        let stdin = args.stdin.clone();
        let running = async {
            match WatchedPaths::of(&args, cx) {
                None => Ok((sandbox::run(&sandbox, &order, stdin.as_bytes()).await, None)),
                Some(paths) => {
                    let (sandbox, order) = (sandbox.clone(), order.clone());
                    let command = WatchedCommand { sandbox, order, stdin: stdin.clone(), paths };
                    let ComparedCommand { finished, changes } = shell.watched.run(command).await?;
                    Ok::<_, ToolError>((finished, Some(changes)))
                }
            }
        };
        // Dropping the future ends the command.
        let (finished, changes) = tokio::select! {
            ran = running => ran?,
            () = cx.access_lost() => return tell(ACCESS_LOST.to_owned()),
        };
        let finished = finished.map_err(|error| {
            ToolError::TellModel(format!("The command could not be started: {error}."))
        })?;
        if let CommandEnding::Refused(why) = &finished.ending {
            return tell(format!("The command was not started: {why}."));
        }
        let untrusted = others.has_read().await;
        let whole = places::save(cx, &finished.kept, untrusted).await;
        let head = format!(
            "[{} after {}]",
            finished.ending.describe(time_max),
            replies::seconds(finished.took)
        );
        let mut text = format!("{head}\n{}", shown::all(&finished.kept, whole.as_deref()));
        if let Some(changes) = changes {
            text = format!("{text}\n{}", changes::for_model(&changes));
        }
        if let Some(path) = read_only {
            let path = path.display();
            text = format!("{text}\n[{path} can only be read without its name in `paths`.]");
        }
        Ok(shown::output(untrusted, text))
    }
}

impl Shell {
    /// Returns the time limit of a command. The error explains to the model that the call asks for too much.
    fn time_max(&self, args: &ExecArgs) -> Result<Duration, String> {
        let limit = match args.background {
            true => self.config.background_max,
            false => self.config.time_max,
        };
        match args.timeout {
            0 => Ok(limit),
            seconds if Duration::from_secs(seconds.into()) <= limit => {
                Ok(Duration::from_secs(seconds.into()))
            }
            _ => Err(format!(
                "A command may take at most {} seconds{}.",
                limit.as_secs(),
                if args.background { "" } else { "; longer ones go in the background" }
            )),
        }
    }

    /// Returns the sandbox with the paths of the config that a person's commands may see here.
    fn visible(&self, role: Role, chat_kind: ChatKind) -> Sandbox {
        let role = role_for_folders(role, chat_kind, self.config.role);
        self.config.folder_roles.visible(&self.config.sandbox, role)
    }

    /// Returns the sandbox of a command, with or without the network, and with the paths as trusted as its folder.
    fn sandbox(&self, args: &ExecArgs, cx: &ToolContext) -> Sandbox {
        let mut sandbox = self.visible(cx.role, cx.chat_kind);
        if args.network {
            sandbox.network = true;
            sandbox.least.network = sandbox::NetworkAccess::Open;
        }
        match self.sees_trusted(args) {
            true => more_paths::trusted_only(sandbox, &self.config.trusted),
            false if self.files_sandboxed => more_paths::named_only(sandbox, &args.paths),
            false => sandbox,
        }
    }

    /// Returns true if a command sees trusted files, and therefore nothing else.
    fn sees_trusted(&self, args: &ExecArgs) -> bool {
        self.files_sandboxed && places::access(args) == CommandAccess::Workspace
    }

    /// Returns a path that a command names but does not see, because it is untrusted.
    fn hidden_path(&self, args: &ExecArgs, place: &CallPlace<'_>) -> Option<PathBuf> {
        if !self.sees_trusted(args) {
            return None;
        }
        // Paths for higher roles are not there, whatever the command asks for.
        let visible = self.visible(place.role, place.chat_kind);
        let mut untrusted = more_paths::untrusted(&visible, &self.config.trusted);
        untrusted.find(|path| mentions(args, path)).map(Path::to_owned)
    }

    /// Returns a path that a command mentions and could change, but only sees to be read.
    fn read_only_path(&self, args: &ExecArgs, cx: &ToolContext) -> Option<PathBuf> {
        if !self.files_sandboxed || self.sees_trusted(args) {
            return None;
        }
        let visible = self.visible(cx.role, cx.chat_kind);
        more_paths::unnamed(&visible, &args.paths, |path| mentions(args, path)).map(Path::to_owned)
    }

    /// Determines if a command's output may contain untrusted content. A command that sees the downloads, or has no
    /// sandbox, counts as having read them. A command in the owner's workspace is watched, because former versions
    /// kept files of others there.
    async fn untrusted_reads(&self, args: &ExecArgs, cx: &ToolContext) -> FileReads {
        let named = [&args.command, &args.cwd, &args.stdin].into_iter().any(|it| names_inbox(it));
        let sees_untrusted =
            !self.files_sandboxed || places::access(args) != CommandAccess::Workspace;
        match cx.scope() {
            FileScope::Group { .. } => FileReads::known(&cx.workspace, true),
            FileScope::Person { .. } => FileReads::known(&cx.workspace, sees_untrusted),
            FileScope::Owner if sees_untrusted || named => FileReads::known(&cx.workspace, true),
            FileScope::Owner => FileReads::watch(&cx.workspace).await,
        }
    }
}

/// Returns true if a command contains this path.
fn mentions(args: &ExecArgs, path: &Path) -> bool {
    path.to_str().is_some_and(|path| args.command.contains(path) || args.stdin.contains(path))
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
        kind: ToolKind::Acts { idempotent: false },
        retries: false,
    };

    fn reach(args: &ProcessArgs, _: &Address) -> Reach {
        match args.action {
            ProcessAction::Write => Reach::RunningCommand,
            ProcessAction::List | ProcessAction::Poll | ProcessAction::Kill => Reach::Here,
        }
    }

    fn check_args(&self, args: &ProcessArgs, _: &CallPlace<'_>) -> Result<(), String> {
        match args.action {
            ProcessAction::List => Ok(()),
            _ if args.id.trim().is_empty() => {
                Err("There is no command without an `id`: the action `list` shows them.".to_owned())
            }
            ProcessAction::Write if args.text.len() > TEXT_BYTES_MAX => {
                Err(format!("At most {TEXT_BYTES_MAX} bytes are written at once."))
            }
            ProcessAction::Poll | ProcessAction::Write | ProcessAction::Kill => Ok(()),
        }
    }

    async fn call(&self, args: ProcessArgs, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let sessions = &self.0.sessions;
        let request = match args.action {
            ProcessAction::List => return Ok(sessions.list(cx)),
            ProcessAction::Poll => SessionRequest::Poll,
            ProcessAction::Write => SessionRequest::Write(args.text),
            ProcessAction::Kill => SessionRequest::Kill,
        };
        sessions.ask(&args.id, request, cx).await
    }
}
