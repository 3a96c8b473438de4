//! `peacrab doctor`: makes all checks, prints what each found and what to do, and repairs what it may.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use super::invocation::{Invocation, warnings};
use super::{chat, print, systemd};
use crate::channels::{self, Channel};
use crate::config::Config;
use crate::control::{ControlRequest, Response, Status};
use crate::daemon;
use crate::doctor::{Finding, Repair, Severity, files, links, machine, service as service_checks};
use crate::sandbox::{self, SandboxLevel, SandboxState};
use crate::store::OpenError;
use crate::tasks::schedule;
use crate::tools::mcp::Via;
use crate::tools::shell;
use crate::types::message::ChannelName;
use crate::workspace::Workspace;
use crate::workspace::job_state::MCP_STATES;
use crate::workspace::skills::SkillEnvironment;
use crate::{people, store};

/// Returns 0 if nothing is wrong, else 1. Where a daemon runs, it is asked for its links and its shell: its surroundings may
/// allow less than those of this command.
pub(super) async fn run(on: &Invocation, fix: bool, json: bool) -> anyhow::Result<ExitCode> {
    rustls::crypto::ring::default_provider().install_default().ok();
    let home = &on.home;
    let loaded = on.load();
    let mut findings = vec![match &loaded {
        Err(faults) => Finding::wrong("config", faults.to_string())
            .advise("correct these lines; `peacrab check` reads the file again"),
        Ok(config) => Finding::ok("config", advice(&warnings(config, home))),
    }];
    let secret_files = loaded.as_ref().map(|config| config.files.clone()).unwrap_or_default();
    findings.extend(files::check_rights(home, &secret_files));
    findings.push(store_finding(home));
    findings.push(workspace_finding(&home.join("workspace")));
    findings.push(machine::check_disk(home));
    let newest = store::look(home, schedule::newest).flatten();
    findings.push(machine::clock_finding(chrono::Utc::now(), newest));
    findings.push(machine::check_kernel());
    let status = chat::status(home).await.ok();
    if let Ok(config) = &loaded {
        findings.push(shell_finding(home, config, status.as_ref()));
        findings.extend(mcp_sandbox_finding(home, config));
    }
    match (&status, &loaded) {
        (Some(_), _) => findings.extend(ask_daemon(home).await),
        (None, Ok(config)) => findings.extend(check_links(config).await),
        (None, Err(_)) => {}
    }
    findings.push(service_checks::service_finding(systemd::service_state().await.as_ref()));
    if fix {
        for finding in &mut findings {
            repair(finding).await;
        }
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

/// Prints a finding: a line for the result, one for what to do.
fn show(finding: &Finding) {
    let sign = match finding.severity {
        Severity::Ok => "ok",
        Severity::Warning => "warn",
        Severity::Wrong => "WRONG",
    };
    print::line(&format!("{sign:<5} {}: {}", finding.check, finding.words));
    if let Some(advice) = &finding.advice {
        print::line(&format!("      to do: {advice}"));
    }
}

fn advice(warnings: &[String]) -> String {
    let lines = warnings.iter().map(|warning| format!("\n      {warning}"));
    format!("valid{}", lines.collect::<String>())
}

fn store_finding(home: &Path) -> Finding {
    if !home.join(store::FILE).exists() {
        return Finding::ok("store", "there is none yet");
    }
    match store::examine(home) {
        Ok(()) => match store::look(home, people::paired) {
            Some(paired) => {
                Finding::ok("store", format!("readable, people paired: {}", paired.len()))
            }
            None => Finding::warning("store", "written by an older version")
                .advise("start the daemon once, which brings it up to date"),
        },
        Err(error @ OpenError::Newer { .. }) => Finding::wrong("store", error.to_string())
            .advise("install the newer version again, or restore a backup of this one"),
        Err(error) => Finding::wrong("store", format!("it cannot be read: {error}")).advise(
            "stop the daemon and restore the newest backup (`peacrab restore FILE --replace`)",
        ),
    }
}

fn workspace_finding(root: &Path) -> Finding {
    if !root.exists() {
        return Finding::ok("workspace", "there is none yet");
    }
    match Workspace::look(root, SkillEnvironment::default()) {
        Ok(_) => Finding::ok("workspace", root.display().to_string()),
        Err(error) => Finding::wrong("workspace", format!("{error:#}")).advise(
            "give the folder to the account that runs Peacrab, or restore it from a backup",
        ),
    }
}

fn shell_finding(home: &Path, config: &Config, status: Option<&Status>) -> Finding {
    if let Some(exposure) = config.exposed(home) {
        return Finding::wrong("shell", exposure.words);
    }
    let (state, by) = match status {
        Some(status) => (status.shell.clone(), "as the daemon that runs found it: "),
        None => (shell::standing_in(&config.exec, &home.join("workspace")), "as tried from here: "),
    };
    let words = format!("{by}{}", state.words());
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
    Some(match sandbox::trial(&sandbox) {
        SandboxState::Refused { why } => {
            Finding::wrong(CHECK, format!("as tried from here, it is not possible: {why}")).advise(
                "see docs/mcp.md, or set `sandbox = \"off\"` for servers that may do everything",
            )
        }
        _ => Finding::ok(CHECK, "as tried from here, it works"),
    })
}

async fn ask_daemon(home: &Path) -> Vec<Finding> {
    match chat::ask(home, &ControlRequest::Doctor).await {
        Ok(Response::Findings(findings)) => findings,
        Ok(_) | Err(_) => vec![
            Finding::wrong("daemon", "it does not answer the questions of this version")
                .advise("restart it, so that both are the same version"),
        ],
    }
}

/// Checks the links without a daemon. Nothing is received.
async fn check_links(config: &Config) -> Vec<Finding> {
    let mut findings = match daemon::models(config) {
        Ok(models) => links::check_models(&models).await,
        Err(error) => vec![Finding::wrong("model", format!("{error:#}"))],
    };
    let mut connected: Vec<(ChannelName, Arc<dyn Channel>)> = Vec::new();
    for (name, channel) in &config.channels {
        match channels::connect(&channel.kind) {
            Ok(Some(channel)) => connected.push((name.clone(), channel)),
            Ok(None) => {}
            Err(error) => {
                findings.push(Finding::wrong(format!("channel {name}"), format!("{error:#}")));
            }
        }
    }
    findings.extend(links::check_channels(&connected).await);
    findings
}

/// Makes the repair of a finding, if it has one.
async fn repair(finding: &mut Finding) {
    let repaired = match &finding.repair {
        None => return,
        Some(Repair::Mode { path, mode }) => {
            fs::set_permissions(path, Permissions::from_mode(*mode)).map_err(anyhow::Error::from)
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
