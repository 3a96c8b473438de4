//! `/pair revoke`: whoever is said to have no access any more has none, wherever it came from.

use peacrab::people::Access;
use peacrab::replies;
use serde_json::json;

use super::{code_in, number, open_to_all};
use crate::support::rig::{OWNER, Rig, RigOptions, STRANGER};
use crate::support::script::{Gate, calls, held, says};

/// Another one who is paired.
pub(super) const OTHER: &str = "67";

/// Nobody but the owner is in the config.
pub(super) fn by_pairing_only() -> RigOptions {
    let access = Access { owners: vec![OWNER.to_owned()], ..Access::default() };
    RigOptions { access, ..RigOptions::default() }
}

/// People who are paired as users, and have spoken in chats of the same names.
pub(super) async fn with_paired(parts: RigOptions, people: &[&str]) -> Rig {
    let mut rig = Rig::of(parts).await;
    rig.ask("1", "hello").await;
    for who in people {
        rig.execute(&format!(
            "INSERT INTO people (channel, sender, name, role, since)
             VALUES ('home', '{who}', 'Person {who}', '\"user\"', 1)"
        ));
        rig.say_as(who, who, "hello");
        assert_eq!(rig.next_message(who).await, "re: hello");
    }
    rig
}

/// The owner changes somebody's role, or blocks them.
async fn order(rig: &mut Rig, verb: &str, who: &str) {
    let order = format!("/people {verb} {}", number(rig, who));
    assert!(rig.ask("1", &order).await.starts_with(&format!("Person {who} is ")));
}

async fn revoke(rig: &mut Rig, who: &str) -> String {
    rig.ask("1", &format!("/pair revoke home {who}")).await
}

/// Somebody is a stranger, of whom the owner is asked.
async fn is_stranger(rig: &mut Rig, who: &str) {
    rig.say_as(who, who, "let me in");
    let heard = rig.next_message(who).await;
    assert!(heard.starts_with("I don't know you yet."), "{heard}");
    assert!(rig.next_message("1").await.contains("wants to talk to me"));
}

#[tokio::test]
async fn a_role_that_the_owner_has_set_ends_with_the_pairing() {
    for role in ["admin", "guest"] {
        let mut rig = with_paired(by_pairing_only(), &[STRANGER]).await;
        order(&mut rig, role, STRANGER).await;
        assert_eq!(revoke(&mut rig, STRANGER).await, replies::revoked(STRANGER));
        is_stranger(&mut rig, STRANGER).await;
        assert_eq!(revoke(&mut rig, STRANGER).await, replies::not_paired(STRANGER));
        rig.finish().await;
    }
}

#[tokio::test]
async fn a_role_that_outlived_a_pairing_in_an_older_version_is_revoked() {
    let mut rig = with_paired(by_pairing_only(), &[STRANGER]).await;
    order(&mut rig, "admin", STRANGER).await;
    rig.execute("DELETE FROM people");
    assert_eq!(revoke(&mut rig, STRANGER).await, replies::revoked(STRANGER));
    is_stranger(&mut rig, STRANGER).await;
    rig.finish().await;
}

#[tokio::test]
async fn who_is_blocked_and_revoked_is_not_let_in_again_by_unblocking() {
    let mut rig = with_paired(by_pairing_only(), &[STRANGER]).await;
    order(&mut rig, "admin", STRANGER).await;
    order(&mut rig, "block", STRANGER).await;
    assert_eq!(revoke(&mut rig, STRANGER).await, replies::revoked(STRANGER));
    order(&mut rig, "unblock", STRANGER).await;
    is_stranger(&mut rig, STRANGER).await;
    rig.finish().await;
}

/// Makes both accounts one person. The first of them confirms it.
pub(super) async fn link(rig: &mut Rig, (confirms, at): (&str, &str), joins: &str) {
    rig.say_as(confirms, at, "/link");
    let code = code_in(&rig.next_message(at).await);
    rig.say_as(joins, joins, &format!("/link {code}"));
    assert_eq!(rig.next_message(joins).await, replies::LINK_WAITS);
    assert!(rig.next_message(at).await.contains("become one person"));
    rig.say_as(confirms, at, &format!("/link yes {code}"));
    assert!(rig.next_message(at).await.contains("are now one person"));
    assert!(rig.next_message(joins).await.contains("are now one person"));
}

#[tokio::test]
async fn linked_accounts_lose_their_access_together() {
    for (revoked, linked) in [(STRANGER, OTHER), (OTHER, STRANGER)] {
        let mut rig = with_paired(by_pairing_only(), &[STRANGER, OTHER]).await;
        link(&mut rig, (OTHER, OTHER), STRANGER).await;
        assert!(rig.next_message("1").await.contains("are now one person"));
        let both = replies::revoked_with_linked(revoked, &[format!("{linked} on home")]);
        assert_eq!(revoke(&mut rig, revoked).await, both);
        is_stranger(&mut rig, STRANGER).await;
        is_stranger(&mut rig, OTHER).await;
        rig.finish().await;
    }
}

#[tokio::test]
async fn an_account_that_is_linked_to_the_owner_is_parted_and_the_owner_stays() {
    let mut rig = with_paired(by_pairing_only(), &[STRANGER]).await;
    link(&mut rig, (OWNER, "1"), STRANGER).await;
    rig.say_as(STRANGER, STRANGER, "/whoami");
    assert!(rig.next_message(STRANGER).await.contains("Your role is owner."));
    // It is the owner who asks last, at whose address the owner is told everything.
    assert_eq!(rig.ask("1", "still there?").await, "re: still there?");
    assert_eq!(revoke(&mut rig, STRANGER).await, replies::revoked(STRANGER));
    is_stranger(&mut rig, STRANGER).await;
    assert_eq!(rig.ask("1", "and me?").await, "re: and me?");
    assert_ne!(number(&rig, STRANGER), number(&rig, OWNER));
    rig.finish().await;
}

