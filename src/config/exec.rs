//! `[exec]`: the shell, and the sandbox in which its commands run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Deserialize;

use crate::people::Role;
use crate::people::folder_roles::{FolderRoles, RoleFolder};
use crate::replies;
use crate::sandbox::{self, CommandLimits, Protections, Sandbox, SandboxLevel};
use crate::secret::VariableValue;
use crate::tools::shell::more_paths;
use crate::tools::shell::{Config, NetworkRule};
use crate::workspace::folders::FOLDERS_BESIDE;

use super::exec_folders::{SeenFolder, ShellRole, check_folders};
use super::reading::ConfigSource;
use super::values::{AbsolutePath, At, Flag, Text, Within};
use crate::config::secrets::{self, UnresolvedSecret};

/// Maximum time of a command, in seconds: it has to end before the agent gives up on a tool (two minutes).
const SECONDS_MOST: u32 = 100;

/// Maximum time of a background command: a day. A longer one is a daemon of its own.
const MINUTES_MOST: u32 = 24 * 60;

/// A shell and what it starts do with less, and no machine has more.
const MEMORY_MB_LEAST: u32 = 32;
const MB_MOST: u32 = 1_000_000;

const MB: u64 = 1024 * 1024;

/// The shell: commands of the model, in a sandbox that the kernel enforces. They see the workspace
/// or, for untrusted files, `downloads/`, the system's programs, and nothing else. `peacrab doctor`
/// shows the protections of this kernel.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ExecSection {
    /// If false, there is no shell at all.
    enabled: Flag<true>,
    /// The least role that can use it: user | admin | owner. The commands of others than the owner,
    /// and those in groups, have folders of their own.
    role: ShellRole,
    /// required (if the kernel cannot protect files, the network or dangerous calls, there is no
    /// shell) | best-effort (commands run with the protections that there are) | off (commands can
    /// do everything that the daemon can).
    sandbox: SandboxLevel,
    /// off | ask (a call can ask for it, and somebody is asked each time) | on (a call can ask for
    /// it). A command with the network sees `downloads/` and not the workspace. It reaches this
    /// machine's own services, too.
    network: NetworkRule,
    /// Files and folders that commands can read besides the system, as absolute paths. None may
    /// hold the home, the config file, or a file with a key. A table instead of a path names the
    /// least role whose commands see it, in private chats:
    /// `{ path = "/srv/photos", role = "owner" }`. Default: none.
    #[schemars(extend("title" = "list of paths or tables"))]
    read: Vec<At<SeenFolder>>,
    /// Files and folders that commands can read as those of `read`, and change if the call names
    /// them in `paths`. After untrusted content, such a call is asked about; with the network it is
    /// asked about each time, and jobs cannot make it. They must exist. Default: none.
    #[schemars(extend("title" = "list of paths or tables"))]
    write: Vec<At<SeenFolder>>,
    /// The paths of `read` and `write`, or paths below those of `read`, where only you write. Commands
    /// in the workspace and those of jobs see these. The others count as untrusted, and are seen by
    /// commands with `untrusted` or the network. Default: none.
    trusted: Vec<At<Text<AbsolutePath>>>,
    /// Environment variables of commands. From the daemon they get only PATH, LANG and TZ. A value
    /// can be a secret, which every command can then read.
    #[schemars(extend("title" = "table of strings or secrets"))]
    env: BTreeMap<String, At<UnresolvedSecret>>,
    /// The maximum duration of a command, in seconds.
    timeout_seconds: Within<1, SECONDS_MOST, 60>,
    /// The maximum duration of a background command, in minutes.
    background_minutes: Within<1, MINUTES_MOST, 60>,
    /// The memory of one command with all its processes, in MB. Its /tmp can use another quarter of
    /// that.
    memory_mb: Within<MEMORY_MB_LEAST, MB_MOST, 512>,
    /// The largest file that a command can write, in MB.
    file_mb: Within<1, MB_MOST, 256>,
    /// The disk space that a command can use, in MB.
    disk_mb: Within<1, MB_MOST, 1024>,
    /// The processes that a command can have at a time.
    processes: Within<8, 4_000, 128>,
}

/// Where programs are, also for a daemon that was started without a PATH.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The daemon's own variables that a command gets, as they say nothing about anybody.
const INHERITED: [&str; 3] = ["PATH", "LANG", "TZ"];

