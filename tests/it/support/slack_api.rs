//! A strict stand-in for Slack's Web API and Socket Mode on real sockets: it refuses what the real
//! one would refuse, in its words, brings again what was not acknowledged, and fails on demand.

pub(crate) mod line;
mod rules;
pub(crate) mod socket;
mod state;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{ConnectInfo, Path, Request, State as Shared};
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderMap, Method as Verb, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::record::record;
use super::watched::Watched;
use super::wire::{self, Cutter, error_page, parameters};
use line::{Line, Person};
use rules::{Takes, Token, Wrong};
use socket::LinkFault;
use state::State;
pub(crate) use state::{Sent, Upload};

pub(crate) const BOT: &str = "U0CRAB";
pub(crate) const BOT_ID: &str = "B0CRAB";
pub(crate) const BOT_NAME: &str = "peacrab";
pub(crate) const TEAM: &str = "T0CREW";
pub(crate) const APP: &str = "A0CRAB";
pub(crate) const BOT_TOKEN: &str = "xoxb-111111111111-222222222222-abcdefghijklmnopqrstuvwx";
pub(crate) const APP_TOKEN: &str = "xapp-1-A0CRAB-333333333333-0123456789abcdef0123456789abcdef";

pub(crate) const ANOTHER_BOT_TOKEN: &str =
    "xoxb-111111111111-222222222222-zyxwvutsrqponmlkjihgfedc";
pub(crate) const ANOTHER_APP_TOKEN: &str =
    "xapp-1-A0CRAB-333333333333-fedcba9876543210fedcba9876543210";

