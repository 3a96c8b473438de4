//! Files and buttons on the way out.

use peacrab::replies;
use peacrab::turn::run::attachments::{AnswerLine, answer_lines};
use peacrab::types::message::{DeliveryId, Press};
use serde_json::{Value, json};

use super::*;
use crate::support::fake_channel::{FakeChannel, ReceivedMessage, SendBehavior};
use crate::support::rig::{OTHER_USER, OWNER, USER};
use crate::support::script::{calls, says};

async fn rig_with_files() -> Rig {
    let rig = Rig::with(FakeChannel::taking_files(1_000_000), taking(LIMITS)).await;
    fs::write(rig.workspace().join("crab.png"), PNG).unwrap();
    fs::write(rig.workspace().join("plan.md"), "# Plan").unwrap();
    rig
}

/// Has the model call the tool, and gives what the tool said.
async fn told(rig: &mut Rig, who: &str, chat: &str, arguments: &Value) -> String {
    rig.model.on("do it", [calls(&[("message", arguments.clone())]), says("Done.")]);
    let asked = rig.model.asked().len();
    rig.say_as(who, chat, "do it");
    rig.wait_until(|rig| rig.model.asked().len() == asked + 2).await;
    rig.settled().await;
    rig.model.last().messages.pop().unwrap()
}

fn file_of(got: &ReceivedMessage) -> (&str, &str, MediaKind) {
    let (name, kind, _) = got.file.as_ref().unwrap();
    (&got.text, name, *kind)
}

#[tokio::test]
async fn sends_files_of_the_workspace_in_order() {
    let mut rig = rig_with_files().await;
    let files = json!({"text": "Here you are", "files": ["crab.png", "plan.md"], "to": null});
    rig.model.on("send", [calls(&[("message", files)]), says("Here you are")]);
    rig.say("1", "send them");
    let home = std::sync::Arc::clone(&rig.home);
    let got = rig.next_messages_on(home, "1", 2).await;
    assert_eq!(file_of(&got[0]), ("Here you are", "crab.png", MediaKind::Image));
    assert_eq!(file_of(&got[1]), ("", "plan.md", MediaKind::Document));
    assert_eq!(got[0].file.as_ref().unwrap().2, PNG);
    // What stands under the file is not said again.
    rig.finish().await;
}

#[tokio::test]
async fn files_that_an_answer_names_come_with_it() {
    let mut rig = rig_with_files().await;
    let answer = "Here is the crab:\n![A crab](crab.png)\n![the plan]( ./plan.md )\nEnjoy!";
    rig.model.on("send", [says(answer)]);
    rig.say("1", "send them");
    let home = std::sync::Arc::clone(&rig.home);
    let got = rig.next_messages_on(home, "1", 3).await;
    assert_eq!((&*got[0].text, got[0].file.is_none()), ("Here is the crab:\nEnjoy!", true));
    assert_eq!(file_of(&got[1]), ("A crab", "crab.png", MediaKind::Image));
    assert_eq!(got[1].file.as_ref().unwrap().2, PNG);
    assert_eq!(file_of(&got[2]), ("the plan", "plan.md", MediaKind::Document));
    // A file alone is an answer, too.
    rig.model.on("again", [says("![](crab.png)")]);
    rig.say("1", "again");
    let home = std::sync::Arc::clone(&rig.home);
    let got = rig.next_messages_on(home, "1", 2).await;
    assert_eq!(
        (&*got[0].text, file_of(&got[1]).1),
        (&*replies::files_alone(&["crab.png"]), "crab.png")
    );
    rig.finish().await;
}

#[tokio::test]
async fn a_file_that_cannot_come_with_an_answer_is_explained() {
    let mut rig = rig_with_files().await;
    fs::create_dir_all(rig.workspace().join("memory")).unwrap();
    fs::write(rig.workspace().join("memory/MEMORY.md"), "secret").unwrap();
    rig.model.on("send", [says("So:\n![x](none.png)"), says("So:\n![x](memory/MEMORY.md)")]);
    let told = rig.ask("1", "send it").await;
    assert!(told.starts_with("So:\n![x](none.png) (I cannot attach this file: "), "{told}");
    // What somebody may not see does not come.
    rig.say_as(USER, "2", "send it");
    let told = rig.next_message("2").await;
    assert!(told.contains("(I cannot attach this file: ") && !told.contains("secret"), "{told}");
    rig.finish().await;
}

