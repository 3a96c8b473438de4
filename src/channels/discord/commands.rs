//! Our commands, as Discord lists them under `/`. They are told to it only when it does not have them
//! so: it allows no more than 200 new ones a day.

use serde::Deserialize;
use serde_json::{Value, json};
use serenity::model::id;

use super::call::CallError;
use super::endpoints::Endpoint;
use super::wire::{Command, Snowflake};
use super::{Discord, number};
use crate::channels::ChannelError;
use crate::replies;

/// An old bot's application has another id than the bot.
#[derive(Deserialize)]
struct Application {
    id: Snowflake,
}

impl Discord {
    pub(super) async fn tell_commands(&self) -> Result<(), ChannelError> {
        let ours = self.api.get::<Application>(Endpoint::CurrentApplication, &[]).await;
        let ours = ours.map_err(CallError::while_asking)?;
        let application = number(&ours.id).map_err(ChannelError::Refused)?;
        let application = id::ApplicationId::new(application);
        let known = self.api.get::<Vec<Command>>(Endpoint::Commands(application), &[]).await;
        let known = known.map_err(CallError::while_asking)?;
        let is_known = |wanted: &(&str, &str)| known.iter().any(|known| is_same(known, wanted));
        if known.len() == replies::COMMANDS.len() && replies::COMMANDS.iter().all(is_known) {
            return Ok(());
        }
        let wanted: Vec<Value> = replies::COMMANDS
            .iter()
            .map(|(name, about)| {
                json!({ "type": 1, "name": name, "description": about, "options": options(name) })
            })
            .collect();
        let told = self.api.send::<Value>(Endpoint::SetCommands(application), &wanted).await;
        told.map(drop).map_err(CallError::while_asking)
    }
}

/// A command's one option, if it has words.
fn options(command: &str) -> Vec<Value> {
    let (name, about) = replies::COMMAND_WORDS;
    let words = json!({ "type": 3, "name": name, "description": about, "required": false });
    if replies::COMMANDS_WITH_WORDS.contains(&command) { vec![words] } else { Vec::new() }
}

fn is_same(known: &Command, (name, about): &(&str, &str)) -> bool {
    (known.name.as_str(), known.description.as_str()) == (*name, *about)
        && known.options.len() == options(name).len()
        && matches!(known.kind, None | Some(1))
}
