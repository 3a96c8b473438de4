//! A strict stand-in for Telegram's Bot API on a real socket: it refuses what the real one would
//! refuse, in its words, keeps its rules of offsets, and fails on demand.

mod files;
mod html;
pub(crate) mod line;
mod rules;
mod state;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{ConnectInfo, DefaultBodyLimit, Path, Request, State as Shared};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};

use super::record::record;
use super::watched::{Received, Watched};
use super::wire::{self, Cutter, Upload, error_page, parameters};
pub(crate) use files::SentFile;
use line::{Line, Person};
pub(crate) use state::{ANOTHER_TOKEN, Sent, TOKEN};
use state::{Denial, State};

/// Telegram's own bound of a poll.
const POLL_SECS_MAX: u64 = 50;

/// The largest request that is read at all.
const BODY_MAX: usize = 64 << 20;

pub(crate) const BOT_ID: u64 = 4242;
pub(crate) const BOT_NAME: &str = "peacrab_bot";

/// What a call comes to instead of what it should.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// 429.
    TooMany { after: u64 },
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
    /// A refusal in these words.
    Deny(u16, &'static str),
    /// The group has become this supergroup.
    Moved(i64),
}

impl Fault {
    pub(crate) const BLOCKED: Self = Self::Deny(403, "Forbidden: bot was blocked by the user");
    pub(crate) const CONFLICT: Self = Self::Deny(
        409,
        "Conflict: terminated by other getUpdates request; make sure that only one bot instance \
         is running",
    );
    pub(crate) const UNAUTHORIZED: Self = Self::Deny(401, "Unauthorized");
    pub(crate) const WEBHOOK: Self = Self::Deny(
        409,
        "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to \
         delete the webhook first",
    );
}

/// The running stand-in; it ends when dropped.
pub(crate) struct BotApi {
    url: String,
    state: Arc<Inner>,
    _server: JoinSet<()>,
}

type Inner = Watched<State>;

impl BotApi {
    pub(crate) async fn start() -> Self {
        Self::serve(TcpListener::bind("127.0.0.1:0").await.unwrap(), TOKEN)
    }

