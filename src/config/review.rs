//! Warnings about a usable config: tokens of another form than the platform's, and programs that run or see what a
//! model can change.

use std::path::{Path, PathBuf};

use crate::channels::ChannelKind;
use crate::replies;
use crate::sandbox::resolve_links;
use crate::secret::Secret;
use crate::tools::mcp::{Via, WorkspaceAccess};

use super::exec_folders::is_below;
use super::{Config, mcp};

/// Folders of the home in which tools and commands write.
const WRITABLE: [&str; 7] = ["workspace", "downloads", "shared", "people", "groups", "jobs", "mcp"];

impl Config {
    /// Marks the MCP servers and hooks that are not started in this home: they would see it, or a file with secrets, or
    /// run what tools and commands could change.
    pub fn refuse_unsafe_programs(&mut self, home: &Path) {
        mcp::refuse_exposed(&mut self.mcp, home, &self.files);
        let found = unsafe_programs(self, home);
        let found = found.into_iter().map(|it| (it.kind, it.name.to_owned(), it.why));
        for (kind, name, why) in found.collect::<Vec<_>>() {
            let why = Some(why);
            match kind {
                ProgramKind::Hook => {
                    if let Some(hook) = self.hooks.get_mut(&name) {
                        hook.refused = why;
                    }
                }
                ProgramKind::McpServer => {
                    if let Some(Via::Program(program)) =
                        self.mcp.get_mut(&name).map(|server| &mut server.via)
                    {
                        program.refused = why;
                    }
                }
            }
        }
    }

    /// Returns further warnings: about tokens of a wrong form, and about programs that tools could change in
    /// this home.
    pub fn cautions(&self, home: &Path) -> Vec<String> {
        let mut servers = self.mcp.clone();
        mcp::refuse_exposed(&mut servers, home, &self.files);
        let mut warnings = token_warnings(self);
        warnings.extend(unsafe_programs(self, home).iter().map(UnsafeProgram::warning));
        warnings.extend(mcp::warnings(&servers));
        warnings
    }
}

/// Returns a warning for each token that its platform cannot have issued.
fn token_warnings(config: &Config) -> Vec<String> {
    let mut warnings = Vec::new();
    for (name, channel) in &config.channels {
        let found: Vec<(&str, Option<&str>)> = match &channel.kind {
            ChannelKind::Telegram(it) => vec![("token", telegram(&it.token))],
            ChannelKind::Discord(it) => vec![("token", discord(&it.token))],
            ChannelKind::Slack(it) => {
                vec![
                    ("token", check_prefix(&it.token, "xoxb-", SLACK_BOT)),
                    ("app_token", check_prefix(&it.app_token, "xapp-", SLACK_APP)),
                ]
            }
            ChannelKind::Terminal => Vec::new(),
        };
        for (key, wanted) in found {
            warnings.extend(wanted.map(|wanted| {
                format!("[channels.{name}] `{key}` does not look like a token: {wanted}")
            }));
        }
    }
    warnings
}

const TELEGRAM: &str = "@BotFather gives digits, a colon and about 35 letters, digits, - and _";
const DISCORD: &str =
    "Discord's has three parts with dots between (not the public key, the client secret or an id)";
const SLACK_BOT: &str = "a bot token begins with xoxb-";
const SLACK_APP: &str = "an app-level token begins with xapp-";

/// Telegram's Bot API, "Authorizing your bot": `123456:ABC-DEF1234ghIkl-zyx57W2v1u123ew11`.
fn telegram(token: &Secret) -> Option<&'static str> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let is_token = token.reveal().split_once(':').is_some_and(|(id, rest)| {
        !id.is_empty()
            && id.chars().all(|c| c.is_ascii_digit())
            && (25..=60).contains(&rest.len())
            && rest.chars().all(is_word)
    });
    (!is_token).then_some(TELEGRAM)
}

/// Discord's documentation, "Reference: Authentication": three parts in base64url.
fn discord(token: &Secret) -> Option<&'static str> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '=');
    let parts: Vec<_> = token.reveal().split('.').collect();
    let is_token =
        parts.len() == 3 && parts.iter().all(|part| !part.is_empty() && part.chars().all(is_word));
    (!is_token).then_some(DISCORD)
}

