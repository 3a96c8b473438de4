//! Accounts are linked and parted: nobody gets back by that what the owner has taken from them.

use peacrab::replies;

use super::revoking::{OTHER, by_pairing_only, link, with_paired};
use super::{code_in, number};
use crate::support::rig::{Rig, STRANGER};

/// The owner changes something about somebody's person.
async fn order(rig: &mut Rig, verb: &str, who: &str) {
    let order = format!("/people {verb} {}", number(rig, who));
    let said = rig.ask("1", &order).await;
    assert!(said.starts_with("Person 6"), "{said}");
}

async fn role_is(rig: &mut Rig, who: &str, role: &str) {
    rig.say_as(who, who, "/whoami");
    let said = rig.next_message(who).await;
    assert!(said.contains(&format!("Your role is {role}.")), "{said}");
}

async fn unlink(rig: &mut Rig, who: &str) {
    rig.say_as(who, who, "/unlink");
    assert_eq!(rig.next_message(who).await, replies::UNLINKED);
}

#[tokio::test]
async fn parting_is_no_way_around_a_lower_role() {
    let mut rig = with_paired(by_pairing_only(), &[STRANGER, OTHER]).await;
    link(&mut rig, (OTHER, OTHER), STRANGER).await;
    assert!(rig.next_message("1").await.contains("are now one person"));
    order(&mut rig, "guest", OTHER).await;
    role_is(&mut rig, STRANGER, "guest").await;
    unlink(&mut rig, STRANGER).await;
    role_is(&mut rig, STRANGER, "guest").await;
    role_is(&mut rig, OTHER, "guest").await;
    // The owner gives it back.
    order(&mut rig, "user", STRANGER).await;
    role_is(&mut rig, STRANGER, "user").await;
    rig.finish().await;
}

#[tokio::test]
async fn a_higher_role_ends_with_the_link() {
    let mut rig = with_paired(by_pairing_only(), &[STRANGER, OTHER]).await;
    link(&mut rig, (OTHER, OTHER), STRANGER).await;
    assert!(rig.next_message("1").await.contains("are now one person"));
    order(&mut rig, "admin", OTHER).await;
    role_is(&mut rig, STRANGER, "admin").await;
    unlink(&mut rig, STRANGER).await;
    role_is(&mut rig, STRANGER, "user").await;
    role_is(&mut rig, OTHER, "admin").await;
    rig.finish().await;
}

#[tokio::test]
async fn a_lower_role_is_back_when_a_link_to_a_higher_one_ends() {
    let mut rig = with_paired(by_pairing_only(), &[STRANGER, OTHER]).await;
    order(&mut rig, "guest", STRANGER).await;
    link(&mut rig, (OTHER, OTHER), STRANGER).await;
    assert!(rig.next_message("1").await.contains("are now one person"));
    role_is(&mut rig, STRANGER, "user").await;
    unlink(&mut rig, STRANGER).await;
    role_is(&mut rig, STRANGER, "guest").await;
    rig.finish().await;
}

/// Somebody has got a code, and loses their access by this.
async fn code_of_who_loses_access(rig: &mut Rig, by: &str) -> String {
    rig.say_as(STRANGER, STRANGER, "/link");
    let code = code_in(&rig.next_message(STRANGER).await);
    rig.ask("1", by).await;
    code
}

/// The ways in which the stranger's access ends.
fn ways(rig: &Rig) -> [String; 3] {
    let them = number(rig, STRANGER);
    let revoked = format!("/pair revoke home {STRANGER}");
    [format!("/people block {them}"), format!("/people remove {them}"), revoked]
}

#[tokio::test]
async fn a_code_is_void_once_an_account_has_no_access() {
    for way in 0..3 {
        let mut rig = with_paired(by_pairing_only(), &[STRANGER, OTHER]).await;
        let by = ways(&rig)[way].clone();
        let code = code_of_who_loses_access(&mut rig, &by).await;
        rig.say_as(OTHER, OTHER, &format!("/link {code}"));
        assert_eq!(rig.next_message(OTHER).await, replies::LINK_UNKNOWN, "{by}");
        rig.finish().await;
    }
}

#[tokio::test]
async fn a_link_is_not_confirmed_once_an_account_has_no_access() {
    for way in 0..3 {
        let mut rig = with_paired(by_pairing_only(), &[STRANGER, OTHER]).await;
        rig.say_as(OTHER, OTHER, "/link");
        let code = code_in(&rig.next_message(OTHER).await);
        rig.say_as(STRANGER, STRANGER, &format!("/link {code}"));
        assert_eq!(rig.next_message(STRANGER).await, replies::LINK_WAITS);
        assert!(rig.next_message(OTHER).await.contains("become one person"));
        let by = ways(&rig)[way].clone();
        rig.ask("1", &by).await;
        rig.say_as(OTHER, OTHER, &format!("/link yes {code}"));
        assert_eq!(rig.next_message(OTHER).await, replies::LINK_UNKNOWN, "{by}");
        rig.finish().await;
    }
}

#[tokio::test]
async fn a_link_is_not_confirmed_after_a_block_by_an_older_version() {
    let mut rig = with_paired(by_pairing_only(), &[STRANGER, OTHER]).await;
    rig.say_as(STRANGER, STRANGER, "/link");
    let code = code_in(&rig.next_message(STRANGER).await);
    // The code is still there.
    rig.execute("UPDATE persons SET blocked = 1 WHERE name = 'Person 66'");
    rig.say_as(OTHER, OTHER, &format!("/link {code}"));
    assert_eq!(rig.next_message(OTHER).await, replies::LINK_UNKNOWN);
    rig.say_as(STRANGER, STRANGER, "let me in");
    assert_eq!(rig.ask("1", "still there?").await, "re: still there?");
    rig.settled().await;
    assert_eq!(rig.unread(STRANGER), Vec::<String>::new());
    rig.finish().await;
}
