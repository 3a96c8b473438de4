//! The config is read again while the daemon runs.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use peacrab::replies;
use rustix::process::{Pid, Signal, kill_process};

use crate::support::binary::{ProgramFixture, channel, home, home_at, model, said, until};
use crate::support::bot_api::line::{ADA, BOB};
use crate::support::bot_api::{BotApi, Fault};
use crate::support::model_api::{ModelApi, Platform, Reply};
use serde_json::{Value, json};

fn answer(text: &str) -> Reply {
    let chunk = |delta: Value, finish: Option<&str>| json!({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
    Reply::events(&[chunk(json!({"content": text}), None), chunk(json!({}), Some("stop"))])
}

fn write(fixture: &ProgramFixture, config: &str) {
    fs::write(fixture.folder().join("config.toml"), config).unwrap();
}

#[tokio::test]
async fn a_reload_takes_the_new_config_and_loses_no_turn() {
    let (api, main) = (BotApi::start().await, ModelApi::start(Platform::OpenAi).await);
    let fixture = ProgramFixture::new(&home(&api));
    let daemon = fixture.daemon().await;
    api.say(&said(&ADA, "hello"));
    api.wait_for_words(ADA.id, "You said: hello").await;
    let pid = fixture.status().await["pid"].clone();
    // A model in the place of the rehearsal.
    write(&fixture, &(home(&api) + &model("main", &main)));
    let ended = fixture.run(&["reload"]).await;
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    until("the new model", async || {
        let ended = fixture.run(&["status", "--json"]).await;
        ended.out.contains("main (pea-1)").then_some(())
    })
    .await;
    assert_eq!(fixture.status().await["pid"], pid);
    // A turn that runs goes on with the next config.
    main.reply(Reply::Silence);
    api.say(&said(&ADA, "think about it"));
    until("the question", async || (main.requests().len() == 1).then_some(())).await;
    main.reply(answer("I have thought."));
    let process = Pid::from_raw(i32::try_from(pid.as_u64().unwrap()).unwrap()).unwrap();
    kill_process(process, Signal::HUP).unwrap();
    api.wait_for_words(ADA.id, "I have thought.").await;
    assert!(!daemon.log().contains(crate::support::model_api::KEY), "{}", daemon.log());
    main.finish();
    assert!(daemon.terminate().await.success());
}

async fn reload(fixture: &ProgramFixture, config: &str) {
    write(fixture, config);
    let ended = fixture.run(&["reload"]).await;
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
}

#[tokio::test]
async fn a_changed_limit_counts_from_the_next_message_on() {
    let api = BotApi::start().await;
    let fixture = ProgramFixture::new(&home(&api));
    let daemon = fixture.daemon().await;
    for words in ["one", "two", "three"] {
        api.say(&said(&BOB, words));
        api.wait_for_words(BOB.id, &format!("You said: {words}")).await;
    }
    reload(&fixture, &(home(&api) + "[limits]\nmessages_per_minute = 1\n")).await;
    // The answer to the reload comes before the former daemon ends.
    until("the new daemon", async || (daemon.log().matches("Started").count() == 2).then_some(()))
        .await;
    api.say(&said(&BOB, "four"));
    api.wait_for_words(BOB.id, "You said: four").await;
    api.say(&said(&BOB, "five"));
    api.wait_for_words(BOB.id, &replies::too_fast(1)).await;
    reload(&fixture, &(home(&api) + "[limits]\nmessages_per_minute = 0\n")).await;
    until("the third daemon", async || {
        (daemon.log().matches("Started").count() == 3).then_some(())
    })
    .await;
    for words in ["six", "seven"] {
        api.say(&said(&BOB, words));
        api.wait_for_words(BOB.id, &format!("You said: {words}")).await;
    }
    let sent = api.sent();
    assert!(!sent.iter().any(|sent| sent.text.contains("You said: five")), "{sent:?}");
    daemon.terminate().await;
}

#[tokio::test]
async fn a_removed_channel_is_gone_and_what_waits_for_it_is_kept() {
    let (api, other) = (BotApi::start().await, BotApi::start_another().await);
    let club = channel("club", other.url(), other.token()) + &format!("allow = [{}]\n", BOB.id);
    let both = home(&api) + &club;
    let fixture = ProgramFixture::new(&both);
    let daemon = fixture.daemon().await;
    other.say(&said(&BOB, "hello"));
    other.wait_for_words(BOB.id, "You said: hello").await;
    other.fail("sendMessage", 100, &Fault::TooMany { after: 1 });
    other.say(&said(&BOB, "are you there?"));
    other.wait_for_calls("sendMessage", 3).await;

    reload(&fixture, &home(&api)).await;
    until("the channel to be gone", async || {
        let ended = fixture.run(&["status", "--json"]).await;
        let status: Value = serde_json::from_str(&ended.out).ok()?;
        let channels = &status["channels"];
        (channels["home"].is_object() && channels["club"].is_null()).then_some(())
    })
    .await;
    // What waits there is named, with what to do.
    assert_eq!(fixture.status().await["removed_channels"], json!({ "club": 1 }));
    let removed = "not in the config any more; until its section is there again, it keeps 1 outgoing message\n";
    let status = fixture.run(&["status"]).await;
    assert!(status.out.contains(&format!("\nchannel club: {removed}")), "{status:?}");
    let doctor = fixture.run(&["doctor"]).await;
    assert!(doctor.out.contains(&format!("warn  channel club: {removed}")), "{doctor:?}");
    assert!(doctor.out.contains("to do: put its section back into the config"), "{doctor:?}");
    other.heal();
    other.say(&said(&BOB, "and now?"));
    api.say(&said(&ADA, "hello"));
    api.wait_for_words(ADA.id, "You said: hello").await;
    let told = |words: &str| {
        let sent = other.sent();
        sent.iter().filter(|sent| sent.chat == BOB.id && sent.text.contains(words)).count()
    };
    assert_eq!((told("are you there?"), told("and now?")), (0, 0), "{:?}", other.sent());

    reload(&fixture, &both).await;
    for words in ["You said: are you there?", "You said: and now?"] {
        other.wait_for_words(BOB.id, words).await;
    }
    other.say(&said(&BOB, "the last one"));
    other.wait_for_words(BOB.id, "You said: the last one").await;
    assert_eq!((told("are you there?"), told("and now?")), (1, 1), "{:?}", other.sent());
    assert_eq!(fixture.status().await["removed_channels"], json!({}));
    daemon.terminate().await;
}

#[tokio::test]
async fn a_changed_token_is_used() {
    let api = BotApi::start().await;
    let wrong = home_at(api.url(), "4242:CCCC-this-is-a-token-that-nobody-knows");
    let fixture = ProgramFixture::new(&wrong);
    let daemon = fixture.daemon().await;
    fixture.wait_for_trouble("token").await;
    api.say(&said(&ADA, "hello"));
    reload(&fixture, &home(&api)).await;
    api.wait_for_words(ADA.id, "You said: hello").await;
    fixture.wait_for_link().await;
    let log = daemon.log();
    assert!(!log.contains("CCCC") && !log.contains(api.token()), "{log}");
    daemon.terminate().await;
}

#[tokio::test]
async fn a_config_that_cannot_be_used_changes_nothing_and_the_owner_hears_of_it() {
    let api = BotApi::start().await;
    let fixture = ProgramFixture::new(&home(&api));
    let daemon = fixture.daemon().await;
    api.say(&said(&ADA, "hello"));
    api.wait_for_words(ADA.id, "You said: hello").await;
    write(&fixture, &(home(&api) + "[agent]\nstep_max = 3\n"));
    let ended = fixture.run(&["reload"]).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.err.contains("steps_max"), "{ended:?}");
    daemon.hang_up();
    let told = api.wait_for_words(ADA.id, "I couldn't use my changed config").await;
    assert!(told.text.contains("step_max"), "{told:?}");
    // The one that works is kept, and is nobody else's to read.
    let kept = fixture.home().join("config.last-good.toml");
    assert!(told.text.contains(&kept.display().to_string()), "{told:?}");
    assert_eq!(fs::read_to_string(&kept).unwrap(), home(&api));
    assert_eq!(fs::metadata(&kept).unwrap().permissions().mode() & 0o777, 0o600);
    api.say(&said(&BOB, "and now?"));
    api.wait_for_words(BOB.id, "You said: and now?").await;
    daemon.terminate().await;
    let ended = fixture.run(&["reload"]).await;
    assert!(ended.err.contains("no daemon runs"), "{ended:?}");
    // It is shown, and never used by itself: the change may have shut somebody out.
    let ended = fixture.run(&["run"]).await;
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.err.contains(&kept.display().to_string()), "{ended:?}");
    assert!(ended.err.contains("step_max"), "{ended:?}");
    assert_eq!(fs::read_to_string(&kept).unwrap(), home(&api));
}

