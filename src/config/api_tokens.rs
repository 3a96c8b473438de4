//! `[api_tokens.NAME]`: tokens with which programs speak as persons.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::config::reading::NamedSection;
use crate::gateway::config::ApiToken;
use crate::people::Access;

use super::gateway::{long_secret, person};
use super::reading::{ConfigSource, Section};
use super::secrets::UnresolvedSecret;
use super::values::At;

/// A token with which a program speaks as a person, such as a client of the OpenAI-compatible API.
/// It needs `[gateway]`. You choose the name.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("required" = ["token"]))]
pub(super) struct ApiTokenSection {
    /// A secret of at least 16 characters, which the program sends as `Authorization: Bearer TOKEN`.
    token: Option<At<UnresolvedSecret>>,
    /// The person as whom it speaks: a name in `admins` or `allow` of [gateway]. Default: the owner.
    person: Option<At<String>>,
}

pub(super) fn tokens(
    source: &ConfigSource<'_>,
    sections: BTreeMap<String, ApiTokenSection>,
    access: &Access,
) -> BTreeMap<String, ApiToken> {
    let mut tokens: BTreeMap<String, ApiToken> = BTreeMap::new();
    for NamedSection { name, place, read: section } in source.named("api_tokens", sections) {
        let Some(read) = section.token(&place, access) else { continue };
        if let Some((other, _)) = tokens.iter().find(|(_, other)| other.token == read.token) {
            let title = place.title();
            place.fault(format!("{title} has the token of [api_tokens.{other}]: make another"));
        }
        tokens.insert(name, read);
    }
    tokens
}

impl ApiTokenSection {
    fn token(self, place: &Section<'_, '_>, access: &Access) -> Option<ApiToken> {
        let source = place.source;
        let wanted = "a secret of at least 16 characters, such as from `openssl rand -hex 32`";
        let token = place.require(self.token, "token", wanted);
        let token = token.and_then(|written| long_secret(source, &written));
        let person = person(source, self.person.as_ref(), access);
        Some(ApiToken { token: token?, person: person? })
    }
}
