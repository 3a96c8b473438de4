//! A backup is restored over the home that has gone on: what was taken from people since is not given back to them, and what
//! they were given since is only listed.

use std::fs;
use std::path::{Path, PathBuf};

use chrono::Utc;
use peacrab::backup::archive;
use peacrab::backup::restore::{self, Existing};
use peacrab::replies::{self, RestoredAccess};

use super::revoking::{OTHER, by_pairing_only, link, with_paired};
use super::{number, open_to_all};
use crate::support::damage::damage;
use crate::support::rig::{OWNER, Rig, STRANGER};

fn back_up(rig: &Rig) -> PathBuf {
    let file = rig.path().with_file_name("kept.tar.gz");
    archive::write(&rig.path(), &file, Utc::now()).unwrap();
    file
}

/// Stops the daemon and restores a backup over its home.
async fn restore_over(rig: &mut Rig, file: &Path) -> RestoredAccess {
    rig.settled().await;
    rig.stop().await;
    let restored = restore::restore(&rig.path(), file, Existing::Replace, Utc::now()).unwrap();
    restored.work.access
}

/// The same, and starts the daemon again, which tells the owner.
async fn restored(rig: &mut Rig, file: &Path) -> RestoredAccess {
    let access = restore_over(rig, file).await;
    rig.start().await;
    is_told(rig).await;
    access
}

async fn is_told(rig: &mut Rig) -> String {
    let told = rig.next_message("1").await;
    assert!(told.starts_with("I was restored from a backup of"), "{told}");
    told
}

/// The owner changes somebody's role, or blocks or removes them.
async fn order(rig: &mut Rig, verb: &str, who: &str) {
    let order = format!("/people {verb} {}", number(rig, who));
    let said = rig.ask("1", &order).await;
    assert!(said.starts_with("Person 6"), "{said}");
}

async fn revoke(rig: &mut Rig, who: &str) {
    let said = rig.ask("1", &format!("/pair revoke home {who}")).await;
    assert_eq!(said, replies::revoked(who));
}

/// Somebody is paired, and has not written yet.
fn pair(rig: &Rig, who: &str, role: &str) {
    rig.execute(&format!(
        "INSERT INTO people (channel, sender, name, role, since)
         VALUES ('home', '{who}', 'Person {who}', '\"{role}\"', 1)"
    ));
}

async fn speaks(rig: &mut Rig, who: &str) {
    rig.say_as(who, who, "hello");
    // It goes on where the memory was changed meanwhile.
    let said = rig.next_message(who).await;
    assert!(said.starts_with("re: hello"), "{said}");
}

async fn role_is(rig: &mut Rig, who: &str, role: &str) {
    rig.say_as(who, who, "/whoami");
    let said = rig.next_message(who).await;
    assert!(said.contains(&format!("Your role is {role}.")), "{said}");
}

/// Somebody is a stranger, of whom the owner is asked.
async fn is_stranger(rig: &mut Rig, who: &str) {
    rig.say_as(who, who, "let me in");
    let heard = rig.next_message(who).await;
    assert!(heard.starts_with("I don't know you yet."), "{heard}");
    assert!(rig.next_message("1").await.contains("wants to talk to me"));
}

/// Somebody is blocked, and gets no answer.
async fn is_blocked(rig: &mut Rig, who: &str) {
    rig.say_as(who, who, "let me in");
    assert_eq!(rig.ask("1", "still there?").await, "re: still there?");
    assert_eq!(rig.unread(who), Vec::<String>::new());
}

