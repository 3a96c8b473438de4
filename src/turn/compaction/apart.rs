//! Compaction of a private conversation that has untrusted parts. It makes two summaries: one of the trusted parts,
//! which the model is shown, and one of all parts, which a tool call shows.

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
    /// Returns the sources of the compacted turns. Sources that are equal for trust decisions are included once.
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

    /// Returns one summary of all parts, with all their sources.
    pub(crate) fn one_summary(&self, summary: Option<String>) -> Summaries {
        Summaries { shown: summary, sources: self.sources(), whole: None }
    }

    /// Returns true if any part is untrusted.
    pub(crate) fn is_tainted(&self, audience: Audience) -> bool {
        self.sources().iter().any(|source| taint::is_untrusted(source, audience))
    }

    /// Returns the job for the trusted parts alone.
    fn trusted(&self, audience: Audience) -> Self {
        let is_untrusted = |source: &Source| taint::is_untrusted(source, audience);
        let is_tainted = self.former_sources.iter().any(is_untrusted);
        let turns = clean::trusted_parts(&self.turns, is_tainted, audience);
        let former = self.former.clone().filter(|_| !is_tainted);
        let former_sources = if is_tainted { Vec::new() } else { self.former_sources.clone() };
        Self { former, former_sources, turns, ..self.clone() }
    }
}

/// Chooses the job for an idle conversation. Of a private one with untrusted parts, all turns are compacted, because
/// turns that stay could repeat the untrusted parts. Otherwise the job is `usual`, and the newest turns stay.
pub(crate) async fn choose(
    turns: &TurnServices,
    sender: &Sender,
    session: &Session,
    usual: CompactionJob,
) -> Result<(CompactionJob, Option<Apart>), StoreError> {
    let needs_one_summary =
        session.chat_kind == ChatKind::Group || turns.config.asking.untrusted == OnUntrusted::Allow;
    let Some(all) = CompactionJob::all(session, usual.focus.clone()).filter(|_| !needs_one_summary)
    else {
        return Ok((usual, None));
    };
    let role = role_on(&turns.services, session.origin.channel(), sender).await?;
    let audience = audience(role, session.chat_kind);
    if !all.is_tainted(audience) {
        return Ok((usual, None));
    }
    let id = session.id;
    let whole = turns.services.bus.store.read(move |store| transcript::whole_summary(store, id));
    Ok((all, Some(Apart { audience, whole: whole.await? })))
}

/// The audience for which trusted and untrusted parts are summarized separately.
pub(crate) struct Apart {
    audience: Audience,
    /// The former summary of all parts.
    whole: Option<WholeSummary>,
}

/// Makes a summary of the trusted parts for the model, and a summary of all parts for a tool call.
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
        // The shown summary may be newer than the one of all parts.
        let former: Vec<_> = [Some(whole.text), all.former.take()].into_iter().flatten().collect();
        all.former = Some(former.join("\n\n"));
    }
    let text = run(summariser, &all, tokens_max, spent).await?;
    let whole = Some(WholeSummary { text, sources });
    Ok(Summaries { shown, sources: trusted.sources(), whole })
}
