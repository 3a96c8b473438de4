//! `[mcp.NAME]`, and the `mcpServers` file that other programs have too: who lends tools.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Deserialize;

use crate::people::Role;
use crate::secret::{Secret, VariableValue};
use crate::tools::mcp::{Config, Program, Via};

use super::fault::FaultPlace;
use super::file::read_text;
use super::hints::is_name;
use super::keys::Limited;
use super::reading::{ConfigSource, Section};
use super::values::{At, Flag, Text, Url, Within};
use crate::config::secrets::{self, UnresolvedSecret};

/// The daemon's own variables that a program gets; the others may be secrets.
const INHERITED: [&str; 4] = ["PATH", "HOME", "LANG", "TZ"];

/// A call has to be over before the agent gives a tool up (two minutes).
type Timeout = Within<1, 100, 60>;

/// More are a mistake.
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
    /// The folder in which the program runs, relative to the config file. Default: the daemon's.
    cwd: Option<String>,
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
    /// If true, its results count as the owner's own words: [asking] foreign does not apply to
    /// them.
    #[serde(default)]
    trusted: Flag<false>,
}

/// A section has `command` or `url`.
const LIMITED: Limited =
    &[(&["command", "args", "env", "cwd"], &["command"]), (&["url", "headers"], &["url"])];

fn admin() -> Role {
    Role::Admin
}

/// All `[mcp.NAME]` without faults, and those of the file that `[agent]` names.
pub(super) fn servers(
    source: &ConfigSource<'_>,
    sections: BTreeMap<String, McpSection>,
    file: Option<&At<String>>,
) -> BTreeMap<String, Config> {
    let mut servers = BTreeMap::new();
    let mut names = Vec::new();
    for (name, place, section) in source.named("mcp", sections) {
        names.push(name.clone());
        servers.extend(section.config(&place).map(|config| (name, config)));
    }
    if let Some(file) = file {
        for (name, config) in of_file(source, &file.value) {
            if names.contains(&name) {
                let words =
                    format!("has a server `{name}`, which this file defines too: [mcp.{name}]");
                source.refuse(file, words);
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
    fn config(self, place: &Section<'_, '_>) -> Option<Config> {
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
                Via::Program(self.program(place.source)?)
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

    fn program(self, source: &ConfigSource<'_>) -> Option<Program> {
        let env = self.env.into_iter().filter_map(|(name, value)| {
            let setting = secrets::read_setting(source, &name, &value)?;
            Some((name, setting))
        });
        Some(Program {
            env: env.collect(),
            command: self.command?,
            args: texts(&self.args),
            inherited: source.env.inherited(INHERITED),
            cwd: self.cwd.map(|cwd| source.folder().join(cwd)),
        })
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

fn is_header(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// The file as Claude and many others write it; what they know besides is passed over.
#[derive(Deserialize)]
struct McpFile {
    #[serde(rename = "mcpServers", default)]
    servers: BTreeMap<String, McpEntry>,
}

#[derive(Deserialize)]
struct McpEntry {
    #[serde(rename = "type", alias = "transport")]
    kind: Option<String>,
    command: Option<String>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    cwd: Option<PathBuf>,
    url: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    disabled: bool,
}

/// The servers of an `mcpServers` file; its faults have the file's place.
fn of_file(source: &ConfigSource<'_>, name: &str) -> Vec<(String, Config)> {
    let path = source.folder().join(name);
    let text = match read_text(&path) {
        Ok(text) => text,
        Err(fault) => {
            source.fault_in(fault.place, fault.message);
            return Vec::new();
        }
    };
    // Its variables may be keys.
    source.read_from(&path);
    let place = || FaultPlace::File(path.clone());
    let file: McpFile = match serde_json::from_str(&text) {
        Ok(file) => file,
        Err(error) => {
            // Not serde's words: they repeat what stands there, which may be a secret.
            let (line, column) = (error.line(), error.column());
            let wrong = format!("is not a valid mcpServers file: see line {line}, column {column}");
            source.fault_in(place(), wrong);
            return Vec::new();
        }
    };
    let folder = path.parent().unwrap_or(Path::new(""));
    let servers = file.servers.into_iter().filter(|(_, entry)| !entry.disabled);
    let servers = servers.filter_map(|(name, entry)| {
        let read = if is_name(&name) {
            entry.read(source, folder)
        } else {
            Err("its name must be 1 to 32 of a-z, A-Z, 0-9, - and _".to_owned())
        };
        let fault = |words| source.fault_in(place(), format!("cannot use `{name}`: {words}"));
        read.map_err(fault).ok().map(|config| (name, config))
    });
    servers.collect()
}

impl McpEntry {
    fn read(self, source: &ConfigSource<'_>, folder: &Path) -> Result<Config, String> {
        let fill = |text: &str| filled(source, text);
        let via = match (self.command, self.url) {
            (Some(command), None) => {
                let set = |(name, text): (String, String)| {
                    let setting = VariableValue::new(&name, &fill(&text)?);
                    Ok((name, setting))
                };
                Via::Program(Program {
                    command: fill(&command)?,
                    args: self.args.iter().map(|arg| fill(arg)).collect::<Result<_, _>>()?,
                    env: self.env.into_iter().map(set).collect::<Result<_, String>>()?,
                    inherited: source.env.inherited(INHERITED),
                    cwd: self.cwd.map(|cwd| folder.join(cwd)),
                })
            }
            (None, Some(url)) => {
                if self.kind.as_deref() == Some("sse") {
                    return Err(
                        "the old transport `sse` is not supported; most servers offer `http` too"
                            .to_owned(),
                    );
                }
                let header = |(name, text): (String, String)| match is_header(&name) {
                    true => Ok((name, Secret::new(fill(&text)?))),
                    false => Err(format!("`{name}` is not a valid name of a header")),
                };
                let url = fill(&url)?.parse::<Url>()?.0;
                let headers = self.headers.into_iter().map(header).collect::<Result<_, _>>()?;
                Via::Http { url, headers }
            }
            (None, None) => return Err("it needs a `command` or a `url`".to_owned()),
            (Some(_), Some(_)) => return Err("it has a `command` and a `url`: keep one".to_owned()),
        };
        let timeout = Timeout::default().seconds();
        let (allow, reads) = (None, Vec::new());
        Ok(Config { via, allow, reads, timeout, role: Role::Admin, trusted: false })
    }
}

/// `text` with the variables that it names as `${NAME}` or `${NAME:-else}`.
fn filled(source: &ConfigSource<'_>, text: &str) -> Result<String, String> {
    let mut parts = text.split("${");
    let mut filled = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let Some((inside, rest)) = part.split_once('}') else {
            filled.push_str("${");
            filled.push_str(part);
            continue;
        };
        let (name, other) = match inside.split_once(":-") {
            Some((name, other)) => (name, Some(other)),
            None => (inside, None),
        };
        match source.env.text(name).or(other) {
            Some(value) => filled.push_str(value),
            None => return Err(format!("it needs the environment variable {name}")),
        }
        filled.push_str(rest);
    }
    Ok(filled)
}

/// Describes the servers for a person who checks them before a start. No secrets.
pub(super) fn describe(servers: &BTreeMap<String, Config>) -> String {
    let lines =
        servers.iter().map(|(name, Config { via, allow, reads, timeout, role, trusted })| {
            let via = match via {
                Via::Program(program) => format!("program {}", program.command),
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