#[tokio::test]
async fn what_was_taken_from_people_since_the_backup_is_taken_again() {
    let mut rig = with_paired(by_pairing_only(), &["61", "62", "63", "64"]).await;
    order(&mut rig, "admin", "64").await;
    let file = back_up(&rig);
    revoke(&mut rig, "61").await;
    order(&mut rig, "block", "62").await;
    order(&mut rig, "remove", "63").await;
    order(&mut rig, "guest", "64").await;
    let access = restored(&mut rig, &file).await;
    let taken = [
        "Person 61, 61 on home: no role (in the backup: user)",
        "Person 62, 62 on home: blocked",
        "Person 63, 63 on home: removed",
        "Person 64, 64 on home: guest (in the backup: admin)",
    ];
    let taken = taken.map(str::to_owned).to_vec();
    assert_eq!(access, RestoredAccess { is_known: true, taken, given: Vec::new() });
    is_stranger(&mut rig, "61").await;
    is_stranger(&mut rig, "63").await;
    is_blocked(&mut rig, "62").await;
    role_is(&mut rig, "64", "guest").await;
    // The owner gives it back.
    order(&mut rig, "unblock", "62").await;
    speaks(&mut rig, "62").await;
    rig.finish().await;
}

#[tokio::test]
async fn what_people_were_given_since_the_backup_is_listed_and_not_kept() {
    let mut rig = with_paired(by_pairing_only(), &["61", "62"]).await;
    order(&mut rig, "block", "62").await;
    let file = back_up(&rig);
    order(&mut rig, "admin", "61").await;
    order(&mut rig, "unblock", "62").await;
    pair(&rig, "65", "user");
    speaks(&mut rig, "65").await;
    let access = restore_over(&mut rig, &file).await;
    let given = [
        "Person 61, 61 on home: admin (in the backup: user)",
        "Person 62, 62 on home: unblocked",
        "Person 65, 65 on home: user (in the backup: no role)",
    ];
    assert_eq!(access.given, given);
    assert_eq!(access.taken, Vec::<String>::new());
    rig.start().await;
    let told = is_told(&mut rig).await;
    for line in given {
        assert!(told.contains(&format!("\n- {line}")), "{line}: {told}");
    }
    role_is(&mut rig, "61", "user").await;
    is_blocked(&mut rig, "62").await;
    is_stranger(&mut rig, "65").await;
    rig.finish().await;
}

/// The number of persons who have the two accounts.
fn persons(rig: &Rig) -> Vec<String> {
    rig.query(
        "SELECT CAST(count(DISTINCT person) AS TEXT) FROM accounts WHERE sender IN ('66', '67')",
    )
}

#[tokio::test]
async fn accounts_are_linked_after_a_restore_only_if_they_were_before_and_after_the_backup() {
    for is_linked_in_backup in [true, false] {
        let mut rig = with_paired(by_pairing_only(), &[STRANGER, OTHER]).await;
        let links = async |rig: &mut Rig| {
            link(rig, (OTHER, OTHER), STRANGER).await;
            assert!(rig.next_message("1").await.contains("are now one person"));
        };
        let mut expected = RestoredAccess { is_known: true, taken: Vec::new(), given: Vec::new() };
        let file = if is_linked_in_backup {
            links(&mut rig).await;
            let file = back_up(&rig);
            rig.say_as(STRANGER, STRANGER, "/unlink");
            assert_eq!(rig.next_message(STRANGER).await, replies::UNLINKED);
            let unlinked = "Person 66, 66 on home: no longer linked to the other accounts";
            expected.taken.push(unlinked.to_owned());
            file
        } else {
            let file = back_up(&rig);
            links(&mut rig).await;
            expected.given.push("Person 66, 66 on home, 67 on home: linked accounts".to_owned());
            file
        };
        assert_eq!(restored(&mut rig, &file).await, expected);
        assert_eq!(persons(&rig), ["2"], "{is_linked_in_backup}");
        role_is(&mut rig, STRANGER, "user").await;
        role_is(&mut rig, OTHER, "user").await;
        rig.finish().await;
    }
}

#[tokio::test]
async fn a_link_that_was_there_all_the_time_stays() {
    let mut rig = with_paired(by_pairing_only(), &[STRANGER, OTHER]).await;
    link(&mut rig, (OTHER, OTHER), STRANGER).await;
    assert!(rig.next_message("1").await.contains("are now one person"));
    let file = back_up(&rig);
    order(&mut rig, "guest", OTHER).await;
    let access = restored(&mut rig, &file).await;
    let lowered = "Person 66, 66 on home, 67 on home: guest (in the backup: user)";
    assert_eq!(access.taken, [lowered]);
    assert_eq!(persons(&rig), ["1"]);
    role_is(&mut rig, STRANGER, "guest").await;
    // Nor does parting give the higher role back.
    rig.say_as(STRANGER, STRANGER, "/unlink");
    assert_eq!(rig.next_message(STRANGER).await, replies::UNLINKED);
    role_is(&mut rig, STRANGER, "guest").await;
    rig.finish().await;
}

