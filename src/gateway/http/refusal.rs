//! A refused request, as JSON in the form that clients of OpenAI's API read.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::store::StoreError;

/// A refusal: a status, and an explanation for a person.
#[derive(Debug)]
pub(super) struct HttpRefusal {
    status: StatusCode,
    words: String,
    /// True if a repetition would be a second message.
    is_final: bool,
}

impl HttpRefusal {
    pub(super) fn new(status: StatusCode, words: impl Into<String>) -> Self {
        Self { status, words: words.into(), is_final: false }
    }

    /// A refusal after which clients that repeat requests by themselves do not repeat this one.
    pub(super) fn last(status: StatusCode, words: impl Into<String>) -> Self {
        Self { is_final: true, ..Self::new(status, words) }
    }

    pub(super) fn bad(words: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, words)
    }

    pub(super) fn not_found(words: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, words)
    }

    pub(super) fn too_many() -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, "too many requests; try again in a minute")
    }

    /// Refuses a stream because this person, or all persons together, have enough open ones.
    pub(super) fn too_many_streams() -> Self {
        let words = "too many open pages and streams; close some, or try again later";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, words)
    }

    /// Refuses a file that cannot be stored.
    pub(super) fn not_kept(error: &std::io::Error) -> Self {
        if error.kind() == std::io::ErrorKind::QuotaExceeded {
            let words =
                "too many files wait for their messages; send them, or try again in an hour";
            return Self::new(StatusCode::TOO_MANY_REQUESTS, words);
        }
        tracing::warn!(%error, "Cannot keep an upload");
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "the file cannot be kept")
    }

    pub(super) fn words(&self) -> &str {
        &self.words
    }

    pub(super) fn status(&self) -> StatusCode {
        self.status
    }

    /// Returns the body of the response.
    pub(super) fn body(&self) -> Value {
        let kind = match self.status {
            StatusCode::UNAUTHORIZED => "authentication_error",
            StatusCode::FORBIDDEN => "permission_error",
            StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
            status if status.is_server_error() => "server_error",
            _ => "invalid_request_error",
        };
        json!({ "error": { "message": self.words, "type": kind, "code": self.status.as_u16() } })
    }
}

impl From<StoreError> for HttpRefusal {
    fn from(error: StoreError) -> Self {
        tracing::warn!(%error, "The gateway cannot use the store");
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "the store failed; try again later")
    }
}

impl IntoResponse for HttpRefusal {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.body())).into_response();
        let Self { status, is_final, .. } = self;
        let headers = response.headers_mut();
        if is_final {
            headers.insert("x-should-retry", HeaderValue::from_static("false"));
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if status == StatusCode::TOO_MANY_REQUESTS {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("60"));
        }
        response
    }
}
