//! What is promised of groups: who is answered there, what is remembered as context, and what an edit
//! changes.

use peacrab::people::Groups;
use peacrab::replies;

use super::scene::Scene;
use super::stage::{Place, Seen, Stage, Who};
use crate::support::script::{Gate, held, says};

use Place::{Group, Private, Thread};
use Who::{Ada, Bob, Robot};

/// Ada asks what is new, and is told so.
async fn what_is_new<S: Stage>(scene: &Scene<S>, place: Place, answer: &'static str) {
    scene.model.on("what is new", [says(answer)]);
    scene.stage.say(place, Ada, &S::mention("what is new?"));
    scene.hears(answer).await;
}

pub(super) async fn answers_every_line_where_it_is_to<S: Stage>() {
    let scene = Scene::<S>::in_groups(Groups::Always, &[]).await;
    scene.model.on("the soup is ready", [says("Good.")]);
    scene.stage.say(Group, Bob, "the soup is ready");
    assert_eq!(scene.hears("Good.").await.place, Group);
    scene.ends_with(1, &["Good."]).await;
}

pub(super) async fn hears_nothing_where_it_is_off<S: Stage>() {
    let scene = Scene::<S>::in_groups(Groups::Off, &[]).await;
    let said = scene.stage.say(Group, Ada, &S::mention("are you there?"));
    scene.stage.edit(Group, Ada, &said, &S::mention("hello?"));
    scene.stage.say(Thread, Ada, &S::mention("are you here?"));
    scene.ask(Private(Ada), Ada, "and here?").await;
    scene.ends_with(1, &["re: and here?"]).await;
}

pub(super) async fn hears_no_other_bot<S: Stage>() {
    let scene = Scene::<S>::new().await;
    scene.stage.say(Group, Robot, "the oven is hot");
    scene.stage.say(Group, Robot, &S::mention("beep"));
    what_is_new(&scene, Group, "Nothing.").await;
    let told = scene.model.last().transcript();
    assert!(!told.contains("oven") && !told.contains("beep"), "{told}");
    scene.ends_with(1, &["Nothing."]).await;
}

pub(super) async fn hears_another_bot_that_it_is_told_of<S: Stage>() {
    let scene = Scene::<S>::in_groups(Groups::Mention, &[Robot]).await;
    scene.model.on("beep", [says("Boop.")]);
    scene.stage.say(Group, Robot, "the oven is hot");
    scene.stage.say(Group, Robot, &S::mention("beep"));
    scene.hears("Boop.").await;
    let told = scene.model.last().transcript();
    assert!(told.contains("the oven is hot"), "{told}");
    scene.ends_with(1, &["Boop."]).await;
}

pub(super) async fn needs_a_mention_only_until_it_takes_part_in_a_thread<S: Stage>() {
    let scene = Scene::<S>::new().await;
    scene.stage.say(Thread, Bob, "the soup is ready");
    what_is_new(&scene, Thread, "Soup.").await;
    let told = scene.model.last().transcript();
    assert!(told.contains("the soup is ready"), "{told}");
    if S::FOLLOWS_THREADS {
        scene.model.on("how hot", [says("Very.")]);
    }
    scene.stage.say(Thread, Bob, "how hot is it?");
    if S::FOLLOWS_THREADS {
        assert_eq!(scene.hears("Very.").await.place, Thread);
        scene.ends_with(2, &["Soup.", "Very."]).await;
    } else {
        scene.ask(Private(Ada), Ada, "last").await;
        scene.ends_with(2, &["Soup.", "re: last"]).await;
    }
}

