//! Persons: who they are, what the owner decides of them, and accounts that become one person's.

mod folders;
mod isolation;
mod links;
mod orders;
mod removal;
mod restored;
mod revoking;
mod telling;

use std::sync::Arc;

use peacrab::config::AgentConfig;
use peacrab::conversation::asks::{ApprovalSettings, Approvals};
use peacrab::people::Access;
use peacrab::replies;
use peacrab::types::message::Sender;
use peacrab::types::session::QueueMode;
use serde_json::json;

use crate::support::fake_channel::FakeChannel;
use crate::support::rig::{OTHER_USER, OWNER, Rig, RigOptions, STRANGER, USER};
use crate::support::script::{Gate, calls, held, says};

fn open_to_all() -> RigOptions {
    let access = Access {
        owners: vec![OWNER.to_owned()],
        admins: Vec::new(),
        allow: vec![USER.to_owned(), "*".to_owned()],
        ..Access::default()
    };
    RigOptions { access, ..RigOptions::default() }
}

/// The number of an account's person.
fn number(rig: &Rig, sender: &str) -> String {
    let sql = format!("SELECT 'p' || person FROM accounts WHERE sender = '{sender}'");
    rig.query(&sql).remove(0)
}

#[tokio::test]
async fn everybody_who_is_let_in_is_a_person_with_a_number() {
    let mut rig = Rig::of(open_to_all()).await;
    assert_eq!(rig.ask("1", "hello").await, "re: hello");
    rig.say_as(STRANGER, "66", "hello");
    rig.next_message("66").await;
    rig.say_as(USER, "-1", "hello");
    rig.next_message("-1").await;
    let shown = rig.ask("1", "/people").await;
    for line in [
        format!("\n{} Person 66: guest, seen today", number(&rig, STRANGER)),
        format!("\n{} Person 8: user, by the config, seen today", number(&rig, USER)),
        format!("\n{} Person 7: owner, by the config, seen today", number(&rig, OWNER)),
    ] {
        assert!(shown.contains(&line), "{line}\n{shown}");
    }
    rig.say_as(USER, "2", "/people");
    assert_eq!(rig.next_message("2").await, replies::PEOPLE_FOR_OWNER);
    assert_eq!(rig.ask("1", "/people nobody").await, replies::PEOPLE_USAGE);
    assert_eq!(rig.ask("1", "/people p99").await, replies::NO_SUCH_PERSON);
    rig.finish().await;
}

#[tokio::test]
async fn the_owner_changes_roles_at_once_and_the_config_stays_the_operators() {
    let mut rig = Rig::of(open_to_all()).await;
    rig.ask("1", "hello").await;
    rig.say_as(STRANGER, "66", "hello");
    rig.next_message("66").await;
    let them = number(&rig, STRANGER);
    let set = rig.ask("1", &format!("/people admin {them}")).await;
    assert_eq!(set, replies::role_is_set("Person 66", "admin"));
    rig.say_as(STRANGER, "66", "/whoami");
    assert!(rig.next_message("66").await.contains("Your role is admin."));
    assert_eq!(
        rig.ask("1", &format!("/people guest {them}")).await,
        replies::role_is_set("Person 66", "guest")
    );
    rig.stop_and_start_again().await;
    rig.say_as(STRANGER, "66", "/whoami");
    assert!(rig.next_message("66").await.contains("Your role is guest."));
    // Nobody makes an owner so, and nobody changes who stands in the config.
    let wrong = rig.ask("1", &format!("/people owner {them}")).await;
    assert_eq!(wrong, replies::PEOPLE_USAGE);
    rig.say_as(USER, "2", "hello");
    rig.next_message("2").await;
    for verb in ["guest", "block", "remove"] {
        let fixed = rig.ask("1", &format!("/people {verb} {}", number(&rig, USER))).await;
        assert_eq!(fixed, replies::role_is_the_configs("Person 8"));
    }
    let own = rig.ask("1", &format!("/people block {}", number(&rig, OWNER))).await;
    assert_eq!(own, replies::role_is_the_configs("Person 7"));
    rig.finish().await;
}

