//! `/activation`: when the bot answers in a group.

use crate::bus::journal::WaitingMessage;
use crate::people::activation::set_activation;
use crate::people::{Access, Groups};
use crate::replies;
use crate::services::{Services, role_of};
use crate::store::StoreError;
use crate::turn::commits;
use crate::types::commands::CommandId;
use crate::types::message::ChatKind;

/// An order of `/activation`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ActivationCommand {
    Show,
    Set(Groups),
    Reset,
}

impl ActivationCommand {
    /// Parses the arguments of `/activation`: none, `mention`, `always` or `default`.
    pub(super) fn parse<'a>(mut words: impl Iterator<Item = &'a str>) -> Option<Self> {
        match words.next().map(str::to_ascii_lowercase).as_deref() {
            None => Some(Self::Show),
            Some("default") => Some(Self::Reset),
            Some("mention") => Some(Self::Set(Groups::Mention)),
            Some("always") => Some(Self::Set(Groups::Always)),
            Some(_) => None,
        }
    }
}

/// Answers `/activation`.
pub(super) async fn handle(
    services: &Services,
    control: &WaitingMessage,
    order: Option<ActivationCommand>,
) -> Result<(), StoreError> {
    let (bus, inbound) = (&services.bus, &control.inbound);
    let (channel, chat) = (inbound.from.channel.clone(), inbound.from.chat.clone());
    let configured = bus.people.access(&channel).map(|access| configured_groups(access, control));
    let configured = configured.unwrap_or_default();
    let current = bus.people.activations.find(&channel, inbound.config_ids()).unwrap_or(configured);
    let role = role_of(services, &inbound.from, control.sender()).await?;
    let reply = match order {
        _ if inbound.chat_kind == ChatKind::Private => replies::ACTIVATION_IN_GROUPS.to_owned(),
        None => replies::ACTIVATION_USAGE.to_owned(),
        Some(ActivationCommand::Show) => replies::activation_is(current.as_str()),
        Some(_) if !CommandId::Activation.spec().allows(role, inbound.chat_kind) => {
            replies::NOT_YOURS_TO_SET.to_owned()
        }
        Some(order) => {
            let groups = match order {
                ActivationCommand::Set(groups) => Some(groups),
                ActivationCommand::Reset | ActivationCommand::Show => None,
            };
            let (activations, reply) = (
                bus.people.activations.clone(),
                replies::activation_is(groups.unwrap_or(configured).as_str()),
            );
            return commits::apply_command(&bus.store, control, move |store| {
                set_activation(store, &channel, &chat, groups)?;
                activations.load(store)?;
                Ok(reply)
            })
            .await;
        }
    };
    commits::reply(&bus.store, control, reply).await
}

fn configured_groups(access: &Access, control: &WaitingMessage) -> Groups {
    access.chat_rule(control.inbound.config_ids()).unwrap_or(access.groups)
}
