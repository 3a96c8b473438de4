//! Faults of the sandbox, the daemon, the service, the config and the platforms, each in the real program, with what it
//! advises.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::symlink;

use chrono::{TimeDelta, Utc};
use peacrab::doctor::service::{HomeDaemon, is_service_of};
use rusqlite::Connection;
use serde_json::json;

use super::{answer, found};
use crate::sandbox::{NO_LANDLOCK, without};
use crate::service::{put_program, run as run_with_programs};
use crate::support::binary::{ProgramFixture, home, home_at, model, until};
use crate::support::bot_api::{self, BotApi};
use crate::support::discord_api::{self, DiscordApi};
use crate::support::fake_daemon::{FakeDaemon, status};
use crate::support::model_api::{ModelApi, Platform, Reply};
use crate::support::slack_api::{self, SlackApi};

/// A home in which a daemon has run.
async fn used(config: &str) -> ProgramFixture {
    let fixture = ProgramFixture::new(config);
    fixture.daemon().await.terminate().await;
    fixture
}

#[test]
fn a_shell_and_servers_that_cannot_be_sandboxed_are_wrong() {
    without(NO_LANDLOCK, async || {
        let fixture = ProgramFixture::new("[mcp.fake]\ncommand = \"cat\"\n");
        let ended = fixture.run(&["doctor"]).await;
        found(
            &ended,
            1,
            &[
                "WRONG shell: as tried from here: Shell: not available, because commands can't be sandboxed",
                "to do: see docs/shell-and-sandbox.md, or set `enabled = false` in [exec]",
                "WRONG sandbox of MCP servers: as tried from here, it is not possible: ",
                "to do: see docs/mcp.md, or set `sandbox = \"off\"` for servers",
            ],
        );
        assert!(ended.out.matches("no Landlock").count() >= 2, "{}", ended.out);
        // No backslash of the Markdown that a chat gets.
        assert!(!ended.out.contains('\\'), "{}", ended.out);
        let without_both =
            "[exec]\nenabled = false\n[mcp.fake]\ncommand = \"cat\"\nsandbox = \"off\"\n";
        let ended = ProgramFixture::new(without_both).run(&["doctor"]).await;
        found(&ended, 0, &["ok    shell: as tried from here: Shell: off in the config."]);
        assert!(!ended.out.contains("sandbox of MCP servers"), "{}", ended.out);
    });
}

#[tokio::test]
async fn servers_are_told_as_the_daemon_has_them() {
    let program = std::env::current_exe().unwrap().display().to_string();
    let fixture = ProgramFixture::new(&format!(
        "[mcp.good]\ncommand = {program:?}\nargs = [\"--exact\", \"mcp::fake::serve\", \"--nocapture\", \"--test-threads=1\"]\n\
         env = {{ PEACRAB_TEST_MCP = \"good\" }}\nsandbox = \"off\"\n\
         [mcp.slow]\ncommand = \"sleep\"\nargs = [\"600\"]\n"
    ));
    let ended = fixture.run(&["doctor"]).await;
    found(&ended, 0, &["ok    sandbox of MCP servers: as tried from here, it works"]);
    let daemon = fixture.daemon().await;
    let ended = until("the server's tools", async || {
        let ended = fixture.run(&["doctor"]).await;
        ended.out.contains("MCP server good: up").then_some(ended)
    })
    .await;
    found(
        &ended,
        0,
        &[
            "ok    MCP server good: up, ",
            "warn  MCP server slow: starting",
            "to do: wait a minute and try again",
            "ok    memory limit of commands: ",
            "warn  model rehearsal: there is no model: rehearsal answers by fixed rules",
            "init`, or write a [providers.NAME] section",
        ],
    );
    daemon.terminate().await;
}

#[tokio::test]
async fn a_daemon_that_starts_or_waits_for_space_is_told_from_one_that_is_gone() {
    let fixture = used("").await;
    let path = fixture.home().join("lock");
    let lock = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    lock.lock().unwrap();
    fs::write(&path, "42").unwrap();
    found(
        &fixture.run(&["doctor"]).await,
        0,
        &[
            "ok    files: only this account can read the home and the secrets",
            "warn  daemon: process 42 has the home locked, and cannot be asked",
            "to do: it is a daemon that starts or ends, or another command: try again in a moment",
        ],
    );
    fs::write(&path, "42\nwaits for free space\n").unwrap();
    found(
        &fixture.run(&["doctor"]).await,
        1,
        &[
            "WRONG daemon: the daemon cannot start (process 42, which waits for free space on the disk)",
            "to do: free some space",
        ],
    );
    lock.unlock().unwrap();
}

