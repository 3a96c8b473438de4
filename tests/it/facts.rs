//! Facts that people asked to be remembered: in every conversation with them, in nobody else's, the most used ones in
//! the prompt and the others within reach.

use peacrab::config::AgentConfig;
use peacrab::memory;
use peacrab::replies;
use serde_json::json;

use crate::support::rig::{OWNER, Rig, RigOptions, USER};
use crate::support::script::{calls, says};

const ADA: &str = "My daughter Ada turns seven on Friday";
const HEADING: &str = "# Facts to remember";

/// What the model is shown by a message: the system prompt, and the message with what comes after it.
async fn shown(rig: &mut Rig, who: &str, chat: &str, text: &str) -> (String, String) {
    rig.say_as(who, chat, text);
    rig.next_message(chat).await;
    let asked = rig.model.last();
    (asked.system.join("\n"), asked.messages.last().unwrap().clone())
}

async fn with_active(facts_max: usize) -> Rig {
    let memory = memory::Config { facts_max, ..AgentConfig::default().memory };
    Rig::of(RigOptions {
        agent: AgentConfig { memory, ..RigOptions::default().agent },
        ..RigOptions::default()
    })
    .await
}

#[tokio::test]
async fn a_fact_is_known_in_each_conversation_of_its_person_and_in_no_other() {
    let mut rig = Rig::new().await;
    let answer = rig.ask("1", &format!("/remember people: {ADA}")).await;
    assert_eq!(answer, replies::fact_saved(1, ADA));
    rig.stop_and_start_again().await;
    for chat in ["1", "5"] {
        let (system, _) = shown(&mut rig, OWNER, chat, "hello").await;
        assert!(system.contains(&format!("{HEADING}\n- {ADA} (#1)")), "{system}");
    }
    for (who, chat) in [(USER, "2"), (OWNER, "-3")] {
        let (system, message) = shown(&mut rig, who, chat, "hello, when is Ada's birthday?").await;
        assert!(!system.contains("Ada") && !message.contains("seven"), "{system}\n{message}");
    }
    rig.finish().await;
}

#[tokio::test]
async fn a_conversation_that_has_begun_is_told_of_changes_beside_the_next_message() {
    let mut rig = Rig::new().await;
    let (before, _) = shown(&mut rig, OWNER, "1", "hello").await;
    rig.ask("1", &format!("/remember {ADA}")).await;
    let (system, message) = shown(&mut rig, OWNER, "1", "and now?").await;
    assert_eq!(system, before);
    assert!(message.contains(&format!("Facts changed:\n- added: {ADA} (#1)")), "{message}");
    let (system, message) = shown(&mut rig, OWNER, "1", "and again?").await;
    assert_eq!(system, before);
    assert!(!message.contains("Facts changed"), "{message}");
    rig.ask("1", "/new").await;
    let (system, message) = shown(&mut rig, OWNER, "1", "hello").await;
    assert!(system.contains(ADA) && !message.contains("Facts changed"), "{system}\n{message}");
    rig.finish().await;
}

#[tokio::test]
async fn people_see_what_is_kept_by_kind() {
    let mut rig = Rig::new().await;
    assert!(rig.ask("1", "/memory").await.starts_with(replies::NO_FACTS));
    for fact in [
        "wish: tea  without\nsugar",
        "people: Ada is *seven*",
        "it rains in Lisbon",
        "wish: no calls before 9:00",
    ] {
        rig.ask("1", &format!("/remember {fact}")).await;
    }
    assert_eq!(rig.ask("1", "/remember Tea without sugar").await, replies::fact_already_known(1));
    let list = rig.ask("1", "/memory").await;
    let day = chrono::Utc::now().format("%Y-");
    let lines: Vec<_> =
        list.lines().map(|line| line.split(&format!(", {day}")).next().unwrap()).collect();
    assert_eq!(
        lines[..7],
        [
            "People:",
            "#2 Ada is \\*seven\\* (you said so",
            "Wishes:",
            "#4 no calls before 9:00 (you said so",
            "#1 tea without sugar (you said so",
            "Other facts:",
            "#3 it rains in Lisbon (you said so",
        ],
        "{list}"
    );
    let some = rig.ask("1", "/memory LISBON").await;
    assert!(some.contains("#3") && !some.contains("#2"), "{some}");
    assert_eq!(rig.ask("1", "/memory zebra").await, replies::no_facts_with("zebra"));
    // Another person is shown nothing of it, nor is a group.
    rig.say_as(USER, "2", "/memory");
    assert_eq!(rig.next_message("2").await, replies::NO_FACTS);
    assert_eq!(rig.ask("-3", "/memory").await, replies::NO_GROUP_FACTS);
    rig.finish().await;
}

