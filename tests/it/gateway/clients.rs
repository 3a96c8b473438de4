//! Clients that are no browsers: odd requests, places that never were, and those that read nothing.

use std::time::Duration;

use peacrab::gateway::Config;
use peacrab::secret::Secret;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpSocket;
use tokio::time::timeout;

use super::attacks::{raw, with_times};
use super::browser::{Browser, client, config, rig, url};
use crate::support::rig::{Rig, RigOptions};

#[tokio::test]
async fn a_client_that_reads_nothing_is_cut_off() {
    let rig = with_times(|times| times.unread = Duration::from_millis(300)).await;
    let url = url(&rig).await;
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4_096).unwrap();
    let mut stream = socket.connect(url.strip_prefix("http://").unwrap().parse().unwrap()).await;
    let stream = stream.as_mut().unwrap();
    // It asks until nothing more is taken, and is cut off: also a stranger could do that.
    let asking = async {
        while stream.write_all(b"GET /app.js HTTP/1.1\r\nHost: localhost\r\n\r\n").await.is_ok() {}
    };
    timeout(Duration::from_secs(60), asking).await.expect("it is never cut off");
    let health = client().get(format!("{url}/health")).send().await.unwrap();
    assert_eq!(health.status(), StatusCode::OK);
    rig.finish().await;
}

#[tokio::test]
async fn a_request_names_its_host_and_its_origin_once() {
    let rig = rig().await;
    let url = url(&rig).await;
    let status = async |head: &str| {
        let request = format!("{head}\r\nConnection: close\r\n\r\n");
        let answer = raw(&url, request.as_bytes()).await;
        answer.split(' ').nth(1).unwrap_or_default().to_owned()
    };
    for (head, expected) in [
        ("GET /ready HTTP/1.1\r\nHost: localhost", "200"),
        ("GET /ready HTTP/1.0\r\nHost: localhost", "200"),
        ("GET http://localhost/ready HTTP/1.1\r\nHost: localhost", "200"),
        ("GET /ready HTTP/1.1\r\nHost: localhost\r\nHost: evil.example", "400"),
        ("GET /ready HTTP/1.1\r\nHost: evil.example\r\nHost: localhost", "400"),
        ("GET http://evil.example/ready HTTP/1.1\r\nHost: localhost", "421"),
        ("GET http://localhost/ready HTTP/1.1\r\nHost: evil.example", "421"),
        ("GET /ready HTTP/1.0", "421"),
        (
            "GET /ready HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\nOrigin: http://evil",
            "400",
        ),
    ] {
        assert_eq!(status(head).await, expected, "{head}");
    }
    rig.finish().await;
}

#[tokio::test]
async fn a_page_elsewhere_can_link_here_and_cause_no_other_request() {
    let rig = rig().await;
    let url = url(&rig).await;
    let status = async |path: &str, site: &str, mode: &str, dest: &str| {
        let request = client().get(format!("{url}{path}")).header("Sec-Fetch-Site", site);
        let request = request.header("Sec-Fetch-Mode", mode).header("Sec-Fetch-Dest", dest);
        request.send().await.unwrap().status()
    };
    // A link to sign in, in a chat that is a page itself.
    assert_eq!(status("/", "cross-site", "navigate", "document").await, StatusCode::OK);
    assert_eq!(status("/", "none", "navigate", "document").await, StatusCode::OK);
    assert_eq!(status("/app.js", "same-origin", "no-cors", "script").await, StatusCode::OK);
    for site in ["cross-site", "same-site"] {
        for (path, mode, dest) in [
            ("/health", "no-cors", "empty"),
            ("/health", "navigate", "iframe"),
            ("/icon.svg", "no-cors", "image"),
            ("/app.js", "no-cors", "script"),
            ("/metrics", "cors", "empty"),
        ] {
            let status = status(path, site, mode, dest).await;
            assert_eq!(status, StatusCode::FORBIDDEN, "{site} {path} {dest}");
        }
    }
    rig.finish().await;
}