#[tokio::test]
async fn an_approval_after_a_demotion_is_said_to_be_in_vain() {
    let approvals = Approvals { tools: vec!["write_file".to_owned()], roles: Vec::new() };
    let asking = ApprovalSettings { approvals, ..ApprovalSettings::default() };
    let agent = AgentConfig { asking, ..AgentConfig::default() };
    let mut rig = Rig::of(RigOptions { agent, ..open_to_all() }).await;
    rig.ask("1", "hello").await;
    rig.say_as(STRANGER, "66", "hello");
    rig.next_message("66").await;
    let them = number(&rig, STRANGER);
    rig.ask("1", &format!("/people user {them}")).await;
    let writes = calls(&[("write_file", json!({"path": "note.md", "content": "x"}))]);
    rig.model.on("write", [writes, says("I could not.")]);
    rig.say_as(STRANGER, "66", "write it");
    assert_eq!(rig.next_message("66").await, replies::ASKED_ELSEWHERE);
    assert!(rig.next_message("1").await.contains("Approve?"));
    rig.ask("1", &format!("/people guest {them}")).await;
    rig.say("1", "/approve 1");
    let heard = rig.next_messages("1", 2).await;
    let in_vain = replies::approved_in_vain("write_file", Sender::person(STRANGER, "Person 66"));
    assert!(heard.contains(&in_vain), "{heard:?}");
    assert_eq!(rig.next_message("66").await, "I could not.");
    assert!(rig.model.last().transcript().contains("needs the role"));
    rig.finish().await;
}

#[tokio::test]
async fn who_is_blocked_hears_nothing_and_who_is_removed_is_new() {
    let mut rig = Rig::of(open_to_all()).await;
    rig.ask("1", "hello").await;
    rig.say_as(STRANGER, "66", "hello");
    rig.next_message("66").await;
    let them = number(&rig, STRANGER);
    let blocked = rig.ask("1", &format!("/people block {them}")).await;
    assert_eq!(blocked, replies::person_is_blocked("Person 66"));
    rig.say_as(STRANGER, "66", "let me in");
    rig.say_as(STRANGER, "-1", "and here?");
    assert_eq!(rig.ask("1", "still there?").await, "re: still there?");
    rig.settled().await;
    assert_eq!((rig.unread("66"), rig.unread("-1")), (Vec::new(), Vec::new()));
    assert!(rig.ask("1", "/people").await.contains("Person 66: blocked"));
    let back = rig.ask("1", &format!("/people unblock {them}")).await;
    assert_eq!(back, replies::person_is_unblocked("Person 66"));
    rig.say_as(STRANGER, "66", "hello again");
    assert_eq!(rig.next_message("66").await, "re: hello again");
    let removed = rig.ask("1", &format!("/people remove {them}")).await;
    assert_eq!(removed, replies::person_is_removed("Person 66", &them));
    rig.say_as(STRANGER, "66", "hello once more");
    assert_eq!(rig.next_message("66").await, "re: hello once more");
    // Nor are the conversations from before theirs.
    rig.say_as(STRANGER, "66", "/sessions");
    let listed = rig.next_message("66").await;
    assert!(listed.contains("hello once more") && !listed.contains("hello again"), "{listed}");
    // The number is not used again.
    assert_ne!(number(&rig, STRANGER), them);
    rig.finish().await;
}

/// A stranger has a turn at work, and two messages that wait behind it.
async fn stranger_who_waits() -> (Rig, Gate) {
    let mut parts = open_to_all();
    parts.agent.queue = QueueMode::Followup;
    let mut rig = Rig::of(parts).await;
    rig.ask("1", "hello").await;
    let gate = Gate::shut();
    rig.model.on("tea", [held(&gate, says("tea"))]);
    rig.say_as(STRANGER, "66", "tea");
    rig.wait_at(&gate).await;
    rig.say_as(STRANGER, "66", "sugar");
    rig.say_as(STRANGER, "66", "milk");
    rig.waiting(2).await;
    (rig, gate)
}

