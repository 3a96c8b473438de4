//! Warnings about a usable config: tokens of another form than the platform's, and programs in folders where a
//! model can change them.

use std::path::{Path, PathBuf};

use crate::channels::ChannelKind;
use crate::secret::Secret;
use crate::tools::mcp::Via;

use super::{Config, mcp};

/// Folders of the home in which tools and commands write.
const WRITABLE: [&str; 7] = ["workspace", "downloads", "shared", "people", "groups", "jobs", "mcp"];

impl Config {
    /// Marks the MCP servers that are not started, because they could read this home or a file with secrets.
    pub fn refuse_exposed_servers(&mut self, home: &Path) {
        mcp::refuse_exposed(&mut self.mcp, home, &self.files);
    }

    /// Returns further warnings: about tokens of a wrong form, and about programs that tools could change in
    /// this home.
    pub fn cautions(&self, home: &Path) -> Vec<String> {
        let mut servers = self.mcp.clone();
        mcp::refuse_exposed(&mut servers, home, &self.files);
        let mut warnings = token_warnings(self);
        warnings.extend(writable_programs(self, home));
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

/// Returns a warning for each hook and MCP server that runs a file in a folder in which tools write.
fn writable_programs(config: &Config, home: &Path) -> Vec<String> {
    let folders = WRITABLE.map(|name| resolved(&home.join(name)));
    let within = |base: Option<&Path>, word: &str| -> Option<PathBuf> {
        let path = base.map_or_else(|| PathBuf::from(word), |base| base.join(word));
        let path = resolved(&path);
        folders.iter().any(|folder| path.starts_with(folder)).then_some(path)
    };
    let mut warnings = Vec::new();
    let mut warn = |title: String, found: Option<PathBuf>| {
        warnings.extend(found.map(|path| {
            format!(
                "{title} runs {}, which the model can change: move it out of the home's folders",
                path.display()
            )
        }));
    };
    for (name, hook) in &config.hooks {
        warn(format!("[hooks.{name}]"), hook.command.iter().find_map(|word| within(None, word)));
    }
    for (name, server) in &config.mcp {
        let Via::Program(program) = &server.via else { continue };
        let base = program.cwd.as_deref();
        let words = [&program.command].into_iter().chain(&program.args);
        let cwd = base.and_then(|cwd| within(None, cwd.to_str()?));
        let found = words.filter_map(|word| within(base, word)).next();
        warn(format!("The MCP server {name}"), found.or(cwd));
    }
    warnings
}

/// Returns the path without symbolic links, or the absolute path if nothing is there.
fn resolved(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    absolute.canonicalize().unwrap_or(absolute)
}
