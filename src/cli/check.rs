//! `peacrab check`: what would start with the config as it is. Nothing is started, and nobody is asked.

use std::path::Path;
use std::process::ExitCode;

use serde_json::{Value, json};

use super::chat::{self, DaemonState};
use super::invocation::{Invocation, warnings};
use super::print::{self, ResultForm};
use super::{USED_WRONGLY, refuse};
use crate::backup::restore;
use crate::channels::markup::unescaped;
use crate::config::{self, Config, ConfigErrors};
use crate::replies;

/// Describes what would start; `daemon` is the one of this home.
pub(super) fn check(on: &Invocation, daemon: &DaemonState, form: ResultForm) -> ExitCode {
    let loaded = on.load_to_run();
    match form {
        ResultForm::Words => show(on, &loaded, daemon),
        ResultForm::Json => {
            let (report, code) = report(on, &loaded, daemon);
            print::json(&report);
            code
        }
    }
}

fn show(on: &Invocation, loaded: &Result<Config, ConfigErrors>, daemon: &DaemonState) -> ExitCode {
    let (home, file) = (&on.home, config::file(&on.home, on.config.as_deref()));
    match loaded {
        Ok(config) => {
            print::wrapped("", &format!("home: {}", home.display()));
            print::wrapped(
                "",
                &match file.exists() {
                    true => format!("config: {}", file.display()),
                    false => format!("config: none at {}; only the environment", file.display()),
                },
            );
            print::wrapped("", &config.describe());
            match daemon {
                DaemonState::Absent => {}
                DaemonState::Starting(holder) => {
                    print::line(&format!("warning: {}", chat::not_open_yet(holder)));
                }
                DaemonState::Answers(status) => {
                    let (pid, shell) = (status.pid, unescaped(&status.shell.describe()));
                    print::wrapped(
                        "",
                        &format!("the daemon that runs (process {pid}) says: {shell}"),
                    );
                }
                DaemonState::Silent(why) | DaemonState::Forbidden(why) => {
                    print::wrapped("", &format!("warning: {why}"));
                }
            }
            let warnings = shown_warnings(config, home);
            warnings.iter().for_each(|warning| print::wrapped("", &format!("warning: {warning}")));
            match config.exposure_warning(home).filter(|exposure| !exposure.is_by_system) {
                None => ExitCode::SUCCESS,
                Some(exposure) => {
                    print::error(&exposure.words);
                    ExitCode::from(USED_WRONGLY)
                }
            }
        }
        Err(faults) => refuse(on, faults),
    }
}

/// The warnings of the config, one of a restore that was cut off, and one of commands that could read the home.
fn shown_warnings(config: &Config, home: &Path) -> Vec<String> {
    let cut_off = restore::is_unfinished(home).then(|| replies::RESTORE_CUT_OFF.to_owned());
    let exposure = config.exposure_warning(home).filter(|exposure| exposure.is_by_system);
    let exposure = exposure.map(|exposure| replies::shell_refused(&exposure.words));
    warnings(config, home).into_iter().chain(cut_off).chain(exposure).collect()
}

/// Returns the number of warnings about the config as it is now. None if it cannot be used from here.
pub(super) fn count_warnings(on: &Invocation) -> Option<usize> {
    let config = on.load_to_run().ok()?;
    Some(shown_warnings(&config, &on.home).len())
}

/// The same for a script, and the exit code.
fn report(
    on: &Invocation,
    loaded: &Result<Config, ConfigErrors>,
    daemon: &DaemonState,
) -> (Value, ExitCode) {
    let (home, file) = (&on.home, config::file(&on.home, on.config.as_deref()));
    let mut report = json!({
        "home": home.display().to_string(),
        "config": file.exists().then(|| file.display().to_string()),
        "running_shell": daemon.status().map(|status| status.shell.describe()),
    });
    let mut faults = Vec::new();
    match loaded {
        Ok(config) => {
            let mut warnings = shown_warnings(config, home);
            match daemon {
                DaemonState::Starting(holder) => warnings.push(chat::not_open_yet(holder)),
                DaemonState::Silent(why) | DaemonState::Forbidden(why) => {
                    warnings.push(why.clone());
                }
                DaemonState::Absent | DaemonState::Answers(_) => {}
            }
            if let Some(exposure) =
                config.exposure_warning(home).filter(|exposure| !exposure.is_by_system)
            {
                faults.push(
                    json!({ "place": file.display().to_string(), "message": exposure.words }),
                );
            }
            let channels: Vec<_> = config.channels.keys().map(|name| name.as_str()).collect();
            report["channels"] = json!(channels);
            report["providers"] = json!(config.agent.providers);
            report["description"] = json!(config.describe());
            report["warnings"] = json!(warnings);
        }
        Err(ConfigErrors(found)) => faults.extend(
            found
                .iter()
                .map(|fault| json!({ "place": fault.place.to_string(), "message": fault.message })),
        ),
    }
    let code = match faults.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(USED_WRONGLY),
    };
    report["faults"] = Value::Array(faults);
    (report, code)
}
