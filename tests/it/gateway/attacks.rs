//! Requests that others cause: other pages, other names, slow clients, tokens that are not theirs.

use std::time::Duration;

use peacrab::gateway::Config;
use peacrab::gateway::config::{RequestTimes, Webhook, WebhookAction, WebhookProof};
use peacrab::people::LOCAL;
use peacrab::secret::Secret;
use reqwest::{Method, StatusCode};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{interval, timeout};

use super::browser::{Browser, client, config, rig, token_of, url};
use crate::support::rig::{Rig, RigOptions};

/// What the gateway answers to raw bytes, until it closes the connection.
pub(super) async fn raw(url: &str, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(url.strip_prefix("http://").unwrap()).await.unwrap();
    stream.write_all(bytes).await.ok();
    let mut answer = Vec::new();
    timeout(Duration::from_secs(60), stream.read_to_end(&mut answer)).await.unwrap().ok();
    String::from_utf8_lossy(&answer).into_owned()
}

/// The paths at which a person changes something.
const CHANGES: [&str; 10] = [
    "/messages",
    "/press",
    "/files",
    "/jobs/1",
    "/approvals/1",
    "/questions/1",
    "/proposals/1",
    "/sign-ins/all",
    "/v1/chat/completions",
    "/logout",
];

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
    // Nothing tells a browser that another page may read here, neither before a request nor after.
    for (method, path) in [(Method::OPTIONS, "/messages"), (Method::GET, "/sessions/main/stream")] {
        let request = browser.request(method, path).header("Origin", "https://evil.example");
        let asked = request.header("Access-Control-Request-Method", "POST").send().await.unwrap();
        assert_eq!(asked.status(), StatusCode::FORBIDDEN, "{path}");
        let names = asked.headers().keys().map(|name| name.as_str().to_owned());
        let open: Vec<_> = names.filter(|name| name.starts_with("access-control")).collect();
        assert_eq!(open, Vec::<String>::new(), "{path}");
        assert_eq!(asked.headers()["cross-origin-resource-policy"], "same-origin");
    }
    for path in CHANGES {
        let url = format!("{}{path}", browser.url);
        let forged = browser.client.post(url).header("Cookie", &browser.cookie);
        let forged = forged.json(&json!({})).send().await.unwrap();
        assert_eq!(forged.status(), StatusCode::FORBIDDEN, "{path}");
    }
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
    let chats = rig.query("SELECT chat FROM inbound ORDER BY id");
    assert!(chats[1].starts_with("ben/user-"), "{chats:?}");
    rig.finish().await;
}

#[tokio::test]
async fn the_page_may_run_only_its_own_files() {
    let rig = rig().await;
    let url = url(&rig).await;
    let mut bytes = 0;
    for (path, kind) in [
        ("/", "text/html; charset=utf-8"),
        ("/app.js", "text/javascript; charset=utf-8"),
        ("/lists.js", "text/javascript; charset=utf-8"),
        ("/sw.js", "text/javascript; charset=utf-8"),
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
        bytes += text.len();
        if path == "/" {
            // The policy would stop them.
            assert!(
                !text.contains("style=") && !text.contains("onclick") && !text.contains("<style")
            );
        }
        let again = client().get(format!("{url}{path}")).header("If-None-Match", tag);
        assert_eq!(again.send().await.unwrap().status(), StatusCode::NOT_MODIFIED);
    }
    // The page is small, even before a proxy compresses it.
    assert!(bytes < 60_000, "{bytes}");
    rig.finish().await;
}

