//! Compaction of a private conversation that has untrusted parts. Between turns there is a summary of the trusted ones,
//! which its model goes on with, and a summary of all of them, which a call shows. A turn that runs goes on with the
//! summary of all, beside which that of the trusted ones is kept.

use std::mem;

use crate::conversation::asks::OnUntrusted;
use crate::conversation::transcript::{self, Summaries};
use crate::memory::audience;
use crate::people::Role;
use crate::provider::{Provider, ProviderError, Usage};
use crate::services::role_on;
use crate::store::StoreError;
use crate::trust::clean::{self, TrustedParts};
use crate::trust::taint;
use crate::turn::compaction::{CompactionJob, digest, run};
use crate::turn::services::TurnServices;
use crate::types::message::{ChatKind, Sender};
use crate::types::session::Session;
use crate::types::source::{self, Source};
use crate::types::summary::SourcedSummary;
use crate::workspace::Audience;

/// Tokens of a digest that a call opens: what fits into the result of a call (`tools::RESULT_CHARS_MAX`).
const OPENED_TOKENS_MAX: u64 = 1_900;

/// The digest with which a conversation goes on may be so many times as long as a summary, which says more in few words.
const DIGEST_TIMES: u64 = 2;

impl CompactionJob {
    /// Returns the sources of the compacted turns. Sources that are equal for trust decisions are included once.
    pub(crate) fn sources(&self) -> Vec<Source> {
        let mut sources = self.former_sources.clone();
        self.turns.iter().for_each(|turn| turn.add_sources(&mut sources));
        let mut known = Vec::new();
        sources.retain(|source| {
            let counts =
                [Audience::Owner, Audience::Others].map(|it| taint::is_untrusted(source, it));
            let kind = (mem::discriminant(source), source.author(), counts);
            let is_new = !known.contains(&kind);
            known.push(kind);
            is_new
        });
        sources
    }

    /// Returns one summary of all parts, with all their sources.
    pub(crate) fn one_summary(&self, summary: Option<String>) -> Summaries {
        let (sources, trusted) = (self.sources(), self.former_trusted.clone());
        Summaries { shown: summary, sources, trusted, whole: None, left_out: 0 }
    }

    /// The former summary, where there is none to be had of the rest; `audience` is that of the trusted parts, if they
    /// are told apart.
    pub(crate) fn former_summary(&self, audience: Option<Audience>) -> Summaries {
        let former = self.one_summary(self.former.clone());
        match audience {
            Some(audience) => Summaries { trusted: self.trusted_former(audience), ..former },
            None => former,
        }
    }

    /// Returns true if any part is untrusted.
    pub(crate) fn is_tainted(&self, audience: Audience) -> bool {
        self.sources().iter().any(|source| taint::is_untrusted(source, audience))
    }

    /// The former summary if it is trusted, or else the trusted one beside it.
    fn trusted_former(&self, audience: Audience) -> Option<SourcedSummary> {
        let sources = self.former_sources.clone();
        let shown = self.former.clone().map(|text| SourcedSummary { text, sources });
        let summaries = [shown, self.former_trusted.clone()];
        clean::first_trusted(summaries.into_iter().flatten(), audience)
    }

    /// The trusted parts of what it compacts, and the number of the others.
    fn trusted(&self, audience: Audience) -> (Self, usize) {
        let is_tainted = self.former_sources.iter().any(|it| taint::is_untrusted(it, audience));
        let parts = clean::trusted_parts(&self.turns, is_tainted, audience);
        let TrustedParts { turns, left_out } = parts;
        let left_out = left_out + usize::from(is_tainted && self.former.is_some());
        let former = self.trusted_former(audience);
        let former_sources = former.as_ref().map(|it| it.sources.clone()).unwrap_or_default();
        let former = former.map(|it| it.text);
        (Self { former, former_sources, former_trusted: None, turns, ..self.clone() }, left_out)
    }
}

/// Returns for which audience trusted and untrusted parts are summarized apart. None if nothing of it is untrusted, in
/// groups, in the conversation of a background task with itself, and where nobody is asked about untrusted content.
pub(crate) fn separated_for(
    turns: &TurnServices,
    session: &Session,
    role: Role,
    job: &CompactionJob,
) -> Option<Audience> {
    let audience = audience(role, session.chat_kind);
    (are_separated(turns, session) && job.is_tainted(audience)).then_some(audience)
}

/// Returns true for a private conversation with a person, if it matters what is untrusted.
pub(crate) fn are_separated(turns: &TurnServices, session: &Session) -> bool {
    session.chat_kind == ChatKind::Private
        && session.origin.chat().is_some()
        && turns.config.asking.untrusted != OnUntrusted::Allow
}

