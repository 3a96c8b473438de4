//! A browser, as far as the gateway sees it.

use std::collections::BTreeMap;
use std::time::Duration;

use peacrab::gateway::Config;
use peacrab::gateway::config::{ApiToken, RequestTimes};
use peacrab::people::{Access, LOCAL};
use peacrab::secret::Secret;
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::support::rig::{Rig, RigOptions};

const PATIENCE: Duration = Duration::from_secs(30);

/// A gateway on a free port of this machine, for the owner and for Ben.
pub(crate) fn config() -> Config {
    Config {
        listen: "127.0.0.1:0".parse().unwrap(),
        token: None,
        url: None,
        hosts: vec!["peacrab.lan".to_owned()],
        connections_max: 256,
        times: RequestTimes::default(),
        access: Access { allow: vec!["ben".to_owned()], ..Access::local() },
        tokens: BTreeMap::from([
            ("laptop".to_owned(), token(LOCAL)),
            ("phone".to_owned(), token("ben")),
        ]),
        webhooks: BTreeMap::new(),
    }
}

/// The token of a person's program.
pub(crate) fn token_of(person: &str) -> String {
    format!("token-of-{person}-0123456789")
}

fn token(person: &str) -> ApiToken {
    ApiToken { token: Secret::new(token_of(person)), person: person.into() }
}

pub(crate) async fn rig() -> Rig {
    Rig::of(RigOptions { gateway: Some(config()), ..RigOptions::default() }).await
}

/// The address at which the gateway of a rig listens.
pub(crate) async fn url(rig: &Rig) -> String {
    let mut url = rig.web.as_ref().unwrap().url.subscribe();
    let url = timeout(PATIENCE, url.wait_for(Option::is_some)).await.unwrap().unwrap();
    url.clone().unwrap()
}

pub(crate) fn client() -> Client {
    Client::builder().no_proxy().timeout(PATIENCE).build().unwrap()
}

pub(crate) struct Browser {
    pub(crate) url: String,
    pub(crate) client: Client,
    pub(crate) cookie: String,
    pub(crate) csrf: String,
}

impl Browser {
    /// One that has signed in by a link.
    pub(crate) async fn of(rig: &Rig, person: &str) -> Self {
        url(rig).await;
        let link = rig.web.as_ref().unwrap().link(&person.into()).await.unwrap();
        Self::by_link(&link).await
    }

    /// One that has signed in by the link in these words.
    pub(crate) async fn by_link(words: &str) -> Self {
        let link = words.lines().find(|line| line.starts_with("http://")).expect(words);
        let (url, code) = link.split_once("/#").unwrap();
        let (url, client) = (url.to_owned(), client());
        let entered = client.post(format!("{url}/login")).json(&json!({ "code": code }));
        let entered = entered.send().await.unwrap();
        assert_eq!(entered.status(), StatusCode::NO_CONTENT);
        let cookie = entered.headers()["set-cookie"].to_str().unwrap();
        assert!(cookie.contains("; HttpOnly; SameSite=Strict"), "{cookie}");
        let cookie = cookie.split(';').next().unwrap().to_owned();
        let mut browser = Self { url, client, cookie, csrf: String::new() };
        let me = browser.get("/me").await;
        browser.csrf = me["csrf"].as_str().unwrap().to_owned();
        browser
    }

    pub(crate) async fn owner(rig: &Rig) -> Self {
        Self::of(rig, LOCAL).await
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.client.request(method, format!("{}{path}", self.url));
        request.header("Cookie", &self.cookie).header("X-CSRF-Token", &self.csrf)
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        let response = self.request(Method::GET, path).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::OK, "{path}");
        response.json().await.unwrap()
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Response {
        self.request(Method::POST, path).json(body).send().await.unwrap()
    }

    pub(crate) async fn say(&self, session: &str, id: &str, text: &str) -> StatusCode {
        let message = json!({ "session": session, "id": id, "text": text });
        self.post("/messages", &message).await.status()
    }

    pub(crate) async fn stream(&self, session: &str, after: &str) -> Stream {
        let request = self.request(Method::GET, &format!("/sessions/{session}/stream"));
        let response = request.header("Last-Event-ID", after).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Stream::of(response)
    }
}

/// A stream of server-sent events.
pub(crate) struct Stream {
    response: Response,
    rest: String,
}

#[derive(Debug)]
pub(crate) struct Sent {
    pub(crate) event: String,
    pub(crate) id: Option<String>,
    pub(crate) data: Value,
}

impl Stream {
    pub(crate) fn of(response: Response) -> Self {
        Self { response, rest: String::new() }
    }

    /// The next event of a name. None at the end of the stream.
    pub(crate) async fn next(&mut self, name: &str) -> Option<Sent> {
        loop {
            let sent = timeout(PATIENCE, self.any()).await.expect("no event came")?;
            if sent.event == name {
                return Some(sent);
            }
        }
    }

    /// The next event of any name. None at the end of the stream.
    pub(crate) async fn any(&mut self) -> Option<Sent> {
        loop {
            if let Some((frame, rest)) = self.rest.split_once("\n\n") {
                let (frame, rest) = (frame.to_owned(), rest.to_owned());
                self.rest = rest;
                let field = |name: &str| {
                    let prefix = format!("{name}: ");
                    frame.lines().find_map(|line| line.strip_prefix(&prefix).map(str::to_owned))
                };
                let Some(event) = field("event") else { continue };
                let data = serde_json::from_str(&field("data").unwrap()).unwrap();
                return Some(Sent { event, id: field("id"), data });
            }
            let piece = self.response.chunk().await.ok()??;
            self.rest.push_str(std::str::from_utf8(&piece).unwrap());
        }
    }

    /// The text of the bot's next message.
    pub(crate) async fn answer(&mut self) -> String {
        loop {
            let message = self.next("message").await.expect("the stream ended").data;
            if message["from"] == "bot" {
                return message["text"].as_str().unwrap().to_owned();
            }
        }
    }
}