#[tokio::test]
async fn the_owner_hears_once_of_each_reason_and_not_of_one_that_was_answered() {
    let api = BotApi::start().await;
    let fixture = ProgramFixture::new(&home(&api));
    let daemon = fixture.daemon().await;
    api.say(&said(&ADA, "hello"));
    api.wait_for_words(ADA.id, "You said: hello").await;
    let told = || {
        let sent = api.sent();
        sent.iter().filter(|sent| sent.text.contains("I couldn't use my changed config")).count()
    };
    let refused = || daemon.log().matches("Cannot use the changed config").count();
    // Signals that come together are one.
    let hang_up = async || {
        let before = refused();
        daemon.hang_up();
        until("the refusal", async || (refused() > before).then_some(())).await;
    };
    write(&fixture, &(home(&api) + "[agent]\nstep_max = 3\n"));
    // Whoever asks on a command line has the reason there.
    for _ in 0..3 {
        assert_eq!(fixture.run(&["reload"]).await.code, Some(1));
    }
    api.say(&said(&ADA, "one"));
    api.wait_for_words(ADA.id, "You said: one").await;
    assert_eq!(told(), 0, "{:?}", api.sent());
    for _ in 0..3 {
        hang_up().await;
    }
    write(&fixture, &(home(&api) + "[agent]\nturn_max = 3\n"));
    for _ in 0..3 {
        hang_up().await;
    }
    api.wait_for_words(ADA.id, "turn_max").await;
    api.say(&said(&ADA, "two"));
    api.wait_for_words(ADA.id, "You said: two").await;
    assert_eq!(told(), 2, "{:?}", api.sent());
    // After one that works, it is news again.
    reload(&fixture, &home(&api)).await;
    until("the new daemon", async || (daemon.log().matches("Started").count() == 2).then_some(()))
        .await;
    write(&fixture, &(home(&api) + "[agent]\nturn_max = 3\n"));
    hang_up().await;
    until("the third message", async || (told() == 3).then_some(())).await;
    daemon.terminate().await;
}

