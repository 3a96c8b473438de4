//! The operator's settings: `config.toml`, or the environment alone. All faults of a file are reported at once,
//! each with its line. Not here: the meaning of a key, which its module knows.

pub mod edit;
pub mod environment;
pub mod fault;
mod agent;
mod api_tokens;
mod backup;
mod channels;
mod deserializer;
mod exec;
mod exec_folders;
mod file;
mod gateway;
mod heartbeat;
mod hints;
mod hooks;
mod ids;
mod keys;
pub mod last_good;
mod limits;
mod memory;
mod mcp;
mod mcp_file;
mod media;
mod money;
mod personas;
mod providers;
mod reading;
mod retention;
mod review;
mod schema;
mod secrets;
pub mod update;
mod values;
mod web;
mod webhooks;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};

use crate::channels::config::{DiscordThreads, SlackThreads};
use crate::channels::{ChannelKind, Config as ChannelConfig, intake};
use crate::gateway::Config as GatewayConfig;
use crate::hooks::Hook;
use crate::people::{Access, Paired, Role};
use crate::provider::{self, transcription};
use crate::secret::{Secret, VariableValue};
use crate::tasks::schedule;
use crate::tools;
use crate::turn::personas::Personas;
use crate::types::message::ChannelName;

pub use agent::AgentConfig;
pub use channels::TERMINAL;
pub use environment::{Environment, absolute};
pub use exec::ExposureWarning;
pub use fault::{ConfigErrors, Fault, FaultPlace};
use file::read_text;
use reading::ConfigSource;
use schema::ConfigFile;
pub use schema::{KEYS, schema, sections};
pub use secrets::without_mark;
use values::MB;

#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    pub agent: AgentConfig,
    /// By name; those that `agent.providers` leaves out answer only where they are chosen.
    pub providers: BTreeMap<String, provider::Config>,
    /// [`TERMINAL`] is always among them.
    pub channels: BTreeMap<ChannelName, ChannelConfig>,
    /// Limits of incoming files.
    pub media: intake::IntakeLimits,
    /// The service that transcribes speech. None leaves it untranscribed.
    pub transcription: Option<transcription::Config>,
    /// The owner's commands that run on events.
    pub hooks: BTreeMap<String, Hook>,
    /// The MCP servers, by their names.
    pub mcp: BTreeMap<String, tools::mcp::Config>,
    /// Settings for reading and searching the web.
    pub web: tools::web::Config,
    /// The shell.
    pub exec: tools::shell::Config,
    /// Regular backups.
    pub backup: Option<crate::backup::schedule::Config>,
    /// The gateway; none if nothing listens.
    pub gateway: Option<GatewayConfig>,
    /// The source of new versions.
    pub update: Option<update::UpdateSource>,
    /// Faults that did not prevent loading, for the log.
    pub notes: Vec<String>,
    /// The files that it was read from: the config file, and files with keys.
    pub files: Vec<PathBuf>,
}

/// Returns the absolute path of the folder of all state: `--home`, `$PEACRAB_HOME`, the platform's folder for data, or
/// `.peacrab` in the current folder.
pub fn home(cli: Option<PathBuf>, env: &Environment) -> PathBuf {
    let home = cli
        .or_else(|| env.raw("PEACRAB_HOME").map(PathBuf::from))
        .or_else(|| {
            let folders = directories::ProjectDirs::from("", "", "peacrab")?;
            Some(folders.data_dir().to_owned())
        })
        .unwrap_or_else(|| PathBuf::from(".peacrab"));
    absolute(home)
}

/// Returns the command by which people start this program for `home` in a shell: its name if the shell finds
/// it, and `--home` unless it is the default home.
pub fn program(home: &Path, env: &Environment) -> String {
    let program = crate::process::program_file();
    let is_found = |folder: PathBuf| program.parent().is_some_and(|parent| *parent == folder);
    let path = env.raw("PATH").unwrap_or_default();
    let name = match std::env::split_paths(path).any(is_found) {
        true => program.file_name().map_or_else(|| program.clone(), PathBuf::from),
        false => program,
    };
    // The daemon's PEACRAB_HOME is not set in that shell.
    match self::home(None, &Environment::default()) == home {
        true => quoted(&name),
        false => format!("{} --home {}", quoted(&name), quoted(&absolute(home.to_owned()))),
    }
}

