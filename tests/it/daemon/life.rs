//! Starting, stopping, and what lies on the disk meanwhile.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use tokio::net::UnixDatagram;
use tokio::time::timeout;

use super::models::{answer, hang};
use crate::support::binary::{Daemon, PATIENCE, ProgramFixture, home, home_at, model, said, until};
use crate::support::bot_api::line::{ADA, BOB};
use crate::support::bot_api::{BotApi, Fault};
use crate::support::model_api::{ModelApi, Platform};
use crate::support::wire::closed_port;

/// After this time systemd and Docker kill it (`TimeoutStopSec` and `stop_grace_period` in `packaging`). It takes three or
/// four seconds; what hangs in these tests would hang for longer.
const END_TIME_MAX: Duration = Duration::from_secs(15);

/// Asks a daemon to end, which it does in time; its log.
async fn end_in_time(daemon: Daemon) -> String {
    let asked = Instant::now();
    let log = daemon.end().await;
    assert!(asked.elapsed() < END_TIME_MAX, "{:?}\n{log}", asked.elapsed());
    log
}

#[tokio::test]
async fn ends_in_time_while_a_call_hangs_and_answers_once_after_the_next_start() {
    let (api, main) = (BotApi::start().await, ModelApi::start(Platform::OpenAi).await);
    let fixture = ProgramFixture::new(&(model("main", &main) + &home(&api)));
    let daemon = fixture.daemon().await;
    hang(&api, &main).await;
    let log = end_in_time(daemon).await;
    assert!(log.contains("Some turns will continue at the next start"), "{log}");
    assert!(!fixture.home().join("control.sock").exists());
    assert_eq!(api.sent(), vec![]);

    main.reply(answer("I have thought."));
    let _daemon = fixture.daemon().await;
    api.wait_for_words(ADA.id, "I have thought.").await;
    main.reply(answer("Nothing else."));
    api.say(&said(&ADA, "What else?"));
    api.wait_for_words(ADA.id, "Nothing else.").await;
    assert_eq!(api.sent().len(), 2, "{:?}", api.sent());
    main.finish();
}

#[tokio::test]
async fn ends_in_time_while_model_and_platform_hang() {
    let (api, main) = (BotApi::start().await, ModelApi::start(Platform::OpenAi).await);
    let fixture = ProgramFixture::new(&(model("main", &main) + &home(&api)));
    let daemon = fixture.daemon().await;
    api.fail("sendMessage", 1, &Fault::Hang);
    api.say(&said(&BOB, "/help"));
    api.wait_for_calls("sendMessage", 1).await;
    hang(&api, &main).await;
    let log = end_in_time(daemon).await;
    // Both were left alone, and not waited for.
    assert!(log.contains("Some turns will continue at the next start"), "{log}");
    let is_cut_off =
        |line: &str| line.contains("did not end in time") && line.contains("what=\"deliveries\"");
    assert!(log.lines().any(is_cut_off), "{log}");

    main.reply(answer("I have thought."));
    let _daemon = fixture.daemon().await;
    api.wait_for_words(ADA.id, "I have thought.").await;
    // Nobody knows whether it had arrived.
    let told = api.wait_for_words(BOB.id, "/help").await;
    assert!(told.text.starts_with("(perhaps sent twice)"), "{told:?}");
    main.finish();
}

#[tokio::test]
async fn ends_at_once_when_nothing_runs() {
    let api = BotApi::start().await;
    let fixture = ProgramFixture::new(&home(&api));
    let daemon = fixture.daemon().await;
    api.say(&said(&ADA, "hello"));
    api.wait_for_words(ADA.id, "You said: hello").await;
    daemon.end_by_itself().await;
}

