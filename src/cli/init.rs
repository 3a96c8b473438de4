//! `peacrab init`: from an empty home to a bot that answers its owner. Each answer is tested before it is saved, and what
//! is saved is a whole config, so that it can be ended at any question and begun again.

mod candidate;
mod channel;
mod model;
mod outcome;
mod pairing;
mod platforms;
mod setup;

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use rustix::process::geteuid;

use super::chat;
use super::dialog::Dialog;
use super::interrupts::Interrupts;
use super::invocation::Invocation;
use super::print;
use super::service::{self, ServiceChoice};
use super::service_environment;
use super::systemd;
use crate::config::edit::ConfigEdit;
use crate::config::{self, Config};
use crate::doctor::{Severity, files, machine};
use crate::store;
use outcome::{FinishedSteps, InitOutcome};
pub(super) use setup::InitOptions;
use setup::{GivenSecrets, QUESTIONS_MAX, Setup, unless_stopped};

/// Asks the person at the terminal if the home should be set up, where nothing is. Returns false also where nobody can be
/// asked.
pub(super) async fn is_wanted(on: &Invocation) -> anyhow::Result<bool> {
    let may_ask = chat::has_own_terminal() && is_blank(on);
    if !may_ask || !matches!(chat::is_running(&on.home).await, Ok(false)) {
        return Ok(false);
    }
    // Ctrl-C ends the program here, as nothing has begun.
    Dialog::new(true).ask_yes("Nothing is set up yet. Set it up now?").await
}

/// Returns true if neither the config nor the environment names a model or a platform. One with faults is for the daemon
/// to refuse.
fn is_blank(on: &Invocation) -> bool {
    let file = config::file(&on.home, on.config.as_deref());
    let is_empty = ConfigEdit::open(&file).is_ok_and(|edit| names_nothing(&edit));
    let loaded = on.load_to_run();
    is_empty && loaded.is_ok_and(|config| service_environment::is_rehearsal_only(&config))
}

/// Returns true if a config file has neither a model nor a platform.
fn names_nothing(edit: &ConfigEdit) -> bool {
    ["providers", "channels"].iter().all(|kind| edit.names(kind).is_empty())
}

pub(super) async fn run(on: &Invocation, options: &InitOptions) -> anyhow::Result<ExitCode> {
    let outcome = Box::pin(set_up(on, options)).await?;
    if options.json {
        print::json(&serde_json::to_value(outcome)?);
    }
    Ok(ExitCode::SUCCESS)
}

async fn set_up(on: &Invocation, options: &InitOptions) -> anyhow::Result<InitOutcome> {
    rustls::crypto::ring::default_provider().install_default().ok();
    let dialog = match options.json {
        true => Dialog::beside_json(),
        false => Dialog::new(!options.yes),
    };
    let system = home_of_system(on, options, &dialog).await;
    let on = system.as_ref().unwrap_or(on);
    if let Some(manager) = options.service.and_then(ServiceChoice::manager) {
        // Rather now than after all questions.
        service::check_home(on, manager)?;
        systemd::reach(&on.environment, manager).await?;
    }
    let file = config::file(&on.home, on.config.as_deref());
    let edit = ConfigEdit::open(&file).map_err(|error| match on.load() {
        // Whatever is wrong in a config, each command ends with the same code.
        Err(faults) => faults.into(),
        Ok(_) => error,
    })?;
    let config = edit.load(&on.environment)?;
    let secrets = GivenSecrets::default();
    let (dead_model, warnings) = (None, Vec::new());
    let mut setup = Setup { on, options, secrets, dialog, edit, asked: 0, dead_model, warnings };
    setup.dialog.say(&opening(on, setup.dialog.asks()));
    close_home(&mut setup);
    let done = Box::pin(take_steps(&mut setup, &config, Interrupts::watch()?)).await?;
    let program = on.program();
    let what = match file.exists() {
        true => format!("All is set up. The config is {}.", file.display()),
        false => "Nothing is set up yet, and rehearsal answers by fixed rules.".to_owned(),
    };
    setup.dialog.say(&format!(
        "\n{what} `{program} doctor` checks it again at any time, `{program} chat` talks to it here."
    ));
    InitOutcome::read(&setup, done)
}

/// The bit of a folder in which everybody may make files on purpose, such as /tmp.
const STICKY: u32 = 0o1000;

/// Takes the rights of others on a home that they can write to, where they could replace the config. One that is not this
/// account's, or is for everybody on purpose, stays as it is, with a warning.
fn close_home(setup: &mut Setup<'_>) {
    let home = &setup.on.home;
    let Some(open) = files::others_can_write(home) else { return };
    let is_ours = fs::metadata(home).is_ok_and(|about| {
        about.uid() == geteuid().as_raw() && about.mode() & STICKY == 0 && about.is_dir()
    });
    let closed = Permissions::from_mode(0o700);
    let words = match is_ours && fs::set_permissions(home, closed).is_ok() {
        true => {
            format!("{} is for this account only now: others could write to it.\n", home.display())
        }
        false => format!("Warning: {open}, and so change the config.\n"),
    };
    setup.dialog.say(&words);
    setup.warnings.push(words.trim_end().to_owned());
}