#[tokio::test]
async fn strangers_do_not_use_up_the_operators_checks() {
    let token = Some(Secret::new("a-token-of-the-operator"));
    let config = Config { token, ..config() };
    let rig = Rig::of(RigOptions { gateway: Some(config), ..RigOptions::default() }).await;
    let health = format!("{}/health", url(&rig).await);
    let client = client();
    while client.get(&health).send().await.unwrap().status() != StatusCode::TOO_MANY_REQUESTS {}
    let own = client.get(&health).bearer_auth("a-token-of-the-operator").send().await.unwrap();
    assert_eq!(own.status(), StatusCode::OK);
    rig.finish().await;
}

#[tokio::test]
async fn every_refusal_explains_itself_in_the_same_form() {
    let rig = rig().await;
    let owner = Browser::owner(&rig).await;
    for path in [
        "/sessions/%FF%FE",
        "/sessions/main/files/abc",
        "/sessions/main/files/99999999999999999999",
        "/workspace?path=a&path=b",
        "/workspace/file?path=a&path=b",
        "/sessions/main?before=1.1&before=2.2",
        "/sessions/main/stream?after=x",
        "/v1/models/%FF",
        "/sessions/",
        "//",
    ] {
        let refused = owner.request(Method::GET, path).send().await.unwrap();
        assert!(refused.status().is_client_error(), "{path}");
        let body: Value = refused.json().await.expect(path);
        assert!(body["error"]["message"].is_string(), "{path}: {body}");
    }
    for path in ["/jobs/x", "/approvals/1e3", "/questions/99999999999999999999", "/proposals/x"] {
        let refused = owner.post(path, &json!({ "action": "run" })).await;
        assert_eq!(refused.status(), StatusCode::BAD_REQUEST, "{path}");
        let body: Value = refused.json().await.expect(path);
        assert!(body["error"]["message"].is_string(), "{path}: {body}");
    }
    rig.finish().await;
}

#[tokio::test]
async fn a_place_that_never_was_is_the_end() {
    let rig = rig().await;
    let browser = Browser::owner(&rig).await;
    browser.say("main", "message-1", "hello").await;
    assert_eq!(browser.stream("main", "0.0").await.answer().await, "re: hello");
    // As after a backup was restored: what comes now is shown, whatever the page has seen before.
    let places = ["9223372036854775807.9223372036854775807", "1000000.1000000", "1.99999"];
    let mut streams = Vec::new();
    for place in places {
        streams.push(browser.stream("main", place).await);
    }
    browser.say("main", "message-2", "and now").await;
    for mut stream in streams {
        assert_eq!(stream.answer().await, "re: and now");
    }
    let all = browser.stream("main", "-5.-9223372036854775808").await.answer().await;
    assert_eq!(all, "re: hello");
    for wrong in ["", "1", "1.x", "1.1.1", "99999999999999999999.0", "<b>"] {
        let path = format!("/sessions/main/stream?after={wrong}");
        let refused = browser.request(Method::GET, &path).send().await.unwrap();
        assert_eq!(refused.status(), StatusCode::BAD_REQUEST, "{wrong}");
    }
    rig.finish().await;
}

#[tokio::test]
async fn names_of_sessions_can_be_seen() {
    let rig = rig().await;
    let browser = Browser::owner(&rig).await;
    for wrong in ["", " ", "a/b", "a\nb", "\u{202e}live", "ma\u{200b}in", "x\u{e0041}", "\0"] {
        let said = browser.say(wrong, "message-1", "hello").await;
        assert_eq!(said, StatusCode::BAD_REQUEST, "{wrong:?}");
    }
    let name = "<img src=x onerror=alert(1)> ü 🦀";
    assert_eq!(browser.say(name, "message-1", "hello").await, StatusCode::ACCEPTED);
    assert_eq!(browser.get("/sessions").await["sessions"][0]["name"], name);
    rig.finish().await;
}
