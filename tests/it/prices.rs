//! What tokens cost: the table gives what the package computes from which it is made.

use peacrab::config::{self, Environment};
use peacrab::provider::Usage;
use peacrab::provider::prices::{Cost, Price, TokenPrices, find, of_provider, table_origin};

const EXAMPLES: &str = include_str!("prices/examples.txt");

#[test]
fn the_table_costs_what_its_source_computes() {
    let mut checked = 0;
    for line in EXAMPLES.lines().filter(|line| !line.starts_with('#')) {
        let parts: Vec<_> = line.split(' ').collect();
        let [service, model, numbers @ ..] = parts.as_slice() else { panic!("{line}") };
        let number = |at: usize| -> u64 { numbers[at].parse().unwrap() };
        let usage = Usage {
            input: number(0),
            cached: number(1),
            cache_written: number(2),
            output: number(3),
        };
        let dollars: f64 = numbers[4].parse().unwrap();
        let price = find(model, &format!("api.{service}")).unwrap_or_else(|| panic!("{line}"));
        let cost = price.cost(usage).dollars();
        assert!((cost - dollars).abs() < 0.000_001, "{line}: {cost}");
        checked += 1;
    }
    assert!(checked > 300, "{checked}");
}

#[test]
fn a_model_is_found_by_its_host_and_else_by_its_maker() {
    let sonnet = find("claude-sonnet-4-5-20250929", "api.anthropic.com").unwrap();
    assert_eq!(sonnet.usual, TokenPrices::of_dollars(3.0, 0.3, 3.75, 15.0));
    assert_eq!(sonnet.long.unwrap().0, 200_000);
    assert_eq!(find("anthropic/claude-sonnet-4-5", "proxy.example"), Some(sonnet));
    // A host that is listed sells what it lists, and nothing else.
    assert_eq!(find("claude-sonnet-4-5", "api.openai.com"), None);
    assert_eq!(find("a-model-of-nobody", "proxy.example"), None);
    assert!(find("openai/gpt-4o-mini", "openrouter.ai").is_some());
    assert!(table_origin().starts_with("genai-prices 0."), "{}", table_origin());
}

#[test]
fn money_is_shown_with_two_digits_that_say_something() {
    for (dollars, shown) in [
        (0.0, "$0.00"),
        (12.345, "$12.35"),
        (0.123, "$0.12"),
        (0.01, "$0.01"),
        (0.004_2, "$0.0042"),
        (0.000_012, "$0.000012"),
        (0.000_000_001, "$0.000000001"),
    ] {
        assert_eq!(Cost::from_dollars(dollars).to_string(), shown);
    }
}

fn provider(section: &str) -> Result<Option<Price>, String> {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("config.toml"), section).unwrap();
    let config = config::load(home.path(), None, &Environment::default());
    let config = config.map_err(|errors| errors.to_string())?;
    Ok(of_provider(&config.providers["main"]))
}

#[test]
fn a_section_says_its_own_price_and_a_server_of_ones_own_costs_nothing() {
    let hosted = "[providers.main]\ntype = \"openai\"\nmodel = \"mystery\"\n\
                  base_url = \"https://models.example/v1\"\n";
    assert_eq!(provider(hosted), Ok(None));
    let priced = format!("{hosted}price_input = 2\nprice_cached = 0.25\nprice_output = 8.5\n");
    let usual = TokenPrices::of_dollars(2.0, 0.25, 2.0, 8.5);
    assert_eq!(provider(&priced), Ok(Some(Price { usual, long: None })));
    let own = "[providers.main]\ntype = \"openai\"\nmodel = \"gpt-4o\"\n\
               base_url = \"http://127.0.0.1:11434/v1\"\n";
    assert_eq!(provider(own), Ok(Some(Price::FREE)));
    let half = provider(&format!("{hosted}price_input = 2\n")).unwrap_err();
    assert!(half.contains("price_output"), "{half}");
    let wrong = provider(&format!("{hosted}price_input = -2.5\n")).unwrap_err();
    assert!(wrong.contains("must be from 0"), "{wrong}");
    let word = provider(&format!("{hosted}price_input = \"2\"\n")).unwrap_err();
    assert!(word.contains("an amount of dollars"), "{word}");
}

#[test]
fn a_long_prompt_and_an_answer_for_what_is_left() {
    let usual = TokenPrices::of_dollars(1.0, 0.1, 1.25, 5.0);
    let price = Price { usual, long: Some((1_000, TokenPrices::of_dollars(2.0, 0.2, 2.5, 10.0))) };
    let cost = |input| price.cost(Usage { input, ..Usage::default() });
    assert_eq!(cost(1_000), Cost::from_dollars(0.001));
    assert_eq!(cost(1_001), Cost::from_dollars(0.002_002));
    assert_eq!(price.output_for(Cost::from_dollars(0.002), 1_000), Some(200));
    assert_eq!(price.output_for(Cost::from_dollars(0.000_5), 1_000), Some(0));
    assert_eq!(Price::FREE.output_for(Cost(0), 1_000), None);
}
