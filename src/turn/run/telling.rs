//! Calls that would tell others what a person said in private.

use rusqlite::Connection;

use crate::conversation::sessions;
use crate::people::Role;
use crate::people::persons::PersonAccount;
use crate::tools::{Reach, ToolContext};
use crate::trust::telling;
use crate::turn::error::TurnError;
use crate::turn::run::active::ActiveTurn;
use crate::types::message::Address;

impl ActiveTurn<'_> {
    /// Returns the reach of a call here. A message to another chat tells nobody what was said in private if the person
    /// has asked for just that message, or is the one who reads it. The tool refuses it for people who may not send any.
    pub(super) async fn reach_here(
        &self,
        reach: &Reach,
        cx: &ToolContext,
    ) -> Result<Reach, TurnError> {
        let reach = reach.clone().within(cx.chat_kind);
        let Reach::Tell(message) = &reach else { return Ok(reach) };
        let is_theirs = cx.role < Role::Admin
            || telling::is_agreed(&self.session, message, self.part.is_attended)
            || self.is_read_by_asker(&message.to).await?;
        Ok(if is_theirs { Reach::Outside } else { reach })
    }

    async fn is_read_by_asker(&self, to: &Address) -> Result<bool, TurnError> {
        let people = self.turns.services.bus.people.clone();
        let asker = PersonAccount {
            channel: self.session.origin.channel().clone(),
            sender: self.asker.sender.id.clone(),
        };
        let to = to.clone();
        let look = move |store: &Connection| {
            let Some(reader) = sessions::private_speaker(store, &to)? else { return Ok(false) };
            let reader = PersonAccount { channel: to.channel, sender: reader.id };
            people.are_same(store, &asker, &reader)
        };
        Ok(self.turns.services.bus.store.read(look).await?)
    }
}