/// Quotes a path as a word of a shell.
pub fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+:@,=%".contains(c);
    match text.chars().all(is_plain) {
        true => text,
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

/// Returns the config file that [`load`] reads. It may not exist.
pub fn file(home: &Path, explicit: Option<&Path>) -> PathBuf {
    explicit.map_or_else(|| home.join("config.toml"), Path::to_owned)
}

/// Reads `explicit`, which must exist, or `config.toml` in `home`, which may be absent. Providers
/// and channels come from the environment if the file names none.
pub fn load(
    home: &Path,
    explicit: Option<&Path>,
    env: &Environment,
) -> Result<Config, ConfigErrors> {
    let file = self::file(home, explicit);
    let text = match explicit {
        None if matches!(file.try_exists(), Ok(false)) => String::new(),
        _ => read_text(&file).map_err(|fault| ConfigErrors(vec![fault]))?,
    };
    load_text(&file, &text, env)
}

/// Reads the text of a config file, which is or will be in `file`.
fn load_text(file: &Path, text: &str, env: &Environment) -> Result<Config, ConfigErrors> {
    let (tree, syntax_errors) = DeTable::parse_recoverable(text);
    let tree = DeValue::Table(tree.into_inner());
    let source = ConfigSource::new(file, text, &tree, env, &KEYS);
    source.read_from(file);
    for error in &syntax_errors {
        let at = error.span().map_or(text.len(), |span| span.start);
        source.fault(at, format!("{}{}", error.message(), quotes_hint(text, at)));
    }
    // The rest of a broken file would only give misleading faults.
    let config = if syntax_errors.is_empty() { read(&source) } else { None };
    let found = source.into_found();
    match config {
        Some(config) if found.faults.is_empty() => {
            Ok(Config { notes: found.notes, files: found.files, ..config })
        }
        _ => Err(ConfigErrors(found.faults)),
    }
}

/// Returns a hint about the most frequent mistake with numbers and times in TOML.
fn quotes_hint(text: &str, at: usize) -> &'static str {
    let begin = text.get(..at).and_then(|before| before.rfind('\n')).map_or(0, |end| end + 1);
    let line = text.get(begin..).and_then(|rest| rest.lines().next()).unwrap_or_default();
    let value = line.split_once('=').map_or("", |(_, value)| value.trim());
    let is_word = value.starts_with(char::is_alphanumeric)
        && value.parse::<f64>().is_err()
        && !matches!(value, "true" | "false");
    if is_word { "; put text in quotes" } else { "" }
}

fn read(source: &ConfigSource<'_>) -> Option<Config> {
    let file: ConfigFile = deserializer::read(source)?;
    let mut providers = providers::configs(source, file.providers);
    if providers.is_empty() {
        providers = providers::from_environment(source);
    }
    let names: Vec<_> = providers.iter().map(|(name, _)| name.as_str()).collect();
    let mut agent = file.agent.config(source, &names);
    agent.timezone = agent.timezone.or_else(|| schedule::zone(source.env.text("TZ")?).ok());
    agent.asking = file.asking.into();
    agent.heartbeat = file.heartbeat.config(source, &names);
    agent.limits = file.limits.limits();
    agent.memory = file.memory.config(source, &names);
    agent.retention = file.retention.config();
    agent.budgets = money::budgets(source, file.budgets);
    let (mut channels, count) = channels::channels(source, file.channels);
    if count == 0 {
        channels.extend(channels::from_environment(source));
    }
    channels.entry(TERMINAL.into()).or_insert_with(channels::terminal);
    let known: Vec<_> = channels.keys().map(ChannelName::as_str).collect();
    let personas = personas::personas(source, file.personas, &names, &known);
    agent.personas = Personas::new(personas.rules, file.agent.tools.clone());
    agent.budgets.personas = personas.budgets;
    let media = file.media.limits(&source.section("media"));
    let transcription = file.transcription;
    let transcription = transcription.and_then(|it| it.config(&source.section("transcription")));
    let hooks = hooks::hooks(source, file.hooks);
    let exec = file.exec.config(source);
    let bounds = exec.sandbox.bounds;
    let mcp = mcp::servers(source, file.mcp, file.agent.mcp_file.as_ref(), bounds);
    let web = file.web.config(source, file.search);
    let backup = file.backup.config(source);
    let gateway = gateway::GatewaySections {
        gateway: file.gateway,
        api_tokens: file.api_tokens,
        webhooks: file.webhooks,
    };
    let names: Vec<_> = channels.keys().map(ChannelName::as_str).collect();
    let gateway = gateway.config(source, &names)?;
    let providers: Option<_> =
        providers.into_iter().map(|(name, config)| Some((name, config?))).collect();
    let (providers, notes, files) = (providers?, Vec::new(), Vec::new());
    Some(Config {
        agent,
        providers,
        channels,
        media,
        transcription,
        hooks,
        mcp,
        web,
        exec,
        backup,
        gateway,
        update: file.update.config(&source.section("update")),
        notes,
        files,
    })
}

