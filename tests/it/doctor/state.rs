//! The state of the machine and of the daemon, as the doctor sees it; and the doctor on a narrow terminal.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta, Utc};
use peacrab::doctor::backups::{BackupState, backup_finding};
use peacrab::doctor::daemon::{memory_finding, safe_mode_finding};
use peacrab::doctor::service::{AskedManager, ServicePlace, service_finding, unreachable};
use peacrab::doctor::wear::{check_wear, wear_finding};
use peacrab::doctor::{Finding, Severity};
use peacrab::sandbox::{Protections, SandboxLevel, SandboxState};
use peacrab::types::safe_mode::SafeMode;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::found;
use crate::support::binary::{ProgramFixture, model};
use crate::support::model_api::{ModelApi, Platform, Reply};
use crate::support::pty::Pty;

#[tokio::test]
async fn a_daemon_that_is_stuck_is_named_by_every_command() {
    let fixture = ProgramFixture::new("");
    let daemon = fixture.daemon().await;
    let pid: i32 = fs::read_to_string(fixture.home().join("lock")).unwrap().parse().unwrap();
    let send = |signal| kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
    send(Signal::STOP);
    let begun = Instant::now();
    let (status, pairs, usage, chat, check, doctor) = tokio::join!(
        fixture.run(&["status"]),
        fixture.run(&["pair", "list"]),
        fixture.run(&["usage"]),
        fixture.run(&["chat", "-m", "hello"]),
        fixture.run(&["check"]),
        fixture.run(&["doctor"]),
    );
    assert!(begun.elapsed() < Duration::from_secs(40), "{:?}", begun.elapsed());
    let words = format!("the daemon (process {pid}) does not answer");
    for ended in [status, pairs, usage, chat] {
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert!(ended.err.contains(&words), "{ended:?}");
    }
    assert!(check.out.contains(&format!("warning: {words}")), "{check:?}");
    let wrong = format!("WRONG daemon: {words}");
    found(&doctor, 1, &[wrong.as_str(), "ok    config: valid", "ok    store: readable"]);
    send(Signal::CONT);
    daemon.terminate().await;
}

#[tokio::test]
async fn that_no_daemon_runs_is_wrong_once_one_has_been_started() {
    let fixture = ProgramFixture::new("");
    let never = ["ok    daemon: none has been started in this home yet"];
    found(&fixture.run(&["doctor"]).await, 0, &never);
    // A command that opens the home for itself is no daemon.
    assert_eq!(fixture.run(&["chat", "-m", "hello"]).await.code, Some(0));
    assert!(fixture.home().join("state.db").exists());
    found(&fixture.run(&["doctor"]).await, 0, &never);

    let daemon = fixture.daemon().await;
    let runs = format!(", version {}", env!("CARGO_PKG_VERSION"));
    found(&fixture.run(&["doctor"]).await, 0, &["ok    daemon: it runs since 20", runs.as_str()]);
    daemon.terminate().await;
    let stopped = "WRONG daemon: none runs, although this home was in use: it was stopped";
    found(&fixture.run(&["doctor"]).await, 1, &[stopped, "to do: start it: ", " run`"]);
    let (workspace, away) = (fixture.home().join("workspace"), fixture.folder().join("away"));
    fs::rename(&workspace, &away).unwrap();
    assert_eq!(fixture.run(&["run"]).await.code, Some(1));
    fs::rename(&away, &workspace).unwrap();
    let refused = "WRONG daemon: none runs: its last start was refused";
    let to_do = "to do: look at the log for the reason, and start it: ";
    found(&fixture.run(&["doctor"]).await, 1, &[refused, to_do]);
    fixture.daemon().await.kill().await;
    let ended = fixture.run(&["doctor", "--json"]).await;
    let report: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!((ended.code, &report["ok"]), (Some(1), &json!(false)), "{report}");
    let findings: Vec<Finding> = serde_json::from_value(report["findings"].clone()).unwrap();
    let daemon = findings.iter().find(|it| it.check == "daemon").unwrap();
    assert_eq!(daemon.severity, Severity::Wrong);
    assert!(daemon.words.ends_with("it has ended unexpectedly"), "{daemon:?}");
}

