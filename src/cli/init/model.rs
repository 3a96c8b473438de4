//! The first step of `init`: a model that has answered with a word.

use std::time::Duration;

use anyhow::bail;
use zeroize::Zeroizing;

use super::super::dialog::TRIES_MAX;
use super::setup::{Setup, secret_of};
use crate::config::Config;
use crate::config::edit::{NewSection, SecretPlace};
use crate::provider::listing::{ListingError, LocalServer, find_local_servers, list_models};
use crate::provider::{self, ProviderKind, ask_for_a_word};
use crate::secret::Secret;

/// A model on a small board is loaded for about a minute before its first word.
const WORD_TIME_MAX: Duration = Duration::from_secs(180);

/// Models of a server that are listed to choose from.
const MODELS_SHOWN: usize = 9;

/// A vendor that a key alone gives access to.
struct Vendor {
    word: &'static str,
    title: &'static str,
    variable: &'static str,
    kind: &'static str,
    model: &'static str,
    /// Where it is not the API's own.
    base_url: Option<&'static str>,
    keys: &'static str,
}

const VENDORS: [Vendor; 3] = [
    Vendor {
        word: "anthropic",
        title: "Claude, by Anthropic",
        variable: "ANTHROPIC_API_KEY",
        kind: "anthropic",
        model: "claude-sonnet-4-5",
        base_url: None,
        keys: "https://console.anthropic.com/settings/keys",
    },
    Vendor {
        word: "openai",
        title: "GPT, by OpenAI",
        variable: "OPENAI_API_KEY",
        kind: "openai",
        model: "gpt-5-mini",
        base_url: None,
        keys: "https://platform.openai.com/api-keys",
    },
    Vendor {
        word: "openrouter",
        title: "OpenRouter, with models of many vendors",
        variable: "OPENROUTER_API_KEY",
        kind: "openai",
        model: "openrouter/auto",
        base_url: Some("https://openrouter.ai/api/v1"),
        keys: "https://openrouter.ai/settings/keys",
    },
];

