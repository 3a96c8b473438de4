//! A strict stand-in for Discord on real sockets: REST, gateway and files. It refuses what the real
//! one would refuse, in its words, keeps sessions and their sequence, and fails on demand.

mod gateway;
pub(crate) mod line;
mod rest;
mod rules;
mod sessions;
mod state;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::watched::{Received, Watched};
use line::{ANOTHER_BOT, BOT, Line, Person};
pub(crate) use sessions::ConnectionFault;
use state::State;
pub(crate) use state::{Interaction, Sent};

pub(crate) const TOKEN: &str = "ODAwMDA.AAAA.this-is-a-token-of-the-right-length";
pub(crate) const ANOTHER_TOKEN: &str = "ODAwMDA.BBBB.this-is-a-token-of-the-right-length";

/// What a REST call comes to instead of what it should.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// 429 with `retry_after` and its header; for the route, or for all of them.
    TooMany { after: f64, is_global: bool },
    /// 429 as a proxy before Discord sends it: a page, and no word of when.
    TooManyBare,
    /// A bare status, with a page as proxies make it.
    Status(u16),
    /// No answer, and no effect.
    Hang,
    /// The call takes effect, and the connection is cut.
    CutAfter,
    /// The call takes effect, and its answer is nonsense.
    Garbage,
    /// The call takes effect, and the answer is a bare status all the same.
    StatusAfter(u16),
    /// The call takes effect, and so long.
    Slow(Duration),
    /// A refusal: status, code and words.
    Deny(u16, u64, &'static str),
}

impl Fault {
    pub(crate) const MISSING_ACCESS: Self = Self::Deny(403, 50001, "Missing Access");
    pub(crate) const MISSING_PERMISSIONS: Self = Self::Deny(403, 50013, "Missing Permissions");
    pub(crate) const NOT_TO_THIS_USER: Self =
        Self::Deny(403, 50007, "Cannot send messages to this user");
    pub(crate) const UNAUTHORIZED: Self = Self::Deny(401, 0, "401: Unauthorized");
}

/// The running stand-in; it ends when dropped.
pub(crate) struct DiscordApi {
    url: String,
    state: Arc<Inner>,
    _servers: JoinSet<()>,
}

type Inner = Watched<State>;

impl DiscordApi {
    pub(crate) async fn start() -> Self {
        Self::start_at(TcpListener::bind("127.0.0.1:0").await.unwrap()).await
    }

    /// Another bot than that of [`Self::start`].
    pub(crate) async fn start_another() -> Self {
        let rest = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self::serve(rest, ANOTHER_TOKEN, ANOTHER_BOT).await
    }

    /// As [`Self::start`], at an address of the caller's.
    pub(crate) async fn start_at(rest: TcpListener) -> Self {
        Self::serve(rest, TOKEN, BOT).await
    }

