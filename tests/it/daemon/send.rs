//! `peacrab send`: done once it has arrived, with and without a daemon.

use serde_json::{Value, json};

use crate::support::binary::{Ended, ProgramFixture, home, said, until};
use crate::support::bot_api::BotApi;
use crate::support::bot_api::line::ADA;

async fn sent(fixture: &ProgramFixture, args: &[&str], input: &str) -> Ended {
    let args: Vec<_> = [&["send"], args].concat();
    fixture.run_with(fixture.command(&[], &args), input).await
}

fn texts(api: &BotApi) -> Vec<String> {
    api.sent().iter().map(|sent| sent.as_it_came().trim().to_owned()).collect()
}

async fn arrives(fixture: &ProgramFixture, api: &BotApi) {
    let to = format!("home:{}", ADA.id);
    let before = api.sent().len();
    for (args, input) in [
        (vec!["--to", &to, "The tide is high."], ""),
        (vec!["--to", &to], "The tide is high.\n"),
        (vec!["--to", &to, "-"], "The tide is high.\n"),
    ] {
        let ended = sent(fixture, &args, input).await;
        assert_eq!((ended.code, ended.out.trim()), (Some(0), "Delivered."), "{ended:?}");
    }
    assert_eq!(texts(api)[before..], ["The tide is high."; 3]);
    let file = fixture.folder().join("tide.txt");
    std::fs::write(&file, "high").unwrap();
    let ended = sent(fixture, &["--to", &to, "--file", file.to_str().unwrap(), "Look."], "").await;
    assert_eq!((ended.code, ended.out.trim()), (Some(0), "Delivered."), "{ended:?}");
    // Nobody ever writes into it.
    let pipe = fixture.folder().join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).ok();
    for (args, words) in [
        (vec!["--to", &to, " "], "nothing to send"),
        (vec!["--to", "sea:1", "x"], "no channel sea"),
        (vec!["--to", "sea", "x"], "is not an address"),
        (vec!["--to", &to, "--file", "/nowhere/x", "x"], "I can't read /nowhere/x"),
        (vec!["--to", &to, "--file", "/", "x"], "it is not a file"),
        (vec!["--to", &to, "--file", pipe.to_str().unwrap(), "x"], "it is not a file"),
        (vec!["x"], "--to"),
    ] {
        let ended = sent(fixture, &args, "").await;
        assert!(ended.code != Some(0) && ended.err.contains(words), "{args:?}: {ended:?}");
    }
    // What was printed is shown as printed, unless it is said to be Markdown.
    for (args, shown) in [
        (vec!["--to", &to, "def __init__:\n    pass"], "<pre>def __init__:\n    pass</pre>"),
        (vec!["--to", &to, "**bold** & __init__"], "**bold** &amp; __init__"),
        (vec!["--to", &to, "--markdown", "**bold**"], "<b>bold</b>"),
        (vec!["--to", &to, "--file", file.to_str().unwrap(), "**as it is**"], "**as it is**"),
    ] {
        let ended = sent(fixture, &args, "").await;
        assert_eq!((ended.code, texts(api).pop().unwrap().as_str()), (Some(0), shown), "{ended:?}");
    }
    // Only words arrive in place of a file that the platform does not take.
    let empty = fixture.folder().join("empty.txt");
    std::fs::write(&empty, "").unwrap();
    let ended = sent(fixture, &["--to", &to, "--file", empty.to_str().unwrap()], "").await;
    assert_eq!((ended.code, ended.out.as_str()), (Some(3), ""), "{ended:?}");
    assert!(ended.err.contains("The file couldn't be sent"), "{ended:?}");
    let told = texts(api).pop().unwrap();
    assert!(told.starts_with("I couldn't send the file empty.txt"), "{told}");
    // Nobody is in that chat, and the platform says so.
    let ended = sent(fixture, &["--to", "home:404", "x"], "").await;
    assert_eq!(ended.code, Some(3), "{ended:?}");
    assert!(ended.err.contains("couldn't be delivered"), "{ended:?}");
}