/// The person's choice.
enum Chosen {
    Vendor(&'static Vendor),
    Server(LocalServer, Option<String>),
    None,
}

/// Sets up a model, unless the config file has one that answers.
pub(super) async fn set_up(setup: &mut Setup<'_>, config: &Config) -> anyhow::Result<()> {
    if setup.options.provider.is_none() && keeps_model(setup, config).await? {
        return Ok(());
    }
    let servers = find_local_servers(setup.environment().text("OLLAMA_HOST")).await;
    let chosen = match setup.options.provider.clone() {
        Some(word) => parse(setup, &word, &servers).await?,
        None if setup.dialog.asks() => ask(setup, &servers).await?,
        None => guess(setup, servers),
    };
    match chosen {
        Chosen::None => {
            setup.dialog.say(
                "No model is set up. Until you run `peacrab init` again, rehearsal answers by fixed rules.",
            );
            Ok(())
        }
        Chosen::Vendor(vendor) => use_vendor(setup, vendor).await,
        Chosen::Server(server, model) => use_server(setup, server, model).await,
    }
}

/// Returns true if the config file has a model. It is kept, and tested.
async fn keeps_model(setup: &Setup<'_>, config: &Config) -> anyhow::Result<bool> {
    let in_file = setup.edit.names("providers");
    let kept = config.agent.providers.iter().find(|name| {
        let kind = config.providers.get(*name).map(|provider| provider.kind);
        in_file.contains(name) && kind != Some(ProviderKind::Rehearsal)
    });
    let Some(name) = kept else { return Ok(false) };
    match test(config, name).await? {
        Ok(words) => setup.dialog.say(&format!("The config has a model already. {words}")),
        Err(why) => setup.dialog.say(&format!(
            "The config has a model already, {name}, but it does not answer: {why}. Correct [providers.{name}], or name another \
             one with --provider."
        )),
    }
    Ok(true)
}

/// The choice where nobody is asked: what the environment has a key for, or a server on this machine.
fn guess(setup: &Setup<'_>, servers: Vec<LocalServer>) -> Chosen {
    let has_key = |vendor: &&Vendor| setup.environment().raw(vendor.variable).is_some();
    if let Some(vendor) = VENDORS.iter().find(has_key) {
        return Chosen::Vendor(vendor);
    }
    let server = servers.into_iter().find(|server| !server.models.is_empty());
    server.map_or(Chosen::None, |server| Chosen::Server(server, None))
}

async fn ask(setup: &mut Setup<'_>, servers: &[LocalServer]) -> anyhow::Result<Chosen> {
    let number = setup.question();
    let dialog = &setup.dialog;
    dialog.say(&format!("{number} Which model should answer?"));
    let mut words: Vec<String> = Vec::new();
    for vendor in &VENDORS {
        words.push(vendor.word.to_owned());
        dialog.say(&format!("  {} {}", words.len(), vendor.title));
    }
    for server in servers {
        words.push(server.name.to_ascii_lowercase());
        let models = match server.models.as_slice() {
            [] => "no model yet".to_owned(),
            [one] => one.clone(),
            [first, rest @ ..] => format!("{first} and {} more", rest.len()),
        };
        dialog.say(&format!("  {} {} on this machine: {models}", words.len(), server.name));
    }
    words.push("none".to_owned());
    dialog.say(&format!("  {} none for now", words.len()));
    dialog.say("Or type the address of a server, such as http://192.168.1.20:11434/v1, and its model if you know it.");
    let has_key = |vendor: &Vendor| setup.environment().raw(vendor.variable).is_some();
    let with_key = VENDORS.iter().position(has_key);
    let usual = with_key.or((!servers.is_empty()).then_some(VENDORS.len())).unwrap_or(0) + 1;
    for _ in 0..TRIES_MAX {
        let answer = setup.dialog.ask("Number or address", Some(&usual.to_string())).await?;
        let by_number =
            answer.parse().ok().and_then(|number: usize| words.get(number.checked_sub(1)?));
        let word = by_number.unwrap_or(&answer);
        match parse(setup, word, servers).await {
            Ok(chosen) => return Ok(chosen),
            Err(error) => setup.dialog.say(&format!("{error:#}")),
        }
    }
    bail!("no model was chosen; docs/models.md explains what is needed")
}

/// Understands a word for a provider, or an address with perhaps a model.
async fn parse(setup: &Setup<'_>, word: &str, servers: &[LocalServer]) -> anyhow::Result<Chosen> {
    let lower = word.to_ascii_lowercase();
    if lower == "none" {
        return Ok(Chosen::None);
    }
    if let Some(vendor) = VENDORS.iter().find(|vendor| vendor.word == lower) {
        return Ok(Chosen::Vendor(vendor));
    }
    if let Some(server) = servers.iter().find(|server| server.name.to_ascii_lowercase() == lower) {
        if server.models.is_empty() {
            bail!(
                "{} has no model yet; get one first, for example with `ollama pull qwen3:8b`",
                server.name
            );
        }
        return Ok(Chosen::Server(server.clone(), None));
    }
    if ["ollama", "llama.cpp"].contains(&lower.as_str()) {
        bail!("{word} does not run on this machine; start it, or give its address");
    }
    let (address, model) = match word.split_once(char::is_whitespace) {
        Some((address, model)) => (address, Some(model.trim().to_owned())),
        None => (word, None),
    };
    if !address.contains("://") {
        bail!(
            "{word} is neither one of the numbers nor an address that begins with http:// or https://"
        );
    }
    let base_url = address.trim_end_matches('/').to_owned();
    let models = match list_models(&base_url, None).await {
        Ok(models) => models,
        // The key is asked for next; only it opens the list.
        Err(ListingError::Unauthorized) => Vec::new(),
        Err(ListingError::NotAList(_)) if model.is_some() || setup.options.model.is_some() => {
            Vec::new()
        }
        Err(error) => bail!("{address}: {error}"),
    };
    Ok(Chosen::Server(LocalServer { name: "server", base_url, models }, model))
}

async fn use_vendor(setup: &mut Setup<'_>, vendor: &Vendor) -> anyhow::Result<()> {
    let model = setup.options.model.clone().unwrap_or_else(|| vendor.model.to_owned());
    let mut texts = vec![("type", vendor.kind.to_owned()), ("model", model)];
    texts.extend(vendor.base_url.map(|url| ("base_url", url.to_owned())));
    let given = secret_of(setup.options.key_file.as_deref())?;
    let known = setup.environment().text(vendor.variable).map(|key| Zeroizing::new(key.to_owned()));
    if let Some(key) = given {
        return try_section(setup, vendor.word, texts, Some(key)).await?.or_fail();
    }
    if !setup.dialog.asks() {
        let Some(key) = known else { bail!("{} needs a key: give --key-file", vendor.title) };
        return try_section(setup, vendor.word, texts, Some(key)).await?.or_fail();
    }
    let number = setup.question();
    setup.dialog.say(&format!("{number} Create a key at {} and paste it here.", vendor.keys));
    if known.is_some() {
        setup.dialog.say(&format!("Press Enter to use the key in {}.", vendor.variable));
    }
    ask_key(setup, vendor.word, &texts, known).await
}

/// Asks for a key until one works.
async fn ask_key(
    setup: &mut Setup<'_>,
    name: &str,
    texts: &[(&'static str, String)],
    known: Option<Zeroizing<String>>,
) -> anyhow::Result<()> {
    for _ in 0..TRIES_MAX {
        let typed = setup.dialog.ask_secret("Key").await?;
        let key = match (typed.is_empty(), &known) {
            (true, Some(known)) => known.clone(),
            (true, None) => {
                setup.dialog.say("A key is needed here.");
                continue;
            }
            (false, _) => typed,
        };
        match try_section(setup, name, texts.to_vec(), Some(key)).await? {
            Tried::Works => return Ok(()),
            Tried::Fails(why) => {
                setup.dialog.say(&format!("That does not work: {why}. Try again."))
            }
        }
    }
    bail!("no key was accepted; the provider's page shows which ones are valid")
}

async fn use_server(
    setup: &mut Setup<'_>,
    server: LocalServer,
    model: Option<String>,
) -> anyhow::Result<()> {
    let name = match server.name {
        "Ollama" => "ollama",
        "llama.cpp" => "llama",
        _ => "server",
    };
    let texts = |model: &str| {
        let (model, url) = (model.to_owned(), server.base_url.clone());
        vec![("type", "openai".to_owned()), ("model", model), ("base_url", url)]
    };
    let key = secret_of(setup.options.key_file.as_deref())?;
    let mut models = server.models.clone();
    if let Some(key) = &key {
        let secret = Secret::new(key.as_str());
        models = list_models(&server.base_url, Some(&secret)).await.unwrap_or_default();
    }
    let model = model.or_else(|| setup.options.model.clone());
    let model = match (model, models.as_slice()) {
        (Some(model), _) => model,
        (None, [one]) => one.clone(),
        (None, [first, ..]) if !setup.dialog.asks() => first.clone(),
        (None, [_, _, ..]) => {
            let number = setup.question();
            choose_model(setup, &number, &models).await?
        }
        (None, []) => bail!(
            "{} does not list its models: add a name after the address, or use --model",
            server.base_url
        ),
    };
    let needs_key = key.is_none() && models.is_empty();
    if needs_key && setup.dialog.asks() {
        let number = setup.question();
        setup.dialog.say(&format!("{number} The server requires a key. Paste it here."));
        return ask_key(setup, name, &texts(&model), None).await;
    }
    try_section(setup, name, texts(&model), key).await?.or_fail()
}

async fn choose_model(
    setup: &Setup<'_>,
    number: &str,
    models: &[String],
) -> anyhow::Result<String> {
    setup.dialog.say(&format!("{number} Which of its models?"));
    for (at, model) in models.iter().take(MODELS_SHOWN).enumerate() {
        setup.dialog.say(&format!("  {} {model}", at + 1));
    }
    if models.len() > MODELS_SHOWN {
        setup
            .dialog
            .say(&format!("There are {} more; type the name.", models.len() - MODELS_SHOWN));
    }
    for _ in 0..TRIES_MAX {
        let answer = setup.dialog.ask("Number or name", Some("1")).await?;
        let by_number =
            answer.parse().ok().and_then(|number: usize| models.get(number.checked_sub(1)?));
        let named = || models.iter().find(|model| **model == answer);
        match by_number.or_else(named) {
            Some(model) => return Ok(model.clone()),
            None => setup.dialog.say(&format!("The server has no model {answer}.")),
        }
    }
    bail!("no model was chosen")
}

enum Tried {
    Works,
    Fails(String),
}

impl Tried {
    /// An error where nobody can be asked again.
    fn or_fail(self) -> anyhow::Result<()> {
        match self {
            Self::Works => Ok(()),
            Self::Fails(why) => bail!("the model does not answer: {why}"),
        }
    }
}

/// Asks the model of a new section for a word, and saves the section if it answers.
async fn try_section(
    setup: &mut Setup<'_>,
    wanted: &str,
    texts: Vec<(&'static str, String)>,
    key: Option<Zeroizing<String>>,
) -> anyhow::Result<Tried> {
    let name = setup.edit.free_name("providers", wanted);
    let section = |place: Option<SecretPlace>| NewSection {
        kind: "providers",
        name: name.clone(),
        texts: texts.clone(),
        lists: Vec::new(),
        secrets: place.map(|place| ("api_key", place)).into_iter().collect(),
    };
    setup.dialog.say("Testing: one short question to the model …");
    let mut trial = setup.edit.clone();
    trial.add(&section(key.as_ref().map(|key| SecretPlace::Here(key.to_string()))))?;
    let config = match trial.load(setup.environment()) {
        Ok(config) => config,
        Err(faults) => return Ok(Tried::Fails(faults.to_string())),
    };
    let words = match test(&config, &name).await? {
        Ok(words) => words,
        Err(why) => return Ok(Tried::Fails(why)),
    };
    let mut edit = setup.edit.clone();
    let place = match &key {
        Some(key) => Some(SecretPlace::File(edit.write_secret(&name, "key", key)?)),
        None => None,
    };
    edit.add(&section(place))?;
    setup.save(edit)?;
    setup.dialog.say(&format!("{words} Saved as [providers.{name}].\n"));
    Ok(Tried::Works)
}

/// Asks a provider of the config for a word: what it answered, or why it did not.
async fn test(config: &Config, name: &str) -> anyhow::Result<Result<String, String>> {
    let Some(section) = config.providers.get(name) else { bail!("there is no provider {name}") };
    let provider = provider::connect(name, section)?;
    Ok(match ask_for_a_word(&*provider, WORD_TIME_MAX).await {
        Ok(took) => Ok(format!("{} answers in {:.1} s.", provider.name(), took.as_secs_f32())),
        Err(error) => Err(error.to_string()),
    })
}