#[tokio::test]
async fn strangers_get_nothing() {
    let rig = rig().await;
    let url = url(&rig).await;
    let reads = [
        "/me",
        "/sessions",
        "/sessions/main",
        "/sessions/main/stream",
        "/sessions/main/files/1",
        "/usage",
        "/channels",
        "/jobs",
        "/waiting",
        "/sign-ins",
        "/workspace",
        "/workspace/file?path=AGENTS.md",
        "/events",
        "/v1/models",
    ];
    for path in reads {
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
    for path in CHANGES {
        // A token of somebody else's, cut short.
        let forged = token_of(LOCAL);
        let forged = client().post(format!("{url}{path}")).bearer_auth(&forged[..forged.len() - 1]);
        let got = forged.json(&json!({})).send().await.unwrap();
        assert_eq!(got.status(), StatusCode::UNAUTHORIZED, "{path}");
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

/// A gateway that waits as long as for others, but for what is named.
pub(super) async fn with_times(change: impl FnOnce(&mut RequestTimes)) -> Rig {
    let mut config = config();
    change(&mut config.times);
    let proof = WebhookProof::Token(Secret::new("token-of-the-door-bell"));
    let hook = Webhook {
        proof,
        person: LOCAL.into(),
        to: None,
        action: WebhookAction::Message("It rang.".parse().unwrap()),
        events: Vec::new(),
        bytes_max: 10_000,
        per_minute: 60,
    };
    config.webhooks.insert("bell".to_owned(), hook);
    Rig::of(RigOptions { gateway: Some(config), ..RigOptions::default() }).await
}

#[tokio::test]
async fn large_requests_and_slow_headers_end() {
    let rig = with_times(|times| times.header = Duration::from_secs(2)).await;
    let browser = Browser::owner(&rig).await;
    let text = "x".repeat(600_000);
    let message = json!({ "session": "main", "id": "message-1", "text": text });
    assert_eq!(browser.post("/messages", &message).await.status(), StatusCode::PAYLOAD_TOO_LARGE);
    let many =
        format!("GET / HTTP/1.1\r\nHost: localhost\r\nX-Long: {}\r\n\r\n", "y".repeat(40_000));
    assert!(raw(&browser.url, many.as_bytes()).await.starts_with("HTTP/1.1 431"), "headers");
    let slow = raw(&browser.url, b"GET / HTTP/1.1\r\nHost: local").await;
    assert!(!slow.contains("200"), "{slow}");
    rig.finish().await;
}

/// The answer of the gateway to a client that sends the body of a request byte by byte, and never all of it.
async fn dripping(url: &str, path: &str, token: &str) -> String {
    let mut stream = TcpStream::connect(url.strip_prefix("http://").unwrap()).await.unwrap();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\
         Content-Length: 9000\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let (mut read, mut write) = stream.split();
    let mut answer = Vec::new();
    let mut ticks = interval(Duration::from_millis(10));
    let drips = async {
        loop {
            ticks.tick().await;
            if write.write_all(b" ").await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    };
    tokio::select! {
        whole = timeout(Duration::from_secs(60), read.read_to_end(&mut answer)) => {
            whole.expect("it is never cut off").ok();
        }
        () = drips => {}
    }
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn a_client_that_sends_a_byte_at_a_time_is_cut_off() {
    let cut = |times: &mut RequestTimes| {
        times.body = Duration::from_millis(300);
        times.upload = Duration::from_millis(300);
    };
    let rig = with_times(cut).await;
    let url = url(&rig).await;
    let own = token_of(LOCAL);
    let own = own.as_str();
    let places = [
        ("/hooks/bell", "token-of-the-door-bell"),
        ("/messages", own),
        ("/press", own),
        ("/files", own),
        ("/jobs/1", own),
        ("/approvals/1", own),
        ("/questions/1", own),
        ("/proposals/1", own),
        ("/sign-ins/all", own),
        ("/v1/chat/completions", own),
        ("/login", own),
    ];
    let answers = places.map(|(path, token)| {
        let url = url.clone();
        async move { (path, dripping(&url, path, token).await) }
    });
    for (path, answer) in futures_util::future::join_all(answers).await {
        assert!(answer.starts_with("HTTP/1.1 408"), "{path}: {answer}");
    }
    // Others were served meanwhile, and nothing of it is left.
    assert_eq!(rig.query("SELECT id FROM jobs"), Vec::<String>::new());
    let uploads = std::fs::read_dir(rig.path().join("web")).unwrap().count();
    assert_eq!(uploads, 0);
    let health = client().get(format!("{url}/health")).send().await.unwrap();
    assert_eq!(health.status(), StatusCode::OK);
    rig.finish().await;
}

#[tokio::test]
async fn open_streams_leave_connections_for_others() {
    let config = Config { connections_max: 40, ..config() };
    let rig = Rig::of(RigOptions { gateway: Some(config), ..RigOptions::default() }).await;
    let (owner, ben) = (Browser::owner(&rig).await, Browser::of(&rig, "ben").await);
    let open = async |browser: &Browser, path: &str| {
        browser.request(Method::GET, path).send().await.unwrap()
    };
    let mut streams = Vec::new();
    for n in 0..30 {
        let path = if n % 4 == 0 { "/events".to_owned() } else { format!("/sessions/s{n}/stream") };
        let stream = open(&owner, &path).await;
        assert_eq!(stream.status(), StatusCode::OK, "{path}");
        streams.push(stream);
    }
    // One person has three quarters of them at most, all together seven eighths.
    let many = open(&owner, "/sessions/main/stream").await;
    assert_eq!(many.status(), StatusCode::SERVICE_UNAVAILABLE);
    let mut bens = Vec::new();
    for n in 0..5 {
        bens.push(open(&ben, &format!("/sessions/b{n}/stream")).await);
        assert_eq!(bens[n].status(), StatusCode::OK);
    }
    assert_eq!(open(&ben, "/events").await.status(), StatusCode::SERVICE_UNAVAILABLE);
    let health = client().get(format!("{}/health", owner.url)).send().await.unwrap();
    assert_eq!(health.status(), StatusCode::OK);
    assert_eq!(owner.say("main", "message-1", "hello").await, StatusCode::ACCEPTED);
    // A stream that ends makes room.
    streams.truncate(6);
    let opens = async {
        while open(&owner, "/sessions/main/stream").await.status() != StatusCode::OK {
            tokio::task::yield_now().await;
        }
    };
    timeout(Duration::from_secs(30), opens).await.unwrap();
    rig.finish().await;
}

#[tokio::test]
async fn connections_above_the_bound_wait() {
    let config = Config { connections_max: 2, ..config() };
    let rig = Rig::of(RigOptions { gateway: Some(config), ..RigOptions::default() }).await;
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
