//! The hash of a file's contents, by which a change recognises its file. Reads no file.

use std::fmt;

use sha2::{Digest, Sha256};

use crate::types::hex::hex;

/// The biggest file that may be replaced, in bytes: it is read whole to tell whether it is still
/// the one that was meant, which takes a small board about a second.
pub(super) const HASH_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// The SHA-256 of a file's contents, in lower-case hex.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Hash(String);

impl Hash {
    pub fn of(contents: &[u8]) -> Self {
        Self(hex(&Sha256::digest(contents)))
    }

    pub(super) fn finish(hasher: Sha256) -> Self {
        Self(hex(&hasher.finalize()))
    }

    /// One that was stored; none if it cannot be one.
    pub fn parse(text: &str) -> Option<Self> {
        let fits = |sign: u8| sign.is_ascii_digit() || (b'a'..=b'f').contains(&sign);
        (text.len() == 64 && text.bytes().all(fits)).then(|| Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Compares a hash with one that an [`Intent`] has stored.
impl PartialEq<str> for Hash {
    fn eq(&self, other: &str) -> bool {
        self.0 == other
    }
}