fn check_prefix(token: &Secret, prefix: &str, wanted: &'static str) -> Option<&'static str> {
    (!token.reveal().starts_with(prefix)).then_some(wanted)
}

/// A hook or an MCP server that is not started, because tools or commands could change what it runs or sees.
struct UnsafeProgram<'a> {
    kind: ProgramKind,
    name: &'a str,
    why: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ProgramKind {
    Hook,
    McpServer,
}

impl UnsafeProgram<'_> {
    fn warning(&self) -> String {
        match self.kind {
            ProgramKind::Hook => format!("[hooks.{}]: {}", self.name, self.why),
            ProgramKind::McpServer => format!("The MCP server {}: {}", self.name, self.why),
        }
    }
}

/// Finds the hooks and MCP servers whose program, working folder or argument lies in a folder in which tools or commands
/// write, and the servers that see a part of such a folder, which could be replaced by a link. A server that sees the
/// workspace may name folders there, which are its data.
fn unsafe_programs<'a>(config: &'a Config, home: &Path) -> Vec<UnsafeProgram<'a>> {
    let exec = config.exec.enabled.then_some(&config.exec.sandbox.write);
    let more = exec.into_iter().flatten().map(|path| resolve_links(path));
    let folders: Vec<_> =
        WRITABLE.map(|name| resolve_links(&home.join(name))).into_iter().chain(more).collect();
    let within = |base: Option<&Path>, word: &str| -> Option<PathBuf> {
        let path = base.map_or_else(|| PathBuf::from(word), |base| base.join(word));
        // A word without a slash is a path only if there is such a file.
        let is_path = word.contains('/') || (base.is_some() && path.exists());
        let mut places = is_path.then(|| places(&path)).into_iter().flatten();
        places.find(|place| folders.iter().any(|folder| place.starts_with(folder)))
    };
    // Without a slash, the program is found by `PATH`.
    let program_within = |base: Option<&Path>, word: &str| {
        Some(word).filter(|word| word.contains('/')).and_then(|word| within(base, word))
    };
    let mut found = Vec::new();
    let mut push = |kind, name, why: Option<String>| {
        found.extend(why.map(|why| UnsafeProgram { kind, name, why }));
    };
    let is_writable = |path: PathBuf| replies::program_is_writable(&path);
    for (name, hook) in &config.hooks {
        let (program, arguments) = hook.command.split_first().expect("a command is never empty");
        let path = program_within(None, program);
        let path = path.or_else(|| arguments.iter().find_map(|word| within(None, word)));
        push(ProgramKind::Hook, name, path.map(is_writable));
    }
    for (name, server) in &config.mcp {
        let Via::Program(program) = &server.via else { continue };
        let base = program.cwd.as_deref();
        let has_workspace = program.workspace != WorkspaceAccess::Off;
        let is_data = |path: &PathBuf| has_workspace && path.is_dir();
        let cwd = base.and_then(|cwd| within(None, cwd.to_str()?));
        let argument = |word: &String| within(base, word).filter(|path| !is_data(path));
        let path = program_within(base, &program.command);
        let path = path.or_else(|| program.args.iter().find_map(argument)).or(cwd);
        let is_part = |path: &&PathBuf| exec.into_iter().flatten().any(|it| is_below(path, it));
        let part = program.sandbox.read.iter().find(is_part).filter(|_| program.is_sandboxed());
        let is_replaceable = || part.map(|path| replies::mcp_path_is_replaceable(path));
        push(ProgramKind::McpServer, name, path.map(is_writable).or_else(is_replaceable));
    }
    found
}

/// Returns a path without symbolic links, and the place of the link itself if it is one: who can write there can have it
/// lead elsewhere.
fn places(path: &Path) -> impl Iterator<Item = PathBuf> {
    let place = path.parent().zip(path.file_name());
    let place = place.map(|(folder, name)| resolve_links(folder).join(name));
    [resolve_links(path)].into_iter().chain(place)
}
