//! A model that `init` tests: its name and its key are asked for as far as they are missing, and its section is saved once
//! it has answered with a word. Not here: which model it is (`model`).

use std::time::Duration;

use anyhow::bail;
use zeroize::Zeroizing;

use super::super::dialog::TRIES_MAX;
use super::setup::{Setup, full_stop};
use crate::config::edit::{NewSection, SecretPlace};
use crate::config::{Config, ConfigErrors};
use crate::provider::listing::{ListingError, list_models};
use crate::provider::{self, ProviderError, probe_model};
use crate::secret::Secret;

/// A model on a small board is loaded for about a minute before its first word.
const WORD_TIME_MAX: Duration = Duration::from_secs(180);

/// Models of a server that are listed to choose from.
const MODELS_SHOWN: usize = 9;

/// A model that is not saved yet.
pub(super) struct CandidateModel {
    /// The name of its section, if that is free.
    pub(super) name: &'static str,
    pub(super) kind: &'static str,
    /// None if it is the API's own.
    pub(super) base_url: Option<String>,
    /// None until it is chosen from the server's list.
    pub(super) model: Option<String>,
    /// The server's list.
    pub(super) models: Vec<String>,
    /// True once the server has refused a request because of its tools: they are then described in the prompt.
    pub(super) has_text_tools: bool,
    /// The heading of the question about its name and its key, once it was asked.
    pub(super) heading: Option<String>,
}

/// The outcome of a test.
pub(super) enum Tried {
    /// It answers, and its section is in the config.
    Works,
    /// It wants a key, or another one.
    WantsKey(String),
    /// The config cannot have it.
    Unusable(String),
    Fails(String),
}

impl Tried {
    /// Returns an error where nobody can be asked again.
    pub(super) fn or_fail(self) -> anyhow::Result<()> {
        match self {
            Self::Works => Ok(()),
            Self::WantsKey(why) => {
                bail!("the model wants a key, or another one: {why}. Give it with --key-file")
            }
            Self::Unusable(why) => bail!("the model cannot be used: {why}"),
            Self::Fails(why) => bail!("the model does not answer: {why}"),
        }
    }
}

impl CandidateModel {
    /// Returns the heading of the question about its name and its key, which are one question.
    pub(super) fn question(&mut self, setup: &mut Setup<'_>) -> String {
        self.heading.get_or_insert_with(|| setup.question()).clone()
    }

    /// Returns the reason why the config cannot have its address, whatever its key is.
    pub(super) fn address_fault(&self, setup: &Setup<'_>) -> anyhow::Result<Option<String>> {
        let name = setup.edit.free_name("providers", self.name);
        let mut trial = setup.edit.clone();
        trial.add(&self.section(&name, Some(SecretPlace::Here("unknown".to_owned()))))?;
        Ok(trial.load(setup.environment()).err().map(|faults| faults.messages()))
    }

