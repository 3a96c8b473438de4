//! What the loop reads grows with what happens, not with how many chats wait or run. Counted in steps of
//! SQLite's machine, which are the same on every machine.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use peacrab::people::Access;
use peacrab::store;
use peacrab::types::message::{Address, ChatKind};
use peacrab::types::session::{
    Call, CallId, CallOutcome, FrozenContext, Session, Step, Thinking, Turn, TurnId,
};
use serde_json::json;

use crate::support::rig::{OWNER, Rig, RigOptions};
use crate::support::script::{Gate, calls, held, says};
use crate::support::tool_context::said;

/// Questions of the owner that are counted.
const ASKED: usize = 20;

async fn counted(turns_max: usize) -> (Rig, Arc<AtomicU64>) {
    let steps = Arc::new(AtomicU64::new(0));
    let access =
        Access { owners: vec![OWNER.to_owned()], allow: vec!["*".to_owned()], ..Access::default() };
    let store = store::StoreOptions { read_steps: Some(Arc::clone(&steps)), ..Default::default() };
    let mut parts = RigOptions { access, store, ..RigOptions::default() };
    parts.agent.turns_max = turns_max;
    (Rig::of(parts).await, steps)
}

/// What the owner's questions cost while so many guests hang and so many wait, each in a chat of their own.
async fn cost_beside(turns_max: usize, running: usize, waiting: usize) -> u64 {
    let (mut rig, steps) = counted(turns_max).await;
    let gate = Gate::shut();
    rig.model.on("hang", (0..running + waiting).map(|_| held(&gate, says("late"))));
    for n in 0..running + waiting {
        rig.say_as(&format!("guest {n}"), &format!("c{n}"), "hang");
    }
    rig.wait_at_times(&gate, running).await;
    rig.waiting(waiting as i64).await;
    rig.ask("1", "hello").await;
    let before = steps.load(Ordering::Relaxed);
    for n in 0..ASKED {
        // A conversation of its own each time: a longer one costs more.
        assert_eq!(rig.ask(&format!("o{n}"), "hello").await, "re: hello");
    }
    let cost = steps.load(Ordering::Relaxed) - before;
    gate.open();
    for n in 0..running + waiting {
        assert_eq!(rig.next_message(&format!("c{n}")).await, "late");
    }
    rig.finish().await;
    cost
}

/// Half as much again: how often tasks wake differs a little.
fn check_flat(few: u64, many: u64) {
    assert!(many <= few + few / 2, "{few} steps beside few chats, {many} beside many");
}

#[tokio::test]
async fn a_turn_costs_no_more_beside_many_chats_that_wait() {
    check_flat(cost_beside(2, 1, 5).await, cost_beside(2, 1, 300).await);
}

#[tokio::test]
async fn a_turn_costs_no_more_beside_many_turns_that_run() {
    check_flat(cost_beside(256, 5, 0).await, cost_beside(256, 150, 0).await);
}

/// What it costs a turn to end, and the next in its chat to begin, when so many end at once. The model says
/// nothing: what deliveries cost is another matter.
async fn cost_of_ends(chats: usize) -> u64 {
    let (mut rig, steps) = counted(256).await;
    let (gate, silence) = (Gate::shut(), || says("NO_REPLY"));
    rig.model.on("hang", (0..chats).map(|_| held(&gate, silence())));
    rig.model.on("and me?", (0..chats).map(|_| silence()));
    for n in 0..chats {
        rig.say_as(&format!("guest {n}"), &format!("-{n}"), "hang");
    }
    rig.wait_at_times(&gate, chats).await;
    for n in 0..chats {
        rig.say_as(&format!("other {n}"), &format!("-{n}"), "and me?");
    }
    rig.waiting(chats as i64).await;
    let before = steps.load(Ordering::Relaxed);
    gate.open();
    rig.wait_for_count("SELECT count(*) FROM inbound WHERE state <> 'done'", 0).await;
    let cost = steps.load(Ordering::Relaxed) - before;
    rig.finish().await;
    cost / chats as u64
}

#[tokio::test]
async fn turns_that_end_at_once_cost_no_more_each() {
    check_flat(cost_of_ends(5).await, cost_of_ends(150).await);
}

/// What a question costs in a conversation of so many turns, after so many others were had.
async fn cost_after_others(turns: usize, others: usize) -> u64 {
    let (mut rig, steps) = counted(16).await;
    for _ in 0..turns {
        rig.ask("1", "hello").await;
    }
    for n in 0..others {
        rig.ask(&format!("o{n}"), "hello").await;
    }
    let before = steps.load(Ordering::Relaxed);
    rig.ask("1", "hello").await;
    let cost = steps.load(Ordering::Relaxed) - before;
    rig.finish().await;
    cost
}

