//! Registers our commands, which Discord lists under `/`, if they differ from the registered ones: Discord
//! allows no more than 200 new ones a day.

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
    pub(super) async fn register_commands(&self) -> Result<(), ChannelError> {
        let found = self.api.get::<Application>(Endpoint::CurrentApplication, &[]).await;
        let found = found.map_err(DiscordCallError::while_asking)?;
        let application = number(&found.id).map_err(ChannelError::Refused)?;
        let application = id::ApplicationId::new(application);
        let registered =
            self.api.get::<Vec<RegisteredCommand>>(Endpoint::Commands(application), &[]).await;
        let registered = registered.map_err(DiscordCallError::while_asking)?;
        let is_registered =
            |wanted: &ListedCommand| registered.iter().any(|command| is_same(command, *wanted));
        let listed: Vec<ListedCommand> = commands::menu().collect();
        if registered.len() == listed.len() && listed.iter().all(is_registered) {
            return Ok(());
        }
        let wanted: Vec<Value> = listed
            .iter()
            .map(|(spec, about)| {
                let options = options(spec);
                json!({ "type": 1, "name": spec.name, "description": about, "options": options })
            })
            .collect();
        let result = self.api.send::<Value>(Endpoint::SetCommands(application), &wanted).await;
        result.map(drop).map_err(DiscordCallError::while_asking)
    }
}

/// A command with its description.
type ListedCommand = (&'static CommandSpec, &'static str);

/// Returns the option of a command that takes arguments.
fn options(command: &CommandSpec) -> Vec<Value> {
    let (name, about) = replies::COMMAND_WORDS;
    let option = json!({ "type": 3, "name": name, "description": about, "required": false });
    if command.arguments.is_empty() { Vec::new() } else { vec![option] }
}

fn is_same(registered: &RegisteredCommand, wanted: ListedCommand) -> bool {
    let (spec, about) = wanted;
    (registered.name.as_str(), registered.description.as_str()) == (spec.name, about)
        && registered.options.len() == options(spec).len()
        && matches!(registered.kind, None | Some(1))
}
