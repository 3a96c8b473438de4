//! A model that says what a test tells it to, and writes down what it was asked. It takes no
//! transcript that the vendors would not take. Whatever it was not told about, it echoes.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use futures_util::StreamExt;
use futures_util::stream;
use peacrab::provider::{
    Delta, DeltaStream, Effort, PromptMessage, Provider, ProviderError, ReadPictures, Request,
    StopReason, ToolCall, ToolSchema, Usage, system_asking,
};
use serde_json::Value;
use tokio::sync::watch;

/// What the model does when it is asked.
pub(crate) enum Reply {
    Says(Vec<Delta>),
    Fails(ProviderError),
    Panics,
    /// Hangs at a gate before a delta that has one.
    Paced(Vec<(Option<Gate>, Delta)>),
    /// Hangs at the gate, and then goes on.
    Held(Gate, Box<Self>),
}

/// An answer in words.
pub(crate) fn says(text: &str) -> Reply {
    ends(text, StopReason::Done)
}

/// An answer that ends for that reason.
pub(crate) fn ends(text: &str, stop: StopReason) -> Reply {
    let usage = Delta::Usage(Usage { input: 10, cached: 0, cache_written: 0, output: 2 });
    Reply::Says(vec![Delta::Text(text.to_owned()), usage, Delta::End(stop)])
}

/// Calls of tools, with their arguments.
pub(crate) fn calls(calls: &[(&str, Value)]) -> Reply {
    let raw: Vec<_> = calls.iter().map(|(tool, args)| (*tool, args.to_string())).collect();
    calls_raw(&raw)
}

/// Calls of tools whose arguments need not be JSON.
pub(crate) fn calls_raw(calls: &[(&str, String)]) -> Reply {
    let calls = calls.iter().enumerate().map(|(at, (name, arguments))| {
        let (name, arguments) = ((*name).to_owned(), arguments.clone());
        Delta::Call(ToolCall { id: format!("call_{at}"), name, arguments })
    });
    Reply::Says(calls.chain([Delta::End(StopReason::Calls)]).collect())
}

/// An answer that comes in pieces; before one with a gate, it hangs there.
#[cfg_attr(
    not(any(feature = "discord", feature = "slack", feature = "telegram")),
    expect(dead_code, reason = "only platforms show what comes in pieces")
)]
pub(crate) fn paced(pieces: &[(&str, Option<&Gate>)]) -> Reply {
    let deltas = pieces.iter().map(|(text, gate)| (gate.cloned(), Delta::Text((*text).to_owned())));
    Reply::Paced(deltas.chain([(None, Delta::End(StopReason::Done))]).collect())
}

/// Hangs at `gate` first.
pub(crate) fn held(gate: &Gate, then: Reply) -> Reply {
    Reply::Held(gate.clone(), Box::new(then))
}

/// Where something hangs until a test lets it go on.
#[derive(Clone)]
pub(crate) struct Gate {
    reached: watch::Sender<usize>,
    open: watch::Sender<bool>,
}

impl Gate {
    pub(crate) fn shut() -> Self {
        Self { reached: watch::Sender::new(0), open: watch::Sender::new(false) }
    }

    /// Hangs until the gate is open.
    pub(crate) async fn pass(&self) {
        self.reached.send_modify(|reached| *reached += 1);
        self.open.subscribe().wait_for(|open| *open).await.unwrap();
    }

    pub(crate) fn open(&self) {
        self.open.send_replace(true);
    }

    /// Waits until so many have come to it.
    pub(crate) async fn reached(&self, times: usize) {
        self.reached.subscribe().wait_for(|reached| *reached >= times).await.unwrap();
    }
}

/// What the model was asked once.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Asked {
    pub(crate) system: Vec<String>,
    pub(crate) tools: Vec<ToolSchema>,
    pub(crate) facts: Vec<i64>,
    pub(crate) may_call: bool,
    pub(crate) effort: Effort,
    /// As `image: path type`, `user: …`, `assistant: …`, `call: tool arguments` and `result: …`, in order.
    pub(crate) messages: Vec<String>,
}

impl Asked {
    /// All of its bytes, in the order of a request.
    pub(crate) fn whole(&self) -> String {
        let tools: Vec<_> = self.tools.iter().map(|tool| tool.name.as_str()).collect();
        format!("{}\ntools: {}\n{}", self.system.join("\n\n"), tools.join(" "), self.transcript())
    }

    pub(crate) fn transcript(&self) -> String {
        self.messages.join("\n")
    }

    pub(crate) fn has_tool(&self, name: &str) -> bool {
        self.tools.iter().any(|tool| tool.name == name)
    }
}

/// Replies for requests whose last message of a person contains some words.
struct Scene {
    words: String,
    replies: Vec<Reply>,
}