#[tokio::test]
async fn who_keeps_access_by_the_config_is_not_said_to_have_none() {
    let mut rig = with_paired(open_to_all(), &[STRANGER]).await;
    order(&mut rig, "admin", STRANGER).await;
    let still = replies::has_access_by_config(STRANGER, "guest");
    assert_eq!(revoke(&mut rig, STRANGER).await, still);
    rig.say_as(STRANGER, STRANGER, "/whoami");
    assert!(rig.next_message(STRANGER).await.contains("Your role is guest."));
    rig.finish().await;
}

#[tokio::test]
async fn nothing_goes_on_for_somebody_whose_access_is_revoked() {
    let mut rig = with_paired(by_pairing_only(), &[STRANGER]).await;
    let gate = Gate::shut();
    rig.model.on("paint", [held(&gate, says("lost"))]);
    rig.say_as(STRANGER, STRANGER, "paint it");
    rig.wait_at(&gate).await;
    assert_eq!(revoke(&mut rig, STRANGER).await, replies::revoked(STRANGER));
    assert_eq!(rig.next_message(STRANGER).await, replies::ACCESS_HAS_ENDED);
    gate.open();
    rig.settled().await;
    assert_eq!(rig.unread(STRANGER), Vec::<String>::new());
    rig.finish().await;
}

#[tokio::test]
async fn a_question_ends_with_a_revoked_access_whatever_the_role_was() {
    let mut rig = with_paired(by_pairing_only(), &[STRANGER]).await;
    order(&mut rig, "admin", STRANGER).await;
    rig.model.on(
        "paint",
        [calls(&[("ask_question", json!({"question": "Which?", "choices": ["red"]}))])],
    );
    rig.say_as(STRANGER, STRANGER, "paint it");
    let question = rig.next_message(STRANGER).await;
    assert!(question.starts_with("Which?"), "{question}");
    assert_eq!(revoke(&mut rig, STRANGER).await, replies::revoked(STRANGER));
    let withdrawn = rig.next_message(STRANGER).await;
    assert!(withdrawn.ends_with(&replies::closed("", replies::NO_LONGER_NEEDED)), "{withdrawn}");
    assert_eq!(rig.query("SELECT state FROM asks"), ["cancelled"]);
    is_stranger(&mut rig, STRANGER).await;
    rig.finish().await;
}

#[tokio::test]
async fn who_was_paired_as_an_owner_and_is_linked_to_the_owner_loses_that_at_once() {
    let mut rig = with_paired(by_pairing_only(), &[STRANGER]).await;
    link(&mut rig, (OWNER, "1"), STRANGER).await;
    rig.execute("UPDATE people SET role = '\"owner\"'");
    assert_eq!(revoke(&mut rig, STRANGER).await, replies::revoked(STRANGER));
    is_stranger(&mut rig, STRANGER).await;
    rig.say("1", "/whoami");
    assert!(rig.next_message("1").await.contains("Your role is owner."));
    rig.finish().await;
}

#[tokio::test]
async fn a_link_to_somebody_in_the_config_keeps_nobody_in_who_is_revoked() {
    for (admins, role) in [(vec![], "user"), (vec![OTHER.to_owned()], "admin")] {
        let mut parts = by_pairing_only();
        parts.access.allow.push(OTHER.to_owned());
        parts.access.admins = admins;
        let mut rig = with_paired(parts, &[STRANGER]).await;
        rig.say_as(OTHER, OTHER, "hello");
        assert_eq!(rig.next_message(OTHER).await, "re: hello");
        link(&mut rig, (OTHER, OTHER), STRANGER).await;
        assert!(rig.next_message("1").await.contains("are now one person"));
        assert_eq!(revoke(&mut rig, STRANGER).await, replies::revoked(STRANGER));
        is_stranger(&mut rig, STRANGER).await;
        assert_eq!(revoke(&mut rig, STRANGER).await, replies::not_paired(STRANGER));
        // The account that the config names stays.
        rig.say_as(OTHER, OTHER, "/whoami");
        let said = rig.next_message(OTHER).await;
        assert!(said.contains(&format!("Your role is {role}.")), "{said}");
        rig.finish().await;
    }
}

#[tokio::test]
async fn what_is_for_the_owner_reaches_no_account_that_is_not_theirs_any_more() {
    // From the account itself, so that it is the last one in which an owner wrote.
    for command in ["/unlink", "/pair revoke home 66"] {
        let mut rig = with_paired(by_pairing_only(), &[STRANGER]).await;
        link(&mut rig, (OWNER, "1"), STRANGER).await;
        rig.say_as(STRANGER, STRANGER, command);
        let said = rig.next_message(STRANGER).await;
        assert!(said == replies::UNLINKED || said == replies::revoked(STRANGER), "{said}");
        is_stranger(&mut rig, OTHER).await;
        assert_eq!(rig.unread(STRANGER), Vec::<String>::new());
        rig.finish().await;
    }
}

#[tokio::test]
async fn what_is_for_the_owner_reaches_nobody_whom_the_config_names_no_more() {
    let mut parts = by_pairing_only();
    parts.access.owners.push(OTHER.to_owned());
    let mut rig = Rig::of(parts).await;
    rig.ask("1", "hello").await;
    rig.say_as(OTHER, OTHER, "hello");
    assert_eq!(rig.next_message(OTHER).await, "re: hello");
    rig.stop().await;
    rig.parts.access.owners.retain(|id| id != OTHER);
    rig.start().await;
    is_stranger(&mut rig, STRANGER).await;
    assert_eq!(rig.unread(OTHER), Vec::<String>::new());
    rig.finish().await;
}
