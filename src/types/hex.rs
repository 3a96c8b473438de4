//! Bytes as hexadecimal text, and random tokens.

use std::fmt::Write as _;

/// Returns bytes in hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut hex, byte| {
        write!(hex, "{byte:02x}").expect("a String takes all");
        hex
    })
}

/// Returns `BYTES` random bytes in hexadecimal, for a unique name or a token that nobody can guess.
pub fn random_hex<const BYTES: usize>() -> String {
    let mut bytes = [0; BYTES];
    getrandom::fill(&mut bytes).expect("the kernel has random bytes");
    hex(&bytes)
}
