//! The beginning of a prompt, which all requests of a turn share: the system prompt and the tools for a speaker, within
//! their shares of the model's context window; and the size of prompts.

use std::fmt::Write as _;
use std::fs;

use crate::conversation::shares::{self, ContextShares};
use crate::conversation::{ledger, tokens};
use crate::memory::{self, audience};
use crate::people::Role;
use crate::provider::{ASK_QUESTION, ToolSchema};
use crate::services::{Services, load};
use crate::store::StoreError;
use crate::tools::memory::{NOTE, REMEMBER};
use crate::tools::more::MORE_TOOLS;
use crate::tools::skill::ReadSkill;
use crate::tools::{Caller, Tool as _, ToolUser};
use crate::trust::acts::tool_role;
use crate::turn::background as tasks;
use crate::turn::frozen::{frozen_key, recalls, remembered};
use crate::turn::personas::ChosenPersona;
use crate::turn::prompt::{self, ConversationSetting, InstructionTexts};
use crate::turn::services::TurnServices;
use crate::types::message::{Address, ChatKind};
use crate::types::persona::Persona;
use crate::types::session::{Finish, FrozenContext, Session};
use crate::workspace::snapshot::{FILE_CHARS_MAX, cut_middle};
use crate::workspace::{Audience, FileScope, Workspace, skills as catalogue};

/// Context window for the prompt of a guest with a budget, in tokens, without the newest exchanges.
const BRIEF_WINDOW: u64 = 700;

/// The kernel's file with the host name.
const HOST_NAME: &str = "/proc/sys/kernel/hostname";

/// The beginning of a turn's requests.
pub(crate) struct PromptBase {
    pub(crate) system: Vec<String>,
    /// The numbers of the facts in it. The model is asked which of them its answers use.
    pub(crate) facts: Vec<i64>,
    pub(crate) tools: Vec<ToolSchema>,
    /// The estimated tokens of the tools.
    pub(crate) tools_tokens: u64,
    /// The context window for which it was made, in tokens.
    pub(crate) context_window: u64,
}

/// The person for whom a prompt is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Speaker<'a> {
    pub(crate) name: &'a str,
    pub(crate) role: Role,
}

/// Returns the beginning of a session's prompts for its model, as `speaker` may see it.
pub(crate) async fn base(
    turns: &TurnServices,
    session: &Session,
    speaker: Speaker<'_>,
    caller: Caller,
) -> PromptBase {
    let role = speaker.role;
    let context_window = context_window(turns, session, role);
    let (tools, tools_tokens) = tools(turns, session, role, caller, context_window);
    let shares = ContextShares::new(context_window, tools_tokens);
    let SystemPrompt { parts: system, facts } =
        system(turns, session, speaker, &shares, context_window).await;
    PromptBase { system, facts, tools, tools_tokens, context_window }
}

/// Returns the context window for which a prompt is made: the model's, or a small one for a guest with a budget.
fn context_window(turns: &TurnServices, session: &Session, role: Role) -> u64 {
    let context_window = turns.models.for_session(session).context_window();
    match turns.spending.has_short_prompt(role) {
        true => context_window.min(BRIEF_WINDOW),
        false => context_window,
    }
}

/// Returns the shares of the context window for a session.
pub(crate) fn shares(
    turns: &TurnServices,
    session: &Session,
    role: Role,
    caller: Caller,
) -> ContextShares {
    let context_window = context_window(turns, session, role);
    ContextShares::new(context_window, tools(turns, session, role, caller, context_window).1)
}

fn tools(
    turns: &TurnServices,
    session: &Session,
    role: Role,
    caller: Caller,
    context_window: u64,
) -> (Vec<ToolSchema>, u64) {
    let user =
        ToolUser { role: tool_role(role, session.chat_kind), allowed: &session.persona.tools };
    let (mut tools, mut tokens) =
        turns.tools.offered_within(caller, user, shares::tools_max(context_window));
    // A short prompt has no space for the question tool. Without a memory, there is nothing to add to.
    let is_excluded = |name: &str| match name {
        ASK_QUESTION => turns.spending.has_short_prompt(role),
        REMEMBER | NOTE => recalls(session, role).is_none(),
        _ => false,
    };
    if tools.iter().any(|tool| is_excluded(&tool.name)) {
        tools.retain(|tool| !is_excluded(&tool.name));
        tokens = tools.iter().map(ToolSchema::tokens).sum();
    }
    (tools, tokens)
}

