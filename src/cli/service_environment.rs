//! The variables that the unit gives the service, compared with those of this shell: what works here by a variable would be
//! missing there. Not here: the unit (`service`).

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::bail;

use super::invocation::Invocation;
use super::systemd::{self, Manager, UNIT};
use crate::channels::ChannelKind;
use crate::config::{self, Config, Environment};
use crate::provider::ProviderKind;

/// The file of variables in the unit of the system (`EnvironmentFile=`).
const SYSTEM_FILE: &str = "/etc/peacrab.env";

/// The file of variables in the unit of one account, below `$HOME`.
const USER_FILE: &str = ".config/peacrab.env";

/// Returns an error if the service would not have what this shell has, or if nothing is set up that it could do.
pub(super) async fn check(
    on: &Invocation,
    config: &Config,
    manager: Manager,
) -> anyhow::Result<()> {
    let mut missing = needed_variables(on, config);
    let file = file_of(&on.environment, manager);
    if !missing.is_empty() {
        match file.as_deref().map(fs::read_to_string) {
            Some(Ok(text)) => names_in_file(&text).iter().for_each(|name| {
                missing.remove(*name);
            }),
            // Nobody but root may look.
            Some(Err(error)) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(()),
            Some(Err(_)) | None => {}
        }
    }
    if !missing.is_empty() {
        for known in names_known_to_systemd(manager).await {
            missing.remove(&known);
        }
    }
    if !missing.is_empty() {
        let names = missing.into_iter().collect::<Vec<_>>().join(", ");
        let file = file.unwrap_or_else(|| PathBuf::from(USER_FILE));
        bail!(
            "the service would not have these variables of this shell: {names}. Write each as a line NAME=value into {}, which \
             the unit reads, and let nobody else read it (chmod 600); or put the secret into a file that the config names. If \
             the service is not to have them, unset them here. Then run this again",
            file.display()
        );
    }
    if is_rehearsal_only(config) {
        bail!(
            "nothing is set up in {}, so the service would answer nobody: run `{} init` first",
            on.home.display(),
            on.program()
        );
    }
    Ok(())
}

/// Returns the variables of this shell without which the config could not be read, or would start other models or channels.
fn needed_variables(on: &Invocation, config: &Config) -> BTreeSet<String> {
    let is_needed = |name: &String| {
        let without = on.environment.without(name);
        match config::load(&on.home, on.config.as_deref(), &without) {
            Ok(other) => other.channels != config.channels || other.providers != config.providers,
            Err(_) => true,
        }
    };
    on.environment.names().filter(is_needed).collect()
}

fn file_of(environment: &Environment, manager: Manager) -> Option<PathBuf> {
    match manager {
        Manager::System => Some(PathBuf::from(SYSTEM_FILE)),
        Manager::User => environment.raw("HOME").map(|home| Path::new(home).join(USER_FILE)),
    }
}

/// The variables that a file sets (systemd.exec(5), `EnvironmentFile=`).
fn names_in_file(text: &str) -> Vec<&str> {
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';']));
    lines.filter_map(set_name).collect()
}

/// The variables that the manager gives all services, and those of the unit with its drop-ins.
async fn names_known_to_systemd(manager: Manager) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    if let Ok(shown) = systemd::systemctl(manager, &["show-environment"]).await {
        names.extend(shown.lines().filter_map(set_name).map(str::to_owned));
    }
    let unit = systemd::systemctl(manager, &["show", UNIT, "--property=Environment"]).await;
    if let Ok(shown) = unit {
        let words = shown.trim().strip_prefix("Environment=").unwrap_or_default();
        let words = words.split_whitespace().map(|word| word.trim_start_matches('"'));
        names.extend(words.filter_map(set_name).map(str::to_owned));
    }
    names
}

/// The name in `NAME=value`. None if the value is empty, which is as if it were not set.
fn set_name(line: &str) -> Option<&str> {
    let (name, text) = line.split_once('=')?;
    let is_set = !text.trim().trim_matches(['"', '\'']).is_empty();
    is_set.then_some(name.trim())
}

/// Returns true if no model would answer, and nobody could write to it but from this machine.
pub(super) fn is_rehearsal_only(config: &Config) -> bool {
    let mut answers = config.agent.providers.iter().filter_map(|name| config.providers.get(name));
    let has_model = answers.any(|provider| provider.kind != ProviderKind::Rehearsal);
    let has_channel = config.channels.values().any(|channel| channel.kind != ChannelKind::Terminal);
    !has_model && !has_channel && config.gateway.is_none()
}
