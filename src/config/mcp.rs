//! `[mcp.NAME]`, and the `mcpServers` file that other programs have too: who lends tools.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use crate::people::Role;
use crate::secret::Secret;
use crate::tools::mcp::{Config, Program, Setting, Via};

use super::fault::Place;
use super::reading::{Located, Section, Source, is_name};
use super::{secrets, sections};

/// What of the daemon's own variables a program gets; the others may be secrets.
const INHERITED: [&str; 4] = ["PATH", "HOME", "LANG", "TZ"];

/// A call has to be over before the agent gives a tool up (two minutes).
const TIMEOUT_MAX_S: u32 = 100;
const TIMEOUT_S: u32 = 60;

/// More are a mistake.
const SERVERS_MAX: usize = 64;

const ROLES: [(&str, Role); 4] =
    [("guest", Role::Guest), ("user", Role::User), ("admin", Role::Admin), ("owner", Role::Owner)];

/// All `[mcp.NAME]` without faults, and those of the file that `[agent]` names.
pub(super) fn servers(
    top: &mut Section<'_>,
    file: Option<&Located<'_>>,
) -> BTreeMap<String, Config> {
    let sections = top.named("mcp");
    let mut servers = BTreeMap::new();
    let mut names = Vec::new();
    for (name, section) in sections {
        names.push(name.to_owned());
        if let Some(config) = server(section) {
            servers.insert(name.to_owned(), config);
        }
    }
    if let Some(value) = file {
        for (name, config) in of_file(value) {
            if names.contains(&name) {
                value.fault(format!("has a server `{name}`, and so has this file: [mcp.{name}]"));
            } else {
                servers.insert(name, config);
            }
        }
    }
    if servers.len() > SERVERS_MAX {
        top.fault(format!("has more than {SERVERS_MAX} MCP servers"));
    }
    servers
}

fn server(mut section: Section<'_>) -> Option<Config> {
    let allow = section.ask("allow").map(|value| texts(&value));
    let timeout_s = section.ask("timeout_s").map(|value| value.number(1..=TIMEOUT_MAX_S));
    let role = section.ask("role").map(|value| value.choice(&ROLES));
    let trusted = section.ask("trusted").map(|value| value.flag());
    let (command, url) = (section.ask("command"), section.ask("url"));
    let via = match (command, url) {
        (Some(command), None) => program(&mut section, &command).map(Via::Program),
        (None, Some(url)) => http(&mut section, &url),
        (None, None) => {
            section.fault(format!("{} needs a `command` or a `url`", section.title()));
            None
        }
        (Some(_), Some(_)) => {
            section.fault(format!("{} has a `command` and a `url`; keep one", section.title()));
            None
        }
    };
    match &via {
        Some(Via::Program(_)) => section.finish("an MCP server that is started by `command`"),
        Some(Via::Http { .. }) => section.finish("an MCP server at a `url`"),
        None => section.finish_of_any_kind(),
    }
    Some(Config {
        via: via?,
        allow,
        timeout: Duration::from_secs(timeout_s.unwrap_or(Some(TIMEOUT_S))?.into()),
        role: role.unwrap_or(Some(Role::Admin))?,
        trusted: trusted.unwrap_or(Some(false))?,
    })
}

fn program(section: &mut Section<'_>, command: &Located<'_>) -> Option<Program> {
    let command = command.text();
    let args = section.ask("args").map(|value| texts(&value)).unwrap_or_default();
    let env = section.ask("env").and_then(|value| value.table()).unwrap_or_default();
    let env = env.into_iter().filter_map(|(name, value)| {
        let setting = match value.is_text() {
            true => Setting::new(name, value.text_or_nothing()?),
            false => Setting::Secret(secrets::read_line(&value)?),
        };
        Some((name.to_owned(), setting))
    });
    let env = env.collect();
    let folder = section.source.file.parent().unwrap_or(Path::new(""));
    let cwd = section.ask("cwd").and_then(|value| Some(folder.join(value.text()?)));
    let inherited = inherited(section.source);
    Some(Program { command: command?.to_owned(), args, env, inherited, cwd })
}

fn http(section: &mut Section<'_>, url: &Located<'_>) -> Option<Via> {
    let url = sections::url(url);
    let headers = section.ask("headers").and_then(|value| value.table()).unwrap_or_default();
    let headers = headers.into_iter().filter_map(|(name, value)| {
        if !is_header(name) {
            value.fault("is no name of a header");
            return None;
        }
        Some((name.to_owned(), secrets::read_line(&value)?))
    });
    let headers = headers.collect();
    Some(Via::Http { url: url?, headers })
}

fn inherited(source: &Source<'_>) -> Vec<(&'static str, OsString)> {
    let own = |name| Some((name, source.env.raw(name)?.to_owned()));
    INHERITED.into_iter().filter_map(own).collect()
}

