//! A model that does what the story says about each message, and the tools that it calls. What it does
//! follows from what it is shown alone, as far as a story goes; so it does the same after a crash.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::{StreamExt, stream};
use peacrab::people::Role;
use peacrab::provider::{
    Delta, DeltaStream, PromptMessage, Provider, ProviderError, Request, StopReason, ToolCall,
    ToolSchema,
};
use peacrab::tools::{AnyTool, ToolContext, ToolError, ToolKind, ToolOutput, ToolTerms};
use serde_json::{Value, json};

use super::story::{Call, End, Program};
use super::wire::Kept;
use crate::support::script::faults;

#[derive(Default)]
pub(super) struct Brain(Mutex<Known>);

#[derive(Default)]
struct Known {
    programs: HashMap<String, Program>,
    seen: BTreeSet<String>,
    faults: Vec<String>,
    asked: usize,
    /// The last transcript of each conversation, by how it begins.
    kept: BTreeMap<String, Kept>,
}

enum Does {
    Calls(Vec<ToolCall>),
    Ends(End, String),
}

impl Brain {
    /// A message that begins with `token` is about this.
    pub(super) fn learn(&self, token: &str, program: &Program) {
        for (step, calls) in program.steps.iter().enumerate() {
            for (at, call) in calls.iter().enumerate() {
                if let Call::Spawns(task) | Call::Awaits(task) = call {
                    self.learn(&task_token(token, step, at), task);
                }
            }
        }
        self.known().programs.insert(token.to_owned(), program.clone());
    }

    /// Whether any message with one of the tokens was shown to the model.
    pub(super) fn has_seen(&self, tokens: &[String]) -> bool {
        let known = self.known();
        tokens.iter().any(|token| known.seen.contains(token))
    }

    pub(super) fn faults(&self) -> Vec<String> {
        self.known().faults.clone()
    }

    pub(super) fn asked(&self) -> usize {
        self.known().asked
    }

    pub(super) fn kept(&self) -> Vec<Kept> {
        self.known().kept.values().cloned().collect()
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn decide(&self, request: &Request<'_>) -> (Does, Duration) {
        let mut known = self.known();
        known.asked += 1;
        known.faults.extend(faults(&request.messages));
        for message in &request.messages {
            known.seen.extend(texts(message).into_iter().flat_map(tokens));
        }
        let says = |text: &str| (Does::Ends(End::Says, text.to_owned()), Duration::ZERO);
        if request.tools.is_empty() {
            return match known.asked % 5 {
                0 => (Does::Ends(End::Busy, String::new()), Duration::ZERO),
                _ => says("A summary."),
            };
        }
        let first = request.messages.first().map(texts).unwrap_or_default().concat();
        known.kept.insert(first, Kept::of(&request.messages));
        let newest = newest_words(&request.messages);
        if let Some((_, aside)) = newest.split_once("[A side question") {
            let token = tokens(aside).pop().unwrap_or_default();
            let end = known.programs.get(&token).map_or(End::Says, |program| program.end);
            return (Does::Ends(end, format!("aside {token}")), Duration::ZERO);
        }
        if newest.contains("[The older part of this conversation") && request.may_call {
            let note = tool_call(0, "note", &json!({"text": format!("note {}", known.asked)}));
            return match known.asked % 2 {
                0 => (Does::Calls(vec![note]), Duration::ZERO),
                _ => (Does::Ends(End::Silent, String::new()), Duration::ZERO),
            };
        }
        Self::act(&known, request)
    }

    /// The next step of all that was said since the last answer.
    fn act(known: &Known, request: &Request<'_>) -> (Does, Duration) {
        let is_answer = |message: &PromptMessage<'_>| {
            matches!(message, PromptMessage::Assistant { calls: [], .. })
        };
        let is_subagent = request.tools.iter().any(|tool| tool.name == "task_completion");
        // All of a subagent's transcript is one turn, also where it was reminded of how to end it.
        // A silence that it was reminded of has ended nothing.
        let was_reminded = |at: usize| request.messages.get(at + 1).is_some_and(is_reminder);
        let mut answers = request.messages.iter().enumerate().rev();
        let begin = answers.find(|(at, message)| is_answer(message) && !was_reminded(*at));
        let begin = begin.map(|(at, _)| at).filter(|_| !is_subagent);
        let turn = &request.messages[begin.map_or(0, |at| at + 1)..];
        let said = turn.iter().filter(|it| matches!(it, PromptMessage::User { .. }));
        let tokens: Vec<_> = said.flat_map(texts).flat_map(tokens).collect();
        let programs: Vec<_> =
            tokens.iter().filter_map(|token| Some((token, known.programs.get(token)?))).collect();
        let pace = programs.iter().map(|(_, program)| program.pace_ms).max().unwrap_or_default();
        let pace = Duration::from_millis(pace);
        let steps = programs.iter().flat_map(|(token, program)| {
            program.steps.iter().enumerate().map(move |(step, calls)| (*token, step, calls))
        });
        let has_calls = |message: &&PromptMessage<'_>| {
            matches!(message, PromptMessage::Assistant { calls: [_, ..], .. })
        };
        let made = turn.iter().filter(has_calls).count() + recorded_steps(turn);
        if let Some((token, step, calls)) = steps.into_iter().nth(made)
            && request.may_call
        {
            let calls = calls.iter().enumerate();
            let calls = calls.map(|(at, call)| wire_call(call, (token, step, at))).collect();
            return (Does::Calls(calls), pace);
        }
        let text = format!("done {}", tokens.join(" "));
        let has_said = turn.iter().any(|message| {
            matches!(message, PromptMessage::Assistant { calls, .. } if calls.iter().any(|it| it.tool == "message"))
        });
        let does = match programs.last().map_or(End::Says, |(_, program)| program.end) {
            End::Completes if is_subagent && request.may_call => {
                Does::Calls(vec![tool_call(0, "task_completion", &json!({"result": text}))])
            }
            End::Completes => Does::Ends(End::Says, text),
            End::NoWords if has_said => Does::Ends(End::Says, text),
            // It was reminded of the silence before this.
            End::Silent if !is_subagent && turn.iter().any(is_answer) => {
                Does::Ends(End::Says, text)
            }
            end => Does::Ends(end, text),
        };
        (does, pace)
    }
}

