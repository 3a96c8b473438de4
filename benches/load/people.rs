//! The people who talk to the daemon, and what is measured of them. Each says one thing, waits for the
//! answer, and speaks again; what they say and hear passes through the two fakes, which ask here.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::fmt::Write as _;
use std::mem;
use std::ops::Range;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use chrono::Utc;

/// Updates in one answer to a poll (Bot API, getUpdates).
const UPDATES_MAX: usize = 100;

/// How a model that hangs is looked at again.
const HANG_LOOK: Duration = Duration::from_millis(100);

/// What the model does when a person asks something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Model {
    #[default]
    Answers,
    /// It says nothing until the script changes.
    Hangs,
    /// It searches what was said before, so many times at once, and then answers.
    Searches(usize),
}

/// Who talks, and how.
#[derive(Clone, Debug)]
pub(crate) struct Talk {
    /// The chats that there are.
    pub(crate) chats: Range<i64>,
    /// In so many of them at a time somebody talks.
    pub(crate) at_once: usize,
    /// After so many turns they go on in the next free chat, so that none grows long.
    pub(crate) turns: u64,
    /// From an answer to the next message.
    pub(crate) pause: Duration,
}

/// What was measured since it was last taken.
#[derive(Default)]
pub(crate) struct Measured {
    /// Answers that arrived.
    pub(crate) turns: usize,
    /// Messages that were sent, answers among them.
    pub(crate) sends: usize,
    /// Requests at the model, and their bytes.
    pub(crate) requests: usize,
    pub(crate) request_bytes: usize,
    /// From an update handed out to the request at the model.
    pub(crate) before: Vec<Duration>,
    /// From the model's answer to the message at the platform.
    pub(crate) after: Vec<Duration>,
    /// From what somebody says to the answer, with the time in which the platform keeps it.
    pub(crate) whole: Vec<Duration>,
    /// From updates handed out to the poll that confirms them.
    pub(crate) confirmed: Vec<Duration>,
}

/// A person in a private chat, whose id is the chat's.
#[derive(Default)]
struct Person {
    turns: u64,
    said: u64,
    said_at: Option<Instant>,
    heard: u64,
    model: Model,
    handed: Option<Instant>,
    before: Duration,
    /// When the model's last answer was complete, until something was sent after it.
    answered: Option<Instant>,
    /// From a message handed out to the first one that came back.
    waited: Option<Duration>,
    /// When the model asked for tools, until it is asked again.
    called: Option<Instant>,
    tools_took: Option<Duration>,
}

struct Update {
    /// The message's id, too.
    id: i64,
    chat: i64,
    text: String,
    handed: Option<Instant>,
}

#[derive(Default)]
struct State {
    persons: HashMap<i64, Person>,
    /// Who speaks when.
    due: BinaryHeap<Reverse<(Instant, i64)>>,
    /// Not confirmed yet.
    updates: VecDeque<Update>,
    last_update: i64,
    last_sent: u64,
    /// None: nobody speaks by themselves.
    talk: Option<Talk>,
    /// The newest poll, which ends those before it.
    poll: u64,
    /// The model answers nobody.
    hang: bool,
    measured: Measured,
}

/// All people, shared by the threads of the fakes.
#[derive(Default)]
pub(crate) struct People {
    state: Mutex<State>,
    /// Somebody speaks, or will; a poll waits for that.
    spoken: Condvar,
    /// Anything else has happened; the bench waits for that.
    changed: Condvar,
}

impl People {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All who talk begin within one pause, and go on.
    pub(crate) fn talk(&self, talk: &Talk) {
        let mut state = self.state();
        state.talk = Some(talk.clone());
        state.updates.clear();
        state.due.clear();
        let each = talk.pause / u32::try_from(talk.at_once).unwrap_or(u32::MAX).max(1);
        let mut when = Instant::now();
        for chat in talk.chats.clone().take(talk.at_once) {
            state.due.push(Reverse((when, chat)));
            when += each;
        }
        drop(state);
        self.spoken.notify_all();
    }

    /// Begins anew, with nobody; ids are never used twice.
    pub(crate) fn forget(&self) {
        let mut state = self.state();
        let State { last_update, last_sent, poll, .. } = *state;
        *state = State { last_update, last_sent, poll, ..State::default() };
    }

    /// Nobody speaks any more.
    pub(crate) fn hush(&self) {
        let mut state = self.state();
        state.talk = None;
        state.due.clear();
    }

    /// A person says something now.
    pub(crate) fn say(&self, chat: i64, text: &str) {
        let mut state = self.state();
        let person = state.persons.entry(chat).or_default();
        person.waited = None;
        state.say(chat, text.to_owned());
        drop(state);
        self.spoken.notify_all();
    }