#[tokio::test]
async fn a_config_file_that_is_gone_is_no_empty_config() {
    let api = BotApi::start().await;
    let fixture = ProgramFixture::new("");
    let file = fixture.home().join("config.toml");
    fs::create_dir(fixture.home()).unwrap();
    fs::set_permissions(fixture.home(), fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(&file, home(&api)).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let starts = async || {
        let daemon = fixture.begin(fixture.bare_command(&["run"]));
        until("the start", async || daemon.log().contains("Started").then_some(())).await;
        daemon
    };
    let run = async |args: &[&str]| fixture.run_with(fixture.bare_command(args), "").await;
    let daemon = starts().await;
    api.say(&said(&ADA, "hello"));
    api.wait_for_words(ADA.id, "You said: hello").await;
    fs::remove_file(&file).unwrap();
    let gone = "is gone, although this home was used with a config file";
    let ended = run(&["reload"]).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.err.contains(gone), "{ended:?}");
    daemon.hang_up();
    let told = api.wait_for_words(ADA.id, "I couldn't use my changed config").await;
    assert!(told.text.contains("config.last-good.toml"), "{told:?}");
    api.say(&said(&ADA, "still here?"));
    api.wait_for_words(ADA.id, "You said: still here?").await;
    daemon.terminate().await;
    for (command, code) in [("run", 2), ("check", 2), ("doctor", 1)] {
        let ended = run(&[command]).await;
        assert_eq!(ended.code, Some(code), "{command}: {ended:?}");
        assert!((ended.out + &ended.err).contains(gone), "{command}");
    }
    // The doctor has the command that takes the last one back.
    let ended = run(&["doctor"]).await;
    let kept = fixture.home().join("config.last-good.toml");
    let take_back = format!("`cp -p {} {}`", kept.display(), file.display());
    assert!(ended.out.contains(&take_back), "{ended:?}");
    assert!(!ended.out.contains("correct these lines"), "{ended:?}");
    // The environment alone is a config, too, where somebody wants that.
    fs::remove_file(fixture.home().join("config.last-good.toml")).unwrap();
    starts().await.terminate().await;
}

