//! The answer to `/status`, and the owner's notice about a model's context window.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use super::{as_is, counted};
use crate::types::safe_mode::SafeMode;

/// The content of `/status`.
pub struct StatusShown<'a> {
    pub provider: &'a str,
    /// The chosen effort, if somebody has chosen one.
    pub effort: Option<&'a str>,
    /// The chosen queue mode, if somebody has chosen one.
    pub queue: Option<&'a str>,
    pub busy_here: bool,
    pub turns: usize,
    /// The number of turns that wait for a model, and since when.
    pub awaiting: Option<(usize, String)>,
    /// The tools that the model is offered here, and of them those that its prompt describes.
    pub tools: (usize, usize),
    pub skills: usize,
    /// One line for each MCP server, made by [`mcp_server`].
    pub mcp_servers: Vec<String>,
    /// Read and written in the last 30 days.
    pub tokens: (u64, u64),
    /// Tokens of the last prompt here, and of the context window.
    pub context: (u64, u64),
    /// True if the provider has counted it. Otherwise it is an estimate.
    pub is_counted: bool,
    pub uptime: Duration,
    /// Resident memory in bytes, if the system tells it.
    pub memory: Option<u64>,
    /// The model seems not to be shown its tools.
    pub tools_dropped: bool,
    /// The last failure of a turn, and how long ago it was.
    pub last_error: Option<(Duration, String)>,
    /// The safe mode, in words.
    pub safe_mode: Option<String>,
}

/// The state of an MCP server.
pub fn mcp_server(name: &str, up: bool, tools: usize, trouble: Option<&str>) -> String {
    match (up, trouble) {
        (true, _) => format!("{name} up, {}", counted(tools as u64, "tool")),
        (false, Some(trouble)) => format!("{name} down ({trouble})"),
        (false, None) => format!("{name} down"),
    }
}

/// Turns that wait for a model, in `/status` and `peacrab status`.
pub fn turns_await_model(turns: usize, since: &str) -> String {
    let turns = if turns == 1 {
        "1 turn has been waiting".to_owned()
    } else {
        format!("{turns} turns have been waiting")
    };
    format!("{turns} for the model since {since}.")
}

/// The state of a channel that is not in the config any more, in `peacrab status` and `peacrab doctor`.
pub fn channel_is_removed(waiting: i64) -> String {
    let messages = counted(waiting.unsigned_abs(), "outgoing message");
    format!("not in the config any more; until its section is there again, it keeps {messages}")
}

/// The warnings about the config, in `peacrab status`.
pub fn config_has_warnings(count: usize) -> String {
    format!("config: {}, see `peacrab check`", counted(count as u64, "warning"))
}

/// The index of the memory while it is filled, in `peacrab status` and `peacrab doctor`.
pub fn indexing(parts: &str, done: u64, total: u64) -> String {
    format!("indexing {parts}: {done} of {total}")
}

/// The answer to `/status`.
pub fn status(status: &StatusShown<'_>) -> String {
    let StatusShown { provider, busy_here, turns, skills, tokens, context, uptime, .. } = status;
    let ((read, written), (used, context_window)) = (tokens, context);
    let awaiting = status.awaiting.as_ref();
    let awaiting = awaiting.map(|(turns, since)| turns_await_model(*turns, since) + "\n");
    let awaiting = awaiting.unwrap_or_default();
    let mut here_only = String::new();
    if let Some(effort) = status.effort {
        let _ = write!(here_only, "\nThinking: {effort}");
    }
    if let Some(queue) = status.queue {
        let _ = write!(here_only, "\nNew messages while I work: {queue}");
    }
    let mcp_tools = match status.mcp_servers.join("; ") {
        none if none.is_empty() => none,
        mcp_servers => format!("MCP servers: {mcp_servers}\n"),
    };
    let here = if *busy_here { "I'm working here" } else { "I'm idle here" };
    let tools = match status.tools {
        (all, described) if described < all => {
            format!("{all} ({described} described in the prompt)")
        }
        (all, _) => all.to_string(),
    };
    let dropped = match status.tools_dropped {
        true => "The model seems not to see its tools: set tools = \"text\" for its provider.\n",
        false => "",
    };
    let (about, by) = match status.is_counted {
        true => ("", "counted by the model's server"),
        false => ("about ", "estimated"),
    };
    let memory =
        status.memory.map(|bytes| format!(", with {} MB of memory", bytes.div_ceil(1 << 20)));
    let error = status.last_error.as_ref();
    let error =
        error.map(|(ago, text)| format!("Last error, {} ago: {}\n", span(*ago), as_is(text)));
    let safe_mode = status.safe_mode.as_ref().map(|words| format!("{words}\n"));
    let safe_mode = safe_mode.unwrap_or_default();
    format!(
        "{safe_mode}{here}. Turns running in all chats: {turns}.\n{awaiting}Model: {provider}{here_only}\nTools: {tools}; skills: {skills}\n{dropped}{mcp_tools}\
         Context here: {about}{used} of {context_window} tokens ({by})\n\
         Tokens in the last 30 days: {read} read, {written} written\n{}\
         Version: {}, running for {}{}",
        error.unwrap_or_default(),
        env!("CARGO_PKG_VERSION"),
        span(*uptime),
        memory.unwrap_or_default(),
    )
}

