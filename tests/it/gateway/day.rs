//! A day of the page in little time: messages, heartbeats, jobs and webhooks, with networks that break, a daemon that
//! begins again, and configs that are read again in the middle of a turn. Nothing is lost, and nothing comes twice.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Duration, Utc};
use peacrab::config::AgentConfig;
use peacrab::gateway::Config;
use peacrab::gateway::config::{Webhook, WebhookAction, WebhookProof};
use peacrab::people::LOCAL;
use peacrab::secret::Secret;
use peacrab::tasks::{heartbeat, schedule::Clock};
use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::browser::{Browser, Stream, client, config, token_of, url};
use crate::support::rig::{Rig, RigOptions};
use crate::support::script::calls;

const BELL: &str = "token-of-the-door-bell";

/// Between two rounds; a heartbeat and a job are due in each.
const ROUND_MINUTES: i64 = 31;

/// More than 24 hours.
const ROUNDS: usize = 47;

/// The page of the owner, which remembers what it was shown.
struct Page {
    rig: Rig,
    hands: watch::Sender<DateTime<Utc>>,
    begun: DateTime<Utc>,
    browser: Browser,
    stream: Stream,
    cursor: String,
    /// Authors and texts, in the order in which they came.
    seen: Vec<(String, String)>,
}

impl Page {
    async fn new() -> Self {
        let begun = Utc::now();
        let (hands, clock) = watch::channel(begun);
        let heartbeat = heartbeat::Config { quiet: None, ..heartbeat::Config::default() };
        let agent = AgentConfig {
            heartbeat,
            timezone: Some(chrono_tz::UTC),
            ..RigOptions::default().agent
        };
        let bell = Webhook {
            proof: WebhookProof::Token(Secret::new(BELL)),
            person: LOCAL.into(),
            to: None,
            action: WebhookAction::Message("Ding {n}.".parse().unwrap()),
            events: Vec::new(),
            bytes_max: 10_000,
            per_minute: 600,
        };
        let webhooks = BTreeMap::from([("bell".to_owned(), bell)]);
        let gateway = Some(Config { webhooks, ..config() });
        let clock = Clock::with_hands(clock);
        let rig = Rig::of(RigOptions { gateway, agent, clock, ..RigOptions::default() }).await;
        let tides = (0..ROUNDS)
            .map(|round| calls(&[("converse", json!({ "text": format!("Tide {round}.") }))]));
        rig.model.on("Is the tide high?", tides.collect::<Vec<_>>());
        let browser = Browser::owner(&rig).await;
        let stream = browser.stream("main", "0.0").await;
        let (cursor, seen) = ("0.0".to_owned(), Vec::new());
        Self { rig, hands, begun, browser, stream, cursor, seen }
    }

    /// Reads until the bot has said something.
    async fn reads(&mut self, words: &str) {
        let mut has_come = self.seen.iter().any(|(_, text)| text.contains(words));
        while !has_come {
            let message = self.stream.next("message").await.expect("the stream ended");
            has_come = self.note(message.id, &message.data).contains(words);
        }
    }

    fn note(&mut self, cursor: Option<String>, message: &Value) -> String {
        self.cursor = cursor.unwrap();
        let text = message["text"].as_str().unwrap().to_owned();
        self.seen.push((message["from"].as_str().unwrap().to_owned(), text.clone()));
        text
    }

    /// The connection breaks, and the page goes on where it was.
    async fn comes_back(&mut self) {
        self.browser.url = url(&self.rig).await;
        self.stream = self.browser.stream("main", &self.cursor).await;
    }

