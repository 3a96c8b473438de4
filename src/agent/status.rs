//! `/status`: how things are here, and with the daemon.

use std::fs;

use chrono::{Duration, Utc};

use crate::agent::command::CommandScope;
use crate::bus::journal::Waiting;
use crate::conversation::model_waits;
use crate::conversation::settings::settings_at;
use crate::conversation::transcript;
use crate::people::Role;
use crate::replies;
use crate::sandbox::CageState;
use crate::services::role_of;
use crate::store::StoreError;
use crate::tools::Caller;
use crate::trust::acts::tool_role;
use crate::turn::instructions::{PromptSize, prompt_size};
use crate::types::message::Place;
use crate::types::session::{Effort, QueueMode};
use crate::workspace::skills::catalogue;

/// What the kernel tells of this process.
const PROCESS: &str = "/proc/self/status";

pub(super) async fn status(
    scope: &CommandScope<'_>,
    control: &Waiting,
) -> Result<String, StoreError> {
    let CommandScope { turns, config, busy, running } = *scope;
    let services = &turns.services;
    let (at, place) = (control.inbound.from.clone(), control.inbound.place);
    let role = role_of(services, &at, control.sender()).await?;
    // What a program has said in its distress is for those who can mend it.
    let lent = turns.tools.lent();
    let lenders = lent.lenders.iter().map(|lender| {
        let trouble = lender.trouble.as_deref().filter(|_| role >= Role::Admin);
        replies::lender(&lender.name, lender.up, lender.tools, trouble)
    });
    let lenders = lenders.collect();
    let month_ago = Utc::now() - Duration::days(30);
    let here = at.clone();
    let look = move |store: &_| {
        let used = transcript::used_since(store, month_ago)?;
        Ok((used, settings_at(store, &here)?, model_waits::waiting(store)?))
    };
    let (used, settings, awaiting) = services.bus.store.read(look).await?;
    let awaiting = awaiting.map(|it| {
        let since = it.since.with_timezone(&services.zone).format("%Y-%m-%d %H:%M");
        (it.turns, since.to_string())
    });
    let provider = turns.models.for_settings(&settings);
    let (size, described) = prompt_size(turns, &at, role, place).await?;
    let caller = Caller::Conversation(turns.config.finish);
    let offered = turns.tools.offered(caller, tool_role(role, place)).len();
    let shell = (config.shell != CageState::Off).then(|| config.shell.words());
    let heart = match (role, place) {
        (Role::Owner, Place::Private) => Some(turns.heartbeat.words().await?),
        _ => None,
    };
    let skills = services.workspace.off_thread(|it| catalogue(it).for_model().count()).await;
    let (tokens, is_counted) = match size {
        PromptSize::Counted(tokens) => (tokens, true),
        PromptSize::Estimated(tokens) => (tokens, false),
    };
    let words = replies::status(&replies::StatusShown {
        context: (tokens, provider.room()),
        is_counted,
        provider: provider.name(),
        effort: (settings.effort != Effort::Default).then_some(settings.effort.as_str()),
        queue: settings.queue.map(QueueMode::as_str),
        busy_here: busy,
        turns: running,
        awaiting,
        tools: (offered, described),
        skills,
        lenders,
        tokens: (used.input, used.output),
        uptime: (Utc::now() - config.since).to_std().unwrap_or_default(),
        memory: resident(),
        last_error: turns.last_error.get().filter(|_| role >= Role::Admin),
    });
    Ok([Some(words), shell, heart].into_iter().flatten().collect::<Vec<_>>().join("\n"))
}

/// The resident memory of this process, in bytes.
fn resident() -> Option<u64> {
    let told = fs::read_to_string(PROCESS).ok()?;
    let line = told.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}
