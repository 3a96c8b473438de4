//! Checks shell commands that a call schedules for a job: a command that would be refused later is refused now.

use crate::people::Role;
use crate::replies;
use crate::store::StoreError;
use crate::tasks::schedule::{self, CommandFor, JobScope};
use crate::tools::Effect;
use crate::turn::services::TurnServices;

/// Returns why the scheduled commands of a call would be refused later for this role, in the chat of their job.
/// None if they would run. The permission of the call itself was decided before.
pub(crate) async fn refused_commands(
    turns: &TurnServices,
    role: Role,
    effects: &[Effect],
) -> Result<Option<String>, StoreError> {
    let Some(commands) = &turns.config.commands else { return Ok(None) };
    for effect in effects {
        let Effect::Schedule { order, .. } = effect else { continue };
        let chat_kind = match order.command_for() {
            None => continue,
            Some(CommandFor::New(chat_kind)) => Some(chat_kind),
            Some(CommandFor::Job(id)) => {
                let job = turns
                    .services
                    .bus
                    .store
                    .read(move |store| schedule::get(store, id, &JobScope::All));
                job.await?.map(|job| job.definition.chat_kind)
            }
        };
        let Some(chat_kind) = chat_kind else { continue };
        let permission = commands.permitted_audience(role, chat_kind).map(drop);
        let permission =
            permission.and_then(|()| order.needs().map_or(Ok(()), |it| commands.check_needs(it)));
        if let Err(why) = permission {
            return Ok(Some(replies::no_command(&why)));
        }
    }
    Ok(None)
}
