//! Compaction of a private conversation that has untrusted parts: a summary of the trusted ones, which its model goes on
//! with, and a summary of all of them, which a call shows.

use std::mem;

use crate::conversation::asks::OnUntrusted;
use crate::conversation::transcript::{self, Summaries, WholeSummary};
use crate::memory::audience;
use crate::provider::{Provider, ProviderError, Usage};
use crate::services::role_on;
use crate::store::StoreError;
use crate::trust::{clean, taint};
use crate::turn::compaction::{CompactionJob, run};
use crate::turn::services::TurnServices;
use crate::types::message::{ChatKind, Sender};
use crate::types::session::Session;
use crate::types::source::{self, Source};
use crate::workspace::Audience;

impl CompactionJob {
    /// The sources of all that it compacts. Of those that count alike, one stands for all.
    pub(crate) fn sources(&self) -> Vec<Source> {
        let mut sources = self.former_sources.clone();
        self.turns.iter().for_each(|turn| turn.add_sources(&mut sources));
        let mut known = Vec::new();
        sources.retain(|source| {
            let is_person = matches!(source, Source::Person { .. } | Source::Button { .. });
            let counts =
                [Audience::Owner, Audience::Others].map(|it| taint::is_untrusted(source, it));
            let kind = (mem::discriminant(source), counts);
            let is_new = !known.contains(&kind);
            known.push(kind);
            is_person || is_new
        });
        sources
    }

    /// One summary of all that it compacts, with all its sources.
    pub(crate) fn one_summary(&self, summary: Option<String>) -> Summaries {
        Summaries { shown: summary, sources: self.sources(), whole: None }
    }

    /// Returns true if something of it is untrusted.
    pub(crate) fn is_tainted(&self, audience: Audience) -> bool {
        self.sources().iter().any(|source| taint::is_untrusted(source, audience))
    }

    /// The trusted parts of what it compacts.
    fn trusted(&self, audience: Audience) -> Self {
        let is_untrusted = |source: &Source| taint::is_untrusted(source, audience);
        let is_tainted = self.former_sources.iter().any(is_untrusted);
        let turns = clean::trusted_parts(&self.turns, is_tainted, audience);
        let former = self.former.clone().filter(|_| !is_tainted);
        let former_sources = if is_tainted { Vec::new() } else { self.former_sources.clone() };
        Self { former, former_sources, turns, ..self.clone() }
    }
}

/// Chooses what is compacted of a conversation that nobody works on: all of a private one that has untrusted parts, for
/// the audience that is returned, as what stays could retell them; else the turns but the newest.
pub(crate) async fn choose(
    turns: &TurnServices,
    sender: &Sender,
    session: &Session,
    kept: CompactionJob,
) -> Result<(CompactionJob, Option<Apart>), StoreError> {
    let is_one =
        session.chat_kind == ChatKind::Group || turns.config.asking.untrusted == OnUntrusted::Allow;
    let Some(all) = CompactionJob::all(session, kept.focus.clone()).filter(|_| !is_one) else {
        return Ok((kept, None));
    };
    let role = role_on(&turns.services, session.origin.channel(), sender).await?;
    let audience = audience(role, session.chat_kind);
    if !all.is_tainted(audience) {
        return Ok((kept, None));
    }
    let id = session.id;
    let whole = turns.services.bus.store.read(move |store| transcript::whole_summary(store, id));
    Ok((all, Some(Apart { audience, whole: whole.await? })))
}

/// For whom trusted and untrusted parts are summarized apart.
pub(crate) struct Apart {
    audience: Audience,
    /// The former summary of all parts.
    whole: Option<WholeSummary>,
}

/// Makes a summary for the model to be shown of the trusted parts alone, and one of all parts for a call to open.
pub(crate) async fn run_apart(
    summariser: &dyn Provider,
    job: &CompactionJob,
    Apart { audience, whole }: Apart,
    tokens_max: u64,
    spent: &mut Usage,
) -> Result<Summaries, ProviderError> {
    let trusted = job.trusted(audience);
    let shown = match trusted.turns.is_empty() {
        true => trusted.former.clone(),
        false => Some(run(summariser, &trusted, tokens_max, spent).await?),
    };
    let (mut all, mut sources) = (job.clone(), job.sources());
    if let Some(whole) = whole {
        whole.sources.iter().for_each(|it| source::add(&mut sources, it));
        // The summary that was shown may have been made since.
        let former: Vec<_> = [Some(whole.text), all.former.take()].into_iter().flatten().collect();
        all.former = Some(former.join("\n\n"));
    }
    let text = run(summariser, &all, tokens_max, spent).await?;
    let whole = Some(WholeSummary { text, sources });
    Ok(Summaries { shown, sources: trusted.sources(), whole })
}
