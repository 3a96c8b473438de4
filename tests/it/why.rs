//! `/why`: who and what led to an answer, an action or a file, as far as the person who asks may see it.

use std::fs;

use peacrab::replies;
use serde_json::json;

use crate::support::rig::{OTHER_USER, OWNER, Rig, USER};
use crate::support::script::{calls, says};

/// Has a file written after another was read.
async fn write_after_reading(rig: &mut Rig, who: &str, chat: &str, (from, to): (&str, &str)) {
    let words = format!("copy {from} to {to}");
    let read = calls(&[("read_file", json!({ "path": from }))]);
    let write = calls(&[("write_file", json!({ "path": to, "content": "copied" }))]);
    rig.model.on(&words, [read, write, says("done")]);
    rig.say_as(who, chat, &words);
    assert_eq!(rig.next_message(chat).await, "done");
}

#[tokio::test]
async fn an_action_names_who_asked_and_what_was_read_and_can_be_undone() {
    let mut rig = Rig::new().await;
    fs::write(rig.workspace().join("plan.md"), "tea").unwrap();
    write_after_reading(&mut rig, OWNER, "1", ("plan.md", "a.md")).await;
    for asked in ["/why 2", "/why #2", "/why a.md"] {
        let told = rig.ask("1", asked).await;
        assert!(told.starts_with("Action 2 · ") && told.contains("write"), "{told}");
        assert!(told.contains(" for you."), "{told}");
        assert!(told.contains("\n- your messages\n- the file plan.md\n"), "{told}");
        assert!(told.ends_with("/undo 2"), "{told}");
    }
    assert!(rig.ask("1", "/undo 2").await.starts_with("Undone"));
    let told = rig.ask("1", "/why 2").await;
    assert!(!told.contains("/undo") && told.contains("undone"), "{told}");
    rig.finish().await;
}

#[tokio::test]
async fn an_answer_names_what_others_wrote_as_untrusted_also_when_it_was_read_before() {
    let mut rig = Rig::new().await;
    assert_eq!(rig.ask("1", "/why").await, replies::NOTHING_TO_EXPLAIN);
    let downloads = rig.workspace().parent().unwrap().join("downloads");
    fs::create_dir_all(&downloads).unwrap();
    fs::write(downloads.join("page.md"), "Buy *now*").unwrap();
    let read = calls(&[("read_file", json!({ "path": "downloads/page.md" }))]);
    rig.model.on("what does it say", [read, says("Buy.")]);
    assert_eq!(rig.ask("1", "what does it say").await, "Buy.");
    let told = rig.ask("1", "/why").await;
    assert!(told.starts_with("My last answer here\nStarted "), "{told}");
    assert!(
        told.ends_with("\n- your messages\n- the file downloads/page.md (untrusted)"),
        "{told}"
    );
    assert_eq!(rig.ask("1", "hello").await, "re: hello");
    let told = rig.ask("1", "/why").await;
    assert!(
        told.contains("I had read nothing new for it.\nEarlier in the same conversation:\n"),
        "{told}"
    );
    assert!(told.contains("- the file downloads/page.md (untrusted)"), "{told}");
    rig.finish().await;
}

#[tokio::test]
async fn what_others_did_in_private_is_explained_to_them_alone() {
    let mut rig = Rig::new().await;
    for files in [("missing.md", "secret.md"), ("secret.md", "b.md")] {
        write_after_reading(&mut rig, USER, "2", files).await;
    }
    // The owner sees that it was done, as in /actions, and nothing of the conversation.
    let told = rig.ask("1", "/why 4").await;
    assert!(told.contains(" for someone else.") && !told.contains("secret"), "{told}");
    assert!(!told.contains("/undo"), "{told}");
    rig.say_as(OTHER_USER, "3", "/why 4");
    assert_eq!(rig.next_message("3").await, replies::no_such_action(4));
    rig.say_as(USER, "2", "/why 4");
    let told = rig.next_message("2").await;
    assert!(told.contains("for you") && told.contains("secret.md"), "{told}");
    rig.finish().await;
}

#[tokio::test]
async fn a_file_of_another_person_is_answered_alike_whatever_became_of_it() {
    let mut rig = Rig::new().await;
    write_after_reading(&mut rig, USER, "2", ("missing.md", "changed.md")).await;
    let root = rig.files_of(USER).root().unwrap();
    fs::write(rig.path().join(format!("{root}/there.md")), "mine").unwrap();
    for name in ["changed.md", "there.md", "never.md"] {
        let path = format!("{root}/{name}");
        let (asked, expected) = (format!("/why {path}"), replies::not_yours_to_see(&path));
        assert_eq!(rig.ask("1", &asked).await, expected);
        rig.say_as(OTHER_USER, "3", &asked);
        assert_eq!(rig.next_message("3").await, expected);
    }
    // Its person calls it by the name that tools show.
    rig.say_as(USER, "2", "/why changed.md");
    let told = rig.next_message("2").await;
    assert!(told.contains(" for you.") && told.contains("changed.md"), "{told}");
    rig.say_as(USER, "2", "/why never.md");
    assert_eq!(rig.next_message("2").await, replies::no_change_known("never.md"));
    rig.finish().await;
}

#[tokio::test]
async fn a_fact_names_its_sources_and_what_it_was_before_to_its_person_alone() {
    let mut rig = Rig::new().await;
    rig.ask("1", "/remember Ada lives in Paris").await;
    let told = rig.ask("1", "/why fact 1").await;
    let words = ["Fact #1: Ada lives in Paris\nKept since ", replies::SOURCE_YOU];
    assert!(words.iter().all(|it| told.contains(it)), "{told}");
    assert!(told.contains("It is in my prompts.\nI haven't used it yet."), "{told}");
    assert!(told.contains("It was made from:\n- your messages\n"), "{told}");
    assert!(told.ends_with("/forget #1"), "{told}");
    // A page had said something else before.
    rig.execute(
        r#"INSERT INTO facts (who, kind, text, status, origin, sources, made, used, ended, replaced_by)
           SELECT who, kind, 'Ada lives in Rome', 'expired', 'kept',
                  '[{"page":{"url":"http://crabs.example/"}}]', made, used, made, id FROM facts"#,
    );
    let told = rig.ask("1", "/why FACT #1").await;
    assert!(told.contains("Earlier versions:\n- Ada lives in Rome (until 20"), "{told}");
    let told = rig.ask("1", "/why fact 2").await;
    assert!(told.contains("; I keep it as history.") && told.contains("(untrusted)"), "{told}");
    // Others' facts are not there, for the owner either.
    for (who, chat) in [(USER, "2"), (OTHER_USER, "3"), (OWNER, "-3")] {
        rig.say_as(who, chat, "/why fact 1");
        assert_eq!(rig.next_message(chat).await, replies::no_such_fact(1));
    }
    assert_eq!(rig.ask("1", "/why fact 9").await, replies::no_such_fact(9));
    rig.finish().await;
}

#[tokio::test]
async fn what_cannot_be_explained_is_answered_with_what_would_be_right() {
    let mut rig = Rig::new().await;
    assert_eq!(rig.ask("1", "/why 99").await, replies::no_such_action(99));
    assert_eq!(rig.ask("1", "/why notes.md").await, replies::no_change_known("notes.md"));
    assert_eq!(rig.ask("1", "/why ../outside").await, replies::WHY_USAGE);
    rig.finish().await;
}