#[tokio::test]
async fn an_account_has_after_a_restore_what_it_would_have_without_a_later_link() {
    let mut rig = with_paired(by_pairing_only(), &[STRANGER, OTHER]).await;
    order(&mut rig, "admin", STRANGER).await;
    let file = back_up(&rig);
    order(&mut rig, "user", STRANGER).await;
    order(&mut rig, "admin", OTHER).await;
    link(&mut rig, (OTHER, OTHER), STRANGER).await;
    assert!(rig.next_message("1").await.contains("are now one person"));
    let access = restored(&mut rig, &file).await;
    assert_eq!(access.taken, ["Person 66, 66 on home: user (in the backup: admin)"]);
    assert_eq!(access.given[1..], ["Person 67, 67 on home: admin (in the backup: user)"]);
    role_is(&mut rig, STRANGER, "user").await;
    role_is(&mut rig, OTHER, "user").await;

    // One that others were linked to keeps what it had.
    order(&mut rig, "admin", STRANGER).await;
    fs::remove_file(&file).unwrap();
    let file = back_up(&rig);
    link(&mut rig, (STRANGER, STRANGER), OTHER).await;
    assert!(rig.next_message("1").await.contains("are now one person"));
    let access = restored(&mut rig, &file).await;
    assert_eq!(access.taken, Vec::<String>::new());
    role_is(&mut rig, STRANGER, "admin").await;
    role_is(&mut rig, OTHER, "user").await;
    rig.finish().await;
}

#[tokio::test]
async fn what_was_taken_from_one_of_two_unlinked_accounts_is_not_taken_from_the_other() {
    for (verb, right) in [("remove", "removed"), ("block", "blocked")] {
        let mut rig = with_paired(by_pairing_only(), &[STRANGER, OTHER]).await;
        link(&mut rig, (OTHER, OTHER), STRANGER).await;
        assert!(rig.next_message("1").await.contains("are now one person"));
        let file = back_up(&rig);
        rig.say_as(STRANGER, STRANGER, "/unlink");
        assert_eq!(rig.next_message(STRANGER).await, replies::UNLINKED);
        order(&mut rig, verb, OTHER).await;
        let access = restored(&mut rig, &file).await;
        let unlinked = "Person 66, 66 on home: no longer linked to the other accounts".to_owned();
        assert_eq!(access.taken, [unlinked, format!("Person 67, 67 on home: {right}")]);
        role_is(&mut rig, STRANGER, "user").await;
        match verb {
            "remove" => is_stranger(&mut rig, OTHER).await,
            _ => is_blocked(&mut rig, OTHER).await,
        }
        rig.finish().await;
    }
}

#[tokio::test]
async fn who_came_after_the_backup_and_was_blocked_stays_blocked() {
    let mut rig = Rig::of(open_to_all()).await;
    rig.ask("1", "hello").await;
    let file = back_up(&rig);
    speaks(&mut rig, STRANGER).await;
    order(&mut rig, "block", STRANGER).await;
    let access = restored(&mut rig, &file).await;
    assert_eq!(access.taken, ["Person 66, 66 on home: blocked"]);
    is_blocked(&mut rig, STRANGER).await;
    rig.finish().await;
}

#[tokio::test]
async fn who_was_revoked_before_they_wrote_stays_a_stranger() {
    let mut rig = Rig::of(by_pairing_only()).await;
    rig.ask("1", "hello").await;
    pair(&rig, "61", "user");
    let file = back_up(&rig);
    revoke(&mut rig, "61").await;
    let access = restored(&mut rig, &file).await;
    assert_eq!(access.taken, ["Person 61, 61 on home: no role (in the backup: user)"]);
    is_stranger(&mut rig, "61").await;
    rig.finish().await;
}

