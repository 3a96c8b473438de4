//! The first step of `init`: which model answers. Not here: its test, and what is asked about it (`candidate`).

use anyhow::bail;
use url::Url;
use zeroize::Zeroizing;

use super::super::dialog::TRIES_MAX;
use super::candidate::{CandidateModel, Tried, test_saved};
use super::setup::{Setup, full_stop, sentence};
use crate::config::Config;
use crate::http;
use crate::provider::ProviderKind;
use crate::provider::listing::{
    FoundServer, ListingError, LocalAddresses, LocalServer, find_local_servers, find_models,
};
use crate::provider::vendors::{VENDORS, Vendor, default_url};

/// The word for no model.
const NONE: &str = "none";

fn no_model(program: &str) -> String {
    format!(
        "No model is set up. Until you run `{program} init` again, rehearsal answers by fixed rules.\n"
    )
}

/// The person's choice.
enum Chosen {
    Vendor(&'static Vendor),
    Server(ChosenServer),
    None,
}

/// A server that answers.
struct ChosenServer {
    server: LocalServer,
    /// The name that was typed behind the address.
    model: Option<String>,
    /// It lists its models only to those who have a key.
    is_closed: bool,
}

impl ChosenServer {
    fn found(server: &LocalServer) -> Chosen {
        Chosen::Server(Self { server: server.clone(), model: None, is_closed: false })
    }
}

/// Sets up a model, unless the config file has one that answers. A choice that does not work is asked for again.
pub(super) async fn set_up(setup: &mut Setup<'_>, config: &Config) -> anyhow::Result<()> {
    let options = setup.options;
    let is_another = options.model.is_some() || options.key_file.is_some();
    if options.provider.is_none() && !is_another && keeps_model(setup, config).await? {
        return Ok(());
    }
    let is_none = |word: &String| word.eq_ignore_ascii_case(NONE);
    if !options.provider.as_ref().is_some_and(is_none) {
        // Rather now than after a key was typed.
        setup.check_writable()?;
    }
    let servers = find_local_servers(local_addresses(setup)).await;
    let mut named = options.provider.clone();
    let asked_before = setup.asked;
    for _ in 0..TRIES_MAX {
        setup.asked = asked_before;
        let chosen = match named.take() {
            Some(word) => parse(setup, &word, &servers).await?,
            None if setup.dialog.asks() => ask(setup, &servers).await?,
            None => guess(setup, &servers)?,
        };
        let tried = match chosen {
            Chosen::None => {
                setup.dialog.say(&match setup.dead_model {
                    Some(_) => "The model of the config is kept.\n".to_owned(),
                    None => no_model(&setup.on.program()),
                });
                return Ok(());
            }
            Chosen::Vendor(vendor) => use_vendor(setup, vendor).await?,
            Chosen::Server(server) => use_server(setup, server).await?,
        };
        match tried {
            Tried::Works => return Ok(()),
            tried if !setup.dialog.asks() => return tried.or_fail(),
            Tried::WantsKey(why) | Tried::Unusable(why) | Tried::Fails(why) => {
                setup.dialog.say(&format!(
                    "That does not work: {} Please choose again.\n",
                    full_stop(&why)
                ));
            }
        }
    }
    bail!("no model answered; docs/models.md explains what is needed")
}

/// The addresses at which servers are looked for.
fn local_addresses(setup: &Setup<'_>) -> LocalAddresses {
    LocalAddresses::of_variables(|name| setup.environment().text(name))
}

/// Returns the section of the config file whose model answers first. None if only rehearsal answers.
pub(super) fn first_model<'a>(setup: &Setup<'_>, config: &'a Config) -> Option<&'a str> {
    let in_file = setup.edit.names("providers");
    let first = config.agent.providers.iter().find(|name| {
        let kind = config.providers.get(*name).map(|provider| provider.kind);
        in_file.contains(name) && kind != Some(ProviderKind::Rehearsal)
    });
    first.map(String::as_str)
}

/// Returns true if the config file has a model that answers, which is then kept.
async fn keeps_model(setup: &mut Setup<'_>, config: &Config) -> anyhow::Result<bool> {
    let Some(name) = first_model(setup, config) else { return Ok(false) };
    match test_saved(setup, config, name).await? {
        Ok(words) => {
            setup.dialog.say(&format!("The config has a model already. {words}\n"));
            Ok(true)
        }
        Err(error) if setup.dialog.asks() => {
            setup.dialog.say(&format!(
                "The config has a model already, {name}, but it does not answer: {error}. Choose one that answers in its \
                 place, or stop with Ctrl-C and correct [providers.{name}].\n"
            ));
            setup.dead_model = Some(name.to_owned());
            Ok(false)
        }
        Err(error) => bail!(
            "the config has the model {name}, but it does not answer: {error}. Correct [providers.{name}], or name another one \
             with --provider"
        ),
    }
}

/// The choice where nobody is asked: what the environment has a key for, or a server that was found.
fn guess(setup: &Setup<'_>, servers: &[LocalServer]) -> anyhow::Result<Chosen> {
    let has_key = |vendor: &&Vendor| setup.environment().raw(vendor.key_variable).is_some();
    if let Some(vendor) = VENDORS.iter().find(has_key) {
        return Ok(Chosen::Vendor(vendor));
    }
    let server = servers.iter().find(|server| !server.models.is_empty());
    match server {
        Some(server) => Ok(ChosenServer::found(server)),
        None => bail!(
            "no model is named, and none was found. Give --provider anthropic, openai or openrouter with --key-file FILE, or \
             --provider with the address of a server, or --provider none to go without a model"
        ),
    }
}

/// The place of a server, as people see it.
fn place_of(base_url: &str) -> String {
    let url = Url::parse(base_url).ok();
    match url.as_ref().and_then(Url::host_str) {
        Some(host) if !url.as_ref().is_some_and(http::is_loopback) => format!("at {host}"),
        _ => "on this machine".to_owned(),
    }
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
        let place = place_of(&server.base_url);
        dialog.say(&format!("  {} {} {place}: {models}", words.len(), server.name));
    }
    words.push(NONE.to_owned());
    dialog.say(&format!("  {} none for now", words.len()));
    dialog.say("Or type the address of a server, such as http://192.168.1.20:11434/v1, and its model if you know it.");
    let has_key = |vendor: &Vendor| setup.environment().raw(vendor.key_variable).is_some();
    let with_key = VENDORS.iter().position(has_key);
    // One without a model is explained where it is chosen.
    let with_model = servers.iter().position(|server| !server.models.is_empty()).unwrap_or(0);
    let found = (!servers.is_empty()).then_some(VENDORS.len() + with_model);
    let usual = with_key.or(found).unwrap_or(0) + 1;
    for _ in 0..TRIES_MAX {
        let answer = setup.dialog.ask("Number or address", Some(&usual.to_string())).await?;
        let by_number =
            answer.parse().ok().and_then(|number: usize| words.get(number.checked_sub(1)?));
        let word = by_number.unwrap_or(&answer);
        match parse(setup, word, servers).await {
            Ok(chosen) => return Ok(chosen),
            Err(error) => setup.dialog.say(&sentence(&error)),
        }
    }
    bail!("no model was chosen; docs/models.md explains what is needed")
}

