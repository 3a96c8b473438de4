//! `peacrab usage`: what models have used and cost, as words, a chart, JSON or CSV.

use std::fmt::Write as _;
use std::path::Path;

use chrono_tz::Tz;
use serde_json::Value;

use super::chat;
use crate::control::listing::Listing;
use crate::conversation::ledger::breakdown::UsageBy;
use crate::provider::prices::Cost;
use crate::replies::grouped;

/// The width of the longest bar of the chart, in columns.
const BAR_COLUMNS: u64 = 24;

#[derive(clap::Args)]
pub(super) struct Args {
    /// Sum up by this
    #[arg(long, value_enum)]
    by: Option<UsageBy>,
    /// The number of days to look back
    #[arg(long, default_value_t = 30, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=365))]
    days: u32,
    /// As JSON
    #[arg(long)]
    json: bool,
    /// As CSV, with a line of headings
    #[arg(long, conflicts_with = "json")]
    csv: bool,
}

/// Returns the usage as it was asked for.
pub(super) async fn show(home: &Path, asked: &Args, zone: Tz) -> anyhow::Result<String> {
    if asked.by.is_none() && !asked.json && !asked.csv {
        return chat::usage(home, zone).await;
    }
    // Without --by, JSON has today beside the 30 days.
    let by = asked.by.or((!asked.json).then_some(UsageBy::Provider));
    let listed = chat::listing(home, Listing::Usage { by, days: asked.days }, zone).await?;
    if asked.json {
        return Ok(serde_json::to_string_pretty(&listed)?);
    }
    let sums = listed["sums"].as_array().map(Vec::as_slice).unwrap_or_default();
    Ok(if asked.csv { csv(by.unwrap_or_default(), sums) } else { chart(sums, asked.days) })
}

fn number(sum: &Value, key: &str) -> u64 {
    sum[key].as_u64().unwrap_or_default()
}

/// RFC 4180.
fn csv(by: UsageBy, sums: &[Value]) -> String {
    let mut text = format!(
        "{},calls,input,cached,cache_written,output,dollars,unpriced,estimated",
        by.as_str()
    );
    for sum in sums {
        let name = sum["name"].as_str().unwrap_or_default();
        let is_plain = !name.contains([',', '"', '\n', '\r']);
        let name =
            if is_plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) };
        let _ = write!(text, "\n{name}");
        for key in ["calls", "input", "cached", "cache_written", "output"] {
            let _ = write!(text, ",{}", number(sum, key));
        }
        let dollars = Cost(number(sum, "cost")).dollars();
        let _ =
            write!(text, ",{dollars:.9},{},{}", number(sum, "unpriced"), number(sum, "estimated"));
    }
    text
}

/// A line for each sum, with a bar by its tokens.
fn chart(sums: &[Value], days: u32) -> String {
    if sums.is_empty() {
        return format!("No tokens were used in the last {days} days.");
    }
    let tokens = |sum: &Value| number(sum, "input") + number(sum, "output");
    let most = sums.iter().map(tokens).max().unwrap_or_default().max(1);
    let name = |sum: &Value| sum["name"].as_str().unwrap_or_default().to_owned();
    let width = sums.iter().map(|sum| name(sum).chars().count()).max().unwrap_or_default();
    let lines = sums.iter().map(|sum| {
        let bar = (tokens(sum) * BAR_COLUMNS).div_ceil(most);
        let bar = "█".repeat(usize::try_from(bar).unwrap_or_default());
        let cost = match (number(sum, "unpriced"), number(sum, "calls")) {
            (0, _) => Cost(number(sum, "cost")).to_string(),
            (unpriced, calls) if unpriced == calls => "price unknown".to_owned(),
            _ => format!("more than {}", Cost(number(sum, "cost"))),
        };
        let tokens = grouped(tokens(sum));
        format!("{:width$}  {bar:24}  {tokens} tokens, {cost}", name(sum))
    });
    lines.collect::<Vec<_>>().join("\n")
}
