//! The outcome of `peacrab init --yes --json`, for a script. Not here: the steps that lead to it.

use serde::Serialize;

use super::super::invocation::warnings;
use super::super::service::ServiceChoice;
use super::channel::TestedBot;
use super::model::first_model;
use super::pairing::nobody_yet;
use super::setup::Setup;
use crate::config;
use crate::people;
use crate::store;

/// The results of the steps.
pub(super) struct FinishedSteps {
    /// None without a platform.
    pub(super) bot: Option<TestedBot>,
    /// The service that was installed. [`ServiceChoice::None`] if there was none to install.
    pub(super) service: ServiceChoice,
    /// The words about the service, or about how the daemon starts without one.
    pub(super) next: String,
}

/// The state of the home after a setup: the JSON of `peacrab init`.
#[derive(Serialize)]
pub(super) struct InitOutcome {
    /// The folder with all data.
    home: String,
    /// The config file. None if there is none, because nothing was set up.
    config: Option<String>,
    /// The section of the model that answers first. None if only rehearsal answers.
    provider: Option<String>,
    /// The name of that model, as its provider writes it.
    model: Option<String>,
    /// The section of the platform. None without one.
    channel: Option<String>,
    /// The bot's name on the platform.
    bot: Option<String>,
    /// The address at which a chat with the bot begins, or that lets it in, if the platform has one.
    link: Option<String>,
    owner: OwnerState,
    /// The way to become the owner, while that is pending.
    pairing: Option<String>,
    /// The service that was installed: `user`, `system` or `none`.
    service: &'static str,
    /// The sentences about the service, or about how the daemon starts without one.
    next: String,
    /// Faults that did not end the setup, and settings that work, but perhaps not as meant.
    warnings: Vec<String>,
}

/// The state of the owner after the setup.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum OwnerState {
    /// The config names one, or somebody was paired.
    Paired,
    /// Nobody yet: the platform waits for the first person with a code.
    Pending,
    /// Nobody, as there is no platform.
    None,
}

impl InitOutcome {
    /// Describes what is set up after the steps.
    pub(super) fn read(setup: &Setup<'_>, done: FinishedSteps) -> anyhow::Result<Self> {
        let FinishedSteps { bot, service, next } = done;
        let on = setup.on;
        let file = config::file(&on.home, on.config.as_deref());
        let config = setup.edit.load(&on.environment)?;
        let model = first_model(setup, &config);
        let paired = store::try_read(&on.home, people::paired).unwrap_or_default();
        let owner = match (&bot, config.has_owner(&paired)) {
            (_, true) => OwnerState::Paired,
            (Some(_), false) => OwnerState::Pending,
            (None, false) => OwnerState::None,
        };
        let pairing = (owner == OwnerState::Pending).then(|| nobody_yet(&on.program()));
        let own = warnings(&config, &on.home);
        let own = own.into_iter().map(|warning| on.name_commands(&warning));
        Ok(Self {
            home: on.home.display().to_string(),
            config: file.exists().then(|| file.display().to_string()),
            provider: model.map(str::to_owned),
            model: model.and_then(|name| Some(config.providers.get(name)?.model.clone())),
            channel: bot.as_ref().map(|bot| bot.channel.to_string()),
            bot: bot.as_ref().map(|bot| bot.probe.name.clone()),
            link: bot.and_then(|bot| bot.probe.link),
            owner,
            pairing: pairing.map(|words| words.trim_end().to_owned()),
            service: service.word(),
            next,
            warnings: setup.warnings.iter().cloned().chain(own).collect(),
        })
    }
}
