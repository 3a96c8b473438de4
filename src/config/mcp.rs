//! `[mcp.NAME]`: servers that provide tools, and their sandboxes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Deserialize;

use crate::config::reading::NamedSection;
use crate::people::Role;
use crate::replies;
use crate::sandbox::{self, CommandLimits, Protections, Sandbox, SandboxLevel};
use crate::secret::Secret;
use crate::tools::mcp::{Config, Program, Via, WorkspaceAccess};

use super::keys::KeysByKind;
use super::mcp_file::of_file;
use super::reading::{ConfigSource, Section};
use super::values::{AbsolutePath, At, Flag, Text, Url, Within};
use crate::config::secrets::{self, UnresolvedSecret};

/// The daemon's own variables that a program gets; the others may be secrets.
pub(super) const INHERITED: [&str; 4] = ["PATH", "HOME", "LANG", "TZ"];

/// Time limit of a call, in seconds: it has to end before the agent gives up on a tool (two minutes).
pub(super) type Timeout = Within<1, 100, 60>;

/// Maximum number of servers; more are a mistake.
const SERVERS_MAX: usize = 64;

/// A tool server that speaks the Model Context Protocol (MCP): a local program or an address. You
/// choose the name, which is part of the tools' names: mcp_NAME_TOOL. Default: none.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("limited" = LIMITED))]
pub(super) struct McpSection {
    /// The program. It is found by PATH and ends with the daemon.
    command: Option<String>,
    /// The program's arguments. Default: none.
    #[serde(default)]
    args: Vec<Text<String>>,
    /// The program's environment variables. From the daemon it gets only PATH, HOME, LANG and TZ. A
    /// value can be a secret.
    #[serde(default)]
    #[schemars(extend("title" = "table of strings or secrets"))]
    env: BTreeMap<String, At<UnresolvedSecret>>,
    /// The folder in which the program runs, relative to the config file. Default: a folder of its
    /// own, `mcp/NAME` in the home; without a sandbox the daemon's.
    cwd: Option<String>,
    /// required (if the kernel cannot protect files, the network or dangerous calls, the program
    /// does not start) | best-effort (it runs with the protections that there are) | off (it can do
    /// everything that the daemon can). The limits are those of [exec].
    #[serde(default)]
    sandbox: SandboxLevel,
    /// If true, the program has the network, and reaches this machine's own services, too.
    #[serde(default)]
    network: Flag<false>,
    /// Files and folders that the program can read besides the system, itself and `cwd`, as absolute
    /// paths. None may hold the home, the config file, or a file with a key. Default: none.
    #[serde(default)]
    paths: Vec<Text<AbsolutePath>>,
    /// off | read | write: the program's access to your whole workspace, memory and notes included.
    #[serde(default)]
    workspace: WorkspaceAccess,
    /// The address, instead of a program. http:// is allowed for this machine only.
    url: Option<Text<Url>>,
    /// Headers of each request, as secrets.
    #[serde(default)]
    headers: BTreeMap<String, At<UnresolvedSecret>>,
    /// The tools that can be used, by the server's names. Default: all.
    allow: Option<Vec<Text<String>>>,
    /// The tools that only read: they run without a question, also after untrusted content. Their
    /// results are untrusted all the same. Default: none.
    #[serde(default)]
    reads: Vec<At<Text<String>>>,
    /// The maximum duration of a call, in seconds.
    #[serde(default)]
    timeout_s: Timeout,
    /// The least role that can use its tools: guest | user | admin | owner.
    #[serde(default = "admin")]
    role: Role,
    /// If true, its results count as the owner's own words: [asking] untrusted does not apply to
    /// them.
    #[serde(default)]
    trusted: Flag<false>,
}

/// A section has `command` or `url`.
const LIMITED: KeysByKind = &[
    (&["command", "args", "env", "cwd", "sandbox", "network", "paths", "workspace"], &["command"]),
    (&["url", "headers"], &["url"]),
];

fn admin() -> Role {
    Role::Admin
}

