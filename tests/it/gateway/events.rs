//! The stream of events, and the description of the API, which says what there is.

use std::collections::BTreeMap;

use peacrab::people::LOCAL;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::browser::{Browser, Stream, client, rig, token_of};
use crate::support::rig::{OWNER, Rig};
use crate::support::script::{Gate, calls, paced, says};

async fn events(browser: &Browser, after: Option<&str>) -> Stream {
    let request = browser.request(Method::GET, "/events");
    let request = match after {
        Some(id) => request.header("Last-Event-ID", id),
        None => request,
    };
    let response = request.send().await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    assert_eq!(response.headers()["x-peacrab-events"], "1");
    Stream::of(response)
}

#[tokio::test]
async fn shows_what_a_turn_does() {
    let rig = rig().await;
    let lists = calls(&[("list_files", json!({"path": "."}))]);
    rig.model.on("files", [lists, says("Few.")]);
    let browser = Browser::owner(&rig).await;
    let mut stream = events(&browser, None).await;
    browser.say("main", "message-1", "files?").await;
    let begun = stream.next("turn_start").await.unwrap();
    assert_eq!((&begun.data["version"], &begun.data["event"]), (&json!(1), &json!("turn_start")));
    assert_eq!(begun.data["address"]["chat"], "local/main");
    assert_eq!(stream.next("tool_end").await.unwrap().data["tool"], "list_files");
    assert_eq!(stream.next("text").await.unwrap().data["text"], "Few.");
    let ended = stream.next("turn_end").await.unwrap();
    let end = ended.id.unwrap();
    // Whoever comes back misses nothing.
    drop(stream);
    browser.say("main", "message-2", "again").await;
    let mut stream = events(&browser, Some(&end)).await;
    let number = |id: &str| id.split_once('.').unwrap().1.parse::<u64>().unwrap();
    let first = stream.any().await.unwrap().id.unwrap();
    assert_eq!(number(&first), number(&end) + 1);
    assert_eq!(stream.next("text").await.unwrap().data["text"], "re: again");
    rig.finish().await;
}

#[tokio::test]
async fn tells_a_reader_of_an_earlier_start_that_it_missed_some() {
    let mut rig = rig().await;
    let browser = Browser::owner(&rig).await;
    let mut stream = events(&browser, None).await;
    browser.say("main", "message-1", "one").await;
    let end = stream.next("turn_end").await.unwrap().id.unwrap();
    rig.stop_and_start_again().await;
    let browser = Browser { url: super::browser::url(&rig).await, ..browser };
    let mut stream = events(&browser, Some(&end)).await;
    assert_eq!(stream.any().await.unwrap().event, "missed");
    browser.say("main", "message-2", "two").await;
    assert_eq!(stream.next("text").await.unwrap().data["text"], "re: two");
    for wrong in ["x", "1.2.3", "", &"9".repeat(100)] {
        assert_eq!(events(&browser, Some(wrong)).await.any().await.unwrap().event, "missed");
    }
    rig.finish().await;
}

#[tokio::test]
async fn people_see_their_own_turns() {
    let mut rig = rig().await;
    let (owner, ben) = (Browser::owner(&rig).await, Browser::of(&rig, "ben").await);
    let (mut all, mut own) = (events(&owner, None).await, events(&ben, None).await);
    rig.ask(OWNER, "my secret").await;
    owner.say("main", "message-1", "another secret").await;
    rig.settled().await;
    ben.say("main", "message-1", "hello").await;
    assert_eq!(own.any().await.unwrap().data["address"]["chat"], "ben/main");
    assert_eq!(own.next("text").await.unwrap().data["text"], "re: hello");
    let texts = [all.next("text").await, all.next("text").await, all.next("text").await];
    let texts = texts.map(|text| text.unwrap().data["text"].as_str().unwrap().to_owned());
    // That Ben was answered, and not what.
    assert_eq!(texts, ["re: my secret", "re: another secret", ""]);
    rig.finish().await;
}

#[tokio::test]
async fn a_slow_reader_learns_what_it_missed() {
    let rig = rig().await;
    let gate = Gate::shut();
    let words: String = (0..20_000).map(|n| format!("{:x} ", n * 7_919 % 65_536)).collect();
    let many: Vec<_> = (0..7).map(|_| (&*words, None)).chain([("end", Some(&gate))]).collect();
    rig.model.on("long", [paced(&many)]);
    let browser = Browser::owner(&rig).await;
    let mut stream = events(&browser, None).await;
    browser.say("main", "message-1", "a short one").await;
    let end = stream.next("turn_end").await.unwrap().id.unwrap();
    browser.say("main", "message-2", "a long one").await;
    gate.reached(1).await;
    let mut late = events(&browser, Some(&end)).await;
    assert_eq!(late.any().await.unwrap().event, "missed");
    gate.open();
    late.next("turn_end").await.unwrap();
    rig.finish().await;
}

/// The description of the API, as the gateway serves it.
async fn described(rig: &Rig) -> Value {
    let url = super::browser::url(rig).await;
    client().get(format!("{url}/openapi.json")).send().await.unwrap().json().await.unwrap()
}