    /// Asks for a key until one is accepted. An empty line means the `known` one.
    pub(super) async fn ask_key(
        &mut self,
        setup: &mut Setup<'_>,
        known: Option<Zeroizing<String>>,
    ) -> anyhow::Result<Tried> {
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
            match self.try_with(setup, Some(&key)).await? {
                Tried::WantsKey(why) => {
                    setup
                        .dialog
                        .say(&format!("That does not work: {} Try again.", full_stop(&why)));
                }
                tried => {
                    setup.dialog.show_typed();
                    return Ok(tried);
                }
            }
        }
        let continues = setup.how_to_continue();
        bail!("no key was accepted; the provider's page shows which ones are valid; {continues}")
    }

    /// Asks the model for a word, and saves its section if it answers.
    pub(super) async fn try_with(
        &mut self,
        setup: &mut Setup<'_>,
        key: Option<&Zeroizing<String>>,
    ) -> anyhow::Result<Tried> {
        if self.model.is_none()
            && let Some(tried) = self.find_model(setup, key).await?
        {
            return Ok(tried);
        }
        let name = setup.edit.free_name("providers", self.name);
        let config = match self.trial(setup, &name, key)? {
            Ok(config) => config,
            Err(faults) => return Ok(Tried::Unusable(faults.messages())),
        };
        let same = same_section(setup, &config, &name);
        setup.dialog.say("Testing: one short question to the model …");
        let tested = match &same {
            Some(same) => test_saved(setup, &config, same).await?,
            None => self.test_new(setup, &name, key).await?,
        };
        let words = match tested {
            Ok(words) => words,
            Err(ProviderError::Unauthorized(why)) => return Ok(Tried::WantsKey(why)),
            Err(error) => return Ok(Tried::Fails(format!("{error}{}", self.hint(&error)))),
        };
        let mut edit = setup.edit.clone();
        let saved = match same {
            Some(same) => {
                if setup.dead_model.as_ref().is_some_and(|dead| *dead != same) {
                    edit.set_default_provider(&same)?;
                    setup.save(edit)?;
                }
                format!("{words} The config has it already, as [providers.{same}].\n")
            }
            None => {
                let place = match key {
                    Some(key) => Some(SecretPlace::File(edit.write_secret(&name, "key", key)?)),
                    None => None,
                };
                edit.add(&self.section(&name, place))?;
                if self.answers_first(setup, &config).await? {
                    edit.set_default_provider(&name)?;
                }
                setup.save(edit)?;
                format!("{words} Saved as [providers.{name}].\n")
            }
        };
        setup.dialog.say(&saved);
        Ok(Tried::Works)
    }

    /// Returns the config that has this model.
    fn trial(
        &self,
        setup: &Setup<'_>,
        name: &str,
        key: Option<&Zeroizing<String>>,
    ) -> anyhow::Result<Result<Config, ConfigErrors>> {
        let here = key.map(|key| SecretPlace::Here(key.to_string()));
        let mut trial = setup.edit.clone();
        trial.add(&self.section(name, here))?;
        Ok(trial.load(setup.environment()))
    }

    /// Tests the model, which is in no config yet. If its server accepts no tools, it is tested with them in the prompt.
    async fn test_new(
        &mut self,
        setup: &Setup<'_>,
        name: &str,
        key: Option<&Zeroizing<String>>,
    ) -> anyhow::Result<Result<String, ProviderError>> {
        // Another key may be that of another server.
        self.has_text_tools = false;
        let first = test(&self.trial(setup, name, key)??, name).await?;
        if !matches!(first, Err(ProviderError::NoTools(_))) {
            return Ok(first);
        }
        setup.dialog.say(TRIES_TEXT_TOOLS);
        self.has_text_tools = true;
        let second = test(&self.trial(setup, name, key)??, name).await?;
        Ok(second.map(|words| format!("{words} {HAS_TEXT_TOOLS}")))
    }

    /// Returns a hint at an address that is perhaps too short, to stand behind a refusal.
    fn hint(&self, error: &ProviderError) -> &'static str {
        let is_short = self.base_url.as_ref().is_some_and(|url| !url.contains("/v1"));
        match error {
            ProviderError::Refused(_) if is_short => "; the address of most servers ends in /v1",
            _ => "",
        }
    }

    fn section(&self, name: &str, key: Option<SecretPlace>) -> NewSection {
        let model = self.model.clone().unwrap_or_default();
        let mut texts = vec![("type", self.kind.to_owned()), ("model", model)];
        texts.extend(self.base_url.iter().map(|url| ("base_url", url.clone())));
        texts.extend(self.has_text_tools.then(|| ("tools", "text".to_owned())));
        NewSection {
            kind: "providers",
            name: name.to_owned(),
            texts,
            lists: Vec::new(),
            secrets: key.map(|place| ("api_key", place)).into_iter().collect(),
        }
    }

    /// Chooses the model from the server's list. Returns the reason why none can be chosen.
    async fn find_model(
        &mut self,
        setup: &mut Setup<'_>,
        key: Option<&Zeroizing<String>>,
    ) -> anyhow::Result<Option<Tried>> {
        let base_url = self.base_url.clone().unwrap_or_default();
        if key.is_some() || self.models.is_empty() {
            let secret = key.map(|key| Secret::new(key.as_str()));
            match list_models(&base_url, secret.as_ref()).await {
                Ok(models) => self.models = models,
                Err(error @ ListingError::Unauthorized) => {
                    return Ok(Some(Tried::WantsKey(error.to_string())));
                }
                // Said below.
                Err(_) => {}
            }
        }
        let model = match self.models.as_slice() {
            [] => {
                return Ok(Some(Tried::Fails(format!(
                    "{base_url} does not list its models: add a name after the address, or use --model"
                ))));
            }
            [one] => one.clone(),
            [first, ..] if !setup.dialog.asks() => first.clone(),
            [_, _, ..] => {
                let heading = self.question(setup);
                choose_model(setup, &heading, &self.models).await?
            }
        };
        self.model = Some(model);
        Ok(None)
    }

    /// Returns true if the model that answers so far does not: a new one behind it would be asked only after it has failed.
    /// `config` is that of the test.
    async fn answers_first(&self, setup: &Setup<'_>, config: &Config) -> anyhow::Result<bool> {
        let in_file = setup.edit.names("providers");
        let Some(first) = config.agent.providers.iter().find(|name| in_file.contains(name)) else {
            return Ok(false);
        };
        if setup.dead_model.as_ref() == Some(first) {
            return Ok(true);
        }
        if config
            .providers
            .get(first)
            .is_some_and(|it| it.kind == provider::ProviderKind::Rehearsal)
        {
            return Ok(true);
        }
        setup.dialog.say(&format!("Testing: {first}, which answers so far …"));
        let Err(error) = test(config, first).await? else { return Ok(false) };
        setup.dialog.say(&format!("It does not answer: {error}. The new model answers first now."));
        Ok(true)
    }
}

