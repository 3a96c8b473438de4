//! Health, readiness and metrics, and what the command line says of the gateway.

use peacrab::gateway::Config;
use peacrab::secret::Secret;
use reqwest::StatusCode;
use serde_json::Value;

use super::browser::{Browser, client, config, rig, url};
use crate::support::binary::{ProgramFixture, until};
use crate::support::rig::{Rig, RigOptions};

#[tokio::test]
async fn is_healthy_while_the_loop_and_the_store_work() {
    let rig = rig().await;
    let url = url(&rig).await;
    let health = client().get(format!("{url}/health")).send().await.unwrap();
    assert_eq!(health.status(), StatusCode::OK);
    let health: Value = health.json().await.unwrap();
    assert_eq!((&health["loop"], &health["store"]), (&true.into(), &true.into()));
    assert!(health["channels"]["home"]["up"].is_boolean(), "{health}");
    assert!(health["channels"]["web"]["last_byte_s"].is_number(), "{health}");
    rig.finish().await;
}

#[tokio::test]
async fn a_platform_that_is_away_makes_it_unready_and_not_unhealthy() {
    let fixture = ProgramFixture::new(
        "[providers.main]\ntype = \"rehearsal\"\n[gateway]\nlisten = \"127.0.0.1:0\"\n\
         [channels.away]\ntype = \"telegram\"\ntoken = \"12345678:ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghi\"\n\
         api_url = \"http://127.0.0.1:1\"\n",
    );
    let _daemon = fixture.daemon().await;
    let link = fixture.run(&["web"]).await.out;
    let url = link.lines().find_map(|line| Some(line.split_once("/#")?.0)).unwrap();
    let get = async |path: &str| client().get(format!("{url}{path}")).send().await.unwrap();
    let ready = get("/ready").await;
    assert_eq!(ready.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(ready.json::<Value>().await.unwrap()["ready"], false);
    let health = get("/health").await;
    assert_eq!(health.status(), StatusCode::OK);
    let health: Value = health.json().await.unwrap();
    assert_eq!(health["channels"]["away"]["up"], false);
    assert!(health["channels"]["away"]["last_byte_s"].is_null(), "{health}");
}

#[tokio::test]
async fn is_unhealthy_while_the_store_cannot_write() {
    let rig = rig().await;
    let url = url(&rig).await;
    let store = rusqlite::Connection::open(rig.path().join("state.db")).unwrap();
    store.execute_batch("BEGIN IMMEDIATE").unwrap();
    let health = client().get(format!("{url}/health")).send().await.unwrap();
    assert_eq!(health.status(), StatusCode::SERVICE_UNAVAILABLE);
    let health: Value = health.json().await.unwrap();
    assert_eq!(health["store"], false);
    store.execute_batch("ROLLBACK").unwrap();
    rig.finish().await;
}

#[tokio::test]
async fn is_unhealthy_while_the_loop_is_stuck() {
    let rig = rig().await;
    let url = url(&rig).await;
    // Each pass of the loop reads this table.
    rig.execute("ALTER TABLE asks RENAME TO asks_of_before");
    let health = client().get(format!("{url}/health")).send().await.unwrap();
    assert_eq!(health.status(), StatusCode::SERVICE_UNAVAILABLE);
    let health: Value = health.json().await.unwrap();
    assert_eq!((&health["ok"], &health["loop"]), (&false.into(), &false.into()));
    assert_eq!(health["store"], true);
    rig.execute("ALTER TABLE asks_of_before RENAME TO asks");
    until("the loop to go on", async || {
        let health = client().get(format!("{url}/health")).send().await.unwrap();
        (health.status() == StatusCode::OK).then_some(())
    })
    .await;
    rig.finish().await;
}

#[tokio::test]
async fn a_token_protects_what_the_operator_reads() {
    let token = Some(Secret::new("a-token-of-the-operator"));
    let config = Config { token, ..config() };
    let rig = Rig::of(RigOptions { gateway: Some(config), ..RigOptions::default() }).await;
    let url = url(&rig).await;
    let get = async |path: &str, token: &str| {
        let request = client().get(format!("{url}{path}"));
        let request = if token.is_empty() { request } else { request.bearer_auth(token) };
        request.send().await.unwrap()
    };
    assert_eq!(get("/metrics", "").await.status(), StatusCode::UNAUTHORIZED);
    assert_eq!(get("/metrics", "a-token-of-somebody-el").await.status(), StatusCode::UNAUTHORIZED);
    assert_eq!(get("/metrics", "a-token-of-the-operator").await.status(), StatusCode::OK);
    let health: Value = get("/health", "").await.json().await.unwrap();
    assert_eq!(health, serde_json::json!({ "ok": true, "loop": true, "store": true }));
    // It speaks for the owner.
    let me: Value = get("/me", "a-token-of-the-operator").await.json().await.unwrap();
    assert_eq!((&me["name"], &me["role"]), (&"owner".into(), &"owner".into()));
    rig.finish().await;
}

#[tokio::test]
async fn nothing_listens_without_the_section_and_web_explains_it() {
    let fixture = ProgramFixture::new("[providers.main]\ntype = \"rehearsal\"\n");
    let ended = fixture.run(&["web"]).await;
    assert_eq!(ended.code, Some(1));
    assert!(ended.err.contains("[gateway]\nlisten = \"127.0.0.1:7450\""), "{}", ended.err);
}

#[tokio::test]
async fn a_port_that_another_program_uses_is_told_and_tried_again() {
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = other.local_addr().unwrap().port();
    let fixture = ProgramFixture::new(&format!(
        "[providers.main]\ntype = \"rehearsal\"\n[gateway]\nlisten = \"127.0.0.1:{port}\"\n"
    ));
    let daemon = fixture.daemon().await;
    let state = async || fixture.status().await["channels"]["web"].clone();
    let down = until("the trouble", async || {
        let web = state().await;
        (!web["trouble"].is_null()).then_some(web)
    })
    .await;
    let trouble = down["trouble"].as_str().unwrap();
    for words in [&*format!("127.0.0.1:{port} cannot be opened"), "in use", "`listen` of [gateway]"]
    {
        assert!(trouble.contains(words), "{words}: {trouble}");
    }
    assert_eq!(down["up"], false, "{down}");
    let doctor = fixture.run(&["doctor"]).await;
    assert_eq!(doctor.code, Some(1), "{}", doctor.out);
    assert!(doctor.out.contains("WRONG channel web: down: "), "{}", doctor.out);
    drop(other);
    until("the port", async || (state().await["up"] == true).then_some(())).await;
    assert!(state().await["trouble"].is_null());
    assert!(fixture.run(&["web"]).await.out.contains(&format!("http://127.0.0.1:{port}/#")));
    daemon.terminate().await;
}

#[tokio::test]
async fn web_makes_a_link_and_lists_and_ends_sign_ins() {
    let fixture = ProgramFixture::new(
        "[providers.main]\ntype = \"rehearsal\"\n[gateway]\nlisten = \"127.0.0.1:0\"\nallow = [\"ben\"]\n",
    );
    let _daemon = fixture.daemon().await;
    let ended = fixture.run(&["web"]).await;
    let link = ended.out.lines().find(|line| line.starts_with("http://127.0.0.1:")).unwrap();
    let (url, code) = link.split_once("/#").unwrap();
    let entered = client().post(format!("{url}/login"));
    let entered = entered.json(&serde_json::json!({ "code": code })).send().await.unwrap();
    assert_eq!(entered.status(), StatusCode::NO_CONTENT);
    let listed = fixture.run(&["web", "--sessions"]).await.out;
    let id = listed.split(' ').next().unwrap().to_owned();
    assert!(listed.contains("  local, last seen "), "{listed}");
    assert_eq!(fixture.run(&["web", "--revoke", &id]).await.out, "1 browser is signed out.\n");
    assert_eq!(fixture.run(&["web", "--sessions"]).await.out, "No browser is signed in.\n");
    // By the name in the config, or by the number.
    let by_name = Browser::by_link(&fixture.run(&["web", "--person", "ben"]).await.out).await;
    assert_eq!(by_name.say("main", "message-1", "hello").await, StatusCode::ACCEPTED);
    let listed: Value =
        serde_json::from_str(&fixture.run(&["people", "--json"]).await.out).unwrap();
    let number = format!("p{}", listed[0]["person"]["id"]);
    let by_number = Browser::by_link(&fixture.run(&["web", "--person", &number]).await.out).await;
    for browser in [by_name, by_number] {
        let me = browser.get("/me").await;
        assert_eq!((&me["name"], &me["role"]), (&"ben".into(), &"user".into()), "{listed}");
    }
    for stranger in ["p999", "p", "@p1"] {
        let ended = fixture.run(&["web", "--person", stranger]).await;
        assert!(ended.err.contains("no person"), "{}", ended.err);
    }
    let stranger = fixture.run(&["web", "--person", "eve"]).await;
    assert!(stranger.err.contains("no person `eve`"), "{}", stranger.err);
}
