//! Transcripts are sent in both wire formats to strict fakes of the vendors.

use std::sync::Arc;
use std::time::Duration;

use peacrab::provider::anthropic::Anthropic;
use peacrab::provider::openai::OpenAi;
use peacrab::provider::{
    Attempts, Config, Effort, HttpTimeouts, Pictures, PromptMessage, Provider, Request, complete,
};
use peacrab::types::session::{Call, Thinking};
use serde_json::json;
use tokio::runtime::Runtime;

use crate::support::model_api::{ModelApi, Platform, Reply};

/// A transcript of its own.
#[derive(Clone)]
pub(super) struct Kept(Vec<Said>);

#[derive(Clone)]
enum Said {
    User(String),
    Assistant(String, Vec<Thinking>, Vec<Call>),
    Results(Vec<Call>),
}

impl Kept {
    pub(super) fn of(messages: &[PromptMessage<'_>]) -> Self {
        let keep = |message: &PromptMessage<'_>| match message {
            PromptMessage::User { text, .. } => Said::User(text.clone()),
            PromptMessage::Assistant { text, thinking, calls } => {
                Said::Assistant((*text).to_owned(), thinking.to_vec(), calls.to_vec())
            }
            PromptMessage::Results(calls) => Said::Results(calls.to_vec()),
        };
        Self(messages.iter().map(keep).collect())
    }

    fn messages(&self) -> Vec<PromptMessage<'_>> {
        self.0.iter().map(Said::message).collect()
    }
}

impl Said {
    fn message(&self) -> PromptMessage<'_> {
        match self {
            Self::User(text) => PromptMessage::User { text: text.clone(), images: Vec::new() },
            Self::Assistant(text, thinking, calls) => {
                PromptMessage::Assistant { text, thinking, calls }
            }
            Self::Results(calls) => PromptMessage::Results(calls),
        }
    }
}

pub(super) struct Apis {
    runtime: Runtime,
    both: Vec<(ModelApi, Arc<dyn Provider>)>,
}

impl Apis {
    pub(super) fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let both = [Platform::OpenAi, Platform::Anthropic].map(|platform| {
            let api = runtime.block_on(ModelApi::start(platform));
            let provider = connected(&api);
            (api, provider)
        });
        Self { runtime, both: both.into() }
    }

    /// Says what a vendor would refuse a transcript for.
    pub(super) fn check(&self, kept: &Kept) -> Result<(), String> {
        for (api, provider) in &self.both {
            let words = match api.platform {
                Platform::OpenAi => vec![
                    json!({"choices": [{"index": 0, "delta": {"content": "Hi"}, "finish_reason": "stop"}]}),
                ],
                Platform::Anthropic => vec![
                    json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
                    json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}}),
                    json!({"type": "content_block_stop", "index": 0}),
                    json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}),
                    json!({"type": "message_stop"}),
                ],
            };
            api.reply(Reply::events(&words));
            let request = Request {
                system: &["You are a crab.".to_owned()],
                tools: &[],
                facts: &[],
                may_call: true,
                effort: Effort::Default,
                attempts: Attempts::Usual,
                tokens_max: None,
                messages: kept.messages(),
                pictures: &Pictures::default(),
            };
            let asked = self.runtime.block_on(complete(provider.as_ref(), &request, |_| {}));
            asked.map_err(|error| {
                format!("{:?} refuses: {error}\n{:#?}", api.platform, request.messages)
            })?;
        }
        Ok(())
    }

    pub(super) fn finish(&self) {
        self.both.iter().for_each(|(api, _)| api.finish());
    }
}

fn connected(api: &ModelApi) -> Arc<dyn Provider> {
    let config = Config { images: false, ..api.config() };
    let wait = Duration::from_secs(20);
    let limits = HttpTimeouts { connect: wait, begin: wait, stall: wait, whole: wait };
    match api.platform {
        Platform::OpenAi => Arc::new(OpenAi::new("main", &config, limits).unwrap()),
        Platform::Anthropic => Arc::new(Anthropic::new("main", &config, limits).unwrap()),
    }
}