/// Forty small ones are well within what is kept in memory.
#[tokio::test]
async fn a_conversation_is_not_read_again_because_there_are_others() {
    check_flat(cost_after_others(40, 0).await, cost_after_others(40, 40).await);
}

/// By its size it is decided how many stay in memory.
#[test]
fn the_size_of_a_conversation_counts_each_of_its_texts() {
    const LONG: usize = 100_000;
    let long = || "x".repeat(LONG);
    let address = Address { channel: "home".into(), chat: "1".into(), thread: None };
    let mut session = Session::new(&address, ChatKind::Private);
    let bare = session.bytes();
    session.summary = Some(long());
    session.frozen =
        Some(FrozenContext { memory: long(), notes: long(), ..FrozenContext::default() });
    let call = Call {
        id: CallId(1),
        wire_id: String::new(),
        tool: String::new(),
        arguments: long(),
        outcome: CallOutcome::Done(long()),
        sources: Vec::new(),
        images: Vec::new(),
    };
    let block = json!({"thought": [long()]});
    let step = Step {
        input: Some(said(&long())),
        text: long(),
        thinking: vec![Thinking { model: String::new(), block }],
        calls: vec![call],
        ..Step::default()
    };
    session.turns.push(Turn { id: TurnId(1), by: "7".into(), steps: vec![step], ending: None });
    let texts = session.bytes() - bare;
    assert!((8 * LONG..9 * LONG).contains(&texts), "{texts}");
}

/// A turn that ends has the jobs looked at. There is one for each of so many later times.
async fn cost_beside_jobs(jobs: usize) -> u64 {
    let (mut rig, steps) = counted(16).await;
    let made = rig.ask("1", "/jobs message every 300d | water the plants").await;
    assert!(made.starts_with("Created: job 1, every 300d"), "{made}");
    rig.stop().await;
    rig.execute(&format!(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {jobs})
         INSERT INTO jobs (channel, chat, thread, known_on, chat_kind, sender, timing, payload, missed,
                           state, next, failures, made, tainted)
         SELECT channel, chat, thread, known_on, chat_kind, sender, timing, payload, missed,
                state, next + i, failures, made, tainted FROM jobs, n WHERE id = 1"
    ));
    rig.start().await;
    rig.ask("1", "hello").await;
    let before = steps.load(Ordering::Relaxed);
    for n in 0..ASKED {
        rig.ask(&format!("o{n}"), "hello").await;
    }
    let cost = steps.load(Ordering::Relaxed) - before;
    rig.finish().await;
    cost
}

#[tokio::test]
async fn a_turn_costs_no_more_beside_many_jobs() {
    check_flat(cost_beside_jobs(1).await, cost_beside_jobs(2_000).await);
}

/// Steps of a subagent beyond the first one.
const STEPS: usize = 8;

/// The cost of each step with a call of a subagent, in a chat that has had so many conversations.
async fn cost_of_a_step(conversations: usize) -> u64 {
    let (mut rig, steps) = counted(16).await;
    for _ in 0..conversations {
        rig.ask("1", "hello").await;
        rig.ask("1", "/new").await;
    }
    let mut costs = Vec::new();
    for (task, reads) in [("a first look", 1), ("one look", 1), ("many looks", 1 + STEPS)] {
        let looks = (0..reads).map(|n| {
            fs::write(rig.workspace().join(format!("{n}.md")), format!("crab {n}")).unwrap();
            calls(&[("read_file", json!({"path": format!("{n}.md")}))])
        });
        let done = calls(&[("task_completion", json!({"result": "seen"}))]);
        rig.model.on("hand over", [calls(&[("subagent", json!({"task": task}))]), says("Done.")]);
        rig.model.on(task, looks.chain([done]).collect::<Vec<_>>());
        let before = steps.load(Ordering::Relaxed);
        assert_eq!(rig.ask("1", "hand over").await, "Done.");
        rig.settled().await;
        costs.push(steps.load(Ordering::Relaxed) - before);
    }
    rig.finish().await;
    (costs[2] - costs[1]) / STEPS as u64
}

/// Nobody's role is read again for each step, with all conversations of the person who reads the result.
#[tokio::test]
async fn a_step_costs_no_more_after_many_conversations_of_its_reader() {
    check_flat(cost_of_a_step(2).await, cost_of_a_step(100).await);
}
