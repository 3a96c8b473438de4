//! A digest of forgotten words. It finds them again, in a backup for example, without revealing them. Guesses can be
//! tried against it, as against a hashed password.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::types::hex::{hex, random_hex};

/// Modulus of the rolling sum: the largest prime below 2^16, so that the sum reveals at most 16 bits.
const MODULUS: u64 = 65_521;

/// Base of the rolling sum.
const BASE: u64 = 257;

/// A digest of normalized words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WordsDigest {
    /// Length of the words in characters.
    chars: usize,
    salt: String,
    /// A rolling sum, which excludes most places of a text cheaply.
    sum: u64,
    hash: String,
}

impl WordsDigest {
    pub(super) fn new(words: &str) -> Self {
        let salt = random_hex::<16>();
        let chars: Vec<char> = words.chars().collect();
        let sum = chars.iter().fold(0, |sum, character| next_sum(sum, *character));
        Self { chars: chars.len(), hash: hash(&salt, words), salt, sum }
    }

    /// Returns true if a normalized text contains the words.
    pub(super) fn is_in(&self, text: &str) -> bool {
        let characters: Vec<(usize, char)> = text.char_indices().collect();
        if self.chars == 0 || characters.len() < self.chars {
            return false;
        }
        let highest = (1..self.chars).fold(1, |power, _| power * BASE % MODULUS);
        let mut sum = 0;
        for (index, (_, character)) in characters.iter().enumerate() {
            if let Some(removed_index) = index.checked_sub(self.chars) {
                let (_, removed) = characters[removed_index];
                sum = (sum + MODULUS - value(removed) * highest % MODULUS) % MODULUS;
            }
            sum = next_sum(sum, *character);
            if index + 1 < self.chars || sum != self.sum {
                continue;
            }
            let (begin, _) = characters[index + 1 - self.chars];
            let end = characters.get(index + 1).map_or(text.len(), |(end, _)| *end);
            if hash(&self.salt, &text[begin..end]) == self.hash {
                return true;
            }
        }
        false
    }
}

fn value(character: char) -> u64 {
    u64::from(u32::from(character)) % MODULUS
}

fn next_sum(sum: u64, character: char) -> u64 {
    (sum * BASE + value(character)) % MODULUS
}

fn hash(salt: &str, words: &str) -> String {
    hex(&Sha256::digest(format!("{salt}\0{words}")))
}
