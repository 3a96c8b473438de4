//! An approval covers a call with the files that people were shown. If one has changed since, they are asked again.

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::Arc;

use peacrab::tools::{AnyTool, ToolSet};
use serde_json::{Value, json};

use super::{approving, press};
use crate::support::fake_channel::FakeChannel;
use crate::support::rig::{OWNER, Rig, RigOptions};
use crate::support::script::{calls, says};
use crate::support::tools::FlickeringTool;

/// The first button: once, or all.
const YES: usize = 0;

fn parts() -> RigOptions {
    let tools = ["write_file", "edit_file", "append_file", "note", "message"];
    approving(|it| it.approvals.tools = tools.map(str::to_owned).to_vec())
}

/// What is heard after a yes to the last question: its end, the confirmation, and what follows.
async fn allow(rig: &mut Rig) -> Vec<String> {
    press(rig, OWNER, "1", YES);
    rig.next_messages("1", 3).await
}

fn asked_again(heard: &[String]) -> &String {
    heard.iter().find(|text| text.contains("I'm asking again because")).expect("a question")
}

/// The contents of the files that were sent.
fn sent(rig: &Rig) -> Vec<String> {
    let got = rig.home.got();
    let files: Vec<_> = got.borrow().iter().filter_map(|got| got.file.clone()).collect();
    files.into_iter().map(|file| String::from_utf8(file.2).unwrap()).collect()
}

/// A call of a file that is changed by hand before it is allowed.
async fn check(call: (&str, Value), before: Option<&str>, meanwhile: &str, after: &str) {
    let mut rig = Rig::of(parts()).await;
    let list = rig.workspace().join("list.md");
    if let Some(before) = before {
        fs::write(&list, before).unwrap();
    }
    rig.model.on("change", [calls(&[call]), says("Ready.")]);
    rig.ask("1", "change it").await;
    fs::write(&list, meanwhile).unwrap();
    let heard = allow(&mut rig).await;
    let question = asked_again(&heard);
    assert!(question.contains("eggs"), "it shows what the file is by then: {question}");
    assert_eq!(fs::read_to_string(&list).unwrap(), meanwhile);
    rig.stop_and_start_again().await;
    let heard = allow(&mut rig).await;
    assert!(heard.contains(&"Ready.".to_owned()), "{heard:?}");
    assert_eq!(fs::read_to_string(&list).unwrap(), after);
    rig.finish().await;
}

#[tokio::test]
async fn a_line_that_came_in_meanwhile_is_not_taken_away_unseen() {
    let before = "bread\nmilk\n";
    let meanwhile = "bread\nmilk\neggs\n";
    let write = json!({"path": "list.md", "content": "rye\n"});
    check(("write_file", write), Some(before), meanwhile, "rye\n").await;
    let edit = json!({"path": "list.md", "old": "milk", "new": "oat milk"});
    check(("edit_file", edit), Some(before), meanwhile, "bread\noat milk\neggs\n").await;
}

/// Asks about a call, and allows it after something else has happened. Gives what is heard then.
async fn allow_after(rig: &mut Rig, call: (&str, Value), meanwhile: impl FnOnce()) -> Vec<String> {
    rig.model.on("change", [calls(&[call]), says("Ready.")]);
    rig.ask("1", "change it").await;
    meanwhile();
    allow(rig).await
}

#[tokio::test]
async fn what_is_only_added_is_allowed_whatever_the_file_contains_by_then() {
    let mut rig = Rig::of(parts()).await;
    let list = rig.workspace().join("list.md");
    fs::write(&list, "bread\n").unwrap();
    let append = ("append_file", json!({"path": "list.md", "content": "salt\n"}));
    let change = || fs::write(&list, "bread\neggs\n").unwrap();
    let heard = allow_after(&mut rig, append, change).await;
    assert!(heard.contains(&"Ready.".to_owned()), "{heard:?}");
    assert_eq!(fs::read_to_string(&list).unwrap(), "bread\neggs\nsalt\n");
    rig.finish().await;
}

