//! The control socket in a home, which the daemon creates and clients open. The home's path may have any
//! length.

use std::fs::{self, Permissions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::process::geteuid;
use tokio::net::{UnixListener, UnixStream};

/// The socket's name within the home.
pub const SOCKET: &str = "control.sock";

/// The longest path by which a socket can be named, in bytes (`sun_path` without its NUL, unix(7)).
const PATH_BYTES_MAX: usize = 107;

/// Creates the socket in `home`, for this account only.
pub fn bind(home: &Path) -> io::Result<UnixListener> {
    let path = home.join(SOCKET);
    // The home is locked, so an existing socket is left from a crash.
    fs::remove_file(&path).ok();
    let listener = UnixListener::bind(&Name::of_socket_in(home)?.path)?;
    fs::set_permissions(&path, Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Connects to the daemon that runs in `home`.
pub async fn connect(home: &Path) -> io::Result<UnixStream> {
    let name = Name::of_socket_in(home)?;
    UnixStream::connect(&name.path).await
}

/// A path of the socket that is short enough. It is valid while this lives.
struct Name {
    path: PathBuf,
    _home: Option<OwnedFd>,
}

impl Name {
    /// Returns the plain path, or one through the opened home if that is too long.
    fn of_socket_in(home: &Path) -> io::Result<Self> {
        let path = home.join(SOCKET);
        if path.as_os_str().len() <= PATH_BYTES_MAX {
            return Ok(Self { path, _home: None });
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let home = rustix::fs::open(home, flags, Mode::empty())?;
        let path = format!("/proc/self/fd/{}/{SOCKET}", home.as_raw_fd()).into();
        Ok(Self { path, _home: Some(home) })
    }
}

/// Returns true if a client is of the daemon's account or root's. Nobody else is served, even if the socket's
/// mode was changed.
pub(super) fn is_ours(stream: &UnixStream) -> bool {
    match stream.peer_cred() {
        Ok(peer) if peer.uid() == 0 || peer.uid() == geteuid().as_raw() => true,
        Ok(peer) => {
            tracing::warn!(uid = peer.uid(), "Refused a control connection of another account");
            false
        }
        Err(error) => {
            tracing::warn!(%error, "Refused a control connection of an unknown account");
            false
        }
    }
}