#[tokio::test]
async fn a_config_file_that_was_emptied_is_refused_where_it_had_settings() {
    let api = BotApi::start().await;
    let fixture = ProgramFixture::new(&home(&api));
    let kept = fixture.home().join("config.last-good.toml");
    let lost = "has no settings any more";
    let mut command = fixture.command(&[], &["run"]);
    command.env("PEACRAB_RESTART_CODE", "75");
    let mut daemon = fixture.begin(command);
    until("the start", async || daemon.log().contains("Started").then_some(())).await;
    api.say(&said(&ADA, "hello"));
    api.wait_for_words(ADA.id, "You said: hello").await;
    // As a full disk leaves it, and as an editor might.
    for emptied in ["", " \n\n", "# [channels.home]\n  # all is commented out\n", "\u{feff}"] {
        write(&fixture, emptied);
        let ended = fixture.run(&["reload"]).await;
        assert_eq!(ended.code, Some(1), "{emptied:?}: {ended:?}");
        assert!(ended.err.contains(lost), "{emptied:?}: {ended:?}");
        assert_eq!(fs::read_to_string(&kept).unwrap(), home(&api), "{emptied:?}");
    }
    daemon.hang_up();
    let told = api.wait_for_words(ADA.id, "I couldn't use my changed config").await;
    assert!(told.text.contains(lost) && told.text.contains("config.last-good.toml"), "{told:?}");
    api.say(&said(&ADA, "/restart"));
    let told = api.wait_for_words(ADA.id, "I'm not restarting").await;
    assert!(told.text.contains(lost), "{told:?}");
    api.say(&said(&ADA, "still here?"));
    api.wait_for_words(ADA.id, "You said: still here?").await;
    assert!(daemon.is_running());
    daemon.terminate().await;
    for (command, code) in [("run", 2), ("check", 2), ("doctor", 1)] {
        let ended = fixture.run(&[command]).await;
        assert_eq!(ended.code, Some(code), "{command}: {ended:?}");
        assert!((ended.out + &ended.err).contains(lost), "{command}");
    }
    let ended = fixture.run(&["doctor"]).await;
    assert!(ended.out.contains(&format!("`cp -p {}", kept.display())), "{ended:?}");
    assert_eq!(fs::read_to_string(&kept).unwrap(), home(&api));
    // Brought back, as it says.
    fs::copy(&kept, fixture.folder().join("config.toml")).unwrap();
    fixture.daemon().await.terminate().await;
    // Emptied on purpose.
    write(&fixture, "");
    fs::remove_file(&kept).unwrap();
    let daemon = fixture.daemon().await;
    assert!(!daemon.log().contains(lost), "{}", daemon.log());
    daemon.terminate().await;
}

#[tokio::test]
async fn a_newcomers_empty_config_is_one() {
    let fixture = ProgramFixture::new("# [channels.home]\n");
    let daemon = fixture.daemon().await;
    for text in ["", "# Nothing yet.\n"] {
        write(&fixture, text);
        let ended = fixture.run(&["reload"]).await;
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{text:?}: {ended:?}");
        until("the copy", async || {
            let kept = fs::read_to_string(fixture.home().join("config.last-good.toml"));
            kept.is_ok_and(|kept| kept == text).then_some(())
        })
        .await;
    }
    daemon.terminate().await;
}

