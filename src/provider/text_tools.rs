//! A provider for a model that has no native tools: it is told of them in words, and calls by writing
//! `<tool>{"server_name":…,"tool_name":…,"arguments":…}</tool>`. Around a model that has native tools it
//! only watches for calls that its server failed to read out of the text.
//!
//! What counts as a call: a `<tool>` behind which JSON or a tool's name begins, wherever it stands, also
//! in a code fence; every other mention of the tag is text. Such a block is never shown, and one that
//! cannot be read becomes a call of [`MALFORMED_CALL`], whose result tells the model what is wrong.
//! Names and arguments that are wrong are left for the tools themselves to refuse. Of a model with native
//! tools only those blocks are calls that name tools that there are and stand in no backticks, and only
//! if the answer has no native calls.

mod finder;
mod forms;
mod pythonic;
pub mod scan;
mod tagged;
mod told;

use std::collections::VecDeque;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::stream::{self, StreamExt};
use tokio::sync::mpsc;

pub use forms::MALFORMED_CALL;
use scan::{AnswerPiece, CallStrictness, Scanner};
use told::TextRequest;

use super::{
    Delta, DeltaStream, Provider, ProviderError, Request, StopReason, ToolCall, Tools, begin, wire,
};

/// Deltas that wait between the answer and its reader.
const DELTAS_MAX: usize = 16;

/// A provider whose calls may stand in the text.
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
impl Provider for TextTools {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn sees(&self) -> bool {
        self.inner.sees()
    }

    fn room(&self) -> u64 {
        self.inner.room()
    }

    async fn stream<'a>(
        &'a self,
        request: &'a Request<'a>,
    ) -> Result<DeltaStream<'a>, ProviderError> {
        let (inner, reader) = match self.tools {
            Tools::Text => (told(&*self.inner, request), CallStrictness::Strict),
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

/// The answer to the request as the model is told of it. That request lives in the task that asks.
fn told<'a>(provider: &'a dyn Provider, request: &'a Request<'a>) -> DeltaStream<'a> {
    let (sender, mut receiver) = mpsc::channel(DELTAS_MAX);
    let asking = async move {
        let told = TextRequest::of(request);
        let request = told.request();
        let mut answer = begin(provider, &request);
        while let Some(delta) = answer.next().await {
            if sender.send(delta).await.is_err() {
                break;
            }
        }
    };
    let asking = stream::once(asking).filter_map(|()| async { None });
    let deltas = stream::poll_fn(move |task| receiver.poll_recv(task));
    stream::select(deltas, asking).boxed()
}

/// Tells an answer's words from its calls.
struct Sieve<'a> {
    request: &'a Request<'a>,
    reader: CallStrictness,
    scanner: Scanner<'a>,
    native: Vec<ToolCall>,
    found: Vec<ToolCall>,
    /// What a lenient reader has found, and what came behind it: a native call may still come.
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
                self.sort(pieces);
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

    fn sort(&mut self, pieces: Vec<AnswerPiece>) {
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
        self.sort(pieces);
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
