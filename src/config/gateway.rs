//! `[gateway]`: the address on which the program listens for browsers and other programs.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::gateway::config::{Config, LISTEN, RequestTimes, WEB, WebhookProof};
use crate::people::{Access, LOCAL};
use crate::secret::Secret;
use crate::types::message::SenderId;

use super::api_tokens::{self, ApiTokenSection};
use super::hints::is_name;
use super::reading::{ConfigSource, Section};
use super::secrets::{self, UnresolvedSecret};
use super::values::{At, Text, Within};
use super::webhooks::{self, WebhookSection};

/// Maximum number of hosts; more are a mistake.
const HOSTS_MAX: usize = 100;

/// A shorter token can be guessed.
const TOKEN_CHARS_MIN: usize = 16;

/// The gateway: a page in the browser to chat with the bot, and health and metrics for other
/// programs. Without this section nothing listens.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct GatewaySection {
    /// The address and port on which it listens, without TLS. An address that other machines reach
    /// requires `token`, and a reverse proxy for TLS.
    #[schemars(extend("default" = LISTEN.to_string()))]
    listen: Option<At<Text<Listen>>>,
    /// A secret of at least 16 characters, which speaks for the owner: /metrics and the details of
    /// /health then require it, as `Authorization: Bearer TOKEN`. Default: none.
    token: Option<At<UnresolvedSecret>>,
    /// The address that browsers use, if a reverse proxy is in front, such as https://bot.example.
    /// Default: none.
    url: Option<Text<PublicUrl>>,
    /// More host names by which requests may address it. IP addresses, localhost and the host of
    /// `url` always work. Other names are refused, because a web page could make its own name lead
    /// here. Default: none.
    hosts: Option<At<Vec<Text<HostName>>>>,
    /// Names of people with the role admin on the page, such as ["ben"]. `peacrab web --person NAME`
    /// makes a link with which a person signs in. Default: none.
    admins: Option<At<Vec<Text<PersonName>>>>,
    /// Names of more people, with the role user. Default: none.
    allow: Option<At<Vec<Text<PersonName>>>>,
    /// Connections at a time. More wait. Streams of open pages, events and answers take at most seven
    /// eighths of them, those of one person three quarters.
    connections_max: Within<1, 4096, 512>,
}

#[derive(Clone, Copy)]
struct Listen(SocketAddr);

impl FromStr for Listen {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        let wanted = "must be an IP address with a port, such as 127.0.0.1:7450";
        text.parse().map(Self).map_err(|_| wanted)
    }
}

struct PublicUrl(String);

impl FromStr for PublicUrl {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        let wanted = "must be https:// or http:// and a host, without a path";
        let url = url::Url::parse(text).map_err(|_| wanted)?;
        let origin = url.origin();
        let is_plain = url.path() == "/" && url.query().is_none() && url.fragment().is_none();
        let is_web = matches!(url.scheme(), "https" | "http") && url.username().is_empty();
        match origin.is_tuple() && is_plain && is_web {
            true => Ok(Self(origin.ascii_serialization())),
            false => Err(wanted),
        }
    }
}

struct HostName(String);

impl FromStr for HostName {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
        let is_name = !text.is_empty() && text.len() <= 253 && text.chars().all(is_allowed);
        let name = is_name.then(|| Self(text.to_ascii_lowercase()));
        name.ok_or("must be a host name without a port, such as \"peacrab.lan\"")
    }
}

/// A person's name on the page. It stands in addresses.
struct PersonName(String);

impl FromStr for PersonName {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            LOCAL => Err(format!("cannot contain `{LOCAL}`, which is the owner")),
            name if is_name(name) => Ok(Self(name.to_owned())),
            _ => Err("must contain names of 1 to 32 of a-z, A-Z, 0-9, - and _".to_owned()),
        }
    }
}

/// The section and those that have no effect without it.
pub(super) struct GatewaySections {
    pub(super) gateway: Option<GatewaySection>,
    pub(super) api_tokens: BTreeMap<String, ApiTokenSection>,
    pub(super) webhooks: BTreeMap<String, WebhookSection>,
}

