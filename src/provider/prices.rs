//! Prices of models' tokens. The table prices.txt is made by packaging/prices/update.py; a provider's section in
//! the config may set other prices. A line `@DOMAIN` names a service. Each line after it has patterns of model names
//! (`*` stands for anything, `#` for a digit), a tab, and dollars for a million tokens: input, cached input, input
//! that is written to the cache, output. A prompt longer than the number after a second tab has the prices behind it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use url::Url;

use super::{Config, ProviderKind, Usage};

const TABLE: &str = include_str!("prices.txt");

/// Units of [`TokenPrices`] for one token at a price of one dollar for a million tokens.
const PER_MILLION: f64 = 1_000_000.0;

/// Money, in billionths of a dollar.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, serde::Deserialize,
)]
pub struct Cost(pub u64);

impl Cost {
    pub const DOLLAR: u64 = 1_000_000_000;

    pub fn from_dollars(dollars: f64) -> Self {
        // Rounded to the digits of the unit.
        Self((dollars.max(0.0) * Self::DOLLAR as f64).round() as u64)
    }

    pub fn dollars(self) -> f64 {
        self.0 as f64 / Self::DOLLAR as f64
    }

    pub fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

/// Writes `$12.34`, `$0.12`, `$0.0012`: cents, or two significant digits.
impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dollars = self.dollars();
        let digits = match self.0 {
            0 => 2,
            billionths if billionths >= Self::DOLLAR / 100 => 2,
            billionths => (10 - billionths.ilog10() as usize).min(9),
        };
        write!(f, "${dollars:.digits$}")
    }
}

/// The prices of a token, in millionths of a millionth of a dollar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenPrices {
    pub input: u64,
    pub cached: u64,
    pub cache_write: u64,
    pub output: u64,
}

impl TokenPrices {
    /// Converts dollars for a million tokens.
    pub fn of_dollars(input: f64, cached: f64, cache_write: f64, output: f64) -> Self {
        let rate = |dollars: f64| (dollars * PER_MILLION).round() as u64;
        Self {
            input: rate(input),
            cached: rate(cached),
            cache_write: rate(cache_write),
            output: rate(output),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let mut figures = text.split(' ').map(str::parse::<f64>);
        let mut next = || figures.next()?.ok();
        Some(Self::of_dollars(next()?, next()?, next()?, next()?))
    }
}

/// The price of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Price {
    pub usual: TokenPrices,
    /// The prices of prompts with more tokens than this.
    pub long: Option<(u64, TokenPrices)>,
}

impl Price {
    /// The price of the owner's own models, which cost nothing.
    pub const FREE: Self =
        Self { usual: TokenPrices { input: 0, cached: 0, cache_write: 0, output: 0 }, long: None };

    fn rates(&self, input: u64) -> TokenPrices {
        self.long.filter(|(more_than, _)| input > *more_than).map_or(self.usual, |(_, it)| it)
    }

    /// Returns the cost of a completion.
    pub fn cost(&self, usage: Usage) -> Cost {
        let rates = self.rates(usage.input);
        let plain = usage.input.saturating_sub(usage.cached + usage.cache_written);
        let parts = [
            plain.saturating_mul(rates.input),
            usage.cached.saturating_mul(rates.cached),
            usage.cache_written.saturating_mul(rates.cache_write),
            usage.output.saturating_mul(rates.output),
        ];
        Cost(parts.into_iter().fold(0, u64::saturating_add).div_ceil(1_000))
    }

    /// Returns the tokens of an answer that `cost` pays after a prompt of `input` tokens. None if they cost nothing.
    pub fn output_for(&self, cost: Cost, input: u64) -> Option<u64> {
        let prompt = self.cost(Usage { input, ..Usage::default() });
        let left = cost.0.saturating_sub(prompt.0).saturating_mul(1_000);
        left.checked_div(self.rates(input).output)
    }
}

/// The prices of the providers of the config, by the names under which they answer. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Prices(Arc<BTreeMap<String, Price>>);

impl Prices {
    pub fn new(prices: impl IntoIterator<Item = (String, Price)>) -> Self {
        Self(Arc::new(prices.into_iter().collect()))
    }

    /// Returns the price of a provider. None if it is unknown.
    pub fn of(&self, provider: &str) -> Option<Price> {
        self.0.get(provider).copied()
    }
}

/// Returns the price of a provider: from the config, or nothing for the owner's own server, or from the table.
pub fn of_provider(config: &Config) -> Option<Price> {
    if config.price.is_some() {
        return config.price;
    }
    if config.kind == ProviderKind::Rehearsal {
        return Some(Price::FREE);
    }
    let url = Url::parse(&config.base_url).ok()?;
    if crate::http::is_local(&url) {
        return Some(Price::FREE);
    }
    find(&config.model, url.host_str().unwrap_or_default())
}

/// Returns the price of a model at a host. For a host that is not in the table, that of the model's maker.
pub fn find(model: &str, host: &str) -> Option<Price> {
    let model = model.to_ascii_lowercase();
    let is_at = |domain: &str| {
        host.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    let is_listed = services().any(is_at);
    let short = model.rsplit('/').next().unwrap_or(&model);
    let mut service = "";
    for line in TABLE.lines().filter(|line| !line.starts_with('#')) {
        if let Some(domain) = line.strip_prefix('@') {
            service = domain;
            continue;
        }
        let (names, prices) = line.split_once('\t')?;
        let name = if is_listed { model.as_str() } else { short };
        if is_listed && !is_at(service)
            || !names.split(' ').any(|it| fits(it.as_bytes(), name.as_bytes()))
        {
            continue;
        }
        let mut prices = prices.split('\t');
        let usual = prices.next().and_then(TokenPrices::parse)?;
        let long = prices.next().and_then(|long| {
            let (more_than, rates) = long.split_once(' ')?;
            Some((more_than.parse().ok()?, TokenPrices::parse(rates)?))
        });
        return Some(Price { usual, long });
    }
    None
}

/// Returns the origin of the table, with version and date, from its first line.
pub fn table_origin() -> &'static str {
    let first = TABLE.lines().next().unwrap_or_default();
    first.trim_start_matches("# ").split(';').next().unwrap_or_default()
}

fn services() -> impl Iterator<Item = &'static str> {
    TABLE.lines().filter_map(|line| line.strip_prefix('@'))
}

/// Returns true if a pattern of the table fits a name.
fn fits(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern.split_first(), name.split_first()) {
        (None, None) => true,
        (Some((b'*', rest)), None) => fits(rest, name),
        (Some((b'*', rest)), Some((_, behind))) => fits(rest, name) || fits(pattern, behind),
        (Some((b'#', rest)), Some((sign, behind))) => sign.is_ascii_digit() && fits(rest, behind),
        (Some((wanted, rest)), Some((sign, behind))) => wanted == sign && fits(rest, behind),
        (None, Some(_)) | (Some(_), None) => false,
    }
}