#[tokio::test]
async fn the_waiting_messages_of_a_removed_person_are_not_answered() {
    let (mut rig, gate) = stranger_who_waits().await;
    let them = number(&rig, STRANGER);
    rig.ask("1", &format!("/people remove {them}")).await;
    rig.waiting(0).await;
    gate.open();
    rig.say_as(STRANGER, "66", "hello again");
    assert_eq!(rig.next_message("66").await, "re: hello again");
    rig.settled().await;
    assert_eq!(rig.unread("66"), Vec::<String>::new());
    let outcomes = rig.query("SELECT outcome FROM inbound WHERE chat = '66' ORDER BY id");
    assert_eq!(outcomes, ["stopped", "stopped", "stopped", "answered"]);
    rig.finish().await;
}

#[tokio::test]
async fn what_waits_of_somebody_without_access_reaches_no_model() {
    let (mut rig, gate) = stranger_who_waits().await;
    let them = number(&rig, STRANGER);
    let blocked = rig.ask("1", &format!("/people block {them}")).await;
    assert_eq!(blocked, replies::person_is_blocked("Person 66"));
    rig.waiting(0).await;
    gate.open();
    rig.settled().await;
    assert!(!rig.model.asked().iter().any(|it| it.transcript().contains("sugar")));
    // As with every message of somebody who is blocked, there is no word about it.
    assert_eq!(rig.unread("66"), Vec::<String>::new());
    let outcomes = rig.query("SELECT outcome FROM inbound WHERE chat = '66' ORDER BY id");
    assert_eq!(outcomes, ["stopped", "refused", "refused"]);
    rig.finish().await;
}

#[tokio::test]
async fn a_question_ends_with_the_access_of_its_person() {
    for verb in ["block", "remove"] {
        let mut rig = Rig::of(open_to_all()).await;
        rig.ask("1", "hello").await;
        let asks = calls(&[("ask_question", json!({"question": "Which?", "choices": ["red"]}))]);
        rig.model.on("paint", [asks]);
        rig.say_as(STRANGER, "66", "paint it");
        let question = rig.next_message("66").await;
        assert!(question.starts_with("Which?"), "{question}");
        let them = number(&rig, STRANGER);
        rig.ask("1", &format!("/people {verb} {them}")).await;
        let withdrawn = rig.next_message("66").await;
        assert!(
            withdrawn.ends_with(&replies::closed("", replies::NO_LONGER_NEEDED)),
            "{withdrawn}"
        );
        assert_eq!(rig.query("SELECT state FROM asks"), ["cancelled"], "{verb}");
        assert_eq!(rig.query("SELECT state FROM calls"), ["skipped"], "{verb}");
        rig.stop_and_start_again().await;
        if verb == "block" {
            rig.ask("1", &format!("/people unblock {them}")).await;
        }
        // It is no answer any more.
        rig.say_as(STRANGER, "66", "red");
        assert_eq!(rig.next_message("66").await, "re: red", "{verb}");
        rig.finish().await;
    }
}

/// A turn that was to go on with a call that the owner has allowed, after this change; gives what its person hears.
async fn approved_after(change: &str) -> Vec<String> {
    let approvals = Approvals { tools: vec!["write_file".to_owned()], roles: Vec::new() };
    let asking = ApprovalSettings { approvals, ..ApprovalSettings::default() };
    let agent = AgentConfig { asking, ..AgentConfig::default() };
    let access = Access { owners: vec![OWNER.to_owned()], ..Access::default() };
    let mut rig = Rig::of(RigOptions { agent, access, ..RigOptions::default() }).await;
    rig.ask("1", "hello").await;
    rig.execute(&format!(
        "INSERT INTO people (channel, sender, name, role, since)
         VALUES ('home', '{STRANGER}', 'Person 66', '\"user\"', 1)"
    ));
    let writes = calls(&[("write_file", json!({"path": "note.md", "content": "x"}))]);
    rig.model.on("write", [writes]);
    rig.say_as(STRANGER, "66", "write it");
    assert_eq!(rig.next_message("66").await, replies::ASKED_ELSEWHERE);
    assert!(rig.next_message("1").await.contains("Approve?"));
    let own = rig.path().join(rig.files_of(STRANGER).root().unwrap());
    let asked = rig.model.asked().len();
    rig.execute(change);
    rig.say("1", "/approve 1");
    rig.next_messages("1", 2).await;
    rig.settled().await;
    assert!(!own.join("note.md").exists(), "{change}");
    assert_eq!(rig.model.asked().len(), asked, "nothing goes on: {change}");
    assert_eq!(rig.query("SELECT state FROM calls"), ["skipped"], "{change}");
    let heard = rig.unread("66");
    rig.stop().await;
    heard
}