#[tokio::test]
async fn bad_facts_are_refused_in_words() {
    let mut rig = Rig::new().await;
    for text in ["/remember", "/remember  \n ", "/remember wish:"] {
        assert_eq!(rig.ask("1", text).await, replies::REMEMBER_USAGE, "{text}");
    }
    let long = format!("/remember {}", "é".repeat(501));
    assert_eq!(rig.ask("1", &long).await, replies::fact_too_long(501, 500));
    rig.say_as(USER, "-3", "/remember our picnic is on Monday");
    assert_eq!(rig.next_message("-3").await, replies::REMEMBER_IN_GROUPS);
    assert_eq!(rig.query("SELECT text FROM facts"), Vec::<String>::new());
    rig.ask("1", "/remember the first").await;
    rig.execute(
        "INSERT INTO facts (who, kind, text, status, sources, made, used)
         WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 999)
         SELECT who, kind, i, 'expired', sources, made, used FROM n, facts",
    );
    assert_eq!(rig.ask("1", "/remember one more").await, replies::FACTS_FULL);
    rig.finish().await;
}

#[tokio::test]
async fn a_group_has_facts_of_its_own() {
    let mut rig = Rig::new().await;
    rig.ask("-3", "/remember our picnic is on Monday").await;
    let (system, _) = shown(&mut rig, USER, "-3", "hello").await;
    assert!(system.contains("our picnic is on Monday (#1)"), "{system}");
    for chat in ["1", "-4"] {
        let (system, _) = shown(&mut rig, OWNER, chat, "hello").await;
        assert!(!system.contains("picnic"), "{system}");
    }
    rig.finish().await;
}

#[tokio::test]
async fn the_least_used_facts_make_way_and_come_back_when_they_matter() {
    let mut rig = with_active(2).await;
    rig.ask("1", "/remember The bicycle lock opens with 48-15").await;
    rig.ask("1", "/remember Zoe likes figs").await;
    // A message has to do with the first one, so the second makes way for the third.
    shown(&mut rig, OWNER, "1", "how do I open my bicycle lock?").await;
    assert_eq!(rig.query("SELECT text FROM facts WHERE accesses = 1").len(), 1);
    rig.ask("1", "/remember The plumber is Ms Bauer").await;
    let expired = "SELECT text FROM facts WHERE status = 'expired'";
    assert_eq!(rig.query(expired), ["Zoe likes figs"]);
    assert!(rig.ask("1", "/memory zoe").await.contains("recalled when relevant"));
    rig.ask("1", "/new").await;
    let (system, message) = shown(&mut rig, OWNER, "1", "hello").await;
    assert!(!system.contains("figs") && !message.contains("figs"), "{system}\n{message}");
    // A search finds it.
    let search = calls(&[("memory_search", json!({ "query": "figs", "scope": "memory" }))]);
    rig.model.on("look", [search, says("Found.")]);
    rig.ask("1", "look for it").await;
    assert!(rig.model.last().messages.pop().unwrap().contains("Fact #2"));
    // A message that has to do with it brings it back.
    let (_, message) = shown(&mut rig, OWNER, "1", "what does Zoe like?").await;
    assert!(message.contains("Zoe likes figs"), "{message}");
    assert_eq!(rig.query(expired), ["The plumber is Ms Bauer"]);
    // Old ones make way before new ones.
    rig.execute("UPDATE facts SET made = 1 WHERE id = 1");
    rig.ask("1", "/remember The boiler is blue").await;
    assert!(rig.query(expired).contains(&"The bicycle lock opens with 48-15".to_owned()));
    rig.finish().await;
}

#[tokio::test]
async fn a_fact_of_untrusted_origin_stays_out_of_prompts() {
    let mut rig = Rig::new().await;
    rig.ask("1", "/remember Bauer wants all doubloons").await;
    for sources in [r#"["unknown"]"#, "no JSON", r#"[{"page": {"url": "https://evil.example"}}]"#] {
        rig.execute(&format!("UPDATE facts SET sources = '{sources}'"));
        rig.ask("1", "/new").await;
        let (system, message) = shown(&mut rig, OWNER, "1", "what does Bauer want?").await;
        assert!(
            !system.contains("doubloons") && !message.contains("doubloons"),
            "{system}\n{message}"
        );
        assert!(rig.ask("1", "/memory").await.contains("someone else"));
    }
    rig.finish().await;
}

#[tokio::test]
async fn facts_take_no_more_than_their_share_of_the_prompt() {
    let mut rig = Rig::new().await;
    rig.model = crate::support::script::ScriptedModel::with_room(16_384);
    rig.stop_and_start_again().await;
    for n in 0..45 {
        rig.ask("1", &format!("/remember {n} {}", "crab ".repeat(90))).await;
    }
    let (system, _) = shown(&mut rig, OWNER, "1", "hello").await;
    let facts = system.matches("crab crab (#").count();
    assert!((1..45).contains(&facts), "{facts} facts");
    rig.finish().await;
}
