//! Commands while the daemon is away for a moment: it reads its config again, restarts, or ends.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use peacrab::control::{self, SOCKET};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixListener;

use crate::support::binary::{Ended, ProgramFixture, home, said};
use crate::support::bot_api::BotApi;
use crate::support::bot_api::line::ADA;
use crate::support::rig::Rig;

#[tokio::test]
async fn commands_wait_for_a_daemon_that_reloads() {
    let api = BotApi::start().await;
    let fixture = ProgramFixture::new(&home(&api));
    let daemon = fixture.daemon().await;
    api.say(&said(&ADA, "hello"));
    api.wait_for_words(ADA.id, "You said: hello").await;
    let pid = fixture.status().await["pid"].as_u64().unwrap();
    let process = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    let to = format!("home:{}", ADA.id);
    for round in 0..4 {
        let text = format!("message {round}.");
        let commands: [&[&str]; 7] = [
            &["send", "--to", &to, &text],
            &["status"],
            &["reload"],
            &["cron", "list"],
            &["usage"],
            &["pair", "list"],
            &["people"],
        ];
        for command in commands {
            kill_process(process, Signal::HUP).unwrap();
            let ended = fixture.run(command).await;
            // A message may still be on its way.
            let is_done = ended.code == Some(0) || (command[0] == "send" && ended.code == Some(4));
            assert!(is_done, "{command:?}: {ended:?}\n{}", daemon.log());
        }
        api.wait_for_words(ADA.id, &text).await;
    }
    for round in 0..4 {
        let words = format!("message {round}.");
        let came: Vec<_> = api.sent().into_iter().filter(|it| it.text.contains(&words)).collect();
        let unmarked = came.iter().filter(|sent| sent.text == words).count();
        assert!(!came.is_empty() && unmarked <= 1, "{words}: {came:?}");
    }
    assert_eq!(fixture.status().await["pid"].as_u64(), Some(pid));
    assert!(daemon.terminate().await.success());
}

#[tokio::test]
async fn a_reload_right_after_another_works() {
    let api = BotApi::start().await;
    let fixture = ProgramFixture::new(&home(&api));
    let daemon = fixture.daemon().await;
    let check =
        |ended: &Ended| assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    for _ in 0..3 {
        let both = tokio::join!(fixture.run(&["reload"]), fixture.run(&["reload"]));
        check(&both.0);
        check(&both.1);
        check(&fixture.run(&["reload"]).await);
    }
    assert!(daemon.terminate().await.success());
}

#[tokio::test]
async fn a_reload_shows_the_warnings_of_a_check() {
    let api = BotApi::start().await;
    let fixture = ProgramFixture::new(&home(&api));
    let daemon = fixture.daemon().await;
    let file = fixture.folder().join("config.toml");
    fs::write(&file, home(&api) + "[heartbeat]\nto = \"nowhere:1\"\n").unwrap();
    let checked = fixture.run(&["check", "--json"]).await;
    let checked: Value = serde_json::from_str(&checked.out).unwrap();
    let warnings = checked["warnings"].as_array().unwrap();
    let warning = warnings.iter().filter_map(Value::as_str).find(|it| it.contains("nowhere"));
    let line = format!("warning: {}", warning.unwrap_or_else(|| panic!("{checked}")));
    let ended = fixture.run(&["reload"]).await;
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    assert!(ended.out.lines().any(|it| it == line), "{line}: {ended:?}");
    // The status counts them.
    let status = fixture.status().await;
    assert_eq!(status["config_warnings"], warnings.len(), "{status}");
    let ended = fixture.run(&["status"]).await;
    let counted = match warnings.len() {
        1 => "config: 1 warning, see ".to_owned(),
        count => format!("config: {count} warnings, see "),
    };
    assert!(ended.out.contains(&format!("{counted}{}check`", fixture.here())), "{ended:?}");
    // One that cannot be read is not counted.
    fs::write(&file, "[agent]\nstep_max = 7\n").unwrap();
    assert_eq!(fixture.status().await["config_warnings"], Value::Null);
    assert!(daemon.terminate().await.success());
}

#[tokio::test]
async fn a_pipe_in_the_place_of_the_config_keeps_nobody_waiting() {
    let api = BotApi::start().await;
    let fixture = ProgramFixture::new(&home(&api));
    let daemon = fixture.daemon().await;
    let file = fixture.folder().join("config.toml");
    fs::remove_file(&file).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, &file, rustix::fs::FileType::Fifo, 0o600.into(), 0)
        .unwrap();
    let words = "config.toml: cannot be read: it is no regular file";
    for (command, code) in [("reload", 1), ("check", 2)] {
        let ended = fixture.run(&[command]).await;
        assert_eq!(ended.code, Some(code), "{command}: {ended:?}");
        assert!(ended.err.contains(words), "{command}: {ended:?}");
    }
    assert!(daemon.terminate().await.success());
}

#[tokio::test]
async fn a_request_that_was_not_read_is_told_so_at_the_end() {
    let mut rig = Rig::new().await;
    rig.wait_until(|rig| rig.path().join(SOCKET).exists()).await;
    let mut silent = control::connect(&rig.path()).await.unwrap();
    rig.stop().await;
    let mut heard = String::new();
    silent.read_to_string(&mut heard).await.unwrap();
    assert_eq!(heard, "\"not_taken\"\n");
    assert!(!rig.path().join(SOCKET).exists());
    rig.start().await;
    rig.finish().await;
}

/// The socket of a daemon that does as the test says.
fn socket(fixture: &ProgramFixture) -> UnixListener {
    fs::create_dir(fixture.home()).unwrap();
    fs::set_permissions(fixture.home(), fs::Permissions::from_mode(0o700)).unwrap();
    control::bind(&fixture.home()).unwrap()
}

/// Reads a request, and writes this answer.
async fn answer_one(listener: &UnixListener, answer: &str) {
    let (stream, _) = listener.accept().await.unwrap();
    let mut stream = BufReader::new(stream);
    let mut request = String::new();
    stream.read_line(&mut request).await.unwrap();
    assert!(request.contains("\"verb\""), "{request}");
    stream.write_all(answer.as_bytes()).await.unwrap();
}

#[tokio::test]
async fn what_changes_nothing_is_asked_again_after_a_lost_connection() {
    let fixture = ProgramFixture::new("");
    let listener = socket(&fixture);
    let serve = async {
        answer_one(&listener, "").await;
        answer_one(&listener, "\"not_taken\"\n").await;
        answer_one(&listener, "{\"done\":\"Read.\"}\n").await;
    };
    let (ended, ()) = tokio::join!(fixture.run(&["reload"]), serve);
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "Read.\n"), "{ended:?}");
}

#[tokio::test]
async fn a_message_is_sent_again_only_if_the_daemon_has_not_taken_it() {
    let fixture = ProgramFixture::new("");
    let listener = socket(&fixture);
    let send = || fixture.run(&["send", "--to", "owner", "hello"]);
    let serve = async {
        // Of the look that a daemon runs.
        let _ = listener.accept().await.unwrap();
        answer_one(&listener, "\"not_taken\"\n").await;
        answer_one(&listener, "{\"sent\":{\"arrived\":\"Delivered.\"}}\n").await;
    };
    let (ended, ()) = tokio::join!(send(), serve);
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "Delivered.\n"), "{ended:?}");
    let serve = async {
        let _ = listener.accept().await.unwrap();
        answer_one(&listener, "").await;
    };
    let (ended, ()) = tokio::join!(send(), serve);
    assert_eq!(ended.code, Some(4), "{ended:?}");
    assert!(ended.err.contains("look there before you send it again"), "{ended:?}");
}