#[test]
fn only_a_line_with_a_path_of_the_workspace_stands_for_a_file() {
    let check = |answer: &str, paths: &[&str]| {
        let lines = answer_lines(answer);
        let found = lines.iter().filter_map(|line| match line {
            AnswerLine::File { path, .. } => Some(path.to_string()),
            AnswerLine::Text(_) => None,
        });
        assert_eq!(found.collect::<Vec<_>>(), paths, "{answer}");
    };
    check("![a](a.png)\n  ![](b/c.pdf)  ", &["a.png", "b/c.pdf"]);
    check("![a](/a.png)", &["a.png"]);
    check("See ![a](a.png)\n[a](a.png)\n![a](a.png) here\n`![a](a.png)`", &[]);
    check("```\n![a](a.png)\n```\n![b](b.png)", &["b.png"]);
    check("![a](https://example.org/a.png)\n![a](data:image/png;base64,xx)\n![a](file:a)", &[]);
    check("![a](../a.png)\n![a]()\n![a](a.png \"t\")\n![a]", &[]);
}

#[tokio::test]
async fn a_file_without_words_is_an_answer() {
    let mut rig = rig_with_files().await;
    rig.model.on("send", [calls(&[("message", json!({"files": ["crab.png"]}))]), says("")]);
    rig.say("1", "send it");
    let home = std::sync::Arc::clone(&rig.home);
    assert_eq!(file_of(&rig.next_messages_on(home, "1", 1).await[0]).1, "crab.png");
    rig.finish().await;
}

#[tokio::test]
async fn a_file_that_vanished_on_the_way_is_told_in_words() {
    let mut rig = rig_with_files().await;
    rig.home.next("1", [SendBehavior::Busy(Duration::from_millis(300))]);
    let both = [("message", json!({"text": "first"})), ("message", json!({"files": ["plan.md"]}))];
    rig.model.on("send", [calls(&both), says("NO_REPLY")]);
    rig.say("1", "send it");
    rig.wait_for_count("SELECT count(*) FROM turns WHERE ending IS NOT NULL", 1).await;
    let copy = copy_in_the_outputs(&rig);
    fs::remove_file(rig.workspace().join(&copy)).unwrap();
    let heard = rig.next_messages("1", 2).await;
    let reason = format!("there is no `{copy}`");
    assert_eq!(heard[1], replies::file_not_sent("plan.md", &reason));
    rig.finish().await;
}

