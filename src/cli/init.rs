//! `peacrab init`: from an empty home to a bot that answers its owner. Each answer is tested before it is saved, and what
//! is saved is a whole config, so that it can be ended at any question and begun again.

mod channel;
mod model;
mod pairing;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::Args;
use zeroize::Zeroizing;

use super::dialog::Dialog;
use super::invocation::Invocation;
use super::service::{self, ServiceChoice};
use crate::config::edit::ConfigEdit;
use crate::config::{self, Config, Environment};

#[derive(Args, Default)]
pub(super) struct InitOptions {
    /// The model's provider: anthropic, openai, openrouter, ollama, llama.cpp, none, or the address of a server
    #[arg(long, value_name = "NAME|URL")]
    provider: Option<String>,
    /// The model's name, as the provider writes it
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// A file with the provider's key
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// The chat platform: telegram, discord, slack or none
    #[arg(long, value_name = "NAME")]
    channel: Option<String>,
    /// A file with the bot's token
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// A file with the app's token; Slack has two
    #[arg(long, value_name = "FILE")]
    app_token_file: Option<PathBuf>,
    /// Another address of the platform, such as a Bot API server of your own
    #[arg(long, value_name = "URL")]
    api_url: Option<String>,
    /// Your id on the platform: you are then the owner without a pairing code
    #[arg(long, value_name = "ID")]
    owner: Option<String>,
    /// The service to install
    #[arg(long, value_enum)]
    service: Option<ServiceChoice>,
    /// Ask nothing: take what the options and the environment say, and leave the rest out
    #[arg(long)]
    yes: bool,
}

/// The state that all steps of the setup share.
struct Setup<'a> {
    on: &'a Invocation,
    options: &'a InitOptions,
    dialog: Dialog,
    edit: ConfigEdit,
    /// Questions so far.
    asked: usize,
}

/// The questions: the model, its key or name, the platform, its token, the pairing code, the service.
const QUESTIONS_MAX: usize = 6;

/// Longer ones are no keys or tokens.
const SECRET_BYTES_MAX: u64 = 16 * 1024;

pub(super) async fn run(on: &Invocation, options: &InitOptions) -> anyhow::Result<ExitCode> {
    rustls::crypto::ring::default_provider().install_default().ok();
    let file = config::file(&on.home, on.config.as_deref());
    let edit = ConfigEdit::open(&file)?;
    let config = edit.load(&on.environment)?;
    let dialog = Dialog::new(!options.yes);
    let mut setup = Setup { on, options, dialog, edit, asked: 0 };
    setup.dialog.say(&format!(
        "This sets up Peacrab in {}. There are at most {QUESTIONS_MAX} questions. Each answer is tested at once. Press Enter \
         to accept the answer in brackets, or Ctrl-C to stop; answers that passed their test are kept.\n",
        on.home.display()
    ));
    tokio::select! {
        done = Box::pin(take_steps(&mut setup, &config)) => done?,
        stopped = tokio::signal::ctrl_c() => {
            stopped.ok();
            bail!("stopped; everything saved so far is kept. Run `peacrab init` to continue");
        }
    }
    let program = config::program(&on.home, &on.environment);
    setup.dialog.say(&format!(
        "\nAll is set up. `{program} doctor` checks it again at any time, `{program} chat` talks to it here. The config is {}.",
        file.display()
    ));
    Ok(ExitCode::SUCCESS)
}

async fn take_steps(setup: &mut Setup<'_>, config: &Config) -> anyhow::Result<()> {
    model::set_up(setup, config).await?;
    if let Some(bot) = channel::set_up(setup, config).await? {
        pairing::pair(setup, &bot).await?;
    }
    offer_service(setup).await
}

async fn offer_service(setup: &mut Setup<'_>) -> anyhow::Result<()> {
    let (on, dialog) = (setup.on, &setup.dialog);
    let program = config::program(&on.home, &on.environment);
    let by_hand = format!("Start it with `{program} run`.");
    let choice = match setup.options.service {
        Some(choice) => choice,
        None if !dialog.asks() => ServiceChoice::None,
        None => match service::usual_choice(&on.home).await {
            Ok(choice) => {
                let number = setup.question();
                let question =
                    format!("{number} Start Peacrab now and at each boot, as a service?");
                let is_wanted = setup.dialog.ask_yes(&question).await?;
                if is_wanted { choice } else { ServiceChoice::None }
            }
            Err(why) => {
                dialog.say(&format!("A service can't be installed here: {why:#}."));
                ServiceChoice::None
            }
        },
    };
    match choice.manager() {
        None => setup.dialog.say(&by_hand),
        Some(manager) => {
            let done = service::install(on, manager).await?;
            setup.dialog.say(&done);
        }
    }
    Ok(())
}

impl Setup<'_> {
    /// Returns the heading of the next question.
    fn question(&mut self) -> String {
        self.asked += 1;
        format!("Question {} of {QUESTIONS_MAX}.", self.asked)
    }

    fn environment(&self) -> &Environment {
        &self.on.environment
    }

    /// Saves the config that was tested.
    fn save(&mut self, edit: ConfigEdit) -> anyhow::Result<Config> {
        let config = edit.load(&self.on.environment)?;
        edit.save().context("cannot write the config")?;
        self.edit = edit;
        Ok(config)
    }
}

/// Reads a secret from a file that an option names.
fn secret_of(file: Option<&Path>) -> anyhow::Result<Option<Zeroizing<String>>> {
    use std::io::Read as _;
    let Some(file) = file else { return Ok(None) };
    let mut text = Zeroizing::new(String::new());
    let opened = fs::File::open(file).with_context(|| format!("cannot read {}", file.display()))?;
    opened.take(SECRET_BYTES_MAX).read_to_string(&mut text)?;
    let secret = Zeroizing::new(text.trim().to_owned());
    if secret.is_empty() {
        bail!("{} is empty", file.display());
    }
    Ok(Some(secret))
}
