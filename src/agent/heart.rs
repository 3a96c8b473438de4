//! `/heartbeat`: how it is, on, off, and now.

use crate::bus::journal::Waiting;
use crate::people::Role;
use crate::replies;
use crate::store::StoreError;
use crate::tasks::heartbeat::Wish;
use crate::turn::commits;
use crate::turn::means::{Means, role_of};
use crate::types::message::Place;

/// Reads what follows `/heartbeat`; none if it was said wrongly.
pub(super) fn read<'a>(mut words: impl Iterator<Item = &'a str>) -> Option<Wish> {
    match words.next().map(str::to_ascii_lowercase).as_deref() {
        None => Some(Wish::Show),
        Some("now") => Some(Wish::Now),
        Some("on") => Some(Wish::On),
        Some("off") => Some(Wish::Off),
        Some(_) => None,
    }
}

/// Does it for the owner in private: what it tells is theirs.
pub(super) async fn obey(
    means: &Means,
    control: &Waiting,
    wish: Option<Wish>,
) -> Result<(), StoreError> {
    let role = role_of(means, &control.inbound.from, control.sender()).await?;
    let words = match wish {
        _ if role < Role::Owner || control.inbound.place == Place::Group => replies::OWNER_ONLY,
        None => replies::HEARTBEAT_USAGE,
        Some(wish) => {
            let order = means.heart.order(wish).await?;
            commits::obeyed_with(&means.bus.store, control, order).await?;
            means.heart.ordered(wish);
            return Ok(());
        }
    };
    commits::obeyed(&means.bus.store, control, words.to_owned()).await
}
