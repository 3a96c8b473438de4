//! The third step of `init`: the person proves that the account on the platform is theirs, by the code that the bot gives it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use futures_util::FutureExt as _;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::super::dialog::TRIES_MAX;
use super::super::interrupts::Interrupts;
use super::super::{chat, send};
use super::channel::{NewOwner, TestedBot};
use super::setup::{Setup, full_stop, unless_stopped};
use crate::channels::markup::unescaped;
use crate::config::Config;
use crate::control::send::{SendOutcome, SendRequest};
use crate::control::{ControlRequest, ControlServer, Response};
use crate::daemon::{Daemon, logging};
use crate::people::{self, Role};
use crate::replies;
use crate::store;

/// Pairs the owner, if there is none. The daemon of this home runs meanwhile, in this process; a signal ends it in order.
pub(super) async fn pair(
    setup: &mut Setup<'_>,
    bot: &TestedBot,
    interrupts: &mut Interrupts,
) -> anyhow::Result<()> {
    let on = setup.on;
    let (program, continues) = (on.program(), setup.how_to_continue());
    let config = on.load()?;
    let has_owner =
        config.has_owner(&store::try_read(&on.home, people::paired).unwrap_or_default());
    if has_owner {
        return match &bot.new_owner {
            Some(owner) => {
                let greeting = Box::pin(greet(setup, bot, owner, &config));
                unless_stopped(&continues, interrupts, greeting).await
            }
            None => Ok(()),
        };
    }
    if !setup.dialog.asks() {
        show_link(setup, bot);
        setup.dialog.say(&nobody_yet(&program));
        return Ok(());
    }
    if chat::is_running(&on.home).await? {
        let asking = Box::pin(async {
            if let Err(error) = reload(&on.home, &config).await {
                setup.dialog.say(&format!("{error:#}\n{}", nobody_yet(&program)));
                return Ok(());
            }
            explain(setup, bot);
            ask_code(setup, &PairingDaemon::Running(on.home.clone()), bot).await
        });
        return unless_stopped(&continues, interrupts, asking).await;
    }
    explain(setup, bot);
    // This dialog says itself what is wrong with the link.
    let filter = format!("{},peacrab::channels::supervise=off", logging::QUIET_FILTER);
    let daemon = Daemon::open(on.plan(on.prepare_with(&filter)?)?).await?;
    let asked = PairingDaemon::Ours(daemon.control_server());
    let stop = CancellationToken::new();
    let asking = async {
        let asked = unless_stopped(&continues, interrupts, ask_code(setup, &asked, bot)).await;
        stop.cancel();
        asked
    };
    let running = Box::pin(daemon.run(stop.clone(), || {}));
    let (ran, asked) = tokio::join!(running, asking);
    ran.and(asked)
}

/// Sends the first message to the owner whom `--owner` names, and says if it does not arrive.
async fn greet(
    setup: &mut Setup<'_>,
    bot: &TestedBot,
    owner: &NewOwner,
    config: &Config,
) -> anyhow::Result<()> {
    // A daemon that runs reads the new config first. Whatever fails here, the config is complete.
    let reloaded = reload_running(setup, config).await;
    let sent = match &owner.chat {
        None => {
            Err(format!("On {}, a bot can write only after you have written to it.", bot.title))
        }
        Some(chat) => {
            let request =
                welcome_request(format!("{}:{chat}", bot.channel), replies::SETUP_COMPLETE);
            match reloaded.and(send_first(setup, request).await) {
                Ok(SendOutcome::Arrived(_)) => Ok(()),
                Ok(
                    SendOutcome::Refused(why) | SendOutcome::Lost(why) | SendOutcome::Waits(why),
                ) => Err(why),
                Err(error) => Err(format!("{error:#}.")),
            }
        }
    };
    match sent {
        Ok(()) => setup.dialog.say("A message is in your chat now.\n"),
        Err(why) => {
            let why = full_stop(&setup.on.name_commands(&unescaped(&why)));
            let words = format!("The first message has not reached you. {why}");
            setup.dialog.say(&words);
            setup.warnings.push(words);
            show_link(setup, bot);
            let (title, name) = (bot.title, &bot.probe.name);
            setup.dialog.say(&format!(
                "Open {title} and send {name} any message in private. If it answers with a code, the id of --owner is not \
                 yours.\n"
            ));
        }
    }
    Ok(())
}

async fn reload_running(setup: &Setup<'_>, config: &Config) -> anyhow::Result<()> {
    match chat::is_running(&setup.on.home).await? {
        true => reload(&setup.on.home, config).await,
        false => Ok(()),
    }
}

/// Sends a message by the daemon that runs, or without one.
async fn send_first(setup: &Setup<'_>, request: SendRequest) -> anyhow::Result<SendOutcome> {
    let on = setup.on;
    match send::through_socket(&on.home, &request).await? {
        Some(sent) => Ok(sent),
        None => Daemon::open(on.plan(on.prepare()?)?).await?.send(request).await,
    }
}

