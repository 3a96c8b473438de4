//! `peacrab cron`: jobs from the command line, by way of the daemon that runs, so that there is one
//! writer. Where none runs, this process takes its place for one request.

use chrono::Utc;
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, Subcommand, value_parser};

use super::invocation::{Invocation, done};
use super::{chat, print};
use crate::channels::markup::unescaped;
use crate::control::ControlRequest;
use crate::control::listing::Listing;
use crate::replies;
use crate::store;
use crate::tasks::schedule::{
    self, JobId, JobRequest, JobRequestKind, JobRequester, JobScope, Missed,
};
use crate::types::job_verb::JobVerb;
use crate::types::message::Address;

#[derive(Subcommand)]
pub(super) enum Cron {
    #[command(name = JobVerb::List.name(), about = JobVerb::List.description())]
    List {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    #[command(name = JobVerb::Add.name(), about = JobVerb::Add.description())]
    Add(Add),
    #[command(name = JobVerb::Edit.name(), about = JobVerb::Edit.description())]
    Edit {
        /// The number of the job, as `list` shows it
        id: i64,
        #[command(flatten)]
        when: When,
        /// The new text
        #[arg(long, value_name = "TEXT")]
        text: Option<String>,
        #[command(flatten)]
        how: How,
    },
    #[command(flatten)]
    OneJob(OneJob),
}

/// A verb that is followed by a job's number and nothing else.
pub(super) struct OneJob {
    verb: JobVerb,
    id: i64,
    json: bool,
}

impl OneJob {
    fn verbs() -> impl Iterator<Item = JobVerb> {
        JobVerb::ALL.into_iter().filter(|verb| verb.takes_only_a_number())
    }

    /// Returns true for a verb whose answer a script can get as JSON.
    fn takes_json(verb: JobVerb) -> bool {
        matches!(verb, JobVerb::Show | JobVerb::History)
    }

    fn find(name: &str) -> Option<JobVerb> {
        Self::verbs().find(|verb| verb.name() == name)
    }
}

impl Subcommand for OneJob {
    fn augment_subcommands(command: Command) -> Command {
        command.subcommands(Self::verbs().map(|verb| {
            let id = Arg::new("id").value_name("ID").required(true);
            let id = id
                .value_parser(value_parser!(i64))
                .help("The number of the job, as `list` shows it");
            let others = verb.names().iter().skip(1).copied();
            let json = Arg::new("json").long("json").action(ArgAction::SetTrue).help("As JSON");
            let json = Self::takes_json(verb).then_some(json);
            Command::new(verb.name()).about(verb.description()).aliases(others).arg(id).args(json)
        }))
    }

    fn augment_subcommands_for_update(command: Command) -> Command {
        Self::augment_subcommands(command)
    }

    fn has_subcommand(name: &str) -> bool {
        Self::find(name).is_some()
    }
}

impl FromArgMatches for OneJob {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let missing = || clap::Error::new(ErrorKind::MissingSubcommand);
        let (name, arguments) = matches.subcommand().ok_or_else(missing)?;
        let verb = Self::find(name).ok_or_else(missing)?;
        let id = *arguments.get_one("id").ok_or_else(missing)?;
        let json = Self::takes_json(verb) && arguments.get_flag("json");
        Ok(Self { verb, id, json })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[derive(Args)]
pub(super) struct Add {
    #[command(flatten)]
    when: When,
    /// The chat that gets the result, as CHANNEL:CHAT or CHANNEL:CHAT:THREAD [default: the owner's]
    #[arg(long, value_name = "ADDRESS")]
    to: Option<Address>,
    #[command(flatten)]
    how: How,
    /// The prompt for the model, or the message or command
    text: String,
}

#[derive(Args)]
pub(super) struct How {
    /// Send the text as a fixed message, without a model
    #[arg(long)]
    message: bool,
    /// Run the text as a command, in the sandbox of `exec`, and send its output
    #[arg(long, conflicts_with = "message")]
    command: bool,
    /// Run this command first and add its output to the prompt; {"wakeAgent": false} skips the model; "" removes it
    #[arg(long, value_name = "COMMAND", conflicts_with_all = ["message", "command"])]
    check: Option<String>,
    /// Give the command the network, and of files only a folder of its own
    #[arg(long, conflicts_with = "path")]
    network: bool,
    /// Show the command this path and a folder of its own in place of the workspace; may be repeated
    #[arg(long, value_name = "PATH")]
    path: Vec<String>,
    /// Let the prompt use this tool, or open pages of this site, after untrusted content; may be repeated
    #[arg(long, value_name = "TOOL|SITE", conflicts_with_all = ["message", "command"])]
    allow: Vec<String>,
}

impl How {
    fn kind(&self) -> Option<JobRequestKind> {
        match self {
            Self { message: true, .. } => Some(JobRequestKind::Message),
            Self { command: true, .. } => Some(JobRequestKind::Command),
            _ => None,
        }
    }