pub(super) async fn stops_without_a_mention<S: Stage>() {
    let scene = Scene::<S>::new().await;
    let gate = Gate::shut();
    scene.model.on("what is new", [held(&gate, says("Nothing."))]);
    scene.stage.say(Thread, Ada, &S::mention("what is new?"));
    gate.reached(1).await;
    scene.stage.say(Thread, Ada, "/stop");
    scene.hears(replies::STOPPED).await;
    // A command is one in any letters, and also if words follow.
    for (before, stop) in ["/STOP", "/stop it, please"].into_iter().enumerate() {
        scene.stage.say(Group, Ada, stop);
        let is_one = |seen: &Seen| seen.text == replies::NOTHING_TO_STOP;
        let count = |scene: &Scene<S>| scene.stage.seen().into_iter().filter(is_one).count();
        scene.wait_until(stop, |scene| count(scene) == before + 1).await;
    }
    // Said to others, and no such command.
    scene.stage.say(Group, Bob, "please /stop it");
    scene.stage.say(Group, Bob, "/stopping is hard");
    scene.ask(Private(Ada), Ada, "last").await;
    let nothing = replies::NOTHING_TO_STOP;
    scene.ends_with(5, &[replies::STOPPED, nothing, nothing, "re: last"]).await;
}

pub(super) async fn remembers_an_edited_line_as_it_is_now<S: Stage>() {
    let scene = Scene::<S>::new().await;
    let line = scene.stage.say(Group, Bob, "the soup is red");
    scene.stage.edit(Group, Bob, &line, "the soup is green");
    what_is_new(&scene, Group, "Soup.").await;
    let told = scene.model.last().transcript();
    assert_eq!(
        (told.matches("is green").count(), told.matches("is red").count()),
        (1, 0),
        "{told}"
    );
    scene.ends_with(1, &["Soup."]).await;
}

pub(super) async fn shows_no_second_time_a_line_that_is_edited<S: Stage>() {
    let scene = Scene::<S>::new().await;
    let line = scene.stage.say(Thread, Bob, "the soup is red");
    what_is_new(&scene, Thread, "Soup.").await;
    scene.stage.edit(Thread, Bob, &line, "the soup is green");
    scene.model.on("and now", [says("Nothing more.")]);
    scene.stage.say(Thread, Ada, &S::mention("and now?"));
    scene.hears("Nothing more.").await;
    let told = scene.model.last().transcript();
    assert!(!told.contains("is green"), "{told}");
    scene.ends_with(2, &["Soup.", "Nothing more."]).await;
}

pub(super) async fn answers_a_line_that_is_edited_to_mention_it<S: Stage>() {
    let scene = Scene::<S>::new().await;
    scene.stage.say(Group, Ada, "it is hot");
    let line = scene.stage.say(Group, Bob, "what is the soup?");
    scene.model.on("what is the soup", [says("Red.")]);
    scene.stage.edit(Group, Bob, &line, &S::mention("what is the soup?"));
    let answer = scene.hears("Red.").await;
    assert_eq!((answer.place, answer.answers), (Group, Some(line.clone())));
    // It is a message now, and no context of itself.
    let told = scene.model.last().transcript();
    let counts = ["it is hot", "what is the soup?"].map(|words| told.matches(words).count());
    assert_eq!(counts, [1, 1], "{told}");
    // What was answered stays answered.
    scene.stage.edit(Group, Bob, &line, &S::mention("what is the salad?"));
    scene.ask(Private(Ada), Ada, "last").await;
    scene.ends_with(2, &["Red.", "re: last"]).await;
}

pub(super) async fn answers_no_line_to_others_that_is_edited<S: Stage>() {
    let scene = Scene::<S>::new().await;
    let line = scene.stage.say(Thread, Bob, "the soup is red");
    what_is_new(&scene, Thread, "Soup.").await;
    // It takes part in the thread by now, but that was said before.
    scene.stage.edit(Thread, Bob, &line, "the soup is green");
    scene.ask(Private(Ada), Ada, "last").await;
    scene.ends_with(2, &["Soup.", "re: last"]).await;
}

pub(super) async fn answers_no_old_message_that_is_edited<S: Stage>() {
    let scene = Scene::<S>::new().await;
    scene.stage.edit_old(Group, Bob, &S::mention("what was the soup?"));
    scene.stage.edit_old(Private(Bob), Bob, "what was the soup?");
    scene.ask(Private(Ada), Ada, "last").await;
    scene.ends_with(1, &["re: last"]).await;
}