impl GatewaySections {
    /// Returns the gateway, if there is one. None if a key of it was refused.
    pub(super) fn config(
        self,
        source: &ConfigSource<'_>,
        channels: &[&str],
    ) -> Option<Option<Config>> {
        let Self { gateway, api_tokens, webhooks } = self;
        let Some(section) = gateway else {
            let tokens = source.named("api_tokens", api_tokens).into_iter().map(|it| it.place);
            let hooks = source.named("webhooks", webhooks).into_iter().map(|it| it.place);
            for place in tokens.chain(hooks) {
                let title = place.title();
                place.fault(format!("{title} has no effect without [gateway]: add that section"));
            }
            return Some(None);
        };
        let place = source.section("gateway");
        if channels.contains(&WEB) {
            place.fault(format!(
                "[channels.{WEB}] needs another name: with [gateway], it is the page's"
            ));
        }
        let mut config = section.config(&place)?;
        config.tokens = api_tokens::tokens(source, api_tokens, &config.access);
        config.webhooks = webhooks::webhooks(source, webhooks, &config.access, channels);
        Some(Some(config))
    }
}

impl GatewaySection {
    fn config(self, place: &Section<'_, '_>) -> Option<Config> {
        let source = place.source;
        let listen = match &self.listen {
            Some(listen) => listen.value.0.0,
            None if place.has("listen") => return None,
            None => LISTEN,
        };
        let token = match &self.token {
            Some(written) => Some(long_secret(source, written)?),
            None => None,
        };
        if token.is_none() && !listen.ip().is_loopback() {
            let title = place.title();
            place.fault(format!(
                "missing key `token` in {title}: other machines can reach {}, so a token is required",
                listen.ip()
            ));
        }
        if let Some(hosts) = self.hosts.as_ref().filter(|hosts| hosts.value.len() > HOSTS_MAX) {
            source.refuse(hosts, format!("has more than {HOSTS_MAX} entries"));
        }
        let hosts = self.hosts.into_iter().flat_map(|hosts| hosts.value);
        Some(Config {
            listen,
            token,
            url: self.url.map(|url| url.0.0),
            hosts: hosts.map(|host| host.0.0).collect(),
            connections_max: self.connections_max.count(),
            times: RequestTimes::default(),
            tokens: BTreeMap::new(),
            webhooks: BTreeMap::new(),
            access: Access {
                admins: names(self.admins),
                allow: names(self.allow),
                ..Access::local()
            },
        })
    }
}

/// Reads a secret that grants access. Reports one that is too short.
pub(super) fn long_secret(
    source: &ConfigSource<'_>,
    written: &At<UnresolvedSecret>,
) -> Option<Secret> {
    let secret = secrets::read(source, written)?;
    if secret.reveal().chars().count() < TOKEN_CHARS_MIN {
        source.refuse(written, format!("is shorter than {TOKEN_CHARS_MIN} characters"));
    }
    Some(secret)
}

/// Returns the person of the page that a key names, or the owner without it.
pub(super) fn person(
    source: &ConfigSource<'_>,
    written: Option<&At<String>>,
    access: &Access,
) -> Option<SenderId> {
    let Some(written) = written else { return Some(LOCAL.into()) };
    let people = [&access.owners, &access.admins, &access.allow].into_iter().flatten();
    let people: Vec<_> = people.map(String::as_str).collect();
    source.one(written, "person of [gateway]", &people).map(SenderId::from)
}

fn names(listed: Option<At<Vec<Text<PersonName>>>>) -> Vec<String> {
    let listed = listed.into_iter().flat_map(|listed| listed.value);
    listed.map(|person| person.0.0).collect()
}

/// Describes the section for a person who checks it before a start. No secrets.
pub(super) fn describe(gateway: &Config) -> String {
    let Config { listen, token, tokens, webhooks, .. } = gateway;
    let token = if token.is_some() { "with a token" } else { "for this machine only" };
    let tokens =
        tokens.iter().map(|(name, token)| format!("  token {name}: speaks as {}\n", token.person));
    let hooks = webhooks.iter().map(|(name, hook)| {
        let proof = match hook.proof {
            WebhookProof::Token(_) => "a token",
            WebhookProof::Signature(_) => "a signature",
        };
        format!("  webhook {name}: {proof}, for {}\n", hook.person)
    });
    let more: String = tokens.chain(hooks).collect();
    format!("gateway\n  http://{listen}, {token}\n{more}")
}
