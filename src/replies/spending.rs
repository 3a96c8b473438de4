//! Sentences about usage, budgets and rate limits.

use std::fmt::Write as _;

/// Tokens and money of some model calls.
#[derive(Clone, Debug, Default)]
pub struct UsageShown {
    pub calls: u64,
    pub read: u64,
    pub cached: u64,
    pub written: u64,
    /// With its currency.
    pub cost: String,
    /// Number of calls whose price is unknown.
    pub unpriced: u64,
}

/// The card that answers `/usage`.
pub struct UsageCard<'a> {
    pub today: UsageShown,
    /// Of the last 30 days.
    pub month: UsageShown,
    /// By provider, of the last 30 days.
    pub providers: Vec<(String, UsageShown)>,
    /// Where the prices are from.
    pub prices: &'a str,
}

pub const USAGE_FOR_ADMINS: &str = "Only my owner and admins can see my token usage.";

/// The answer to `/usage`.
pub fn usage(card: &UsageCard<'_>) -> String {
    if card.month.calls == 0 {
        return "I used no tokens in the last 30 days.".to_owned();
    }
    let mut text = format!(
        "Usage\nToday: {}\nLast 30 days: {}",
        usage_line(&card.today),
        usage_line(&card.month)
    );
    for (provider, used) in &card.providers {
        let _ = write!(text, "\n  {}: {}", super::as_is(provider), usage_line(used));
    }
    let _ = write!(text, "\nPrices: {}, or your config's.", card.prices);
    text
}

fn usage_line(used: &UsageShown) -> String {
    let UsageShown { calls, read, cached, written, cost, unpriced } = used;
    if *calls == 0 {
        return "nothing".to_owned();
    }
    let share = cached * 100 / (*read).max(1);
    let cached = if *cached > 0 { format!(" ({share} % from the cache)") } else { String::new() };
    let cost = match unpriced {
        0 => cost.clone(),
        unpriced if unpriced == calls => "price unknown".to_owned(),
        unpriced => format!("{cost} and {} of unknown price", super::counted(*unpriced, "call")),
    };
    format!("{} read{cached}, {} written, {cost}", grouped(*read), grouped(*written))
}

/// A number with its thousands apart: `5,000`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The calls that count for a budget, as people read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BudgetFor {
    You,
    /// Everything together.
    Total,
    Jobs,
    Job(i64),
    Heartbeat,
    Other(String),
}

/// A budget and what is used of it.
#[derive(Clone, Debug)]
pub struct BudgetShown {
    pub whose: BudgetFor,
    /// "day" or "month".
    pub period: &'static str,
    /// Used, and the most.
    pub tokens: Option<(u64, u64)>,
    /// The same of money, with its currency.
    pub cost: Option<(String, String)>,
    pub percent: u64,
    /// Other calls are under way, which may use less than is reserved for them.
    pub is_in_use: bool,
    /// When it is full again: "tomorrow at 00:00".
    pub until: String,
}

impl BudgetShown {
    fn name(&self) -> String {
        let period = match self.period {
            "day" => "daily",
            _ => "monthly",
        };
        match &self.whose {
            BudgetFor::You => format!("Your {period} budget"),
            BudgetFor::Total => format!("My {period} budget"),
            BudgetFor::Jobs => format!("The {period} budget for jobs"),
            BudgetFor::Job(number) => format!("The {period} budget of job #{number}"),
            BudgetFor::Heartbeat => format!("The {period} budget of the heartbeat"),
            BudgetFor::Other(name) => format!("The {period} budget of {}", super::as_is(name)),
        }
    }

    fn most(&self) -> String {
        let tokens = self.tokens.map(|(_, most)| format!("{} tokens", grouped(most)));
        let cost = self.cost.as_ref().map(|(_, most)| most.clone());
        tokens.into_iter().chain(cost).collect::<Vec<_>>().join(" or ")
    }

    fn used(&self) -> String {
        let tokens = self
            .tokens
            .map(|(used, most)| format!("{} of {} tokens", grouped(used), grouped(most)));
        let cost = self.cost.as_ref().map(|(used, most)| format!("{used} of {most}"));
        tokens.into_iter().chain(cost).collect::<Vec<_>>().join(", ")
    }
}

/// The refusal of a call that does not fit into a budget. `may_raise` is true for the owner.
pub fn over_budget(budget: &BudgetShown, may_raise: bool) -> String {
    let raise = if may_raise { " /budget shows and changes it." } else { "" };
    let (name, most, until) = (budget.name(), budget.most(), &budget.until);
    if budget.is_in_use {
        return format!(
            "{name} of {most}: the rest is reserved for an answer in progress. Try again once that has arrived. It resets {until}.{raise}"
        );
    }
    let is_partly = match budget.percent < 100 {
        true => ": the rest is too little for an answer",
        false => "",
    };
    format!("{name} of {most} is used up{is_partly}. It resets {until}.{raise}")
}

/// The warning that a budget is nearly used.
pub fn budget_nearly_used(budget: &BudgetShown) -> String {
    format!(
        "{} is {} % used ({}). It resets {}.",
        budget.name(),
        budget.percent,
        budget.used(),
        budget.until
    )
}

/// The answer to `/budget` for somebody.
pub fn budgets(shown: &[BudgetShown]) -> String {
    match shown {
        [] => "No budget limits you.".to_owned(),
        shown => budget_lines(shown),
    }
}

/// The answer to `/budget` for the owner; `each` are the lines of [`budget_each`].
pub fn all_budgets(shown: &[BudgetShown], each: &[String]) -> String {
    let shown = (!shown.is_empty()).then(|| budget_lines(shown));
    let lines: Vec<_> = shown.into_iter().chain(each.iter().cloned()).collect();
    match lines.is_empty() {
        true => format!("There are no budgets.\n{BUDGET_USAGE}"),
        false => format!("{}\n{BUDGET_USAGE}", lines.join("\n")),
    }
}

fn budget_lines(shown: &[BudgetShown]) -> String {
    let line = |it: &BudgetShown| format!("{}: {}, resets {}", it.name(), it.used(), it.until);
    shown.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// A budget that each of several has.
pub fn budget_each(whose: &str, period: &str, tokens: Option<u64>, cost: Option<String>) -> String {
    let tokens = tokens.map(|most| format!("{} tokens", grouped(most)));
    let most: Vec<_> = tokens.into_iter().chain(cost).collect();
    format!("Each {whose}: {} a {period}", most.join(" or "))
}

pub const BUDGET_USAGE: &str = "\
To change one: /budget set WHOSE AMOUNT PER, such as /budget set guest 20000 month, /budget set p5 $2 day, or /budget set \
total $5 day. WHOSE is total, jobs, job, job 3, heartbeat, a role or a person's number (/people). 0 is no limit; /budget \
reset WHOSE goes back to the config.";

pub const BUDGET_FOR_OWNER: &str = "Only my owner can change budgets, in private.";

pub fn budget_is_set(whose: &str, amount: &str, period: &str) -> String {
    match amount {
        "0" => format!("The budget of {whose} no longer has this limit for a {period}."),
        amount => format!("The budget of {whose} is now {amount} for a {period}."),
    }
}

pub fn budget_is_reset(whose: &str, was_set: bool) -> String {
    match was_set {
        true => format!("The budget of {whose} follows the config again."),
        false => format!("The budget of {whose} already follows the config."),
    }
}