/// Returns all `[mcp.NAME]` without faults, and those of the file that `[agent]` names.
pub(super) fn servers(
    source: &ConfigSource<'_>,
    sections: BTreeMap<String, McpSection>,
    file: Option<&At<String>>,
    bounds: CommandLimits,
) -> BTreeMap<String, Config> {
    let mut servers = BTreeMap::new();
    let mut names = Vec::new();
    for NamedSection { name, place, read: section } in source.named("mcp", sections) {
        names.push(name.clone());
        servers.extend(section.config(&place, bounds).map(|config| (name, config)));
    }
    if let Some(file) = file {
        for (name, config) in of_file(source, &file.value, bounds) {
            if names.contains(&name) {
                let message =
                    format!("has a server `{name}`, which this file defines too: [mcp.{name}]");
                source.refuse(file, message);
            } else {
                servers.insert(name, config);
            }
        }
    }
    if servers.len() > SERVERS_MAX {
        source.fault(0, format!("has more than {SERVERS_MAX} MCP servers"));
    }
    servers
}

impl McpSection {
    fn config(self, place: &Section<'_, '_>, bounds: CommandLimits) -> Option<Config> {
        let title = place.title();
        let allow = self.allow.as_ref().map(|allow| texts(allow));
        for tool in &self.reads {
            if allow.as_ref().is_some_and(|allow| !allow.contains(&tool.value.0)) {
                place.source.refuse(tool, "names a tool that is not in `allow`");
            }
        }
        let reads = self.reads.iter().map(|tool| tool.value.0.clone()).collect();
        let (timeout, role, trusted) = (self.timeout_s.seconds(), self.role, self.trusted.0);
        let via = match (place.has("command"), place.has("url")) {
            (true, false) => {
                place.allow_only(LIMITED, "command", "an MCP server that is started by `command`");
                Via::Program(Box::new(self.program(place.source, bounds)?))
            }
            (false, true) => {
                place.allow_only(LIMITED, "url", "an MCP server at a `url`");
                let headers = self.headers.into_iter();
                let headers = headers
                    .filter_map(|(name, value)| header(place.source, name, &value))
                    .collect();
                Via::Http { url: self.url?.0.0, headers }
            }
            (false, false) => {
                place.fault(format!("{title} needs a `command` or a `url`"));
                return None;
            }
            (true, true) => {
                place.fault(format!("{title} has a `command` and a `url`; keep one"));
                return None;
            }
        };
        Some(Config { via, allow, reads, timeout, role, trusted })
    }

    fn program(self, source: &ConfigSource<'_>, bounds: CommandLimits) -> Option<Program> {
        let env = self.env.into_iter().filter_map(|(name, value)| {
            let setting = secrets::read_setting(source, &name, &value)?;
            Some((name, setting))
        });
        Some(Program {
            env: env.collect(),
            command: self.command?,
            args: texts(&self.args),
            inherited: source.env.inherited(INHERITED),
            cwd: self.cwd.map(|cwd| absolute(&source.folder().join(cwd))),
            sandbox: sandbox(self.sandbox, self.network.0, paths(self.paths), bounds),
            workspace: self.workspace,
            refused: None,
        })
    }
}

pub(super) fn sandbox(
    level: SandboxLevel,
    network: bool,
    read: Vec<PathBuf>,
    bounds: CommandLimits,
) -> Sandbox {
    Sandbox {
        program: Sandbox::THIS_PROGRAM.into(),
        level,
        network,
        read,
        write: Vec::new(),
        env: BTreeMap::new(),
        bounds,
        least: Protections::default(),
        places: Vec::new(),
    }
}

fn paths(paths: Vec<Text<AbsolutePath>>) -> Vec<PathBuf> {
    paths.into_iter().map(|path| path.0.0).collect()
}

/// Returns an absolute path, because the sandbox starts in another folder than the daemon.
pub(super) fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Marks the servers whose sandbox would show the home, or a file with secrets: they are not started.
pub(super) fn refuse_exposed(
    servers: &mut BTreeMap<String, Config>,
    home: &Path,
    secrets: &[PathBuf],
) {
    for (name, server) in servers {
        let Via::Program(program) = &mut server.via else { continue };
        if !program.is_sandboxed() {
            continue;
        }
        program.sandbox.places = sandbox::find_places(&program.sandbox, program.cwd.as_slice());
        let mut seen = program.sandbox.clone();
        seen.read.extend(program.cwd.clone());
        let folder = home.join("mcp").join(name);
        program.refused = sandbox::find_exposed_path(&seen, home, &folder, secrets).map(|found| {
            replies::mcp_exposed(&found.by, (found.hidden != home).then_some(&*found.hidden))
        });
    }
}