/// The words before and after the test of a model whose server accepts no tools.
const TRIES_TEXT_TOOLS: &str =
    "It accepts no tools. Testing: the same question, with the tools described in words …";
const HAS_TEXT_TOOLS: &str = "It accepts no tools, so its section gets `tools = \"text\"`: they are described to it in words.";

/// Tests a provider of the config file. If its server accepts no tools, its section gets `tools = "text"`, provided that it
/// answers with that.
pub(super) async fn test_saved(
    setup: &mut Setup<'_>,
    config: &Config,
    name: &str,
) -> anyhow::Result<Result<String, ProviderError>> {
    let first = test(config, name).await?;
    if !matches!(first, Err(ProviderError::NoTools(_))) {
        return Ok(first);
    }
    setup.dialog.say(TRIES_TEXT_TOOLS);
    let mut edit = setup.edit.clone();
    edit.set_text_tools(name)?;
    let second = test(&edit.load(setup.environment())?, name).await?;
    if second.is_ok() {
        setup.save(edit)?;
    }
    Ok(second.map(|words| format!("{words} {HAS_TEXT_TOOLS}")))
}

/// Returns the section of the file with the same model at the same address, and with the same key if one is given.
fn same_section(setup: &Setup<'_>, config: &Config, new: &str) -> Option<String> {
    let wanted = config.providers.get(new)?;
    let is_same = |name: &String| {
        config.providers.get(name).is_some_and(|other| {
            (other.kind, &other.base_url, &other.model)
                == (wanted.kind, &wanted.base_url, &wanted.model)
                && (wanted.api_key.is_none() || other.api_key == wanted.api_key)
        })
    };
    setup.edit.names("providers").into_iter().find(is_same)
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

/// Asks a provider of the config for a word. Returns a sentence about its answer, or the reason why there is none.
async fn test(config: &Config, name: &str) -> anyhow::Result<Result<String, ProviderError>> {
    let Some(section) = config.providers.get(name) else { bail!("there is no provider {name}") };
    let provider = provider::connect(name, section)?;
    let asked = probe_model(&*provider, WORD_TIME_MAX).await;
    Ok(asked.map(|took| format!("{} answers in {:.1} s.", provider.name(), took.as_secs_f32())))
}