/// Returns the words about how somebody becomes the owner.
pub(super) fn nobody_yet(program: &str) -> String {
    format!(
        "There is no owner yet. While the daemon runs, write to the bot and run `{program} pair approve CODE` with the code \
         that it answers.\n"
    )
}

fn explain(setup: &mut Setup<'_>, bot: &TestedBot) {
    let number = setup.question();
    setup.dialog.say(&format!("{number} Who is the owner?"));
    show_link(setup, bot);
    setup.dialog.say(&format!(
        "Open {} and send {} any message in private. It answers with a code. Type the code here, or press Enter to do it later.",
        bot.title, bot.probe.name
    ));
}

/// Shows the bot's link, if its platform has one: that of a chat with it, or that which lets it in.
fn show_link(setup: &Setup<'_>, bot: &TestedBot) {
    let Some(link) = &bot.probe.link else { return };
    if !bot.invitation.is_empty() {
        setup.dialog.say(bot.invitation);
    }
    setup.dialog.show(link);
}

/// The daemon that hears the person.
enum PairingDaemon {
    /// The one in this process.
    Ours(Arc<ControlServer>),
    /// The one that runs in this home.
    Running(PathBuf),
}

impl PairingDaemon {
    /// `program` is named in the answer's commands.
    async fn ask(&self, request: &ControlRequest, program: &str) -> anyhow::Result<Response> {
        match self {
            Self::Ours(server) => chat::ask_in_memory(Arc::clone(server), request, program).await,
            Self::Running(home) => chat::ask(home, request).await,
        }
    }
}

/// A daemon that stops and starts its channels takes some seconds.
const RELOAD_TIME_MAX: Duration = Duration::from_secs(20);

/// The interval between two checks if the daemon runs again.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Lets the running daemon take the new config, and waits until it has its channels.
async fn reload(home: &Path, config: &Config) -> anyhow::Result<()> {
    chat::ask(home, &ControlRequest::Reload { json: false }).await?;
    let has_all = async || {
        let status = chat::status_now(home).await.ok()?;
        config.channels.keys().all(|name| status.channels.contains_key(name.as_str())).then_some(())
    };
    let wait = async {
        while has_all().await.is_none() {
            sleep(LOOK_EVERY).await;
        }
    };
    timeout(RELOAD_TIME_MAX, wait).await.context("the daemon has not read the config again")
}

/// The interval between two looks at the link of the bot.
const LINK_EVERY: Duration = Duration::from_secs(1);

/// Waits until the bot cannot hear the person, who would wait for its code in vain. Returns the words about it.
async fn link_trouble(setup: &Setup<'_>, daemon: &PairingDaemon, bot: &TestedBot) -> String {
    let program = setup.on.program();
    loop {
        sleep(LINK_EVERY).await;
        let asked = daemon.ask(&ControlRequest::Status, &program).await;
        let Ok(Response::Status(status)) = asked else { continue };
        let link = status.channels.get(bot.channel.as_str());
        if let Some(trouble) = link.and_then(|link| link.trouble.as_ref()) {
            let why = setup.on.name_commands(trouble);
            let (title, why) = (bot.title, why.trim_end_matches('.'));
            return format!(
                "{title} does not let me hear you: {why}. I go on trying. Press Enter to do this step later."
            );
        }
    }
}

async fn ask_code(
    setup: &Setup<'_>,
    daemon: &PairingDaemon,
    bot: &TestedBot,
) -> anyhow::Result<()> {
    let program = &setup.on.program();
    let mut trouble = Box::pin(link_trouble(setup, daemon, bot)).fuse();
    for _ in 0..TRIES_MAX {
        let code = setup.dialog.ask_amid("Code", Some("later"), &mut trouble).await?;
        if code == "later" {
            break;
        }
        // However it was written down.
        let code: String =
            code.chars().filter(|sign| !sign.is_whitespace() && *sign != '-').collect();
        let request = ControlRequest::Pair { words: vec!["approve".to_owned(), code], json: false };
        match daemon.ask(&request, program).await {
            Ok(Response::Done(words)) => {
                setup.dialog.say(&words);
                return welcome(setup, daemon).await;
            }
            Ok(_) => {}
            Err(error) => setup.dialog.say(&format!("{error:#}")),
        }
    }
    setup.dialog.say(&nobody_yet(program));
    Ok(())
}

fn welcome_request(to: String, text: &str) -> SendRequest {
    SendRequest { to, text: text.to_owned(), files: Vec::new(), markdown: false }
}

/// Sends the first message, and waits until it has arrived.
async fn welcome(setup: &Setup<'_>, daemon: &PairingDaemon) -> anyhow::Result<()> {
    let request = welcome_request(Role::Owner.to_string(), replies::SETUP_IS_COMPLETE);
    match daemon.ask(&ControlRequest::Send(request), &setup.on.program()).await? {
        Response::Sent(SendOutcome::Arrived(_)) => {
            setup.dialog.say("A message is in your chat now.\n");
        }
        _ => setup.dialog.say("You are the owner. The first message is still on its way.\n"),
    }
    Ok(())
}
