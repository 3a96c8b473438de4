//! Tells the owner that the gateway's port cannot be opened, and that it is open again: each once, also across restarts.
//! Not here: opening it (`gateway`).

use std::net::SocketAddr;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use crate::bus::{Bus, notices};
use crate::channels::web::GatewayPort;
use crate::replies;

/// Time after which the owner hears of a port that cannot be opened. A program that is replaced, or an address that comes
/// with its network, needs less.
const TELL_AFTER: Duration = Duration::from_secs(300);

/// Pause before the owner is told, if that failed or there is no owner yet.
const RETRY_PAUSE: Duration = Duration::from_secs(60);

/// The subject of the notices.
const SUBJECT: &str = "gateway port";

/// Tells the owner about the port at an address. Ends with the gateway.
pub(super) async fn tell_owner(bus: &Bus, listen: SocketAddr, port: watch::Receiver<GatewayPort>) {
    follow(port, |state| tell(bus, listen, state)).await;
}

/// Tells of a port that has been closed for some minutes, and of one that is open. `tell` returns false if it is to be called
/// again. Ends with the port.
pub async fn follow<F: Future<Output = bool>>(
    mut port: watch::Receiver<GatewayPort>,
    mut tell: impl FnMut(GatewayPort) -> F,
) {
    let mut refused_since: Option<Instant> = None;
    // The last state that was told: open or not.
    let mut told: Option<bool> = None;
    loop {
        let state = port.borrow_and_update().clone();
        let is_open = match state {
            GatewayPort::Unopened => None,
            GatewayPort::Open => Some(true),
            GatewayPort::Refused(_) => Some(false),
        };
        let now = Instant::now();
        let tell_at = match is_open {
            Some(false) => *refused_since.get_or_insert(now) + TELL_AFTER,
            Some(true) | None => {
                refused_since = None;
                now
            }
        };
        let next = if is_open.is_none() || is_open == told {
            None
        } else if tell_at > now {
            Some(tell_at)
        } else if tell(state).await {
            told = is_open;
            None
        } else {
            Some(Instant::now() + RETRY_PAUSE)
        };
        let changed = port.changed();
        let ended = match next {
            None => changed.await.is_err(),
            // Without a change, it goes on until then.
            Some(next) => timeout_at(next, changed).await.is_ok_and(|changed| changed.is_err()),
        };
        if ended {
            return;
        }
    }
}

/// Returns false if the owner could not be told.
async fn tell(bus: &Bus, listen: SocketAddr, state: GatewayPort) -> bool {
    let told = match state {
        GatewayPort::Unopened => Ok(true),
        GatewayPort::Open => {
            let words = replies::gateway_listens_again(listen);
            notices::tell_of_end(bus, SUBJECT, words).await.map(|()| true)
        }
        GatewayPort::Refused(reason) => {
            let words = replies::gateway_is_closed(&reason);
            notices::tell_of_trouble(bus, SUBJECT, &listen.to_string(), words).await
        }
    };
    told.unwrap_or_else(|error| {
        tracing::warn!(%error, "Cannot tell the owner of the gateway's port");
        false
    })
}