#[tokio::test]
async fn a_turn_does_not_go_on_for_somebody_who_has_no_access_any_more() {
    let blocked = approved_after("UPDATE persons SET blocked = 1 WHERE name = 'Person 66'").await;
    assert_eq!(blocked, Vec::<String>::new());
    let revoked = approved_after("DELETE FROM people WHERE name = 'Person 66'").await;
    assert_eq!(revoked, [replies::ACCESS_HAS_ENDED]);
}

#[tokio::test]
async fn a_person_is_shown_with_buttons() {
    let mut rig = Rig::of(open_to_all()).await;
    rig.ask("1", "hello").await;
    rig.say_as(STRANGER, "66", "hello");
    rig.next_message("66").await;
    let them = number(&rig, STRANGER);
    let card = rig.ask("1", &format!("/people {them}")).await;
    assert!(
        card.starts_with(&format!("{them} Person 66\nRole: guest\nAccounts: 66 on home\n")),
        "{card}"
    );
    let body: String = rig.query("SELECT body FROM outbox ORDER BY id DESC LIMIT 1").remove(0);
    for says in ["admin", "user", "block", "remove"] {
        assert!(body.contains(&format!("/people {says} {them}")), "{body}");
    }
    assert!(!body.contains(&format!("/people guest {them}")), "{body}");
    // Who stands in the config has none.
    let own = rig.ask("1", &format!("/people {}", number(&rig, OWNER))).await;
    assert!(own.contains("change their role there"), "{own}");
    rig.finish().await;
}

/// Two channels of one person, and one of the owner's.
async fn with_work() -> (Rig, Arc<FakeChannel>) {
    let work = Arc::new(FakeChannel::new());
    let parts = RigOptions { channels: vec![("work", Arc::clone(&work))], ..open_to_all() };
    let mut rig = Rig::of(parts).await;
    rig.ask("1", "hello").await;
    (rig, work)
}

/// Somebody says something on the other channel.
fn say_at_work(work: &FakeChannel, who: &str, chat: &str, text: &str) {
    let mut message = work.message(who, chat, text);
    message.from.channel = "work".into();
    message.key = format!("work:{}", message.key.as_str()).into();
    work.hears(message);
}

fn code_in(text: &str) -> String {
    text.rsplit("/link ").next().unwrap().trim().to_owned()
}