/// The first lines: for a person at a dialog that asks, or for a script.
fn opening(on: &Invocation, asks: bool) -> String {
    let home = on.home.display();
    match asks {
        true => format!(
            "This sets up Peacrab in {home}. There are at most {QUESTIONS_MAX} questions. Each answer is tested at once. Press \
             Enter to accept the answer in brackets, or Ctrl-C to stop; answers that passed their test are kept.\n"
        ),
        false => {
            format!("This sets up Peacrab in {home}. Each part is tested before it is saved.\n")
        }
    }
}

/// Returns the invocation for the home of the system's service: root sets that one up, unless another home is named or in
/// use. None for the home as it is; root is then told what that means.
async fn home_of_system(
    on: &Invocation,
    options: &InitOptions,
    dialog: &Dialog,
) -> Option<Invocation> {
    let may_be_meant = match options.service {
        Some(choice) => choice == ServiceChoice::System,
        None => dialog.asks(),
    };
    if !may_be_meant || on.config.is_some() || !service::has_other_home(&on.home).await {
        return None;
    }
    let home = service::SYSTEM_HOME;
    if service::is_unused_default(on) {
        dialog.say(&format!(
            "You are root, so this sets up the service of the system, which has its home in {home}. For another home, stop \
             with Ctrl-C and give --home.\n"
        ));
        return Some(Invocation { home: home.into(), ..on.clone() });
    }
    dialog.say(&format!(
        "You are root. The service of the system has its home in {home}, and this is another one, {}: it can't run as that \
         service. To set that one up, stop with Ctrl-C and give --home {home}.\n",
        on.home.display()
    ));
    None
}

async fn take_steps(
    setup: &mut Setup<'_>,
    config: &Config,
    mut interrupts: Interrupts,
) -> anyhow::Result<FinishedSteps> {
    let continues = setup.how_to_continue();
    let first = Box::pin(async {
        setup.secrets = GivenSecrets::read(setup.options).await?;
        channel::check_options(setup, config)?;
        model::set_up(setup, config).await?;
        channel::set_up(setup, config).await
    });
    let bot = unless_stopped(&continues, &mut interrupts, first).await?;
    if let Some(bot) = &bot {
        // It stops by itself, because its daemon has to end in order.
        Box::pin(pairing::pair(setup, bot, &mut interrupts)).await?;
    }
    check_space(setup.on, &continues)?;
    let offered = Box::pin(offer_service(setup));
    let (service, next) = unless_stopped(&continues, &mut interrupts, offered).await?;
    Ok(FinishedSteps { bot, service, next })
}

/// Returns an error if the home has no store yet, and its disk has no room for one: no daemon could work there.
fn check_space(on: &Invocation, continues: &str) -> anyhow::Result<()> {
    let has_store = fs::metadata(on.home.join(store::FILE)).is_ok_and(|store| store.len() > 0);
    let disk = machine::check_disk(&on.home);
    if has_store || disk.severity != Severity::Wrong {
        return Ok(());
    }
    let (home, words, advice) = (on.home.display(), disk.words, disk.advice.unwrap_or_default());
    bail!("the disk of {home} cannot hold the data: {words}. To do: {advice}; {continues}")
}

/// Installs the service that is wanted. Returns it, with the words about it or about how the daemon starts without one.
async fn offer_service(setup: &mut Setup<'_>) -> anyhow::Result<(ServiceChoice, String)> {
    let (on, dialog) = (setup.on, &setup.dialog);
    let program = on.program();
    let by_hand = match chat::is_running(&on.home).await {
        Ok(true) => {
            format!("A daemon runs on this home; `{program} reload` lets it take what is new.")
        }
        Ok(false) | Err(_) => format!("Start it with `{program} run`."),
    };
    let choice = match setup.options.service {
        Some(choice) => choice,
        None if !dialog.asks() || names_nothing(&setup.edit) => ServiceChoice::None,
        None => match service::usual_choice(on).await {
            Ok(choice) => {
                let number = setup.question();
                let question =
                    format!("{number} Start Peacrab now and at each boot, as a service?");
                let is_wanted = setup.dialog.ask_yes(&question).await?;
                if is_wanted { choice } else { ServiceChoice::None }
            }
            Err(why) => {
                let why = format!("{why:#}");
                let why = why.trim_end_matches('.');
                dialog.say(&format!("A service can't be installed here: {why}."));
                ServiceChoice::None
            }
        },
    };
    let words = match choice.manager() {
        None => by_hand,
        Some(manager) => {
            let done = service::install(on, manager).await;
            done.with_context(|| {
                format!(
                    "all else is set up and saved, and `{program} service install` tries this again, but the service does \
                     not run"
                )
            })?
        }
    };
    setup.dialog.say(&words);
    Ok((choice, words))
}