#[tokio::test]
async fn warnings_of_the_config_are_findings_of_their_own() {
    let fixture = ProgramFixture::new("");
    let ended = fixture.run(&["doctor", "--json"]).await;
    let report: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!((ended.code, &report["ok"]), (Some(0), &json!(true)), "{report}");
    let findings: Vec<Finding> = serde_json::from_value(report["findings"].clone()).unwrap();
    let of_config = |severity: Severity| -> Vec<String> {
        let of_config = findings.iter().filter(|it| it.check == "config");
        of_config.filter(|it| it.severity == severity).map(|it| it.words.clone()).collect()
    };
    assert_eq!(of_config(Severity::Ok), ["valid"]);
    let warnings = of_config(Severity::Warning);
    assert!(warnings.iter().any(|it| it.starts_with("there is no model")), "{warnings:?}");
}

#[tokio::test]
async fn a_model_without_credit_is_to_be_paid() {
    let main = ModelApi::start(Platform::OpenAi).await;
    let fixture = ProgramFixture::new(&model("main", &main));
    main.reply(Reply::error(402, &json!({"error": {"message": "Insufficient balance"}})));
    let ended = fixture.run(&["doctor"]).await;
    let words = ["WRONG model main: ", "there is no credit left", "to do: pay for the account"];
    found(&ended, 1, &words);
    assert!(!ended.out.contains("correct api_key"), "{}", ended.out);
}

#[tokio::test]
async fn the_doctor_fits_a_narrow_terminal() {
    let fixture = ProgramFixture::new("");
    let mut terminal = Pty::begin(fixture.command(&Pty::session(), &["doctor"]), 40);
    terminal.wait_for_words("service:").await;
    assert_eq!(terminal.ends().await, Some(0));
    let raw = terminal.raw();
    let lines: Vec<_> = raw.lines().map(str::trim_end).collect();
    assert!(lines.contains(&"ok    config: valid"), "{raw}");
    // Neither a path nor a command is broken.
    let is_whole = |line: &str| !line.trim().contains(' ') || line.trim().starts_with('`');
    let long = lines.iter().find(|line| line.chars().count() > 40 && !is_whole(line));
    assert_eq!(long, None, "{raw}");
    // What is continued stands below its beginning.
    let is_warning = |line: &&str| line.starts_with("warn  config: there is no");
    let warned = lines.iter().position(is_warning).unwrap();
    assert!(lines[warned + 1].starts_with("      "), "{raw}");
    // A pipe gets each finding on a line.
    let ended = fixture.run(&["doctor"]).await;
    assert!(ended.out.lines().any(|line| line.chars().count() > 90), "{}", ended.out);
}

#[test]
fn wear_is_judged_as_the_disk_estimates_it() {
    let judge = |life_time: &str, reserve: &str| {
        let finding = wear_finding(life_time, reserve);
        (finding.severity, finding.words)
    };
    assert_eq!(
        judge("0x01 0x02\n", "0x01\n"),
        (Severity::Ok, "at most 20 % of its expected life is used".to_owned())
    );
    assert_eq!(judge("0x01 0x09\n", "0x01\n").0, Severity::Warning);
    assert_eq!(judge("0x0b 0x01\n", "0x01\n").0, Severity::Wrong);
    assert_eq!(
        judge("0x01 0x01\n", "0x02\n"),
        (Severity::Warning, "80 % of its spare blocks are used".to_owned())
    );
    let unknown = (Severity::Ok, "the disk does not report it".to_owned());
    assert_eq!(judge("0x00 0x00\n", ""), unknown);
    // The disks of a machine on which the file system names none.
    let sys = tempfile::tempdir().unwrap();
    let look = || check_wear(sys.path(), sys.path()).words;
    assert_eq!(look(), unknown.1);
    let device = sys.path().join("block/mmcblk0/device");
    fs::create_dir_all(&device).unwrap();
    fs::create_dir_all(sys.path().join("block/loop0")).unwrap();
    fs::write(device.join("life_time"), "0x03 0x01\n").unwrap();
    assert_eq!(look(), "at most 30 % of its expected life is used");
}