#[tokio::test]
async fn two_accounts_become_one_person_once_the_higher_one_says_so() {
    let (mut rig, work) = with_work().await;
    let work_said = |work: &Arc<FakeChannel>| Arc::clone(work);
    say_at_work(&work, OTHER_USER, "9", "/link");
    let offered = rig.next_messages_on(work_said(&work), "9", 1).await.remove(0).text;
    let code = code_in(&offered);
    assert_eq!(offered, replies::link_code(&code));
    // Entered on a user's account: that one confirms, because the other is a guest.
    rig.say_as(USER, "2", &format!("/link {}", code.to_lowercase()));
    let mut heard = rig.next_messages("2", 2).await;
    heard.sort();
    assert!(heard.contains(&replies::LINK_WAITS.to_owned()), "{heard:?}");
    let asked = heard.iter().find(|text| text.contains("gets the role user")).unwrap();
    assert!(asked.contains("Person 9 (id 9) on work"), "{asked}");
    // Nothing has changed yet, and only that account decides; the code is used up.
    say_at_work(&work, OTHER_USER, "9", "/whoami");
    let role = rig.next_messages_on(work_said(&work), "9", 1).await.remove(0).text;
    assert!(role.contains("Your role is guest."), "{role}");
    say_at_work(&work, OTHER_USER, "9", &format!("/link yes {code}"));
    let refused = rig.next_messages_on(work_said(&work), "9", 1).await.remove(0).text;
    assert_eq!(refused, replies::LINK_UNKNOWN);
    rig.say_as(STRANGER, "66", &format!("/link {code}"));
    assert_eq!(rig.next_message("66").await, replies::LINK_UNKNOWN);
    rig.say_as(USER, "2", &format!("/link yes {code}"));
    let words = replies::linked("Person 8 (id 8) on home", "Person 9 (id 9) on work");
    assert_eq!(rig.next_message("2").await, words);
    assert_eq!(rig.next_messages_on(work_said(&work), "9", 1).await.remove(0).text, words);
    // The owner is told, once.
    assert!(rig.next_message("1").await.contains("are now one person"));
    say_at_work(&work, OTHER_USER, "9", "/whoami");
    let role = rig.next_messages_on(work_said(&work), "9", 1).await.remove(0).text;
    assert!(role.contains("Your role is user."), "{role}");
    assert_eq!(number(&rig, USER), number(&rig, OTHER_USER));
    // And parted again.
    say_at_work(&work, OTHER_USER, "9", "/unlink");
    assert_eq!(
        rig.next_messages_on(work_said(&work), "9", 1).await.remove(0).text,
        replies::UNLINKED
    );
    say_at_work(&work, OTHER_USER, "9", "/whoami");
    let role = rig.next_messages_on(work_said(&work), "9", 1).await.remove(0).text;
    assert!(role.contains("Your role is guest."), "{role}");
    assert_ne!(number(&rig, USER), number(&rig, OTHER_USER));
    rig.say_as(USER, "2", "/unlink");
    assert_eq!(rig.next_message("2").await, replies::NOT_LINKED);
    rig.finish().await;
}

#[tokio::test]
async fn a_code_is_valid_for_ten_minutes_in_private_and_nobody_guesses_it() {
    let mut rig = Rig::of(open_to_all()).await;
    rig.say_as(USER, "-1", "/link");
    assert_eq!(rig.next_message("-1").await, replies::LINK_PRIVATELY);
    rig.say_as(USER, "2", "/link");
    let code = code_in(&rig.next_message("2").await);
    rig.execute("UPDATE links SET made = made - 600001");
    rig.say_as(STRANGER, "66", &format!("/link {code}"));
    assert_eq!(rig.next_message("66").await, replies::LINK_UNKNOWN);
    for _ in 0..4 {
        rig.say_as(STRANGER, "66", "/link AAAAAAAA");
        assert_eq!(rig.next_message("66").await, replies::LINK_UNKNOWN);
    }
    rig.say_as(STRANGER, "66", "/link AAAAAAAA");
    assert_eq!(rig.next_message("66").await, replies::LINK_TOO_OFTEN);
    rig.finish().await;
}

#[tokio::test]
async fn one_person_has_the_stricter_of_both_budgets_and_both_usages() {
    let (mut rig, work) = with_work().await;
    rig.say_as(USER, "2", "hello");
    rig.next_message("2").await;
    say_at_work(&work, OTHER_USER, "9", "/link");
    let code = code_in(&rig.next_messages_on(Arc::clone(&work), "9", 1).await.remove(0).text);
    let (user, other) = (number(&rig, USER), number(&rig, OTHER_USER));
    for order in [
        format!("/budget set {user} 50000 day"),
        format!("/budget set {user} 0 month"),
        format!("/budget set {other} 90000 day"),
        format!("/budget set {other} 70000 month"),
    ] {
        assert!(rig.ask("1", &order).await.starts_with("The budget of"));
    }
    rig.say_as(USER, "2", &format!("/link {code}"));
    rig.next_messages("2", 2).await;
    rig.say_as(USER, "2", &format!("/link yes {code}"));
    rig.next_message("2").await;
    rig.next_messages_on(Arc::clone(&work), "9", 1).await;
    assert!(rig.next_message("1").await.contains("are now one person"));
    let rows = "SELECT scope || ' ' || day_tokens || ' ' || month_tokens FROM budgets";
    assert_eq!(rig.query(rows), [format!("{user} 50000 70000")]);
    rig.say_as(USER, "2", "/budget");
    let shown = rig.next_message("2").await;
    assert!(shown.contains("Your daily budget: 12 of 50,000 tokens"), "{shown}");
    rig.finish().await;
}

