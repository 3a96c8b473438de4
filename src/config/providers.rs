//! `[providers.NAME]`: models behind APIs.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::config::reading::NamedSection;
use crate::provider::ProviderKind::{Anthropic, Rehearsal};
use crate::provider::vendors::{OPENAI_URL, VENDORS, Vendor, default_url};
use crate::provider::{self, ProviderKind, ProviderTimeouts, Structured, Tools};
use crate::secret::Secret;

use super::fault::FaultPlace;
use super::keys::KeysByKind;
use super::money::{Dollars, PriceKeys};
use super::reading::{ConfigSource, Section};
use super::values::{At, Flag, Length, ModelUrl, Text, Within};
use crate::config::secrets::{self, UnresolvedSecret};

/// Default maximum of an answer, in tokens: a file of a thousand lines, or long reasoning with its result.
const TOKENS_MAX: u32 = 16_384;

/// More than any model gives in one answer.
const TOKENS_MAX_MOST: u32 = 1_000_000;

/// Bounds of the context window, in tokens: the least that has room for the prompt itself, and more than any
/// model has.
const CONTEXT_LEAST: u32 = 2_048;
const CONTEXT_MOST: u32 = 20_000_000;

/// A day; what is slower answers nobody.
const FIRST_BYTE_SECONDS_MOST: u64 = 24 * 3600;

/// The configs by name. `None` for one with faults, whose name still exists.
pub(super) type Providers = Vec<(String, Option<provider::Config>)>;

/// A model behind an API. You choose the name. There can be many. If the config file has no
/// provider, ANTHROPIC_API_KEY, OPENAI_API_KEY and OPENROUTER_API_KEY start the providers that they
/// name, and ANTHROPIC_BASE_URL, OPENAI_BASE_URL and OPENROUTER_BASE_URL name other addresses for
/// them, such as a proxy's. A section goes to its own `base_url` alone.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("required" = ["type", "model"], "limited" = LIMITED))]
pub(super) struct ProviderSection {
    /// anthropic | openai (every OpenAI-compatible endpoint) | rehearsal (no model: fixed rules, to
    /// try the program; it has no other keys).
    r#type: Option<ProviderKind>,
    /// The model's name, as the vendor writes it.
    model: Option<String>,
    /// A secret: the API key. Only the vendors' own endpoints require it.
    api_key: Option<At<UnresolvedSecret>>,
    /// The endpoint. http:// is allowed for this machine and for local networks: private and
    /// link-local addresses, names without a dot, and those that end in .local, .lan, .internal or
    /// .home.arpa. Default: https://api.anthropic.com or https://api.openai.com/v1, by type.
    base_url: Option<At<Text<ModelUrl>>>,
    /// If true, http:// is allowed for any address. All that is said goes there unencrypted.
    allow_http: Flag<false>,
    /// The longest answer to ask for, in tokens, its reasoning included. Default: 16384 at
    /// api.anthropic.com and api.openai.com; on this machine and local networks a quarter of
    /// `context`, at least 1024 and at most 8192; elsewhere the server decides.
    max_tokens: Option<Within<1, TOKENS_MAX_MOST>>,
    /// The model's context window, prompt and answer together, in tokens. A conversation is
    /// summarized before it is full; from 8192 down, the prompt is a short one. Default: your own
    /// server is asked (Ollama, llama.cpp, vLLM); if it does not tell, by the model's name for
    /// claude, gpt, o1 to o4 and gemini; others 128000 at the vendors' own addresses, and 32768
    /// elsewhere. What is set here is not asked for; a refusal that names less still counts.
    context: Option<Within<CONTEXT_LEAST, CONTEXT_MOST>>,
    /// The time to wait for the first word of an answer: a number with s, m or h. A model on a small board reads a long
    /// prompt for minutes; people see meanwhile for how long. Default: 15m on this machine and local networks, 90s
    /// elsewhere.
    first_byte: Option<Text<Length<1, FIRST_BYTE_SECONDS_MOST>>>,
    /// The longest silence of a model in the middle of an answer, which is then reported. Default: 5m on this machine
    /// and local networks, 60s elsewhere.
    stall: Option<Text<Length<1, FIRST_BYTE_SECONDS_MOST>>>,
    /// The format of tool calls: native | text (for a model or server without tool support: the
    /// prompt describes the tools, and the model writes its calls as text).
    tools: Tools,
    /// The way in which the model says on which facts an answer rests: auto | on (by a JSON schema of the
    /// answer, of which people see the text alone) | off (by a mark at its end, which nobody sees). auto is
    /// on for models of api.openai.com, openai.azure.com and api.anthropic.com that take one. An endpoint
    /// that refuses the schema gets the mark for a day; with tools = "text" it always does.
    structured: Structured,
    /// If true, the model sees pictures that people send; else the prompt only names their files.
    /// Default: true for type anthropic and at api.openai.com; elsewhere false.
    images: Option<bool>,
    /// The price of a million tokens of input, in dollars. Default: the price table's, which comes with
    /// the program; servers on this machine and local networks cost nothing.
    price_input: Option<Dollars>,
    /// The same for input that the provider has in its cache. Default: `price_input`, where that is set.
    price_cached: Option<Dollars>,
    /// The same for input that is written to the cache. Default: `price_input`, where that is set.
    price_cache_write: Option<Dollars>,
    /// The same for output.
    price_output: Option<Dollars>,
}