#[tokio::test]
async fn a_daemon_of_another_version_or_without_passes_is_wrong() {
    let fixture = used("").await;
    let well = status(Utc::now());
    let fake = FakeDaemon::start(&fixture.home(), &[("status", json!({ "status": well }))]);
    found(
        &fixture.run(&["doctor"]).await,
        1,
        &[
            "ok    daemon: it runs since 20",
            "WRONG daemon: it does not answer the questions of this version",
            "to do: restart it, so that both are the same version",
        ],
    );
    drop(fake);
    let fake = FakeDaemon::start(&fixture.home(), &[("status", json!({ "done": "I am well." }))]);
    found(
        &fixture.run(&["doctor"]).await,
        1,
        &[
            "WRONG daemon: the daemon's answer is unexpected: if it runs another version, restart it",
            "without it, only this machine was checked",
        ],
    );
    drop(fake);
    let mut stuck = status(Utc::now());
    stuck["health"] = json!({ "agent_loop": false, "store": true });
    let none = json!({ "findings": [] });
    let answers = [("status", json!({ "status": stuck })), ("doctor", none)];
    let _fake = FakeDaemon::start(&fixture.home(), &answers);
    found(
        &fixture.run(&["doctor"]).await,
        1,
        &[
            "WRONG daemon: its agent loop is stuck: messages are kept, and none is answered",
            "to do: look at the log for the reason, and restart the daemon",
        ],
    );
}

#[tokio::test]
async fn a_daemon_that_was_killed_is_wrong_and_one_in_safe_mode_a_warning() {
    let fixture = ProgramFixture::new("");
    for _ in 0..3 {
        fixture.daemon().await.kill().await;
    }
    found(
        &fixture.run(&["doctor"]).await,
        1,
        &[
            "WRONG daemon: none runs, although this home was in use: it has ended unexpectedly",
            "to do: look at the log for the reason, and start it: `systemctl start peacrab` where it is a service",
        ],
    );
    let daemon = fixture.daemon().await;
    found(
        &fixture.run(&["doctor"]).await,
        0,
        &[
            "warn  daemon: it is in safe mode after 3 unexpected ends: jobs, the heartbeat, hooks",
            "to do: find the reason in the log, then leave safe mode with",
        ],
    );
    daemon.terminate().await;
}