impl Config {
    /// Returns all secrets, which must stay out of logs.
    pub fn secrets(&self) -> impl Iterator<Item = &Secret> {
        let keys = self.providers.values().filter_map(|provider| provider.api_key.as_ref());
        let tokens = self.channels.values().flat_map(|channel| match &channel.kind {
            ChannelKind::Discord(discord) => vec![&discord.token],
            ChannelKind::Slack(slack) => vec![&slack.token, &slack.app_token],
            ChannelKind::Telegram(telegram) => vec![&telegram.token],
            ChannelKind::Terminal => Vec::new(),
        });
        let transcription =
            self.transcription.iter().filter_map(|transcription| transcription.api_key.as_ref());
        let mcp_servers = self.mcp.values().flat_map(tools::mcp::Config::secrets);
        let shell = self.exec.sandbox.env.values().filter_map(VariableValue::secret);
        let gateway = self.gateway.iter().flat_map(GatewayConfig::secrets);
        let others = mcp_servers.chain(shell).chain(self.web.secrets()).chain(gateway);
        keys.chain(tokens).chain(transcription).chain(others)
    }

    /// Returns the exposure if shell commands could read the home, or a file with secrets.
    pub fn exposure_warning(&self, home: &Path) -> Option<ExposureWarning> {
        exec::exposure_warning(&self.exec, home, &self.files)
    }

    /// Describes the settings for a person who checks them before a start. No secrets.
    pub fn describe(&self) -> String {
        let channels = self
            .channels
            .iter()
            .map(|(name, channel)| format!("  {name}: {}\n", describe_channel(channel)));
        let providers = self.agent.providers.iter().enumerate().map(|(index, name)| {
            let provider = self.providers.get(name).map(describe_provider).unwrap_or_default();
            let role = if index == 0 { "answers" } else { "fallback" };
            format!("  {name}: {provider}, {role}\n")
        });
        let (mcp, web) = (mcp::describe(&self.mcp), web::describe(&self.web));
        let gateway = self.gateway.as_ref().map(gateway::describe).unwrap_or_default();
        let (shell, heartbeat) =
            (exec::describe(&self.exec), heartbeat::describe(&self.agent.heartbeat));
        let (channels, providers): (String, String) = (channels.collect(), providers.collect());
        let AgentConfig { steps_max, turns_max, waiting_max, queue, .. } = self.agent;
        let queue = queue.as_str();
        format!(
            "channels\n{channels}providers\n{providers}{mcp}limits\n  {steps_max} steps a turn, \
             {turns_max} turns at a time, {waiting_max} messages waiting in a chat; new messages during a turn: {queue}\n\
             {heartbeat}files\n  {} MB a file, {} MB in all; voice messages: {}\n{web}{shell}{gateway}",
            self.media.file_max / MB,
            self.media.inbox_max / MB,
            self.transcription
                .as_ref()
                .map_or_else(|| "not transcribed".to_owned(), describe_transcription),
        )
    }

    /// Returns true if somebody is the owner, by the config or among those who were `paired`.
    pub fn has_owner(&self, paired: &[Paired]) -> bool {
        let has_owners = |(_, access): (_, &Access)| !access.owners.is_empty();
        self.platforms().any(has_owners) || paired.iter().any(|person| person.role == Role::Owner)
    }