#[async_trait]
impl Provider for Brain {
    fn name(&self) -> &'static str {
        "brain (none)"
    }

    fn sees(&self) -> bool {
        false
    }

    fn context_window(&self) -> u64 {
        112_000
    }

    async fn stream<'a>(
        &'a self,
        request: &'a Request<'a>,
    ) -> Result<DeltaStream<'a>, ProviderError> {
        let (does, pace) = self.decide(request);
        if !pace.is_zero() {
            tokio::time::sleep(pace).await;
        }
        let says = |text: &str| vec![Delta::Text(text.to_owned()), Delta::End(StopReason::Done)];
        let deltas = match does {
            Does::Calls(calls) => {
                let calls = calls.into_iter().map(Delta::Call);
                calls.chain([Delta::End(StopReason::Calls)]).collect()
            }
            Does::Ends(End::Says | End::Completes, text) => says(&text),
            Does::Ends(End::Silent, _) => says("NO_REPLY"),
            Does::Ends(End::NoWords, _) => says(" "),
            Does::Ends(End::Busy, _) => return Err(ProviderError::busy("away")),
            Does::Ends(End::Refuses, _) => {
                return Err(ProviderError::Refused("no credit".to_owned()));
            }
            Does::Ends(End::TooLong, _) => return Err(ProviderError::TooLong),
            Does::Ends(End::Panics, _) => panic!("the story says that the model panics"),
            Does::Ends(End::Hangs, _) => std::future::pending().await,
        };
        Ok(stream::iter(deltas.into_iter().map(Ok)).boxed())
    }
}

/// What people said and tools gave.
fn texts(message: &PromptMessage<'_>) -> Vec<String> {
    match message {
        PromptMessage::User { text, .. } => vec![text.clone()],
        PromptMessage::Assistant { .. } => Vec::new(),
        PromptMessage::Results(calls) => {
            calls.iter().map(|call| call.outcome.for_model().to_owned()).collect()
        }
    }
}

/// The program says that a person waits for words, or that the last step begins.
fn is_reminder(message: &PromptMessage<'_>) -> bool {
    let reminders = ["[Nobody else is here", "[You have used up your"];
    texts(message).iter().any(|text| reminders.iter().any(|it| text.contains(it)))
}