#[tokio::test]
async fn a_set_budget_holds_at_once_after_accounts_were_linked_and_unlinked() {
    let (mut rig, work) = with_work().await;
    rig.say_as(USER, "2", "hello");
    rig.next_message("2").await;
    // Too little for any call.
    let set = format!("/budget set {} 10 day", number(&rig, USER));
    assert!(rig.ask("1", &set).await.starts_with("The budget of"));
    say_at_work(&work, OTHER_USER, "9", "hello");
    let answer = rig.next_messages_on(Arc::clone(&work), "9", 1).await.remove(0).text;
    assert!(!answer.contains("budget"), "{answer}");
    rig.say_as(USER, "2", "/link");
    let code = code_in(&rig.next_message("2").await);
    say_at_work(&work, OTHER_USER, "9", &format!("/link {code}"));
    rig.next_messages_on(Arc::clone(&work), "9", 1).await;
    rig.next_messages("2", 1).await;
    rig.say_as(USER, "2", &format!("/link yes {code}"));
    rig.next_message("2").await;
    rig.next_messages_on(Arc::clone(&work), "9", 1).await;
    assert!(rig.next_message("1").await.contains("are now one person"));
    let used_up = "Your daily budget of 10 tokens is used up";
    say_at_work(&work, OTHER_USER, "9", "And now?");
    let refused = rig.next_messages_on(Arc::clone(&work), "9", 1).await.remove(0).text;
    assert!(refused.starts_with(used_up), "{refused}");
    // Parting is no way around it.
    say_at_work(&work, OTHER_USER, "9", "/unlink");
    let parted = rig.next_messages_on(Arc::clone(&work), "9", 1).await.remove(0).text;
    assert_eq!(parted, replies::UNLINKED);
    say_at_work(&work, OTHER_USER, "9", "And alone?");
    let refused = rig.next_messages_on(Arc::clone(&work), "9", 1).await.remove(0).text;
    assert!(refused.starts_with(used_up), "{refused}");
    rig.finish().await;
}

#[tokio::test]
async fn admins_set_when_the_bot_answers_in_a_group() {
    let mut parts = open_to_all();
    parts.access.admins = vec![OTHER_USER.to_owned()];
    let mut rig = Rig::of(parts).await;
    let is = replies::activation_is;
    rig.say_as(USER, "-1", "/activation");
    assert_eq!(rig.next_message("-1").await, is("mention"));
    rig.say_as(USER, "-1", "/activation always");
    assert_eq!(rig.next_message("-1").await, replies::NOT_YOURS_TO_SET);
    rig.say_as(OTHER_USER, "-1", "/activation always");
    assert_eq!(rig.next_message("-1").await, is("always"));
    rig.say_as(OTHER_USER, "-1", "/activation sometimes");
    assert_eq!(rig.next_message("-1").await, replies::ACTIVATION_USAGE);
    rig.stop_and_start_again().await;
    rig.say_as(USER, "-1", "/activation");
    assert_eq!(rig.next_message("-1").await, is("always"));
    // Other groups are as before.
    rig.say_as(USER, "-2", "/activation");
    assert_eq!(rig.next_message("-2").await, is("mention"));
    rig.say_as(OTHER_USER, "-1", "/activation default");
    assert_eq!(rig.next_message("-1").await, is("mention"));
    rig.say_as(USER, "2", "/activation always");
    assert_eq!(rig.next_message("2").await, replies::ACTIVATION_IN_GROUPS);
    rig.finish().await;
}
