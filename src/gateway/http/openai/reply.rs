//! Responses in the form of OpenAI's API: a completion, and the chunks of one.

use axum::body::Bytes;
use chrono::Utc;
use serde_json::{Value, json};

use super::MODEL;
use crate::provider::Usage;

/// The fields that all parts of one response share.
pub(super) struct CompletionHead {
    id: String,
    created: i64,
}

impl CompletionHead {
    /// Creates the fields. `message` is the id of the message that is answered.
    pub(super) fn new(message: &str) -> Self {
        Self { id: format!("chatcmpl-{message}"), created: Utc::now().timestamp() }
    }

    /// Returns a completion that is not streamed.
    pub(super) fn whole(&self, text: &str, usage: Usage) -> Value {
        let message = json!({ "role": "assistant", "content": text, "refusal": null });
        let choice =
            json!({ "index": 0, "message": message, "logprobs": null, "finish_reason": "stop" });
        json!({
            "id": self.id, "object": "chat.completion", "created": self.created, "model": MODEL,
            "choices": [choice], "usage": usage_json(usage),
        })
    }

    fn chunk(&self, delta: &Value, finish_reason: Option<&str>) -> Value {
        let choice = json!({
            "index": 0, "delta": delta, "logprobs": null, "finish_reason": finish_reason,
        });
        json!({
            "id": self.id, "object": "chat.completion.chunk", "created": self.created,
            "model": MODEL, "choices": [choice],
        })
    }

    /// Returns the first chunk.
    pub(super) fn begin(&self) -> Bytes {
        data(&self.chunk(&json!({ "role": "assistant", "content": "" }), None))
    }

    pub(super) fn delta(&self, text: &str) -> Bytes {
        data(&self.chunk(&json!({ "content": text }), None))
    }

    /// Returns the last chunks, with the usage if the client has asked for it.
    pub(super) fn end(&self, usage: Option<Usage>) -> impl Iterator<Item = Bytes> {
        let last = data(&self.chunk(&json!({}), Some("stop")));
        let usage = usage.map(|usage| {
            let mut chunk = self.chunk(&json!({}), None);
            chunk["choices"] = json!([]);
            chunk["usage"] = usage_json(usage);
            data(&chunk)
        });
        [last].into_iter().chain(usage).chain([Bytes::from_static(b"data: [DONE]\n\n")])
    }
}

fn usage_json(usage: Usage) -> Value {
    json!({
        "prompt_tokens": usage.input, "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
        "prompt_tokens_details": { "cached_tokens": usage.cached },
    })
}

/// Returns an event without a name. JSON has no line ends of its own.
pub(super) fn data(json: &Value) -> Bytes {
    format!("data: {json}\n\n").into()
}