#[tokio::test]
async fn an_orderly_end_leaves_one_complete_file() {
    let api = BotApi::start().await;
    let fixture = ProgramFixture::new(&home(&api));
    // The files would be left now and then.
    for round in 1..=5 {
        let daemon = fixture.daemon().await;
        api.say(&said(&ADA, &format!("round {round}")));
        api.wait_for_words(ADA.id, &format!("You said: round {round}")).await;
        assert!(daemon.terminate().await.success());
        for name in ["state.db-wal", "state.db-shm"] {
            assert!(!fixture.home().join(name).exists(), "{name} in round {round}");
        }
    }
}

#[tokio::test]
async fn a_second_daemon_on_the_same_home_is_refused() {
    let fixture = ProgramFixture::new("");
    let mut first = fixture.daemon().await;
    let second = fixture.run(&["run"]).await;
    assert_eq!(second.code, Some(1), "{second:?}");
    assert!(second.err.contains("another peacrab is running"), "{second:?}");
    assert!(second.err.contains(&fixture.home().display().to_string()), "{second:?}");
    assert!(first.is_running());
    fixture.status().await;
    // A crash lets go of the home.
    first.kill().await;
    fixture.daemon().await;
}

#[tokio::test]
async fn nobody_else_can_read_the_home() {
    let api = BotApi::start().await;
    let fixture = ProgramFixture::new(&home(&api));
    let _daemon = fixture.daemon().await;
    api.say(&said(&ADA, "hello"));
    api.wait_for_words(ADA.id, "You said: hello").await;
    let mode = |path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(fixture.home()), 0o700);
    for name in ["state.db", "state.db-wal", "state.db-shm", "lock", "control.sock"] {
        assert_eq!(mode(fixture.home().join(name)), 0o600, "{name}");
    }
}

#[tokio::test]
async fn is_ready_for_systemd_although_telegram_cannot_be_reached() {
    let (_socket, url) = closed_port();
    let fixture = ProgramFixture::new(&home_at(&url, "4242:a-token-of-the-right-length-123"));
    let path = fixture.folder().join("notify.sock");
    let socket = UnixDatagram::bind(&path).unwrap();
    let mut command = fixture.command(&[], &["run"]);
    command.env("NOTIFY_SOCKET", &path);
    let daemon = fixture.begin(command);
    assert_eq!(next(&socket).await, "READY=1");
    fixture.wait_for_trouble("no connection").await;
    assert!(daemon.terminate().await.success());
    assert_eq!(next(&socket).await, "STOPPING=1");
}

async fn next(socket: &UnixDatagram) -> String {
    let mut buffer = [0; 256];
    let length = timeout(PATIENCE, socket.recv(&mut buffer)).await.unwrap().unwrap();
    String::from_utf8_lossy(&buffer[..length]).trim().to_owned()
}

#[tokio::test]
async fn ends_with_words_if_it_cannot_make_its_socket() {
    let fixture = ProgramFixture::new("");
    fs::create_dir_all(fixture.home().join("control.sock/in the way")).unwrap();
    for args in [&["run"] as &[&str], &["chat", "-m", "hello"]] {
        let ended = timeout(PATIENCE, fixture.run(args)).await.unwrap();
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert!(ended.err.contains("cannot make the control socket"), "{ended:?}");
    }
}

/// Without a daemon `peacrab chat` serves itself alone: what came by Telegram waits for Telegram.
#[tokio::test]
async fn a_chat_of_its_own_leaves_the_work_of_others_alone() {
    let (api, main) = (BotApi::start().await, ModelApi::start(Platform::OpenAi).await);
    let fixture = ProgramFixture::new(&(model("main", &main) + &home(&api)));
    let daemon = fixture.daemon().await;
    hang(&api, &main).await;
    daemon.kill().await;
    for _ in 0..4 {
        main.reply(answer("Hello there."));
        let ended = fixture.run(&["chat", "-m", "hello"]).await;
        assert!(ended.out.contains("Hello there."), "{ended:?}");
    }
    // Nor does its clean end forgive a turn of theirs the crash.
    let store = rusqlite::Connection::open(fixture.home().join("state.db")).unwrap();
    let attempts = "SELECT attempts FROM turns WHERE ending IS NULL";
    assert_eq!(store.query_row(attempts, [], |row| row.get::<_, i64>(0)), Ok(1));
    drop(store);
    main.reply(answer("I have thought."));
    let _daemon = fixture.daemon().await;
    api.wait_for_words(ADA.id, "I have thought.").await;
    let asked = main.requests().pop().unwrap().to_string();
    assert!(asked.contains("(owner)") && asked.contains("write_file"), "{asked}");
    main.finish();
}

