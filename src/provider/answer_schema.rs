//! Asks a model on which facts of its prompt an answer rests: by a schema of the answer, which allows only the numbers
//! of these facts, where the endpoint takes one; elsewhere by a mark at the answer's end. Never by a second call.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use serde_json::{Value, json};
use tokio::time::Instant;
use url::Url;

use super::answer_reader::AnswerReader;
use super::http::PostFailure;
use super::openai::dialect::HostDialect;
use super::used_marker;
use super::{
    Config, Delta, DeltaStream, ProviderError, ProviderKind, Request, StopReason, Structured,
};

/// Time for which an endpoint that has refused a schema gets none. A server may be upgraded meanwhile, and one refused
/// request a day costs nothing. Kept in memory: after a restart, the first request finds it out again.
const REFUSAL_REMEMBERED: Duration = Duration::from_secs(24 * 3600);

/// The form in which an answer is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerForm {
    /// A text: no fact stands in the prompt.
    Text,
    /// A text that ends with the mark of the facts.
    Marked,
    /// JSON with the text and the facts.
    Schema,
}

impl AnswerForm {
    /// Returns the system prompt, with instructions on the form if it needs them.
    pub(super) fn system<'a>(self, request: &Request<'a>) -> Cow<'a, [String]> {
        match self {
            Self::Marked => Cow::Owned(used_marker::system_asking(request.system)),
            Self::Text | Self::Schema => Cow::Borrowed(request.system),
        }
    }

    /// Returns the JSON schema of the answer. The same facts make the same bytes, so that it does not break the
    /// vendor's cache.
    pub(super) fn schema(self, request: &Request<'_>) -> Option<Value> {
        (self == Self::Schema).then(|| {
            json!({
                "type": "object",
                "properties": {
                    "text": {"type": "string", "description": "Your answer"},
                    "used": {
                        "type": "array",
                        "items": {"type": "integer", "enum": request.facts},
                        "description": "The facts (#) on which it rests",
                    },
                },
                "required": ["text", "used"],
                "additionalProperties": false,
            })
        })
    }
}

/// A provider's choice between schema and mark.
pub(super) struct AnswerSchema {
    provider: String,
    is_wanted: bool,
    // A mutex because requests are different tasks; it guards one time.
    refused: Mutex<Option<Instant>>,
}

impl AnswerSchema {
    pub(super) fn new(provider: &str, config: &Config) -> Self {
        let is_wanted = match config.structured {
            Structured::Auto => takes_schema(config.kind, &config.model, &config.base_url),
            Structured::On => true,
            Structured::Off => false,
        };
        Self { provider: provider.to_owned(), is_wanted, refused: Mutex::new(None) }
    }

    /// Makes a request in the right form. Remembers an endpoint that refuses the schema and accepts the same request
    /// without it.
    pub(super) async fn ask<F>(
        &self,
        request: &Request<'_>,
        send: impl Fn(AnswerForm) -> F,
    ) -> Result<DeltaStream<'static>, ProviderError>
    where
        F: Future<Output = Result<DeltaStream<'static>, PostFailure>>,
    {
        let form = self.form(request);
        let sent = send(form).await;
        if form != AnswerForm::Schema {
            return sent.map_err(|failure| failure.error);
        }
        let refusal = match begin(sent).await {
            Ok(deltas) => return Ok(read(deltas, request.facts)),
            Err(failure) if failure.is_about_body => failure.error,
            Err(failure) => return Err(failure.error),
        };
        let marked = begin(send(AnswerForm::Marked).await).await;
        let deltas = marked.map_err(|failure| failure.error)?;
        self.note_refusal(&refusal);
        Ok(deltas)
    }

    fn form(&self, request: &Request<'_>) -> AnswerForm {
        let refused = *self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let is_refused = refused.is_some_and(|at| at.elapsed() < REFUSAL_REMEMBERED);
        match (request.facts.is_empty(), self.is_wanted && !is_refused) {
            (true, _) => AnswerForm::Text,
            (false, true) => AnswerForm::Schema,
            (false, false) => AnswerForm::Marked,
        }
    }

    fn note_refusal(&self, error: &ProviderError) {
        let provider = &self.provider;
        tracing::info!(%provider, %error, "The endpoint takes no schema of the answer, will ask for a mark instead");
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        *refused = Some(Instant::now());
    }
}

/// Waits for the first delta of a stream: some servers accept a request, and refuse it in the first event.
async fn begin(
    sent: Result<DeltaStream<'static>, PostFailure>,
) -> Result<DeltaStream<'static>, PostFailure> {
    let mut deltas = sent?;
    match deltas.next().await {
        Some(Err(error @ (ProviderError::Refused(_) | ProviderError::Unauthorized(_)))) => {
            Err(PostFailure { error, is_about_body: true })
        }
        first => Ok(stream::iter(first).chain(deltas).boxed()),
    }
}

/// Returns true if a model is known to take a schema of its answer beside tools: OpenAI's since gpt-4o-2024-08-06
/// ("Structured model outputs"), Claude since 4.5 ("Structured outputs"), each at the vendor itself. Azure has OpenAI's
/// models under names that its customers choose, mostly the models' own.
pub fn takes_schema(kind: ProviderKind, model: &str, base_url: &str) -> bool {
    let Ok(url) = Url::parse(base_url) else { return false };
    match kind {
        ProviderKind::OpenAi if HostDialect::of(&url) == HostDialect::OpenAi => {
            let families = ["gpt-4o", "gpt-4.1", "gpt-5", "o1", "o3", "o4"];
            let exceptions =
                ["gpt-4o-2024-05-13", "gpt-4o-audio", "gpt-4o-search", "o1-mini", "o1-preview"];
            let is_of = |families: &[&str]| families.iter().any(|it| model.starts_with(it));
            is_of(&families) && !is_of(&exceptions)
        }
        ProviderKind::Anthropic if url.host_str() == Some("api.anthropic.com") => {
            super::anthropic::effort::version(model).is_some_and(|version| version >= (4, 5))
        }
        _ => false,
    }
}

/// Converts an answer in the form of the schema to its text and its facts.
fn read(deltas: DeltaStream<'static>, facts: &[i64]) -> DeltaStream<'static> {
    let reading = (deltas, AnswerReader::new(facts), VecDeque::new());
    stream::try_unfold(reading, |(mut deltas, mut reader, mut ready)| async move {
        while ready.is_empty() {
            let Some(delta) = deltas.next().await.transpose()? else { break };
            let stop = match &delta {
                Delta::Text(piece) => {
                    push_text(reader.push(piece), &mut ready);
                    continue;
                }
                Delta::Call(_) => Some(StopReason::Calls),
                Delta::End(stop) => Some(*stop),
                _ => None,
            };
            if let Some(stop) = stop {
                let (rest, used) = reader.finish(stop);
                push_text(rest, &mut ready);
                ready.push_back(Delta::UsedFacts(used));
            }
            ready.push_back(delta);
        }
        Ok(ready.pop_front().map(|delta| (delta, (deltas, reader, ready))))
    })
    .boxed()
}

fn push_text(text: String, ready: &mut VecDeque<Delta>) {
    if !text.is_empty() {
        ready.push_back(Delta::Text(text));
    }
}
