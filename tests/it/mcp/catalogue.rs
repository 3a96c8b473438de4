//! What servers offer, bounded and named for models.

use peacrab::tools::mcp::catalogue::{NAME_CHARS_MAX, OfferedTool, names, search};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

fn offer(server: &str, tool: &str) -> OfferedTool {
    OfferedTool::new(server, tool, "Does it.", Map::new(), false).expect("a plain one")
}

fn named(offers: &[OfferedTool]) -> Vec<String> {
    names(&offers.iter().collect::<Vec<_>>())
}

#[test]
fn names_say_whose_tool_it_is() {
    assert_eq!(named(&[offer("Time", "get-current.time")]), ["mcp_time_get_current_time"]);
}

#[test]
fn clashing_names_are_told_apart_whoever_came_first() {
    let (a, b) = (offer("a_b", "c"), offer("a", "b_c"));
    let forth = named(&[a.clone(), b.clone()]);
    let mut back = named(&[b, a]);
    back.reverse();
    assert_eq!(forth, back);
    assert_ne!(forth[0], forth[1]);
    assert!(forth[0].starts_with("mcp_a_b_c_"), "{forth:?}");
}

#[test]
fn refuses_what_is_no_object_and_what_is_endless() {
    let schema = |value: Value| value.as_object().expect("an object").clone();
    let offer = |value| OfferedTool::new("s", "t", "", schema(value), false);
    assert!(offer(json!({ "type": "array" })).is_err());
    assert!(offer(json!({ "type": "object", "x": "y".repeat(20_000) })).is_err());
    assert!(offer(json!({})).is_ok());
}

#[test]
fn finds_by_name_before_description() {
    let (mut clock, mail) = (offer("x", "clock"), offer("x", "send_mail"));
    clock.description = "Not for mail.".to_owned();
    let all = [("mcp_x_clock", &clock), ("mcp_x_send_mail", &mail)];
    assert_eq!(search(&all, "send a Mail"), [1, 0]);
    assert_eq!(search(&all, "weather"), [0_usize; 0]);
}

proptest! {
    #[test]
    fn names_are_fit_for_vendors_and_differ(
        tools in proptest::collection::btree_set(("[a-zA-Z_-]{1,32}", ".{1,80}"), 0..20)
    ) {
        let offers: Vec<_> =
            tools.iter().map(|(server, tool)| offer(server, tool)).collect();
        let names = named(&offers);
        for name in &names {
            prop_assert!(name.len() <= NAME_CHARS_MAX);
            prop_assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_'));
        }
        let unique: std::collections::BTreeSet<_> = names.iter().collect();
        prop_assert_eq!(unique.len(), names.len());
    }
}