    /// Returns warnings about settings that will work, but perhaps not as meant, with the notes of loading. `paired`
    /// are the people who have been let in already.
    pub fn warnings(&self, paired: &[Paired]) -> Vec<String> {
        let mut warnings = self.notes.clone();
        let have_owner = paired.iter().any(|person| person.role == Role::Owner);
        for (name, Access { owners, admins, allow, pairing, .. }) in self.platforms() {
            let is_nobody_named = owners.is_empty()
                && admins.is_empty()
                && allow.is_empty()
                && !paired.iter().any(|person| person.channel == *name);
            match (is_nobody_named, pairing) {
                // The owner will be asked.
                (true, true) if have_owner => {}
                (true, true) => warnings.push(format!(
                    "[channels.{name}] has no owners and no allow: nobody has access until paired"
                )),
                (true, false) => warnings.push(format!(
                    "[channels.{name}] has no owners, no allow and no pairing: \
                     only people who were paired before have access"
                )),
                (false, _) => {}
            }
            if allow.iter().any(|id| id == "*") {
                warnings.push(format!("[channels.{name}] gives everyone access, as guests"));
                if owners.is_empty() && !have_owner {
                    warnings.push(format!(
                        "[channels.{name}] has no owners, and pairing makes none where everyone has \
                         access: name them in `owners`"
                    ));
                }
            }
        }
        warnings.extend(exec::warning(&self.exec));
        warnings.extend(exec::unseen_path_warnings(&self.exec));
        let heartbeat_channel = self.agent.heartbeat.to.as_ref().map(|to| &to.channel);
        if let Some(channel) =
            heartbeat_channel.filter(|channel| !self.channels.contains_key(*channel))
        {
            warnings.push(format!(
                "[heartbeat] cannot send results: `to` names the channel {channel}, which does not exist"
            ));
        }
        if !cfg!(feature = "mcp") && !self.mcp.is_empty() {
            warnings.push("this program was built without MCP: its servers are ignored".to_owned());
        }
        let agent = &self.agent;
        let others = [&agent.summary_provider, &agent.job_provider, &agent.subagent_provider];
        let serves = |name: &String| others.iter().any(|other| other.as_ref() == Some(name));
        let is_used = |name: &String| agent.providers.contains(name) || serves(name);
        if !cfg!(feature = "gateway") && self.gateway.is_some() {
            warnings.push(
                "this program was built without the gateway: [gateway] is ignored".to_owned(),
            );
        }
        for name in self.providers.keys().filter(|name| !is_used(name)) {
            warnings.push(format!(
                "[providers.{name}] answers only if somebody chooses it with /model, \
                 because it is not in [agent] providers"
            ));
        }
        let used = self.agent.providers.iter().filter_map(|name| self.providers.get(name));
        if used.clone().all(|provider| provider.kind == provider::ProviderKind::Rehearsal) {
            warnings.push(
                "there is no model: set ANTHROPIC_API_KEY, OPENAI_API_KEY or OPENROUTER_API_KEY, \
                 or write a [providers.NAME] section"
                    .to_owned(),
            );
        }
        warnings
    }

    /// Returns the channels that strangers can reach.
    fn platforms(&self) -> impl Iterator<Item = (&ChannelName, &Access)> {
        let reachable = |channel: &&ChannelConfig| channel.kind != ChannelKind::Terminal;
        self.channels
            .iter()
            .filter(move |(_, channel)| reachable(channel))
            .map(|(name, channel)| (name, &channel.access))
    }
}

fn describe_channel(channel: &ChannelConfig) -> String {
    let (platform, threads) = match &channel.kind {
        ChannelKind::Terminal => return "terminal".to_owned(),
        ChannelKind::Discord(discord) => {
            let threads = match discord.threads {
                DiscordThreads::Open => ", a thread for each question",
                DiscordThreads::Reply => "",
            };
            (format!("discord ({})", discord.api_url), threads)
        }
        ChannelKind::Slack(slack) => {
            let threads = match slack.threads {
                SlackThreads::Thread => "",
                SlackThreads::Channel => ", answers in the channel",
            };
            (format!("slack ({})", slack.api_url), threads)
        }
        ChannelKind::Telegram(telegram) => (format!("telegram ({})", telegram.api_url), ""),
    };
    let Access { owners, admins, allow, groups, chats, bots, pairing } = &channel.access;
    let groups = groups.as_str();
    let pairing = if *pairing { "on" } else { "off" };
    let everyone = if allow.iter().any(|id| id == "*") { ", everyone as guests" } else { "" };
    let allowed = allow.iter().filter(|id| *id != "*").count();
    let chats = if chats.is_empty() { String::new() } else { format!(", chats {}", chats.len()) };
    let bots = if bots.is_empty() { String::new() } else { format!(", bots {}", bots.len()) };
    format!(
        "{platform}, owners {}, admins {}, allowed {allowed}{everyone}, groups {groups}{chats}{bots}, pairing {pairing}{threads}",
        owners.len(),
        admins.len()
    )
}

fn describe_provider(provider: &provider::Config) -> String {
    if provider.kind == provider::ProviderKind::Rehearsal {
        return "rehearsal, no model".to_owned();
    }
    let kind = provider.kind.as_str();
    let key = if provider.api_key.is_some() { "" } else { ", no key" };
    let sees = if provider.images { ", sees pictures" } else { "" };
    let tools = match provider.tools {
        provider::Tools::Native => "",
        provider::Tools::Text => ", tools in text",
    };
    let window = provider.context;
    format!(
        "{} ({kind}, {}{key}), context window {window} tokens{tools}{sees}",
        provider.model, provider.base_url
    )
}

fn describe_transcription(transcription: &transcription::Config) -> String {
    let key = if transcription.api_key.is_some() { "" } else { ", no key" };
    let language =
        transcription.language.as_deref().map(|it| format!(", in {it}")).unwrap_or_default();
    format!("{} ({}{key}){language}", transcription.model, transcription.base_url)
}