#[tokio::test]
async fn the_description_names_every_path() {
    let rig = rig().await;
    let url = super::browser::url(&rig).await;
    let api = described(&rig).await;
    let paths = api["paths"].as_object().unwrap();
    // Those of the server's table, but for the page's own.
    let server = include_str!("../../../src/gateway/http/server.rs");
    let routes: BTreeMap<&str, &str> = server
        .lines()
        .filter_map(|line| line.trim().strip_prefix(".route(\"")?.split_once("\", "))
        .filter_map(|(path, rest)| Some((path, rest.split_once('(')?.0)))
        .collect();
    let own = ["/", "/app.css", "/app.js", "/icon.svg", "/lists.js", "/login", "/logout", "/sw.js"];
    let named: Vec<_> = routes.keys().copied().filter(|path| !own.contains(path)).collect();
    let mut known: Vec<_> = paths.keys().map(String::as_str).collect();
    known.sort_unstable();
    assert_eq!(named, known);
    for (path, methods) in paths {
        for (method, about) in methods.as_object().unwrap() {
            assert_eq!(routes[path.as_str()], method);
            // Each is there, and lets nobody in who has not proved who they are.
            let method = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
            let place = path.replace("{id}", "1").replace("{session}", "main");
            let got = client().request(method, format!("{url}{place}")).send().await.unwrap();
            let is_open = about["security"] == json!([]) || path == "/metrics";
            if !is_open {
                assert_eq!(got.status(), StatusCode::UNAUTHORIZED, "{path}");
            }
            assert_ne!(got.status(), StatusCode::METHOD_NOT_ALLOWED, "{path}");
        }
    }
    rig.finish().await;
}

/// What is wrong with a value, by a schema of the description.
fn faults(api: &Value, schema: &Value, value: &Value, at: &str) -> Vec<String> {
    if let Some(name) = schema["$ref"].as_str() {
        let name = name.rsplit('/').next().unwrap();
        return faults(api, &api["components"]["schemas"][name], value, at);
    }
    let is_a = |kind: &str| match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        other => panic!("{other}"),
    };
    let fits = match &schema["type"] {
        Value::String(kind) => is_a(kind),
        Value::Array(kinds) => kinds.iter().any(|kind| is_a(kind.as_str().unwrap())),
        _ => true,
    };
    let listed = schema["enum"].as_array().is_none_or(|listed| listed.contains(value));
    let mut found = Vec::new();
    if !fits || !listed {
        found.push(format!("{at}: {value} is no {schema}"));
    }
    for key in schema["required"].as_array().into_iter().flatten() {
        let key = key.as_str().unwrap();
        found.extend(value.get(key).is_none().then(|| format!("{at}: no {key}")));
    }
    for (key, schema) in schema["properties"].as_object().into_iter().flatten() {
        if let Some(value) = value.get(key) {
            found.extend(faults(api, schema, value, &format!("{at}.{key}")));
        }
    }
    for (n, value) in value.as_array().into_iter().flatten().enumerate() {
        found.extend(faults(api, &schema["items"], value, &format!("{at}[{n}]")));
    }
    found
}

#[tokio::test]
async fn responses_are_as_described() {
    let mut rig = rig().await;
    let api = described(&rig).await;
    let browser = Browser::owner(&rig).await;
    let mut stream = events(&browser, None).await;
    let message = json!({ "session": "main", "id": "message-1", "text": "hello" });
    let schemas = &api["components"]["schemas"];
    assert_eq!(faults(&api, &schemas["NewMessage"], &message, "message"), Vec::<String>::new());
    assert_eq!(browser.post("/messages", &message).await.status(), StatusCode::ACCEPTED);
    rig.settled().await;
    for _ in 0..4 {
        let event = stream.any().await.unwrap().data;
        assert_eq!(faults(&api, &schemas["Event"], &event, "event"), Vec::<String>::new());
    }
    let program = |method: Method, path: &str| {
        client().request(method, format!("{}{path}", browser.url)).bearer_auth(token_of(LOCAL))
    };
    for path in [
        "/me",
        "/sessions",
        "/sessions/main",
        "/usage",
        "/jobs",
        "/waiting",
        "/channels",
        "/workspace",
        "/v1/models",
        "/v1/models/peacrab",
        "/health",
        "/ready",
    ] {
        let value: Value = program(Method::GET, path).send().await.unwrap().json().await.unwrap();
        let place = match path {
            "/sessions/main" => "/sessions/{session}",
            "/v1/models/peacrab" => "/v1/models/{id}",
            path => path,
        };
        let response = &api["paths"][place]["get"]["responses"]["200"];
        let schema = &response["content"]["application/json"]["schema"];
        assert!(schema.is_object(), "{path}");
        assert_eq!(faults(&api, schema, &value, path), Vec::<String>::new());
    }
    let asks = json!({ "model": "peacrab", "messages": [{ "role": "user", "content": "x" }] });
    let answer = program(Method::POST, "/v1/chat/completions").json(&asks).send().await.unwrap();
    let answer = answer.json().await.unwrap();
    assert_eq!(faults(&api, &schemas["Completion"], &answer, "answer"), Vec::<String>::new());
    let refused: Value =
        client().get(format!("{}/me", browser.url)).send().await.unwrap().json().await.unwrap();
    assert_eq!(faults(&api, &schemas["Error"], &refused, "refused"), Vec::<String>::new());
    rig.finish().await;
}
