//! What is promised while all goes well.

use std::fs;
use std::path::PathBuf;

use peacrab::replies;
use serde_json::json;

use super::scene::Scene;
use super::stage::{Bot, Place, Seen, Stage, Who};
use crate::support::script::{Gate, calls, held, paced, says};

use Place::{Group, Private, Thread};
use Who::{Ada, Bob, Eve};

pub(super) async fn answers_a_private_message_once<S: Stage>() {
    let scene = Scene::<S>::new().await;
    let answer = scene.ask(Private(Ada), Ada, "one").await;
    assert_eq!((answer.place, answer.answers), (Private(Ada), None));
    let answer = scene.ask(Private(Bob), Bob, "two").await;
    assert_eq!((answer.place, answer.answers), (Private(Bob), None));
    scene.ends_with(2, &["re: one", "re: two"]).await;
}

pub(super) async fn answers_a_mention_in_reply_to_it_and_has_heard_the_rest<S: Stage>() {
    let scene = Scene::<S>::new().await;
    scene.stage.say(Group, Bob, "the soup is ready");
    scene.model.on("what is new", [says("Soup.")]);
    let asked = scene.stage.say(Group, Ada, &S::mention("what is new?"));
    let answer = scene.hears("Soup.").await;
    assert_eq!((answer.place, answer.answers), (Group, Some(asked)));
    let told = scene.model.last().transcript();
    assert!(told.contains("Bob") && told.contains("the soup is ready"), "{told}");
    scene.ends_with(1, &["Soup."]).await;
}

pub(super) async fn answers_in_the_thread_that_asked<S: Stage>() {
    let scene = Scene::<S>::new().await;
    scene.model.on("where are we", [says("In a thread.")]);
    scene.stage.say(Thread, Bob, &S::mention("where are we?"));
    assert_eq!(scene.hears("In a thread.").await.place, Thread);
    scene.ends_with(1, &["In a thread."]).await;
}

pub(super) async fn answers_once_what_is_delivered_twice<S: Stage>() {
    let scene = Scene::<S>::new().await;
    scene.ask(Private(Ada), Ada, "one").await;
    scene.stage.repeat();
    scene.ask(Private(Ada), Ada, "two").await;
    scene.stage.say(Private(Ada), Ada, "three");
    scene.stage.repeat();
    scene.hears("re: three").await;
    scene.ask(Private(Ada), Ada, "four").await;
    scene.ends_with(4, &["re: one", "re: two", "re: three", "re: four"]).await;
}

pub(super) async fn keeps_the_order_of_twenty_quick_messages<S: Stage>() {
    let mut scene = Scene::<S>::new().await;
    let words: Vec<_> = (0..20).map(|n| format!("crab{n:02}")).collect();
    for word in &words {
        scene.stage.say(Private(Ada), Ada, word);
    }
    scene.settles(20).await;
    let answers: Vec<_> = scene.stage.seen().into_iter().map(|seen| seen.text).collect();
    let answers = answers.join("\n");
    let answered: Vec<_> =
        answers.split_whitespace().filter(|word| word.starts_with("crab")).collect();
    assert_eq!(answered, words);
    scene.stop().await;
}

/// So many words that they need this many times what one message holds.
fn long<S: Stage>(scene: &Scene<S>, messages: f64) -> String {
    let max = S::adapter(&scene.stage.base(), Bot::First).limits().text_max;
    let mut text = String::new();
    #[expect(clippy::cast_precision_loss, reason = "thousands")]
    while (text.len() as f64) < max as f64 * messages {
        text += &format!("word{:05} ", text.len());
    }
    text.trim().to_owned()
}

pub(super) async fn brings_an_answer_of_three_messages_in_order<S: Stage>() {
    let mut scene = Scene::<S>::new().await;
    let text = long(&scene, 2.5);
    scene.model.on("much", [says(&text)]);
    let asked = scene.stage.say(Group, Ada, &S::mention("say much"));
    scene.settles(1).await;
    let seen = scene.stage.seen();
    let there: Vec<_> = seen.iter().flat_map(|seen| seen.text.split_whitespace()).collect();
    assert_eq!(there, text.split_whitespace().collect::<Vec<_>>());
    assert_eq!(seen.len(), 3);
    assert!(seen.iter().all(|seen| seen.place == Group), "{seen:?}");
    assert_eq!(seen[0].answers, Some(asked));
    scene.stop().await;
}