    /// Another bot than that of [`Self::start`].
    pub(crate) async fn start_another() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self::serve(listener, ANOTHER_TOKEN)
    }

    /// The bot of [`Self::start`], at an address of the caller's.
    pub(crate) fn start_at(listener: TcpListener) -> Self {
        Self::serve(listener, TOKEN)
    }

    fn serve(listener: TcpListener, token: &'static str) -> Self {
        let (bot, _) = token.split_once(':').unwrap();
        let bot = bot.parse().unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(Watched::new(State::new(bot, token)));
        let router = Router::new()
            .route("/{token}/{method}", axum::routing::any(answer))
            .route("/file/{token}/{*path}", axum::routing::get(files::give))
            .layer(DefaultBodyLimit::max(BODY_MAX))
            .fallback(|| async { denied(&Denial::new(404, "Not Found")) })
            .with_state(Arc::clone(&state));
        let mut server = JoinSet::new();
        server.spawn(wire::serve(listener, router));
        Self { url, state, _server: server }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn token(&self) -> &'static str {
        self.state.look().token
    }

    /// Somebody has started a chat with the bot before.
    #[cfg(all(feature = "discord", feature = "slack", feature = "telegram"))]
    pub(crate) fn is_known_to(&self, person: &Person) {
        self.state.change(|state| {
            state.chats.insert(person.id);
        });
    }

    /// From now on, the token is not accepted any more.
    pub(crate) fn revoke(&self) {
        self.state.change(|state| state.is_revoked = true);
    }

    /// Tells the last update once more, as if it were new.
    pub(crate) fn repeat_last_update(&self) {
        self.state.change(State::repeat);
    }

    /// Somebody says something; returns the message's id. Chats, topics and people that speak are
    /// known from then on.
    pub(crate) fn say(&self, line: &Line) -> i64 {
        self.state.change(|state| state.say(line))
    }

    /// Somebody says something before the bot is there.
    pub(crate) fn say_unheard(&self, line: &Line) -> i64 {
        self.state.change(|state| state.keep(line).0)
    }

    /// Somebody changes what they said, a minute later unless the line tells when.
    pub(crate) fn edit(&self, id: i64, line: &Line) {
        self.state.change(|state| state.edit_line(id, line));
    }

    /// Somebody presses a button of one of the bot's messages; gives the query's id.
    pub(crate) fn press(&self, by: &Person, message: i64, label: &str) -> String {
        self.state.change(|state| state.press(by, message, label, false))
    }

    /// What a button of one of the bot's messages says to the bot.
    pub(crate) fn button(&self, message: i64, label: &str) -> String {
        let (_, data) = self.state.look().button(message, label);
        data.as_str().unwrap().to_owned()
    }

    /// The same, of a message so old that it is not shown to the bot any more.
    pub(crate) fn press_old(&self, by: &Person, message: i64, label: &str) -> String {
        self.state.change(|state| state.press(by, message, label, true))
    }

    /// Somebody presses something that is none of the bot's buttons.
    pub(crate) fn press_other(&self, by: &Person, fields: &Value) -> String {
        self.state.change(|state| state.query(by, fields))
    }

    /// What the bot said to who pressed, by the query's id.
    pub(crate) async fn wait_for_answer(&self, query: &str) -> Option<String> {
        self.state.wait_for("an answer to a press", |state| state.answer_to(query)).await
    }

    /// The same, if there is one yet.
    pub(crate) fn answer_to(&self, query: &str) -> Option<Option<String>> {
        self.state.look().answer_to(query)
    }

    /// Telegram has a file of this id.
    pub(crate) fn keep_file(&self, id: &str, bytes: &[u8]) {
        self.state.change(|state| state.files.insert(id.to_owned(), bytes.to_vec()));
    }

    /// Files are promised from now on, and never come.
    pub(crate) fn hold_files_back(&self) {
        self.state.change(|state| state.files_hang = true);
    }

    /// What Telegram lists as the bot's commands.
    pub(crate) fn commands(&self) -> Value {
        self.state.look().commands.clone()
    }

    /// BotFather turns privacy mode off.
    #[cfg(all(feature = "discord", feature = "slack", feature = "telegram"))]
    pub(crate) fn set_webhook(&self, url: &str) {
        self.state.change(|state| url.clone_into(&mut state.webhook));
    }

    pub(crate) fn turn_privacy_off(&self) {
        self.state.change(|state| state.sees_groups = true);
    }

    /// The emoji that the bot put at a message.
    pub(crate) fn reaction(&self, chat: i64, message: i64) -> Option<String> {
        self.state.look().reactions.get(&(chat, message)).cloned()
    }

    /// An update of another kind, without its id.
    pub(crate) fn push_update(&self, update: Value) {
        self.state.change(|state| state.push(update));
    }

    /// A message whose form nobody knows; returns its id.
    pub(crate) fn say_garbled(&self, line: &Line) -> i64 {
        self.say(&line.clone().with("date", "yesterday"))
    }

    /// A week without updates has passed: the next one's id is `id`, lower or higher.
    pub(crate) fn pass_a_week(&self, id: i64) {
        self.state.change(|state| state.next_update = id);
    }

    /// From now on, everything has fields that are not in any book yet.
    pub(crate) fn invent_fields(&self) {
        self.state.change(|state| state.invents = true);
    }

    /// The next `times` calls of `method` come to `fault`; after those that were asked for before.
    pub(crate) fn fail(&self, method: &str, times: usize, fault: &Fault) {
        let method = rules::method(method).unwrap();
        self.state.change(|state| state.calls.fail(method, times, fault));
    }

    /// Nothing goes wrong any more.
    pub(crate) fn heal(&self) {
        self.state.change(|state| state.calls.heal());
    }

    /// What the bot's messages look like now, oldest first.
    pub(crate) fn sent(&self) -> Vec<Sent> {
        self.state.look().sent.clone()
    }

    /// All well-formed calls so far, polls too.
    pub(crate) fn received(&self) -> Vec<Received> {
        self.state.look().calls.received.clone()
    }

    /// How many calls that came to [`Fault::Hang`] are still waited for.
    pub(crate) fn hanging_calls(&self) -> usize {
        self.state.look().hanging.count()
    }

    /// Updates that are not confirmed yet.
    pub(crate) fn unconfirmed(&self) -> usize {
        self.state.look().pending.len()
    }

    pub(crate) async fn wait_for_sent(&self, count: usize) -> Vec<Sent> {
        self.state.wait_until("messages sent", |state| state.sent.len() >= count).await;
        self.sent()
    }

    /// Until a message to `chat` holds `words`; gives the first that does.
    pub(crate) async fn wait_for_words(&self, chat: i64, words: &str) -> Sent {
        let fits = |sent: &&Sent| sent.chat == chat && sent.text.contains(words);
        self.state.wait_for(words, |state| state.sent.iter().find(fits).cloned()).await
    }

    /// Until `method` has been called that often.
    pub(crate) async fn wait_for_calls(&self, method: &str, count: usize) {
        self.state.wait_until(method, |state| state.calls.of(method).count() >= count).await;
    }

    /// Until the bot has confirmed all updates.
    pub(crate) async fn wait_for_confirmed(&self) {
        self.state.wait_until("confirmations", |state| state.pending.is_empty()).await;
    }
}