/// Chooses the job for an idle conversation. Of a private one with untrusted parts, all turns are compacted, because
/// turns that stay could repeat the untrusted parts. Otherwise the job is `usual`, and the newest turns stay.
pub(crate) async fn choose(
    turns: &TurnServices,
    sender: &Sender,
    session: &Session,
    usual: CompactionJob,
) -> Result<(CompactionJob, Option<SummarySeparation>), StoreError> {
    let all = CompactionJob::all(session, usual.focus.clone());
    let Some(all) = all.filter(|_| are_separated(turns, session)) else {
        return Ok((usual, None));
    };
    let role = role_on(&turns.services, session.origin.channel(), sender).await?;
    let Some(audience) = separated_for(turns, session, role, &all) else {
        return Ok((usual, None));
    };
    let id = session.id;
    let whole = turns.services.bus.store.read(move |store| transcript::whole_summary(store, id));
    Ok((all, Some(SummarySeparation { audience, whole: whole.await? })))
}

/// The audience for which trusted and untrusted parts are summarized separately.
pub(crate) struct SummarySeparation {
    pub(crate) audience: Audience,
    /// The former summary of all parts.
    pub(crate) whole: Option<SourcedSummary>,
}

/// Makes a summary of the trusted parts for the model, and a summary of all parts for a tool call.
pub(crate) async fn summarize_separately(
    summariser: &dyn Provider,
    job: &CompactionJob,
    SummarySeparation { audience, whole }: SummarySeparation,
    tokens_max: u64,
    spent: &mut Usage,
) -> Result<Summaries, ProviderError> {
    let (trusted, left_out) = job.trusted(audience);
    let shown = run_trusted(summariser, &trusted, tokens_max, spent).await?;
    let (mut all, mut sources) = (job.clone(), job.sources());
    if let Some(whole) = whole {
        whole.sources.iter().for_each(|it| source::add(&mut sources, it));
        // The shown summary may be newer than the one of all parts.
        let former: Vec<_> = [Some(whole.text), all.former.take()].into_iter().flatten().collect();
        all.former = Some(former.join("\n\n"));
    }
    let text = run(summariser, &all, tokens_max, spent).await?;
    let whole = Some(SourcedSummary { text, sources });
    Ok(Summaries { shown, sources: trusted.sources(), trusted: None, whole, left_out })
}

/// Makes a summary of all parts for a turn that runs, which works with them. Where trusted parts are told apart, one of
/// them alone is kept beside it, for when the others are left out.
pub(crate) async fn summarize_with_trusted(
    summariser: &dyn Provider,
    job: &CompactionJob,
    audience: Option<Audience>,
    tokens_max: u64,
    spent: &mut Usage,
) -> Result<Summaries, ProviderError> {
    let mut beside = job.former_trusted.clone();
    if let Some(audience) = audience {
        let (trusted, _) = job.trusted(audience);
        let text = run_trusted(summariser, &trusted, tokens_max, spent).await?;
        beside = text.map(|text| SourcedSummary { text, sources: trusted.sources() });
    }
    let shown = run(summariser, job, tokens_max, spent).await?;
    Ok(Summaries { trusted: beside, ..job.one_summary(Some(shown)) })
}

/// Makes a summary of trusted parts; none if there are none.
async fn run_trusted(
    summariser: &dyn Provider,
    trusted: &CompactionJob,
    tokens_max: u64,
    spent: &mut Usage,
) -> Result<Option<String>, ProviderError> {
    match trusted.turns.is_empty() {
        true => Ok(trusted.former.clone()),
        false => run(summariser, trusted, tokens_max, spent).await.map(Some),
    }
}

/// Leaves the untrusted parts out without a model, as a person waits for an answer: the conversation goes on with a
/// digest of the trusted ones, and a call opens a digest of all. `tokens_max` is that of a summary.
pub(crate) fn leave_out(
    job: &CompactionJob,
    SummarySeparation { audience, whole }: SummarySeparation,
    tokens_max: u64,
) -> Summaries {
    let (trusted, left_out) = job.trusted(audience);
    let tokens_max = tokens_max * DIGEST_TIMES;
    let shown = digest::digest(trusted.former.as_deref(), &trusted.turns, tokens_max);
    let mut sources = job.sources();
    whole.iter().flat_map(|it| &it.sources).for_each(|it| source::add(&mut sources, it));
    // A trusted one is shown.
    let former = job.former.clone().filter(|_| trusted.former != job.former);
    let former: Vec<_> = [whole.map(|it| it.text), former].into_iter().flatten().collect();
    let text = digest::digest(Some(&former.join("\n\n")), &job.turns, OPENED_TOKENS_MAX);
    let whole = text.map(|text| SourcedSummary { text, sources });
    Summaries { shown, sources: trusted.sources(), trusted: None, whole, left_out }
}