#[tokio::test]
async fn nothing_is_added_unseen_to_a_file_to_which_the_path_leads_by_then() {
    let mut rig = Rig::of(parts()).await;
    let (list, other) = (rig.workspace().join("list.md"), rig.workspace().join("other.md"));
    fs::write(&list, "bread\n").unwrap();
    fs::write(&other, "eggs\n").unwrap();
    let append = ("append_file", json!({"path": "list.md", "content": "salt\n"}));
    let exchange = || {
        fs::remove_file(&list).unwrap();
        symlink("other.md", &list).unwrap();
    };
    asked_again(&allow_after(&mut rig, append, exchange).await);
    assert_eq!(fs::read_to_string(&other).unwrap(), "eggs\n");
    assert!(allow(&mut rig).await.contains(&"Ready.".to_owned()));
    assert_eq!(fs::read_to_string(&other).unwrap(), "eggs\nsalt\n");
    rig.finish().await;
}

/// Allows a note that was asked about when it belonged into this file.
async fn allow_note(rig: &mut Rig, path: &str) -> Vec<String> {
    let note = ("note", json!({"text": "Bread is baked."}));
    rig.model.on("change", [calls(&[note]), says("Ready.")]);
    rig.ask("1", "change it").await;
    rig.execute(&format!("UPDATE asks SET files = json_set(files, '$.adds.path', '{path}')"));
    allow(rig).await
}

#[tokio::test]
async fn a_note_that_was_asked_about_on_another_day_needs_no_second_yes() {
    let mut rig = Rig::of(parts()).await;
    let heard = allow_note(&mut rig, "memory/200001/20000101.md").await;
    assert!(heard.contains(&"Ready.".to_owned()), "{heard:?}");
    let told = rig.model.last().transcript();
    assert!(told.contains("Noted in memory/") && !told.contains("memory/200001"), "{told}");
    rig.finish().await;
}

#[tokio::test]
async fn a_note_needs_a_second_yes_where_another_file_was_asked_about() {
    let others = [
        "people/9/workspace/memory/200001/20000101.md",
        "memory/200001/20000201.md",
        "memory/MEMORY.md",
        "200001/20000101.md",
    ];
    for other in others {
        let mut rig = Rig::of(parts()).await;
        asked_again(&allow_note(&mut rig, other).await);
        assert!(allow(&mut rig).await.contains(&"Ready.".to_owned()), "{other}");
        rig.finish().await;
    }
}

#[tokio::test]
async fn a_file_that_was_not_there_is_not_replaced_unseen() {
    let write = json!({"path": "list.md", "content": "rye\n"});
    check(("write_file", write), None, "eggs\n", "rye\n").await;
}

#[tokio::test]
async fn what_cannot_be_done_any_more_is_not_asked_about_again() {
    let edit = json!({"path": "list.md", "old": "milk", "new": "oat milk"});
    let send = json!({"text": "Here.", "files": ["list.md"]});
    for call in [("edit_file", edit), ("message", send)] {
        let mut rig = Rig::with(FakeChannel::taking_files(1_000_000), parts()).await;
        let list = rig.workspace().join("list.md");
        fs::write(&list, "milk\n").unwrap();
        let heard = allow_after(&mut rig, call, || fs::remove_file(&list).unwrap()).await;
        assert!(heard.contains(&"Ready.".to_owned()), "{heard:?}");
        let told = rig.model.last().transcript();
        assert!(told.contains("There is no `list.md`"), "{told}");
        assert!(!list.exists());
        rig.finish().await;
    }
}

#[tokio::test]
async fn what_would_do_nothing_any_more_is_answered_by_its_tool() {
    let full = format!("# Memory\n\n- {}\n", "rye ".repeat(5_000));
    for (meanwhile, words) in [
        ("# Memory\n\n- Bread is baked.\n", "That is known already."),
        (full.as_str(), "is full ("),
    ] {
        let mut rig =
            Rig::of(approving(|it| it.approvals.tools = vec!["remember".to_owned()])).await;
        let memory = rig.workspace().join("memory/MEMORY.md");
        let remember = ("remember", json!({"text": "Bread is baked."}));
        let changes = || {
            fs::create_dir_all(memory.parent().unwrap()).unwrap();
            fs::write(&memory, meanwhile).unwrap();
        };
        let heard = allow_after(&mut rig, remember, changes).await;
        assert!(heard.contains(&"Ready.".to_owned()), "{heard:?}");
        let told = rig.model.last().transcript();
        assert!(told.contains(words) && !told.contains("as it was when"), "{told}");
        assert_eq!(fs::read_to_string(&memory).unwrap(), meanwhile);
        rig.finish().await;
    }
}

