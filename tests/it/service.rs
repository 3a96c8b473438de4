//! The service, with programs in the place of systemd's that write down how they are called.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use peacrab::cli::service::{SYSTEM_UNIT, system_unit, unstartable, user_unit};

use rustix::process::{Pid, Signal, geteuid, kill_process};
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::timeout;

use crate::support::binary::{Ended, PATIENCE, ProgramFixture, until};

/// Puts a program into the fixture's folder of programs.
pub(crate) fn put_program(fixture: &ProgramFixture, name: &str, script: &str) {
    let folder = fixture.folder().join("bin");
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join(name);
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Runs a command that finds these programs first.
pub(crate) async fn run(fixture: &ProgramFixture, args: &[&str]) -> Ended {
    let mut command = fixture.command(&[], args);
    // The home is where the units of the account are.
    command.env("PATH", format!("{}:/usr/bin:/bin", fixture.folder().join("bin").display()));
    fixture.run_with(command, "").await
}

/// The file in which the calls of systemd's programs stand, one a line.
pub(crate) fn log(fixture: &ProgramFixture) -> PathBuf {
    fixture.folder().join("calls")
}

/// A systemd that carries everything out, and one unit of which this is known.
pub(crate) fn systemd(fixture: &ProgramFixture, shown: &str) {
    let log = log(fixture);
    let log = log.display();
    let show = format!(
        "echo \"$0 $*\" | sed 's,.*/,,' >> {log}\ncase \"$*\" in *show*) printf '{shown}';; esac"
    );
    put_program(fixture, "systemctl", &show);
    put_program(fixture, "loginctl", &format!("echo \"loginctl $*\" >> {log}\necho Linger=no"));
    put_program(
        fixture,
        "journalctl",
        &format!("echo \"journalctl $*\" >> {log}\necho a line of the log"),
    );
}

/// A fixture without `--config`, as a service has it.
fn fixture() -> ProgramFixture {
    let fixture = ProgramFixture::new("");
    fs::remove_file(fixture.folder().join("config.toml")).unwrap();
    fixture
}

/// A fixture in which a model is set up.
fn scene_with_model() -> ProgramFixture {
    let fixture = fixture();
    fs::create_dir_all(fixture.home()).unwrap();
    let model = "[providers.main]\ntype = \"openai\"\nmodel = \"m\"\nbase_url = \"http://127.0.0.1:9/v1\"\n";
    fs::write(fixture.home().join("config.toml"), model).unwrap();
    fixture
}

async fn service(fixture: &ProgramFixture, args: &[&str]) -> Ended {
    let path = format!("{}:/usr/bin:/bin", fixture.folder().join("bin").display());
    let mut command = fixture.bare_command(args);
    command.env("PATH", path);
    fixture.run_with(command, "").await
}

#[tokio::test]
async fn a_service_of_the_account_is_installed_and_removed() {
    let fixture = scene_with_model();
    systemd(&fixture, "");
    let ended = service(&fixture, &["service", "install", "--user"]).await;
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    assert!(!ended.out.contains("before it"), "{ended:?}");
    let unit = fixture.folder().join(".config/systemd/user/peacrab.service");
    let text = fs::read_to_string(&unit).unwrap();
    let program = env!("CARGO_BIN_EXE_peacrab");
    assert!(text.contains(&format!("ExecStart={program} run")), "{text}");
    assert!(text.contains(&format!("PEACRAB_HOME={}", fixture.home().display())), "{text}");
    let calls = fs::read_to_string(log(&fixture)).unwrap();
    assert_eq!(
        calls.lines().collect::<Vec<_>>(),
        [
            "systemctl --user show --property=Version",
            "systemctl --user daemon-reload",
            "systemctl --user enable peacrab.service",
            "systemctl --user restart peacrab.service",
            "loginctl enable-linger",
        ]
    );
    // Somebody's changes are kept beside it.
    fs::write(&unit, "[Service]\n# mine\n").unwrap();
    let ended = service(&fixture, &["service", "install", "--user"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(fs::read_to_string(&unit).unwrap(), text);
    let kept = unit.with_extension("service.old");
    let words = format!("which differed, is kept as {}.", kept.display());
    assert!(ended.out.contains(&words), "{ended:?}");
    assert!(fs::read_to_string(kept).unwrap().contains("# mine"));

    let ended = service(&fixture, &["service", "uninstall", "--user"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(!unit.exists());
    let calls = fs::read_to_string(log(&fixture)).unwrap();
    assert!(calls.contains("systemctl --user disable --now peacrab.service"), "{calls}");
    let again = service(&fixture, &["service", "uninstall", "--user"]).await;
    assert_eq!(again.code, Some(1), "{again:?}");
}

#[tokio::test]
async fn a_service_that_cannot_be_is_refused_with_the_reason() {
    let fixture = scene_with_model();
    put_program(
        &fixture,
        "systemctl",
        "echo 'System has not been booted with systemd' >&2; exit 1",
    );
    let ended = service(&fixture, &["service", "install", "--user"]).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.err.contains("has not been booted with systemd"), "{ended:?}");
    assert!(!fixture.folder().join(".config").exists(), "it leaves a unit behind");
    let ended = service(&fixture, &["service", "status", "--user"]).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.err.contains("has not been booted"), "{ended:?}");
    assert!(!ended.err.contains("service install"), "{ended:?}");
    // The home of the system's service is fixed.
    let ended = service(&fixture, &["service", "install", "--system"]).await;
    assert!(ended.err.contains("/var/lib/peacrab"), "{ended:?}");
    let broken = ProgramFixture::new("[agent]\nstep_max = 1\n");
    let ended = run(&broken, &["service", "install", "--user"]).await;
    assert_eq!(ended.code, Some(2), "{ended:?}");
    let elsewhere = ProgramFixture::new("");
    let ended = run(&elsewhere, &["service", "install", "--user"]).await;
    assert!(ended.err.contains("leave --config out"), "{ended:?}");
    assert!(!elsewhere.folder().join(".config").exists());
}

#[tokio::test]
async fn a_masked_service_is_refused_with_the_way_out() {
    let fixture = scene_with_model();
    systemd(&fixture, "");
    let unit = fixture.folder().join(".config/systemd/user/peacrab.service");
    fs::create_dir_all(unit.parent().unwrap()).unwrap();
    std::os::unix::fs::symlink("/dev/null", &unit).unwrap();
    let ended = service(&fixture, &["service", "install", "--user"]).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    for words in ["the service is masked", "systemctl unmask peacrab.service"] {
        assert!(ended.err.contains(words), "{words}: {ended:?}");
    }
    assert_eq!(fs::read_link(&unit).unwrap(), Path::new("/dev/null"));
}

#[tokio::test]
async fn a_service_that_would_lack_variables_of_this_shell_is_refused() {
    let fixture = fixture();
    systemd(&fixture, "LANG=C\\n");
    let install = async |variables: &[(&str, &str)]| {
        let path = format!("{}:/usr/bin:/bin", fixture.folder().join("bin").display());
        let mut command = fixture.bare_command(&["service", "install", "--user"]);
        command.env("PATH", path).envs(variables.iter().copied());
        fixture.run_with(command, "").await
    };
    // Where nothing is set up, it would answer nobody.
    let ended = install(&[]).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.err.contains(&format!("--home {} init`", fixture.home().display())), "{ended:?}");
    // What starts by a variable of this shell does not start there.
    let key = ("OPENAI_API_KEY", "sk-test-0123456789");
    let ended = install(&[key, ("EDITOR", "vi")]).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let file = fixture.folder().join(".config/peacrab.env");
    assert!(ended.err.contains("OPENAI_API_KEY"), "{ended:?}");
    assert!(ended.err.contains(&file.display().to_string()), "{ended:?}");
    assert!(!ended.err.contains("EDITOR") && !ended.err.contains(key.1), "{ended:?}");
    // So it is with those that the config names.
    fs::create_dir_all(fixture.home()).unwrap();
    let config = "[providers.main]\ntype = \"openai\"\nmodel = \"m\"\nbase_url = \"http://127.0.0.1:9/v1\"\n\
                  api_key = { env = \"MY_KEY\" }\n";
    fs::write(fixture.home().join("config.toml"), config).unwrap();
    let ended = install(&[("MY_KEY", "abc"), key]).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.err.contains("of this shell: MY_KEY."), "{ended:?}");
    assert!(!fixture.folder().join(".config/systemd").exists());
    // The unit reads them from a file.
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, "# Keys.\nMY_KEY=\n").unwrap();
    assert_eq!(install(&[("MY_KEY", "abc")]).await.code, Some(1));
    fs::write(&file, "# Keys.\nMY_KEY=\"abc\"\n").unwrap();
    let ended = install(&[("MY_KEY", "abc")]).await;
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    // Or they are in the environment of systemd itself.
    fs::remove_file(&file).unwrap();
    systemd(&fixture, "MY_KEY=abc\\n");
    assert_eq!(install(&[("MY_KEY", "abc")]).await.code, Some(0));
}

