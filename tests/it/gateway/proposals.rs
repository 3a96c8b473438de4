//! Proposals of all platforms on the page of their person, and decisions about them there.

use peacrab::people::Access;
use peacrab::replies;
use reqwest::StatusCode;
use serde_json::{Value, json};

use super::browser::{Browser, config, rig, url};
use crate::support::rig::{OTHER_USER, OWNER, Rig, RigOptions, STRANGER, USER};
use crate::support::script::{calls, says};

/// The page of somebody who writes in a chat of the platform.
async fn page_of(rig: &mut Rig, who: &str, chat: &str) -> Browser {
    rig.say_as(who, chat, "/web");
    Browser::by_link(&rig.next_message(chat).await).await
}

async fn waiting(page: &Browser) -> Vec<Value> {
    page.get("/waiting").await["questions"].as_array().unwrap().clone()
}

async fn decide(page: &Browser, proposal: &Value, id: &str, choice: i64) -> StatusCode {
    let path = format!("/proposals/{}", proposal["proposal"]);
    page.post(&path, &json!({ "id": id, "choice": choice })).await.status()
}

/// The model proposes something in a chat of the platform.
async fn proposes(rig: &mut Rig, who: &str, chat: &str) {
    let body = "All *notes*, and `x`.";
    let proposes = calls(&[("propose", json!({"title": "Tidy <b>up</b>", "body": body}))]);
    rig.model.on("ideas", [proposes, says("Well?")]);
    rig.say_as(who, chat, "any ideas?");
    let heard = rig.next_messages(chat, 2).await;
    assert!(heard.contains(&"Well?".to_owned()), "{heard:?}");
}

#[tokio::test]
async fn a_proposal_of_another_platform_is_shown_whole_and_decided_by_its_person() {
    let mut rig = rig().await;
    let (page, other) =
        (page_of(&mut rig, USER, "2").await, page_of(&mut rig, OTHER_USER, "3").await);
    let (owner, ben) = (Browser::owner(&rig).await, Browser::of(&rig, "ben").await);
    proposes(&mut rig, USER, "2").await;
    let listed = waiting(&page).await;
    let [proposal] = listed.as_slice() else { panic!("{listed:?}") };
    assert_eq!((&proposal["id"], &proposal["proposal"]), (&Value::Null, &json!(1)));
    assert_eq!((&proposal["channel"], &proposal["session"]), (&json!("home"), &Value::Null));
    let html = proposal["message"]["html"].as_str().unwrap();
    assert!(html.contains("Tidy &lt;b&gt;up&lt;/b&gt;") && html.contains("notes"), "{html}");
    let choices = json!([replies::DO_IT, replies::DO_NOT]);
    assert_eq!(proposal["message"]["choices"], choices);
    for stranger in [&other, &ben, &owner] {
        assert_eq!(waiting(stranger).await, Vec::<Value>::new());
        assert_eq!(decide(stranger, proposal, "decision-1", 0).await, StatusCode::GONE);
    }
    assert_eq!(decide(&page, proposal, "x", 0).await, StatusCode::BAD_REQUEST);
    assert_eq!(decide(&page, proposal, "decision-0", 7).await, StatusCode::GONE);
    rig.model.on("Yes to proposal 1", [says("It is tidy.")]);
    assert_eq!(decide(&page, proposal, "decision-1", 0).await, StatusCode::ACCEPTED);
    // A double click counts once, and the first decision holds.
    assert_eq!(decide(&page, proposal, "decision-1", 0).await, StatusCode::OK);
    let again = decide(&page, proposal, "decision-2", 1).await;
    assert!(matches!(again, StatusCode::CONFLICT | StatusCode::GONE), "{again}");
    while rig.next_message("2").await != "It is tidy." {}
    assert_eq!(rig.query("SELECT state FROM proposals"), ["accepted"]);
    assert_eq!(waiting(&page).await, Vec::<Value>::new());
    rig.finish().await;
}

#[tokio::test]
async fn a_proposal_waits_through_a_restart_and_ends_where_it_was_made() {
    let mut rig = rig().await;
    let owner = Browser::owner(&rig).await;
    proposes(&mut rig, OWNER, "1").await;
    let listed = waiting(&owner).await;
    rig.stop_and_start_again().await;
    let owner = Browser { url: url(&rig).await, ..owner };
    assert_eq!(waiting(&owner).await, listed);
    assert_eq!(listed.len(), 1, "the owner's accounts are one person: {listed:?}");
    rig.execute("UPDATE proposals SET state = 'withdrawn'");
    assert_eq!(waiting(&owner).await, Vec::<Value>::new());
    assert_eq!(decide(&owner, &listed[0], "decision-1", 0).await, StatusCode::GONE);
    rig.finish().await;
}

#[tokio::test]
async fn a_proposal_in_a_group_waits_there_alone() {
    let mut rig = rig().await;
    let owner = Browser::owner(&rig).await;
    proposes(&mut rig, OWNER, "-1").await;
    assert_eq!(waiting(&owner).await, Vec::<Value>::new());
    let group = json!({ "proposal": 1 });
    assert_eq!(decide(&owner, &group, "decision-1", 0).await, StatusCode::GONE);
    rig.finish().await;
}

/// Somebody whom the owner has made a user, with their number.
async fn made_user(rig: &mut Rig) -> (Browser, String) {
    rig.say_as(STRANGER, "66", "hello");
    rig.next_message("66").await;
    let number = format!("SELECT 'p' || person FROM accounts WHERE sender = '{STRANGER}'");
    let number = rig.query(&number).remove(0);
    rig.ask("1", &format!("/people user {number}")).await;
    (page_of(rig, STRANGER, "66").await, number)
}

#[tokio::test]
async fn whoever_was_removed_and_is_back_finds_no_proposal_of_before() {
    let owners = vec![OWNER.to_owned()];
    let access = Access { owners, allow: vec!["*".to_owned()], ..Access::default() };
    let parts = RigOptions { access, gateway: Some(config()), ..RigOptions::default() };
    let mut rig = Rig::of(parts).await;
    url(&rig).await;
    let (page, number) = made_user(&mut rig).await;
    proposes(&mut rig, STRANGER, "66").await;
    let proposal = waiting(&page).await.remove(0);
    let removed = rig.ask("1", &format!("/people remove {number}")).await;
    assert_eq!(removed, replies::person_is_removed("Person 66", &number));
    assert_eq!(decide(&page, &proposal, "decision-1", 0).await, StatusCode::FORBIDDEN);
    let (page, anew) = made_user(&mut rig).await;
    assert_ne!(anew, number);
    assert_eq!(waiting(&page).await, Vec::<Value>::new());
    assert_eq!(decide(&page, &proposal, "decision-1", 0).await, StatusCode::GONE);
    rig.finish().await;
}
