//! Detects changes of this machine's network, so that a broken link is tried again soon. No socket is
//! open while all links are up.

use std::time::Duration;

use tokio::time::{sleep, timeout};

/// Pause between a network change and the next attempt of a link: the address, the route and the resolver
/// change one after another. Also bounds the wake-ups of a network that changes all the time.
pub const CHANGE_PAUSE: Duration = Duration::from_secs(3);

/// The reason why a pause ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    Over,
    /// The network changed before the end.
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

/// Waits until a carrier or a route of this machine changes. Never returns if the system cannot report
/// that.
pub async fn changed() {
    if let Err(error) = system::changed().await {
        tracing::debug!(%error, "Cannot watch for changes of the network");
        std::future::pending().await
    }
}

#[cfg(target_os = "linux")]
mod system {
    //! Linux announces changes over netlink (rtnetlink(7)).

    use std::io;
    use std::os::fd::OwnedFd;

    use rustix::net::netlink::SocketAddrNetlink;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with};
    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;

    /// Carriers and routes. Addresses are left out, because each router advertisement announces them
    /// again.
    const GROUPS: i32 = libc::RTMGRP_LINK | libc::RTMGRP_IPV4_ROUTE | libc::RTMGRP_IPV6_ROUTE;

    pub(super) async fn changed() -> io::Result<()> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        // No protocol means NETLINK_ROUTE.
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
        bind(&socket, &SocketAddrNetlink::new(0, GROUPS.cast_unsigned()))?;
        #[expect(
            deprecated,
            reason = "its descriptor is its own, and stays open as long as it does"
        )]
        let socket: AsyncFd<OwnedFd> = AsyncFd::with_interest(socket, Interest::READABLE)?;
        // Only the fact that a message is there matters.
        socket.readable().await?.retain_ready();
        Ok(())
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    //! On systems without announcements, links are tried again at the end of their pauses.

    pub(super) async fn changed() -> std::io::Result<()> {
        std::future::pending().await
    }
}