/// Understands a word for a provider, or an address with perhaps a model.
async fn parse(setup: &Setup<'_>, word: &str, servers: &[LocalServer]) -> anyhow::Result<Chosen> {
    let lower = word.to_ascii_lowercase();
    if lower == NONE {
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
        return Ok(ChosenServer::found(server));
    }
    let addresses = local_addresses(setup);
    let looked_at = match lower.as_str() {
        "ollama" => Some(addresses.ollama),
        "llama.cpp" => Some(addresses.llama),
        _ => None,
    };
    if let Some(url) = looked_at {
        bail!("{word} does not answer {}; start it, or give its address", place_of(&url));
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
    let FoundServer { base_url, models } = find_models(address).await;
    if base_url != address.trim_end_matches('/') {
        setup.dialog.say(&format!("Its models are at {base_url}, so that is its address."));
    }
    let (models, is_closed) = match models {
        Ok(models) => (models, false),
        // Only a key opens the list.
        Err(ListingError::Unauthorized) => (Vec::new(), true),
        Err(ListingError::NotAList(_)) if model.is_some() || setup.options.model.is_some() => {
            (Vec::new(), false)
        }
        Err(error) => bail!("{address}: {error}"),
    };
    let server = LocalServer { name: "server", base_url, models };
    Ok(Chosen::Server(ChosenServer { server, model, is_closed }))
}

async fn use_vendor(setup: &mut Setup<'_>, vendor: &Vendor) -> anyhow::Result<Tried> {
    let model = setup.options.model.clone().unwrap_or_else(|| vendor.model.to_owned());
    let other = setup.environment().text(vendor.address_variable).map(str::to_owned);
    let other = other.filter(|url| url.trim_end_matches('/') != vendor.base_url);
    let is_default = vendor.base_url == default_url(vendor.kind);
    let own = (!is_default).then(|| vendor.base_url.to_owned());
    let mut candidate = CandidateModel {
        name: vendor.word,
        kind: vendor.kind.as_str(),
        base_url: other.clone().or(own),
        model: Some(model),
        models: Vec::new(),
        has_text_tools: false,
        heading: None,
    };
    if let Some(url) = other {
        // Rather now than after a key was typed.
        if let Some(why) = candidate.address_fault(setup)? {
            return Ok(Tried::Unusable(format!("{}: {why}", vendor.address_variable)));
        }
        let variable = vendor.address_variable;
        setup.dialog.say(&format!("Its address is {url}, as {variable} says."));
    }
    let given = setup.secrets.key.clone();
    let known = setup.environment().text(vendor.key_variable);
    let known = known.map(|key| Zeroizing::new(key.to_owned()));
    let asks = setup.dialog.asks();
    match given.as_ref().or(known.as_ref().filter(|_| !asks)) {
        Some(key) => match candidate.try_with(setup, Some(key)).await? {
            Tried::WantsKey(why) if asks => {
                setup.dialog.say(&format!("That does not work: {}", full_stop(&why)));
            }
            tried => return Ok(tried),
        },
        None if !asks => bail!("{} needs a key: give --key-file", vendor.title),
        None => {}
    }
    let heading = candidate.question(setup);
    setup.dialog.say(&format!("{heading} Create a key at {} and paste it here.", vendor.keys_page));
    if known.is_some() {
        setup.dialog.say(&format!("Press Enter to use the key in {}.", vendor.key_variable));
    }
    candidate.ask_key(setup, known).await
}

async fn use_server(setup: &mut Setup<'_>, chosen: ChosenServer) -> anyhow::Result<Tried> {
    let ChosenServer { server, model, is_closed } = chosen;
    let name = match server.name {
        "Ollama" => "ollama",
        "llama.cpp" => "llama",
        _ => "server",
    };
    let mut candidate = CandidateModel {
        name,
        kind: "openai",
        base_url: Some(server.base_url),
        model: model.or_else(|| setup.options.model.clone()),
        models: server.models,
        has_text_tools: false,
        heading: None,
    };
    let key = setup.secrets.key.clone();
    let tried = match &key {
        None if is_closed => Tried::WantsKey("it lists its models only with a key".to_owned()),
        key => candidate.try_with(setup, key.as_ref()).await?,
    };
    match tried {
        Tried::WantsKey(why) if setup.dialog.asks() => {
            let heading = candidate.question(setup);
            setup
                .dialog
                .say(&format!("{heading} The server requires a key ({why}). Paste it here."));
            candidate.ask_key(setup, None).await
        }
        tried => Ok(tried),
    }
}