#[tokio::test]
async fn status_and_logs_ask_systemd() {
    let fixture = fixture();
    let state = "LoadState=loaded\\nActiveState=active\\nUnitFileState=enabled\\nResult=success\\nNRestarts=0\\n";
    systemd(&fixture, state);
    let ended = service(&fixture, &["service", "status", "--user"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let ended = service(&fixture, &["service", "logs", "--user", "-n", "5"]).await;
    assert!(ended.out.contains("a line of the log"), "{ended:?}");
    let calls = fs::read_to_string(log(&fixture)).unwrap();
    assert!(
        calls.contains("journalctl --user-unit peacrab.service --no-pager --lines=5"),
        "{calls}"
    );
    systemd(&fixture, &state.replace("ActiveState=active", "ActiveState=failed"));
    let ended = service(&fixture, &["service", "status", "--user"]).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    systemd(&fixture, "LoadState=not-found\\n");
    let ended = service(&fixture, &["service", "status", "--user"]).await;
    assert!(ended.err.contains("not installed"), "{ended:?}");
}

#[tokio::test]
async fn a_service_that_is_not_there_has_no_log() {
    let fixture = fixture();
    systemd(&fixture, "LoadState=not-found\\n");
    let logs = async || service(&fixture, &["service", "logs", "--user"]).await;
    let ended = logs().await;
    assert_eq!((ended.code, ended.out.as_str()), (Some(1), ""), "{ended:?}");
    assert!(ended.err.contains("not installed"), "{ended:?}");
    // So it is where systemd does not run, and the reason is told.
    put_program(&fixture, "systemctl", "echo 'Failed to connect to bus' >&2; exit 1");
    let ended = logs().await;
    assert_eq!((ended.code, ended.out.as_str()), (Some(1), ""), "{ended:?}");
    assert!(ended.err.contains("Failed to connect to bus"), "{ended:?}");
    // One that is installed has a log, also if its manager cannot be asked.
    let unit = fixture.folder().join(".config/systemd/user/peacrab.service");
    fs::create_dir_all(unit.parent().unwrap()).unwrap();
    fs::write(&unit, "").unwrap();
    let ended = logs().await;
    assert_eq!((ended.code, ended.out.trim_end()), (Some(0), "a line of the log"), "{ended:?}");
}

#[tokio::test]
async fn the_log_of_the_service_of_another_home_is_shown_only_if_it_is_named() {
    // The unit of root's service would be one of this machine.
    if geteuid().is_root() {
        return;
    }
    let fixture = fixture();
    let unit = fixture.folder().join(".config/systemd/user/peacrab.service");
    fs::create_dir_all(unit.parent().unwrap()).unwrap();
    fs::write(&unit, "").unwrap();
    let state = "LoadState=loaded\\nActiveState=active\\nUnitFileState=enabled\\nResult=success\\nNRestarts=0\\n";
    systemd(&fixture, &format!("{state}Environment=PEACRAB_HOME=/srv/of-another\\n"));
    let ended = service(&fixture, &["service", "logs"]).await;
    assert_eq!((ended.code, ended.out.as_str()), (Some(1), ""), "{ended:?}");
    assert!(ended.err.contains("not installed for this home"), "{ended:?}");
    let ended = service(&fixture, &["service", "logs", "--user"]).await;
    assert_eq!((ended.code, ended.out.trim_end()), (Some(0), "a line of the log"), "{ended:?}");
}

#[tokio::test]
async fn a_script_gets_the_state_of_the_service() {
    let fixture = fixture();
    let state = "LoadState=loaded\\nActiveState=active\\nUnitFileState=enabled\\nResult=success\\nNRestarts=3\\n";
    let shown = async |code: i32| {
        let ended = service(&fixture, &["service", "status", "--user", "--json"]).await;
        assert_eq!((ended.code, ended.err.as_str()), (Some(code), ""), "{ended:?}");
        serde_json::from_str::<Value>(&ended.out).unwrap()
    };
    systemd(&fixture, state);
    let expected = json!({
        "installed": true, "runs": true, "manager": "user", "active": "active", "unit_file": "enabled",
        "result": "success", "restarts": 3, "lingers": false,
    });
    assert_eq!(shown(0).await, expected);
    systemd(&fixture, &state.replace("ActiveState=active", "ActiveState=failed"));
    let failed = shown(1).await;
    assert_eq!((&failed["runs"], &failed["active"]), (&json!(false), &json!("failed")));
    systemd(&fixture, "LoadState=not-found\\n");
    assert_eq!(shown(1).await, json!({ "installed": false, "runs": false }));
    // Nothing is known where nobody can be asked.
    put_program(&fixture, "systemctl", "echo 'Failed to connect to bus' >&2; exit 1");
    let ended = service(&fixture, &["service", "status", "--user", "--json"]).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let error = serde_json::from_str::<Value>(&ended.out).unwrap()["error"].to_string();
    assert!(error.contains("Failed to connect to bus"), "{ended:?}");
    assert!(ended.err.contains("Failed to connect to bus"), "{ended:?}");
}

#[tokio::test]
async fn a_service_that_cannot_be_ended_keeps_its_unit_and_starts_no_more() {
    let fixture = scene_with_model();
    systemd(&fixture, "");
    assert_eq!(service(&fixture, &["service", "install", "--user"]).await.code, Some(0));
    let unit = fixture.folder().join(".config/systemd/user/peacrab.service");
    let link = unit.with_file_name("default.target.wants").join("peacrab.service");
    fs::create_dir_all(link.parent().unwrap()).unwrap();
    std::os::unix::fs::symlink(&unit, &link).unwrap();
    put_program(&fixture, "systemctl", "echo 'Failed to connect to bus' >&2; exit 1");
    let ended = service(&fixture, &["service", "uninstall", "--user"]).await;
    assert_eq!((ended.code, ended.out.as_str()), (Some(1), ""), "{ended:?}");
    let place = unit.display().to_string();
    for words in ["Failed to connect to bus", place.as_str(), "does not start at boot", "again"] {
        assert!(ended.err.contains(words), "{words}: {ended:?}");
    }
    assert!(unit.exists() && link.symlink_metadata().is_err());
    // A link that cannot be removed is not denied.
    fs::create_dir(&link).unwrap();
    let ended = service(&fixture, &["service", "uninstall", "--user"]).await;
    assert!(ended.code == Some(1) && ended.err.contains("still starts at boot"), "{ended:?}");
    systemd(&fixture, "");
    let ended = service(&fixture, &["service", "uninstall", "--user"]).await;
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    assert!(!unit.exists());
}

#[tokio::test]
async fn a_service_that_systemd_goes_on_to_know_is_no_success() {
    let fixture = scene_with_model();
    systemd(&fixture, "");
    assert_eq!(service(&fixture, &["service", "install", "--user"]).await.code, Some(0));
    let unit = fixture.folder().join(".config/systemd/user/peacrab.service");
    let script = "case \"$*\" in *daemon-reload*) echo 'Access denied' >&2; exit 1;; esac";
    put_program(&fixture, "systemctl", script);
    let ended = service(&fixture, &["service", "uninstall", "--user"]).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    for words in ["has ended and its unit is removed", "Access denied"] {
        assert!(ended.err.contains(words), "{words}: {ended:?}");
    }
    assert!(!unit.exists());
}

#[tokio::test]
async fn the_status_is_that_of_the_named_manager_and_logs_end_as_journalctl_does() {
    let fixture = fixture();
    let known = "LoadState=loaded\\nActiveState=active\\nUnitFileState=enabled\\nResult=success\\nNRestarts=0\\n";
    let script = format!(
        "case \"$*\" in --user*) printf 'LoadState=not-found\\n';; *status*) echo it runs;; *) printf '{known}';; esac"
    );
    put_program(&fixture, "systemctl", &script);
    let ended = service(&fixture, &["service", "status", "--user"]).await;
    assert!(ended.err.contains("not installed"), "{ended:?}");
    for args in [&["service", "status", "--system"] as &[&str], &["service", "status"]] {
        let ended = service(&fixture, args).await;
        assert_eq!((ended.code, ended.out.trim_end()), (Some(0), "it runs"), "{ended:?}");
    }
    put_program(&fixture, "journalctl", "echo 'No journal files were found.' >&2; exit 3");
    let ended = service(&fixture, &["service", "logs"]).await;
    assert_eq!(ended.code, Some(3), "{ended:?}");
    assert!(ended.err.contains("No journal files"), "{ended:?}");
}

#[test]
fn units_name_the_program_and_the_home_however_they_are_called() {
    let unit = system_unit(Path::new("/opt/my tools/pea%crab")).unwrap();
    assert!(unit.contains("ExecStart=\"/opt/my tools/pea%%crab\" run"), "{unit}");
    assert_eq!(system_unit(Path::new("/usr/local/bin/peacrab")).unwrap(), SYSTEM_UNIT);
    let unit = user_unit(Path::new("/usr/bin/peacrab"), Path::new("/home/ada/bots")).unwrap();
    assert!(unit.contains("Environment=PEACRAB_HOME=/home/ada/bots\n"), "{unit}");
    assert!(system_unit(Path::new("/a\nb")).is_err());
    // Comments are for readers.
    let comment = "#   install -m 755 target/dist/peacrab /usr/local/bin/peacrab\n";
    assert!(
        SYSTEM_UNIT.contains(comment) && system_unit(Path::new("/b/p")).unwrap().contains(comment)
    );
}

#[test]
fn what_the_unit_of_the_system_hides_cannot_be_its_program() {
    for (program, folder) in [
        ("/root/peacrab", "/root"),
        ("/home/ada/peacrab/target/release/peacrab", "/home"),
        ("/tmp/peacrab", "/tmp"),
    ] {
        let why = unstartable(Path::new(program)).unwrap();
        assert_eq!(why, format!("{folder} is hidden from it"));
    }
    assert_eq!(unstartable(Path::new("/usr/bin/env")), None);
    assert_eq!(unstartable(Path::new("/homes/peacrab")), None);
    // Folders for tests are their owner's alone.
    let folder = tempfile::tempdir().unwrap();
    assert!(unstartable(&folder.path().join("peacrab")).is_some());
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "the program is this test's own child")]
async fn the_system_gets_no_service_whose_program_it_cannot_start() {
    let fixture = fixture();
    systemd(&fixture, "");
    let program = fixture.folder().join("peacrab");
    let original = env!("CARGO_BIN_EXE_peacrab");
    fs::hard_link(original, &program).or_else(|_| fs::copy(original, &program).map(drop)).unwrap();
    let mut command = tokio::process::Command::new(&program);
    let path = format!("{}:/usr/bin:/bin", fixture.folder().join("bin").display());
    command.args(["service", "install", "--system"]).env_clear().env("PATH", path);
    command.env("HOME", fixture.folder()).kill_on_drop(true);
    let ended = fixture.run_with(command, "").await;
    assert_eq!((ended.code, ended.out.as_str()), (Some(1), ""), "{ended:?}");
    if !geteuid().is_root() {
        assert!(ended.err.contains("only root can install"), "{ended:?}");
        return;
    }
    let shown = program.display();
    for words in [
        format!("the service of the system could not start {shown}: "),
        format!("`install -m 755 {shown} /usr/local/bin/peacrab`"),
        "`/usr/local/bin/peacrab --home /var/lib/peacrab service install`".to_owned(),
    ] {
        assert!(ended.err.contains(&words), "{words}: {ended:?}");
    }
    assert!(!log(&fixture).exists(), "systemd was asked already");
}

#[tokio::test]
async fn completions_and_man_pages_are_those_of_the_command_line() {
    let fixture = ProgramFixture::new("");
    for shell in ["bash", "zsh", "fish"] {
        let ended = fixture.run(&["completions", shell]).await;
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert!(ended.out.contains("doctor") && ended.out.contains("app-token-file"), "{shell}");
    }
    let folder = fixture.folder().join("man");
    let ended = fixture.run(&["man", &folder.display().to_string()]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    for page in ["peacrab.1", "peacrab-init.1", "peacrab-pair-approve.1"] {
        let text = fs::read_to_string(folder.join(page)).unwrap();
        assert!(text.starts_with(".ie") || text.contains(".TH"), "{page}: {text}");
    }
    // The synopsis shows what follows an option.
    let page = fs::read_to_string(folder.join("peacrab-init.1")).unwrap();
    assert!(page.contains("provider NAME|URL]"), "{page}");
    let page = fs::read_to_string(folder.join("peacrab-send.1")).unwrap();
    assert!(page.contains("to ADDRESS [") && page.contains("file PATH...]"), "{page}");
    assert!(!folder.join("peacrab-help.1").exists());
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "the script is this test's own child")]
async fn a_container_with_a_wrong_config_waits_until_it_or_its_kept_copy_is_changed() {
    let fixture = ProgramFixture::new("");
    let calls = log(&fixture);
    // Refuses its config, or runs until it is asked to end.
    let program = format!(
        "echo run >> {calls}\n[ -e $PEACRAB_HOME/config.toml ] || {{ echo refused >> {calls}; exit 2; }}\n\
         trap 'echo reload >> {calls}' HUP\ntrap 'echo end >> {calls}; exit 0' TERM\n\
         echo up >> {calls}\nwhile :; do sleep 0.05; [ -e {restart} ] && break; done\n\
         rm {restart}\necho $PEACRAB_RESTART_CODE >> {calls}\nexit $PEACRAB_RESTART_CODE",
        calls = calls.display(),
        restart = fixture.folder().join("restart").display()
    );
    put_program(&fixture, "peacrab", &program);
    fs::create_dir_all(fixture.home()).unwrap();
    fs::write(fixture.home().join("config.last-good.toml"), "# of before").unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/packaging/docker-entrypoint");
    let mut command = tokio::process::Command::new(script);
    let path = format!("{}:/usr/bin:/bin", fixture.folder().join("bin").display());
    command.arg("run").env_clear().env("PATH", path).env("PEACRAB_HOME", fixture.home());
    command.env("PEACRAB_CONFIG_PAUSE", "0.05").kill_on_drop(true);
    // A shell cannot trap a signal that was ignored when it was started, as it is where the tests run under `nohup`. One
    // with a handler is back to its default in a child.
    let _hangups = signal(SignalKind::hangup()).unwrap();
    let mut child = command.spawn().unwrap();
    let pid = Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap()).unwrap();
    let said = |words: &str| {
        let calls = fs::read_to_string(&calls).unwrap_or_default();
        calls.lines().filter(|line| *line == words).count()
    };
    until("the first run", async || (said("refused") == 1).then_some(())).await;
    // As the program says: without that copy, the home may do without a config.
    fs::remove_file(fixture.home().join("config.last-good.toml")).unwrap();
    until("the run without it", async || (said("refused") == 2).then_some(())).await;
    fs::write(fixture.home().join("config.toml"), "# corrected").unwrap();
    until("the run with it", async || (said("up") == 1).then_some(())).await;
    assert_eq!(said("run"), 3, "it was not run in between");
    kill_process(pid, Signal::HUP).unwrap();
    until("the reload", async || (said("reload") == 1).then_some(())).await;
    // As after `/restart`: it is begun again, whatever the container's restart policy is.
    fs::write(fixture.folder().join("restart"), "").unwrap();
    until("the last run", async || (said("up") == 2).then_some(())).await;
    assert_eq!((said("run"), said("75")), (4, 1));
    kill_process(pid, Signal::TERM).unwrap();
    let ended = timeout(PATIENCE, child.wait()).await.expect("it does not end").unwrap();
    assert_eq!((ended.code(), said("end")), (Some(0), 1));
}