    /// A request is sent, and the network breaks before its response.
    async fn sends_into_the_void(&self, path: &str, token: &str, headers: &str, body: &Value) {
        let mut stream =
            TcpStream::connect(self.browser.url.strip_prefix("http://").unwrap()).await.unwrap();
        let body = body.to_string();
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n{headers}\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).await.unwrap();
    }

    /// The owner says something, once, over a network that may break.
    async fn says(&mut self, round: usize) {
        let text = format!("hello {round}.");
        let message = json!({ "session": "main", "id": format!("hello-{round:04}"), "text": text });
        if round.is_multiple_of(3) {
            self.sends_into_the_void("/messages", &token_of(LOCAL), "", &message).await;
        }
        let status = self.browser.post("/messages", &message).await.status();
        assert!(matches!(status, StatusCode::ACCEPTED | StatusCode::OK), "{status}");
        self.reads(&format!("re: {text}")).await;
    }

    /// The config is read again while somebody is answered: the daemon ends, and the next one begins in this process. Its
    /// change counts from then on.
    async fn reloads(&mut self, round: usize) {
        let message = json!({
            "session": "main", "id": format!("reload-{round:04}"), "text": reload_words(round),
        });
        assert_eq!(self.browser.post("/messages", &message).await.status(), StatusCode::ACCEPTED);
        let name = format!("guest-{round}");
        let gateway = self.rig.parts.gateway.as_mut().unwrap();
        gateway.access.allow.push(name.clone());
        self.rig.stop_and_start_again().await;
        self.comes_back().await;
        self.reads(&format!("re: {}", reload_words(round))).await;
        assert_eq!(Browser::of(&self.rig, &name).await.get("/me").await["role"], "user");
        // The network breaks in the middle of a reload, too, and the page sends again.
        assert_eq!(self.browser.post("/messages", &message).await.status(), StatusCode::OK);
    }

    /// The bell rings, once, over a network that may break.
    async fn rings(&mut self, round: usize) {
        let (key, body) = (format!("ring-{round}"), json!({ "n": round }));
        if round.is_multiple_of(4) {
            let key = format!("Idempotency-Key: {key}\r\n");
            self.sends_into_the_void("/hooks/bell", BELL, &key, &body).await;
        }
        let call = client().post(format!("{}/hooks/bell", self.browser.url)).bearer_auth(BELL);
        let called = call.header("Idempotency-Key", key).json(&body).send().await.unwrap();
        assert!(matches!(called.status(), StatusCode::ACCEPTED | StatusCode::OK));
    }

    /// Time goes on, and what is due is done.
    async fn moves_on(&mut self, round: usize) {
        let minutes = ROUND_MINUTES * i64::try_from(round + 1).unwrap() + 1;
        self.hands.send_replace(self.begun + Duration::minutes(minutes));
        let ended = i64::try_from(round + 1).unwrap();
        let beats = "SELECT count(*) FROM tasks WHERE kind = 'heartbeat' AND state NOT IN ('due', 'running')";
        self.rig.wait_for_count(beats, ended).await;
        self.rig
            .wait_for_count("SELECT count(*) FROM outbox WHERE body LIKE '%Drink water.%'", ended)
            .await;
        self.reads(&format!("Tide {round}.")).await;
        self.reads(&format!("Ding {round}.")).await;
    }
}

/// A config is read again in these rounds.
fn is_reload(round: usize) -> bool {
    round % 6 == 3
}

fn reload_words(round: usize) -> String {
    format!("over the reload of {round}.")
}

#[tokio::test]
async fn a_day_with_broken_networks_and_restarts_loses_and_doubles_nothing() {
    let mut page = Page::new().await;
    std::fs::write(page.rig.workspace().join("HEARTBEAT.md"), "- [ ] Is the tide high?").unwrap();
    let job = format!("/jobs message every {ROUND_MINUTES}m | Drink water.");
    assert_eq!(page.browser.say("main", "make-job", &job).await, StatusCode::ACCEPTED);
    page.reads("Created: job 1").await;
    for round in 0..ROUNDS {
        page.says(round).await;
        page.rings(round).await;
        page.moves_on(round).await;
        if round.is_multiple_of(8) {
            page.rig.stop_and_start_again().await;
            page.comes_back().await;
        } else if round.is_multiple_of(5) {
            page.comes_back().await;
        }
        if is_reload(round) {
            page.reloads(round).await;
        }
    }
    page.rig.settled().await;
    page.says(ROUNDS).await;

    // What the page was shown, bit by bit, is the conversation, and each thing is in it once.
    let mut whole = Vec::new();
    let mut before = String::new();
    loop {
        let part = page.browser.get(&format!("/sessions/main{before}")).await;
        let messages = part["messages"].as_array().unwrap().iter();
        let texts = messages.map(|it| {
            let text = |name: &str| it[name].as_str().unwrap().to_owned();
            (text("from"), text("text"))
        });
        whole.splice(0..0, texts.collect::<Vec<_>>());
        match part["before"].as_str() {
            Some(place) => before = format!("?before={place}"),
            None => break,
        }
    }
    let sorted = |mut texts: Vec<(String, String)>| {
        texts.sort();
        texts
    };
    assert_eq!(sorted(page.seen.clone()), sorted(whole));
    let times = |from: &str, words: &str| {
        page.seen.iter().filter(|(who, text)| who == from && text.contains(words)).count()
    };
    for round in 0..ROUNDS {
        assert_eq!(times("you", &format!("hello {round}.")), 1, "{round}");
        for words in ["re: hello", "Tide", "Ding"] {
            assert_eq!(times("bot", &format!("{words} {round}.")), 1, "{words} {round}");
        }
    }
    for round in (0..ROUNDS).filter(|round| is_reload(*round)) {
        let words = reload_words(round);
        assert_eq!((times("you", &words), times("bot", &words)), (1, 1), "{words}");
    }
    assert_eq!(times("bot", "Drink water."), ROUNDS);
    let kinds: BTreeSet<_> = page.seen.iter().map(|(who, _)| who.as_str()).collect();
    assert_eq!(kinds, BTreeSet::from(["bot", "you"]));
    page.rig.finish().await;
}
