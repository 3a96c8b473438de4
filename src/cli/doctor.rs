//! `peacrab doctor`: makes all checks, prints what each found and what to do, and repairs what it may.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use chrono::Utc;
use rustix::fs::{Access, access};
use rustix::io::Errno;

use super::chat::DaemonState;
use super::invocation::{Invocation, warnings};
use super::systemd::HomeService;
use super::{chat, print, systemd};
use crate::backup::{self, known_folder, restore};
use crate::channels::markup::unescaped;
use crate::channels::{self, Channel};
use crate::config::{self, Config, ConfigErrors, last_good};
use crate::control::{ControlRequest, Response, Status};
use crate::daemon::{self, starts};
use crate::doctor::backups::{self, BackupState};
use crate::doctor::daemon::LastDaemon;
use crate::doctor::{
    Finding, Repair, Severity, daemon as daemon_checks, files, links, machine,
    service as service_checks, store as store_checks, wear, workspace,
};
use crate::replies;
use crate::sandbox::{self, SandboxLevel, SandboxState};
use crate::store::{self, StartWork};
use crate::tasks::schedule;
use crate::tools::mcp::Via;
use crate::tools::shell;
use crate::types::message::ChannelName;
use crate::workspace::job_state::MCP_STATES;

/// Returns 0 if nothing is wrong, else 1. A daemon that runs is asked for its links and its shell: its surroundings may
/// allow less than those of this command.
pub(super) async fn run(on: &Invocation, fix: bool, json: bool) -> anyhow::Result<ExitCode> {
    rustls::crypto::ring::default_provider().install_default().ok();
    let home = &on.home;
    let mut loaded = on.load_to_run();
    let mut rights = check_rights(home, &loaded);
    if fix {
        repair_all(&mut rights).await;
        // The config has warnings about rights, too.
        loaded = on.load_to_run();
    }
    let daemon = chat::daemon_state(home).await;
    let mut findings = check_here(on, &loaded, rights, daemon.status());
    findings.push(daemon_finding(home, &daemon));
    match (&daemon, &loaded) {
        (DaemonState::Answers(_), _) => findings.extend(ask_daemon(home).await),
        (DaemonState::Absent, Ok(config)) => findings.extend(check_links(config).await),
        (DaemonState::Starting(_) | DaemonState::Silent(_) | DaemonState::Forbidden(_), _)
        | (DaemonState::Absent, Err(_)) => {}
    }
    findings.push(service_finding(on).await);
    if fix {
        repair_all(&mut findings).await;
    }
    for Finding { words, advice, .. } in &mut findings {
        *words = on.name_commands(words);
        *advice = advice.take().map(|advice| on.name_commands(&advice));
    }
    let is_well = findings.iter().all(|finding| finding.severity != Severity::Wrong);
    match json {
        true => {
            let report = serde_json::json!({ "ok": is_well, "findings": findings });
            print::line(&serde_json::to_string_pretty(&report)?);
        }
        false => findings.iter().for_each(show),
    }
    Ok(ExitCode::from(u8::from(!is_well)))
}

/// Checks the rights of the home and of the files that the config names.
fn check_rights(home: &Path, loaded: &Result<Config, ConfigErrors>) -> Vec<Finding> {
    let secret_files = loaded.as_ref().map(|config| config.files.clone()).unwrap_or_default();
    files::check_rights(home, &secret_files)
}

