//! What of the prompt comes from the workspace, as somebody may see it, and how large the prompt is.

use std::fmt::Write as _;

use crate::conversation::tokens;
use crate::people::Role;
use crate::services::{Services, load};
use crate::store::StoreError;
use crate::tools::skill::ReadSkill;
use crate::tools::{Caller, Tool as _};
use crate::turn::prompt::{self, House};
use crate::turn::services::TurnServices;
use crate::types::message::Address;
use crate::workspace::{Audience, Workspace, skills as catalogue};

/// The rules of the house and the skills, as `audience` may see them.
pub(crate) async fn house(services: &Services, audience: Audience) -> House {
    services
        .workspace
        .off_thread(move |workspace| {
            let mut house = House::default();
            let files = workspace.house();
            for file in files.files_for(audience) {
                let part = if file.name == "USER.md" { &mut house.user } else { &mut house.rules };
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
                    Some(body) => writeln!(house.always, "# Skill {name}\n{body}\n"),
                    None => writeln!(house.skills, "- {name} ({place}): {description}"),
                };
            }
            house
        })
        .await
}

/// The files of the house that a background task is shown, of these.
pub(crate) async fn rules(services: &Services, names: &'static [&'static str]) -> String {
    let read = |workspace: &Workspace| {
        let house = workspace.house();
        let shown = house.files_for(Audience::Owner).filter(|file| names.contains(&file.name));
        shown.map(|file| file.text.trim()).collect::<Vec<_>>().join("\n\n")
    };
    services.workspace.off_thread(read).await
}

/// About how many tokens the next prompt at an address will have.
pub(crate) async fn context_used(
    turns: &TurnServices,
    at: &Address,
    sees: bool,
) -> Result<u64, StoreError> {
    let session = load(&turns.services, at).await?;
    let said = session
        .map_or(0, |session| tokens::said_tokens(session.summary.as_deref(), &session.turns, sees));
    Ok(said + prompt_tokens(turns).await as u64)
}

/// How large the fixed part of the owner's prompt is, in tokens of about four characters.
pub async fn prompt_tokens(turns: &TurnServices) -> usize {
    let house = house(&turns.services, Audience::Owner).await;
    let system: usize = prompt::system(&house, &Default::default(), turns.config.finish)
        .iter()
        .map(String::len)
        .sum();
    let tools = turns.tools.offered(Caller::Conversation(turns.config.finish), Role::Owner);
    let tools: usize = tools
        .iter()
        .map(|tool| tool.name.len() + tool.description.len() + tool.parameters.to_string().len())
        .sum();
    (system + tools).div_ceil(4)
}