/// The entry of the container with a program in place of ours, which adds a line to the returned file at each start.
#[expect(clippy::disallowed_methods, reason = "the script is this test's own child")]
fn container(fixture: &ProgramFixture, program: &str) -> (tokio::process::Child, PathBuf) {
    let starts = fixture.folder().join("starts");
    put_program(fixture, "peacrab", &format!("echo start >> {}\n{program}", starts.display()));
    fs::create_dir_all(fixture.home()).unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/packaging/docker-entrypoint");
    let path = format!("{}:/usr/bin:/bin", fixture.folder().join("bin").display());
    let mut command = tokio::process::Command::new(script);
    command.arg("run").env_clear().env("PATH", path).env("PEACRAB_HOME", fixture.home());
    (command.kill_on_drop(true).spawn().unwrap(), starts)
}

fn pid_of(child: &tokio::process::Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap()).unwrap()
}

#[tokio::test]
async fn a_container_ends_also_if_its_program_has_lost_the_signal() {
    let fixture = ProgramFixture::new("");
    // As a copy of the shell that has not become the program yet.
    let program = "ends() { [ -n \"$once\" ] && exit 0; once=yes; }\ntrap ends TERM\n\
                   : > $PEACRAB_HOME/up\nwhile :; do sleep 0.05; done";
    let (mut child, _) = container(&fixture, program);
    until("the run", async || fixture.home().join("up").exists().then_some(())).await;
    kill_process(pid_of(&child), Signal::TERM).unwrap();
    let ended = timeout(PATIENCE, child.wait()).await.expect("it does not end").unwrap();
    assert_eq!(ended.code(), Some(0));
}

#[tokio::test]
async fn a_container_hears_that_it_has_to_end_also_while_its_program_starts_again() {
    for wait in [0, 1, 2, 3, 5, 8, 13] {
        let fixture = ProgramFixture::new("");
        let (mut child, starts) = container(&fixture, "exit $PEACRAB_RESTART_CODE");
        until("the first run", async || starts.exists().then_some(())).await;
        let begun = tokio::time::Instant::now();
        while begun.elapsed().as_millis() < wait {
            tokio::task::yield_now().await;
        }
        kill_process(pid_of(&child), Signal::TERM).unwrap();
        timeout(PATIENCE, child.wait()).await.expect("it does not end").unwrap();
    }
}
