//! Transcription of speech: a file is sent to an endpoint like OpenAI's audio/transcriptions.

use std::fmt;
use std::fs::File;

use reqwest::header::{AUTHORIZATION, HeaderMap};
use reqwest::multipart::{Form, Part};
use serde_json::Value;

use super::http::ModelEndpoint;
use super::{HttpTimeouts, ProviderError};
use crate::provider::http::ApiKeyHeader;
use crate::secret::Secret;

/// Maximum length of a transcript, in bytes. An hour of speech has less.
const WORDS_BYTES_MAX: usize = 256 * 1024;

/// The `[transcription]` section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Without a slash at the end.
    pub base_url: String,
    pub model: String,
    /// None if the endpoint needs none.
    pub api_key: Option<Secret>,
    /// The spoken language (ISO 639-1), where it need not be guessed.
    pub language: Option<String>,
}

pub struct Transcriber {
    model: String,
    language: Option<String>,
    endpoint: ModelEndpoint,
}

/// Leaves the key out.
impl fmt::Debug for Transcriber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transcriber").field("model", &self.model).finish_non_exhaustive()
    }
}

impl Transcriber {
    /// Creates a client of the endpoint.
    ///
    /// # Errors
    /// The base URL or the key cannot be used at all.
    pub fn new(config: &Config) -> anyhow::Result<Self> {
        let url = format!("{}/audio/transcriptions", config.base_url.trim_end_matches('/'));
        let (header, scheme) = (AUTHORIZATION, "Bearer ");
        let key = config.api_key.as_ref().map(|key| ApiKeyHeader { header, scheme, key });
        Ok(Self {
            model: config.model.clone(),
            language: config.language.clone(),
            endpoint: ModelEndpoint::new(
                &url,
                key,
                HeaderMap::new(),
                HttpTimeouts::of(&config.base_url),
            )?,
        })
    }

    /// Transcribes a file, which is streamed. The text is never blank. The file's name tells the endpoint its format.
    pub async fn transcribe(
        &self,
        name: &str,
        file: File,
        length: u64,
    ) -> Result<String, ProviderError> {
        let file = tokio::fs::File::from_std(file);
        let part = Part::stream_with_length(file, length).file_name(name.to_owned());
        let mut form =
            Form::new().text("model", self.model.clone()).text("response_format", "json");
        if let Some(language) = &self.language {
            form = form.text("language", language.clone());
        }
        let answer = self.endpoint.post_form(form.part("file", part), WORDS_BYTES_MAX).await?;
        let answer: Value = serde_json::from_str(&answer)
            .map_err(|_| ProviderError::Refused("the answer is not JSON; check base_url".into()))?;
        match answer["text"].as_str().map(str::trim) {
            None => Err(ProviderError::Refused("the answer has no text; check base_url".into())),
            Some("") => Err(ProviderError::Refused("no words were heard in it".into())),
            Some(text) => Ok(text.to_owned()),
        }
    }
}