fn header(
    source: &ConfigSource<'_>,
    name: String,
    value: &At<UnresolvedSecret>,
) -> Option<(String, Secret)> {
    if !is_header(&name) {
        source.refuse(value, "is not a valid name of a header");
        return None;
    }
    let secret = secrets::read_line(source, value)?;
    Some((name, secret))
}

fn texts(texts: &[Text<String>]) -> Vec<String> {
    texts.iter().map(|text| text.0.clone()).collect()
}

pub(super) fn is_header(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// Describes the servers for a person who checks them before a start. No secrets.
pub(super) fn describe(servers: &BTreeMap<String, Config>) -> String {
    let lines =
        servers.iter().map(|(name, Config { via, allow, reads, timeout, role, trusted })| {
            let via = match via {
                Via::Program(program) => describe_program(program),
                Via::Http { url, .. } => url.clone(),
            };
            let tools = allow.as_ref().map_or("all".to_owned(), |allow| allow.join(" "));
            let reads = if reads.is_empty() {
                String::new()
            } else {
                format!(", reads {}", reads.join(" "))
            };
            let trust = if *trusted { ", trusted" } else { "" };
            format!(
                "  {name}: {via}, tools {tools}{reads}, role {role}, {} s a call{trust}\n",
                timeout.as_secs()
            )
        });
    let lines: String = lines.collect();
    if lines.is_empty() { lines } else { format!("MCP servers\n{lines}") }
}

fn describe_program(program: &Program) -> String {
    let (command, sandbox) = (&program.command, &program.sandbox);
    let level = sandbox.level.as_str();
    if !program.is_sandboxed() {
        return format!("program {command}, sandbox {level}");
    }
    let network = if sandbox.network { "network" } else { "no network" };
    let workspace = match program.workspace {
        WorkspaceAccess::Off => String::new(),
        access => format!(", workspace {}", access.as_str()),
    };
    format!("program {command}, sandbox {level}, {network}{workspace}")
}

/// Returns warnings about the sandboxes of servers.
pub(super) fn warnings(servers: &BTreeMap<String, Config>) -> Vec<String> {
    let mut warnings = Vec::new();
    for (name, server) in servers {
        let Via::Program(program) = &server.via else { continue };
        let says = match program.sandbox.level {
            SandboxLevel::Required => None,
            SandboxLevel::BestEffort => {
                Some("runs with the protections that the kernel has, even if some are missing")
            }
            SandboxLevel::Off => {
                Some("runs without a sandbox, and can do everything that the daemon can")
            }
        };
        let leaks = program.is_sandboxed()
            && program.sandbox.network
            && program.workspace != WorkspaceAccess::Off;
        let leaks = leaks
            .then_some("sees your workspace and has the network, so it can send your files away");
        let says = says.into_iter().chain(leaks).map(str::to_owned);
        let says = says.chain(unseen(program)).chain(program.refused.clone());
        warnings.extend(says.map(|says| format!("The MCP server {name}: {says}")));
    }
    warnings
}

/// Returns a warning for each argument that names a file which the program cannot see.
fn unseen(program: &Program) -> impl Iterator<Item = String> {
    let seen = program.sandbox.read.iter().chain(&program.cwd);
    let seen: Vec<&Path> = seen.map(PathBuf::as_path).collect();
    let is_unseen = |argument: &&String| {
        let path = Path::new(argument.as_str());
        program.is_sandboxed()
            && path.is_absolute()
            && path.exists()
            && !sandbox::is_of_system(path)
            && !seen.iter().any(|seen| path.starts_with(seen))
    };
    let found: Vec<_> = program.args.iter().filter(is_unseen).cloned().collect();
    found
        .into_iter()
        .map(|argument| format!("its sandbox does not show {argument}: add it to `paths`"))
}
