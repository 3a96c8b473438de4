//! `[media]` and `[transcription]`: the files that people send, and the texts of voice messages.

use std::str::FromStr;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::channels::intake::IntakeLimits;
use crate::provider::transcription;
use crate::provider::vendors::OPENAI_URL;

use super::providers::api_key;
use super::reading::Section;
use super::secrets::UnresolvedSecret;
use super::values::{At, MB, Text, Url, Within};

/// More than any platform sends, and than a small board's disk has.
const FILE_MB_MOST: u32 = 2_000;
const INBOX_MB_MOST: u32 = 1_000_000;

/// A hundred years.
const KEEP_DAYS_MOST: u32 = 36_500;

/// Files that people send. They are saved in downloads/ beside the workspace, or in the folder of
/// the person or group, with a folder for each month.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct MediaSection {
    /// The largest file, in MB.
    file_max_mb: Within<1, FILE_MB_MOST, 20>,
    /// All files together, in MB. If there are more, the oldest are deleted.
    inbox_max_mb: Within<1, INBOX_MB_MOST, 500>,
    /// The files of one person or group, in MB. If there are more, the oldest are deleted.
    person_max_mb: Within<1, INBOX_MB_MOST, 500>,
    /// Days after which a file is deleted.
    keep_days: Within<1, KEEP_DAYS_MOST, 365>,
}

/// The service that transcribes voice messages: an endpoint like OpenAI's audio/transcriptions.
/// Without this section, the model only learns that there is a voice message.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("required" = ["model"]))]
pub(super) struct TranscriptionSection {
    /// The endpoint. http:// is allowed for this machine only. Default: OpenAI's own,
    /// https://api.openai.com/v1.
    base_url: Option<Text<Url>>,
    /// The model's name, such as whisper-1.
    model: Option<String>,
    /// A secret: the API key. Only OpenAI's own endpoint requires it.
    api_key: Option<At<UnresolvedSecret>>,
    /// The spoken language, as a code of two or three letters. Default: the endpoint detects it.
    language: Option<Text<Language>>,
}

struct Language(String);

impl FromStr for Language {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        let is_code = (2..=3).contains(&text.len()) && text.bytes().all(|c| c.is_ascii_lowercase());
        let wanted = "must be a language's code of two or three letters, such as \"de\"";
        is_code.then(|| Self(text.to_owned())).ok_or(wanted)
    }
}

impl MediaSection {
    pub(super) fn limits(&self, place: &Section<'_, '_>) -> IntakeLimits {
        let bytes = |megabytes: u32| u64::from(megabytes) * MB;
        let (file_max, inbox_max) = (bytes(self.file_max_mb.0), bytes(self.inbox_max_mb.0));
        let person_max = bytes(self.person_max_mb.0);
        if inbox_max < file_max {
            place.fault("`inbox_max_mb` in [media] must not be less than `file_max_mb`");
        }
        if person_max < file_max {
            place.fault("`person_max_mb` in [media] must not be less than `file_max_mb`");
        }
        let kept = Duration::from_secs(u64::from(self.keep_days.0) * 24 * 3600);
        IntakeLimits { file_max, inbox_max, person_max, kept, ..IntakeLimits::default() }
    }
}

impl TranscriptionSection {
    pub(super) fn config(self, place: &Section<'_, '_>) -> Option<transcription::Config> {
        let model = place.require(self.model, "model", "the model's name, such as whisper-1");
        let base_url = self.base_url.map(|url| url.0.0);
        let base_url = place.or(base_url, "base_url", OPENAI_URL.to_owned());
        let vendor_url = base_url.as_deref().filter(|url| *url == OPENAI_URL);
        let api_key = api_key(place, self.api_key.as_ref(), vendor_url);
        let language = self.language.map(|language| language.0.0);
        Some(transcription::Config {
            base_url: base_url?,
            model: model?,
            api_key: api_key?,
            language,
        })
    }
}