pub(super) async fn shows_markup_as_the_platform_has_it<S: Stage>() {
    let scene = Scene::<S>::new().await;
    let text = "**bold** & 1 < 2\n\n```rust\nfn main() {}\n```\n\n| crab | legs |\n|---|---|\n| pea | 8 |\n\n[x](https://example.org/?a=1&b=2)";
    scene.model.on("show", [says(text)]);
    scene.stage.say(Private(Ada), Ada, "show it");
    let seen = scene.hears("bold").await.text;
    for words in ["bold", " & 1 < 2", "fn main() {}", "https://example.org/?a=1&b=2"] {
        // The address of a link may be hidden behind its words.
        assert!(seen.contains(words) || words.starts_with("https"), "no {words} in {seen}");
    }
    let row = |words: [&str; 2]| seen.lines().any(|line| words.iter().all(|it| line.contains(it)));
    assert!(row(["crab", "legs"]) && row(["pea", "8"]) && !seen.contains("|---|"), "{seen}");
    scene.ends_with(1, &[&seen]).await;
}

pub(super) async fn attaches_an_answer_that_is_too_long_to_be_read<S: Stage>() {
    let mut scene = Scene::<S>::new().await;
    let limits = S::adapter(&scene.stage.base(), Bot::First).limits();
    let text = long(&scene, limits.messages_max as f64 + 1.0);
    scene.model.on("all", [says(&text)]);
    scene.stage.say(Private(Ada), Ada, "say all");
    scene.settles(1).await;
    let seen = scene.stage.seen();
    assert_eq!(seen.len(), 2, "{seen:?}");
    assert!(text.starts_with(&seen[0].text[..1000]), "{seen:?}");
    let file = (replies::WHOLE_ANSWER_NAME.to_owned(), text.into_bytes());
    assert!(seen[1].file.as_ref() == Some(&file), "{:?}", seen[1].text);
    assert_eq!(seen[1].text, replies::WHOLE_ANSWER);
    scene.stop().await;
}

/// The only file of the downloads, and its path.
fn in_downloads<S: Stage>(scene: &Scene<S>) -> (String, PathBuf) {
    let only = |folder: PathBuf| fs::read_dir(folder).unwrap().next().unwrap().unwrap().path();
    let home = scene.workspace().parent().unwrap().to_owned();
    let file = only(only(home.join("downloads")));
    let path = file.strip_prefix(home).unwrap().to_str().unwrap().to_owned();
    (path, file)
}

pub(super) async fn keeps_a_file_that_a_person_sends<S: Stage>() {
    let scene = Scene::<S>::new().await;
    scene.model.on("keep this", [says("I have it.")]);
    scene.stage.send_file(Ada, ("plan.txt", b"eight legs"), "keep this");
    scene.hears("I have it.").await;
    let (path, file) = in_downloads(&scene);
    assert_eq!(fs::read(file).unwrap(), b"eight legs");
    let told = scene.model.last().transcript();
    assert!(told.contains(&path) && path.contains("plan"), "{told}");
    let read = calls(&[("read_file", json!({ "path": path }))]);
    scene.model.on("what is in it", [read, says("I have read it.")]);
    scene.stage.say(Private(Ada), Ada, "what is in it?");
    scene.hears("I have read it.").await;
    let told = scene.model.last().transcript();
    assert!(told.contains("eight legs"), "{told}");
    scene.ends_with(2, &["I have it.", "I have read it."]).await;
}