#[tokio::test]
async fn a_yes_of_a_former_version_is_asked_for_again() {
    let mut rig = Rig::of(parts()).await;
    let write = ("write_file", json!({"path": "list.md", "content": "rye\n"}));
    rig.model.on("change", [calls(&[write]), says("Ready.")]);
    rig.ask("1", "change it").await;
    rig.execute("UPDATE asks SET files = NULL");
    let heard = allow(&mut rig).await;
    let question = asked_again(&heard);
    assert!(!question.contains("has changed"), "nobody knows if it has: {question}");
    assert!(allow(&mut rig).await.contains(&"Ready.".to_owned()));
    rig.finish().await;
}

#[tokio::test]
async fn no_other_file_is_sent_than_the_one_that_was_asked_about() {
    let mut rig = Rig::with(FakeChannel::taking_files(1_000_000), parts()).await;
    let plan = rig.workspace().join("plan.md");
    fs::write(&plan, "harmless").unwrap();
    let send = ("message", json!({"text": "Here.", "files": ["plan.md"]}));
    rig.model.on("send", [calls(&[send]), says("Sent.")]);
    let question = rig.ask("1", "send it").await;
    assert!(question.contains("plan.md (8 bytes)"), "{question}");
    fs::write(&plan, "a secret").unwrap();
    let heard = allow(&mut rig).await;
    asked_again(&heard);
    assert_eq!(sent(&rig), Vec::<String>::new());
    press(&rig, OWNER, "1", YES);
    rig.wait_until(|rig| sent(rig) == ["a secret"]).await;
    rig.stop().await;
}

#[tokio::test]
async fn a_later_call_is_asked_about_again_if_an_earlier_one_of_the_step_changes_its_files() {
    let mut rig = Rig::with(FakeChannel::taking_files(1_000_000), parts()).await;
    fs::write(rig.workspace().join("plan.md"), "harmless").unwrap();
    let write = ("write_file", json!({"path": "plan.md", "content": "a secret"}));
    let send = ("message", json!({"text": "Here.", "files": ["plan.md"]}));
    rig.model.on("send", [calls(&[write, send]), says("Ready.")]);
    rig.ask("1", "send it").await;
    let heard = allow(&mut rig).await;
    assert!(asked_again(&heard).contains("plan.md"), "{heard:?}");
    assert_eq!(fs::read_to_string(rig.workspace().join("plan.md")).unwrap(), "a secret");
    assert_eq!(sent(&rig), Vec::<String>::new());
    press(&rig, OWNER, "1", YES);
    rig.wait_until(|rig| sent(rig) == ["a secret"]).await;
    rig.stop().await;
}

#[tokio::test]
async fn a_call_whose_files_change_each_time_that_it_begins_fails() {
    let flicker = Arc::new(FlickeringTool::default()) as Arc<dyn AnyTool>;
    let parts = approving(|it| it.approvals.tools = vec!["flicker".to_owned()]);
    let tools = ToolSet::new([flicker]);
    let mut rig = Rig::of(RigOptions { tools, ..parts }).await;
    rig.model.on("go", [calls(&[("flicker", json!({}))]), says("I could not.")]);
    rig.ask("1", "go").await;
    let heard = allow(&mut rig).await;
    assert!(heard.contains(&"I could not.".to_owned()), "{heard:?}");
    assert_eq!(rig.query("SELECT state FROM calls"), ["failed"]);
    let told = rig.model.last().transcript();
    assert!(told.contains("result: Not done: a file of this call is not as it was"), "{told}");
    rig.finish().await;
}
