//! Who is answered first when more wait than there are slots: the owner and admins never wait for guests,
//! and persons take turns, however many chats each has.

use std::collections::HashMap;

use peacrab::agent::fairness::{Claim, choose, reserved};
use peacrab::people::Access;
use proptest::prelude::*;

use crate::support::rig::{OTHER_USER, OWNER, Rig, RigOptions, USER};
use crate::support::script::{Gate, held, says};

const GUESTS: usize = 60;

/// A rig that lets everybody in, and works on so many turns at a time.
async fn open_to_all(turns_max: usize) -> Rig {
    let access = Access {
        owners: vec![OWNER.to_owned()],
        allow: vec!["*".to_owned(), USER.to_owned(), OTHER_USER.to_owned()],
        ..Access::default()
    };
    let mut parts = RigOptions { access, ..RigOptions::default() };
    parts.agent.turns_max = turns_max;
    Rig::of(parts).await
}

/// Guests who all ask what the model hangs at, each in a chat of their own.
fn guests_ask(rig: &Rig, gate: &Gate) {
    rig.model.on("hang", (0..GUESTS).map(|_| held(gate, says("late"))));
    for n in 0..GUESTS {
        rig.say_as(&format!("guest {n}"), &format!("c{n}"), "hang");
    }
}

async fn guests_are_answered(mut rig: Rig, gate: &Gate) {
    gate.open();
    for n in 0..GUESTS {
        assert_eq!(rig.next_message(&format!("c{n}")).await, "late");
    }
    rig.finish().await;
}

async fn owner_is_answered_beside_guests(turns_max: usize) {
    let mut rig = open_to_all(turns_max).await;
    let gate = Gate::shut();
    guests_ask(&rig, &gate);
    rig.wait_at_times(&gate, turns_max - reserved(turns_max)).await;
    assert_eq!(rig.ask("1", "hello").await, "re: hello");
    assert_eq!(rig.ask("-1", "and here?").await, "re: and here?");
    let running = rig.query("SELECT 'one' FROM turns WHERE ending IS NULL").len();
    assert_eq!(running, turns_max - reserved(turns_max));
    guests_are_answered(rig, &gate).await;
}

#[tokio::test]
async fn the_owner_is_answered_at_once_beside_sixty_guests_whose_model_hangs() {
    Box::pin(owner_is_answered_beside_guests(16)).await;
}

#[tokio::test]
async fn the_owner_is_answered_at_once_with_two_slots() {
    Box::pin(owner_is_answered_beside_guests(2)).await;
}

/// Nothing can be kept of a single slot, but the owner is next.
#[tokio::test]
async fn the_owner_is_next_with_one_slot() {
    let mut rig = open_to_all(1).await;
    let gate = Gate::shut();
    guests_ask(&rig, &gate);
    rig.wait_at(&gate).await;
    rig.waiting(GUESTS as i64 - 1).await;
    rig.say("1", "hello");
    rig.waiting(GUESTS as i64).await;
    gate.open();
    assert_eq!(rig.next_message("1").await, "re: hello");
    let before = rig.home.got().borrow().iter().take_while(|got| got.chat != "1").count();
    assert_eq!(before, 1);
    guests_are_answered(rig, &gate).await;
}

#[tokio::test]
async fn the_last_slot_is_for_others_than_who_holds_two() {
    let mut rig = open_to_all(4).await;
    let gate = Gate::shut();
    rig.model.on("hang", (0..3).map(|_| held(&gate, says("late"))));
    for chat in ["a", "b", "c"] {
        rig.say_as(USER, chat, "hang");
    }
    rig.wait_at_times(&gate, 2).await;
    rig.waiting(1).await;
    rig.say_as(OTHER_USER, "d", "tea");
    assert_eq!(rig.next_message("d").await, "re: tea");
    rig.waiting(1).await;
    gate.open();
    for chat in ["a", "b", "c"] {
        assert_eq!(rig.next_message(chat).await, "late");
    }
    rig.finish().await;
}

#[tokio::test]
async fn nobody_waits_while_slots_are_free() {
    const CHATS: usize = 10;
    let mut rig = open_to_all(16).await;
    let gate = Gate::shut();
    rig.model.on("hang", (0..CHATS).map(|_| held(&gate, says("late"))));
    for chat in 0..CHATS {
        rig.say_as(USER, &chat.to_string(), "hang");
    }
    rig.wait_at_times(&gate, CHATS).await;
    gate.open();
    for chat in 0..CHATS {
        assert_eq!(rig.next_message(&chat.to_string()).await, "late");
    }
    rig.finish().await;
}

#[tokio::test]
async fn a_group_in_which_the_owner_waits_goes_before_guests() {
    let mut rig = open_to_all(2).await;
    let gate = Gate::shut();
    guests_ask(&rig, &gate);
    rig.wait_at(&gate).await;
    rig.say_as(USER, "-1", "tea");
    rig.waiting(GUESTS as i64).await;
    rig.say("-1", "cake");
    assert_eq!(rig.next_messages("-1", 2).await, ["re: tea", "re: cake"]);
    guests_are_answered(rig, &gate).await;
}

