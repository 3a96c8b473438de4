//! What can be set for a conversation: the model and its thinking; and what it has cost.

use std::sync::Arc;

use async_trait::async_trait;
use peacrab::provider::models::{Model, Standing};
use peacrab::provider::{
    Delta, DeltaStream, Effort, Models, Provider, ProviderError, Request, StopReason,
};
use peacrab::replies;
use serde_json::json;

use crate::support::rig::{OWNER, Rig, RigOptions, USER};
use crate::support::script::{Gate, Reply, ScriptedModel, calls, says};
use crate::support::tools::HangingTool;

/// A script under another name.
struct Named(&'static str, Arc<ScriptedModel>);

#[async_trait]
impl Provider for Named {
    fn name(&self) -> &str {
        self.0
    }

    async fn stream<'a>(
        &'a self,
        request: &'a Request<'a>,
    ) -> Result<DeltaStream<'a>, ProviderError> {
        self.1.stream(request).await
    }
}

/// A rig with a main model, a spare one, and one that answers only where it is chosen.
async fn with_models(mut parts: RigOptions) -> (Rig, Arc<ScriptedModel>) {
    let (main, big) = (Arc::<ScriptedModel>::default(), Arc::<ScriptedModel>::default());
    let model = |name: &str, shown, script: &Arc<ScriptedModel>, standing| Model {
        name: name.to_owned(),
        provider: Arc::new(Named(shown, Arc::clone(script))),
        standing,
    };
    parts.models = Models::new(vec![
        model("main", "main (small)", &main, Standing::Default),
        model("big", "big (Very-Big:8b)", &big, Standing::Chosen),
    ]);
    parts.provider = Some(Arc::new(Named("main (small)", Arc::clone(&main))));
    let mut rig = Rig::of(parts).await;
    rig.model = main;
    (rig, big)
}

#[tokio::test]
async fn a_conversation_chooses_its_model() {
    let (mut rig, big) = with_models(RigOptions::default()).await;
    let shown = rig.ask("1", "/model").await;
    assert_eq!(
        shown,
        "Models:\nmain (small), answers here (the default)\nbig (Very-Big:8b)\n\
         Use /model main or /model default to change it."
    );
    assert_eq!(rig.ask("1", "/model Big").await, replies::model_is("big (Very-Big:8b)"));
    rig.ask("1", "hello").await;
    assert_eq!((big.asked().len(), rig.model.asked().len()), (1, 0));
    // Nobody else's changes, and it is kept.
    rig.ask("2", "hello").await;
    assert_eq!((big.asked().len(), rig.model.asked().len()), (1, 1));
    rig.stop_and_start_again().await;
    assert!(rig.ask("1", "/status").await.contains("Model: big (Very-Big:8b)"));
    rig.ask("1", "hello").await;
    assert_eq!(big.asked().len(), 2);
    // The others step in.
    big.on("fail", [Reply::Fails(ProviderError::busy("no network"))]);
    let answer = rig.ask("1", "fail").await;
    assert!(answer.starts_with("re: fail\n\n(big (Very-Big:8b) is unavailable"), "{answer}");
    assert_eq!(rig.ask("1", "/model nemo").await, replies::unknown_model("nemo"));
    assert_eq!(rig.ask("1", "/model default").await, replies::model_is("main (small)"));
    assert_eq!(rig.ask("1", "/model very-big:8b").await, replies::model_is("big (Very-Big:8b)"));
    assert_eq!(rig.query("SELECT DISTINCT provider FROM ledger").len(), 2);
    rig.finish().await;
}

#[tokio::test]
async fn in_groups_only_admins_set_anything() {
    let (mut rig, _) = with_models(RigOptions::default()).await;
    for command in ["/model big", "/think high", "/think show", "/queue collect"] {
        rig.say_as(USER, "-1", command);
        assert_eq!(rig.next_message("-1").await, replies::NOT_YOURS_TO_SET);
    }
    rig.say_as(USER, "2", "/model big");
    assert_eq!(rig.next_message("2").await, replies::model_is("big (Very-Big:8b)"));
    rig.say_as(OWNER, "-1", "/model big");
    assert_eq!(rig.next_message("-1").await, replies::model_is("big (Very-Big:8b)"));
    rig.finish().await;
}

#[tokio::test]
async fn guests_set_nothing() {
    let mut parts = RigOptions::default();
    parts.access.allow = vec!["*".to_owned()];
    let (mut rig, _) = with_models(parts).await;
    rig.say_as("77", "3", "/model big");
    assert_eq!(rig.next_message("3").await, replies::NOT_FOR_GUESTS);
    rig.finish().await;
}