    async fn serve(rest: TcpListener, token: &'static str, bot: Person) -> Self {
        let gateway = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", rest.local_addr().unwrap());
        let gateway_url = format!("ws://{}", gateway.local_addr().unwrap());
        let state = State::new((bot, token), gateway_url, url.clone());
        let state = Arc::new(Watched::new(state));
        let mut servers = JoinSet::new();
        servers.spawn(rest::serve(rest, Arc::clone(&state)));
        servers.spawn(gateway::serve(gateway, Arc::clone(&state)));
        Self { url, state, _servers: servers }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// From now on, the token is not accepted any more, not even on a link that stands.
    pub(crate) fn revoke(&self) {
        self.state.change(|state| {
            state.is_revoked = true;
            state.sessions.disturb.push_back(ConnectionFault::Close(Some(4004)));
        });
    }

    /// Somebody says something; returns the message's id.
    pub(crate) fn say(&self, line: &Line) -> u64 {
        self.state.change(|state| state.say(line, true))
    }

    /// Somebody says something of which the gateway does not tell.
    pub(crate) fn say_unheard(&self, line: &Line) -> u64 {
        self.state.change(|state| state.say(line, false))
    }

    /// Somebody begins a post in a forum; returns its id.
    pub(crate) fn begin_post(&self, line: &Line) -> u64 {
        self.state.change(|state| state.begin_post(line))
    }

    pub(crate) fn edit(&self, message: u64, line: &Line) {
        self.state.change(|state| state.edit_line(message, line));
    }

    pub(crate) fn delete(&self, channel: u64, message: u64) {
        self.state.change(|state| state.delete(channel, message));
    }

    /// Any event.
    pub(crate) fn tell(&self, name: &str, event: Value) {
        self.state.change(|state| state.sessions.dispatch(name, event));
    }

    /// Tells what happens from here on only with [`Self::release_in_reverse`].
    pub(crate) fn hold_events(&self) {
        self.state.change(|state| state.sessions.hold());
    }

    pub(crate) fn release_in_reverse(&self) {
        self.state.change(|state| state.sessions.release_in_reverse());
    }

    /// Tells the last event once more.
    pub(crate) fn repeat_last_event(&self) {
        self.state.change(|state| state.sessions.repeat());
    }

    /// Somebody presses a button of the bot's message; returns the interaction's id.
    pub(crate) fn press(&self, by: &Person, message: &Sent, button: &str) -> u64 {
        let data = json!({ "component_type": 2, "custom_id": button });
        self.state.change(|state| state.interact(by, message.channel, 3, &data, Some(message.id)))
    }

    /// Somebody invokes a command; its one option is `text`.
    pub(crate) fn invoke(&self, by: &Person, channel: u64, name: &str, text: Option<&str>) -> u64 {
        let mut data = json!({ "id": "5", "name": name, "type": 1 });
        if let Some(text) = text {
            data["options"] = json!([{ "name": "text", "type": 3, "value": text }]);
        }
        self.state.change(|state| state.interact(by, channel, 2, &data, None))
    }

    pub(crate) fn interaction(&self, id: u64) -> Interaction {
        self.state.look().interactions[&id].clone()
    }

    pub(crate) async fn wait_for_answer(&self, interaction: u64) -> Interaction {
        let answered = |state: &State| {
            let interaction = &state.interactions[&interaction];
            interaction.answer.is_some().then(|| interaction.clone())
        };
        self.state.wait_for("an answer to the interaction", answered).await
    }

    /// The next `times` calls of `call` (`POST /channels/*/messages`) come to `fault`; after those
    /// that were asked for before.
    pub(crate) fn fail(&self, call: &str, times: usize, fault: &Fault) {
        self.state.change(|state| state.calls.fail(call, times, fault));
    }

    /// No call fails any more.
    pub(crate) fn heal(&self) {
        self.state.change(|state| state.calls.heal());
    }

    /// Something happens to the live gateway connection.
    pub(crate) fn disturb(&self, disturb: ConnectionFault) {
        self.state.change(|state| state.sessions.disturb.push_back(disturb));
    }

    /// The next IDENTIFY or RESUME ends with this close code.
    pub(crate) fn refuse_session(&self, code: u16) {
        self.state.change(|state| state.sessions.refuse.push_back(code));
    }

    /// The next connections to the gateway are accepted and never spoken to.
    pub(crate) fn mute_gateway(&self, times: usize) {
        self.state.change(|state| state.sessions.mute = times);
    }

    /// The next IDENTIFY or RESUME is never answered, though heartbeats are.
    pub(crate) fn ignore_session(&self) {
        self.state.change(|state| state.sessions.ignore += 1);
    }

    /// From now on, each IDENTIFY and RESUME is answered again.
    #[cfg(all(feature = "slack", feature = "telegram"))]
    pub(crate) fn heed_sessions(&self) {
        self.state.change(|state| state.sessions.ignore = 0);
    }

    /// Sessions are to be resumed at another address.
    pub(crate) fn resume_at(&self, url: &str) {
        self.state.change(|state| state.sessions.resume_url = Some(url.to_owned()));
    }

    pub(crate) fn set_heartbeat(&self, every: Duration) {
        let every = u64::try_from(every.as_millis()).unwrap();
        self.state.change(|state| state.sessions.heartbeat_ms = every);
    }

    /// The portal's switch for message contents.
    pub(crate) fn forbid_message_content(&self) {
        self.state.change(|state| state.sessions.content_allowed = false);
    }

    /// The same switch, on again.
    #[cfg(all(feature = "slack", feature = "telegram"))]
    pub(crate) fn allow_message_content(&self) {
        self.state.change(|state| state.sessions.content_allowed = true);
    }

    pub(crate) fn use_up_session_starts(&self) {
        self.state.change(|state| state.sessions.starts_left = 0);
    }

    /// Some minutes pass without a connection: sessions cannot be resumed.
    pub(crate) fn forget_sessions(&self) {
        self.state.change(|state| state.sessions.forget());
    }

    /// From now on, so many calls of a route are let through within a window.
    pub(crate) fn limit_routes(&self, count: u32, window: Duration) {
        self.state.change(|state| state.limit = Some((count, window)));
    }

    /// A thread or channel goes.
    pub(crate) fn remove_channel(&self, id: u64) {
        self.state.change(|state| state.channels.remove(&id));
    }

    /// The name of a thread.
    pub(crate) fn thread_name(&self, id: u64) -> Option<String> {
        self.state.look().channels.get(&id).map(|channel| channel.name.clone())
    }

    /// What a message says of a file that lies at Discord from now on.
    pub(crate) fn attachment(&self, channel: u64, name: &str, bytes: &[u8]) -> Value {
        self.state.change(|state| {
            state.files.insert(format!("/attachments/{channel}/{name}"), bytes.to_vec());
            state.store_file(channel, name, bytes)
        })
    }

    /// What the bot's messages look like now, oldest first.
    pub(crate) fn sent(&self) -> Vec<Sent> {
        self.state.look().sent.clone()
    }

    pub(crate) fn reactions(&self) -> Vec<(u64, String)> {
        self.state.look().reactions.clone()
    }

    pub(crate) fn commands(&self) -> Vec<Value> {
        self.state.look().commands.clone()
    }

    /// All well-formed calls so far.
    pub(crate) fn received(&self) -> Vec<Received> {
        self.state.look().calls.received.clone()
    }

    /// How often was identified, and how often resumed.
    pub(crate) fn sessions(&self) -> (usize, usize) {
        let state = self.state.look();
        (state.sessions.identified, state.sessions.resumed)
    }

    /// What the bot did wrong at the gateway.
    pub(crate) fn gateway_faults(&self) -> Vec<String> {
        self.state.look().sessions.faults.clone()
    }

    /// Until so many calls of `call` (`GET /channels/*`) have come.
    pub(crate) async fn wait_for_calls(&self, call: &str, count: usize) {
        self.state.wait_until(call, |state| state.calls.count(call) >= count).await;
    }

    pub(crate) async fn wait_for_sent(&self, count: usize) -> Vec<Sent> {
        self.state.wait_until("messages sent", |state| state.sent.len() >= count).await;
        self.sent()
    }

    /// Until a message to `channel` holds `words`; gives the first that does.
    pub(crate) async fn wait_for_words(&self, channel: u64, words: &str) -> Sent {
        let fits = |sent: &&Sent| sent.channel == channel && sent.text.contains(words);
        self.state.wait_for(words, |state| state.sent.iter().find(fits).cloned()).await
    }

    /// Until so many sessions have been begun, and so many resumed.
    pub(crate) async fn wait_for_sessions(&self, identified: usize, resumed: usize) {
        self.state
            .wait_until("sessions", |state| {
                state.sessions.identified >= identified && state.sessions.resumed >= resumed
            })
            .await;
    }

    pub(crate) async fn wait_for_heartbeats(&self, count: usize) {
        self.state.wait_until("heartbeats", |state| state.sessions.heartbeats >= count).await;
    }
}
