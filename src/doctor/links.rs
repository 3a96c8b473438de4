//! Asks each model for a word, and each platform who the bot is. Receives and confirms no message.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::timeout;

use super::Finding;
use crate::channels::{Channel, ChannelError, ChannelProbe};
use crate::provider::models::{Model, Standing};
use crate::provider::{Models, ProviderError, probe_model};
use crate::replies;
use crate::types::message::ChannelName;

/// A model on a small board is loaded for about a minute before its first word.
const MODEL_TIME_MAX: Duration = Duration::from_secs(90);

/// Two or three calls of a platform, each with a deadline of its own.
const CHANNEL_TIME_MAX: Duration = Duration::from_secs(45);

/// Asks each model for a word, all at the same time.
pub async fn check_models(models: &Models) -> Vec<Finding> {
    join_all(models.all().iter().map(check_model)).await
}

async fn check_model(model: &Model) -> Finding {
    let check = format!("model {}", model.name);
    if model.provider.name() == crate::provider::rehearsal::NAME {
        let words = "there is no model: rehearsal answers by fixed rules";
        let advice = "run `peacrab init`, or write a [providers.NAME] section";
        return Finding::warning(check, words).advise(advice);
    }
    match probe_model(&*model.provider, MODEL_TIME_MAX).await {
        Ok(took) => {
            let seconds = took.as_secs_f32();
            Finding::ok(check, format!("{} answers in {seconds:.1} s", model.provider.name()))
        }
        Err(error) => {
            let words = format!("{} does not answer: {error}", model.provider.name());
            let found = match model.standing {
                Standing::Default => Finding::wrong(check, words),
                Standing::Chosen => Finding::warning(check, words),
            };
            found.advise(advice_for(&error, &model.name))
        }
    }
}

/// Returns what to do about a model that does not answer.
fn advice_for(error: &ProviderError, name: &str) -> String {
    match error {
        ProviderError::Busy { .. } | ProviderError::Stalled(_) => {
            format!(
                "check the network and that the server of [providers.{name}] runs; if it does, wait and try again"
            )
        }
        ProviderError::Broken(_) => {
            format!("check that base_url of [providers.{name}] is the address of a model's API")
        }
        ProviderError::TooLong => {
            format!(
                "the context window of [providers.{name}] is too small for one sentence: correct `context`"
            )
        }
        // The question is asked beside all budgets.
        ProviderError::OverBudget(_) => "wait, or raise the budget with /budget".to_owned(),
        ProviderError::NoCredit(_) => {
            format!(
                "pay for the account whose api_key [providers.{name}] has; nothing else is wrong"
            )
        }
        ProviderError::NoTools(_) => {
            format!(
                "write `tools = \"text\"` into [providers.{name}], so that tools are described to it in words, and run \
                 `peacrab reload`"
            )
        }
        ProviderError::Unauthorized(_) | ProviderError::Refused(_) => {
            format!(
                "correct api_key, model and base_url of [providers.{name}], and run `peacrab reload`; the base_url of Ollama, \
                 llama.cpp and most others ends in /v1"
            )
        }
    }
}

/// Asks each platform who the bot is, all at the same time.
pub async fn check_channels(channels: &[(ChannelName, Arc<dyn Channel>)]) -> Vec<Finding> {
    let checks = channels.iter().map(|(name, channel)| async move {
        let check = format!("channel {name}");
        match timeout(CHANNEL_TIME_MAX, channel.probe()).await {
            Ok(probed) => probe_finding(&check, probed),
            Err(_) => Finding::wrong(check, "the platform does not answer").advise(CHECK_NETWORK),
        }
    });
    join_all(checks).await
}

const CHECK_NETWORK: &str =
    "check the network, the machine's DNS, and `api_url` if the config has one";

/// Describes the answer of a platform.
pub fn probe_finding(check: &str, probed: Result<ChannelProbe, ChannelError>) -> Finding {
    match probed {
        Ok(ChannelProbe { name, faults, .. }) if faults.is_empty() => {
            Finding::ok(check, format!("the token is valid, the bot is {name}"))
        }
        Ok(ChannelProbe { name, faults, .. }) => {
            Finding::wrong(check, format!("the bot is {name}, but {}", faults.join("; ")))
        }
        // Its words say what to do.
        Err(error @ ChannelError::Closed(_)) => Finding::wrong(check, error.to_string()),
        Err(error @ ChannelError::Refused(_)) => Finding::wrong(check, error.to_string()).advise(
            "check that the token is this bot's, and what the bot may do at its platform; the words are the platform's own",
        ),
        Err(ChannelError::Unavailable { after: Some(_), reason }) => Finding::wrong(check, reason)
            .advise("wait a few minutes, and run `peacrab doctor` again"),
        Err(error) => Finding::wrong(check, error.to_string()).advise(CHECK_NETWORK),
    }
}

/// The state of a link of the running daemon.
#[derive(Clone, Debug)]
pub struct LinkReport {
    pub up: bool,
    pub about: String,
    pub last_byte_s: Option<i64>,
    pub trouble: Option<String>,
    /// The number of deliveries that fail, and the reason.
    pub failing: Option<(i64, String)>,
}

/// Silence after which a link that is up is worth a warning. Every platform says something within a minute.
const SILENCE_MAX_S: i64 = 180;

/// Describes a link of the running daemon.
pub fn link_finding(name: &str, link: &LinkReport) -> Finding {
    let check = format!("channel {name}");
    if let Some(trouble) = &link.trouble {
        return Finding::wrong(check, format!("down: {trouble}"))
            .advise(format!("do what the reason says; if it names no remedy, {CHECK_NETWORK}"));
    }
    if !link.up {
        let advice = "wait a moment and try again; if it stays so, look at the log";
        return Finding::warning(check, "connecting").advise(advice);
    }
    if let Some((count, reason)) = &link.failing {
        let advice = "read the reason; `peacrab status` shows when it began";
        let words = format!("up, {}, but deliveries fail ({count}): {reason}", link.about);
        return Finding::wrong(check, words).advise(advice);
    }
    match link.last_byte_s {
        Some(seconds) if seconds > SILENCE_MAX_S => {
            let words = format!("up, {}, but last heard {seconds} s ago", link.about);
            Finding::warning(check, words).advise(CHECK_NETWORK)
        }
        _ => Finding::ok(check, format!("up, {}", link.about)),
    }
}

/// Describes a channel that the running daemon does not have, and on which messages wait for delivery.
pub fn removed_finding(name: &str, waiting: i64) -> Finding {
    Finding::warning(format!("channel {name}"), replies::channel_is_removed(waiting)).advise(
        "put its section back into the config and run `peacrab reload`; they are kept until then, and sent",
    )
}

/// Describes an MCP server of the running daemon.
pub fn server_finding(name: &str, up: bool, tools: usize, trouble: Option<&str>) -> Finding {
    let check = format!("MCP server {name}");
    match (trouble, up) {
        (Some(trouble), _) => Finding::wrong(check, format!("down: {trouble}")).advise(
            "correct its section in the config and run `peacrab reload`, or start it: it is tried again by itself",
        ),
        (None, true) => Finding::ok(check, format!("up, {tools} tools")),
        (None, false) => Finding::warning(check, "starting")
            .advise("wait a minute and try again: what has not started by then is named as down"),
    }
}

/// Describes a section of the config from which no link can be made.
pub fn unusable_finding(check: &str, error: &anyhow::Error) -> Finding {
    Finding::wrong(check, format!("it cannot be set up: {error:#}"))
        .advise("correct its section in the config; `peacrab check` reads the file again")
}