/// A call that an obedient model makes whenever it is shown its letter between tildes: `~ab~` is two orders.
#[derive(Clone)]
pub(crate) struct Order {
    pub(crate) letter: char,
    pub(crate) tool: String,
    pub(crate) arguments: Value,
}

/// The words of an obedient model once it has made all calls.
pub(crate) const OBEYED: &str = "Obeyed.";

#[derive(Default)]
struct Written {
    scenes: Vec<Scene>,
    orders: Vec<Order>,
    asked: Vec<Asked>,
    faults: Vec<String>,
}

#[derive(Default)]
pub(crate) struct ScriptedModel {
    written: Mutex<Written>,
    /// Tokens that it says a prompt may have; 0 if it says nothing of that.
    context_window: u64,
}

impl ScriptedModel {
    /// One that takes so many tokens.
    pub(crate) fn with_room(context_window: u64) -> Arc<Self> {
        Arc::new(Self { context_window, ..Self::default() })
    }

    /// What to reply, one after another, while the newest words of a person contain `words`.
    pub(crate) fn on(&self, words: &str, replies: impl IntoIterator<Item = Reply>) {
        let scene = Scene { words: words.to_owned(), replies: replies.into_iter().collect() };
        self.written().scenes.push(scene);
    }

    /// Whatever it has no reply for, it obeys from now on, whoever wrote it. A picture that it sees has all orders.
    pub(crate) fn obeys(&self, orders: &[Order]) {
        self.written().orders = orders.to_vec();
    }

    /// All that the model was asked so far.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.written().asked.clone()
    }

    pub(crate) fn last(&self) -> Asked {
        self.asked().pop().expect("the model was asked nothing")
    }

    /// What is wrong with what happened: transcripts that no vendor takes, replies that nobody
    /// asked for.
    pub(crate) fn faults(&self) -> Vec<String> {
        let written = self.written();
        let left = written.scenes.iter().filter(|scene| !scene.replies.is_empty());
        let left = left.map(|scene| format!("the model was not asked again of `{}`", scene.words));
        written.faults.iter().cloned().chain(left).collect()
    }

    fn written(&self) -> std::sync::MutexGuard<'_, Written> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, request: &Request<'_>, seen: &ReadPictures) -> Reply {
        let newest = newest_words(&request.messages);
        let mut written = self.written();
        written.faults.extend(faults(&request.messages));
        written.asked.push(Asked {
            // It takes no schema of its answers, so it is asked for the mark.
            system: match request.facts.is_empty() {
                true => request.system.to_vec(),
                false => system_asking(request.system),
            },
            tools: request.tools.to_vec(),
            facts: request.facts.to_vec(),
            may_call: request.may_call,
            effort: request.effort,
            messages: request.messages.iter().flat_map(|it| lines(it, seen)).collect(),
        });
        let orders = written.orders.clone();
        let fits = |scene: &&mut Scene| !scene.replies.is_empty() && newest.contains(&scene.words);
        match written.scenes.iter_mut().find(fits) {
            Some(scene) => scene.replies.remove(0),
            None if !orders.is_empty() => obey(&orders, request, seen),
            None => says(&format!("re: {}", said(&newest))),
        }
    }
}

#[async_trait]
impl Provider for ScriptedModel {
    fn name(&self) -> &'static str {
        "script (none)"
    }

    fn sees(&self) -> bool {
        true
    }

    fn context_window(&self) -> u64 {
        if self.context_window == 0 { 112_000 } else { self.context_window }
    }

    async fn stream<'a>(
        &'a self,
        request: &'a Request<'a>,
    ) -> Result<DeltaStream<'a>, ProviderError> {
        let mut reply = self.take(request, &request.pictures.load().await);
        loop {
            reply = match reply {
                Reply::Says(deltas) => return Ok(stream::iter(deltas.into_iter().map(Ok)).boxed()),
                Reply::Paced(deltas) => {
                    let pass = async |(gate, delta): (Option<Gate>, Delta)| {
                        if let Some(gate) = gate {
                            gate.pass().await;
                        }
                        Ok(delta)
                    };
                    return Ok(stream::iter(deltas).then(pass).boxed());
                }
                Reply::Fails(error) => return Err(error),
                Reply::Panics => panic!("the script says that the model panics"),
                Reply::Held(gate, then) => {
                    gate.pass().await;
                    *then
                }
            };
        }
    }
}

