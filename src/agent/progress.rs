//! Signs of life while a turn works: typing, and drafts at the platform's pace. Best effort: a
//! hint that hangs or fails harms nothing.

use std::future::pending;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use super::Means;
use crate::channels::Channel;
use crate::message::{Address, Hint};

const HINT_TIME_MAX: Duration = Duration::from_secs(5);

/// Shows that a turn works until it is dropped.
pub(super) async fn show(means: &Means, to: &Address, draft: watch::Receiver<String>) {
    let Some(channel) = means.channels.get(&to.channel) else { return pending().await };
    tokio::join!(show_typing(channel.as_ref(), to), show_drafts(channel.as_ref(), to, draft));
}

async fn show_typing(channel: &dyn Channel, to: &Address) {
    let Some(every) = channel.limits().typing_every else { return };
    let mut tick = interval(every);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        hint(channel, to, Hint::Typing).await;
    }
}

async fn show_drafts(channel: &dyn Channel, to: &Address, mut draft: watch::Receiver<String>) {
    let Some(every) = channel.limits().draft_every else { return pending().await };
    while draft.changed().await.is_ok() {
        let text = draft.borrow_and_update().clone();
        hint(channel, to, Hint::Draft(text)).await;
        sleep(every).await;
    }
    pending().await
}

async fn hint(channel: &dyn Channel, to: &Address, hint: Hint) {
    if let Ok(Err(error)) = timeout(HINT_TIME_MAX, channel.hint(to, hint)).await {
        tracing::debug!(%to, %error, "No sign of life");
    }
}