const LIMITED: KeysByKind = &[(
    &[
        "model",
        "api_key",
        "base_url",
        "allow_http",
        "max_tokens",
        "context",
        "first_byte",
        "stall",
        "tools",
        "structured",
        "images",
        "price_input",
        "price_cached",
        "price_cache_write",
        "price_output",
    ],
    &["anthropic", "openai"],
)];

pub(super) fn configs(
    source: &ConfigSource<'_>,
    sections: BTreeMap<String, ProviderSection>,
) -> Providers {
    let sections = source.named("providers", sections).into_iter();
    sections
        .map(|NamedSection { name, place, read: section }| (name, section.config(&place)))
        .collect()
}

impl ProviderSection {
    fn config(self, place: &Section<'_, '_>) -> Option<provider::Config> {
        let kind = place.require(self.r#type, "type", "one of anthropic, openai, rehearsal")?;
        let (word, vendor_url) = (kind.as_str(), default_url(kind));
        place.allow_only(LIMITED, word, &format!("a provider of type {word}"));
        if kind == Rehearsal {
            return Some(rehearsal());
        }
        let wanted = "the model's name, as the vendor writes it";
        let base_url = self.model_url(place);
        let model = place.require(self.model, "model", wanted);
        let base_url = base_url.and_then(|url| place.or(url, "base_url", vendor_url.to_owned()));
        let is_vendor = base_url.as_deref() == Some(vendor_url);
        let api_key = api_key(place, self.api_key.as_ref(), is_vendor.then_some(vendor_url));
        let prices = PriceKeys {
            input: self.price_input,
            cached: self.price_cached,
            cache_write: self.price_cache_write,
            output: self.price_output,
        };
        let (model, base_url, api_key) = (model?, base_url?, api_key?);
        Some(provider::Config {
            kind,
            api_key,
            // Other servers know best how long their model's answers can be.
            tokens_max: self.max_tokens.map(|it| it.0).or(is_vendor.then_some(TOKENS_MAX)),
            context_is_set: self.context.is_some(),
            context: self
                .context
                .map_or_else(|| provider::default_context(&model, &base_url), |it| it.0),
            tools: self.tools,
            structured: self.structured,
            timeouts: ProviderTimeouts {
                first_byte: self.first_byte.map(|length| length.0.0),
                stall: self.stall.map(|length| length.0.0),
            },
            price: prices.price(place),
            images: self.images.unwrap_or_else(|| sees_pictures(kind, &base_url)),
            model,
            base_url,
        })
    }
}

impl ProviderSection {
    /// Returns the address as it is called. The outer `None` if it is not allowed.
    fn model_url(&self, place: &Section<'_, '_>) -> Option<Option<String>> {
        let Some(written) = &self.base_url else { return Some(None) };
        let ModelUrl { url, is_plain, is_local } = &written.value.0;
        if *is_plain && !is_local && !self.allow_http.0 {
            let message = "must begin with https://: http:// is for this machine and local networks (private addresses, \
                         names such as ollama or box.lan); allow_http = true allows it all the same";
            place.source.refuse(written, message);
            return None;
        }
        if *is_plain && self.api_key.is_some() {
            note_plain_key(place.source, &place.title(), url);
        }
        Some(Some(url.clone()))
    }
}

/// Warns of a key that others can read on its way, unless its address is on this machine. `title` says where the address
/// is from.
fn note_plain_key(source: &ConfigSource<'_>, title: &str, url: &str) {
    let is_here = url::Url::parse(url).is_ok_and(|url| crate::http::is_loopback(&url));
    if !is_here {
        source.note(format!(
            "{title}: the key is sent unencrypted to {url}: whoever listens on that network can read it"
        ));
    }
}

/// Returns the key, which `vendor_url` requires. `None` if it is missing there or cannot be used.
pub(super) fn api_key(
    place: &Section<'_, '_>,
    written: Option<&At<UnresolvedSecret>>,
    vendor_url: Option<&str>,
) -> Option<Option<Secret>> {
    let written = match vendor_url {
        Some(url) => Some(place.require(written, "api_key", &format!("{url} requires one"))?),
        None => written,
    };
    match written {
        Some(written) => secrets::read(place.source, written).map(Some),
        None => Some(None),
    }
}

/// Returns the provider without a model.
fn rehearsal() -> provider::Config {
    provider::Config {
        kind: Rehearsal,
        model: "rehearsal".to_owned(),
        api_key: None,
        base_url: String::new(),
        tokens_max: None,
        context: provider::default_context("rehearsal", ""),
        context_is_set: true,
        tools: Tools::Native,
        structured: Structured::Auto,
        images: false,
        timeouts: ProviderTimeouts::default(),
        price: None,
    }
}

/// Returns true if the models of a vendor usually see pictures.
fn sees_pictures(kind: ProviderKind, base_url: &str) -> bool {
    kind == Anthropic || base_url == OPENAI_URL
}

/// Returns one provider for each key that is set, or the rehearsal one, for a config that names none.
pub(super) fn from_environment(source: &ConfigSource<'_>) -> Providers {
    let found: Vec<_> = VENDORS
        .iter()
        .filter(|vendor| source.env.raw(vendor.key_variable).is_some())
        .map(|vendor| (vendor.word.to_owned(), of_vendor(source, vendor)))
        .collect();
    if found.is_empty() { vec![("rehearsal".to_owned(), Some(rehearsal()))] } else { found }
}

/// Returns the provider of a vendor whose key is set. `None` if its variables cannot be used.
fn of_vendor(source: &ConfigSource<'_>, vendor: &Vendor) -> Option<provider::Config> {
    // Both, so that all faults are reported at once.
    let (base_url, api_key) =
        (address(source, vendor), secrets::of_variable(source, vendor.key_variable));
    let (base_url, api_key) = (base_url?, api_key?);
    Some(provider::Config {
        kind: vendor.kind,
        model: vendor.model.to_owned(),
        api_key: Some(api_key),
        tokens_max: (base_url == vendor.base_url).then_some(TOKENS_MAX),
        context: provider::default_context(vendor.model, &base_url),
        context_is_set: false,
        tools: Tools::Native,
        structured: Structured::Auto,
        images: sees_pictures(vendor.kind, &base_url),
        timeouts: ProviderTimeouts::default(),
        price: None,
        base_url,
    })
}

/// Returns the address of a vendor: that in its variable, or the vendor's own. `None` if the variable cannot be used.
fn address(source: &ConfigSource<'_>, vendor: &Vendor) -> Option<String> {
    let variable = vendor.address_variable;
    let Some(written) = source.env.raw(variable) else { return Some(vendor.base_url.to_owned()) };
    let parsed = written.to_str().ok_or("is not UTF-8").and_then(str::parse::<ModelUrl>);
    let refused = match parsed {
        Ok(ModelUrl { is_plain: true, is_local: false, .. }) => {
            "must begin with https://: http:// is for this machine and local networks (private addresses, names such as \
             ollama or box.lan)"
        }
        Ok(ModelUrl { url, is_plain, .. }) => {
            if url != vendor.base_url {
                let own = vendor.base_url;
                source.note(format!(
                    "{variable}: the key and all that is said go to {url}, not to {own}"
                ));
            }
            if is_plain {
                note_plain_key(source, variable, &url);
            }
            return Some(url);
        }
        Err(message) => message,
    };
    source.fault_in(FaultPlace::Environment, format!("{variable} {refused}"));
    None
}