#[test]
fn backups_are_judged_by_their_age() {
    let now: DateTime<Utc> = "2026-11-22T12:00:00Z".parse().unwrap();
    let well = BackupState {
        folder: Path::new("/backups"),
        has_folder: true,
        missing_mount: None,
        every: Duration::from_secs(24 * 3600),
        newest: Some(now - TimeDelta::hours(30)),
        was_started: true,
    };
    let judge = |state: BackupState<'_>| {
        let finding = backup_finding(Some(state), now);
        (finding.severity, finding.words)
    };
    assert_eq!(judge(well), (Severity::Ok, "the newest is of 2026-11-21 06:00 UTC".to_owned()));
    assert_eq!(
        judge(BackupState { newest: Some(now - TimeDelta::hours(49)), ..well }),
        (
            Severity::Warning,
            "the newest is of 2026-11-20 11:00 UTC, although one is due every 24 h".to_owned()
        )
    );
    let gone = judge(BackupState { has_folder: false, ..well });
    assert_eq!(gone, (Severity::Wrong, "there is no folder /backups".to_owned()));
    let unmounted = judge(BackupState { missing_mount: Some(Path::new("/mnt/usb")), ..well });
    let words = "/backups is not on its disk, because /mnt/usb is not mounted";
    assert_eq!(unmounted, (Severity::Wrong, words.to_owned()));
    // One of a wrong clock is none.
    let later = judge(BackupState { newest: Some(now + TimeDelta::hours(1)), ..well });
    assert_eq!(later, (Severity::Wrong, "there is none in /backups".to_owned()));
    let new = BackupState { has_folder: false, newest: None, was_started: false, ..well };
    assert_eq!(judge(new).0, Severity::Ok);
    assert_eq!(backup_finding(None, now).severity, Severity::Ok);
}

#[test]
fn the_state_of_the_daemon_is_judged() {
    assert_eq!(safe_mode_finding(None), None);
    let safe_mode = safe_mode_finding(Some(SafeMode { starts: 3, is_reported: true })).unwrap();
    assert_eq!(safe_mode.severity, Severity::Warning);
    assert!(safe_mode.words.contains("safe mode after 3 unexpected ends"), "{safe_mode:?}");
    let shell = |group| SandboxState::Sandboxed {
        level: SandboxLevel::Required,
        enforced: Protections { group, ..Protections::default() },
    };
    let words = |state: &SandboxState| memory_finding(state).map(|finding| finding.words);
    assert!(words(&shell(true)).unwrap().starts_with("exact"));
    assert!(words(&shell(false)).unwrap().starts_with("counted"));
    assert_eq!(words(&SandboxState::Off), None);
}

#[test]
fn a_service_is_advised_only_where_systemd_runs() {
    let advice = |place| service_finding(None, place).advice;
    assert!(advice(ServicePlace::Systemd).unwrap().contains("service install"));
    assert_eq!(advice(ServicePlace::OtherInit), None);
    assert_eq!(advice(ServicePlace::Container), None);
    let user = |has_session| AskedManager::User { account: "ada", has_session };
    let words = unreachable(ServicePlace::Systemd, user(false)).unwrap();
    for piece in ["XDG_RUNTIME_DIR", "ssh", "`su`", "loginctl enable-linger ada"] {
        assert!(words.contains(piece), "{piece}: {words}");
    }
    assert_eq!(unreachable(ServicePlace::Systemd, user(true)), None);
    assert_eq!(unreachable(ServicePlace::Systemd, AskedManager::System), None);
    let container = unreachable(ServicePlace::Container, user(false)).unwrap();
    assert!(container.contains("container") && !container.contains("install"), "{container}");
}
