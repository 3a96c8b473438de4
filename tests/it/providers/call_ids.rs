//! Ids of calls, as APIs take them.

use peacrab::provider::wire::CallIds;
use peacrab::types::session::CallOutcome;

use super::call;

fn name<const N: usize>(ids: &mut CallIds, given: [&str; N]) -> Vec<String> {
    ids.name(&given.map(|id| call(id, CallOutcome::Done(String::new()))))
}

#[test]
fn names_each_call_once_and_always_the_same() {
    let long = "x".repeat(60);
    let given = ["a", "a", "a-2", "", "ü b:0", &long, &long];
    let forty = "x".repeat(40);
    let cut = format!("{}-2", "x".repeat(38));
    let mut ids = CallIds::of_plain_letters();
    let named = name(&mut ids, given);
    assert_eq!(named, ["a", "a-2", "a-2-2", "_", "__b_0", &forty, &cut]);
    let mut ids = CallIds::of_any_letters();
    let named = name(&mut ids, given);
    assert_eq!(named, ["a", "a-2", "a-2-2", "_", "ü b:0", &forty, &cut]);
    let mut ids = CallIds::of_nine_letters();
    let named = name(&mut ids, ["D681PevKs", "call_1", "call_1", "D681PevKs"]);
    assert_eq!(named, ["D681PevKs", "ea2e877e7", "baf62cb90", "0724c1752"]);
}