/// The next call of the orders that a request shows, each once since its person spoke last.
fn obey(orders: &[Order], request: &Request<'_>, seen: &ReadPictures) -> Reply {
    let mut text = request.system.join("\n");
    request.tools.iter().for_each(|tool| text.push_str(&tool.description));
    let (mut made, mut sees) = (Vec::new(), false);
    for message in &request.messages {
        match message {
            PromptMessage::User { text: said, images } => {
                text.push_str(said);
                sees |= images.iter().any(|image| seen.get(image).is_some());
                made.clear();
            }
            PromptMessage::Assistant { text: said, calls, .. } => {
                text.push_str(said);
                let calls = calls.iter();
                made.extend(calls.map(|call| (call.tool.clone(), call.arguments.clone())));
            }
            PromptMessage::Results(calls) => {
                calls.iter().for_each(|call| text.push_str(call.outcome.for_model()));
            }
        }
    }
    let letters: String = text.split('~').filter(|it| is_order(it)).collect();
    let shown = |order: &&Order| sees || letters.contains(order.letter);
    if !request.may_call {
        let retold: String = orders.iter().filter(shown).map(|order| order.letter).collect();
        return says(&format!("In short: ~{retold}~."));
    }
    let is_made = |order: &&Order| {
        let wanted = order.arguments.to_string();
        made.iter().any(|(tool, arguments)| *tool == order.tool && *arguments == wanted)
    };
    match orders.iter().filter(shown).find(|order| !is_made(order)) {
        Some(order) => calls(&[
            (order.tool.as_str(), order.arguments.clone()),
            // A turn of which nothing succeeds would be ended.
            ("memory_search", serde_json::json!({"query": "tea"})),
        ]),
        None if request.tools.iter().any(|tool| tool.name == "task_completion") => {
            calls(&[("task_completion", serde_json::json!({"result": OBEYED}))])
        }
        None => says(OBEYED),
    }
}

fn is_order(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|sign| sign.is_ascii_lowercase())
}

fn newest_words(messages: &[PromptMessage<'_>]) -> String {
    let user = messages.iter().rev().find_map(|message| match message {
        PromptMessage::User { text, .. } => Some(text.clone()),
        _ => None,
    });
    without_beginning(&user.unwrap_or_default())
}

/// A message without the program's block about what is due, which holds texts of jobs and proposals: a scene is about
/// what was said.
fn without_beginning(text: &str) -> String {
    let Some((before, rest)) = text.split_once("\n[As this conversation begins:") else {
        return text.to_owned();
    };
    // Each of its lines but the last goes on in the next one.
    match rest.split_once("]\n") {
        Some((_, after)) => format!("{before}\n{after}"),
        None => before.to_owned(),
    }
}

/// What people said, without the program's own lines.
fn said(text: &str) -> String {
    let lines: Vec<_> = text.lines().filter(|line| !line.starts_with('[')).collect();
    lines.join(" ").trim().to_owned()
}

fn lines(message: &PromptMessage<'_>, seen: &ReadPictures) -> Vec<String> {
    match message {
        PromptMessage::User { text, images } => {
            let shown = images.iter().filter(|image| seen.get(image).is_some());
            let shown = shown.map(|image| format!("image: {} {}", image.path, image.mime));
            shown.chain([format!("user: {text}")]).collect()
        }
        PromptMessage::Assistant { text, calls, .. } => {
            let words = (!text.is_empty()).then(|| format!("assistant: {text}"));
            let calls = calls.iter().map(|call| format!("call: {} {}", call.tool, call.arguments));
            words.into_iter().chain(calls).collect()
        }
        PromptMessage::Results(calls) => {
            calls.iter().map(|call| format!("result: {}", call.outcome.for_model())).collect()
        }
    }
}

/// What the vendors would refuse a transcript for.
pub(crate) fn faults(messages: &[PromptMessage<'_>]) -> Vec<String> {
    let valid = |pair: &[PromptMessage<'_>]| match pair {
        [PromptMessage::User { text, .. }, after] => {
            !text.trim().is_empty() && matches!(after, PromptMessage::Assistant { .. })
        }
        [PromptMessage::Assistant { calls: [], .. }, after] => {
            matches!(after, PromptMessage::User { .. })
        }
        [PromptMessage::Assistant { calls, .. }, PromptMessage::Results(results)] => {
            calls == results
        }
        [PromptMessage::Results(_), after] => !matches!(after, PromptMessage::Results(_)),
        _ => false,
    };
    let whole = matches!(messages.first(), Some(PromptMessage::User { .. }))
        && matches!(messages.last(), Some(PromptMessage::User { .. } | PromptMessage::Results(_)));
    let mut faults: Vec<_> = messages
        .windows(2)
        .filter(|pair| !valid(pair))
        .map(|pair| format!("no vendor takes {pair:?}"))
        .collect();
    if !whole {
        faults.push(format!("no vendor takes a transcript like {messages:?}"));
    }
    faults
}