    /// A person asks the model something now.
    pub(crate) fn ask(&self, chat: i64, model: Model) {
        let mut state = self.state();
        let person = state.persons.entry(chat).or_default();
        (person.model, person.waited) = (model, None);
        state.ask(chat);
        drop(state);
        self.spoken.notify_all();
    }

    /// Lets a model that hangs go on.
    pub(crate) fn release(&self, chat: i64) {
        self.state().persons.entry(chat).or_default().model = Model::Answers;
        self.changed.notify_all();
    }

    /// Whether the model answers nobody for the time being.
    pub(crate) fn hang(&self, hang: bool) {
        self.state().hang = hang;
        self.changed.notify_all();
    }

    /// Waits until so many turns have asked the model since the last figures were taken.
    pub(crate) fn wait_until_at_model(&self, turns: usize, max: Duration) -> bool {
        let asked = |state: &State| (state.measured.before.len() >= turns).then_some(());
        self.wait_for(max, asked).is_some()
    }

    pub(crate) fn take_measured(&self) -> Measured {
        mem::take(&mut self.state().measured)
    }

    /// Waits until `look` finds something; none if that takes longer than `max`.
    fn wait_for<T>(&self, max: Duration, look: impl Fn(&State) -> Option<T>) -> Option<T> {
        let until = Instant::now() + max;
        let mut state = self.state();
        loop {
            let found = look(&state);
            let left = until.saturating_duration_since(Instant::now());
            if found.is_some() || left.is_zero() {
                return found;
            }
            state = self.wait(state, left);
        }
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>, max: Duration) -> MutexGuard<'a, State> {
        self.changed.wait_timeout(state, max).unwrap_or_else(PoisonError::into_inner).0
    }

    /// How long a person waited from what they said last until they heard something.
    pub(crate) fn wait_until_heard(&self, chat: i64, max: Duration) -> Option<Duration> {
        self.wait_for(max, |state| state.persons.get(&chat)?.waited)
    }

    /// Waits until the model has been asked by a person, and hangs or has asked for tools.
    pub(crate) fn wait_until_asked(&self, chat: i64, max: Duration) -> Option<()> {
        self.wait_for(max, |state| {
            let person = state.persons.get(&chat)?;
            let asked = person.before != Duration::ZERO;
            (asked && (person.model == Model::Hangs || person.called.is_some())).then_some(())
        })
    }

    /// How long the model's calls took.
    pub(crate) fn wait_until_called(&self, chat: i64, max: Duration) -> Option<Duration> {
        self.wait_for(max, |state| state.persons.get(&chat)?.tools_took)
    }

    /// Waits until so many messages have been sent since the last figures were taken.
    pub(crate) fn wait_until_sent(&self, sends: usize, max: Duration) -> bool {
        self.wait_for(max, |state| (state.measured.sends >= sends).then_some(())).is_some()
    }

    /// Waits until everybody has had an answer to what they said last.
    pub(crate) fn wait_until_quiet(&self, max: Duration) -> bool {
        let is_quiet = |state: &State| {
            let open = |person: &Person| person.heard < person.said;
            state.updates.is_empty() && !state.persons.values().any(open)
        };
        self.wait_for(max, |state| is_quiet(state).then_some(())).is_some()
    }

    /// The daemon polls: confirms what is below `offset`, and waits for updates, as JSON.
    pub(crate) fn poll(&self, offset: i64, max: Duration) -> String {
        let until = Instant::now() + max;
        let mut state = self.state();
        state.confirm(offset);
        state.poll += 1;
        let poll = state.poll;
        self.spoken.notify_all();
        self.changed.notify_all();
        loop {
            let now = Instant::now();
            let next_due = state.speak(now);
            if !state.updates.is_empty() || state.poll != poll || now >= until {
                return state.hand_out(poll);
            }
            let until = next_due.map_or(until, |next| next.min(until));
            let left = until.saturating_duration_since(now);
            let woken = self.spoken.wait_timeout(state, left);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The daemon asks the model on behalf of a person, with a request of so many bytes; returns what the model does.
    pub(crate) fn asked(&self, chat: i64, bytes: usize) -> Model {
        let now = Instant::now();
        let mut state = self.state();
        state.measured.requests += 1;
        state.measured.request_bytes += bytes;
        let Some(person) = state.persons.get_mut(&chat) else { return Model::Answers };
        if let Some(called) = person.called.take() {
            person.tools_took = Some(now - called);
        } else if let Some(handed) = person.handed {
            person.before = (now - handed).max(Duration::from_nanos(1));
            let before = person.before;
            state.measured.before.push(before);
        }
        self.changed.notify_all();
        let hangs = |state: &State| {
            let person = state.persons.get(&chat);
            state.hang || person.is_some_and(|person| person.model == Model::Hangs)
        };
        while hangs(&state) {
            state = self.wait(state, HANG_LOOK);
        }
        state.persons.get(&chat).map_or(Model::Answers, |person| person.model)
    }

    /// The model is about to ask for tools.
    pub(crate) fn called(&self, chat: i64) {
        if let Some(person) = self.state().persons.get_mut(&chat) {
            person.called = Some(Instant::now());
        }
        self.changed.notify_all();
    }

    /// The model's answer is about to be sent.
    pub(crate) fn answered(&self, chat: i64) {
        if let Some(person) = self.state().persons.get_mut(&chat) {
            person.answered = Some(Instant::now());
        }
        self.changed.notify_all();
    }

    /// The daemon sends a message to a chat; returns the message's id.
    pub(crate) fn sent(&self, chat: i64) -> u64 {
        let now = Instant::now();
        let mut state = self.state();
        state.last_sent += 1;
        state.measured.sends += 1;
        let id = state.last_sent;
        let Some(person) = state.persons.get_mut(&chat) else { return id };
        person.heard = person.said;
        person.waited = person.waited.or(person.handed.map(|handed| now - handed));
        if let Some(answered) = person.answered.take() {
            person.turns += 1;
            let (said_at, turns) = (person.said_at, person.turns);
            state.measured.turns += 1;
            state.measured.after.push(now - answered);
            state.measured.whole.extend(said_at.map(|said_at| now - said_at));
            let next = state.talk.as_ref().map(|talk| (now + talk.pause, talk.next(chat, turns)));
            state.due.extend(next.map(Reverse));
        }
        drop(state);
        self.spoken.notify_all();
        self.changed.notify_all();
        id
    }
}

impl Talk {
    /// Where a person speaks next, who has had so many turns in a chat.
    fn next(&self, chat: i64, turns: u64) -> i64 {
        if !turns.is_multiple_of(self.turns) {
            return chat;
        }
        let count = self.chats.end - self.chats.start;
        let step = i64::try_from(self.at_once).unwrap_or(count);
        self.chats.start + (chat - self.chats.start + step) % count
    }
}

impl State {
    /// Lets those speak whose time has come; when the next one's will have.
    fn speak(&mut self, now: Instant) -> Option<Instant> {
        loop {
            match self.due.peek() {
                Some(Reverse((when, chat))) if *when <= now => {
                    let chat = *chat;
                    self.due.pop();
                    self.ask(chat);
                }
                next => return next.map(|Reverse((when, _))| *when),
            }
        }
    }

    fn ask(&mut self, chat: i64) {
        let said = self.persons.entry(chat).or_default().said;
        let text = format!(
            "talk-{chat}-{said}: what is still on the list for the weekend, and who brings bread?"
        );
        self.say(chat, text);
    }

    fn say(&mut self, chat: i64, text: String) {
        self.last_update += 1;
        let person = self.persons.entry(chat).or_default();
        person.said += 1;
        person.said_at = Some(Instant::now());
        (person.handed, person.answered) = (None, None);
        (person.called, person.tools_took, person.before) = (None, None, Duration::ZERO);
        self.updates.push_back(Update { id: self.last_update, chat, text, handed: None });
    }

    fn confirm(&mut self, offset: i64) {
        let now = Instant::now();
        while let Some(update) = self.updates.front()
            && update.id < offset
        {
            let handed = self.updates.pop_front().and_then(|update| update.handed);
            self.measured.confirmed.extend(handed.map(|handed| now - handed));
        }
    }

    /// The updates as the result of a poll; nothing if another poll has begun meanwhile.
    fn hand_out(&mut self, poll: u64) -> String {
        let mut json = String::from("{\"ok\":true,\"result\":[");
        let now = Instant::now();
        let count = if self.poll == poll { UPDATES_MAX } else { 0 };
        for update in self.updates.iter_mut().take(count) {
            let Update { id, chat, text, .. } = update;
            let comma = if json.ends_with('[') { "" } else { "," };
            let date = Utc::now().timestamp();
            write!(
                json,
                "{comma}{{\"update_id\":{id},\"message\":{{\"message_id\":{id},\"date\":{date},\
                 \"from\":{{\"id\":{chat},\"is_bot\":false,\"first_name\":\"Ada\"}},\
                 \"chat\":{{\"id\":{chat},\"type\":\"private\",\"first_name\":\"Ada\"}},\
                 \"text\":\"{text}\"}}}}"
            )
            .expect("a String takes everything");
            update.handed = Some(now);
            if let Some(person) = self.persons.get_mut(chat) {
                person.handed = Some(now);
            }
        }
        json.push_str("]}");
        json
    }
}
