//! Commands that a call would have a job run later: refused now where they would be refused then.

use crate::people::Role;
use crate::replies;
use crate::store::StoreError;
use crate::tasks::schedule::{self, CommandFor, JobScope};
use crate::tools::Effect;
use crate::turn::services::TurnServices;

/// Why the commands that a call would have run later would not be run for who speaks, in the place where they
/// count; none if they would. That they may be wanted at all was decided before.
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
                job.await?.map(|job| job.brief.chat_kind)
            }
        };
        let Some(chat_kind) = chat_kind else { continue };
        let may = commands.may(role, chat_kind).map(drop);
        let may = may.and_then(|()| order.needs().map_or(Ok(()), |it| commands.may_need(it)));
        if let Err(why) = may {
            return Ok(Some(replies::no_command(&why)));
        }
    }
    Ok(None)
}
