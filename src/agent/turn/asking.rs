//! How a turn asks the model: with the pictures that it may see, and showing what it says.

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
        let request = Request {
            system: &self.system,
            tools: &self.tools,
            may_call,
            effort: provider::Effort::Default,
            messages: provider::messages(&self.session.turns),
            pictures,
        };
        let mut thinks = false;
        let mut watch = |delta: &Delta| match delta {
            Delta::Text(text) => {
                self.mark_thinking(&mut thinks, false);
                self.wires.draft.send_modify(|draft| draft.text.push_str(text));
                self.emit(|| Happening::Text { text: text.clone() });
            }
            Delta::Thinking(text) => {
                self.mark_thinking(&mut thinks, true);
                self.emit(|| Happening::Thinking { text: text.clone() });
            }
            Delta::Restart => self.wires.draft.send_modify(|draft| draft.text.clear()),
            _ => {}
        };
        let completed =
            provider::complete(self.means.provider.as_ref(), &request, &mut watch).await;
        self.mark_thinking(&mut thinks, false);
        completed
    }

    /// Says when thinking begins and ends.
    fn mark_thinking(&self, thinks: &mut bool, now: bool) {
        if std::mem::replace(thinks, now) != now {
            self.emit(|| if now { Happening::ThinkingStart } else { Happening::ThinkingEnd });
        }
    }
}
