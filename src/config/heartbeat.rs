//! `[heartbeat]`: when a model checks HEARTBEAT.md, the limit of its cost, and the chat that gets results.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::tasks::heartbeat::{Config, QuietHours};

use super::reading::ConfigSource;
use super::values::{At, Text, Within};

/// A day; what is wanted less often is a job.
const MINUTES_MOST: u32 = 24 * 60;

/// More than anybody wants to pay for.
const TOKENS_MOST: u32 = 1_000_000_000;

/// Stands for the chat where the owner last wrote in private.
const OWNER: &str = "owner";

/// The heartbeat: a regular check of the tasks in HEARTBEAT.md of the workspace. It reports to the
/// owner if there is something to report. No model is called while the file holds only headings,
/// comments, and boxes that are empty or ticked.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct HeartbeatSection {
    /// Minutes between two runs. 0: it runs only on request.
    every_minutes: Within<0, MINUTES_MOST, 30>,
    /// Quiet hours, by the owner's clock ([agent] timezone): it does not run by itself and sends
    /// nothing. A result from the beginning of the quiet hours is sent at their end. "": no quiet
    /// hours.
    #[schemars(extend("default" = QuietHours::NIGHT.to_string().replace('–', "-")))]
    quiet: Option<At<Text<String>>>,
    /// The chat that gets the results: owner (where the owner last wrote in private), or
    /// CHANNEL:CHAT or CHANNEL:CHAT:THREAD.
    #[schemars(extend("default" = OWNER))]
    to: Option<At<String>>,
    /// The provider for its runs, by name. A cheaper model is enough. It need not be in [agent]
    /// providers. Default: the provider that answers.
    provider: Option<At<String>>,
    /// Model calls in one run.
    steps_max: Within<1, 100, 10>,
    /// Its daily token budget, read and written. When it is used up, the heartbeat pauses until
    /// midnight.
    tokens_per_day: Within<1, TOKENS_MOST, 200_000>,
}

impl HeartbeatSection {
    /// Its provider must be among `names`.
    pub(super) fn config(self, source: &ConfigSource<'_>, names: &[&str]) -> Config {
        let one = |name| source.one(name, "provider", names);
        let quiet = |text: &At<Text<String>>| {
            let wanted = "must be two times of the day, such as \"22:00-07:00\", or \"\" for none";
            let given = Some(&*text.value.0).filter(|text| !text.is_empty())?;
            given.parse().map_err(|()| source.refuse(text, wanted)).ok()
        };
        let address = |text: &At<String>| {
            let given = Some(&*text.value).filter(|text| *text != OWNER)?;
            let wanted = "must be owner or CHANNEL:CHAT";
            given.parse().map_err(|_: String| source.refuse(text, wanted)).ok()
        };
        Config {
            every: (self.every_minutes.0 > 0).then(|| self.every_minutes.minutes()),
            quiet: self.quiet.as_ref().map_or(Some(QuietHours::NIGHT), quiet),
            provider: self.provider.as_ref().and_then(one),
            to: self.to.as_ref().and_then(address),
            steps_max: self.steps_max.count(),
            tokens_max: self.tokens_per_day.0.into(),
        }
    }
}

/// Describes the section for a person who checks it before a start.
pub(super) fn describe(config: &Config) -> String {
    let Config { every, quiet, to, .. } = config;
    let Some(every) = every else { return "heartbeat\n  off\n".to_owned() };
    let minutes = every.as_secs() / 60;
    let quiet = quiet.map(|quiet| format!(", quiet {quiet}")).unwrap_or_default();
    let to = to.as_ref().map_or_else(|| OWNER.to_owned(), ToString::to_string);
    format!("heartbeat\n  every {minutes} min{quiet}, results to {to}\n")
}