/// A time in its two largest units.
fn span(time: Duration) -> String {
    let seconds = time.as_secs();
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, minutes) => format!("{minutes} min"),
        (0, hours, minutes) => format!("{hours} h {minutes} min"),
        (days, hours, _) => format!("{days} d {hours} h"),
    }
}

/// The owner is told once that their memory does not fit into a model's window.
pub fn memory_too_long(provider: &str, tokens: u64, most: u64) -> String {
    format!(
        "Your MEMORY.md is too long for {provider}: it has about {tokens} tokens, and I show the model about {most} of \
         them, its beginning and its end. To change that, shorten the file, or choose a model with a larger context \
         window."
    )
}

/// The owner is told once that a model is not shown its tools. `counted` and `estimate` are tokens of a prompt, by the
/// server and by us.
pub fn tools_dropped(provider: &str, counted: u64, estimate: u64) -> String {
    format!(
        "{provider} does not seem to see its tools: its server counted {counted} tokens where I had sent about \
         {estimate}. Its chat template probably drops them. Set tools = \"text\" in its section of config.toml, then \
         run `peacrab reload`, or use a model that can call tools."
    )
}

/// The owner is told once that a model's context window is another than was thought.
pub fn window_learned(provider: &str, tokens: u32, given: u32, is_set: bool) -> String {
    let thought = if is_set { "your config says" } else { "I had assumed" };
    let advice = match tokens < given {
        true => {
            " I keep my requests within that. For longer conversations, start your server with a larger context \
             window."
        }
        false => "",
    };
    format!("{provider} has a context window of {tokens} tokens; {thought} {given}.{advice}")
}

/// Maximum number of warnings that are shown after a reload.
const WARNINGS_MAX: usize = 10;

/// The answer of a daemon that has read its config again, with the warnings about it.
pub fn reloaded(warnings: &[String]) -> String {
    let mut words = "I've read the config again. It takes effect in a moment.".to_owned();
    for warning in warnings.iter().take(WARNINGS_MAX) {
        words += &format!("\nwarning: {warning}");
    }
    if warnings.len() > WARNINGS_MAX {
        words += &format!(
            "\n{} more warnings: `peacrab check` shows all.",
            warnings.len() - WARNINGS_MAX
        );
    }
    words
}

/// The files of the workspace for which a new version has other texts.
pub struct TemplateNews<'a> {
    pub updated: &'a [String],
    pub merged: &'a [String],
    pub added: &'a [String],
    pub left: &'a [String],
    pub linked: &'a [String],
    /// Files that differ from the template; nobody knows if they were changed.
    pub unknown: &'a [String],
    /// The folder of the home with the new texts of files that stay.
    pub folder: &'a Path,
}