/// Makes the other checks for which no platform, model or service is asked, and returns them with those of the rights.
/// `status` is the one of the running daemon.
fn check_here(
    on: &Invocation,
    loaded: &Result<Config, ConfigErrors>,
    rights: Vec<Finding>,
    status: Option<&Status>,
) -> Vec<Finding> {
    let home = &on.home;
    let store = store_checks::check_store(home, status.map(|status| status.health.store));
    let mut findings = config_findings(on, loaded, store.is_readable);
    findings.extend(rights);
    match restore::is_unfinished(home) {
        // What is missing is in the folder of the restore.
        true => findings.push(
            Finding::wrong("restore", replies::RESTORE_CUT_OFF)
                .advise(format!("start the daemon: {}", chat::start_command(home))),
        ),
        false => {
            findings.push(store.finding);
            // A daemon that runs has a log of its own.
            findings.extend(status.is_none().then(|| store_checks::check_log(home)).flatten());
            findings.push(workspace::check_workspace(home, store.was_used));
        }
    }
    findings.push(machine::check_disk(home));
    findings.push(wear::check_wear(home, Path::new("/sys")));
    // A store that is locked would be waited for once more.
    let newest = store.is_readable.then(|| store::try_read(home, schedule::newest).flatten());
    let now = Utc::now();
    findings.push(machine::clock_finding(now, newest.flatten()));
    findings.push(machine::check_kernel());
    if let Ok(config) = loaded {
        let backup = config.backup.as_ref();
        let missing_mount =
            backup.and_then(|backup| known_folder::missing_mount(home, &backup.folder));
        let backup = backup.map(|backup| BackupState {
            folder: &backup.folder,
            has_folder: backup.folder.is_dir(),
            missing_mount: missing_mount.as_deref(),
            every: backup.every,
            newest: backup::schedule::newest_of(home, &backup.folder, now),
            was_started: store.was_used,
        });
        findings.push(backups::backup_finding(backup, now));
        findings.push(shell_finding(home, config, status));
        findings.extend(mcp_sandbox_finding(home, config));
    }
    findings.extend(status.and_then(|it| daemon_checks::memory_finding(&it.shell)));
    findings.extend(status.and_then(|it| daemon_checks::loop_finding(it.health.agent_loop)));
    findings.extend(status.and_then(|it| daemon_checks::safe_mode_finding(it.safe_mode)));
    findings.extend(status.and_then(|it| daemon_checks::index_finding(it.indexing)));
    findings
}

/// Returns a finding for the config, and one for each of its warnings.
fn config_findings(
    on: &Invocation,
    loaded: &Result<Config, ConfigErrors>,
    has_readable_store: bool,
) -> Vec<Finding> {
    const CHECK: &str = "config";
    let config = match loaded {
        Ok(config) => config,
        Err(faults) => {
            return vec![Finding::wrong(CHECK, faults.to_string()).advise(config_advice(on))];
        }
    };
    // Several depend on who was paired.
    let warnings = match has_readable_store {
        true => warnings(config, &on.home),
        false => config.cautions(&on.home),
    };
    let warnings = warnings.into_iter().map(|warning| Finding::warning(CHECK, warning));
    std::iter::once(Finding::ok(CHECK, "valid")).chain(warnings).collect()
}

/// Returns what to do about a config that cannot be used, with the last one that worked.
fn config_advice(on: &Invocation) -> String {
    let file = config::file(&on.home, on.config.as_deref());
    if let Some(loss) = last_good::lost(&on.home, on.config.as_deref()) {
        return format!(
            "take back the last one that worked: `cp -p {} {}`; then `peacrab reload` if a daemon runs, else start it",
            config::quoted(&loss.kept),
            config::quoted(&file)
        );
    }
    if on.config.is_some() && matches!(file.try_exists(), Ok(false)) {
        return "name a file that is there with --config".to_owned();
    }
    if access(&file, Access::READ_OK) == Err(Errno::ACCESS) {
        return "run this as the account that runs Peacrab, or as root".to_owned();
    }
    let kept = last_good::kept(&on.home);
    let kept = kept.map(|kept| format!("; the last one that worked is kept in {}", kept.display()));
    format!("correct these lines; `peacrab check` reads the file again{}", kept.unwrap_or_default())
}

/// Prints a finding: a line for the result, one for what to do.
fn show(finding: &Finding) {
    let sign = match finding.severity {
        Severity::Ok => "ok",
        Severity::Warning => "warn",
        Severity::Wrong => "WRONG",
    };
    print::wrapped(&format!("{sign:<5} "), &format!("{}: {}", finding.check, finding.words));
    if let Some(advice) = &finding.advice {
        print::wrapped("      ", &format!("to do: {advice}"));
    }
}

fn shell_finding(home: &Path, config: &Config, status: Option<&Status>) -> Finding {
    if let Some(exposure) = config.exposure_warning(home) {
        return Finding::wrong("shell", exposure.words);
    }
    let (state, by) = match status {
        Some(status) => (status.shell.clone(), "as the daemon that runs found it: "),
        None => {
            (shell::check_sandbox_in(&config.exec, &home.join("workspace")), "as tried from here: ")
        }
    };
    let words = format!("{by}{}", unescaped(&state.describe()));
    match state {
        SandboxState::Refused { .. } => Finding::wrong("shell", words).advise(
            "see docs/shell-and-sandbox.md, or set `enabled = false` in [exec] to do without a shell",
        ),
        _ => Finding::ok("shell", words),
    }
}