#[tokio::test]
async fn who_was_removed_and_came_back_is_removed_again() {
    let mut rig = with_paired(by_pairing_only(), &["61"]).await;
    let file = back_up(&rig);
    order(&mut rig, "remove", "61").await;
    pair(&rig, "61", "user");
    speaks(&mut rig, "61").await;
    let access = restored(&mut rig, &file).await;
    assert_eq!(access.taken, ["Person 61, 61 on home: removed"]);
    assert_eq!(access.given, ["Person 61, 61 on home: user (in the backup: no role)"]);
    assert_eq!(rig.query("SELECT CAST(removals AS TEXT) FROM former_accounts"), ["1"]);
    is_stranger(&mut rig, "61").await;
    rig.finish().await;
}

/// The owner spoke last with an account that was linked after the backup, and that is a guest's now.
#[tokio::test]
async fn an_account_that_became_the_owners_after_the_backup_hears_nothing_of_what_was_pending() {
    let mut rig = Rig::of(open_to_all()).await;
    rig.ask("1", "hello").await;
    let file = back_up(&rig);
    speaks(&mut rig, STRANGER).await;
    link(&mut rig, (OWNER, "1"), STRANGER).await;
    role_is(&mut rig, STRANGER, "owner").await;
    speaks(&mut rig, STRANGER).await;
    let access = restored(&mut rig, &file).await;
    assert_eq!(access.taken, Vec::<String>::new());
    let [given] = &access.given[..] else { panic!("{access:?}") };
    assert!(given.ends_with("66 on home, 7 on home: linked accounts"), "{given}");
    assert_eq!(rig.unread(STRANGER), Vec::<String>::new());
    role_is(&mut rig, STRANGER, "guest").await;
    rig.finish().await;
}

/// The backup was made when somebody else was the owner, too, who spoke last.
#[tokio::test]
async fn a_former_owner_hears_nothing_of_what_was_pending() {
    let mut rig = with_paired(by_pairing_only(), &[]).await;
    pair(&rig, "61", "owner");
    speaks(&mut rig, "61").await;
    let file = back_up(&rig);
    revoke(&mut rig, "61").await;
    restored(&mut rig, &file).await;
    assert_eq!(rig.unread("61"), Vec::<String>::new());
    is_stranger(&mut rig, "61").await;
    rig.finish().await;
}

#[tokio::test]
async fn permanent_approvals_stay_only_if_they_are_there_before_and_after_the_backup() {
    let mut rig = with_paired(by_pairing_only(), &["61"]).await;
    let grant = |rig: &Rig, tool: &str| {
        rig.execute(&format!(
            "INSERT INTO grants (channel, sender, tool, since) VALUES ('home', '61', '{tool}', 1)"
        ));
    };
    grant(&rig, "shell");
    grant(&rig, "undo");
    let file = back_up(&rig);
    assert_eq!(rig.ask("1", "/deny shell").await, replies::revoked_grants("shell", 1));
    grant(&rig, "forget");
    let access = restored(&mut rig, &file).await;
    assert_eq!(access.taken, ["61 on home: shell always approved"]);
    assert_eq!(access.given, ["61 on home: forget always approved"]);
    assert_eq!(rig.query("SELECT tool FROM grants"), ["undo"]);
    rig.finish().await;
}

/// A number of the store.
fn number_by(rig: &Rig, sql: &str) -> i64 {
    rig.query(sql).remove(0).parse().unwrap()
}

const TOLD_AS: &str =
    "SELECT CAST(max(id) AS TEXT) FROM outbox WHERE body LIKE '%I was restored from%'";

#[tokio::test]
async fn a_message_after_a_restore_has_no_number_of_one_after_the_backup() {
    let mut rig = with_paired(by_pairing_only(), &["61"]).await;
    let file = back_up(&rig);
    rig.ask("1", "one").await;
    rig.ask("1", "two").await;
    let newest = number_by(&rig, "SELECT CAST(max(id) AS TEXT) FROM outbox");
    restored(&mut rig, &file).await;
    assert!(number_by(&rig, TOLD_AS) > newest);
    rig.finish().await;
}

