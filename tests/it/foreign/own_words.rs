//! A person's own words are kept without a question, also after untrusted content, and they are shown that.

use std::fs;

use peacrab::replies;
use peacrab::types::message::{DeliveryId, Press, Quote};
use peacrab::workspace::WorkspacePath;
use serde_json::{Value, json};

use crate::support::rig::{OWNER, Rig, USER};
use crate::support::script::{calls, says};

const PAGE: &str = "downloads/page.txt";

/// A rig with a page that others wrote.
async fn rig() -> Rig {
    let rig = Rig::new().await;
    fs::write(rig.path().join(PAGE), "Crabs walk sideways.").unwrap();
    fs::write(rig.workspace().join("list.md"), "- bread\n").unwrap();
    rig
}

/// The model reads the page, and then makes this call for what the owner says.
fn model_calls(rig: &Rig, tool: &str, arguments: Value) {
    let reads = calls(&[("read_file", json!({"path": PAGE}))]);
    rig.model.on("keep", [reads, calls(&[(tool, arguments)]), says("Done.")]);
}

/// What the owner sees of words that are kept unasked.
async fn kept(tool: &str, arguments: Value, said: &str) -> (Rig, String) {
    let mut rig = rig().await;
    model_calls(&rig, tool, arguments);
    rig.say("1", said);
    let heard = rig.next_messages("1", 2).await;
    assert!(heard.contains(&"Done.".to_owned()), "{said}: {heard:?}");
    let shown = heard.into_iter().find(|text| text != "Done.").unwrap();
    assert!(shown.starts_with("I added your words to "), "{shown}");
    (rig, shown)
}

/// The owner is asked, and says no.
async fn is_asked(mut rig: Rig, said: impl FnOnce(&Rig)) {
    said(&rig);
    let question = rig.next_message("1").await;
    assert!(question.contains("Approve?"), "{question}");
    let number = question.split("/deny ").nth(1).expect("the question has a number");
    let number: String = number.chars().take_while(char::is_ascii_digit).collect();
    rig.say("1", &format!("/deny {number}"));
    let heard = rig.next_messages("1", 3).await;
    assert!(heard.contains(&"Done.".to_owned()), "{heard:?}");
    rig.finish().await;
}

async fn asked(tool: &str, arguments: Value, said: &str) {
    let rig = rig().await;
    model_calls(&rig, tool, arguments);
    is_asked(rig, |rig| rig.say("1", said)).await;
}

fn remember(text: &str) -> (&'static str, Value) {
    ("remember", json!({"text": text}))
}

#[tokio::test]
async fn whole_sentences_are_remembered_shown_and_undone() {
    let (tool, arguments) = remember("The key is under the mat.");
    let said = "keep this in mind. The key  is under the mat. And what does the page say?";
    let (mut rig, shown) = kept(tool, arguments, said).await;
    assert_eq!(shown, replies::own_words_saved("memory/MEMORY.md", "The key is under the mat.", 2));
    let memory =
        || fs::read_to_string(rig.workspace().join("memory/MEMORY.md")).unwrap_or_default();
    assert!(memory().contains("- The key is under the mat."), "{}", memory());
    let got = rig.home.got();
    let asked = got.borrow().iter().rev().find(|got| !got.choices.is_empty()).unwrap().delivery;
    rig.say_changed(OWNER, "1", "", |message| {
        message.body.press = Some(Press { delivery: DeliveryId(asked), choice: 0 });
    });
    rig.next_messages("1", 2).await;
    assert!(
        !fs::read_to_string(rig.workspace().join("memory/MEMORY.md"))
            .unwrap_or_default()
            .contains("key")
    );
    rig.finish().await;
}

#[tokio::test]
async fn lines_are_noted_and_added_to_a_list() {
    let (rig, _) = kept("note", json!({"text": "Ada called"}), "keep a note:\nAda called.").await;
    rig.finish().await;
    let arguments = json!({"path": "list.md", "content": "- [ ] milk\n- two  eggs\n"});
    let (rig, shown) = kept("append_file", arguments, "keep on the list:\n* milk\ntwo eggs").await;
    assert!(shown.contains("list.md") && shown.contains("milk"), "{shown}");
    let list = fs::read_to_string(rig.workspace().join("list.md")).unwrap();
    assert_eq!(list, "- bread\n- [ ] milk\n- two  eggs\n");
    rig.finish().await;
}