async fn answer(
    Shared(inner): Shared<Arc<Inner>>,
    Path((token, method)): Path<(String, String)>,
    ConnectInfo(cutter): ConnectInfo<Cutter>,
    request: Request,
) -> Response {
    let is_ours = token == format!("bot{}", inner.look().token);
    if !is_ours || inner.look().is_revoked {
        return denied(&Denial::new(401, "Unauthorized"));
    }
    let Some(method) = rules::method(&method) else {
        return denied(&Denial::new(404, "Not Found"));
    };
    let found = parameters(request).await;
    let checked = found.ok_or_else(|| "Bad Request: can't parse the request".to_owned());
    let checked = checked.and_then(|(found, file)| Ok((rules::check(method, found)?, file)));
    let (parameters, file) = match checked {
        Ok(call) => call,
        Err(description) => return denied(&Denial::new(400, &description)),
    };
    let body = Value::Object(parameters.clone());
    record("telegram", "POST", method, &body);
    let fault = inner.change(|state| state.calls.receive(method, body));
    match fault {
        None => plain(perform(&inner, method, &parameters, file.as_ref()).await),
        Some(Fault::Hang) => {
            let hanging = inner.look().hanging.hang::<Response>();
            hanging.await
        }
        Some(Fault::Slow(time)) => {
            sleep(time).await;
            plain(perform(&inner, method, &parameters, file.as_ref()).await)
        }
        Some(Fault::TooMany { after }) => denied(&Denial::too_many(after)),
        Some(Fault::Deny(code, description)) => denied(&Denial::new(code, description)),
        Some(Fault::Moved(to)) => denied(&inner.change(|state| state.move_chat(to))),
        Some(Fault::Status(code)) => error_page(code),
        Some(Fault::CutAfter) => {
            let answer = plain(perform(&inner, method, &parameters, file.as_ref()).await);
            cutter.cut();
            answer
        }
        Some(Fault::Garbage) => match perform(&inner, method, &parameters, file.as_ref()).await {
            Ok(_) => "{\"ok\":true,\"result\":{\"mess".into_response(),
            Err(denial) => denied(&denial),
        },
    }
}

async fn perform(
    inner: &Inner,
    method: &str,
    parameters: &Map<String, Value>,
    file: Option<&Upload>,
) -> Result<Value, Denial> {
    if method == "getUpdates" {
        return poll(inner, parameters).await;
    }
    inner.change(|state| state.perform(method, parameters, file))
}

/// Waits as long as asked for, until there is an update, or until another poll begins.
async fn poll(inner: &Inner, parameters: &Map<String, Value>) -> Result<Value, Denial> {
    let number = |name: &str| parameters.get(name).and_then(Value::as_i64);
    let limit = usize::try_from(number("limit").unwrap_or(100).clamp(1, 100)).unwrap();
    let secs = u64::try_from(number("timeout").unwrap_or(0)).unwrap_or(0).min(POLL_SECS_MAX);
    let until = Instant::now() + Duration::from_secs(secs);
    let mut changed = inner.subscribe();
    let turn = inner.change(|state| state.begin_poll(parameters));
    loop {
        changed.borrow_and_update();
        {
            let state = inner.look();
            if state.poll != turn {
                let Fault::Deny(code, description) = Fault::CONFLICT else { unreachable!() };
                return Err(Denial::new(code, description));
            }
            let updates = state.updates(limit);
            if !updates.is_empty() || Instant::now() >= until {
                return Ok(updates.into());
            }
        }
        timeout_at(until, changed.changed()).await.ok();
    }
}

fn plain(result: Result<Value, Denial>) -> Response {
    match result {
        Ok(result) => axum::Json(json!({ "ok": true, "result": result })).into_response(),
        Err(denial) => denied(&denial),
    }
}

fn denied(denial: &Denial) -> Response {
    let status = StatusCode::from_u16(denial.code).unwrap();
    let mut body = json!({
        "ok": false, "error_code": denial.code, "description": denial.description
    });
    if let Some(parameters) = &denial.parameters {
        body["parameters"] = parameters.clone();
    }
    (status, axum::Json(body)).into_response()
}