/// The copy of a file that is on its way, as a path of the workspace.
fn copy_in_the_outputs(rig: &Rig) -> String {
    let months = fs::read_dir(rig.workspace().join("outputs")).unwrap();
    let files = months.flat_map(|month| fs::read_dir(month.unwrap().path()).unwrap());
    let paths: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    assert_eq!(paths.len(), 1, "{paths:?}");
    paths[0].strip_prefix(rig.workspace()).unwrap().to_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_file_is_sent_as_it_was_when_the_message_was_written() {
    let mut rig = rig_with_files().await;
    rig.home.next("1", [SendBehavior::Busy(Duration::from_millis(300))]);
    let both = [("message", json!({"text": "first"})), ("message", json!({"files": ["plan.md"]}))];
    rig.model.on("send", [calls(&both), says("NO_REPLY")]);
    rig.say("1", "send it");
    rig.wait_for_count("SELECT count(*) FROM turns WHERE ending IS NOT NULL", 1).await;
    fs::write(rig.workspace().join("USER.md"), "secret").unwrap();
    fs::remove_file(rig.workspace().join("plan.md")).unwrap();
    std::os::unix::fs::symlink("USER.md", rig.workspace().join("plan.md")).unwrap();
    let home = std::sync::Arc::clone(&rig.home);
    let got = rig.next_messages_on(home, "1", 2).await;
    assert_eq!(got[1].file.as_ref().unwrap().2, b"# Plan");
    // Neither a link nor a second name of a private file is sent in the place of a copy.
    rig.home.next("1", [SendBehavior::Busy(Duration::from_millis(300))]);
    fs::remove_file(rig.workspace().join(copy_in_the_outputs(&rig))).unwrap();
    fs::write(rig.workspace().join("list.md"), "- tea").unwrap();
    let both = [("message", json!({"text": "first"})), ("message", json!({"files": ["list.md"]}))];
    rig.model.on("again", [calls(&both), says("NO_REPLY")]);
    rig.say("1", "send again");
    rig.wait_for_count("SELECT count(*) FROM turns WHERE ending IS NOT NULL", 2).await;
    let copy = rig.workspace().join(copy_in_the_outputs(&rig));
    fs::remove_file(&copy).unwrap();
    fs::hard_link(rig.workspace().join("USER.md"), &copy).unwrap();
    let heard = rig.next_messages("1", 2).await;
    assert!(heard[1].contains("second name"), "{heard:?}");
    rig.finish().await;
}

#[tokio::test]
async fn what_was_to_stand_under_a_refused_file_is_said_all_the_same() {
    let mut rig = rig_with_files().await;
    rig.home.next("1", [SendBehavior::Refuses]);
    let arguments = json!({"text": "Here you are", "files": ["crab.png", "plan.md"]});
    rig.model.on("send", [calls(&[("message", arguments)]), says("Here you are")]);
    rig.say("1", "send them");
    let refused = replies::file_not_sent("crab.png", "files are not allowed here");
    assert_eq!(rig.next_messages("1", 2).await, ["Here you are", &refused]);
    let home = std::sync::Arc::clone(&rig.home);
    assert_eq!(file_of(&rig.next_messages_on(home, "1", 1).await[0]).1, "plan.md");
    rig.finish().await;
}

#[tokio::test]
async fn sends_nothing_that_the_one_who_asks_may_not_see_or_that_is_not_there() {
    let mut rig = rig_with_files().await;
    fs::write(rig.workspace().join("USER.md"), "secret").unwrap();
    std::os::unix::fs::symlink("USER.md", rig.workspace().join("link.md")).unwrap();
    for path in ["USER.md", "link.md", "memory/MEMORY.md"] {
        for (who, chat) in [(USER, "8"), (OWNER, "-1")] {
            let told = told(&mut rig, who, chat, &json!({"text": "x", "files": [path]})).await;
            assert!(told.contains("There is no"), "{told}");
            assert_eq!(rig.next_message(chat).await, "Done.");
        }
    }
    for (arguments, expected) in [
        (json!({"files": ["nowhere.md"]}), "There is no `nowhere.md`"),
        (json!({"files": ["memory"]}), "is a folder"),
        (json!({"files": ["../state.db"]}), "climbs"),
        (json!({"files": vec!["plan.md"; 11]}), "at most 10 files"),
        (json!({"files": []}), "text is empty"),
        (json!({"choices": ["a"]}), "text is empty"),
        (json!({"text": "?", "choices": ["a", "a "]}), "is there twice"),
        (json!({"text": "?", "choices": ["/stop"]}), "cannot be a command"),
        (json!({"text": "?", "choices": [""]}), "1 to 60 characters"),
        (
            json!({"text": "?", "choices": ["1", "2", "3", "4", "5", "6", "7", "8", "9"]}),
            "at most 8",
        ),
    ] {
        let told = told(&mut rig, OWNER, "1", &arguments).await;
        assert!(told.contains(expected), "{told}");
    }
    // The owner may, in private.
    let told = told(&mut rig, OWNER, "1", &json!({"files": ["link.md"]})).await;
    assert!(told.contains("on its way, with 1 file"), "{told}");
    let home = std::sync::Arc::clone(&rig.home);
    let got = rig.next_messages_on(home, "1", 12).await;
    let mut files = got.iter().filter_map(|got| got.file.as_ref());
    assert!(files.any(|(_, _, content)| content == b"secret"), "{got:?}");
    rig.finish().await;
}

/// Somebody presses a button of what a chat got.
fn press(rig: &Rig, who: &str, got: &ReceivedMessage, choice: usize) {
    let delivery = DeliveryId(got.delivery);
    rig.say_changed(who, &got.chat, "", |message| {
        message.body.press = Some(Press { delivery, choice });
    });
}

#[tokio::test]
async fn a_pressed_choice_is_the_next_message() {
    let mut rig = rig_with_files().await;
    let question = json!({"text": "Tea?", "choices": ["Yes", "No"], "files": ["crab.png"]});
    rig.model.on("what", [calls(&[("message", question)]), says("NO_REPLY")]);
    rig.say("1", "what now");
    let home = std::sync::Arc::clone(&rig.home);
    let got = rig.next_messages_on(home, "1", 2).await;
    assert_eq!(file_of(&got[0]).1, "crab.png");
    assert_eq!(
        (got[1].text.as_str(), &got[1].choices[..]),
        ("Tea?", &["Yes", "No"].map(String::from)[..])
    );
    rig.settled().await;
    press(&rig, OWNER, &got[1], 1);
    let mut heard = rig.next_messages("1", 2).await;
    heard.sort();
    assert_eq!(heard[0], replies::decided("Tea?", "No", "Person 7"));
    assert!(heard[1].contains("No"), "{heard:?}");
    rig.finish().await;
}

#[tokio::test]
async fn a_question_in_a_group_is_for_who_asked() {
    let mut rig = rig_with_files().await;
    let question = json!({"text": "Tea?", "choices": ["Yes"]});
    rig.model.on("what", [calls(&[("message", question)]), says("NO_REPLY")]);
    rig.say_as(USER, "-1", "what now");
    let home = std::sync::Arc::clone(&rig.home);
    let got = rig.next_messages_on(home, "-1", 1).await;
    rig.settled().await;
    press(&rig, OTHER_USER, &got[0], 0);
    rig.wait_until(|rig| rig.home.unaccepted() == 0).await;
    press(&rig, USER, &got[0], 0);
    rig.next_messages("-1", 2).await;
    assert_eq!(rig.model.asked().len(), 3);
    rig.finish().await;
}
