//! Makes a whole completion of the deltas of a provider.

use futures_util::stream::{self, StreamExt, TryStreamExt};

use super::used_marker::UsedMarkFilter;
use super::{Completion, Delta, DeltaStream, Provider, ProviderError, Request};

/// Makes a whole completion, showing each delta to `watch` on the way.
pub async fn complete(
    provider: &dyn Provider,
    request: &Request<'_>,
    mut watch: impl FnMut(&Delta),
) -> Result<Completion, ProviderError> {
    let watch = |delta: &Delta| {
        watch(delta);
        Ok(())
    };
    complete_checked(provider, request, watch).await
}

/// Makes a completion of at most so many bytes of text and reasoning. A longer one is ended with an error.
pub async fn complete_within(
    provider: &dyn Provider,
    request: &Request<'_>,
    bytes_max: usize,
) -> Result<Completion, ProviderError> {
    let mut bytes = 0_usize;
    let check = |delta: &Delta| {
        match delta {
            Delta::Text(text) | Delta::Thinking(text) => bytes += text.len(),
            Delta::Call(call) => bytes += call.arguments.len(),
            _ => {}
        }
        match bytes > bytes_max {
            true => Err(ProviderError::Refused("the model's answer is too long".to_owned())),
            false => Ok(()),
        }
    };
    complete_checked(provider, request, check).await
}

/// Makes a completion, unless a delta is refused.
async fn complete_checked(
    provider: &dyn Provider,
    request: &Request<'_>,
    mut check: impl FnMut(&Delta) -> Result<(), ProviderError>,
) -> Result<Completion, ProviderError> {
    let mut stream = begin(provider, request);
    let mut completion = Completion::default();
    let asks_for_facts = !request.facts.is_empty();
    let mut marks = UsedMarkFilter::default();
    while let Some(delta) = stream.next().await {
        let delta = match delta? {
            Delta::Text(text) if asks_for_facts => Delta::Text(marks.push(&text)),
            ends @ (Delta::Call(_) | Delta::End(_)) => {
                let (rest, used) = marks.end();
                completion.used_facts.extend(used);
                if !rest.is_empty() {
                    completion.text.push_str(&rest);
                    check(&Delta::Text(rest))?;
                }
                ends
            }
            other => other,
        };
        if matches!(&delta, Delta::Text(text) if text.is_empty()) {
            continue;
        }
        check(&delta)?;
        match delta {
            Delta::Text(text) => completion.text.push_str(&text),
            Delta::Thinking(_) => {}
            Delta::ThinkingBlock(block) => completion.thinking.push(block),
            Delta::Call(call) => completion.calls.push(call),
            Delta::UsedFacts(used) => completion.used_facts.extend(used),
            Delta::Usage(usage) => completion.usage = usage,
            Delta::Note(note) => completion.note = Some(note),
            Delta::By(name) => completion.by = Some(name),
            Delta::Restart => {
                marks = UsedMarkFilter::default();
                let Completion { note, by, usage, mut wasted, .. } = completion;
                wasted.add(usage);
                completion = Completion { note, by, wasted, ..Completion::default() };
            }
            Delta::End(stop) => {
                completion.stop = Some(stop);
                let used = &mut completion.used_facts;
                used.retain(|id| request.facts.contains(id));
                used.sort_unstable();
                used.dedup();
                return Ok(completion);
            }
        }
    }
    Err(ProviderError::cut())
}

/// A completion whose failure to begin is the stream's first item.
pub(super) fn begin<'a>(provider: &'a dyn Provider, request: &'a Request<'a>) -> DeltaStream<'a> {
    stream::once(provider.stream(request)).try_flatten().boxed()
}