/// The steps of which only the program's record is left.
fn recorded_steps(turn: &[PromptMessage<'_>]) -> usize {
    let texts = turn.iter().flat_map(texts).collect::<Vec<_>>().join("\n");
    let Some((_, record)) = texts.split_once("[You have made these calls") else { return 0 };
    let lines = record.lines().skip(1).take_while(|line| line.starts_with("- "));
    lines.count()
}

fn newest_words(messages: &[PromptMessage<'_>]) -> String {
    let user = messages.iter().rev().find_map(|message| match message {
        PromptMessage::User { text, .. } => Some(text.clone()),
        _ => None,
    });
    user.unwrap_or_default()
}

/// The lines that are a token and nothing else.
fn tokens(text: impl AsRef<str>) -> Vec<String> {
    let lines = text.as_ref().lines().filter(|line| line.starts_with('#') && !line.contains(' '));
    lines.map(str::to_owned).collect()
}

fn task_token(token: &str, step: usize, at: usize) -> String {
    format!("{token}/{step}.{at}")
}

fn tool_call(at: usize, name: &str, arguments: &Value) -> ToolCall {
    ToolCall { id: format!("call_{at}"), name: name.to_owned(), arguments: arguments.to_string() }
}

fn wire_call(call: &Call, (token, step, at): (&str, usize, usize)) -> ToolCall {
    let id = task_token(token, step, at);
    let deed = |name: &str| tool_call(at, name, &json!({"id": id}));
    match call {
        Call::Looks => deed("look"),
        Call::LooksSlowly => deed("slow"),
        Call::Fails => deed("fail"),
        Call::Hangs => deed("hang"),
        Call::Panics => deed("panics"),
        Call::Acts => deed("act"),
        Call::ActsWithLeave => deed("leave"),
        Call::Unknown => deed("fly"),
        Call::Appends => tool_call(at, "append_file", &json!({"path": "log.md", "content": id})),
        Call::Asks => tool_call(at, "ask_question", &json!({"question": format!("Which ({id})?")})),
        Call::AsksWithChoices => {
            let question =
                json!({"question": format!("Which ({id})?"), "choices": ["red", "blue"]});
            tool_call(at, "ask_question", &question)
        }
        Call::Spawns(_) => tool_call(at, "spawn", &json!({"task": id})),
        Call::Awaits(_) => tool_call(at, "subagent", &json!({"task": id})),
        Call::Messages => tool_call(at, "message", &json!({"text": format!("said {id}")})),
        Call::Plans => tool_call(at, "plan", &json!({"items": [{"text": id, "state": "doing"}]})),
        Call::Malformed => ToolCall { arguments: "{\"path\": ".to_owned(), ..deed("read_file") },
    }
}

/// A tool of the story's.
struct Deed {
    name: &'static str,
    /// Where what acts outside writes down that it did.
    log: PathBuf,
}

pub(super) fn deeds(log: &std::path::Path) -> Vec<Arc<dyn AnyTool>> {
    let names = ["look", "slow", "fail", "hang", "panics", "act", "leave"];
    let deed = |name| Arc::new(Deed { name, log: log.to_owned() }) as Arc<dyn AnyTool>;
    names.into_iter().map(deed).collect()
}

#[async_trait]
impl AnyTool for Deed {
    fn terms(&self) -> ToolTerms {
        let kind = match self.name {
            "act" | "leave" => ToolKind::Acts { idempotent: false },
            _ => ToolKind::Reads,
        };
        ToolTerms { role: Role::Guest, kind, retries: false }
    }

    fn schema(&self) -> ToolSchema {
        let parameters = json!({"type": "object", "properties": {"id": {"type": "string"}}});
        let name = self.name.to_owned();
        ToolSchema { name, description: "Does it.".to_owned(), parameters }
    }

    async fn call_json(&self, arguments: &str, _: &ToolContext) -> Result<ToolOutput, ToolError> {
        let arguments: Value = serde_json::from_str(arguments).unwrap();
        let id = arguments["id"].as_str().unwrap();
        match self.name {
            "slow" => tokio::time::sleep(Duration::from_secs(5)).await,
            "fail" => return Err(ToolError::TellModel(format!("no {id}"))),
            "hang" => std::future::pending().await,
            "panics" => panic!("the story says that the tool panics"),
            "act" | "leave" => {
                let mut log = OpenOptions::new().create(true).append(true).open(&self.log).unwrap();
                log.write_all(format!("{id}\n").as_bytes()).unwrap();
            }
            _ => {}
        }
        Ok(ToolOutput::text(format!("{} {id}", self.name)))
    }
}
