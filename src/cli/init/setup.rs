//! The state that the steps of `peacrab init` share: its options, the dialog, and the config that it edits.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use clap::{Args, ValueEnum as _};
use tokio_util::task::AbortOnDropHandle;
use zeroize::Zeroizing;

use super::super::dialog::{Dialog, InputEnded};
use super::super::interrupts::Interrupts;
use super::super::invocation::Invocation;
use super::super::service::ServiceChoice;
use crate::config::edit::ConfigEdit;
use crate::config::{self, Config, Environment};

/// The questions: the model, its key or name, the platform, its token, the pairing code, the service.
pub(super) const QUESTIONS_MAX: usize = 6;

/// Longer ones are no keys or tokens.
const SECRET_BYTES_MAX: u64 = 16 * 1024;

#[derive(Args, Default)]
pub(in crate::cli) struct InitOptions {
    /// The model's provider: anthropic, openai, openrouter, ollama, llama.cpp, none, or the address of a server
    #[arg(long, value_name = "NAME|URL")]
    pub(super) provider: Option<String>,
    /// The model's name, as the provider writes it
    #[arg(long, value_name = "NAME")]
    pub(super) model: Option<String>,
    /// A file with the provider's key
    #[arg(long, value_name = "FILE")]
    pub(super) key_file: Option<PathBuf>,
    /// The chat platform: telegram, discord, slack or none
    #[arg(long, value_name = "NAME")]
    pub(super) channel: Option<String>,
    /// A file with the bot's token
    #[arg(long, value_name = "FILE")]
    pub(super) token_file: Option<PathBuf>,
    /// A file with the app's token; Slack has two
    #[arg(long, value_name = "FILE")]
    pub(super) app_token_file: Option<PathBuf>,
    /// Another address of the platform, such as a Bot API server of your own
    #[arg(long, value_name = "URL")]
    pub(super) api_url: Option<String>,
    /// Your id on the platform: you are then the owner without a pairing code
    #[arg(long, value_name = "ID")]
    pub(super) owner: Option<String>,
    /// The service to install
    #[arg(long, value_enum)]
    pub(super) service: Option<ServiceChoice>,
    /// Ask nothing: take what the options and the environment say, and leave the rest out
    #[arg(long)]
    pub(super) yes: bool,
    /// Print the outcome as JSON, and the progress on standard error
    #[arg(long, requires = "yes")]
    pub(super) json: bool,
}

impl InitOptions {
    /// Returns the options as they were given, as words of a shell.
    fn words(&self) -> String {
        let text = |option: &Option<String>| option.as_ref().map(PathBuf::from);
        let service = self.service.as_ref().and_then(ServiceChoice::to_possible_value);
        let service = service.map(|choice| PathBuf::from(choice.get_name()));
        let given = [
            ("provider", text(&self.provider)),
            ("model", text(&self.model)),
            ("key-file", self.key_file.clone()),
            ("channel", text(&self.channel)),
            ("token-file", self.token_file.clone()),
            ("app-token-file", self.app_token_file.clone()),
            ("api-url", text(&self.api_url)),
            ("owner", text(&self.owner)),
            ("service", service),
        ];
        let given = given.into_iter().filter_map(|(name, value)| Some((name, value?)));
        let words = given.map(|(name, value)| format!(" --{name} {}", config::quoted(&value)));
        let flags =
            [("yes", self.yes), ("json", self.json)].into_iter().filter(|(_, is_set)| *is_set);
        words.chain(flags.map(|(name, _)| format!(" --{name}"))).collect()
    }
}

/// The secrets of the files that the options name.
#[derive(Default)]
pub(super) struct GivenSecrets {
    pub(super) key: Option<Zeroizing<String>>,
    pub(super) token: Option<Zeroizing<String>>,
    pub(super) app_token: Option<Zeroizing<String>>,
}

impl GivenSecrets {
    /// Reads each file once, as a pipe gives its content only once. While a pipe waits for its writer, the caller can be
    /// dropped.
    pub(super) async fn read(options: &InitOptions) -> anyhow::Result<Self> {
        let InitOptions { key_file, token_file, app_token_file, .. } = options;
        let files = [key_file, token_file, app_token_file].map(Option::clone);
        let reading = tokio::task::spawn_blocking(move || Self::read_files(files));
        AbortOnDropHandle::new(reading).await.context("cannot read the files of the options")?
    }

