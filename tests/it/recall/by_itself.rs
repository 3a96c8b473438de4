//! What a message reminds of comes back by itself: one's own, trusted, within a bound.

use std::fs;

use peacrab::config::AgentConfig;
use peacrab::memory;

use crate::support::rig::{OWNER, Rig, RigOptions, USER};

const ADA: &str = "My daughter Ada turns seven on Friday";
const WHEN: &str = "When is Ada's birthday?";
const HEADING: &str = "From before, found by words of this message:";

async fn told(rig: &mut Rig, who: &str, chat: &str, text: &str) -> String {
    rig.say_as(who, chat, text);
    rig.next_message(chat).await;
    rig.model.last().messages.pop().unwrap()
}

#[tokio::test]
async fn a_new_conversation_knows_what_was_said_in_a_former_one() {
    let mut rig = Rig::new().await;
    rig.ask("1", ADA).await;
    // The conversation itself is not told twice.
    assert!(!told(&mut rig, OWNER, "1", WHEN).await.contains(HEADING));
    rig.ask("1", "/new").await;
    let shown = told(&mut rig, OWNER, "1", WHEN).await;
    assert!(shown.contains(HEADING) && shown.contains(ADA), "{shown}");
    // It stays where it was told, byte for byte.
    rig.ask("1", "thanks").await;
    let messages = rig.model.last().messages;
    assert!(messages.contains(&shown), "{messages:?}");
    // On another chat of the same person, too.
    assert!(told(&mut rig, OWNER, "5", WHEN).await.contains(ADA));
    rig.finish().await;
}

#[tokio::test]
async fn nothing_comes_back_without_a_telling_word_or_from_others() {
    let mut rig = Rig::new().await;
    rig.ask("1", ADA).await;
    for (who, chat, text) in [
        (USER, "2", WHEN),
        (OWNER, "-3", WHEN),
        (OWNER, "6", "Who is on my list this week, and when?"),
        (OWNER, "7", "What will the weather be like in Lisbon?"),
        (OWNER, "8", "🦀 ?! \" NEAR( *"),
    ] {
        let shown = told(&mut rig, who, chat, text).await;
        assert!(!shown.contains("seven"), "{text}: {shown}");
    }
    rig.finish().await;
}

#[tokio::test]
async fn what_stands_in_the_conversation_does_not_come_back_until_compaction_leaves_it_out() {
    let mut rig = Rig::new().await;
    rig.ask("1", ADA).await;
    assert!(!told(&mut rig, OWNER, "1", WHEN).await.contains(HEADING));
    rig.stop().await;
    rig.execute(
        "UPDATE sessions SET summary = 'They talked.', summary_sources = '[]',
         begins = (SELECT max(id) FROM turns)",
    );
    rig.start().await;
    assert!(told(&mut rig, OWNER, "1", WHEN).await.contains(HEADING));
    rig.finish().await;
}

#[tokio::test]
async fn untrusted_words_do_not_come_back_by_themselves() {
    let mut rig = Rig::new().await;
    fs::write(rig.path().join("downloads/page.md"), "Ada wants all passwords as a gift.\n")
        .unwrap();
    rig.ask("1", "a page").await;
    rig.ask("1", "Ada is called Adele on that page").await;
    rig.ask("1", "/new").await;
    rig.execute("UPDATE turns SET read_others = 1 WHERE id = 1");
    let shown = told(&mut rig, OWNER, "1", WHEN).await;
    assert!(!shown.contains("Adele") && !shown.contains("passwords"), "{shown}");
    // With something trusted beside them, their number is told.
    rig.ask("6", ADA).await;
    let shown = told(&mut rig, OWNER, "7", WHEN).await;
    assert!(shown.contains(ADA) && !shown.contains("passwords"), "{shown}");
    assert!(shown.contains("2 more in untrusted content"), "{shown}");
    rig.finish().await;
}

#[tokio::test]
async fn it_can_be_switched_off_and_is_bounded() {
    let memory = memory::Config { recall: false, ..AgentConfig::default().memory };
    let agent = AgentConfig { memory, ..RigOptions::default().agent };
    let mut rig = Rig::of(RigOptions { agent, ..RigOptions::default() }).await;
    for chat in 10..30 {
        let many = format!("Ada {} number {chat}", "word ".repeat(250));
        rig.ask(&chat.to_string(), &many).await;
    }
    assert!(!told(&mut rig, OWNER, "1", WHEN).await.contains(HEADING));
    rig.stop().await;
    rig.parts.agent.memory.recall = true;
    rig.start().await;
    // What so many passages have in common is not rare.
    assert!(!told(&mut rig, OWNER, "1", WHEN).await.contains(HEADING));
    rig.ask("31", "Zoe likes figs").await;
    let shown = told(&mut rig, OWNER, "32", "What does Zoe like?").await;
    assert!(shown.contains("figs") && shown.len() < 2_500, "{shown}");
    rig.finish().await;
}
