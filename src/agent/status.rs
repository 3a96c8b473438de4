//! `/status`: the state of the conversation and of the daemon.

use std::fs;

use chrono::{Duration, Utc};

use crate::agent::scope::CommandScope;
use crate::bus::journal::WaitingMessage;
use crate::conversation::ledger::breakdown::usage_since;
use crate::conversation::model_waits;
use crate::conversation::settings::settings_at;
use crate::people::Role;
use crate::replies;
use crate::sandbox::SandboxState;
use crate::services::role_of;
use crate::store::StoreError;
use crate::tools::{Caller, ToolUser};
use crate::trust::acts::tool_role;
use crate::turn::instructions::{PromptSize, Speaker, prompt_size};
use crate::turn::personas::{PersonaListener, persona_for};
use crate::types::message::ChatKind;
use crate::types::origin::Origin;
use crate::types::session::{Effort, QueueMode};
use crate::workspace::skills::catalogue;

/// The kernel's status file of this process.
const PROCESS: &str = "/proc/self/status";

/// Returns the text of `/status`.
pub(super) async fn status(
    scope: &CommandScope<'_>,
    control: &WaitingMessage,
) -> Result<String, StoreError> {
    let CommandScope { turns, config, busy, running, .. } = *scope;
    let services = &turns.services;
    let (at, chat_kind) = (control.inbound.from.clone(), control.inbound.chat_kind);
    let role = role_of(services, &at, control.sender()).await?;
    // Error outputs of MCP servers are shown only to people who can repair them.
    let mcp_tools = turns.tools.mcp_tools();
    let mcp_servers = mcp_tools.mcp_servers.iter().map(|mcp_server| {
        let trouble = mcp_server.trouble.as_deref().filter(|_| role >= Role::Admin);
        replies::mcp_server(&mcp_server.name, mcp_server.up, mcp_server.tools, trouble)
    });
    let mcp_servers = mcp_servers.collect();
    let month_ago = Utc::now() - Duration::days(30);
    let here = at.clone();
    let query = move |store: &_| {
        let used = usage_since(store, month_ago)?.usage;
        Ok((used, settings_at(store, &here)?, model_waits::waiting(store)?))
    };
    let (used, settings, awaiting) = services.bus.store.read(query).await?;
    let awaiting = awaiting.map(|it| {
        let since = it.since.with_timezone(&services.zone).format("%Y-%m-%d %H:%M");
        (it.turns, since.to_string())
    });
    let who = PersonaListener { known_on: &at.channel, sender: control.sender(), role };
    let chosen = persona_for(services, &turns.config.personas, &at, who).await?;
    let provider = turns.models.for_origin(&Origin::Chat(at.clone()), &settings, &chosen.persona);
    let speaker = Speaker { name: &control.sender().name, role };
    let (size, described) = prompt_size(turns, &at, speaker, chat_kind, chosen.clone()).await?;
    let caller = Caller::Conversation(chosen.persona.finish.unwrap_or(turns.config.finish));
    let user = ToolUser { role: tool_role(role, chat_kind), allowed: &chosen.persona.tools };
    let offered = turns.tools.offered(caller, user).len();
    let shell = (config.shell != SandboxState::Off).then(|| config.shell.describe());
    let heartbeat = match (role, chat_kind) {
        (Role::Owner, ChatKind::Private) => Some(turns.heartbeat.describe().await?),
        _ => None,
    };
    let skills = services.workspace.run_blocking(|it| catalogue(it).for_model().count()).await;
    let (tokens, is_counted) = match size {
        PromptSize::Counted(tokens) => (tokens, true),
        PromptSize::Estimated(tokens) => (tokens, false),
    };
    let text = replies::status(&replies::StatusShown {
        context: (tokens, provider.context_window()),
        is_counted,
        provider: provider.name(),
        effort: (settings.effort != Effort::Default).then_some(settings.effort.as_str()),
        queue: settings.queue.map(QueueMode::as_str),
        busy_here: busy,
        turns: running,
        awaiting,
        tools: (offered, described),
        skills,
        mcp_servers,
        tokens: (used.input, used.output),
        uptime: (Utc::now() - config.since).to_std().unwrap_or_default(),
        memory: resident(),
        tools_dropped: turns.tools_shown.are_dropped(provider.name()),
        last_error: turns.last_error.get().filter(|_| role >= Role::Admin),
        safe_mode: config
            .safe_mode
            .filter(|_| role >= Role::Admin)
            .map(|safe_mode| replies::safe_mode(safe_mode, config.restart.is_some())),
    });
    Ok([Some(text), shell, heartbeat].into_iter().flatten().collect::<Vec<_>>().join("\n"))
}

/// Returns the resident memory of this process, in bytes. None if the kernel does not report it.
fn resident() -> Option<u64> {
    let status = fs::read_to_string(PROCESS).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}