    fn read_files([key, token, app_token]: [Option<PathBuf>; 3]) -> anyhow::Result<Self> {
        Ok(Self {
            key: secret_of(key.as_deref())?,
            token: secret_of(token.as_deref())?,
            app_token: secret_of(app_token.as_deref())?,
        })
    }
}

/// The state that all steps of the setup share.
pub(super) struct Setup<'a> {
    pub(super) on: &'a Invocation,
    pub(super) options: &'a InitOptions,
    pub(super) secrets: GivenSecrets,
    pub(super) dialog: Dialog,
    pub(super) edit: ConfigEdit,
    /// Questions so far.
    pub(super) asked: usize,
    /// The model that the config lets answer first, if it did not answer when it was tested.
    pub(super) dead_model: Option<String>,
    /// Faults that did not end the setup, in words.
    pub(super) warnings: Vec<String>,
}

impl Setup<'_> {
    /// Returns the heading of the next question.
    pub(super) fn question(&mut self) -> String {
        self.asked += 1;
        format!("Question {} of {QUESTIONS_MAX}.", self.asked)
    }

    /// Returns the words about a setup that ends too early: what is kept, and how to go on.
    pub(super) fn how_to_continue(&self) -> String {
        let (program, options) = (self.on.program(), self.options.words());
        format!("everything saved so far is kept. Run `{program} init{options}` to continue")
    }

    pub(super) fn environment(&self) -> &Environment {
        &self.on.environment
    }

    /// Checks that what is tested next can be saved.
    pub(super) fn check_writable(&self) -> anyhow::Result<()> {
        let checked = self.edit.check_writable();
        checked.with_context(|| format!("cannot write {}", self.edit.file().display()))
    }

    /// Saves the config that was tested.
    pub(super) fn save(&mut self, mut edit: ConfigEdit) -> anyhow::Result<Config> {
        let config = edit.load(&self.on.environment);
        // Their places are in a file that does not exist yet.
        let config = config.map_err(|faults| anyhow!("cannot save this: {}", faults.messages()))?;
        edit.save().with_context(|| format!("cannot write {}", edit.file().display()))?;
        self.edit = edit;
        Ok(config)
    }
}

/// Does a part of the setup. A signal drops it, and is an error that says [`Setup::how_to_continue`], as the end of the input
/// is.
pub(super) async fn unless_stopped<T>(
    how_to_continue: &str,
    interrupts: &mut Interrupts,
    part: impl Future<Output = anyhow::Result<T>>,
) -> anyhow::Result<T> {
    tokio::select! {
        done = part => done.map_err(|error| match error.is::<InputEnded>() {
            true => anyhow!("{error}; {how_to_continue}"),
            false => error,
        }),
        () = interrupts.next() => Err(anyhow!("stopped; {how_to_continue}")),
    }
}

/// Returns an error as a line of the dialog.
pub(super) fn sentence(error: &anyhow::Error) -> String {
    full_stop(&format!("{error:#}"))
}

/// Returns a reason with a full stop, if it has no end yet.
pub(super) fn full_stop(words: &str) -> String {
    let end = if words.ends_with(['.', '?']) { "" } else { "." };
    format!("{words}{end}")
}

/// Reads a secret from a file that an option names.
fn secret_of(file: Option<&Path>) -> anyhow::Result<Option<Zeroizing<String>>> {
    use std::io::Read as _;
    let Some(file) = file else { return Ok(None) };
    let mut text = Zeroizing::new(String::new());
    let opened = fs::File::open(file);
    let read = opened.and_then(|it| it.take(SECRET_BYTES_MAX).read_to_string(&mut text));
    read.with_context(|| format!("cannot read {}", file.display()))?;
    let secret = Zeroizing::new(config::without_mark(&text).trim().to_owned());
    if secret.is_empty() {
        bail!("{} is empty", file.display());
    }
    Ok(Some(secret))
}