pub(super) async fn sends_a_file_byte_for_byte<S: Stage>() {
    let scene = Scene::<S>::new().await;
    let bytes: Vec<u8> = (0..=u8::MAX).cycle().take(100_000).collect();
    // The owner's own files stay out of groups.
    fs::write(scene.workspace().join("../shared/crab.bin"), &bytes).unwrap();
    let send = calls(&[("message", json!({ "text": "Here.", "files": ["shared/crab.bin"] }))]);
    scene.model.on("send it", [send, says("Sent.")]);
    scene.stage.say(Thread, Ada, &S::mention("send it"));
    let sent = scene.hears("Here.").await;
    assert_eq!(sent.place, Thread);
    assert!(sent.file == Some(("crab.bin".to_owned(), bytes)), "it came as another");
    scene.ends_with(1, &["Here.", "Sent."]).await;
}

pub(super) async fn lets_a_draft_grow_into_the_answer<S: Stage>() {
    let scene = Scene::<S>::drafting().await;
    let (gate, another) = (Gate::shut(), Gate::shut());
    let pieces = [("Let me", None), (" see. It is", Some(&gate)), (" done.", Some(&another))];
    scene.model.on("grow", [paced(&pieces)]);
    scene.stage.say(Private(Ada), Ada, "grow");
    let draft = scene.hears("Let me").await;
    gate.open();
    let grown = scene.hears("see. It is").await;
    assert_eq!(grown.id, draft.id);
    another.open();
    let answer = scene.hears("done.").await;
    assert!(answer.id == draft.id && answer.edits >= 2, "{answer:?}");
    scene.ends_with(1, &["Let me see. It is done."]).await;
}

pub(super) async fn shows_that_it_works<S: Stage>() {
    let scene = Scene::<S>::new().await;
    let gate = Gate::shut();
    scene.model.on("work", [held(&gate, says("Done."))]);
    scene.stage.say(S::TYPES_IN, Ada, "work");
    scene.wait_until("a sign", |scene| scene.stage.typings() > 0).await;
    assert_eq!(scene.stage.seen(), Vec::<Seen>::new());
    gate.open();
    assert_eq!(scene.hears("Done.").await.place, S::TYPES_IN);
    scene.ends_with(1, &["Done."]).await;
}

pub(super) async fn puts_a_sign_at_what_it_takes_up<S: Stage>() {
    let scene = Scene::<S>::new().await;
    if !S::adapter(&scene.stage.base(), Bot::First).limits().reacts {
        return;
    }
    for (place, words) in [(Private(Ada), "dig"), (Thread, "swim")] {
        let gate = Gate::shut();
        scene.model.on(words, [held(&gate, says(&format!("I {words}.")))]);
        let asked = scene.stage.say(place, Ada, &S::mention(words));
        scene.wait_until("a sign", |scene| scene.stage.reacted(place, &asked)).await;
        gate.open();
        scene.hears(&format!("I {words}.")).await;
    }
    scene.ends_with(2, &["I dig.", "I swim."]).await;
}

pub(super) async fn takes_one_press_of_whom_it_asked<S: Stage>() {
    let mut scene = Scene::<S>::new().await;
    let question = json!({ "text": "Which colour?", "choices": ["red", "blue"] });
    scene.model.on("paint", [calls(&[("message", question)]), says("I have asked.")]);
    scene.model.on("blue", [says("Blue it is.")]);
    scene.stage.say(Group, Ada, &S::mention("paint it"));
    let question = scene.hears("Which colour?").await;
    assert_eq!((question.place, question.buttons.join(" ")), (Group, "red blue".to_owned()));
    scene.hears("I have asked.").await;
    let [red, blue] = ["red", "blue"].map(|label| scene.stage.button(&question, label));
    for other in [Eve, Bob] {
        let press = scene.stage.press(other, &question, &red);
        scene.wait_until("no", |scene| scene.stage.told(other, &press).is_some()).await;
        let told = scene.stage.told(other, &press);
        assert_eq!(told.as_deref(), Some(replies::NOT_YOURS_TO_PRESS));
    }
    scene.stage.press(Ada, &question, &blue);
    assert_eq!(scene.hears("Blue it is.").await.place, Group);
    let press = scene.stage.press(Ada, &question, &red);
    scene.wait_until("no", |scene| scene.stage.told(Ada, &press).is_some()).await;
    assert_eq!(scene.stage.told(Ada, &press).as_deref(), Some(replies::ALREADY_DECIDED));
    let question = |seen: &Seen| seen.id == question.id && seen.text.contains("→ blue (Ada");
    scene.wait_until("what was decided", |scene| scene.stage.seen().iter().any(question)).await;
    scene.settles(2).await;
    assert!(scene.stage.seen().iter().all(|seen| seen.buttons.is_empty()));
    assert_eq!(scene.stage.seen().len(), 3, "{:?}", scene.stage.seen());
    assert_eq!(scene.model.faults(), Vec::<String>::new());
    scene.stop().await;
}