    fn request(self, verb: JobVerb) -> JobRequest {
        let Self { check, network, path, allow, .. } = self;
        let allow = allow.join(" ");
        JobRequest { check, network, paths: path, allow, ..JobRequest::new(verb) }
    }
}

#[derive(Args)]
pub(super) struct When {
    /// Run once: 20m, 18:00, tomorrow 8:00, 2026-12-24 18:00
    #[arg(long, value_name = "TIME", conflicts_with_all = ["every", "cron"])]
    at: Option<String>,
    /// Run repeatedly: 30m, 2h, 1d
    #[arg(long, value_name = "PAUSE", conflicts_with = "cron")]
    every: Option<String>,
    /// Run by a cron line of five fields, or six with seconds
    #[arg(long, value_name = "FIELDS")]
    cron: Option<String>,
    /// The time zone of --at and --cron [default: the owner's]
    #[arg(long, value_name = "ZONE")]
    tz: Option<String>,
    /// Run a missed job once (the default), or skip it
    #[arg(long, value_name = "once|skip", value_parser = missed)]
    missed: Option<Missed>,
}

fn missed(word: &str) -> Result<Missed, String> {
    match word {
        "once" => Ok(Missed::Once),
        "skip" => Ok(Missed::Skip),
        _ => Err("must be once or skip".to_owned()),
    }
}

impl When {
    fn words(&self) -> String {
        let when = match self {
            Self { at: Some(at), .. } => at.clone(),
            Self { every: Some(every), .. } => format!("every {every}"),
            Self { cron: Some(cron), .. } => format!("cron {cron}"),
            _ => String::new(),
        };
        match &self.tz {
            Some(zone) if !when.is_empty() => format!("{when} {zone}"),
            _ => when,
        }
    }
}

impl Cron {
    /// Returns the listing that a script wants, and the number of its job. None if it is to be in words.
    fn wanted_as_json(&self) -> Option<(Listing, i64)> {
        match self {
            Self::List { json: true } => Some((Listing::Jobs, 0)),
            Self::OneJob(OneJob { verb: JobVerb::Show, id, json: true }) => {
                Some((Listing::Job { id: JobId(*id) }, *id))
            }
            Self::OneJob(OneJob { verb: JobVerb::History, id, json: true }) => {
                Some((Listing::JobRuns { id: JobId(*id) }, *id))
            }
            _ => None,
        }
    }

    fn into_request(self) -> (JobRequest, Option<Address>) {
        match self {
            Self::List { .. } => (JobRequest::new(JobVerb::List), None),
            Self::OneJob(OneJob { verb, id, .. }) => {
                (JobRequest { id: Some(id), ..JobRequest::new(verb) }, None)
            }
            Self::Edit { id, when, text, how } => {
                let (words, missed, kind) = (when.words(), when.missed, how.kind());
                let (id, text) = (Some(id), text.unwrap_or_default());
                let edit = how.request(JobVerb::Edit);
                (JobRequest { id, when: words, text, kind, missed, ..edit }, None)
            }
            Self::Add(Add { when, to, how, text }) => {
                let (words, missed, kind) = (when.words(), when.missed, how.kind());
                let kind = Some(kind.unwrap_or_default());
                let add = how.request(JobVerb::Add);
                (JobRequest { when: words, text, kind, missed, ..add }, to)
            }
        }
    }
}

/// Carries a command out.
pub(super) async fn handle(on: &Invocation, cron: Cron) -> anyhow::Result<()> {
    let (home, zone) = (&on.home, on.owners_zone());
    if let Some((what, id)) = cron.wanted_as_json() {
        let listed = chat::listing(home, what, zone).await?;
        anyhow::ensure!(!listed.is_null(), replies::no_job(id));
        print::json(&listed);
        return Ok(());
    }
    let (wanted, to) = cron.into_request();
    if wanted.action.only_reads() && !chat::is_running(home).await? {
        let (asker, now) = (JobRequester::placeholder(), Utc::now());
        // The words are those of a chat.
        let plain = |words: String| anyhow::Error::msg(unescaped(&words));
        let order = wanted.read(asker, now, zone).map_err(plain)?;
        let look = |store: &_| schedule::handle(store, &JobScope::All, order, now, zone);
        let found = store::read_offline(home, look)?.ok_or_else(|| chat::no_data(home))?;
        print::line(&unescaped(&found.map_err(plain)?));
        return Ok(());
    }
    let request = ControlRequest::Cron { wanted: Box::new(wanted), to };
    print::line(&done(on.ask(&request).await?)?);
    Ok(())
}