/// The parts of a system prompt, and the facts in it.
struct SystemPrompt {
    parts: Vec<String>,
    facts: Vec<i64>,
}

/// Returns the system prompt of a session, as `speaker` may see it.
async fn system(
    turns: &TurnServices,
    session: &Session,
    Speaker { name, role }: Speaker<'_>,
    shares: &ContextShares,
    context_window: u64,
) -> SystemPrompt {
    let (audience, recalls) = (audience(role, session.chat_kind), recalls(session, role));
    let persona = persona_text(&turns.services, &session.persona).await;
    if let Some(task) = session.origin.task() {
        let files = match recalls {
            Some(FileScope::Owner) => Audience::Owner,
            Some(FileScope::Person { .. } | FileScope::Group { .. }) | None => Audience::Others,
        };
        let kind = tasks::behaviour_of(task.kind);
        let files = kind.instruction_files(files);
        let rules = [task_instructions(&turns.services, files).await, persona].join("\n\n");
        let rules = memory::fit(&rules, shares.instructions, "your instructions");
        let parts = prompt::task_system(kind.identity(), &rules);
        return SystemPrompt { parts, facts: Vec::new() };
    }
    let provider = turns.models.for_session(session);
    let is_compact = shares::is_compact(context_window);
    let mut instructions = instructions(&turns.services, recalls.as_ref(), is_compact).await;
    if !persona.is_empty() {
        instructions.rules.push_str("\n\n");
        instructions.rules.push_str(&persona);
    }
    let frozen = match (&recalls, &session.frozen) {
        (Some(scope), Some(frozen)) if frozen.of == frozen_key(scope) => frozen.clone(),
        // The session was compacted since its turn began, or its memory is that of another role: a former owner must
        // not see the owner's memory.
        (Some(scope), _) => remembered(&turns.services, None, Some(scope), shares).await.0,
        // The facts of a group are for all its members.
        (None, frozen) => FrozenContext {
            facts: frozen.as_ref().and_then(|frozen| frozen.facts.clone()),
            ..FrozenContext::default()
        },
    };
    instructions.fit(match audience {
        Audience::Owner => {
            let (memory, notes) = (tokens::tokens(&frozen.memory), tokens::tokens(&frozen.notes));
            shares.instructions_beside(memory, notes)
        }
        // The turns of others are kept cheap.
        Audience::Others => shares.instructions,
    });
    let about = match audience {
        Audience::Owner => {
            let host = fs::read_to_string(HOST_NAME).unwrap_or_default();
            let workspace = turns.services.workspace.root().display().to_string();
            prompt::about(host.trim(), &workspace, provider.name())
        }
        Audience::Others => String::new(),
    };
    let with = match session.chat_kind {
        ChatKind::Private => prompt::with(name, role, session.origin.channel()),
        ChatKind::Group => String::new(),
    };
    let finish = turns.finish_of(session);
    let setting = ConversationSetting { about, with, is_compact };
    let parts = prompt::system(&instructions, &frozen, finish, &setting);
    // A short prompt has no space for the question, and an answer by a call has no end to mark.
    let asks_for_facts = finish == Finish::Answer && !is_compact;
    let facts = frozen.facts.filter(|_| asks_for_facts).map(|facts| facts.ids).unwrap_or_default();
    SystemPrompt { parts, facts }
}

