//! `peacrab doctor`: tries what a start relies on, without starting, and says what is wrong.

use std::path::Path;
use std::process::ExitCode;

use super::{print, warnings};
use crate::config::{Config, ConfigErrors};
use crate::control::Status;
use crate::sandbox::CageState;
use crate::tools::shell;
use crate::workspace::Workspace;
use crate::workspace::skills::SkillEnvironment;
use crate::{people, store};

/// 0 if all is well, 1 if something is not. Where a daemon runs, `status` is its own: its surroundings may allow less than
/// those of this command, in a systemd unit for example.
pub(super) fn run(
    home: &Path,
    loaded: &Result<Config, ConfigErrors>,
    status: Option<&Status>,
) -> ExitCode {
    let mut well = true;
    let mut say = |what: &str, found: Result<String, String>| {
        well &= found.is_ok();
        let (sign, words) = match found {
            Ok(words) => ("ok", words),
            Err(words) => ("WRONG", words),
        };
        print::line(&format!("{sign:<5} {what}: {words}"));
    };
    match loaded {
        Err(faults) => say("config", Err(faults.to_string())),
        Ok(config) => say("config", Ok(advice(&warnings(config, home)))),
    }
    say("store", store(home));
    say("workspace", workspace(&home.join("workspace")));
    if let Ok(config) = loaded {
        let standing = status.map(|status| status.shell.clone());
        let (standing, by) = match standing {
            Some(standing) => (standing, "as the daemon that runs found it: "),
            None => (shell::standing(&config.exec), "as tried from here: "),
        };
        let words = format!("{by}{}", standing.words());
        let refused = matches!(standing, CageState::Refused { .. });
        let found = if refused { Err(words) } else { Ok(words) };
        say("shell", config.exposed(home).map_or(found, |exposure| Err(exposure.words)));
    }
    ExitCode::from(u8::from(!well))
}

fn advice(warnings: &[String]) -> String {
    let lines = warnings.iter().map(|warning| format!("\n      {warning}"));
    format!("valid{}", lines.collect::<String>())
}

fn store(home: &Path) -> Result<String, String> {
    if !home.join(store::FILE).exists() {
        return Ok("there is none yet".to_owned());
    }
    let looked = store::look(home, people::paired);
    let looked =
        looked.ok_or_else(|| "it cannot be read; restore the home from a backup".to_owned());
    looked.map(|paired| format!("readable, people paired: {}", paired.len()))
}

fn workspace(root: &Path) -> Result<String, String> {
    if !root.exists() {
        return Ok("there is none yet".to_owned());
    }
    let looked = Workspace::look(root, SkillEnvironment::default());
    looked.map(|_| root.display().to_string()).map_err(|error| format!("{error:#}"))
}