/// Slots that are cut off by a restart are given out as fairly.
#[tokio::test]
async fn the_owner_is_answered_at_once_after_a_restart() {
    let mut rig = open_to_all(16).await;
    let gate = Gate::shut();
    rig.model.on("hang", (0..14).map(|_| held(&gate, says("lost"))));
    guests_ask(&rig, &gate);
    rig.wait_at_times(&gate, 14).await;
    rig.stop_and_start_again().await;
    rig.wait_at_times(&gate, 28).await;
    assert_eq!(rig.ask("1", "hello").await, "re: hello");
    guests_are_answered(rig, &gate).await;
}

fn claims(most: usize) -> impl Strategy<Value = Vec<Claim<u8>>> {
    // Nobody is the owner now and then.
    let claim = (0_u8..8).prop_map(|person| Claim { person, entitled: person < 2 });
    proptest::collection::vec(claim, 0..most)
}

fn slots() -> impl Strategy<Value = usize> {
    prop_oneof![Just(1), Just(2), Just(16), 1_usize..40]
}

fn count_guests(claims: &[Claim<u8>]) -> usize {
    claims.iter().filter(|claim| !claim.entitled).count()
}

fn held_by(claims: impl Iterator<Item = Claim<u8>>) -> HashMap<u8, usize> {
    let mut held = HashMap::new();
    claims.for_each(|claim| *held.entry(claim.person).or_default() += 1);
    held
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn slots_are_given_out_once_and_within_their_number(
        turns_max in slots(), running in claims(40), waiting in claims(60),
    ) {
        let chosen = choose(turns_max, &running, &waiting);
        prop_assert!(chosen.len() <= turns_max.saturating_sub(running.len()));
        let mut once = chosen.clone();
        once.sort_unstable();
        once.dedup();
        prop_assert_eq!(once.len(), chosen.len());
        prop_assert!(chosen.iter().all(|at| *at < waiting.len()));
    }

    #[test]
    fn the_owner_waits_only_while_every_slot_is_taken(
        turns_max in slots(), running in claims(40), waiting in claims(60),
    ) {
        let chosen = choose(turns_max, &running, &waiting);
        let is_left = |(at, claim): (usize, &Claim<u8>)| claim.entitled && !chosen.contains(&at);
        if waiting.iter().enumerate().any(is_left) {
            prop_assert!(running.len() + chosen.len() >= turns_max);
            prop_assert!(chosen.iter().all(|at| waiting[*at].entitled));
        }
    }

    #[test]
    fn guests_leave_the_kept_slots_alone(
        turns_max in slots(), running in claims(40), waiting in claims(60),
    ) {
        let chosen = choose(turns_max, &running, &waiting);
        let begun: Vec<_> = chosen.iter().map(|at| waiting[*at]).collect();
        if count_guests(&begun) > 0 {
            let guests = count_guests(&running) + count_guests(&begun);
            prop_assert!(guests <= turns_max - reserved(turns_max));
        }
    }

    #[test]
    fn a_guest_waits_only_for_slots_or_for_holding_two(
        turns_max in slots(), running in claims(40), waiting in claims(60),
    ) {
        let chosen = choose(turns_max, &running, &waiting);
        let begun: Vec<_> = running.iter().copied().chain(chosen.iter().map(|at| waiting[*at])).collect();
        let for_all = turns_max - reserved(turns_max);
        let open = for_all.saturating_sub(count_guests(&begun));
        let is_free = begun.len() < turns_max && open > 0;
        let held = held_by(begun.iter().copied());
        for (at, claim) in waiting.iter().enumerate() {
            if is_free && !chosen.contains(&at) {
                prop_assert!(held[&claim.person] >= 2);
                prop_assert!(open <= for_all.div_ceil(4));
            }
        }
    }

    /// Nobody begins a turn while somebody waits who then holds fewer, and each begins in order.
    #[test]
    fn persons_take_turns(turns_max in slots(), running in claims(40), waiting in claims(60)) {
        let chosen = choose(turns_max, &running, &waiting);
        let before = held_by(running.iter().copied());
        let mut held = before.clone();
        for at in &chosen {
            let claim = waiting[*at];
            let holds = held.get(&claim.person).copied().unwrap_or_default();
            for (other, waits) in waiting.iter().enumerate() {
                let left = waits.entitled == claim.entitled && !chosen.contains(&other);
                if left && waits.person != claim.person {
                    let theirs = held.get(&waits.person).copied().unwrap_or_default();
                    prop_assert!(holds <= theirs);
                }
                prop_assert!(!(left && waits.person == claim.person && other < *at));
            }
            *held.entry(claim.person).or_default() += 1;
        }
    }

    #[test]
    fn all_begin_where_slots_are_plenty(waiting in claims(20)) {
        let chosen = choose(64, &[], &waiting);
        prop_assert_eq!(chosen.len(), waiting.len());
    }
}