/// Returns the instructions and the skills for the person whose memory is `recalls`.
async fn instructions(
    services: &Services,
    recalls: Option<&FileScope>,
    is_compact: bool,
) -> InstructionTexts {
    let recalls = recalls.cloned();
    services
        .workspace
        .run_blocking(move |workspace| {
            let mut instructions = InstructionTexts::default();
            let audience = match &recalls {
                Some(FileScope::Owner) => Audience::Owner,
                Some(scope) => {
                    instructions.user = memory::user_text(workspace, scope);
                    Audience::Others
                }
                None => Audience::Others,
            };
            let files = workspace.instruction_files();
            for file in files.files_for(audience) {
                let part = if file.name == "USER.md" {
                    &mut instructions.user
                } else {
                    &mut instructions.rules
                };
                if !part.is_empty() {
                    part.push_str("\n\n");
                }
                part.push_str(file.text.trim());
            }
            for skill in catalogue::catalogue(workspace).for_model() {
                let (name, description) = (&skill.name, &skill.description);
                let place = match &skill.place {
                    catalogue::SkillPlace::Workspace(path) => path.as_str(),
                    catalogue::SkillPlace::Home(_) | catalogue::SkillPlace::Shipped(_) => {
                        ReadSkill::SPEC.name
                    }
                };
                let _ = match &skill.always {
                    None if is_compact => writeln!(instructions.skills, "- {name} ({place})"),
                    Some(body) => writeln!(instructions.always, "# Skill {name}\n{body}\n"),
                    None => writeln!(instructions.skills, "- {name} ({place}): {description}"),
                };
            }
            instructions
        })
        .await
}

/// Returns the text of a persona from the owner's workspace. Empty if it has none.
async fn persona_text(services: &Services, persona: &Persona) -> String {
    let Some(name) = persona.name else { return String::new() };
    let read = move |workspace: &Workspace| {
        let path = format!("personas/{name}.md").parse().ok()?;
        workspace.instruction(&path).ok().flatten()
    };
    let text = services.workspace.run_blocking(read).await.unwrap_or_default();
    cut_middle(text.trim(), FILE_CHARS_MAX, "the persona's words")
}

/// Returns the texts of these instruction files, for a background task.
async fn task_instructions(services: &Services, names: &'static [&'static str]) -> String {
    let read = |workspace: &Workspace| {
        let instructions = workspace.instruction_files();
        let shown =
            instructions.files_for(Audience::Owner).filter(|file| names.contains(&file.name));
        shown.map(|file| file.text.trim()).collect::<Vec<_>>().join("\n\n")
    };
    services.workspace.run_blocking(read).await
}

/// The number of tokens in a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PromptSize {
    /// The provider counted the last one.
    Counted(u64),
    /// An estimate, because no provider has counted one.
    Estimated(u64),
}

/// Returns the size of the prompts at an address for a person, and the number of tools that they describe. The
/// size is the provider's count of the last prompt, if nothing was compacted since.
pub(crate) async fn prompt_size(
    turns: &TurnServices,
    at: &Address,
    speaker: Speaker<'_>,
    chat_kind: ChatKind,
    chosen: ChosenPersona,
) -> Result<(PromptSize, usize), StoreError> {
    let session = load(&turns.services, at).await?;
    let mut session = session.unwrap_or_else(|| Session::new(at, chat_kind));
    chosen.enter(&mut session);
    let id = session.id;
    let query = move |store: &_| ledger::last_prompt_tokens(store, id);
    let counted = turns.services.bus.store.read(query).await?;
    let caller = Caller::Conversation(turns.finish_of(&session));
    let base = base(turns, &session, speaker, caller).await;
    let described = base.tools.iter().filter(|tool| tool.name != MORE_TOOLS).count();
    if let Some(counted) = counted {
        return Ok((PromptSize::Counted(counted), described));
    }
    let sees = turns.models.for_session(&session).sees();
    let conversation_tokens =
        tokens::conversation_tokens(session.summary.as_deref(), &session.turns, sees);
    let base_tokens = tokens::fixed_tokens(&base.system, None) + base.tools_tokens;
    Ok((PromptSize::Estimated(base_tokens + conversation_tokens), described))
}

/// Returns the size of the beginning of the owner's prompts, in tokens of about four characters.
pub async fn prompt_tokens(turns: &TurnServices) -> usize {
    let nowhere = Address { channel: "".into(), chat: "".into(), thread: None };
    let session = Session::new(&nowhere, ChatKind::Private);
    let caller = Caller::Conversation(turns.config.finish);
    let speaker = Speaker { name: "", role: Role::Owner };
    let base = base(turns, &session, speaker, caller).await;
    let system: usize = base.system.iter().map(String::len).sum();
    let tools = base.tools.iter();
    let tools: usize = tools
        .map(|tool| tool.name.len() + tool.description.len() + tool.parameters.to_string().len())
        .sum();
    (system + tools).div_ceil(4)
}
