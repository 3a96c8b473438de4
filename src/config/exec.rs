//! `[exec]`: the shell, and the cage in which its commands run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::people::Role;
use crate::replies;
use crate::sandbox::{self, Bounds, Cage, Enforced, Level};
use crate::secret::Setting;
use crate::tools::shell::Config;

use super::reading::{Located, Section, Source};
use super::secrets;

/// A call has to be over before the agent gives a tool up (two minutes).
const TIMEOUT_SECONDS_MOST: u32 = 100;
const TIMEOUT_SECONDS: u32 = 60;

/// A day; what takes longer is a daemon of its own.
const BACKGROUND_MINUTES_MOST: u32 = 24 * 60;
const BACKGROUND_MINUTES: u32 = 60;

/// A shell and what it starts do with less, and no machine has more.
const MEMORY_MB_LEAST: u32 = 32;
const MEMORY_MB_MOST: u32 = 1_000_000;
const MEMORY_MB: u32 = 512;

const FILE_MB_MOST: u32 = 1_000_000;
const FILE_MB: u32 = 256;
const DISK_MB: u32 = 1_024;

const PROCESSES_MOST: u32 = 4_000;
const PROCESSES: u32 = 128;

const MB: u64 = 1024 * 1024;

/// Guests are strangers.
const ROLES: [(&str, Role); 3] =
    [("user", Role::User), ("admin", Role::Admin), ("owner", Role::Owner)];

/// Where programs are, also for a daemon that was started without a PATH.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What of the daemon's own variables a command gets, as they say nothing about anybody.
const INHERITED: [&str; 3] = ["PATH", "LANG", "TZ"];

pub(super) fn shell(top: &mut Section<'_>) -> Config {
    let mut env = usual(top.source);
    let Some(mut section) = top.section("exec") else { return config(env) };
    let mut flag = |key, default| section.ask(key).map_or(default, |it| it.flag() == Some(true));
    let (enabled, network) = (flag("enabled", true), flag("network", false));
    let role = section.ask("role").and_then(|value| value.choice(&ROLES));
    let level = section.ask("sandbox").and_then(|value| value.choice(Level::CHOICES));
    let mut paths = |key| section.ask(key).map(|value| paths(&value)).unwrap_or_default();
    let (read, write) = (paths("read"), paths("write"));
    let declared = section.ask("env").and_then(|value| value.table()).unwrap_or_default();
    let mut number = |key, least, most, default| {
        let number = section.ask(key).and_then(|value| value.number(least..=most));
        u64::from(number.unwrap_or(default))
    };
    let seconds = number("timeout_seconds", 1, TIMEOUT_SECONDS_MOST, TIMEOUT_SECONDS);
    let minutes = number("background_minutes", 1, BACKGROUND_MINUTES_MOST, BACKGROUND_MINUTES);
    let memory = number("memory_mb", MEMORY_MB_LEAST, MEMORY_MB_MOST, MEMORY_MB) * MB;
    let file = number("file_mb", 1, FILE_MB_MOST, FILE_MB) * MB;
    let disk = number("disk_mb", 1, FILE_MB_MOST, DISK_MB) * MB;
    let processes = number("processes", 8, PROCESSES_MOST, PROCESSES);
    section.finish("the shell");
    env.extend(declared.into_iter().filter_map(|(name, value)| variable(name, &value)));
    let processes = u32::try_from(processes).unwrap_or(PROCESSES);
    let bounds = Bounds::new(memory, (file, disk), processes);
    let level = level.unwrap_or_default();
    let default = config(env);
    Config {
        enabled,
        role: role.unwrap_or(default.role),
        cage: Cage { level, network, read, write, bounds, ..default.cage },
        time_max: Duration::from_secs(seconds),
        background_max: Duration::from_secs(minutes * 60),
    }
}