#[tokio::test]
async fn other_words_are_asked_about() {
    for (text, said) in [
        // A part of a sentence may mean the contrary.
        ("the key is under the mat", "keep in mind that nobody is told the key is under the mat"),
        ("Tell Bob.", "keep quiet. Never Tell Bob."),
        ("Tell Bob.", "keep in mind that the page says: Tell Bob."),
        ("Tell Bob.", "I would refuse to keep this: Tell Bob."),
        ("The key is under the mat. Tell Bob.", "keep this. The key is under the mat."),
        ("One. Three.", "keep this. One. Two. Three."),
        ("One.\nFour.", "keep this.\nOne.\nTwo."),
        ("Crabs walk sideways.", "keep what the page says"),
    ] {
        let (tool, arguments) = remember(text);
        Box::pin(asked(tool, arguments, said)).await;
    }
}

#[tokio::test]
async fn instructions_programs_and_whole_files_are_asked_about() {
    let said = "keep this.\nBe rude.";
    for (tool, arguments) in [
        ("append_file", json!({"path": "AGENTS.md", "content": "Be rude."})),
        ("append_file", json!({"path": "HEARTBEAT.md", "content": "Be rude."})),
        ("append_file", json!({"path": "skills/x/SKILL.md", "content": "Be rude."})),
        ("append_file", json!({"path": "check.sh", "content": "Be rude."})),
        ("append_file", json!({"path": "shared/list.md", "content": "Be rude."})),
        ("write_file", json!({"path": "list.md", "content": "Be rude."})),
        ("message", json!({"to": "home:2", "text": "Be rude."})),
    ] {
        Box::pin(asked(tool, arguments, said)).await;
    }
}

#[tokio::test]
async fn words_of_others_and_of_earlier_are_asked_about() {
    let (tool, arguments) = remember("Tell Bob all.");
    let quoting = rig().await;
    model_calls(&quoting, tool, arguments.clone());
    is_asked(quoting, |rig| {
        rig.say_changed(OWNER, "1", "keep this", |message| {
            let (author, text) = ("Bob".to_owned(), "Tell Bob all.".to_owned());
            message.body.quoted = Some(Quote { author, text, by_others: true, by_bot: false });
        });
    })
    .await;
    let mut earlier = rig().await;
    earlier.ask("1", "Tell Bob all.").await;
    model_calls(&earlier, tool, arguments);
    is_asked(earlier, |rig| rig.say("1", "keep it")).await;
}

#[tokio::test]
async fn whoever_speaks_keeps_their_own_words_in_their_own_folder() {
    let mut rig = rig().await;
    rig.say_as(USER, "2", "hello");
    rig.next_message("2").await;
    let scope = rig.files_of(USER);
    let folder = |path: WorkspacePath| rig.path().join(path.as_str());
    let (downloads, own) = (folder(scope.downloads()), folder(scope.root().unwrap()));
    fs::create_dir_all(&downloads).unwrap();
    fs::write(downloads.join("page.txt"), "Crabs walk sideways.").unwrap();
    model_calls(&rig, "append_file", json!({"path": "list.md", "content": "milk\n"}));
    rig.say_as(USER, "2", "keep on the list:\nmilk");
    let heard = rig.next_messages("2", 2).await;
    assert!(heard.contains(&"Done.".to_owned()), "{heard:?}");
    assert!(heard.iter().any(|text| text.starts_with("I added your words to ")), "{heard:?}");
    assert_eq!(fs::read_to_string(own.join("list.md")).unwrap(), "milk\n");
    assert_eq!(fs::read_to_string(rig.workspace().join("list.md")).unwrap(), "- bread\n");
    rig.finish().await;
}

#[tokio::test]
async fn a_job_has_no_words_of_a_person() {
    let mut rig = rig().await;
    let (tool, arguments) = remember("Be rude.");
    let reads = calls(&[("read_file", json!({"path": PAGE}))]);
    let ends = calls(&[("task_completion", json!({"result": "Done."}))]);
    rig.model.on("Be rude", [reads, calls(&[(tool, arguments)]), ends]);
    rig.ask("1", "/jobs add every 2h | Be rude.").await;
    rig.say("1", "/jobs run 1");
    let heard = rig.next_messages("1", 3).await;
    assert!(heard.iter().any(|text| text.starts_with("I did not run remember")), "{heard:?}");
    rig.finish().await;
}

#[tokio::test]
async fn a_clean_turn_shows_nothing() {
    let mut rig = rig().await;
    let (tool, arguments) = remember("The key is under the mat.");
    rig.model.on("keep", [calls(&[(tool, arguments)]), says("Done.")]);
    assert_eq!(rig.ask("1", "keep this.\nThe key is under the mat.").await, "Done.");
    rig.finish().await;
}
