//! Tools that are offered again and again are written as JSON once.

use std::cell::Cell;

use peacrab::provider::ToolSchema;
use peacrab::provider::tool_json::ToolJsonCache;
use serde_json::{Value, json};

use super::*;

fn written(tools: &[ToolSchema]) -> Vec<Value> {
    tools.iter().map(|tool| json!({"name": tool.name, "takes": tool.parameters})).collect()
}

#[test]
fn writes_each_set_of_tools_once() {
    let (offered, times) = (ToolJsonCache::default(), Cell::new(0));
    let get = |tools: &[ToolSchema], variant| {
        let json = offered.get(tools, variant, || {
            times.set(times.get() + 1);
            written(tools)
        });
        assert_eq!(json.get(), serde_json::to_string(&written(tools)).unwrap());
        times.get()
    };
    let all = tools();
    let mut described = all.clone();
    described[0].description.push('!');
    let mut other = all.clone();
    other[1].parameters["required"] = json!(["path"]);
    let counts = [&all, &all, &described, &other, &all, &described, &other];
    assert_eq!(counts.map(|tools| get(tools, false)), [1, 1, 2, 3, 3, 3, 3]);
    assert_eq!(get(&all[..1], false), 4);
    assert_eq!(get(&all, true), 5);
    assert_eq!(get(&all, false), 5);
}

/// Tools that come and go are not remembered without end.
#[test]
fn forgets_sets_that_were_not_offered_lately() {
    let (offered, times) = (ToolJsonCache::default(), Cell::new(0));
    let get = |name: &str| {
        let tools = [ToolSchema { name: name.to_owned(), ..tools().remove(0) }];
        offered.get(&tools, false, || {
            times.set(times.get() + 1);
            written(&tools)
        });
        times.get()
    };
    let names: Vec<_> = (0..20).map(|n| format!("tool{n}")).collect();
    for name in &names {
        get(name);
    }
    assert_eq!(times.get(), 20);
    assert_eq!(get("tool19"), 20);
    assert_eq!(get("tool0"), 21);
}

#[tokio::test]
async fn each_request_has_its_tools_before_its_messages() {
    for platform in [Platform::OpenAi, Platform::Anthropic] {
        let api = ModelApi::start(platform).await;
        let provider = provider(&api);
        for _ in 0..2 {
            api.reply(Reply::events(&answer(platform, "Hello.")));
            ask_after(&*provider, &[], Some("hello")).await.0.unwrap();
        }
        let bodies: Vec<_> = api.requests().iter().map(ToString::to_string).collect();
        assert_eq!(bodies[0], bodies[1]);
        let at = |part: &str| bodies[0].find(part).unwrap();
        assert!(at("\"tools\":[{") < at("\"messages\":["), "{}", bodies[0]);
    }
}
