//! `/heartbeat`: its state, on, off, and now.

use crate::bus::journal::WaitingMessage;
use crate::replies;
use crate::services::role_of;
use crate::store::StoreError;
use crate::tasks::heartbeat::HeartbeatRequest;
use crate::turn::commits;
use crate::turn::services::TurnServices;
use crate::types::commands::CommandId;

/// Parses the arguments of `/heartbeat`. None if they are invalid.
pub(super) fn read<'a>(mut words: impl Iterator<Item = &'a str>) -> Option<HeartbeatRequest> {
    match words.next().map(str::to_ascii_lowercase).as_deref() {
        None => Some(HeartbeatRequest::Show),
        Some("now") => Some(HeartbeatRequest::Now),
        Some("on") => Some(HeartbeatRequest::On),
        Some("off") => Some(HeartbeatRequest::Off),
        Some(_) => None,
    }
}

/// Carries it out for the owner in private: its results are theirs.
pub(super) async fn handle(
    turns: &TurnServices,
    control: &WaitingMessage,
    wish: Option<HeartbeatRequest>,
) -> Result<(), StoreError> {
    let role = role_of(&turns.services, &control.inbound.from, control.sender()).await?;
    let words = match wish {
        _ if !CommandId::Heartbeat.spec().allows(role, control.inbound.chat_kind) => {
            replies::OWNER_ONLY
        }
        None => replies::HEARTBEAT_USAGE,
        Some(wish) => {
            let order = turns.heartbeat.order(wish).await?;
            commits::handled_with(&turns.services.bus.store, control, order).await?;
            turns.heartbeat.ordered(wish);
            return Ok(());
        }
    };
    commits::handled(&turns.services.bus.store, control, words.to_owned()).await
}