/// What a call comes to instead of what it should.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// 429.
    TooMany { after: Option<u64> },
    /// A bare status, with a page as proxies make it.
    Status(u16),
    /// No answer, and no effect.
    Hang,
    /// The call takes effect, and the connection is cut.
    CutAfter,
    /// The call takes effect, and its answer is nonsense.
    Garbage,
    /// The call takes effect, and so long.
    Slow(Duration),
    /// The call takes effect, and Slack says that something broke.
    BreaksAfter(&'static str),
    /// A refusal in this word.
    Deny(&'static str),
}

/// The running stand-in; it ends when dropped.
pub(crate) struct SlackApi {
    url: String,
    state: Arc<Inner>,
    _server: JoinSet<()>,
}

type Inner = Watched<State>;

impl SlackApi {
    pub(crate) async fn start() -> Self {
        Self::start_at(TcpListener::bind("127.0.0.1:0").await.unwrap()).await
    }

    /// At an address of the caller's.
    pub(crate) async fn start_at(listener: TcpListener) -> Self {
        Self::serve(listener, [BOT_TOKEN, APP_TOKEN], [BOT, BOT_ID]).await
    }

    /// Another bot of the workspace than that of [`Self::start`].
    pub(crate) async fn start_another() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let account = ["U1CRAB", "B1CRAB"];
        Self::serve(listener, [ANOTHER_BOT_TOKEN, ANOTHER_APP_TOKEN], account).await
    }

    async fn serve(
        listener: TcpListener,
        tokens: [&'static str; 2],
        account: [&'static str; 2],
    ) -> Self {
        let links = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let socket_url = format!("ws://{}", links.local_addr().unwrap());
        let state = State::new(tokens, account, [url.clone(), socket_url]);
        let state = Arc::new(Watched::new(state));
        let router = Router::new()
            .route("/api/{method}", axum::routing::any(answer))
            .route("/upload/{file}", axum::routing::post(take_upload))
            .route("/files/{file}", axum::routing::get(give_file))
            .fallback(|| async { (StatusCode::NOT_FOUND, "Not Found") })
            .with_state(Arc::clone(&state));
        let mut server = JoinSet::new();
        server.spawn(wire::serve(listener, router));
        server.spawn(socket::serve(links, Arc::clone(&state)));
        Self { url, state, _server: server }
    }

    /// What the config calls `api_url`.
    pub(crate) fn url(&self) -> String {
        format!("{}/api", self.url)
    }

    /// Where a file is that people have sent.
    pub(crate) fn put_file(&self, name: &str, content: &[u8]) -> String {
        let (length, id) = (content.len() as u64, format!("FHERE{name}"));
        let content = Some(content.to_vec());
        let upload = Upload { name: name.to_owned(), length, content };
        self.state.change(|state| state.uploads.insert(id.clone(), upload));
        format!("{}/files/{id}", self.url)
    }

    /// Somebody says something; returns the message's time.
    pub(crate) fn say(&self, line: &Line) -> String {
        self.state.change(|state| state.say(line))
    }

    /// Somebody says something, and its event is lost.
    pub(crate) fn say_unheard(&self, line: &Line) -> String {
        self.state.change(|state| state.keep(line))
    }

    /// Somebody changes what they said.
    pub(crate) fn edit(&self, channel: &str, ts: &str, text: &str) {
        self.state.change(|state| state.change(channel, ts, text));
    }

    pub(crate) fn delete(&self, channel: &str, ts: &str) {
        self.state.change(|state| state.delete(channel, ts));
    }

    pub(crate) fn push_event(&self, event: Value) {
        self.state.change(|state| state.push_event(event));
    }

    pub(crate) fn set_pings(&self, every: Duration) {
        self.state.change(|state| state.ping_every = every);
    }

    /// Tells the last event once more, in an envelope of its own.
    pub(crate) fn repeat_last_event(&self) {
        self.state.change(State::repeat);
    }

    pub(crate) fn push_envelope(&self, kind: &'static str, payload: Value) {
        self.state.change(|state| state.push(kind, payload));
    }

    pub(crate) fn press(&self, by: &Person, ts: &str, action: &str) {
        self.state.change(|state| state.press(by, ts, action));
    }

    /// `/peacrab TEXT`.
    pub(crate) fn slash(&self, by: &Person, channel: &str, text: &str) {
        let trigger = format!("111.222.{}", fastrand::u64(..));
        let payload = json!({
            "token": "verification-token", "team_id": TEAM, "team_domain": "crew",
            "channel_id": channel, "channel_name": "crew", "user_id": by.id,
            "user_name": by.name, "command": "/peacrab", "text": text, "api_app_id": APP,
            "response_url": "https://hooks.slack.com/commands/1/2/3", "trigger_id": trigger,
            "is_enterprise_install": "false"
        });
        self.push_envelope("slash_commands", payload);
    }

    /// From now on `app_mention` comes before `message`.
    pub(crate) fn mention_first(&self) {
        self.state.change(|state| state.mention_first = true);
    }

    /// From now on, everything has fields and blocks that are not in any book yet.
    pub(crate) fn invent_fields(&self) {
        self.state.change(|state| state.invents = true);
    }

    /// From now on, no token is accepted, in this word; none takes it back.
    pub(crate) fn revoke(&self, error: Option<&'static str>) {
        self.state.change(|state| state.revoked = error);
    }

    /// From now on the bot's token lacks this scope.
    #[cfg(all(feature = "discord", feature = "slack", feature = "telegram"))]
    pub(crate) fn take_scope(&self, scope: &str) {
        self.state.change(|state| state.scopes.retain(|it| *it != scope));
    }

    /// It has it again.
    #[cfg(all(feature = "discord", feature = "slack", feature = "telegram"))]
    pub(crate) fn give_scope(&self, scope: &'static str) {
        self.state.change(|state| state.scopes.push(scope));
    }

    /// How long until an envelope comes again.
    pub(crate) fn again_after(&self, pause: Duration) {
        self.state.change(|state| state.again_after = pause);
    }

    /// The next `times` calls of `method` come to `fault`; after those that were asked for before.
    pub(crate) fn fail(&self, method: &str, times: usize, fault: &Fault) {
        let method = rules::method(method).unwrap().name;
        self.state.change(|state| state.calls.fail(method, times, fault));
    }

    /// No call fails any more.
    pub(crate) fn heal(&self) {
        self.state.change(|state| state.calls.heal());
    }

    /// Does this to the link that is there now.
    pub(crate) fn break_link(&self, fault: LinkFault) {
        self.state.change(|state| state.link_fault = Some((fault, false)));
    }

    /// Says this to the next link, in place of a greeting.
    pub(crate) fn refuse_link(&self, reason: &'static str) {
        let fault = LinkFault::Disconnect(reason);
        self.state.change(|state| state.link_fault = Some((fault, true)));
    }

    /// The next link opens, and is never greeted.
    pub(crate) fn withhold_greeting(&self) {
        self.state.change(|state| state.greetings_withheld += 1);
    }

    /// What the bot's messages look like now, oldest first.
    pub(crate) fn sent(&self) -> Vec<Sent> {
        self.state.look().sent.clone()
    }

    /// What the well-formed calls of a method took.
    pub(crate) fn calls(&self, method: &str) -> Vec<Value> {
        self.state.look().calls.of(method).map(|call| call.body.clone()).collect()
    }

    /// Channel, time and name of each.
    pub(crate) fn reactions(&self) -> Vec<(String, String, String)> {
        self.state.look().reactions.clone()
    }

    pub(crate) fn uploads(&self) -> Vec<Upload> {
        self.state.look().uploads.values().cloned().collect()
    }

    /// Envelopes that are not acknowledged yet.
    pub(crate) fn unacknowledged(&self) -> usize {
        self.state.look().pending.len()
    }

    /// What was answered to commands at once.
    pub(crate) fn answers(&self) -> Vec<String> {
        self.state.look().answers.clone()
    }

    /// How often an envelope was sent, repetitions too.
    pub(crate) fn delivered(&self) -> usize {
        self.state.look().delivered
    }

    /// Links so far.
    pub(crate) fn links(&self) -> u64 {
        self.state.look().link
    }

    /// What was done wrong on a link.
    pub(crate) fn offences(&self) -> Vec<String> {
        self.state.look().offences.clone()
    }

    /// Until a message to `channel` holds `words`; gives the first that does.
    pub(crate) async fn wait_for_words(&self, channel: &str, words: &str) -> Sent {
        let fits = |sent: &&Sent| sent.channel == channel && sent.text.contains(words);
        self.state.wait_for(words, |state| state.sent.iter().find(fits).cloned()).await
    }

    /// Until `method` has been called that often.
    pub(crate) async fn wait_for_calls(&self, method: &str, count: usize) {
        self.state.wait_until(method, |state| state.calls.of(method).count() >= count).await;
    }

    /// Until the bot has acknowledged all that there is.
    pub(crate) async fn wait_for_acknowledged(&self) {
        self.state.wait_until("acknowledgements", |state| state.pending.is_empty()).await;
    }

    /// Until the bot has closed so many links properly.
    pub(crate) async fn wait_for_goodbyes(&self, count: u64) {
        self.state.wait_until("goodbyes", |state| state.goodbyes >= count).await;
    }

    pub(crate) async fn wait_for_links(&self, count: u64) {
        self.state.wait_until("links", |state| state.link >= count).await;
    }
}

async fn answer(
    Shared(inner): Shared<Arc<Inner>>,
    Path(name): Path<String>,
    ConnectInfo(cutter): ConnectInfo<Cutter>,
    request: Request,
) -> Response {
    let Some(method) = rules::method(&name) else { return denied("unknown_method") };
    let revoked = inner.look().revoked;
    if let Err(error) = check_token(&inner, request.headers(), method.token) {
        return denied(error);
    }
    if let Some(error) = revoked {
        return denied(error);
    }
    if request.method() != Verb::POST {
        return denied("invalid_post_type");
    }
    let kind = request.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let fits = match (method.takes, kind.unwrap_or_default()) {
        (Takes::Json, "application/json; charset=utf-8") => true,
        (Takes::Form, kind) => kind.starts_with("application/x-www-form-urlencoded"),
        _ => false,
    };
    if !fits {
        return denied("invalid_post_type");
    }
    let checked = match parameters(request).await {
        Some((found, _)) => rules::check(method, found),
        None => Err(("invalid_json", String::new())),
    };
    let arguments = match checked {
        Ok(arguments) => arguments,
        Err(wrong) => return wrongly(&wrong),
    };
    let body = Value::Object(arguments.clone());
    record("slack", "POST", method.name, &body);
    let fault = inner.change(|state| state.calls.receive(method.name, body));
    let perform = || inner.change(|state| state.perform(method.name, &arguments));
    let mut response = come_to(fault, perform, &cutter).await;
    if method.token == Token::Bot {
        let scopes = inner.look().scopes.join(",");
        response.headers_mut().insert("x-oauth-scopes", scopes.parse().unwrap());
    }
    response
}

async fn come_to(
    fault: Option<Fault>,
    perform: impl FnOnce() -> Result<Value, &'static str>,
    cutter: &Cutter,
) -> Response {
    match fault {
        None => plain(perform()),
        Some(Fault::Hang) => std::future::pending().await,
        Some(Fault::Slow(time)) => {
            tokio::time::sleep(time).await;
            plain(perform())
        }
        Some(Fault::TooMany { after }) => {
            let answer = (StatusCode::TOO_MANY_REQUESTS, denied("ratelimited")).into_response();
            match after {
                Some(after) => ([(RETRY_AFTER, after.to_string())], answer).into_response(),
                None => answer,
            }
        }
        Some(Fault::Deny(error)) => denied(error),
        Some(Fault::Status(code)) => error_page(code),
        Some(Fault::CutAfter) => {
            let answer = plain(perform());
            cutter.cut();
            answer
        }
        Some(Fault::Garbage) => match perform() {
            Ok(_) => "{\"ok\":true,\"chan".into_response(),
            Err(error) => denied(error),
        },
        Some(Fault::BreaksAfter(error)) => {
            perform().ok();
            denied(error)
        }
    }
}

fn check_token(inner: &Inner, headers: &HeaderMap, wanted: Token) -> Result<(), &'static str> {
    let given = headers.get(AUTHORIZATION).and_then(|token| token.to_str().ok());
    let given = given.and_then(|given| given.strip_prefix("Bearer ")).ok_or("not_authed")?;
    let [bot, app] = inner.look().tokens;
    let kind = match given {
        given if given == bot => Token::Bot,
        given if given == app => Token::App,
        _ => return Err("invalid_auth"),
    };
    if kind == wanted { Ok(()) } else { Err("not_allowed_token_type") }
}

fn plain(result: Result<Value, &'static str>) -> Response {
    match result {
        Ok(Value::Object(mut answer)) => {
            answer.insert("ok".to_owned(), true.into());
            axum::Json(Value::Object(answer)).into_response()
        }
        Ok(other) => panic!("{other} is not an object"),
        Err(error) => denied(error),
    }
}

fn denied(error: &'static str) -> Response {
    wrongly(&(error, String::new()))
}

fn wrongly((error, details): &Wrong) -> Response {
    let mut body = json!({ "ok": false, "error": error });
    if !details.is_empty() {
        body["response_metadata"] = json!({ "messages": [details] });
    }
    if *error == "missing_scope" {
        body["needed"] = "channels:history".into();
        body["provided"] = "chat:write".into();
    }
    axum::Json(body).into_response()
}

async fn take_upload(
    Shared(inner): Shared<Arc<Inner>>,
    Path(file): Path<String>,
    request: Request,
) -> Response {
    let Ok(content) = axum::body::to_bytes(request.into_body(), 64 << 20).await else {
        return (StatusCode::BAD_REQUEST, "cut").into_response();
    };
    let length = content.len();
    let taken = inner.change(|state| {
        let upload = state.uploads.get_mut(&file)?;
        upload.content = Some(content.to_vec());
        Some(())
    });
    match taken {
        Some(()) => format!("OK - {length}").into_response(),
        None => (StatusCode::NOT_FOUND, "no such upload").into_response(),
    }
}

/// Without a token that may, Slack shows a page to log in, and calls that a success.
async fn give_file(
    Shared(inner): Shared<Arc<Inner>>,
    Path(file): Path<String>,
    request: Request,
) -> Response {
    if check_token(&inner, request.headers(), Token::Bot).is_err() {
        let page = "<!DOCTYPE html><html>Sign in</html>";
        return ([(CONTENT_TYPE, "text/html; charset=utf-8")], page).into_response();
    }
    let content = inner.look().uploads.get(&file).and_then(|u| u.content.clone());
    match content {
        Some(content) => ([(CONTENT_TYPE, "application/octet-stream")], content).into_response(),
        None => (StatusCode::NOT_FOUND, "not found").into_response(),
    }
}
