//! The parsed section `[gateway]`. It exists in every build, so that a build without the gateway can report it.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use super::template::Template;
use crate::people::Access;
use crate::secret::Secret;
use crate::types::message::{Address, SenderId};

/// The default address.
pub const LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7450);

/// The name of the channel of the page and the API.
pub const WEB: &str = "web";

/// Settings of the gateway.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    pub listen: SocketAddr,
    /// The owner's token. None only if the gateway listens on this machine alone.
    pub token: Option<Secret>,
    /// The address that browsers use, if a reverse proxy is in front: scheme and host.
    pub url: Option<String>,
    /// Further host names that requests may use.
    pub hosts: Vec<String>,
    /// Maximum number of connections; more wait.
    pub connections_max: usize,
    pub times: RequestTimes,
    /// The people of the channel [`WEB`].
    pub access: Access,
    /// The tokens of programs, by name.
    pub tokens: BTreeMap<String, ApiToken>,
    /// The webhooks, by name.
    pub webhooks: BTreeMap<String, Webhook>,
}

/// Maximum times for a client's request. A slower client is disconnected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestTimes {
    /// Time for the header. A connection that is idle for longer is closed.
    pub header: Duration,
    pub body: Duration,
    /// Time for the body of an upload.
    pub upload: Duration,
    /// A client that reads nothing of its response for this long is disconnected. The page reconnects by
    /// itself.
    pub unread: Duration,
}

impl Default for RequestTimes {
    fn default() -> Self {
        Self {
            header: Duration::from_secs(20),
            body: Duration::from_secs(20),
            // The largest file over a slow line.
            upload: Duration::from_secs(600),
            unread: Duration::from_secs(60),
        }
    }
}

/// A webhook: another program wakes the bot with a request.
#[derive(Clone, Debug, PartialEq)]
pub struct Webhook {
    pub proof: WebhookProof,
    /// The person of the channel [`WEB`] on whose behalf it acts.
    pub person: SenderId,
    /// The address of the result. None: where the owner last wrote in private, or the person's page.
    pub to: Option<Address>,
    pub action: WebhookAction,
    /// The accepted events of a code host. Empty: all.
    pub events: Vec<String>,
    /// The largest body, in bytes.
    pub bytes_max: usize,
    pub per_minute: u32,
}

/// The proof that a caller may call.
#[derive(Clone, Debug, PartialEq)]
pub enum WebhookProof {
    /// The caller sends this token.
    Token(Secret),
    /// The caller signs the body with this secret: HMAC with SHA-256, as code hosts do.
    Signature(Secret),
}

impl WebhookProof {
    fn secret(&self) -> &Secret {
        match self {
            Self::Token(secret) | Self::Signature(secret) => secret,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum WebhookAction {
    Prompt(Template),
    Message(Template),
    /// Runs the job with this number now.
    Job(i64),
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
        let tokens = self.tokens.values().map(|api_token| &api_token.token);
        let hooks = self.webhooks.values().map(|hook| hook.proof.secret());
        self.token.iter().chain(tokens).chain(hooks)
    }
}
