//! `/skill NAME …`: a message that the model is shown with the body of a skill before it. Text of others invokes none.

use crate::bus::journal::WaitingMessage;
use crate::replies;
use crate::services::Services;
use crate::store::StoreError;
use crate::turn::commits;
use crate::turn::prompt::{InvokedSkills, SkillInvocation};
use crate::types::commands::{self, CommandId};
use crate::workspace::skills;

/// Returns the skills that these messages invoke. None if the only message invokes an unusable skill; it is then
/// closed with an explanation.
pub(crate) async fn invoked(
    services: &Services,
    rows: &[WaitingMessage],
) -> Result<Option<InvokedSkills>, StoreError> {
    let mut invoked = InvokedSkills::new();
    for row in rows.iter().filter(|row| row.inbound.body.is_own_text()) {
        let Some((name, said)) = parse_invocation(&row.inbound.body.text) else { continue };
        let (name, text) = match read_skill(services, name.clone()).await {
            Ok(body) => {
                let text =
                    format!("[The skill {name}:]\n{body}\n[End of the skill. Use it for this:]");
                (Some(name), text)
            }
            Err(reason) if rows.len() == 1 => {
                commits::decline_message(&services.bus.store, row, reason).await?;
                return Ok(None);
            }
            Err(reason) => (None, format!("[They asked for a skill in vain; tell them: {reason}]")),
        };
        invoked.insert(row.id, SkillInvocation { name, told: text, said });
    }
    Ok(Some(invoked))
}

/// Parses `/skill NAME TEXT` into the name and the text. None for other messages.
fn parse_invocation(text: &str) -> Option<(String, String)> {
    let (command, rest) = text.trim().split_once(char::is_whitespace).unwrap_or((text.trim(), ""));
    if commands::find(command)?.id != CommandId::Skill {
        return None;
    }
    let rest = rest.trim();
    let (name, said) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    Some((name.to_owned(), said.trim().to_owned()))
}

/// Returns the body of a skill. The error explains to the person why it cannot be used.
async fn read_skill(services: &Services, name: String) -> Result<String, String> {
    if name.is_empty() {
        return Err(replies::SKILL_USAGE.to_owned());
    }
    let read = move |workspace: &_| {
        let catalogue = skills::catalogue(workspace);
        let skill = catalogue.find(&name).filter(|skill| skill.for_people);
        let skill = skill.ok_or_else(|| replies::no_skill(&name))?;
        match &skill.missing {
            Some(missing) => Err(replies::skill_unusable(&skill.name, missing)),
            None => skills::body(workspace, skill)
                .map_err(|error| replies::skill_unusable(&skill.name, &error)),
        }
    };
    services.workspace.run_blocking(read).await
}