/// Returns a finding about the sandbox of MCP servers, if one needs it. It is tried with the folder in which their state
/// folders lie: a file system may not let a root daemon share that one with commands.
fn mcp_sandbox_finding(home: &Path, config: &Config) -> Option<Finding> {
    const CHECK: &str = "sandbox of MCP servers";
    let programs = config.mcp.values().filter_map(|server| match &server.via {
        Via::Program(program) => Some(&program.sandbox),
        Via::Http { .. } => None,
    });
    let mut sandbox =
        programs.into_iter().find(|sandbox| sandbox.level == SandboxLevel::Required)?.clone();
    // Before the first start of a server there is only the home.
    let states = [home.join(MCP_STATES), home.to_owned()];
    sandbox.write.extend(states.into_iter().find(|folder| folder.exists()));
    Some(match sandbox::test_sandbox(&sandbox) {
        SandboxState::Refused { why } => {
            Finding::wrong(CHECK, format!("as tried from here, it is not possible: {why}")).advise(
                "see docs/mcp.md, or set `sandbox = \"off\"` for servers that may do everything",
            )
        }
        _ => Finding::ok(CHECK, "as tried from here, it works"),
    })
}

/// Returns a finding about the daemon itself.
fn daemon_finding(home: &Path, daemon: &DaemonState) -> Finding {
    match daemon {
        DaemonState::Answers(status) => {
            daemon_checks::running_finding(&status.version, status.since)
        }
        DaemonState::Starting(holder) => {
            let words = chat::not_open_yet(holder);
            let finding = match holder.work {
                Some(StartWork::AwaitsSpace) => Finding::wrong("daemon", words),
                Some(StartWork::Updates(_)) | None => Finding::warning("daemon", words),
            };
            finding.advise(chat::open_advice(holder))
        }
        DaemonState::Silent(why) => daemon_checks::silent_finding(why),
        DaemonState::Forbidden(_) => daemon_checks::forbidden_finding(),
        DaemonState::Absent => {
            let last = match starts::last_record(home) {
                None => LastDaemon::Never,
                Some(record) if record.runs => LastDaemon::CutOff,
                Some(record) if record.was_refused() => LastDaemon::Refused,
                Some(_) => LastDaemon::Stopped,
            };
            daemon_checks::absent_finding(last, &chat::start_command(home))
        }
    }
}

async fn service_finding(on: &Invocation) -> Finding {
    let place = systemd::place(&on.environment);
    match systemd::service_of(&on.home).await {
        HomeService::Installed(state) => service_checks::service_finding(Some(&state), place),
        HomeService::OfAnotherHome => service_checks::other_home_finding(),
        HomeService::Absent => service_checks::service_finding(None, place),
    }
}

async fn ask_daemon(home: &Path) -> Vec<Finding> {
    match chat::ask(home, &ControlRequest::Doctor).await {
        Ok(Response::Findings(findings)) => findings,
        Ok(_) | Err(_) => vec![daemon_checks::other_version_finding()],
    }
}

/// Checks the links without a daemon. Nothing is received.
async fn check_links(config: &Config) -> Vec<Finding> {
    let mut findings = match daemon::models(config) {
        Ok(models) => links::check_models(&models).await,
        Err(error) => vec![links::unusable_finding("model", &error)],
    };
    let mut connected: Vec<(ChannelName, Arc<dyn Channel>)> = Vec::new();
    for (name, channel) in &config.channels {
        match channels::connect(&channel.kind) {
            Ok(Some(channel)) => connected.push((name.clone(), channel)),
            Ok(None) => {}
            Err(error) => {
                findings.push(links::unusable_finding(&format!("channel {name}"), &error));
            }
        }
    }
    findings.extend(links::check_channels(&connected).await);
    findings
}

async fn repair_all(findings: &mut [Finding]) {
    for finding in findings {
        repair(finding).await;
    }
}

/// Makes the repair of a finding, if it has one that was not made yet.
async fn repair(finding: &mut Finding) {
    let repaired = match finding.repair.take() {
        None => return,
        Some(Repair::Mode { path, mode }) => {
            fs::set_permissions(path, Permissions::from_mode(mode)).map_err(anyhow::Error::from)
        }
        Some(Repair::Linger) => systemd::enable_linger().await,
    };
    match repaired {
        Ok(()) => {
            finding.words = format!("repaired: {}", finding.words);
            finding.severity = Severity::Ok;
            finding.advice = None;
        }
        Err(error) => finding.words += &format!(" (the repair failed: {error:#})"),
    }
}