#[tokio::test]
async fn a_script_knows_whether_its_message_arrived_while_a_daemon_runs() {
    let api = BotApi::start().await;
    let fixture = ProgramFixture::new(&home(&api));
    let _daemon = fixture.daemon().await;
    let ended = sent(&fixture, &["--to", "owner", "x"], "").await;
    assert!(ended.code == Some(1) && ended.err.contains("No owner has written"), "{ended:?}");
    api.say(&said(&ADA, "hello"));
    until("the answer", async || (!api.sent().is_empty()).then_some(())).await;
    let ended = sent(&fixture, &["--to", "owner", "To you."], "").await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(texts(&api).last().unwrap(), "To you.");
    arrives(&fixture, &api).await;
}

#[tokio::test]
async fn a_script_knows_whether_its_message_arrived_without_a_daemon() {
    let api = BotApi::start().await;
    let fixture = ProgramFixture::new(&home(&api));
    // Somebody has written, and nobody has heard it yet.
    api.say(&said(&ADA, "hello"));
    arrives(&fixture, &api).await;
    let ended = sent(&fixture, &["--to", "terminal:main", "x"], "").await;
    assert!(ended.code == Some(1) && ended.err.contains("no channel terminal"), "{ended:?}");
    // Nothing is listened to meanwhile.
    let polls = api.received().iter().filter(|request| request.call == "getUpdates").count();
    assert_eq!(polls, 0);
    let listed = fixture.run(&["actions", "--json"]).await;
    assert_eq!(serde_json::from_str::<Value>(&listed.out).unwrap(), Value::Array(Vec::new()));
    // The owner is known from the terminal only, which no message leaves without a daemon.
    fixture.run(&["chat", "-m", "hello"]).await;
    let ended = sent(&fixture, &["--to", "owner", "x"], "").await;
    assert_eq!((ended.code, ended.out.as_str()), (Some(1), ""), "{ended:?}");
    assert!(ended.err.contains("If it is the terminal, start the daemon"), "{ended:?}");
}

#[tokio::test]
async fn a_script_gets_the_outcome_as_json_and_a_refusal_on_standard_error() {
    let api = BotApi::start().await;
    let fixture = ProgramFixture::new(&home(&api));
    let to = format!("home:{}", ADA.id);
    // A bot can write only to who has written to it.
    api.say(&said(&ADA, "hello"));
    for has_daemon in [false, true] {
        let daemon = match has_daemon {
            true => Some(fixture.daemon().await),
            false => None,
        };
        let ended = sent(&fixture, &["--json", "--to", &to, "The tide is high."], "").await;
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let outcome: Value = serde_json::from_str(&ended.out).unwrap();
        assert_eq!(outcome, json!({ "to": to, "outcome": "delivered", "words": "Delivered." }));
        // Nobody is in that chat, which the exit code and a person's line say, too.
        let ended = sent(&fixture, &["--json", "--to", "home:404", "x"], "").await;
        assert_eq!(ended.code, Some(3), "{ended:?}");
        let outcome: Value = serde_json::from_str(&ended.out).unwrap();
        assert_eq!((&outcome["to"], &outcome["outcome"]), (&json!("home:404"), &json!("lost")));
        assert!(ended.err.contains("couldn't be delivered"), "{ended:?}");
        let ended = sent(&fixture, &["--json", "--to", "sea:1", "x"], "").await;
        assert_eq!(ended.code, Some(1), "{ended:?}");
        let refused: Value = serde_json::from_str(&ended.out).unwrap();
        assert!(refused["error"].as_str().unwrap().contains("no channel sea"), "{ended:?}");
        assert!(ended.err.contains("no channel sea"), "{ended:?}");
        if let Some(daemon) = daemon {
            daemon.terminate().await;
        }
    }
}
