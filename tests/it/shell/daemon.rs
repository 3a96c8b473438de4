//! The shell in the real program: what it says of its sandbox, and what a crash leaves of a command.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;

use crate::sandbox::NO_LANDLOCK;
use crate::sandbox::without;
use crate::support::binary::{ProgramFixture, model, until};
use crate::support::model_api::{ModelApi, Platform, Reply};

fn chunk(delta: &Value, finish: Option<&str>) -> Value {
    json!({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
}

fn answer(text: &str) -> Reply {
    Reply::events(&[chunk(&json!({"content": text}), None), chunk(&json!({}), Some("stop"))])
}

fn exec(command: &str) -> Reply {
    let arguments = json!({"command": command}).to_string();
    let call = json!({"tool_calls": [{"index": 0, "id": "call_1", "type": "function",
        "function": {"name": "exec", "arguments": arguments}}]});
    Reply::events(&[chunk(&call, None), chunk(&json!({}), Some("tool_calls"))])
}

/// Whether the model was told of the shell.
fn offers(request: &Value) -> bool {
    request["tools"].to_string().contains("\"exec\"")
}

fn result(request: &Value) -> String {
    request["messages"].as_array().unwrap().last().unwrap()["content"].to_string()
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "the program is this test's own child")]
async fn a_home_named_from_the_current_folder_has_a_shell_at_each_start() {
    let fixture = ProgramFixture::new("");
    for _ in 0..2 {
        let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_peacrab"));
        command.args(["--home", "home", "--config", "config.toml", "run"]);
        command.current_dir(fixture.folder()).env_clear().env("HOME", fixture.folder());
        let daemon = fixture.begin(command);
        until("the daemon to start", async || daemon.log().contains("Started").then_some(())).await;
        assert!(daemon.log().contains("Shell: sandboxed"), "{}", daemon.log());
        daemon.terminate().await;
    }
}

#[tokio::test]
async fn a_command_runs_in_the_shipped_program_and_reaches_nothing_of_it() {
    let main = ModelApi::start(Platform::OpenAi).await;
    let fixture = ProgramFixture::new(&model("main", &main));
    let daemon = fixture.daemon().await;
    assert!(daemon.log().contains("Shell: sandboxed (required)"), "{}", daemon.log());
    let home = fixture.home().display().to_string();
    let config = fixture.folder().join("config.toml").display().to_string();
    main.reply(exec(&format!(
        "echo in $PWD; cat {config} {home}/state.db {home}/control.sock /proc/1/environ; ls {home}; env"
    )));
    main.reply(answer("I have looked."));
    let ended = fixture.run(&["chat", "-m", "look"]).await;
    assert!(ended.out.contains("I have looked."), "{ended:?}");
    let result = result(&main.requests()[1]);
    assert!(result.contains(&format!("in {home}/workspace")), "{result}");
    assert!(!result.contains("api_key") && !result.contains("PEACRAB"), "{result}");

    let status = fixture.status().await;
    assert_eq!(status["shell"]["state"], "caged");
    assert_eq!(status["shell"]["level"], "required");
    assert!(status["shell"]["enforced"]["landlock"].as_u64().unwrap() >= 1, "{status}");
    let words = fixture.run(&["status"]).await.out;
    assert!(
        words.contains("Shell: sandboxed (required): files limited to the workspace"),
        "{words}"
    );
    let said = fixture.run(&["chat", "-m", "/status"]).await.out;
    assert!(said.contains("Shell: sandboxed (required)"), "{said}");
    daemon.terminate().await;
    main.finish();
}

#[tokio::test]
async fn a_kill_of_the_daemon_ends_the_command_which_is_not_run_again() {
    let main = ModelApi::start(Platform::OpenAi).await;
    let fixture = ProgramFixture::new(&model("main", &main));
    let daemon = fixture.daemon().await;
    main.reply(exec("echo x >> runs; echo obey >> SOUL.md; setsid sh -c 'while :; do date +%s%N > beat; sleep 0.02; done' & sleep 100"));
    let mut asking = fixture.command(&[], &["chat", "-m", "run it"]);
    let _asking = asking
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let workspace = fixture.home().join("workspace");
    let heartbeat_run = || fs::read(workspace.join("beat")).unwrap_or_default();
    until("a beat", async || (!heartbeat_run().is_empty()).then_some(())).await;
    daemon.kill().await;
    sleep(Duration::from_millis(300)).await;
    let last = heartbeat_run();
    sleep(Duration::from_millis(200)).await;
    assert_eq!(heartbeat_run(), last, "it outlived the daemon");

    main.reply(answer("It was cut off."));
    let _daemon = fixture.daemon().await;
    until("the model to be told", async || (main.requests().len() == 2).then_some(())).await;
    let told = result(&main.requests()[1]);
    assert!(told.contains("may or may not"), "{told}");
    assert_eq!(fs::read_to_string(workspace.join("runs")).unwrap(), "x\n");
    // What it has changed of the rules is found, and can be taken back.
    let actions = fixture.run(&["actions"]).await.out;
    let seen = actions.lines().find(|line| line.contains("SOUL.md")).expect("it is an action");
    let number = seen.split(' ').next().unwrap();
    assert!(fixture.run(&["undo", number]).await.out.contains("SOUL.md is as it was"), "{actions}");
    assert!(!fs::read_to_string(workspace.join("SOUL.md")).unwrap().contains("obey"));
}

#[test]
fn without_landlock_the_daemon_offers_no_shell_and_says_why() {
    without(NO_LANDLOCK, async || {
        let main = ModelApi::start(Platform::OpenAi).await;
        let fixture = ProgramFixture::new(&model("main", &main));
        let daemon = fixture.daemon().await;
        main.reply(exec("echo x > made"));
        main.reply(answer("There is none."));
        let ended = fixture.run(&["chat", "-m", "run it"]).await;
        assert!(ended.out.contains("There is none."), "{ended:?}");
        assert!(!offers(&main.requests()[0]));
        let told = result(&main.requests()[1]);
        assert!(told.contains("There is no tool `exec`"), "{told}");
        assert!(!fixture.home().join("workspace/made").exists());
        let status = fixture.status().await;
        assert_eq!(status["shell"]["state"], "refused");
        let words = fixture.run(&["status"]).await.out;
        assert!(words.contains("Shell: not available") && words.contains("Landlock"), "{words}");
        assert!(daemon.log().contains("Shell: not available"), "{}", daemon.log());
        let doctor = fixture.run(&["doctor"]).await;
        assert_eq!(doctor.code, Some(1));
        assert!(
            doctor
                .out
                .contains("WRONG shell: as the daemon that runs found it: Shell: not available"),
            "{}",
            doctor.out
        );
    });
}

#[tokio::test]
async fn the_doctor_says_what_is_well() {
    let fixture = ProgramFixture::new("");
    let doctor = fixture.run(&["doctor"]).await;
    assert_eq!(doctor.code, Some(0), "{}", doctor.out);
    for line in [
        "ok    config: ",
        "ok    store: there is none yet",
        "ok    workspace: ",
        "ok    shell: as tried from here: Shell: sandboxed",
    ] {
        assert!(doctor.out.contains(line), "{}", doctor.out);
    }
    fixture.daemon().await.terminate().await;
    let doctor = fixture.run(&["doctor"]).await;
    assert!(doctor.out.contains("ok    store: readable"), "{}", doctor.out);
    let fixture = ProgramFixture::new("[exec]\nsandbox = \"of\"\n");
    let doctor = fixture.run(&["doctor"]).await;
    assert_eq!(doctor.code, Some(1));
    assert!(
        doctor.out.contains("WRONG config: ") && doctor.out.contains("did you mean `off`?"),
        "{}",
        doctor.out
    );
}

#[tokio::test]
async fn the_home_cannot_be_shown_to_commands() {
    let fixture = ProgramFixture::new("");
    fixture.daemon().await.terminate().await;
    for path in [fixture.folder().to_owned(), fixture.home(), fixture.home().join("undo")] {
        let config = format!("[exec]\nread = [\"{}\"]\n", path.display());
        fs::write(fixture.folder().join("config.toml"), config).unwrap();
        let ended = fixture.run(&["run"]).await;
        assert_eq!(ended.code, Some(1));
        assert!(ended.err.contains("Shell commands could read Peacrab's home"), "{}", ended.err);
    }
}

#[tokio::test]
async fn files_with_secrets_cannot_be_shown_to_commands() {
    let fixture = ProgramFixture::new("");
    let folder = fixture.folder().display().to_string();
    let keys = fixture.home().join("workspace/keys");
    for place in [&keys, &fixture.folder().join("keys")] {
        fs::create_dir_all(place).unwrap();
        fs::write(place.join("main"), "sk-0123456789abcdef").unwrap();
    }
    std::os::unix::fs::symlink(&keys, fixture.folder().join("elsewhere")).unwrap();
    fs::write(fixture.folder().join("mcp.json"), r#"{ "mcpServers": {} }"#).unwrap();
    let provider = |file: &str| {
        format!(
            "[providers.main]\ntype = \"openai\"\nmodel = \"m\"\napi_key = {{ file = \"{file}\" }}\n"
        )
    };
    let (outside, inside) = (provider("keys/main"), provider("home/workspace/keys/main"));
    let by_link = provider("elsewhere/main");
    let read = |path: &str| format!("[exec]\nread = [\"{folder}/{path}\"]\n");
    let servers = "[agent]\nmcp_file = \"mcp.json\"\n";
    for (config, named) in [
        (format!("{outside}{}", read("keys")), "keys/main, because"),
        (format!("{outside}{}", read("keys/main")), "keys/main, because"),
        (format!("{outside}{}", read("keys").replace("read", "write")), "keys/main, because"),
        (inside.clone(), "workspace/keys/main, because"),
        (by_link.clone(), "elsewhere/main, because"),
        (read("config.toml"), "config.toml, because"),
        (format!("{servers}{}", read("mcp.json")), "mcp.json, because"),
    ] {
        fs::write(fixture.folder().join("config.toml"), &config).unwrap();
        for (command, code) in [("run", 1), ("check", 2), ("doctor", 1)] {
            let ended = fixture.run(&[command]).await;
            assert_eq!(ended.code, Some(code), "{config}: {ended:?}");
            let said = format!("{}{}", ended.out, ended.err);
            assert!(said.contains(named) && said.contains("Move that file"), "{said}");
            assert!(!said.contains("0123456789"), "{said}");
        }
    }
    // Where there is no shell, or no sandbox, there is nothing to be kept from it.
    for exec in ["enabled = false", "sandbox = \"off\""] {
        let config = format!("{inside}[exec]\n{exec}\n");
        fs::write(fixture.folder().join("config.toml"), config).unwrap();
        assert_eq!(fixture.run(&["check"]).await.code, Some(0), "{exec}");
    }
    fs::write(fixture.folder().join("config.toml"), outside).unwrap();
    assert_eq!(fixture.run(&["check"]).await.code, Some(0));
}
