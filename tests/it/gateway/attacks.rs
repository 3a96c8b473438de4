//! Requests that others cause: other pages, other names, slow clients, tokens that are not theirs.

use std::time::Duration;

use reqwest::{Method, StatusCode};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use super::browser::{Browser, client, config, rig, token_of, url};
use crate::support::rig::{Parts, Rig};

/// What the gateway answers to raw bytes, until it closes the connection.
async fn raw(url: &str, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(url.strip_prefix("http://").unwrap()).await.unwrap();
    stream.write_all(bytes).await.ok();
    let mut answer = Vec::new();
    timeout(Duration::from_secs(60), stream.read_to_end(&mut answer)).await.unwrap().ok();
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn a_name_that_was_made_to_lead_here_is_refused() {
    let rig = rig().await;
    let url = url(&rig).await;
    let status = async |host: &str| {
        let request = format!("GET /health HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        let answer = raw(&url, request.as_bytes());
        answer.await.split(' ').nth(1).unwrap_or_default().to_owned()
    };
    for host in ["127.0.0.1:7450", "localhost", "[::1]:80", "192.168.1.7:7450", "peacrab.lan"] {
        assert_eq!(status(host).await, "200", "{host}");
    }
    for host in
        ["evil.example", "127.0.0.1.evil.example:7450", "localhost.evil.example", "x@localhost", ""]
    {
        assert_ne!(status(host).await, "200", "{host}");
    }
    rig.finish().await;
}

#[tokio::test]
async fn other_pages_cannot_speak_here() {
    let rig = rig().await;
    let browser = Browser::owner(&rig).await;
    let message = json!({ "session": "main", "id": "message-1", "text": "hello" });
    let with = async |name: &str, value: &str| {
        let request = browser.request(Method::POST, "/messages").json(&message);
        request.header(name, value).send().await.unwrap().status()
    };
    assert_eq!(with("Origin", "https://evil.example").await, StatusCode::FORBIDDEN);
    assert_eq!(with("Origin", "null").await, StatusCode::FORBIDDEN);
    assert_eq!(with("Origin", "http://127.0.0.1:1").await, StatusCode::FORBIDDEN);
    assert_eq!(with("Sec-Fetch-Site", "cross-site").await, StatusCode::FORBIDDEN);
    // Even a page of the same origin has to know the value that only the page was given.
    let request = browser.client.post(format!("{}/messages", browser.url)).json(&message);
    let forged = request.header("Cookie", &browser.cookie).send().await.unwrap();
    assert_eq!(forged.status(), StatusCode::FORBIDDEN);
    assert_eq!(with("Origin", &browser.url).await, StatusCode::ACCEPTED);
    let mut stream = browser.stream("main", "0.0").await;
    assert_eq!(stream.answer().await, "re: hello");
    rig.finish().await;
}

#[tokio::test]
async fn no_name_leads_to_somebody_elses_session() {
    let mut rig = rig().await;
    let owner = Browser::owner(&rig).await;
    owner.say("main", "message-1", "my secret").await;
    rig.settled().await;
    let get = async |path: &str| {
        let request = client().get(format!("{}{path}", owner.url)).bearer_auth(token_of("ben"));
        request.send().await.unwrap().text().await.unwrap()
    };
    for session in [
        "local%2Fmain",
        "..%2Flocal%2Fmain",
        "%2Flocal%2Fmain",
        "x%00",
        "..",
        "main%2F..%2F..",
        "%",
    ] {
        for path in [format!("/sessions/{session}"), format!("/sessions/{session}/files/1")] {
            let got = get(&path).await;
            assert!(!got.contains("my secret"), "{path}: {got}");
        }
    }
    let mut body =
        json!({ "model": "peacrab", "messages": [{ "role": "user", "content": "hello" }] });
    let ask = async |body: &serde_json::Value, session: Option<&str>| {
        let request = client().post(format!("{}/v1/chat/completions", owner.url)).json(body);
        let request = request.bearer_auth(token_of("ben"));
        let request = match session {
            Some(session) => request.header("X-Peacrab-Session", session),
            None => request,
        };
        request.send().await.unwrap().status()
    };
    assert_eq!(ask(&body, Some("../local/main")).await, StatusCode::BAD_REQUEST);
    body["user"] = "../local/main".into();
    assert_eq!(ask(&body, None).await, StatusCode::OK);
    let chats = rig.look("SELECT chat FROM inbound ORDER BY id");
    assert!(chats[1].starts_with("ben/user-"), "{chats:?}");
    rig.finish().await;
}

#[tokio::test]
async fn the_page_may_run_only_its_own_files() {
    let rig = rig().await;
    let url = url(&rig).await;
    for (path, kind) in [
        ("/", "text/html; charset=utf-8"),
        ("/app.js", "text/javascript; charset=utf-8"),
        ("/app.css", "text/css; charset=utf-8"),
        ("/icon.svg", "image/svg+xml"),
    ] {
        let file = client().get(format!("{url}{path}")).send().await.unwrap();
        assert_eq!(file.status(), StatusCode::OK);
        assert_eq!(file.headers()["content-type"], kind);
        assert_eq!(file.headers()["x-content-type-options"], "nosniff");
        assert_eq!(file.headers()["x-frame-options"], "DENY");
        let policy = file.headers()["content-security-policy"].to_str().unwrap();
        assert!(policy.contains("script-src 'self';") && policy.contains("img-src 'self' data:"));
        let tag = file.headers()["etag"].clone();
        let text = file.text().await.unwrap();
        if path == "/" {
            // The policy would stop them.
            assert!(
                !text.contains("style=") && !text.contains("onclick") && !text.contains("<style")
            );
        }
        let again = client().get(format!("{url}{path}")).header("If-None-Match", tag);
        assert_eq!(again.send().await.unwrap().status(), StatusCode::NOT_MODIFIED);
    }
    rig.finish().await;
}

#[tokio::test]
async fn strangers_get_nothing() {
    let rig = rig().await;
    let url = url(&rig).await;
    for path in ["/me", "/sessions", "/sessions/main", "/sessions/main/stream", "/usage"] {
        for (name, value) in [
            ("X-Nothing", "x"),
            ("Authorization", "Bearer guess"),
            ("Cookie", "peacrab=0000000000000000000000000000000000000000000000000000000000000000"),
        ] {
            let got =
                client().get(format!("{url}{path}")).header(name, value).send().await.unwrap();
            assert_eq!(got.status(), StatusCode::UNAUTHORIZED, "{path} {name}");
        }
    }
    // Guessing is slow.
    let mut statuses = Vec::new();
    for _ in 0..30 {
        let guess = client().post(format!("{url}/login")).json(&json!({ "code": "0".repeat(64) }));
        statuses.push(guess.send().await.unwrap().status());
    }
    assert!(statuses.contains(&StatusCode::TOO_MANY_REQUESTS), "{statuses:?}");
    rig.finish().await;
}

#[tokio::test]
async fn large_and_slow_requests_end() {
    let rig = rig().await;
    let browser = Browser::owner(&rig).await;
    let text = "x".repeat(600_000);
    let message = json!({ "session": "main", "id": "message-1", "text": text });
    assert_eq!(browser.post("/messages", &message).await.status(), StatusCode::PAYLOAD_TOO_LARGE);
    let many =
        format!("GET / HTTP/1.1\r\nHost: localhost\r\nX-Long: {}\r\n\r\n", "y".repeat(40_000));
    assert!(raw(&browser.url, many.as_bytes()).await.starts_with("HTTP/1.1 431"), "headers");
    let begun = Instant::now();
    let slow = raw(&browser.url, b"GET / HTTP/1.1\r\nHost: local");
    let body = "POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\nConnection: close\r\n\r\n{";
    let (slow, body) = tokio::join!(slow, raw(&browser.url, body.as_bytes()));
    assert!(!slow.contains("200"), "{slow}");
    assert!(body.starts_with("HTTP/1.1 408"), "{body}");
    assert!(begun.elapsed() < Duration::from_secs(50), "{:?}", begun.elapsed());
    rig.finish().await;
}

#[tokio::test]
async fn connections_above_the_bound_wait() {
    let config = peacrab::gateway::Config { connections_max: 2, ..config() };
    let rig = Rig::of(Parts { gateway: Some(config), ..Parts::default() }).await;
    let url = url(&rig).await;
    let address = url.strip_prefix("http://").unwrap();
    let one = TcpStream::connect(address).await.unwrap();
    let two = TcpStream::connect(address).await.unwrap();
    let health = client().get(format!("{url}/health")).send();
    tokio::pin!(health);
    assert!(timeout(Duration::from_millis(300), &mut health).await.is_err());
    drop((one, two));
    assert_eq!(health.await.unwrap().status(), StatusCode::OK);
    rig.finish().await;
}
