//! A text that must not be shown: it has no `Debug` or `Display` of its content, cannot be serialized, and its
//! memory is overwritten when it is dropped. As a last safeguard, a redactor removes secrets from texts for logs,
//! models and people. Not here: where secrets come from (`config`).

use std::borrow::Cow;
use std::fmt::{self, Write};
use std::sync::Arc;

use zeroize::ZeroizeOnDrop;

/// A token or key. [`Secret::reveal`] is the only way to read it; keep its uses few.
#[derive(Clone, PartialEq, Eq, ZeroizeOnDrop)]
pub struct Secret(String);

impl Secret {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// The value of an environment variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VariableValue {
    Plain(String),
    Secret(Secret),
}

impl VariableValue {
    /// Creates the value of a variable in a file. It is secret if its name suggests that.
    pub fn new(name: &str, value: &str) -> Self {
        let name = name.to_ascii_uppercase();
        let suspicious = ["KEY", "TOKEN", "SECRET", "PASS", "AUTH", "CREDENTIAL"];
        match suspicious.iter().any(|word| name.contains(word)) {
            true => Self::Secret(Secret::new(value)),
            false => Self::Plain(value.to_owned()),
        }
    }

    pub fn secret(&self) -> Option<&Secret> {
        match self {
            Self::Plain(_) => None,
            Self::Secret(secret) => Some(secret),
        }
    }

    pub fn reveal(&self) -> &str {
        match self {
            Self::Plain(value) => value,
            Self::Secret(value) => value.reveal(),
        }
    }
}

/// Removes secrets from texts: those that it was made with, and always everything that looks like a
/// Telegram token or a key of one of the larger vendors.
#[derive(Clone, Default)]
pub struct Redactor {
    /// The secrets in all forms in which they may occur, longest first.
    needles: Arc<[Secret]>,
}

/// Minimum length of a secret. Shorter ones would remove words from every log line, and no platform has
/// any that short.
const SECRET_CHARS_MIN: usize = 6;

const MASK: &str = "[secret]";

impl Redactor {
    pub fn new<'s>(secrets: impl IntoIterator<Item = &'s Secret>) -> Self {
        // The last word of `Bearer …` is as secret as the whole.
        let with_last_word = |secret: &'s Secret| {
            let secret = secret.reveal();
            [secret, secret.rsplit(' ').next().unwrap_or(secret)]
        };
        let secrets = secrets.into_iter().flat_map(with_last_word);
        let mut needles: Vec<_> = secrets
            .filter(|secret| secret.chars().count() >= SECRET_CHARS_MIN)
            .flat_map(forms)
            .collect();
        needles.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        needles.dedup();
        Self { needles: needles.into_iter().map(Secret::new).collect() }
    }

    pub fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut text = Cow::Borrowed(text);
        for needle in self.needles.iter().map(Secret::reveal) {
            if text.contains(needle) {
                text = Cow::Owned(text.replace(needle, MASK));
            }
        }
        match mask_keys(&text) {
            Some(masked) => Cow::Owned(masked),
            None => text,
        }
    }
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Redactor(…)")
    }
}

/// Returns the forms in which a secret may occur in headers, bodies, URLs and JSON.
fn forms(secret: &str) -> [String; 6] {
    let percent = percent_encoded(secret);
    [
        secret.to_owned(),
        secret.escape_debug().to_string(),
        base64(secret.as_bytes(), b"+/"),
        base64(secret.as_bytes(), b"-_"),
        percent.to_lowercase_escapes(),
        percent.0,
    ]
}

/// Percent-encoded text. Only the characters that RFC 3986 calls unreserved stay.
struct PercentEncoded(String);

fn percent_encoded(text: &str) -> PercentEncoded {
    let mut encoded = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                encoded.push(byte.into());
            }
            _ => write!(encoded, "%{byte:02X}").expect("a String takes all"),
        }
    }
    PercentEncoded(encoded)
}

impl PercentEncoded {
    fn to_lowercase_escapes(&self) -> String {
        let mut parts = self.0.split('%');
        let mut text = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (digits, rest) = part.split_at(2);
            write!(text, "%{}{rest}", digits.to_lowercase()).expect("a String takes all");
        }
        text
    }
}

/// Encodes bytes as base64 without padding (RFC 4648). `last` holds the two characters in which its alphabets
/// differ.
fn base64(bytes: &[u8], last: &[u8; 2]) -> String {
    const FIRST: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    let digit = |bits: u32| match (bits & 63) as usize {
        value @ ..62 => char::from(FIRST[value]),
        value => char::from(last[value - 62]),
    };
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let bits = (0..3)
            .fold(0, |bits, at| bits << 8 | u32::from(chunk.get(at).copied().unwrap_or_default()));
        // Three bytes are four digits, two are three, one is two.
        text.extend((0..=chunk.len()).map(|at| digit(bits >> (18 - 6 * at))));
    }
    text
}

/// Masks everything that looks like a key. None if nothing does.
fn mask_keys(text: &str) -> Option<String> {
    let mut masked = String::new();
    let (mut done, mut at) = (0, 0);
    while at < text.len() {
        let rest = &text.as_bytes()[at..];
        let before = at.checked_sub(1).map(|before| text.as_bytes()[before]);
        match telegram_token(before, rest).or_else(|| vendor_key(before, rest)) {
            Some(length) => {
                masked.push_str(&text[done..at]);
                masked.push_str(MASK);
                at += length;
                done = at;
            }
            None => at += 1,
        }
    }
    if done == 0 {
        return None;
    }
    masked.push_str(&text[done..]);
    Some(masked)
}

/// Returns the length of a Telegram token at the start of `rest`: a bot's id of at least 6 digits, a
/// colon, and at least 30 characters.
fn telegram_token(before: Option<u8>, rest: &[u8]) -> Option<usize> {
    if before.is_some_and(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if digits < 6 {
        return None;
    }
    let after = &rest[digits..];
    let colon = [&b":"[..], b"%3A", b"%3a"].into_iter().find(|form| after.starts_with(form))?;
    let key = key_length(&after[colon.len()..]);
    (key >= 30).then_some(digits + colon.len() + key)
}

/// Prefixes of vendors' keys: model APIs, GitHub, GitLab, Slack, AWS, Google, Hugging Face, npm, PyPI,
/// Stripe.
const KEY_PREFIXES: &[&str] = &[
    "sk-",
    "gsk_",
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "xoxa-",
    "xapp-",
    "AKIA",
    "ASIA",
    "AIza",
    "hf_",
    "npm_",
    "pypi-",
    "sk_live_",
    "rk_live_",
];

/// Returns the length of a vendor's key at the start of `rest`. It must contain a digit, and must not
/// begin in the middle of a word (`task-`).
fn vendor_key(before: Option<u8>, rest: &[u8]) -> Option<usize> {
    const CHARS_MIN: usize = 16;
    if before.is_some_and(|byte| byte.is_ascii_alphanumeric()) {
        return None;
    }
    let is_prefix = |prefix: &&&str| rest.starts_with(prefix.as_bytes());
    let prefix = KEY_PREFIXES.iter().find(is_prefix)?.len();
    let key = &rest[prefix..];
    let key = &key[..key_length(key)];
    let is_key = key.len() >= CHARS_MIN && key.iter().any(u8::is_ascii_digit);
    is_key.then_some(prefix + key.len())
}

/// Returns the number of leading bytes that a key may consist of.
fn key_length(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(byte)).count()
}
