//! The bot's own texts that come back: quoted, or on a button of one of its proposals. They are as trusted as the
//! content that its model had seen when it wrote them. Texts of unknown origin are untrusted.

use rusqlite::Connection;

use crate::bus::journal::WaitingMessage;
use crate::bus::outbox::{self, AskedQuestion};
use crate::conversation::{proposals, quoted_texts};
use crate::memory::audience;
use crate::people::{People, Role};
use crate::services::Services;
use crate::store::StoreError;
use crate::trust::taint::{self, SourceReader};
use crate::types::commands::is_control;
use crate::types::message::{ChatKind, Press};
use crate::types::source::{Source, SourceSpan};

/// Returns messages with the sources of those parts that the bot wrote, as they count for a person with this role.
pub(crate) async fn with_sources(
    services: &Services,
    rows: &[WaitingMessage],
    role: Role,
) -> Result<Vec<WaitingMessage>, StoreError> {
    let mut rows = rows.to_vec();
    let is_of_bot = |row: &WaitingMessage| {
        let body = &row.inbound.body;
        body.press.is_some() || body.quoted.as_ref().is_some_and(|quote| quote.by_bot)
    };
    if !rows.iter().any(is_of_bot) {
        return Ok(rows);
    }
    let people = services.bus.people.clone();
    let query = move |store: &Connection| {
        for row in rows.iter_mut().filter(|row| is_of_bot(row)) {
            let chat_kind = row.inbound.chat_kind;
            QuoteReader { store, people: &people, role, chat_kind }.mark(row)?;
        }
        Ok(rows)
    };
    services.bus.store.read(query).await
}

/// The person to whom the bot's own words come back.
struct QuoteReader<'a> {
    store: &'a Connection,
    people: &'a People,
    role: Role,
    chat_kind: ChatKind,
}

impl QuoteReader<'_> {
    fn mark(&self, row: &mut WaitingMessage) -> rusqlite::Result<()> {
        let body = &mut row.inbound.body;
        let is_tainted = match (&body.press, &body.quoted) {
            (Some(press), _) => {
                let is_tainted = self.is_tainted_button(*press, &body.text)?;
                if is_tainted {
                    let source = Source::Proposal { by: None, read_others: true };
                    body.sources = vec![SourceSpan(source, body.text.len())];
                }
                is_tainted
            }
            (None, Some(quote)) => {
                let found =
                    quoted_texts::sources_of_text(self.store, &row.inbound.from, &quote.text)?;
                found.is_empty() || self.distrusts(found.iter().flatten())?
            }
            (None, None) => false,
        };
        if let Some(quote) = &mut body.quoted {
            quote.by_others |= is_tainted;
        }
        Ok(())
    }

    /// Returns true if the author of a button had been shown what the reader must not trust, or is not known. `text` is
    /// what the button says.
    fn is_tainted_button(&self, press: Press, text: &str) -> rusqlite::Result<bool> {
        let Some(AskedQuestion { question, .. }) = outbox::question(self.store, press.delivery)?
        else {
            return Ok(true);
        };
        let mut sources = match question.proposal {
            Some(id) => proposals::sources_of(self.store, id)?,
            None => Vec::new(),
        };
        match question.written_in {
            Some(turn) => sources.extend(quoted_texts::sources_of_turn(self.store, turn)?),
            None if question.proposal.is_some() => {}
            // A former version did not store who wrote the other choices.
            None => return Ok(!is_control(text)),
        }
        self.distrusts(sources.iter())
    }

    /// Returns true if one of these sources is untrusted, or of a person with a lower role than the reader.
    fn distrusts<'s>(&self, sources: impl Iterator<Item = &'s Source>) -> rusqlite::Result<bool> {
        let Self { store, people, role, chat_kind } = *self;
        let sources: Vec<_> = sources.collect();
        let authors = sources.iter().filter_map(|source| source.author()).collect();
        let lower = taint::with_lower_role(store, people, authors, role, chat_kind)?;
        let reader = SourceReader { audience: audience(role, chat_kind), chat_kind, lower };
        Ok(sources.into_iter().any(|source| reader.distrusts(source)))
    }
}
