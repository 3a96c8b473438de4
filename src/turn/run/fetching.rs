//! Finds out if a model may fetch a URL without approval. `trust::links` decides; this module collects for it the other
//! turns that work on the same request: the one that delegated the task of a subagent, and those of its subagents.

use rusqlite::Connection;

use crate::conversation::transcript;
use crate::tasks::subagents::{self, SubagentId};
use crate::trust::links::{self, RequestTurns, TurnAndReader};
use crate::trust::taint::{ReadingPerson, SourceReader};
use crate::turn::error::TurnError;
use crate::turn::run::active::ActiveTurn;
use crate::types::origin::{Origin, TaskId, TaskKind};
use crate::types::session::{Session, TurnId};
use crate::types::source::Author;

/// A turn as it is stored, with its conversation.
struct StoredTurn {
    turn: TurnId,
    session: Session,
}

/// The turns that work on the request of a turn, except for that turn.
struct OtherTurns {
    /// The turn that was begun first. None if it was deleted.
    first: Option<TurnId>,
    stored: Vec<StoredTurn>,
}

impl OtherTurns {
    fn read(store: &Connection, origin: &Origin, turn: TurnId) -> rusqlite::Result<Self> {
        let first = match origin.task() {
            Some(TaskId { kind: TaskKind::Subagent, number }) => {
                subagents::delegating_turn(store, SubagentId(number))?
            }
            Some(_) | None => Some(turn),
        };
        let Some(first_turn) = first else { return Ok(Self { first, stored: Vec::new() }) };
        let mut turns = subagents::delegated_turns(store, first_turn)?;
        turns.push(first_turn);
        let mut stored = Vec::new();
        for other in turns.into_iter().filter(|other| *other != turn) {
            let session = transcript::session_of_turn(store, other)?;
            stored.extend(session.map(|session| StoredTurn { turn: other, session }));
        }
        Ok(Self { first, stored })
    }
}

impl ActiveTurn<'_> {
    /// Returns true if the model may fetch a URL without approval. `reader` is the person of the turn.
    pub(super) async fn may_fetch(
        &self,
        url: &str,
        reader: &SourceReader,
    ) -> Result<bool, TurnError> {
        let (origin, turn) = (self.session.origin.clone(), self.turn);
        let query = move |store: &Connection| OtherTurns::read(store, &origin, turn);
        let OtherTurns { first, stored } = self.turns.services.bus.store.read(query).await?;
        let mut readers = Vec::new();
        for other in &stored {
            readers.push(self.reader_of(&other.session).await?);
        }
        let own = TurnAndReader { turn, session: &self.session, reader };
        let others = stored.iter().zip(&readers);
        let others: Vec<_> = others
            .map(|(StoredTurn { turn, session }, reader)| TurnAndReader {
                turn: *turn,
                session,
                reader,
            })
            .collect();
        // Of a turn that was compacted away, nobody knows what it has followed.
        let is_first = |it: &&TurnAndReader<'_>| {
            Some(it.turn) == first && it.session.turns.iter().any(|turn| turn.id == it.turn)
        };
        let first = others.iter().chain([&own]).find(is_first).copied();
        Ok(links::may_be_fetched(
            &RequestTurns { own, first, others },
            url,
            self.limits.is_attended,
        ))
    }

    /// Returns the person of this turn as the reader of another conversation.
    async fn reader_of(&self, session: &Session) -> Result<SourceReader, TurnError> {
        let bus = &self.turns.services.bus;
        let channel = self.session.origin.channel().clone();
        let account = Some(Author { channel, id: self.requester.sender.id.clone() });
        let (role, chat_kind) = (self.requester.role, session.chat_kind);
        let person = ReadingPerson { account, role, chat_kind };
        Ok(SourceReader::of(&bus.store, &bus.people, person, &session.sources()).await?)
    }
}
