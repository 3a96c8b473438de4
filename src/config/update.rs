//! `[update]`: the source of new versions, and the key that signs them.

use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use schemars::JsonSchema;
use serde::Deserialize;

use super::reading::Section;
use super::values::{Text, Url};

/// Length of an Ed25519 key, in bytes (RFC 8032).
const KEY_BYTES: usize = 32;

/// New versions for `peacrab update`. Without both keys it changes nothing.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct UpdateSection {
    /// The folder with release.json, its signature and the programs: an address that begins with
    /// https://.
    url: Option<Text<Url>>,
    /// The Ed25519 key that signs release.json: its 32 bytes in Base64.
    public_key: Option<Text<PublicKey>>,
}

/// The source of new versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpdateSource {
    /// Without a slash at the end.
    pub url: String,
    pub public_key: [u8; KEY_BYTES],
}

struct PublicKey([u8; KEY_BYTES]);

impl FromStr for PublicKey {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        let wanted = "must be the 32 bytes of an Ed25519 key in Base64";
        let bytes = STANDARD.decode(text.trim()).map_err(|_| wanted)?;
        bytes.try_into().map(Self).map_err(|_| wanted)
    }
}

impl UpdateSection {
    pub(super) fn config(self, place: &Section<'_, '_>) -> Option<UpdateSource> {
        match (self.url, self.public_key) {
            (Some(url), Some(key)) => Some(UpdateSource { url: url.0.0, public_key: key.0.0 }),
            (None, None) => None,
            // One that is there and cannot be used has a fault of its own.
            _ if place.has("url") && place.has("public_key") => None,
            _ => {
                place.fault("[update] needs both `url` and `public_key`");
                None
            }
        }
    }
}
