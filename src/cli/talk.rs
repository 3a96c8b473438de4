//! A conversation or a single chat command from the command line, by way of the daemon that runs, or of one in this process
//! for as long as it lasts. Not here: what is shown of it (`chat`).

use std::process::ExitCode;

use tokio_util::sync::CancellationToken;

use super::chat::{self, ChatEnd, ChatOptions};
use super::invocation::Invocation;
use super::print::ResultForm;
use super::run::run_until_end;
use crate::control::ChatLine;
use crate::daemon::Daemon;

/// A terminal's conversation for single commands, so that nobody else's answers come between.
const COMMAND_SESSION: &str = "undo";

/// Exit code after Ctrl-C, as shells have it: 128 and the number of the signal.
const STOPPED: u8 = 130;

/// Gives one chat command, and shows the answer. For a script nothing is shown; an answer that refuses is the error.
pub(super) async fn ask_command(
    on: &Invocation,
    command: String,
    failed: &'static str,
    form: ResultForm,
) -> anyhow::Result<ExitCode> {
    let message = Some(ChatLine { say: command, piped: false });
    let session = COMMAND_SESSION.to_owned();
    let (events, is_silent) = (false, form == ResultForm::Json);
    let (home, environment) = (on.home.clone(), &on.environment);
    let options = ChatOptions { message, session, events, failed, is_silent, home, environment };
    talk(on, &options).await
}

/// Talks to the daemon; where none runs, to one without other channels for as long as this lasts. Returns the exit code.
pub(super) async fn talk(on: &Invocation, options: &ChatOptions<'_>) -> anyhow::Result<ExitCode> {
    let code_after = |end| match end {
        ChatEnd::Conversation | ChatEnd::Interrupted => ExitCode::SUCCESS,
        ChatEnd::Stopped => ExitCode::from(STOPPED),
    };
    if let Some(end) = chat::through_socket(options).await? {
        return Ok(code_after(end));
    }
    let mut config = on.prepare()?;
    config.channels.clear();
    config.gateway = None;
    let daemon = Daemon::open(on.plan(config)?).await?;
    let server = daemon.control_server();
    let stop = CancellationToken::new();
    let talk = async {
        let talked = tokio::select! {
            talked = chat::through_memory(server, options) => talked,
            () = stop.cancelled() => Ok(ChatEnd::Conversation),
        };
        stop.cancel();
        talked
    };
    let (ran, talked) = tokio::join!(run_until_end(daemon, &stop, || {}), talk);
    ran?;
    talked.map(code_after)
}