#[tokio::test]
async fn where_nothing_is_known_of_the_time_since_the_owner_is_asked_to_look() {
    let mut rig = with_paired(by_pairing_only(), &["61"]).await;
    // The newest ones are deleted.
    rig.execute("UPDATE sqlite_sequence SET seq = 2000000 WHERE name = 'outbox'");
    let file = back_up(&rig);
    revoke(&mut rig, "61").await;
    rig.settled().await;
    rig.stop().await;
    let look = "roles and blocks are those of that time: please look at `peacrab people`.";
    let elsewhere = rig.path().with_file_name("elsewhere");
    let moved = restore::restore(&elsewhere, &file, Existing::Refuse, Utc::now()).unwrap();
    assert_eq!(moved.work.access, RestoredAccess::default());
    assert!(moved.pending.contains(look), "{moved:?}");
    damage(&rig.path().join("state.db"), "persons");
    let damaged = restore::restore(&rig.path(), &file, Existing::Replace, Utc::now()).unwrap();
    assert_eq!(damaged.work.access, RestoredAccess::default());
    rig.start().await;
    let told = is_told(&mut rig).await;
    assert!(told.contains(look), "{told}");
    // A button of a message after the backup is none of the next ones.
    assert!(number_by(&rig, TOLD_AS) > 3_000_000);
    speaks(&mut rig, "61").await;
    rig.finish().await;
}

/// A home that was begun anew has the same people by its config, and knows nothing of what was taken from them.
#[tokio::test]
async fn a_home_that_was_begun_anew_takes_nothing_from_anybody() {
    let mut rig = with_paired(by_pairing_only(), &["61"]).await;
    order(&mut rig, "admin", "61").await;
    let file = back_up(&rig);
    rig.settled().await;
    rig.stop().await;
    fs::rename(rig.path(), rig.path().with_file_name("away")).unwrap();
    rig.start().await;
    rig.ask("1", "hello").await;
    let access = restored(&mut rig, &file).await;
    assert_eq!(access, RestoredAccess::default());
    role_is(&mut rig, "61", "admin").await;
    rig.finish().await;
}

#[tokio::test]
async fn a_restore_that_is_cut_off_or_repeated_takes_the_same() {
    let mut rig = with_paired(by_pairing_only(), &["61", "62"]).await;
    let file = back_up(&rig);
    revoke(&mut rig, "61").await;
    order(&mut rig, "remove", "62").await;
    let taken =
        ["Person 61, 61 on home: no role (in the backup: user)", "Person 62, 62 on home: removed"];
    // A crash before it was decided has changed nothing.
    let home = rig.path();
    rig.settled().await;
    rig.stop().await;
    let partial = home.join("restore.partial");
    fs::create_dir(&partial).unwrap();
    fs::write(partial.join("state.db"), "half").unwrap();
    rig.start().await;
    assert_eq!(restore_over(&mut rig, &file).await.taken, taken);
    // As a crash after that leaves it: the store is not moved.
    let mut entries = fs::read_dir(&home).unwrap().map(|it| it.unwrap().path());
    let before = entries.find(|it| it.to_str().unwrap().contains("before-restore")).unwrap();
    let ready = home.join("restore.ready");
    fs::create_dir(&ready).unwrap();
    fs::write(ready.join("before"), before.to_str().unwrap()).unwrap();
    fs::rename(home.join("state.db"), ready.join("state.db")).unwrap();
    fs::rename(before.join("state.db"), home.join("state.db")).unwrap();
    restore::finish(&home).unwrap();
    rig.start().await;
    is_told(&mut rig).await;
    is_stranger(&mut rig, "61").await;
    // The restored home knows it, too.
    assert_eq!(restored(&mut rig, &file).await.taken, taken);
    is_stranger(&mut rig, "62").await;
    rig.finish().await;
}
