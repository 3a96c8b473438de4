//! `/persona`: which persona counts here for who asks, and why.

use crate::bus::journal::WaitingMessage;
use crate::replies::{self, PersonaShown};
use crate::services::role_of;
use crate::store::StoreError;
use crate::tools::{Caller, ToolUser};
use crate::trust::acts::tool_role;
use crate::turn::personas::{ChosenPersona, persona_for};
use crate::turn::services::TurnServices;

/// Answers `/persona`.
pub(super) async fn words(
    turns: &TurnServices,
    control: &WaitingMessage,
) -> Result<String, StoreError> {
    let (services, inbound) = (&turns.services, &control.inbound);
    let at = &inbound.from;
    let role = role_of(services, at, control.sender()).await?;
    let who = (&at.channel, control.sender(), role);
    let chosen = persona_for(services, &turns.config.personas, at, who).await?;
    let ChosenPersona { persona, reason, quiet, .. } = chosen;
    let finish = persona.finish.unwrap_or(turns.config.finish);
    let user = ToolUser { role: tool_role(role, inbound.place), allowed: &persona.tools };
    let offered = turns.tools.offered(Caller::Conversation(finish), user);
    Ok(replies::persona(&PersonaShown {
        name: persona.name.map(|name| name.to_string()),
        reason: reason.as_str(),
        tools: offered.into_iter().map(|tool| tool.name).collect(),
        models: persona.providers.clone(),
        tokens_max: persona.tokens_max,
        memory: persona.memory.as_str(),
        quiet: quiet.map(|quiet| quiet.to_string()),
    }))
}
