//! Registers our commands, which Discord lists under `/`. Only if they differ from the registered ones:
//! Discord allows no more than 200 new ones a day.

use serde::Deserialize;
use serde_json::{Value, json};
use serenity::model::id;

use super::Discord;
use super::call::DiscordCallError;
use super::endpoints::Endpoint;
use super::ids::number;
use super::wire::{RegisteredCommand, Snowflake};
use crate::channels::ChannelError;
use crate::replies;
use crate::types::commands::{self, CommandSpec};

/// The bot's application. An old bot's application has another id than the bot.
#[derive(Deserialize)]
struct Application {
    id: Snowflake,
}

impl Discord {
    pub(super) async fn tell_commands(&self) -> Result<(), ChannelError> {
        let ours = self.api.get::<Application>(Endpoint::CurrentApplication, &[]).await;
        let ours = ours.map_err(DiscordCallError::while_asking)?;
        let application = number(&ours.id).map_err(ChannelError::Refused)?;
        let application = id::ApplicationId::new(application);
        let known =
            self.api.get::<Vec<RegisteredCommand>>(Endpoint::Commands(application), &[]).await;
        let known = known.map_err(DiscordCallError::while_asking)?;
        let is_known = |wanted: &ListedCommand| known.iter().any(|known| is_same(known, *wanted));
        let listed: Vec<ListedCommand> = commands::menu().collect();
        if known.len() == listed.len() && listed.iter().all(is_known) {
            return Ok(());
        }
        let wanted: Vec<Value> = listed
            .iter()
            .map(|(spec, about)| {
                let options = options(spec);
                json!({ "type": 1, "name": spec.name, "description": about, "options": options })
            })
            .collect();
        let told = self.api.send::<Value>(Endpoint::SetCommands(application), &wanted).await;
        told.map(drop).map_err(DiscordCallError::while_asking)
    }
}

/// A command with its description.
type ListedCommand = (&'static CommandSpec, &'static str);

/// Returns a command's one option, if it takes arguments.
fn options(command: &CommandSpec) -> Vec<Value> {
    let (name, about) = replies::COMMAND_WORDS;
    let words = json!({ "type": 3, "name": name, "description": about, "required": false });
    if command.arguments.is_empty() { Vec::new() } else { vec![words] }
}

fn is_same(known: &RegisteredCommand, wanted: ListedCommand) -> bool {
    let (spec, about) = wanted;
    (known.name.as_str(), known.description.as_str()) == (spec.name, about)
        && known.options.len() == options(spec).len()
        && matches!(known.kind, None | Some(1))
}