#[tokio::test]
async fn a_service_that_does_not_run_as_it_should_is_named_with_the_command_to_type() {
    /// The manager, what it shows, the exit code, and the words.
    type Case = (&'static str, &'static str, i32, [&'static str; 2]);
    const CASES: [Case; 6] = [
        (
            "",
            "ActiveState=failed\\nUnitFileState=enabled\\nResult=watchdog\\nNRestarts=0",
            1,
            [
                "WRONG service: it has failed (watchdog)",
                "to do: `journalctl -u peacrab` shows why; `systemctl restart peacrab` starts it again",
            ],
        ),
        (
            "--user",
            "ActiveState=failed\\nUnitFileState=enabled\\nResult=exit-code\\nNRestarts=0",
            1,
            [
                "WRONG service: it has failed (exit-code)",
                "`journalctl --user -u peacrab` shows why; `systemctl --user restart peacrab` starts",
            ],
        ),
        (
            "",
            "ActiveState=inactive\\nUnitFileState=disabled\\nResult=success\\nNRestarts=0",
            0,
            [
                "warn  service: it is disabled, so it does not start at boot",
                "to do: systemctl enable --now peacrab",
            ],
        ),
        (
            "",
            "ActiveState=inactive\\nUnitFileState=enabled\\nResult=success\\nNRestarts=0",
            0,
            ["warn  service: it is inactive", "to do: systemctl start peacrab"],
        ),
        (
            "",
            "ActiveState=active\\nUnitFileState=enabled\\nResult=success\\nNRestarts=9",
            0,
            ["warn  service: systemd has restarted it 9 times", "to do: journalctl -u peacrab"],
        ),
        (
            "",
            "ActiveState=active\\nUnitFileState=enabled\\nResult=success\\nNRestarts=0",
            0,
            ["ok    service: it runs, and starts at boot", "service: "],
        ),
    ];
    for (manager, shown, code, words) in CASES {
        let fixture = ProgramFixture::new("");
        let is_asked = match manager {
            "" => "--user*) exit 1;; *",
            _ => "--user*",
        };
        let show = format!(
            "case \"$*\" in {is_asked}) printf 'LoadState=loaded\\n{shown}\\n';; *) exit 1;; esac"
        );
        put_program(&fixture, "systemctl", &show);
        put_program(&fixture, "loginctl", "echo Linger=yes");
        found(&run_with_programs(&fixture, &["doctor"]).await, code, &words);
    }
}

/// A systemd of two managers, each with this answer about its service.
fn two_managers(fixture: &ProgramFixture, system: &str, user: &str) {
    let systemctl =
        format!("case \"$*\" in --user*) printf '{user}\\n';; *) printf '{system}\\n';; esac");
    put_program(fixture, "systemctl", &systemctl);
    put_program(fixture, "loginctl", "echo Linger=yes");
}

#[tokio::test]
async fn the_service_of_another_home_is_not_this_homes() {
    let failed = "LoadState=loaded\\nActiveState=failed\\nUnitFileState=enabled\\nResult=exit-code\\nNRestarts=0";
    let active = "LoadState=loaded\\nActiveState=active\\nUnitFileState=enabled\\nResult=success\\nNRestarts=0";
    let none = "LoadState=not-found";
    let others = "Environment=PEACRAB_HOME=/var/lib/peacrab-of-another";
    let fixture = ProgramFixture::new("");
    two_managers(&fixture, &format!("{failed}\\n{others}"), none);
    let ended = run_with_programs(&fixture, &["doctor"]).await;
    found(&ended, 0, &["ok    service: not installed for this home"]);
    let ended = run_with_programs(&fixture, &["service", "status"]).await;
    assert!(ended.code == Some(1) && ended.err.contains("not installed for this"), "{ended:?}");
    // That of the account is looked at, too.
    let own = format!("{active}\\nEnvironment=LANG=C PEACRAB_HOME={}", fixture.home().display());
    two_managers(&fixture, &format!("{failed}\\n{others}"), &own);
    let ended = run_with_programs(&fixture, &["doctor"]).await;
    found(&ended, 0, &["ok    service: it runs, and starts at boot"]);
    let ended = run_with_programs(&fixture, &["service", "status", "--json"]).await;
    assert!(ended.code == Some(0) && ended.out.contains("\"user\""), "{ended:?}");
    // One that is named is shown, whatever its home.
    let ended = run_with_programs(&fixture, &["service", "status", "--system", "--json"]).await;
    assert!(ended.code == Some(1) && ended.out.contains("\"failed\""), "{ended:?}");
    // Its process is not the one that has this home locked.
    two_managers(&fixture, &format!("{active}\\nMainPID=1"), none);
    let daemon = fixture.daemon().await;
    found(
        &run_with_programs(&fixture, &["doctor"]).await,
        0,
        &["ok    service: not installed for this home"],
    );
    daemon.terminate().await;
}

#[test]
fn a_service_is_told_from_that_of_another_home_by_process_variable_and_option() {
    let home = std::path::Path::new("/srv/my pea");
    let runs = |process: &str| HomeDaemon::Runs(process.to_owned());
    let option = |words: &str| {
        format!("ExecStart={{ path=/p ; argv[]=/p {words} ; ignore_errors=no ; pid=0 }}\n")
    };
    for (shown, daemon, expected) in [
        ("MainPID=7\n".to_owned(), runs("7"), Some(true)),
        ("MainPID=7\n".to_owned(), runs("8"), Some(false)),
        ("MainPID=7\n".to_owned(), HomeDaemon::Absent, Some(false)),
        ("MainPID=7\n".to_owned(), HomeDaemon::Unknown, None),
        ("MainPID=0\n".to_owned(), runs("8"), None),
        (option("--home /srv/my pea run"), HomeDaemon::Absent, Some(true)),
        (option("run --home=/srv/my pea"), HomeDaemon::Absent, Some(true)),
        (option("run --home=/srv/my pea/"), HomeDaemon::Absent, Some(true)),
        (option("--home /srv/my run"), HomeDaemon::Absent, Some(false)),
        (option("run"), HomeDaemon::Absent, None),
        ("Environment=PEACRAB_HOME=/srv/other\n".to_owned(), HomeDaemon::Absent, Some(false)),
        ("Environment=[unprintable]\n".to_owned(), HomeDaemon::Absent, None),
        ("Environment=PEACRAB_HOME=/srv/other\nMainPID=7\n".to_owned(), runs("7"), Some(true)),
        (String::new(), HomeDaemon::Absent, None),
    ] {
        assert_eq!(is_service_of(&shown, home, &daemon), expected, "{shown} {daemon:?}");
    }
    // A link leads to the same home, whichever of both is named.
    let folder = tempfile::tempdir().unwrap();
    let (real, link) = (folder.path().join("pea"), folder.path().join("link"));
    std::fs::create_dir(&real).unwrap();
    std::os::unix::fs::symlink(&real, &link).unwrap();
    for (named, home) in [(&link, &real), (&real, &link)] {
        let shown = option(&format!("--home {} run", named.display()));
        assert_eq!(is_service_of(&shown, home, &HomeDaemon::Absent), Some(true), "{shown}");
    }
    let shown = "Environment=A=1 PEACRAB_HOME=/srv/pea\n";
    let home = std::path::Path::new("/srv/pea");
    assert_eq!(is_service_of(shown, home, &HomeDaemon::Absent), Some(true));
}

#[tokio::test]
async fn a_repair_that_fails_says_so_and_the_fault_stays() {
    let fixture = ProgramFixture::new("");
    let shown = "LoadState=loaded\\nActiveState=active\\nUnitFileState=enabled\\nResult=success\\nNRestarts=0\\n";
    let systemctl = format!("case \"$*\" in --user*) printf '{shown}';; *) exit 1;; esac");
    put_program(&fixture, "systemctl", &systemctl);
    let loginctl =
        "case \"$1\" in enable-linger) echo 'Access denied' >&2; exit 1;; *) echo Linger=no;; esac";
    put_program(&fixture, "loginctl", loginctl);
    found(
        &run_with_programs(&fixture, &["doctor", "--fix"]).await,
        0,
        &[
            "warn  service: it ends when you log out, because this account does not linger (the repair failed: ",
            "`loginctl enable-linger` failed: Access denied)",
            "to do: loginctl enable-linger",
        ],
    );
}

#[tokio::test]
async fn a_config_that_cannot_be_used_is_wrong_with_the_way_out() {
    let fixture = ProgramFixture::new("[agent]\nsteps_max = 30\n");
    let file = fixture.folder().join("config.toml");
    fs::write(&file, "[agent]\nstep_max = 30\n").unwrap();
    let ended = fixture.run(&["doctor"]).await;
    found(&ended, 1, &["WRONG config: ", "steps_max", "to do: correct these lines; `"]);
    assert!(!ended.out.contains("the last one that worked"), "{}", ended.out);
    fs::write(&file, "[agent]\nsteps_max = 30\n").unwrap();
    fixture.daemon().await.terminate().await;
    let kept = fixture.home().join("config.last-good.toml").display().to_string();
    fs::write(&file, "[agent]\nstep_max = 30\n").unwrap();
    let words = format!("; the last one that worked is kept in {kept}");
    found(&fixture.run(&["doctor"]).await, 1, &["WRONG config: ", &words]);
    fs::write(&file, "").unwrap();
    let take_back = format!("to do: take back the last one that worked: `cp -p {kept} ");
    let then = "if a daemon runs, else start it";
    found(&fixture.run(&["doctor"]).await, 1, &["WRONG config: ", &take_back, then]);
    fs::remove_file(&file).unwrap();
    let there = ["WRONG config: ", "to do: name a file that is there with --config"];
    found(&fixture.run(&["doctor"]).await, 1, &there);
}

#[tokio::test]
async fn what_a_platform_refuses_is_told_in_its_words_with_what_to_do() {
    let (telegram, discord, slack) =
        (BotApi::start().await, DiscordApi::start().await, SlackApi::start().await);
    let fixture = ProgramFixture::new(&format!(
        "{}[channels.guild]\ntype = \"discord\"\ntoken = \"{}\"\napi_url = \"{}\"\n\
         [channels.crew]\ntype = \"slack\"\ntoken = \"{}\"\napp_token = \"{}\"\napi_url = \"{}\"\n",
        home(&telegram),
        discord_api::TOKEN,
        discord.url(),
        slack_api::BOT_TOKEN,
        slack_api::APP_TOKEN,
        slack.url(),
    ));
    // The operator must act.
    telegram.fail("getMe", 1, &bot_api::Fault::Status(404));
    let unverified = discord_api::Fault::Deny(403, 40002, "You need to verify your account");
    discord.fail("GET /users/@me", 1, &unverified);
    slack.fail("auth.test", 1, &slack_api::Fault::Deny("not_allowed_token_type"));
    found(
        &fixture.run(&["doctor"]).await,
        1,
        &[
            "WRONG channel home: telegram answers with 404 Not Found at http://127.0.0.1:",
            ": is api_url right?",
            "WRONG channel guild: discord refuses it: You need to verify your account (40002)",
            "to do: check that the token is this bot's, and what the bot may do at its platform",
            "WRONG channel crew: token of the wrong kind: Slack says not_allowed_token_type",
            "`app_token` the app's (xapp-",
        ],
    );
    slack.fail("apps.connections.open", 1, &slack_api::Fault::Deny("missing_scope"));
    found(
        &fixture.run(&["doctor"]).await,
        1,
        &[
            "WRONG channel crew: the app-level token may not do this: ",
            "Make one with the scope connections:write at https://api.slack.com/apps",
            "ok    channel home: the token is valid",
            "ok    channel guild: the token is valid",
        ],
    );
    // Waiting helps, or the network.
    telegram.fail("getMe", 1, &bot_api::Fault::Status(502));
    discord.use_up_session_starts();
    slack.fail("auth.test", 1, &slack_api::Fault::Deny("fatal_error"));
    found(
        &fixture.run(&["doctor"]).await,
        1,
        &[
            "WRONG channel home: telegram answers with 502",
            "WRONG channel guild: discord allows the bot no more new sessions today",
            "WRONG channel crew: slack answers fatal_error",
            "to do: check the network, the machine's DNS, and `api_url`",
        ],
    );
    let fixture = ProgramFixture::new(&home_at("http://127.0.0.1:9", bot_api::TOKEN));
    found(
        &fixture.run(&["doctor"]).await,
        1,
        &[
            "WRONG channel home: telegram: no connection",
            "to do: check the network, the machine's DNS, and `api_url`",
        ],
    );
}

#[tokio::test]
async fn a_window_without_room_for_a_sentence_is_to_be_corrected() {
    let main = ModelApi::start(Platform::OpenAi).await;
    let fixture = ProgramFixture::new(&model("main", &main));
    let error = json!({"error": {"code": "context_length_exceeded", "message": "too long"}});
    main.reply(Reply::error(400, &error));
    found(
        &fixture.run(&["doctor"]).await,
        1,
        &[
            "WRONG model main: main (pea-1) does not answer: the conversation is too long for the model",
            "to do: the context window of [providers.main] is too small for one sentence: correct `context`",
        ],
    );
    main.reply(answer("OK"));
    found(&fixture.run(&["doctor"]).await, 0, &["ok    model main: main (pea-1) answers in "]);
}

#[tokio::test]
async fn a_model_that_accepts_no_tools_is_wrong() {
    let main = ModelApi::start(Platform::OpenAi).await;
    let fixture = ProgramFixture::new(&model("main", &main));
    let error = json!({"error": {"message": "pea-1 does not support tools"}});
    main.reply(Reply::error(400, &error));
    let ended = fixture.run(&["doctor"]).await;
    found(
        &ended,
        1,
        &[
            "WRONG model main: main (pea-1) does not answer: the model or its server accepts no tools",
        ],
    );
    let advice = "to do: write `tools = \"text\"` into [providers.main]";
    assert!(ended.out.contains(advice) && ended.out.contains(" reload`"), "{}", ended.out);
    assert!(main.requests()[0]["tools"].is_array());
    let in_text = ProgramFixture::new(&(model("main", &main) + "tools = \"text\"\n"));
    main.reply(answer("OK"));
    found(&in_text.run(&["doctor"]).await, 0, &["ok    model main: main (pea-1) answers in "]);
    main.finish();
}

#[tokio::test]
async fn stores_of_other_times_are_told_apart() {
    let fixture = used("").await;
    assert_eq!(fixture.run(&["chat", "-m", "hello"]).await.code, Some(0));
    let path = fixture.home().join("state.db");
    let change = |sql: &str| Connection::open(&path).unwrap().execute_batch(sql).unwrap();
    let current: u32 = Connection::open(&path)
        .unwrap()
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .unwrap();
    change(&format!("PRAGMA user_version = {}", current - 1));
    found(
        &fixture.run(&["doctor"]).await,
        1,
        &[
            "warn  store: written by an older version",
            "to do: start the daemon once, which brings it up to date",
        ],
    );
    change("PRAGMA user_version = 3");
    found(
        &fixture.run(&["doctor"]).await,
        1,
        &["WRONG store: ", "was written by a preview of peacrab (schema 3)", "ballast and undo"],
    );
    change(&format!("PRAGMA user_version = {current}"));
    // As a clock does that was right, and is not any more.
    let later = (Utc::now() + TimeDelta::days(40)).timestamp_millis();
    change(&format!("UPDATE inbound SET received = {later}"));
    found(
        &fixture.run(&["doctor"]).await,
        1,
        &[
            "ok    store: readable, people paired: 0",
            "WRONG clock: it shows 20",
            " UTC, but the store was last written at 20",
            "to do: set the clock (`timedatectl set-ntp true`); jobs wait until it is right",
        ],
    );
    change("ALTER TABLE people RENAME TO former_people");
    found(
        &fixture.run(&["doctor"]).await,
        1,
        &[
            "WRONG store: whole, but its list of people cannot be read",
            "if it stays so, look at the log of the daemon",
        ],
    );
    fs::remove_file(&path).unwrap();
    fs::write(fixture.home().join("state.db-wal"), "the last changes").unwrap();
    found(
        &fixture.run(&["doctor"]).await,
        1,
        &["WRONG store: ", "is not there, but its log is", "bring the file back"],
    );
}

#[tokio::test]
async fn what_is_missing_in_a_home_is_named_with_the_way_back() {
    let fixture = ProgramFixture::new("");
    let home = fixture.home();
    let daemon = fixture.daemon().await;
    let has_record = || home.join("template.json").exists();
    until("the record of the template", async || has_record().then_some(())).await;
    daemon.terminate().await;
    let workspace = home.join("workspace");
    fs::remove_dir_all(&workspace).unwrap();
    fs::create_dir(&workspace).unwrap();
    let back =
        "to do: bring the folder back (mount its disk, if it has one), or restore the newest";
    let empty = ["WRONG workspace: ", "is empty, although this home was in use", back];
    found(&fixture.run(&["doctor"]).await, 1, &empty);
    fs::remove_dir(&workspace).unwrap();
    let gone = ["WRONG workspace: ", "is gone, although this home was in use", back];
    found(&fixture.run(&["doctor"]).await, 1, &gone);
    symlink("/nowhere/at-all", &workspace).unwrap();
    let link = "is a link to /nowhere/at-all, which is not there";
    let back = "to do: mount its disk, or bring that folder back";
    found(&fixture.run(&["doctor"]).await, 1, &["WRONG workspace: ", link, back]);
    fs::remove_file(&workspace).unwrap();
    fs::remove_file(home.join("template.json")).unwrap();
    found(
        &fixture.run(&["doctor"]).await,
        1,
        &[
            "WRONG workspace: ",
            "is gone, although there is a store",
            "bring the folder back, or restore a backup; the next start makes a new one without your files",
        ],
    );
    // What is missing is in the folder of the restore.
    fs::create_dir(home.join("restore.ready")).unwrap();
    let ended = fixture.run(&["doctor"]).await;
    found(&ended, 1, &["WRONG restore: a restore was cut off: ", "to do: start the daemon: `"]);
    assert!(!ended.out.contains("WRONG workspace"), "{}", ended.out);
}