impl ExecSection {
    pub(super) fn config(self, source: &ConfigSource<'_>) -> Config {
        let bytes = |megabytes: u32| u64::from(megabytes) * MB;
        let (file, disk) = (bytes(self.file_mb.0), bytes(self.disk_mb.0));
        let bounds = CommandLimits::new(bytes(self.memory_mb.0), file, disk, self.processes.0);
        let role = Role::from(self.role);
        check_folders(source, role, &self.read, &self.write, &self.trusted);
        let folders = |entries: &[At<SeenFolder>]| -> Vec<RoleFolder> {
            entries.iter().map(|entry| entry.value.folder(role)).collect()
        };
        let folder_roles = FolderRoles { read: folders(&self.read), write: folders(&self.write) };
        let paths = |folders: &[RoleFolder]| -> Vec<PathBuf> {
            folders.iter().map(|folder| folder.path.clone()).collect()
        };
        let mut env = default_variables(source);
        let declared = self.env.into_iter();
        env.extend(declared.filter_map(|(name, value)| variable(source, name, &value)));
        Config {
            enabled: self.enabled.0,
            role,
            network: self.network,
            sandbox: Sandbox {
                program: Sandbox::THIS_PROGRAM.into(),
                level: self.sandbox,
                network: false,
                read: paths(&folder_roles.read),
                write: paths(&folder_roles.write),
                env,
                bounds,
                least: Protections::default(),
                places: Vec::new(),
            },
            time_max: self.timeout_seconds.seconds(),
            background_max: self.background_minutes.minutes(),
            trusted: self.trusted.into_iter().map(|path| path.value.0.0).collect(),
            folder_roles,
        }
    }
}

/// Returns the variables that all commands get.
fn default_variables(source: &ConfigSource<'_>) -> BTreeMap<String, VariableValue> {
    let plain = |name: &str, text: &str| (name.to_owned(), VariableValue::Plain(text.to_owned()));
    let mut env = BTreeMap::from([plain("PATH", PATH), plain("LANG", "C.UTF-8")]);
    env.extend([plain("TERM", "dumb")]);
    let own = INHERITED.iter().filter_map(|name| Some(plain(name, source.env.text(name)?)));
    env.extend(own);
    env
}

fn variable(
    source: &ConfigSource<'_>,
    name: String,
    value: &At<UnresolvedSecret>,
) -> Option<(String, VariableValue)> {
    if name.is_empty() || name.contains(['=', '\0']) {
        source.refuse(value, "is not a valid name of an environment variable");
        return None;
    }
    let setting = secrets::read_setting(source, &name, value)?;
    Some((name, setting))
}

/// Returns a warning for each trusted path that no command sees.
pub(super) fn unseen_path_warnings(config: &Config) -> Vec<String> {
    let unseen = more_paths::unseen(&config.sandbox, &config.trusted);
    let to_warning = |path: &Path| {
        format!("[exec] trusted: no command sees {}; name it in read or write, too", path.display())
    };
    unseen.map(to_warning).collect()
}

pub(super) fn warning(config: &Config) -> Option<String> {
    let says = match config.sandbox.level {
        _ if !config.enabled => return None,
        SandboxLevel::Required => return None,
        SandboxLevel::BestEffort => {
            "commands run with the protections that the kernel has, even if some are missing"
        }
        SandboxLevel::Off => {
            "commands run without a sandbox, and can do everything that the daemon can"
        }
    };
    Some(format!("[exec] sandbox = \"{}\": {says}", config.sandbox.level.as_str()))
}

/// A protected path that shell commands could read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExposureWarning {
    pub words: String,
    /// True if it is in a folder that every command can read, as config files on NixOS are. The shell is off
    /// then, but the config is no mistake.
    pub is_by_system: bool,
}

/// Returns the exposure if commands could read the home or one of the files `secrets`.
pub(super) fn exposure_warning(
    config: &Config,
    home: &Path,
    secrets: &[PathBuf],
) -> Option<ExposureWarning> {
    if !config.enabled || config.sandbox.level == SandboxLevel::Off {
        return None;
    }
    let mut folders = FOLDERS_BESIDE.into_iter().chain(["workspace"]).map(|name| home.join(name));
    let found = folders
        .find_map(|folder| sandbox::find_exposed_path(&config.sandbox, home, &folder, secrets))?;
    let words = replies::exposed(&found.by, (found.hidden != home).then_some(&*found.hidden));
    Some(ExposureWarning { words, is_by_system: found.is_by_system() })
}

/// Describes the section for a person who checks it before a start.
pub(super) fn describe(config: &Config) -> String {
    if !config.enabled {
        return "shell: off\n".to_owned();
    }
    let Config { role, network, sandbox, time_max, .. } = config;
    let network = network.as_str();
    format!(
        "shell\n  for role {role}, sandbox {}, network {network}, {} s a command, {} MB of memory\n",
        sandbox.level.as_str(),
        time_max.as_secs(),
        sandbox.bounds.memory / MB,
    )
}
