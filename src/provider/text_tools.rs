//! A provider for a model without native tools: the tools are described in its prompt, and it calls them by writing
//! `<tool_call>{"name":…,"arguments":…}</tool_call>`, the form of Hermes and Qwen, which most open models know. It
//! also reads `<tool>{"server_name":…,"tool_name":…,"arguments":…}</tool>`. Around a model with native tools it only
//! looks for calls that its server failed to parse out of the text.
//!
//! A call is a tag followed by JSON or a tool's name, wherever it is, also in a code fence. Every other mention
//! of a tag is text. JSON in a code fence without a tag is a call if it names a tool. Such a block is never shown.
//! An unreadable one becomes a call of [`MALFORMED_CALL`], whose result explains the mistake to the model. The
//! tools themselves refuse invalid names and arguments. For a model with native tools, a block is a call only if
//! it names an existing tool and is not in backticks, and only if the answer has no native calls.

mod finder;
mod forms;
mod pythonic;
pub mod scan;
mod tagged;
mod request;

use std::collections::VecDeque;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::stream::{self, StreamExt};
use serde_json::{Map, Value};
use tokio::sync::mpsc;

pub use forms::MALFORMED_CALL;
use request::TextRequest;
use scan::{AnswerPiece, CallStrictness, Scanner};

use super::api::begin_stream;
use super::{
    Delta, DeltaStream, Provider, ProviderError, ProviderLayer, Request, StopReason, ToolCall,
    Tools, wire,
};

/// Maximum number of deltas that wait between the answer and its reader.
const DELTAS_MAX: usize = 16;

/// The argument in which a small model puts its answer if it writes a call of no tool.
const ANSWER_KEYS: [&str; 6] = ["text", "message", "content", "answer", "response", "reply"];

/// Returns true if the whole text is one call in JSON, `{"name":…,"arguments":{…}}`, perhaps in a code fence. Small
/// models answer so with names that no tool has.
pub fn is_lone_call(text: &str) -> bool {
    lone_arguments(text).is_some()
}

/// Returns the answer in such a call: its only argument, if that is a text with a name such as `answer`.
pub fn answer_in_lone_call(text: &str) -> Option<String> {
    let arguments = lone_arguments(text)?;
    let mut arguments = arguments.into_iter();
    match (arguments.next(), arguments.next()) {
        (Some((key, Value::String(answer))), None) if ANSWER_KEYS.contains(&key.as_str()) => {
            Some(answer).filter(|answer| !answer.trim().is_empty())
        }
        _ => None,
    }
}

/// Returns the arguments of the call that is the whole text.
fn lone_arguments(text: &str) -> Option<Map<String, Value>> {
    let call: Value = serde_json::from_str(forms::strip_fence(text)).ok()?;
    let Value::Object(mut call) = call else { return None };
    let arguments = call.remove("arguments").or_else(|| call.remove("parameters"))?;
    match arguments {
        Value::Object(arguments) if call.get("name").is_some_and(Value::is_string) => {
            Some(arguments)
        }
        _ => None,
    }
}

/// A provider whose calls may be in the text.
pub struct TextTools {
    inner: Arc<dyn Provider>,
    tools: Tools,
}

impl TextTools {
    pub fn new(inner: Arc<dyn Provider>, tools: Tools) -> Self {
        Self { inner, tools }
    }
}

#[async_trait]
impl ProviderLayer for TextTools {
    fn inner(&self) -> &dyn Provider {
        &*self.inner
    }

    async fn answer<'a>(
        &'a self,
        request: &'a Request<'a>,
    ) -> Result<DeltaStream<'a>, ProviderError> {
        let (inner, reader) = match self.tools {
            Tools::Text => (stream_as_text(&*self.inner, request), CallStrictness::Strict),
            Tools::Native => (self.inner.stream(request).await?, CallStrictness::Lenient),
        };
        if reader == CallStrictness::Lenient && request.tools.is_empty() {
            return Ok(inner);
        }
        let sieve = Sieve::new(request, reader);
        let reading = (inner, sieve, false);
        Ok(stream::try_unfold(reading, |(mut inner, mut sieve, mut is_over)| async move {
            while sieve.ready.is_empty() && !is_over {
                match inner.next().await.transpose()? {
                    Some(delta) => sieve.take(delta),
                    None => is_over = true,
                }
            }
            Ok(sieve.ready.pop_front().map(|delta| (delta, (inner, sieve, is_over))))
        })
        .boxed())
    }
}

/// Returns the answer to the request in its text form. The task that sends it owns that request.
fn stream_as_text<'a>(provider: &'a dyn Provider, request: &'a Request<'a>) -> DeltaStream<'a> {
    let (sender, mut receiver) = mpsc::channel(DELTAS_MAX);
    let sending = async move {
        let text_request = TextRequest::of(request);
        let request = text_request.request();
        let mut answer = begin_stream(provider, &request);
        while let Some(delta) = answer.next().await {
            if sender.send(delta).await.is_err() {
                break;
            }
        }
    };
    let sending = stream::once(sending).filter_map(|()| async { None });
    let deltas = stream::poll_fn(move |task| receiver.poll_recv(task));
    stream::select(deltas, sending).boxed()
}

/// Separates an answer's text from its calls.
struct Sieve<'a> {
    request: &'a Request<'a>,
    reader: CallStrictness,
    scanner: Scanner<'a>,
    native: Vec<ToolCall>,
    found: Vec<ToolCall>,
    /// The calls that a lenient reader found, and everything after them: a native call may still arrive.
    kept: Vec<AnswerPiece>,
    ready: VecDeque<Delta>,
}

impl<'a> Sieve<'a> {
    fn new(request: &'a Request<'a>, reader: CallStrictness) -> Self {
        Self {
            request,
            reader,
            scanner: Scanner::new(request.tools, reader),
            native: Vec::new(),
            found: Vec::new(),
            kept: Vec::new(),
            ready: VecDeque::new(),
        }
    }

    fn take(&mut self, delta: Delta) {
        match delta {
            Delta::Text(text) => {
                let pieces = self.scanner.take(&text);
                self.assign(pieces);
            }
            Delta::Call(call) => self.native.push(call),
            Delta::Restart => {
                let ready = std::mem::take(&mut self.ready);
                *self = Self { ready, ..Self::new(self.request, self.reader) };
                self.ready.push_back(delta);
            }
            Delta::End(stop) => self.end(stop),
            delta => self.ready.push_back(delta),
        }
    }

    fn assign(&mut self, pieces: Vec<AnswerPiece>) {
        for piece in pieces {
            match piece {
                piece if !self.kept.is_empty() => self.kept.push(piece),
                AnswerPiece::Text(text) => self.ready.push_back(Delta::Text(text)),
                piece @ AnswerPiece::Calls(..) if self.reader == CallStrictness::Lenient => {
                    self.kept.push(piece)
                }
                AnswerPiece::Calls(calls, _) => self.found.extend(calls),
            }
        }
    }

    fn end(&mut self, stop: StopReason) {
        let pieces = self.scanner.finish(stop == StopReason::MaxTokens);
        self.assign(pieces);
        for piece in std::mem::take(&mut self.kept) {
            match piece {
                AnswerPiece::Text(text) => self.ready.push_back(Delta::Text(text)),
                AnswerPiece::Calls(calls, _) if self.native.is_empty() => self.found.extend(calls),
                AnswerPiece::Calls(_, written) => self.ready.push_back(Delta::Text(written)),
            }
        }
        let mut calls = std::mem::take(&mut self.native);
        calls.append(&mut self.found);
        wire::close(calls, stop, &mut self.ready);
    }
}
