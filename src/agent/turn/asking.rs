//! How a turn asks the model: with the pictures that it may see, and showing what it says.

use super::super::compaction;
use super::Active;
use crate::event::Happening;
use crate::provider::{self, Completion, Delta, Pictures, ProviderError, Request};

impl Active<'_> {
    /// One completion; if the model takes no pictures after all, one without.
    pub(super) async fn complete(&self, may_call: bool) -> Result<Completion, ProviderError> {
        let pictures = match self.means.provider.sees() {
            true => Pictures::read(&self.means.workspace, &self.session.turns).await,
            false => Pictures::default(),
        };
        match self.complete_with(&pictures, may_call).await {
            // One picture that a model does not take would spoil the conversation for long.
            Err(ProviderError::Refused(reason)) if !pictures.is_empty() => {
                tracing::warn!(turn = self.turn.0, reason, "Refused, will ask without pictures");
                self.complete_with(&Pictures::default(), may_call).await
            }
            completed => completed,
        }
    }

    async fn complete_with(
        &self,
        pictures: &Pictures,
        may_call: bool,
    ) -> Result<Completion, ProviderError> {
        self.wires.draft.send_modify(|draft| {
            draft.text.clear();
            draft.doing = None;
        });
        let summary = self.session.summary.as_deref().map(compaction::shown);
        let request = Request {
            system: &self.system,
            tools: &self.tools,
            may_call,
            effort: provider::Effort::Default,
            messages: provider::messages_after(summary.as_deref(), &self.session.turns),
            pictures,
        };
        provider::complete(self.means.provider.as_ref(), &request, |delta| match delta {
            Delta::Text(text) => {
                self.wires.draft.send_modify(|draft| draft.text.push_str(text));
                self.emit(|| Happening::Text { text: text.clone() });
            }
            Delta::Restart => self.wires.draft.send_modify(|draft| draft.text.clear()),
            Delta::Thinking(text) => self.emit(|| Happening::Thinking { text: text.clone() }),
            _ => {}
        })
        .await
    }
}