#[tokio::test]
async fn a_home_of_the_environment_may_have_emptied_its_config() {
    let fixture = ProgramFixture::new("");
    fs::create_dir(fixture.home()).unwrap();
    fs::set_permissions(fixture.home(), fs::Permissions::from_mode(0o700)).unwrap();
    let kept = fixture.home().join("config.last-good.toml");
    fs::write(&kept, "[agent]\nsteps_max = 7\n").unwrap();
    let mut command = fixture.command(&[], &["run"]);
    command.env("TELEGRAM_BOT_TOKEN", "4242:AAAA-this-is-a-token-of-the-right-length");
    let daemon = fixture.begin(command);
    until("the start", async || daemon.log().contains("Started").then_some(())).await;
    assert!(daemon.log().contains("only the environment counts"), "{}", daemon.log());
    // It runs without settings of the file, so there is nothing to lose.
    let ended = fixture.run(&["reload"]).await;
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    daemon.terminate().await;
    assert_eq!(fs::read_to_string(&kept).unwrap(), "[agent]\nsteps_max = 7\n");
}

#[tokio::test]
async fn a_daemon_with_a_config_file_does_not_go_over_to_the_environment() {
    let api = BotApi::start().await;
    let fixture = ProgramFixture::new("");
    let file = fixture.home().join("config.toml");
    fs::create_dir(fixture.home()).unwrap();
    fs::set_permissions(fixture.home(), fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(&file, home(&api)).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let mut command = fixture.bare_command(&["run"]);
    // Of a platform that nobody reaches: its answers would be missed.
    command.env("TELEGRAM_BOT_TOKEN", "4242:AAAA-this-is-a-token-of-the-right-length");
    command.env("PEACRAB_RESTART_CODE", "75");
    let mut daemon = fixture.begin(command);
    until("the start", async || daemon.log().contains("Started").then_some(())).await;
    api.say(&said(&ADA, "hello"));
    api.wait_for_words(ADA.id, "You said: hello").await;
    fs::remove_file(&file).unwrap();
    let gone = "is gone, although this home was used with a config file";
    let ended = fixture.run_with(fixture.bare_command(&["reload"]), "").await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.err.contains(gone), "{ended:?}");
    daemon.hang_up();
    let told = api.wait_for_words(ADA.id, "I couldn't use my changed config").await;
    assert!(told.text.contains(gone) && told.text.contains("config.last-good.toml"), "{told:?}");
    api.say(&said(&ADA, "/restart"));
    let told = api.wait_for_words(ADA.id, "I'm not restarting").await;
    assert!(told.text.contains(gone), "{told:?}");
    api.say(&said(&ADA, "still here?"));
    api.wait_for_words(ADA.id, "You said: still here?").await;
    assert!(daemon.is_running());
    // It is back.
    fs::copy(fixture.home().join("config.last-good.toml"), &file).unwrap();
    let ended = fixture.run_with(fixture.bare_command(&["reload"]), "").await;
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    daemon.terminate().await;
}

#[tokio::test]
async fn a_home_that_has_moved_to_the_environment_is_warned_and_not_refused() {
    let fixture = ProgramFixture::new("");
    fs::create_dir(fixture.home()).unwrap();
    fs::set_permissions(fixture.home(), fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(fixture.home().join("config.last-good.toml"), "# of before").unwrap();
    let check = async |variable: &str, value: &str| {
        let mut command = fixture.bare_command(&["check", "--json"]);
        command.env(variable, value);
        let ended = fixture.run_with(command, "").await;
        (ended.code, serde_json::from_str::<Value>(&ended.out).unwrap())
    };
    let (gone, goes_on) = ("is gone, although", "only the environment counts");
    // A model alone would be mute.
    let (code, report) = check("OPENAI_API_KEY", "sk-0123456789abcdef").await;
    assert_eq!(code, Some(2), "{report}");
    assert!(report["faults"][0]["message"].as_str().unwrap().starts_with(gone), "{report}");
    let token = "4242:AAAA-this-is-a-token-of-the-right-length";
    let (code, report) = check("TELEGRAM_BOT_TOKEN", token).await;
    assert_eq!(code, Some(0), "{report}");
    let warnings = report["warnings"].to_string();
    assert!(warnings.contains(gone) && warnings.contains(goes_on), "{report}");
    assert_eq!(report["channels"], json!(["telegram", "terminal"]));
    // It is meant.
    fs::remove_file(fixture.home().join("config.last-good.toml")).unwrap();
    let (code, report) = check("TELEGRAM_BOT_TOKEN", token).await;
    assert!(code == Some(0) && !report.to_string().contains(gone), "{report}");
}