/// Tells the owner which files of the workspace follow the new version, and which stay.
pub fn template_updated(news: &TemplateNews<'_>) -> String {
    let mut words = String::new();
    let of_version = [news.updated, news.merged, news.added, news.left, news.linked];
    if of_version.iter().any(|files| !files.is_empty()) {
        words += "My new version comes with new workspace files.";
    }
    let folder = news.folder.display();
    if !news.updated.is_empty() {
        words += &format!(
            " I updated these files, which nobody had changed: {}.",
            news.updated.join(", ")
        );
    }
    if !news.merged.is_empty() {
        words += &format!(
            " I merged the new lines into these, and kept your changes: {}. As they were before, they are in \
             {folder}/before.",
            news.merged.join(", ")
        );
    }
    if !news.added.is_empty() {
        words += &format!(
            " I added these, which are new; delete any that you don't want: {}.",
            news.added.join(", ")
        );
    }
    if !news.left.is_empty() {
        words += &format!(
            " I didn't update these, because they were changed: {}. The new versions are in {folder}. Copy anything you \
             like from them.",
            news.left.join(", ")
        );
    }
    if !news.linked.is_empty() {
        words += &format!(
            " I didn't update these, because a link leads to them: {}. The new versions are in {folder}.",
            news.linked.join(", ")
        );
    }
    if !news.unknown.is_empty() {
        words += &format!(
            " My record of the workspace's first texts (template.json) was broken. I don't know if you have changed these \
             files, so I left them as they are: {}. My own versions are in {folder}.",
            news.unknown.join(", ")
        );
    }
    words.trim_start().to_owned()
}

/// Tells the owner which files of the workspace could not be updated, each with the reason.
pub fn template_failed(files: &[String]) -> String {
    let files = files.iter().map(|file| format!("\n- {}", as_is(file)));
    format!(
        "I couldn't update these files of the workspace to my new version. I'll try again at each start:{}",
        files.collect::<String>()
    )
}

pub const RELOAD_IN_TERMINAL: &str =
    "the daemon runs in a terminal: end it there with Ctrl-C, and start it again";

pub const CANNOT_RELOAD: &str = "this daemon cannot reload its config: restart it";

/// Tells the owner that a changed config is not in use. `kept` is the file with the one that works.
pub fn reload_failed(reason: &str, kept: Option<&Path>) -> String {
    let kept = kept.map(|file| format!("\nThe config that I use is kept in {}.", file.display()));
    format!(
        "I couldn't use my changed config, so I'm keeping the old one. Please correct it:\n{reason}{}",
        kept.unwrap_or_default()
    )
}

/// Tells where the last config that worked is, when the daemon cannot start with the present one.
pub fn last_good_config(kept: &Path) -> String {
    format!("The last config that worked is kept in {}. Compare it with yours.", kept.display())
}

/// Tells the owner that the config file is gone, and only the environment counts. `kept` is the copy of the last file.
pub fn config_gone(kept: &Path) -> String {
    only_environment("is gone", kept)
}

/// Tells the owner that the config file has no settings any more, and only the environment counts.
pub fn config_emptied(kept: &Path) -> String {
    only_environment("has no settings any more", kept)
}

fn only_environment(loss: &str, kept: &Path) -> String {
    let kept = kept.display();
    format!(
        "My config file {loss}, so I use only the settings of my environment. If that's wrong, bring it back: {kept} is a \
         copy of the last one that worked. If that's what you want, delete that copy."
    )
}

/// The safe mode, for the owner and in `/status`. `restarts` is true if /restart works.
pub fn safe_mode(safe_mode: SafeMode, restarts: bool) -> String {
    let way_out = match restarts {
        true => "send /restart or run `peacrab reload`",
        false => "run `peacrab reload`",
    };
    format!(
        "I'm in safe mode, because I crashed or was killed {} times within 5 minutes. I answer \
         messages, but jobs, the heartbeat, hooks, MCP servers and backups wait. My log and `peacrab doctor` may show \
         the reason. To leave safe mode, {way_out}.",
        safe_mode.starts
    )
}

/// `peacrab status` of a daemon whose store does not answer.
pub const STORE_DOES_NOT_READ: &str =
    "unhealthy: the store cannot be read. See the log. A restart may help";

pub const LOOP_IS_STUCK: &str = "the agent loop is stuck";

pub const STORE_DOES_NOT_WRITE: &str = "the store cannot write";

pub const STORE_IS_DAMAGED: &str = "the store is damaged: restore the newest backup";

/// The parts that do not work, in `peacrab status`.
pub fn unhealthy(parts: &[&str]) -> String {
    format!("unhealthy: {}. See the log and `peacrab doctor`.", parts.join(", "))
}