/// Ada is being answered, and Bob's words wait; gives their id.
async fn bob_waits<S: Stage>(scene: &Scene<S>, gate: &Gate) -> String {
    scene.model.on("first", [held(gate, says("The first."))]);
    scene.stage.say(Thread, Ada, &S::mention("first"));
    gate.reached(1).await;
    let id = scene.stage.say(Thread, Bob, &S::mention("helo"));
    scene.wait_until("Bob's words", |scene| scene.count(WAITING) == Some(1)).await;
    id
}

const WAITING: &str = "SELECT count(*) FROM inbound WHERE state = 'waiting'";

pub(super) async fn answers_what_was_changed_as_it_is_now<S: Stage>() {
    let (scene, gate) = (Scene::<S>::new().await, Gate::shut());
    let helo = bob_waits(&scene, &gate).await;
    scene.model.on("hello there", [says("The second.")]);
    scene.stage.edit(Thread, Bob, &helo, &S::mention("hello there"));
    let changed = "SELECT count(*) FROM inbound WHERE message LIKE '%hello there%'";
    scene.wait_until("the change", |scene| scene.count(changed) == Some(1)).await;
    gate.open();
    assert_eq!(scene.hears("The second.").await.place, Thread);
    // What was answered stays answered.
    scene.stage.edit(Thread, Bob, &helo, &S::mention("something else"));
    scene.ask(Private(Ada), Ada, "last").await;
    scene.ends_with(3, &["The first.", "The second.", "re: last"]).await;
}

pub(super) async fn answers_what_was_changed_to_speak_to_nobody<S: Stage>() {
    let (scene, gate) = (Scene::<S>::new().await, Gate::shut());
    let helo = bob_waits(&scene, &gate).await;
    scene.model.on("hello there", [says("The second.")]);
    scene.stage.edit(Thread, Bob, &helo, "hello there");
    let changed = "SELECT count(*) FROM inbound WHERE message LIKE '%hello there%'";
    scene.wait_until("the change", |scene| scene.count(changed) == Some(1)).await;
    gate.open();
    assert_eq!(scene.hears("The second.").await.place, Thread);
    let told = scene.model.last().transcript();
    assert_eq!(told.matches("hello there").count(), 1, "{told}");
    scene.ends_with(2, &["The first.", "The second."]).await;
}

pub(super) async fn leaves_alone_what_was_deleted<S: Stage>() {
    if !S::TELLS_OF_DELETIONS {
        return;
    }
    let (scene, gate) = (Scene::<S>::new().await, Gate::shut());
    let helo = bob_waits(&scene, &gate).await;
    scene.stage.delete(Thread, &helo);
    scene.wait_until("the deletion", |scene| scene.count(WAITING) == Some(0)).await;
    gate.open();
    scene.hears("The first.").await;
    scene.ends_with(2, &["The first."]).await;
}

pub(super) async fn pings_nobody<S: Stage>() {
    let mut scene = Scene::<S>::new().await;
    let words = "@everyone, @here, <!channel>, <!here|all>, <@U0BOB> and <@800000000000000002>";
    scene.model.on("call", [says(&format!("{words}: come"))]);
    scene.stage.say(Group, Ada, &S::mention("call them"));
    let seen = scene.hears(": come").await;
    assert!(seen.text.contains("everyone"), "{seen:?}");
    assert_eq!(scene.stage.pings(), Vec::<String>::new());
    scene.settles(1).await;
    scene.stop().await;
}