#[tokio::test]
async fn a_choice_reaches_a_turn_that_works_at_its_next_step() {
    let gate = Gate::shut();
    let mut parts = RigOptions::default();
    let hang = Arc::new(HangingTool(gate.clone())) as Arc<dyn peacrab::tools::AnyTool>;
    parts.tools = peacrab::tools::ToolSet::new([hang]);
    let (mut rig, big) = with_models(parts).await;
    rig.model.on("work", [calls(&[("hang", json!({}))])]);
    big.on("work", [says("done")]);
    rig.say("1", "work");
    rig.wait_at(&gate).await;
    rig.ask("1", "/model big").await;
    rig.ask("1", "/think high").await;
    gate.open();
    assert_eq!(rig.next_message("1").await, "done");
    assert_eq!(rig.model.last().effort, Effort::Default);
    assert_eq!(big.last().effort, Effort::High);
    rig.finish().await;
}

#[tokio::test]
async fn a_model_that_left_the_config_is_the_default_again() {
    let (mut rig, _) = with_models(RigOptions::default()).await;
    rig.ask("1", "/model big").await;
    rig.stop().await;
    rig.parts.models = Models::default();
    // A newer version may have left something, too.
    rig.execute("UPDATE sessions SET settings = json_set(settings, '$.humour', 'dry')");
    rig.start().await;
    assert_eq!(rig.ask("1", "hello").await, "re: hello");
    rig.ask("1", "/think low").await;
    let kept = rig.query("SELECT settings FROM sessions").remove(0);
    assert!(kept.contains("\"humour\":\"dry\"") && kept.contains("\"effort\":\"low\""), "{kept}");
    rig.finish().await;
}

#[tokio::test]
async fn thinking_is_shown_only_if_somebody_asks() {
    let mut rig = Rig::new().await;
    let thinks = || {
        let thought = format!("Hm.\n\n{}", "x".repeat(2_000));
        Reply::Says(vec![
            Delta::Thinking(thought),
            Delta::Text("42".to_owned()),
            Delta::End(StopReason::Done),
        ])
    };
    rig.model.on("six times seven", [thinks(), thinks(), thinks()]);
    assert_eq!(rig.ask("1", "six times seven").await, "42");
    assert_eq!(rig.ask("1", "/think show").await, replies::thinking_shown(true));
    let shown = rig.ask("1", "six times seven").await;
    assert!(shown.starts_with("> Hm.\n> \n> xxx") && shown.ends_with("…\n\n42"), "{shown}");
    assert!((1_500..1_530).contains(&shown.chars().count()), "{}", shown.chars().count());
    assert_eq!(rig.ask("1", "/think hide").await, replies::thinking_shown(false));
    assert_eq!(rig.ask("1", "six times seven").await, "42");
    assert!(!rig.model.last().transcript().contains("Hm."));
    assert_eq!(rig.ask("1", "/think").await, replies::thinking_is("default", false));
    for effort in Effort::ALL {
        let word = effort.as_str();
        assert_eq!(rig.ask("1", &format!("/think {word}")).await, replies::effort_is(word));
        rig.ask("1", "hello").await;
        assert_eq!(rig.model.last().effort, *effort);
    }
    rig.ask("1", "/new").await;
    assert_eq!(rig.ask("1", "/think").await, replies::thinking_is("default", false));
    rig.finish().await;
}

#[tokio::test]
async fn usage_is_a_card() {
    let mut rig = Rig::new().await;
    assert_eq!(rig.ask("1", "/usage").await, "I used no tokens in the last 30 days.");
    rig.model.on("hello", [says("hi"), says("hi")]);
    rig.ask("1", "hello").await;
    rig.ask("1", "hello").await;
    rig.execute("UPDATE ledger SET at = at - 2 * 86400000, cost = 1500000000 WHERE id = 1");
    rig.execute("UPDATE ledger SET cached = 8 WHERE id = 2");
    let told = rig.ask("1", "/usage").await;
    let begins = "Usage\nToday: 10 read (80 % from the cache), 2 written, price unknown\n\
                  Last 30 days: 20 read (40 % from the cache), 4 written, $1.50 and 1 call of unknown price\n  \
                  script (none): 20 read";
    assert!(told.starts_with(begins), "{told}");
    rig.say_as(USER, "2", "/usage");
    assert_eq!(rig.next_message("2").await, replies::USAGE_FOR_ADMINS);
    rig.finish().await;
}

#[tokio::test]
async fn restarts_only_where_somebody_starts_it_again() {
    let mut rig = Rig::new().await;
    assert_eq!(rig.ask("1", "/restart").await, replies::CANNOT_RESTART);
    rig.say_as(USER, "2", "/restart");
    assert_eq!(rig.next_message("2").await, replies::OWNER_ONLY);
    rig.stop().await;
    rig.parts.restarts = true;
    rig.start().await;
    rig.say("1", "/restart");
    rig.ends().await;
    rig.start().await;
    assert_eq!(rig.next_message("1").await, replies::RESTARTING);
    assert!(rig.next_message("1").await.starts_with("I'm back"));
    assert_eq!(rig.ask("1", "hello").await, "re: hello");
    rig.finish().await;
}
