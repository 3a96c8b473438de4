//! Notices that this machine's network has changed, so that a link that is down is tried again soon.
//! Nothing is listened to while all links are up.

use std::time::Duration;

use tokio::time::{sleep, timeout};

/// How long after a change of the network a link is tried again: the address, the route and the
/// resolver come one after another. A network that changes all the time wakes us no more often.
pub const CHANGE_PAUSE: Duration = Duration::from_secs(3);

/// How a pause ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    Over,
    /// The network has changed before that.
    CutShort,
}

/// Pauses for `wait`, or until [`CHANGE_PAUSE`] after `change`, whichever comes first.
pub async fn pause(wait: Duration, change: impl Future<Output = ()>) -> Pause {
    let cut_short = async {
        change.await;
        sleep(CHANGE_PAUSE).await;
    };
    match timeout(wait, cut_short).await {
        Ok(()) => Pause::CutShort,
        Err(_) => Pause::Over,
    }
}

/// Waits until a carrier or a route of this machine changes. For ever where the system does not tell.
pub async fn changed() {
    if let Err(error) = system::changed().await {
        tracing::debug!(%error, "Cannot notice changes of the network");
        std::future::pending().await
    }
}

#[cfg(target_os = "linux")]
mod system {
    //! The kernel announces changes over netlink (rtnetlink(7)).

    use std::io;
    use std::os::fd::OwnedFd;

    use rustix::net::netlink::SocketAddrNetlink;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with};
    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;

    /// Carriers and routes. Addresses are left out: each advertisement of a router announces them again.
    const GROUPS: i32 = libc::RTMGRP_LINK | libc::RTMGRP_IPV4_ROUTE | libc::RTMGRP_IPV6_ROUTE;

    pub(super) async fn changed() -> io::Result<()> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        // No protocol is that of routes.
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
        bind(&socket, &SocketAddrNetlink::new(0, GROUPS.cast_unsigned()))?;
        #[expect(
            deprecated,
            reason = "its descriptor is its own, and stays open as long as it does"
        )]
        let socket: AsyncFd<OwnedFd> = AsyncFd::with_interest(socket, Interest::READABLE)?;
        // That there is something is all that we want to know.
        socket.readable().await?.retain_ready();
        Ok(())
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    //! Where nothing is announced, links are tried again at the end of their pauses.

    pub(super) async fn changed() -> std::io::Result<()> {
        std::future::pending().await
    }
}
