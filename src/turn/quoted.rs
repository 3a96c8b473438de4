//! The bot's own texts that come back: quoted, or on a button of one of its proposals. They are as trusted as the
//! content that its model had seen when it wrote them. Texts of unknown origin are untrusted.

use rusqlite::Connection;

use crate::bus::journal::WaitingMessage;
use crate::bus::outbox::{self, AskedQuestion};
use crate::conversation::{proposals, said};
use crate::memory::audience;
use crate::people::Role;
use crate::services::Services;
use crate::store::StoreError;
use crate::trust::taint;
use crate::types::commands::is_control;
use crate::types::message::Press;
use crate::types::source::{Source, SourceSpan};
use crate::workspace::Audience;

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
    let query = move |store: &Connection| {
        for row in rows.iter_mut().filter(|row| is_of_bot(row)) {
            mark(store, row, role)?;
        }
        Ok(rows)
    };
    services.bus.store.read(query).await
}

fn mark(store: &Connection, row: &mut WaitingMessage, role: Role) -> rusqlite::Result<()> {
    let audience = audience(role, row.inbound.chat_kind);
    let body = &mut row.inbound.body;
    let is_tainted = match (&body.press, &body.quoted) {
        (Some(press), _) => {
            let is_tainted = is_tainted_button(store, *press, &body.text, audience)?;
            if is_tainted {
                let source = Source::Proposal { read_others: true };
                body.sources = vec![SourceSpan(source, body.text.len())];
            }
            is_tainted
        }
        (None, Some(quote)) => {
            let found = said::sources_of_said(store, &row.inbound.from, &quote.text)?;
            let is_clean = |sources: &Vec<Source>| {
                !sources.iter().any(|source| taint::is_untrusted(source, audience))
            };
            found.is_empty() || !found.iter().all(is_clean)
        }
        (None, None) => false,
    };
    if let Some(quote) = &mut body.quoted {
        quote.by_others |= is_tainted;
    }
    Ok(())
}

/// Returns true if the author of a button had read untrusted content, or is not known. `text` is what the button says.
fn is_tainted_button(
    store: &Connection,
    press: Press,
    text: &str,
    audience: Audience,
) -> rusqlite::Result<bool> {
    let Some(AskedQuestion { question, .. }) = outbox::question(store, press.delivery)? else {
        return Ok(true);
    };
    let sources = match (question.proposal, question.written_in) {
        (Some(id), _) => proposals::sources_of(store, id)?,
        (None, Some(turn)) => said::sources_of_author(store, turn)?,
        // A former version did not store who wrote the other choices.
        (None, None) => return Ok(!is_control(text)),
    };
    Ok(sources.iter().any(|source| taint::is_untrusted(source, audience)))
}