fn texts(value: &Located<'_>) -> Vec<String> {
    let entries = value.list().unwrap_or_default();
    // An argument may well be empty.
    entries.iter().filter_map(Located::text_or_nothing).map(str::to_owned).collect()
}

fn is_header(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// The file as Claude and many others write it; what they know besides is passed over.
#[derive(Deserialize)]
struct File {
    #[serde(rename = "mcpServers", default)]
    servers: BTreeMap<String, Entry>,
}

#[derive(Deserialize)]
struct Entry {
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
fn of_file(value: &Located<'_>) -> Vec<(String, Config)> {
    let Some(name) = value.text() else { return Vec::new() };
    let path = value.source.file.parent().unwrap_or(Path::new("")).join(name);
    let text = match super::read_text(&path) {
        Ok(text) => text,
        Err(unreadable) => {
            let unreadable = unreadable.fault(&path);
            value.source.fault_in(unreadable.place, unreadable.message);
            return Vec::new();
        }
    };
    // Its variables may be keys.
    value.source.read_from(&path);
    let place = || Place::File(path.clone());
    let file: File = match serde_json::from_str(text.strip_prefix('\u{feff}').unwrap_or(&text)) {
        Ok(file) => file,
        Err(error) => {
            // Not serde's words: they repeat what stands there, which may be a secret.
            let (line, column) = (error.line(), error.column());
            let wrong = format!("is no file of mcpServers: look at line {line}, column {column}");
            value.source.fault_in(place(), wrong);
            return Vec::new();
        }
    };
    let folder = path.parent().unwrap_or(Path::new(""));
    let servers = file.servers.into_iter().filter(|(_, entry)| !entry.disabled);
    let servers = servers.filter_map(|(name, entry)| {
        let read = if is_name(&name) {
            entry.read(value.source, folder)
        } else {
            Err("its name must be 1 to 32 of a-z, A-Z, 0-9, - and _".to_owned())
        };
        let fault = |words| value.source.fault_in(place(), format!("cannot use `{name}`: {words}"));
        read.map_err(fault).ok().map(|config| (name, config))
    });
    servers.collect()
}

impl Entry {
    fn read(self, source: &Source<'_>, folder: &Path) -> Result<Config, String> {
        let fill = |text: &str| filled(source, text);
        let via = match (self.command, self.url) {
            (Some(command), None) => {
                let set = |(name, text): (String, String)| {
                    let setting = Setting::new(&name, &fill(&text)?);
                    Ok((name, setting))
                };
                Via::Program(Program {
                    command: fill(&command)?,
                    args: self.args.iter().map(|arg| fill(arg)).collect::<Result<_, _>>()?,
                    env: self.env.into_iter().map(set).collect::<Result<_, String>>()?,
                    inherited: inherited(source),
                    cwd: self.cwd.map(|cwd| folder.join(cwd)),
                })
            }
            (None, Some(url)) => {
                if self.kind.as_deref() == Some("sse") {
                    return Err("the old transport `sse` is not spoken here; most servers \
                                have `http` too"
                        .to_owned());
                }
                let header = |(name, text): (String, String)| match is_header(&name) {
                    true => Ok((name, Secret::new(fill(&text)?))),
                    false => Err(format!("`{name}` is no name of a header")),
                };
                let url = sections::checked_url(&fill(&url)?)?;
                let headers = self.headers.into_iter().map(header).collect::<Result<_, _>>()?;
                Via::Http { url, headers }
            }
            (None, None) => return Err("it needs a `command` or a `url`".to_owned()),
            (Some(_), Some(_)) => return Err("it has a `command` and a `url`".to_owned()),
        };
        let timeout = Duration::from_secs(TIMEOUT_S.into());
        Ok(Config { via, allow: None, timeout, role: Role::Admin, trusted: false })
    }
}

/// `text` with the variables that it names as `${NAME}` or `${NAME:-else}`.
fn filled(source: &Source<'_>, text: &str) -> Result<String, String> {
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

/// What a person checks before a start; no secrets.
pub(super) fn describe(servers: &BTreeMap<String, Config>) -> String {
    let lines = servers.iter().map(|(name, Config { via, allow, timeout, role, trusted })| {
        let via = match via {
            Via::Program(program) => format!("program {}", program.command),
            Via::Http { url, .. } => url.clone(),
        };
        let tools = allow.as_ref().map_or("all".to_owned(), |allow| allow.join(" "));
        let trust = if *trusted { ", trusted" } else { "" };
        format!(
            "  {name}: {via}, tools {tools}, role {role}, {} s a call{trust}\n",
            timeout.as_secs()
        )
    });
    let lines: String = lines.collect();
    if lines.is_empty() { lines } else { format!("MCP servers\n{lines}") }
}
