//! Settings of a conversation: `/model`, `/think`, `/queue`. Commands change them in the store. A running
//! turn reads the store before each step, so nothing changes concurrently.

use super::scope::CommandScope;
use crate::bus::journal::WaitingMessage;
use crate::conversation::settings::{self, settings_at, settings_of};
use crate::conversation::transcript;
use crate::provider::models::Standing;
use crate::replies;
use crate::services::role_of;
use crate::store::StoreError;
use crate::turn::commits;
use crate::turn::personas::{PersonaListener, persona_for};
use crate::types::commands::CommandId;
use crate::types::message::ChatKind;
use crate::types::session::{Effort, QueueMode, Settings};

/// A requested setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SettingRequest {
    /// Lists the models.
    Models,
    /// The name of a config section or of a model.
    Model(String),
    DefaultModel,
    Effort(Effort),
    ShowThinking(bool),
    /// None restores the config's value.
    Queue(Option<QueueMode>),
    /// Shows the current value and the possible ones.
    Think,
    Queues,
}

impl SettingRequest {
    /// Returns the command of this request.
    fn command(&self) -> CommandId {
        match self {
            Self::Models | Self::Model(_) | Self::DefaultModel => CommandId::Model,
            Self::Think | Self::Effort(_) | Self::ShowThinking(_) => CommandId::Think,
            Self::Queues | Self::Queue(_) => CommandId::Queue,
        }
    }

    pub(crate) fn of_model<'a>(mut words: impl Iterator<Item = &'a str>) -> Self {
        match words.next() {
            None => Self::Models,
            Some(word) if word.eq_ignore_ascii_case("default") => Self::DefaultModel,
            Some(name) => Self::Model(name.to_owned()),
        }
    }

    pub(crate) fn of_thinking<'a>(mut words: impl Iterator<Item = &'a str>) -> Self {
        match words.next().unwrap_or_default().to_ascii_lowercase().as_str() {
            "show" => Self::ShowThinking(true),
            "hide" => Self::ShowThinking(false),
            word => Effort::parse(word).map_or(Self::Think, Self::Effort),
        }
    }

    pub(crate) fn of_queue<'a>(mut words: impl Iterator<Item = &'a str>) -> Self {
        match words.next().unwrap_or_default() {
            word if word.eq_ignore_ascii_case("default") => Self::Queue(None),
            word => QueueMode::parse(word).map_or(Self::Queues, |mode| Self::Queue(Some(mode))),
        }
    }
}

/// Changes a setting, or shows it.
pub(super) async fn handle(
    scope: &CommandScope<'_>,
    control: &WaitingMessage,
    request: SettingRequest,
) -> Result<(), StoreError> {
    let turns = scope.turns;
    let (store, inbound) = (&turns.services.bus.store, &control.inbound);
    let role = role_of(&turns.services, &inbound.from, control.sender()).await?;
    let (at, chat_kind) = (inbound.from.clone(), inbound.chat_kind);
    let is_question =
        matches!(request, SettingRequest::Models | SettingRequest::Think | SettingRequest::Queues);
    if !is_question && !request.command().spec().allows(role, chat_kind) {
        let reply = match chat_kind {
            ChatKind::Private => replies::NOT_FOR_GUESTS,
            ChatKind::Group => replies::NOT_YOURS_TO_SET,
        };
        return commits::reply(store, control, reply.to_owned()).await;
    }
    let (models, queue) = (turns.models.all.clone(), scope.config.queue);
    if is_question {
        return commits::apply_command(store, control, move |store| {
            let current = settings_at(store, &at)?;
            Ok(match request {
                SettingRequest::Models => {
                    let shown = models.all().iter().map(|model| replies::ModelShown {
                        name: &model.name,
                        shown: model.provider.name(),
                        chosen: current.model.as_ref() == Some(&model.name),
                        is_default: model.standing == Standing::Default,
                    });
                    replies::models(&shown.collect::<Vec<_>>())
                }
                SettingRequest::Think => {
                    replies::thinking_is(current.effort.as_str(), current.show_thinking)
                }
                _ => replies::queue_is(current.queue.unwrap_or(queue).as_str()),
            })
        })
        .await;
    }
    let who = PersonaListener { known_on: &at.channel, sender: control.sender(), role };
    let persona = persona_for(&turns.services, &turns.config.personas, &at, who).await?.persona;
    let is_offered = |name: &str| persona.provider(Some(name)) == Some(name);
    let change: SettingChange = match request {
        SettingRequest::Model(asked) => match models.find(&asked) {
            Some(model) if !is_offered(&model.name) => {
                let reply = replies::model_of_other_persona(&persona.providers);
                return commits::reply(store, control, reply).await;
            }
            None => {
                return commits::reply(store, control, replies::unknown_model(&asked)).await;
            }
            Some(model) => {
                let (name, reply) = (model.name.clone(), replies::model_is(model.provider.name()));
                (Box::new(|settings| settings.model = Some(name)), reply)
            }
        },
        SettingRequest::DefaultModel | SettingRequest::Models => {
            let reply = replies::model_is(turns.models.default.name());
            (Box::new(|settings| settings.model = None), reply)
        }
        SettingRequest::Effort(effort) => {
            (Box::new(move |it| it.effort = effort), replies::effort_is(effort.as_str()))
        }
        SettingRequest::ShowThinking(show) => {
            (Box::new(move |it| it.show_thinking = show), replies::thinking_shown(show).to_owned())
        }
        SettingRequest::Queue(mode) => {
            let reply = replies::queue_is(mode.unwrap_or(queue).as_str());
            (Box::new(move |it| it.queue = mode), reply)
        }
        SettingRequest::Think | SettingRequest::Queues => (Box::new(|_| ()), String::new()),
    };
    commits::apply_command(store, control, move |store| {
        let (change, reply) = change;
        let session = transcript::open_or_begin(store, &at, chat_kind)?;
        let mut settings = settings_of(store, session)?;
        change(&mut settings);
        settings::set(store, session, &settings)?;
        Ok(reply)
    })
    .await
}

/// A change of the settings, and the reply.
type SettingChange = (Box<dyn FnOnce(&mut Settings) + Send>, String);
