//! The `mcpServers` file, which other programs have, too, with our own keys for the sandbox.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::people::Role;
use crate::sandbox::{CommandLimits, SandboxLevel};
use crate::secret::{Secret, VariableValue};
use crate::tools::mcp::{Config, Program, Via, WorkspaceAccess};

use super::fault::FaultPlace;
use super::file::read_text;
use super::hints::is_name;
use super::mcp::{INHERITED, Timeout, absolute, is_header, sandbox};
use super::reading::ConfigSource;
use super::values::Url;

/// The file as Claude and many others write it. Other keys are ignored.
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
    /// Our own four keys, which other programs ignore.
    #[serde(default)]
    sandbox: SandboxLevel,
    #[serde(default)]
    network: bool,
    #[serde(default)]
    paths: Vec<PathBuf>,
    #[serde(default)]
    workspace: WorkspaceAccess,
}

/// Returns the servers of an `mcpServers` file. Its faults have the file's place.
pub(super) fn of_file(
    source: &ConfigSource<'_>,
    name: &str,
    bounds: CommandLimits,
) -> Vec<(String, Config)> {
    let path = source.folder().join(name);
    let text = match read_text(&path) {
        Ok(text) => text,
        Err(fault) => {
            source.fault_in(fault.place, fault.message);
            return Vec::new();
        }
    };
    // Its variables may be secret keys.
    source.read_from(&path);
    let place = || FaultPlace::File(path.clone());
    let file: McpFile = match serde_json::from_str(&text) {
        Ok(file) => file,
        Err(error) => {
            // serde's message is not shown: it quotes the file, where a secret may be.
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
            entry.read(source, folder, bounds)
        } else {
            Err("its name must be 1 to 32 of a-z, A-Z, 0-9, - and _".to_owned())
        };
        let fault = |reason| source.fault_in(place(), format!("cannot use `{name}`: {reason}"));
        read.map_err(fault).ok().map(|config| (name, config))
    });
    servers.collect()
}

impl McpEntry {
    fn read(
        self,
        source: &ConfigSource<'_>,
        folder: &Path,
        bounds: CommandLimits,
    ) -> Result<Config, String> {
        let fill = |text: &str| filled(source, text);
        let via = match (self.command, self.url) {
            (Some(command), None) => {
                let read = self.paths;
                if read.iter().any(|path| !path.is_absolute()) {
                    return Err("`paths` must be absolute".to_owned());
                }
                let set = |(name, text): (String, String)| {
                    let setting = VariableValue::new(&name, &fill(&text)?);
                    Ok((name, setting))
                };
                Via::Program(Box::new(Program {
                    command: fill(&command)?,
                    args: self.args.iter().map(|arg| fill(arg)).collect::<Result<_, _>>()?,
                    env: self.env.into_iter().map(set).collect::<Result<_, String>>()?,
                    inherited: source.env.inherited(INHERITED),
                    cwd: self.cwd.map(|cwd| absolute(&folder.join(cwd))),
                    sandbox: sandbox(self.sandbox, self.network, read, bounds),
                    workspace: self.workspace,
                    refused: None,
                }))
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

/// Returns `text` with the values of the variables that it names as `${NAME}` or `${NAME:-else}`.
fn filled(source: &ConfigSource<'_>, text: &str) -> Result<String, String> {
    let mut parts = text.split("${");
    let mut filled = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let Some((variable, rest)) = part.split_once('}') else {
            filled.push_str("${");
            filled.push_str(part);
            continue;
        };
        let (name, default) = match variable.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (variable, None),
        };
        match source.env.text(name).or(default) {
            Some(value) => filled.push_str(value),
            None => return Err(format!("it needs the environment variable {name}")),
        }
        filled.push_str(rest);
    }
    Ok(filled)
}
