//! `peacrab init`: from an empty home to a bot that answers its owner. Each answer is tested before it is saved, and what
//! is saved is a whole config, so that it can be ended at any question and begun again.

mod channel;
mod model;
mod pairing;
mod setup;

use std::process::ExitCode;

use anyhow::bail;

use super::dialog::Dialog;
use super::invocation::Invocation;
use super::service::{self, ServiceChoice};
use crate::config::edit::ConfigEdit;
use crate::config::{self, Config};
pub(super) use setup::InitOptions;
use setup::{QUESTIONS_MAX, Setup};

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
        Box::pin(pairing::pair(setup, &bot)).await?;
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
