//! `[heartbeat]`: when a model looks after HEARTBEAT.md, what that may cost, and whom it tells.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::tasks::heartbeat::{Config, Quiet};

use super::reading::Source;
use super::values::{At, Text, Within};

/// A day; what is wanted less often is a job.
const MINUTES_MOST: u32 = 24 * 60;

/// More than anybody wants to pay for.
const TOKENS_MOST: u32 = 1_000_000_000;

/// Where the owner last spoke in private.
const OWNER: &str = "owner";

/// Now and then a model looks after what HEARTBEAT.md in the workspace asks for, and tells the owner
/// what they would want to know. No model is called while that file holds nothing but headings,
/// comments, and boxes that are empty or ticked.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct HeartbeatSection {
    /// Minutes from one look to the next. 0: only when somebody asks for it.
    every_minutes: Within<0, MINUTES_MOST, 30>,
    /// The hours in which it neither looks by itself nor tells, by the owner's clock ([agent]
    /// timezone). It tells at their end what it found at their beginning. "": it looks at night, too.
    #[schemars(extend("default" = "22:00-07:00"))]
    quiet: Option<At<Text<String>>>,
    /// The chat that it tells: owner (where the owner last spoke in private), or CHANNEL:CHAT or
    /// CHANNEL:CHAT:THREAD.
    #[schemars(extend("default" = OWNER))]
    to: Option<At<String>>,
    /// The provider that works, by name; a cheaper model will do. [agent] providers may leave it
    /// out. Default: the provider that answers.
    provider: Option<At<String>>,
    /// Completions of one look.
    steps_max: Within<1, 100, 10>,
    /// Tokens of a day, read and written. When they are used up, it rests until midnight.
    tokens_per_day: Within<1, TOKENS_MOST, 200_000>,
}

impl HeartbeatSection {
    /// Its provider must be among `names`.
    pub(super) fn config(self, source: &Source<'_>, names: &[&str]) -> Config {
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
            quiet: self.quiet.as_ref().map_or(Some(Quiet::NIGHT), quiet),
            provider: self.provider.as_ref().and_then(one),
            to: self.to.as_ref().and_then(address),
            steps_max: self.steps_max.count(),
            tokens_max: self.tokens_per_day.0.into(),
        }
    }
}

/// A line for a person who checks.
pub(super) fn describe(config: &Config) -> String {
    let Config { every, quiet, to, .. } = config;
    let Some(every) = every else { return "heartbeat\n  off\n".to_owned() };
    let minutes = every.as_secs() / 60;
    let quiet = quiet.map(|quiet| format!(", quiet {quiet}")).unwrap_or_default();
    let to = to.as_ref().map_or_else(|| OWNER.to_owned(), ToString::to_string);
    format!("heartbeat\n  every {minutes} min{quiet}, results to {to}\n")
}
