//! `[hooks.NAME]`: commands of the operator's that are run when something happens.

use std::collections::BTreeMap;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::config::reading::NamedSection;
use crate::hooks::Hook;
use crate::types::event;

use super::hints::none_of;
use super::reading::{ConfigSource, Section};
use super::values::{At, Text, Within};

/// Maximum time of a hook, in seconds. A longer one would delay others.
const SECONDS_MOST: u32 = 600;

/// The variables that a hook gets.
const VARIABLES: [&str; 4] = ["PATH", "HOME", "LANG", "TZ"];

/// Your own commands that run on events, with the event as a line of JSON on standard input. They
/// run outside the sandbox, with the daemon's rights, two at a time. You choose the name.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("required" = ["on", "command"]))]
pub(super) struct HookSection {
    /// The events: turn_start step_start step_end thinking_start thinking thinking_end text
    /// tool_start tool_end sources memory_updated no_tool_call steered compacted error turn_end
    /// delivered delivery_late delivery_failed missed.
    on: Option<At<Vec<Text<EventName>>>>,
    /// The program and its arguments. It gets PATH, HOME, LANG and TZ. Its output is discarded.
    command: Option<At<Vec<String>>>,
    /// If true, the hook also gets what other persons than the owner say in private, with the
    /// answers, the calls and the sources. If false, these events come without texts.
    private_texts: bool,
    /// The maximum duration in seconds. Then the command is killed, with all processes that it has
    /// started.
    timeout_s: Within<1, SECONDS_MOST, 10>,
}

struct EventName(&'static str);

impl FromStr for EventName {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let name = event::NAMES.iter().find(|name| **name == word);
        name.map(|name| Self(name)).ok_or_else(|| none_of(word, event::NAMES))
    }
}

pub(super) fn hooks(
    source: &ConfigSource<'_>,
    sections: BTreeMap<String, HookSection>,
) -> BTreeMap<String, Hook> {
    let sections = source.named("hooks", sections).into_iter();
    sections
        .filter_map(|NamedSection { name, place, read: section }| {
            Some((name, section.hook(&place)?))
        })
        .collect()
}

impl HookSection {
    fn hook(self, place: &Section<'_, '_>) -> Option<Hook> {
        let source = place.source;
        let on = place.require(self.on, "on", "a list of events, such as [\"turn_end\"]");
        let wanted = "the program with its arguments, as a list";
        let command = place.require(self.command, "command", wanted);
        let (on, command) = (on?, command?);
        if on.value.is_empty() {
            source.refuse(&on, "is empty; name at least one event");
        }
        if command.value.is_empty() {
            source.refuse(&command, "is empty; the first is the program");
        }
        Some(Hook {
            on: on.value.into_iter().map(|name| name.0.0).collect(),
            command: command.value,
            private_texts: self.private_texts,
            time_max: self.timeout_s.seconds(),
            environment: source.env.inherited(VARIABLES),
            refused: None,
        })
    }
}
