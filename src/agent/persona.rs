//! `/persona`: the persona that the bot has here for the person who asks, and why.

use crate::bus::journal::WaitingMessage;
use crate::people::Role;
use crate::replies::{self, PersonaShown};
use crate::services::role_of;
use crate::store::StoreError;
use crate::tools::{Caller, ToolUser};
use crate::trust::acts::tool_role;
use crate::turn::personas::{ChosenPersona, PersonaListener, persona_for};
use crate::turn::services::TurnServices;
use crate::types::message::ChatKind;
use crate::types::persona::Persona;

/// Returns the text of `/persona`.
pub(super) async fn describe(
    turns: &TurnServices,
    control: &WaitingMessage,
) -> Result<String, StoreError> {
    let (services, inbound) = (&turns.services, &control.inbound);
    let at = &inbound.from;
    let role = role_of(services, at, control.sender()).await?;
    let who = PersonaListener { known_on: &at.channel, sender: control.sender(), role };
    let chosen = persona_for(services, &turns.config.personas, at, who).await?;
    let tools = tool_names(turns, &chosen.persona, role, inbound.chat_kind);
    let ChosenPersona { persona, reason, quiet, .. } = chosen;
    Ok(replies::persona(&PersonaShown {
        name: persona.name.map(|name| name.to_string()),
        reason: reason.as_str(),
        tools,
        models: persona.providers.clone(),
        tokens_max: persona.tokens_max,
        memory: persona.memory.as_str(),
        quiet: quiet.map(|quiet| quiet.to_string()),
    }))
}

/// Returns the names of the tools that the sender of a command can use in its chat.
pub(super) async fn tools(
    turns: &TurnServices,
    control: &WaitingMessage,
    role: Role,
) -> Result<Vec<String>, StoreError> {
    let inbound = &control.inbound;
    let known_on = &inbound.from.channel;
    let who = PersonaListener { known_on, sender: control.sender(), role };
    let (services, personas) = (&turns.services, &turns.config.personas);
    let chosen = persona_for(services, personas, &inbound.from, who).await?;
    Ok(tool_names(turns, &chosen.persona, role, inbound.chat_kind))
}

fn tool_names(
    turns: &TurnServices,
    persona: &Persona,
    role: Role,
    chat_kind: ChatKind,
) -> Vec<String> {
    let finish = persona.finish.unwrap_or(turns.config.finish);
    let user = ToolUser { role: tool_role(role, chat_kind), allowed: &persona.tools };
    let offered = turns.tools.offered(Caller::Conversation(finish), user);
    offered.into_iter().map(|tool| tool.name).collect()
}