fn config(env: BTreeMap<String, Setting>) -> Config {
    let megabytes = |number: u32| u64::from(number) * MB;
    let on_disk = (megabytes(FILE_MB), megabytes(DISK_MB));
    let bounds = Bounds::new(megabytes(MEMORY_MB), on_disk, PROCESSES);
    Config {
        enabled: true,
        role: Role::Admin,
        cage: Cage {
            program: Cage::THIS_PROGRAM.into(),
            level: Level::Required,
            network: false,
            read: Vec::new(),
            write: Vec::new(),
            env,
            bounds,
            least: Enforced::default(),
        },
        time_max: Duration::from_secs(TIMEOUT_SECONDS.into()),
        background_max: Duration::from_secs(u64::from(BACKGROUND_MINUTES) * 60),
    }
}

/// The variables that commands get without being asked.
fn usual(source: &Source<'_>) -> BTreeMap<String, Setting> {
    let plain = |name: &str, text: &str| (name.to_owned(), Setting::Plain(text.to_owned()));
    let mut env = BTreeMap::from([plain("PATH", PATH), plain("LANG", "C.UTF-8")]);
    env.extend([plain("TERM", "dumb")]);
    let own = INHERITED.iter().filter_map(|name| Some(plain(name, source.env.text(name)?)));
    env.extend(own);
    env
}

fn variable(name: &str, value: &Located<'_>) -> Option<(String, Setting)> {
    if name.is_empty() || name.contains(['=', '\0']) {
        value.fault("is no name of a variable");
        return None;
    }
    let setting = match value.is_text() {
        true => Setting::new(name, value.text_or_nothing()?),
        false => Setting::Secret(secrets::read_line(value)?),
    };
    Some((name.to_owned(), setting))
}

fn paths(value: &Located<'_>) -> Vec<PathBuf> {
    let entries = value.list().unwrap_or_default();
    let path = |entry: &Located<'_>| {
        let path = Path::new(entry.text()?);
        if !path.is_absolute() || path == Path::new("/") || path.components().any(is_up) {
            entry.fault("must be an absolute path without `..`, and not the whole machine");
            return None;
        }
        Some(path.to_owned())
    };
    entries.iter().filter_map(path).collect()
}

fn is_up(part: std::path::Component<'_>) -> bool {
    part == std::path::Component::ParentDir
}

pub(super) fn warning(config: &Config) -> Option<String> {
    let says = match config.cage.level {
        _ if !config.enabled => return None,
        Level::Required => return None,
        Level::BestEffort => "commands are caged as far as the kernel can, and run anyhow",
        Level::Off => "commands are not caged, and may do all that the daemon may",
    };
    Some(format!("[exec] sandbox = \"{}\": {says}", config.cage.level.as_str()))
}

/// Something that commands must not see, and would.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exposure {
    pub words: String,
    /// It lies where every command may look, as config files on NixOS do: a fact of the system that costs the
    /// shell, and no contradiction in the config.
    pub is_by_system: bool,
}

/// Why commands may not run as the config is: they would see what they must not. `secrets` are files.
pub(super) fn exposed(config: &Config, home: &Path, secrets: &[PathBuf]) -> Option<Exposure> {
    if !config.enabled || config.cage.level == Level::Off {
        return None;
    }
    let workspace = home.join("workspace");
    let found = sandbox::exposed(&config.cage, (home, &workspace), secrets)?;
    let words = replies::exposed(&found.by, (found.hidden != home).then_some(&*found.hidden));
    Some(Exposure { words, is_by_system: found.is_by_system() })
}

/// What a person checks before a start.
pub(super) fn describe(config: &Config) -> String {
    if !config.enabled {
        return "shell: off\n".to_owned();
    }
    let Config { role, cage, time_max, .. } = config;
    let network = if cage.network { "on" } else { "off" };
    format!(
        "shell\n  for role {role}, sandbox {}, network {network}, {} s a command, {} MB of memory\n",
        cage.level.as_str(),
        time_max.as_secs(),
        cage.bounds.memory / MB,
    )
}