#[tokio::test]
async fn a_restart_reports_back_where_it_was_asked_for() {
    let api = BotApi::start().await;
    let fixture = ProgramFixture::new(&home(&api));
    let mut command = fixture.command(&[], &["run"]);
    command.env("INVOCATION_ID", "of a systemd");
    let daemon = fixture.begin(command);
    until("the daemon to start", async || daemon.log().contains("Started").then_some(())).await;
    api.say(&said(&ADA, "/restart"));
    api.wait_for_words(ADA.id, "I'm restarting").await;
    assert!(daemon.ended().await.success());
    assert_eq!(api.sent().len(), 1, "{:?}", api.sent());
    let daemon = fixture.daemon().await;
    api.wait_for_words(ADA.id, "I'm back (Peacrab").await;
    daemon.terminate().await;
    // Once.
    let _daemon = fixture.daemon().await;
    api.say(&said(&ADA, "/whoami"));
    api.wait_for_sent(3).await;
    let back = api.sent().iter().filter(|sent| sent.text.contains("I'm back")).count();
    assert_eq!(back, 1, "{:?}", api.sent());
}

#[tokio::test]
async fn a_restart_that_could_not_start_again_is_refused_with_the_reason() {
    let api = BotApi::start().await;
    let fixture = ProgramFixture::new(&home(&api));
    let mut command = fixture.command(&[], &["run"]);
    command.env("INVOCATION_ID", "of a systemd");
    let mut daemon = fixture.begin(command);
    until("the daemon to start", async || daemon.log().contains("Started").then_some(())).await;
    let config = fixture.folder().join("config.toml");
    fs::write(&config, home(&api) + "[agent]\nstep_max = 3\n").unwrap();
    api.say(&said(&ADA, "/restart"));
    let told = api.wait_for_words(ADA.id, "I'm not restarting").await;
    assert!(
        told.text.contains("step_max") && told.text.contains("config.last-good.toml"),
        "{told:?}"
    );
    // It goes on with the config that it has.
    api.say(&said(&ADA, "hello"));
    api.wait_for_words(ADA.id, "You said: hello").await;
    assert!(daemon.is_running());
    // So it is with a secret that is not there.
    fs::write(&config, home(&api) + "[providers.main]\ntype = \"openai\"\nmodel = \"m\"\napi_key = { env = \"NOT_SET\" }\n").unwrap();
    api.say(&said(&ADA, "/restart"));
    api.wait_for_words(ADA.id, "NOT_SET").await;
    fs::write(&config, home(&api)).unwrap();
    api.say(&said(&ADA, "/restart"));
    api.wait_for_words(ADA.id, "I'm restarting").await;
    assert!(daemon.ended().await.success());
}

#[tokio::test]
async fn a_supervisor_that_names_a_code_learns_of_a_restart_by_it() {
    let api = BotApi::start().await;
    let fixture = ProgramFixture::new(&home(&api));
    let begin = || {
        let mut command = fixture.command(&[], &["run"]);
        command.env("PEACRAB_RESTART_CODE", "75");
        fixture.begin(command)
    };
    let daemon = begin();
    until("the daemon to start", async || daemon.log().contains("Started").then_some(())).await;
    api.say(&said(&ADA, "/restart"));
    api.wait_for_words(ADA.id, "I'm restarting").await;
    assert_eq!(daemon.ended().await.code(), Some(75));
    let daemon = begin();
    api.wait_for_words(ADA.id, "I'm back (Peacrab").await;
    // Nothing else ends with it.
    assert_eq!(daemon.terminate().await.code(), Some(0));
}
