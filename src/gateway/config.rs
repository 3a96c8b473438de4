//! The parsed section `[gateway]`. It exists in every build, so that one without the gateway can report it.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use crate::people::Access;
use crate::secret::Secret;
use crate::types::message::SenderId;

/// The address without a config key.
pub const LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7450);

/// The name of the channel that the page and the API are.
pub const WEB: &str = "web";

/// Settings of the gateway.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    pub listen: SocketAddr,
    /// Speaks for the owner. None only if it listens on this machine alone.
    pub token: Option<Secret>,
    /// The address that browsers use, if a reverse proxy is in front: scheme and host.
    pub url: Option<String>,
    /// Further names by which requests may address it.
    pub hosts: Vec<String>,
    /// Connections at a time; more wait.
    pub connections_max: usize,
    /// The people of the channel [`WEB`].
    pub access: Access,
    /// The tokens of programs, by name.
    pub tokens: BTreeMap<String, ApiToken>,
}

/// A token with which a program speaks as a person.
#[derive(Clone, Debug, PartialEq)]
pub struct ApiToken {
    pub token: Secret,
    /// A person of the channel [`WEB`].
    pub person: SenderId,
}

impl Config {
    pub fn secrets(&self) -> impl Iterator<Item = &Secret> {
        self.token.iter().chain(self.tokens.values().map(|of| &of.token))
    }
}
