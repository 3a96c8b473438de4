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
pub(super) fn parse<'a>(mut words: impl Iterator<Item = &'a str>) -> Option<HeartbeatRequest> {
    match words.next().map(str::to_ascii_lowercase).as_deref() {
        None => Some(HeartbeatRequest::Show),
        Some("now") => Some(HeartbeatRequest::Now),
        Some("on") => Some(HeartbeatRequest::On),
        Some("off") => Some(HeartbeatRequest::Off),
        Some(_) => None,
    }
}

/// Answers `/heartbeat`, for the owner in private alone: the results of heartbeat runs are the owner's.
pub(super) async fn handle(
    turns: &TurnServices,
    control: &WaitingMessage,
    request: Option<HeartbeatRequest>,
) -> Result<(), StoreError> {
    let role = role_of(&turns.services, &control.inbound.from, control.sender()).await?;
    let reply = match request {
        _ if !CommandId::Heartbeat.spec().allows(role, control.inbound.chat_kind) => {
            replies::OWNER_ONLY
        }
        None => replies::HEARTBEAT_USAGE,
        Some(request) => {
            let change = turns.heartbeat.prepare_request(request).await?;
            commits::apply_command(&turns.services.bus.store, control, change).await?;
            turns.heartbeat.wake_after(request);
            return Ok(());
        }
    };
    commits::reply(&turns.services.bus.store, control, reply.to_owned()).await
}
