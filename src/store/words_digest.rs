//! A digest of words that somebody had forgotten: it finds them again in a text from before, and does not tell them.
//! Guesses can be tried with it, as with a hashed password.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::types::hex::{hex, random_hex};

/// Modulus of the rolling sum: the largest prime below 2^16, so that the sum tells at most 16 bits.
const MODULUS: u64 = 65_521;

/// Base of the rolling sum.
const BASE: u64 = 257;

/// A digest of words in the form in which they are compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WordsDigest {
    /// Length of the words, in characters.
    chars: usize,
    salt: String,
    /// A rolling sum, which rules most places of a text out.
    sum: u64,
    hash: String,
}

impl WordsDigest {
    pub(super) fn new(words: &str) -> Self {
        let salt = random_hex::<16>();
        let chars: Vec<char> = words.chars().collect();
        let sum = chars.iter().fold(0, |sum, sign| next_sum(sum, *sign));
        Self { chars: chars.len(), hash: hash(&salt, words), salt, sum }
    }

    /// Returns true if a text, in the form in which words are compared, has them in it.
    pub(super) fn is_in(&self, text: &str) -> bool {
        let signs: Vec<(usize, char)> = text.char_indices().collect();
        if self.chars == 0 || signs.len() < self.chars {
            return false;
        }
        let highest = (1..self.chars).fold(1, |power, _| power * BASE % MODULUS);
        let mut sum = 0;
        for (at, (_, sign)) in signs.iter().enumerate() {
            if let Some(before) = at.checked_sub(self.chars) {
                let (_, left) = signs[before];
                sum = (sum + MODULUS - value(left) * highest % MODULUS) % MODULUS;
            }
            sum = next_sum(sum, *sign);
            if at + 1 < self.chars || sum != self.sum {
                continue;
            }
            let (begin, _) = signs[at + 1 - self.chars];
            let end = signs.get(at + 1).map_or(text.len(), |(end, _)| *end);
            if hash(&self.salt, &text[begin..end]) == self.hash {
                return true;
            }
        }
        false
    }
}

fn value(sign: char) -> u64 {
    u64::from(u32::from(sign)) % MODULUS
}

fn next_sum(sum: u64, sign: char) -> u64 {
    (sum * BASE + value(sign)) % MODULUS
}

fn hash(salt: &str, words: &str) -> String {
    hex(&Sha256::digest(format!("{salt}\0{words}")))
}
