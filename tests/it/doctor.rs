//! The doctor: each line that it can print, shown by the fault that it is about.

mod accounts;
mod faults;
mod judged;
mod lines;
mod screens;
mod state;
mod store;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use peacrab::channels::{ChannelError, ChannelProbe};
use peacrab::doctor::links::{LinkReport, link_finding, probe_finding};
use peacrab::doctor::machine::{DiskState, clock_finding, disk_finding, kernel_finding};
use peacrab::doctor::service::{ServicePlace, ServiceState, parse_service, service_finding};
use peacrab::doctor::{Finding, Severity};
use serde_json::{Value, json};

use crate::service::{put_program, run as run_with_programs};
use crate::support::binary::{Ended, ProgramFixture, home, model, said, until};
use crate::support::bot_api::BotApi;
use crate::support::bot_api::line::ADA;
use crate::support::discord_api::{self, DiscordApi};
use crate::support::disk::Disk;
use crate::support::model_api::{KEY, MODEL, ModelApi, Platform, Reply};
use crate::support::slack_api::{self, SlackApi};

fn answer(text: &str) -> Reply {
    let chunk = |delta: Value, finish: Option<&str>| json!({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
    Reply::events(&[chunk(json!({"content": text}), None), chunk(json!({}), Some("stop"))])
}

/// The doctor ends with this code and has printed these pieces, each with what to do.
fn found(ended: &Ended, code: i32, pieces: &[&str]) {
    assert_eq!(ended.code, Some(code), "{}", ended.out);
    for piece in pieces {
        assert!(ended.out.contains(piece), "no `{piece}` in:\n{}", ended.out);
    }
}

#[tokio::test]
async fn a_home_that_is_a_file_is_named() {
    let fixture = ProgramFixture::new("");
    fs::write(fixture.home(), "").unwrap();
    let ended = fixture.run(&["doctor"]).await;
    let words = format!("WRONG files: {} is no folder", fixture.home().display());
    found(&ended, 1, &[&words, "move that file away, or name another home with --home"]);
    assert!(!ended.out.contains("chmod"), "{}", ended.out);
}

#[tokio::test]
async fn commands_are_named_as_they_reach_this_home() {
    let fixture = ProgramFixture::new("");
    let ended = fixture.run(&["doctor"]).await;
    let here = fixture.here();
    assert!(ended.out.contains(&format!("run {here}init`, or write")), "{}", ended.out);
    fixture.daemon().await.terminate().await;
    fs::write(fixture.home().join("state.db"), "").unwrap();
    let restore = format!("restore the newest backup ({here}restore FILE --replace`)");
    let json = fixture.run(&["doctor", "--json"]).await;
    for ended in [fixture.run(&["doctor"]).await, json] {
        found(&ended, 1, &[&restore]);
        assert!(!ended.out.contains("`peacrab "), "{}", ended.out);
    }
    let ended = fixture.run(&["cron", "list"]).await;
    assert!(ended.err.contains(&format!("({here}restore FILE --replace`)")), "{ended:?}");
}

#[tokio::test]
async fn all_that_is_well_is_named_and_nothing_is_received() {
    let (api, main) = (BotApi::start().await, ModelApi::start(Platform::OpenAi).await);
    let fixture = ProgramFixture::new(&(home(&api) + &model("main", &main)));
    // What is said before the daemon runs waits for it.
    api.say(&said(&ADA, "wait for me"));
    main.reply(answer("OK"));
    let ended = fixture.run(&["doctor"]).await;
    found(
        &ended,
        0,
        &[
            "ok    config: valid",
            "ok    files: only this account",
            "ok    store: there is none yet",
            "ok    workspace: there is none yet",
            "ok    clock: 20",
            "ok    kernel: Linux ",
            "ok    shell: as tried from here",
            "ok    model main: main (pea-1) answers in",
            "ok    channel home: the token is valid, the bot is @peacrab_bot",
            "service: not installed",
        ],
    );
    let calls: Vec<_> = api.received().into_iter().map(|it| it.call).collect();
    assert_eq!(calls, ["getMe", "getWebhookInfo"]);
    main.finish();
    assert!(!fixture.home().exists(), "who looks makes nothing");
    let daemon = fixture.daemon().await;
    main.reply(answer("Here I am."));
    api.wait_for_words(ADA.id, "Here I am.").await;

    // The daemon that runs is asked; it asks the model itself.
    main.reply(answer("OK"));
    let ended = fixture.run(&["doctor", "--json"]).await;
    let report: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!((ended.code, &report["ok"]), (Some(0), &json!(true)), "{report}");
    let findings: Vec<Finding> = serde_json::from_value(report["findings"].clone()).unwrap();
    let of = |check: &str| findings.iter().find(|it| it.check == check).unwrap();
    assert!(of("channel home").words.starts_with("up, @peacrab_bot"), "{report}");
    assert!(of("model main").words.contains("answers in"), "{report}");
    assert!(of("store").words.starts_with("readable"), "{report}");
    assert!(of("shell").words.starts_with("as the daemon that runs found it"), "{report}");
    daemon.terminate().await;
}

#[tokio::test]
async fn a_revoked_token_and_a_dead_model_are_wrong() {
    let (api, main) = (BotApi::start().await, ModelApi::start(Platform::OpenAi).await);
    let dead = "[providers.dead]\ntype = \"openai\"\nmodel = \"m\"\nbase_url = \"http://127.0.0.1:9/v1\"\ncontext = 32768\n";
    let spare = "[providers.spare]\ntype = \"openai\"\nmodel = \"m\"\nbase_url = \"http://127.0.0.1:9/v1\"\ncontext = 32768\n";
    let agent = "[agent]\nproviders = [\"main\", \"dead\"]\n";
    let fixture =
        ProgramFixture::new(&[agent, &home(&api), &model("main", &main), dead, spare].concat());
    api.revoke();
    main.reply(Reply::error(401, &json!({"error": {"message": "no such key"}})));
    found(
        &fixture.run(&["doctor"]).await,
        1,
        &[
            "WRONG channel home: token not accepted",
            "WRONG model main: main (pea-1) does not answer: the key was not accepted",
            "to do: correct api_key, model and base_url of [providers.main]",
            "WRONG model dead: ",
            "to do: check the network and that the server of [providers.dead] runs",
            // It answers only where somebody chooses it.
            "warn  model spare: ",
        ],
    );
    // One that has no key is told to have one.
    let open = ModelApi::start(Platform::OpenAi).await;
    let keyless = model("main", &open).replace(&format!("api_key = \"{KEY}\"\n"), "");
    open.want_no_key();
    open.reply(Reply::error(401, &json!({"error": {"message": "no key"}})));
    let ended = ProgramFixture::new(&keyless).run(&["doctor"]).await;
    found(
        &ended,
        1,
        &["main (pea-1) does not answer: it wants a key, and none is set (401: no key)"],
    );
    main.reply(Reply::page(200, "text/html", "<html>hello</html>"));
    found(&fixture.run(&["doctor"]).await, 1, &["WRONG model main", "base_url"]);
}

#[tokio::test]
async fn what_a_bot_lacks_at_its_platform_is_wrong() {
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
    found(
        &fixture.run(&["doctor"]).await,
        0,
        &["ok    channel guild: the token is valid", "ok    channel crew: the token is valid"],
    );
    assert_eq!(slack.links(), 0, "nobody connected");
    telegram.set_webhook("https://bot.example/hook");
    discord.forbid_message_content();
    slack.take_scope("files:write");
    found(
        &fixture.run(&["doctor"]).await,
        1,
        &[
            "WRONG channel home: the bot is @peacrab_bot, but a webhook is set",
            "switch on Message Content Intent",
            "the app lacks scopes: files:write",
        ],
    );
    slack.revoke(Some("token_revoked"));
    discord.revoke();
    found(
        &fixture.run(&["doctor"]).await,
        1,
        &["WRONG channel crew: token not accepted", "WRONG channel guild: token not accepted"],
    );
}

#[tokio::test]
async fn a_slack_workspace_without_the_assistant_pane_is_all_right() {
    let slack = slack_api::SlackApi::start().await;
    slack.take_scope("assistant:write");
    let fixture = ProgramFixture::new(&format!(
        "[channels.crew]\ntype = \"slack\"\ntoken = \"{}\"\napp_token = \"{}\"\napi_url = \"{}\"\n",
        slack_api::BOT_TOKEN,
        slack_api::APP_TOKEN,
        slack.url(),
    ));
    found(&fixture.run(&["doctor"]).await, 0, &["ok    channel crew: the token is valid"]);
}

#[tokio::test]
async fn the_running_daemon_tells_what_is_wrong_with_it() {
    let api = BotApi::start().await;
    let server = "[mcp.gone]\ncommand = \"/nowhere/at-all\"\n";
    let fixture = ProgramFixture::new(&(home(&api) + server));
    let daemon = fixture.daemon().await;
    fixture.wait_for_link().await;
    api.revoke();
    fixture.wait_for_trouble("token not accepted").await;
    until("the server's trouble", async || {
        fixture.run(&["doctor"]).await.out.contains("WRONG MCP server gone: down").then_some(())
    })
    .await;
    found(
        &fixture.run(&["doctor"]).await,
        1,
        &[
            "WRONG channel home: down: token not accepted",
            "warn  model rehearsal: there is no model",
        ],
    );
    daemon.terminate().await;
}

#[tokio::test]
async fn rights_of_others_are_wrong_and_taken_away() {
    let fixture = ProgramFixture::new("");
    let key = fixture.folder().join("my.key");
    fs::write(&key, KEY).unwrap();
    let provider = format!(
        "[providers.main]\ntype = \"openai\"\nmodel = \"{MODEL}\"\nbase_url = \"http://127.0.0.1:9/v1\"\n\
         context = 32768\napi_key = {{ file = \"my.key\" }}\n"
    );
    let config = fixture.folder().join("config.toml");
    fs::write(&config, provider).unwrap();
    fixture.daemon().await.terminate().await;
    let set = |path: &std::path::Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    let open = [config, key, fixture.home(), fixture.home().join("state.db")];
    for path in &open {
        set(path, 0o755);
    }
    let said: Vec<_> = open
        .iter()
        .map(|path| format!("others on this machine can read {}", path.display()))
        .collect();
    let said: Vec<_> = said.iter().map(String::as_str).collect();
    found(&fixture.run(&["doctor"]).await, 1, &said);
    let exposed = "my.key holds a secret and everyone";
    assert!(fixture.run(&["check"]).await.out.contains(exposed));
    let ended = fixture.run(&["doctor", "--fix"]).await;
    assert!(ended.out.contains("ok    files: repaired: others on this machine"), "{}", ended.out);
    // It does not warn of what it has repaired.
    assert!(!ended.out.contains(exposed) && !ended.out.contains("WRONG files"), "{}", ended.out);
    for path in &open {
        let mode = fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{}", path.display());
    }
    let ended = fixture.run(&["doctor"]).await;
    assert!(ended.out.contains("ok    files: only this account"), "{}", ended.out);
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(fixture.home().join("state.db"), Some(12345), None).unwrap();
        found(
            &fixture.run(&["doctor"]).await,
            1,
            &["belongs to another account than the home", "chown -R"],
        );
    }
}

#[tokio::test]
async fn a_store_that_is_damaged_or_of_another_version_is_wrong() {
    let fixture = ProgramFixture::new("");
    fixture.daemon().await.terminate().await;
    let path = fixture.home().join("state.db");
    let whole = fs::read(&path).unwrap();
    let set_version = |version: u32| {
        let store = rusqlite::Connection::open(&path).unwrap();
        store.pragma_update(None, "user_version", version).unwrap();
    };
    set_version(9999);
    found(
        &fixture.run(&["doctor"]).await,
        1,
        &["WRONG store: ", "newer", "install the newer version"],
    );
    let mut damaged = whole.clone();
    let middle = damaged.len() / 2;
    damaged[1024..middle].fill(0x5a);
    fs::write(&path, damaged).unwrap();
    found(
        &fixture.run(&["doctor"]).await,
        1,
        &["WRONG store: it cannot be read", "restore the newest backup"],
    );
    fs::write(&path, &whole).unwrap();
    let store = rusqlite::Connection::open(&path).unwrap();
    let later = (Utc::now() + TimeDelta::days(40)).timestamp_millis();
    store
        .execute("INSERT INTO marks (channel, name, mark, at) VALUES ('x', 'y', 'z', ?)", [later])
        .unwrap();
    store
        .execute(
            "INSERT INTO unreadable (key, received, channel, raw) VALUES ('a', ?, 'home', '')",
            [later],
        )
        .unwrap();
    drop(store);
    let workspace = fixture.home().join("workspace");
    fs::remove_dir_all(&workspace).unwrap();
    fs::write(&workspace, "a file").unwrap();
    found(
        &fixture.run(&["doctor"]).await,
        1,
        &["WRONG workspace: ", "give the folder to the account"],
    );
}

#[tokio::test]
async fn a_full_and_a_read_only_disk_are_wrong() {
    let fixture = ProgramFixture::new("");
    let Some(disk) = Disk::of(&fixture).await else { return };
    let ended = disk.run(&fixture, &["doctor"]).await;
    found(&ended, 1, &["WRONG disk: only", "MB are free", "make room"]);
    disk.forbid_writing(&fixture).await;
    let ended = disk.run(&fixture, &["doctor"]).await;
    found(&ended, 1, &["WRONG disk: it is read-only", "dmesg"]);
}

#[test]
fn the_disk_is_judged_by_its_space_and_rights() {
    let well = DiskState {
        free: 1 << 30,
        files_free: Some(10_000),
        is_read_only: false,
        is_writable: true,
    };
    let judge = |disk: DiskState| {
        let finding = disk_finding(&disk);
        (finding.severity, finding.words)
    };
    assert_eq!(judge(well), (Severity::Ok, "1024 MB are free".to_owned()));
    assert_eq!(
        judge(DiskState { free: 100 << 20, ..well }),
        (Severity::Warning, "100 MB are free".to_owned())
    );
    assert_eq!(
        judge(DiskState { files_free: Some(5), ..well }),
        (Severity::Wrong, "only 5 more files can be created".to_owned())
    );
    assert_eq!(judge(DiskState { files_free: None, ..well }).0, Severity::Ok);
    let not_ours = judge(DiskState { is_writable: false, ..well });
    assert_eq!(not_ours, (Severity::Wrong, "this account cannot write to the home".to_owned()));
}

#[test]
fn the_clock_and_the_kernel_are_judged() {
    let now: DateTime<Utc> = "2026-11-22T12:00:00Z".parse().unwrap();
    assert_eq!(clock_finding(now, Some(now)).severity, Severity::Ok);
    let behind = clock_finding(now, Some(now + TimeDelta::days(40)));
    assert_eq!(
        behind.words,
        "it shows 2026-11-22 12:00 UTC, but the store was last written at 2027-01-01 12:00 UTC"
    );
    assert_eq!(behind.severity, Severity::Wrong);
    let unset = clock_finding(DateTime::UNIX_EPOCH, None);
    assert!(unset.words.contains("in the past") && unset.advice.unwrap().contains("timedatectl"));
    assert_eq!(kernel_finding("6.1.0-rpi7-rpi-v8", "aarch64").severity, Severity::Ok);
    let old = kernel_finding("5.10.103-v7+", "armv7l");
    assert_eq!(old.severity, Severity::Warning);
    assert_eq!(old.words, "Linux 5.10.103-v7+ on armv7l is older than 5.13");
}

#[test]
fn links_are_judged_as_the_daemon_has_them() {
    let up = LinkReport {
        up: true,
        about: "@pea".to_owned(),
        last_byte_s: Some(3),
        trouble: None,
        failing: None,
    };
    let judge = |link: &LinkReport| {
        let finding = link_finding("home", link);
        (finding.severity, finding.words)
    };
    assert_eq!(judge(&up), (Severity::Ok, "up, @pea".to_owned()));
    let connecting = judge(&LinkReport { up: false, ..up.clone() });
    assert_eq!(connecting, (Severity::Warning, "connecting".to_owned()));
    let silent = judge(&LinkReport { last_byte_s: Some(900), ..up.clone() });
    assert_eq!(silent, (Severity::Warning, "up, @pea, but last heard 900 s ago".to_owned()));
    let failing = judge(&LinkReport { failing: Some((2, "no right".to_owned())), ..up });
    assert_eq!(
        failing,
        (Severity::Wrong, "up, @pea, but deliveries fail (2): no right".to_owned())
    );
    let probe = |probed| probe_finding("channel home", probed);
    let name = "@pea".to_owned();
    assert_eq!(probe(Ok(ChannelProbe { name, ..Default::default() })).severity, Severity::Ok);
    let away = probe(Err(ChannelError::unavailable("no connection")));
    assert_eq!(away.severity, Severity::Wrong);
    assert!(away.advice.unwrap().contains("check the network"));
    let (after, reason) = (Some(Duration::from_secs(7)), "limits the rate".to_owned());
    let limited = probe(Err(ChannelError::Unavailable { after, reason }));
    assert!(limited.advice.unwrap().starts_with("wait a few minutes"));
    assert_eq!(probe(Err(ChannelError::Closed("no".to_owned()))).severity, Severity::Wrong);
}

#[test]
fn the_service_is_judged_by_what_systemd_tells() {
    let shown = "LoadState=loaded\nActiveState=active\nUnitFileState=enabled\nResult=success\nNRestarts=0\n";
    let well = parse_service(shown, false).unwrap();
    let judge = |state: &ServiceState| {
        let finding = service_finding(Some(state), ServicePlace::Systemd);
        (finding.severity, finding.words, finding.advice.unwrap_or_default())
    };
    assert_eq!(judge(&well).0, Severity::Ok);
    assert_eq!(parse_service("LoadState=not-found\n", false), None);
    let active = |active: &str| ServiceState { active: active.to_owned(), ..well.clone() };
    let failed = ServiceState { result: "watchdog".to_owned(), ..active("failed") };
    assert_eq!(judge(&failed).1, "it has failed (watchdog)");
    assert!(judge(&failed).2.contains("journalctl -u peacrab"));
    assert_eq!(judge(&active("inactive")).1, "it is inactive");
    let disabled = ServiceState { unit_file: "disabled".to_owned(), ..well.clone() };
    assert_eq!(judge(&disabled).1, "it is disabled, so it does not start at boot");
    let restless = ServiceState { restarts: 9, ..well.clone() };
    assert_eq!(judge(&restless).1, "systemd has restarted it 9 times");
    let users = ServiceState { is_users: true, lingers: Some(false), ..well };
    assert!(judge(&users).1.contains("ends when you log out"));
}

#[tokio::test]
async fn a_service_that_would_end_at_the_logout_is_repaired() {
    let fixture = ProgramFixture::new("");
    let flag = fixture.folder().join("lingers");
    let shown = "LoadState=loaded\\nActiveState=active\\nUnitFileState=enabled\\nResult=success\\nNRestarts=0\\n";
    put_program(
        &fixture,
        "systemctl",
        &format!("case \"$*\" in --user*) printf '{shown}';; *) exit 1;; esac"),
    );
    let flag = flag.display();
    let loginctl = format!(
        "case \"$1\" in enable-linger) touch {flag};; *) if [ -e {flag} ]; then echo Linger=yes; else echo Linger=no; fi;; esac"
    );
    put_program(&fixture, "loginctl", &loginctl);
    let ended = run_with_programs(&fixture, &["doctor"]).await;
    found(&ended, 0, &["warn  service: it ends when you log out", "to do: loginctl enable-linger"]);
    let ended = run_with_programs(&fixture, &["doctor", "--fix"]).await;
    found(&ended, 0, &["ok    service: repaired"]);
    let ended = run_with_programs(&fixture, &["doctor"]).await;
    found(&ended, 0, &["ok    service: it runs, and starts at boot"]);
}
