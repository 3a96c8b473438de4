//! A command line in its surroundings: the home, the config, the log.

use std::path::{Path, PathBuf};

use chrono_tz::Tz;
use rustix::process::{DumpableBehavior, set_dumpable_behavior};

use super::chat;
use super::shell_words::with_program;
use crate::backup::restore;
use crate::config::{self, Config, ConfigErrors, Environment, last_good};
use crate::control::{ControlRequest, Response};
use crate::daemon::logging;
use crate::daemon::{self, Daemon, DaemonParts};
use crate::doctor::files;
use crate::secret::Redactor;
use crate::workspace::Workspace;
use crate::workspace::skills::SkillEnvironment;
use crate::{people, store};

#[derive(Clone)]
pub(super) struct Invocation {
    pub(super) home: PathBuf,
    /// As the command line names it.
    pub(super) config: Option<PathBuf>,
    pub(super) environment: Environment,
    pub(super) format: logging::Format,
}

impl Invocation {
    pub(super) fn load(&self) -> Result<Config, ConfigErrors> {
        config::load(&self.home, self.config.as_deref(), &self.environment)
    }

    /// Loads the config of a daemon. A file that is gone, or has lost its settings, is no empty config.
    pub(super) fn load_to_run(&self) -> Result<Config, ConfigErrors> {
        last_good::refuse_lost(&self.home, self.config.as_deref(), self.load())
    }

    /// Loads the config and begins to log, of a command that does one thing and ends.
    pub(super) fn prepare(&self) -> anyhow::Result<Config> {
        self.prepare_with(logging::QUIET_FILTER)
    }

    /// As [`Self::prepare`], with what is logged by default.
    pub(super) fn prepare_with(&self, filter: &str) -> anyhow::Result<Config> {
        let config = self.load_to_run()?;
        rustls::crypto::ring::default_provider().install_default().ok();
        keep_to_ourselves();
        let redactor = Redactor::new(config.secrets());
        logging::init(self.format, filter, redactor, &self.environment)?;
        let warnings = warnings(&config, &self.home);
        warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
        if let Some(words) = files::others_can_write(&self.home) {
            let doctor = format!("{} doctor --fix", self.program());
            tracing::warn!("{words}, and so change the config: run `{doctor}`");
        }
        Ok(config)
    }

    /// Loads the config of a daemon that runs; its secrets stay out of the log from now on. `has_settings` is true if it runs
    /// with settings of a config file, which must still have some.
    pub(super) fn load_again(&self, has_settings: bool) -> anyhow::Result<Config> {
        if has_settings {
            last_good::refuse_loss(&self.home, self.config.as_deref())?;
        }
        let config = self.load_to_run()?;
        logging::redact_also(Redactor::new(config.secrets()));
        let warnings = warnings(&config, &self.home);
        warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
        Ok(config)
    }

    /// Returns the command by which people go on with this home and this config in a shell.
    pub(super) fn program(&self) -> String {
        let program = config::program(&self.home, &self.environment);
        match &self.config {
            None => program,
            Some(config) => format!("{program} --config {}", config::quoted(config)),
        }
    }

    /// Names the commands in a sentence of the daemon or of a check as they reach this home: copied as they are, they must not
    /// change another one.
    pub(super) fn name_commands(&self, words: &str) -> String {
        with_program(words, &self.program())
    }

    pub(super) fn plan(&self, config: Config) -> anyhow::Result<DaemonParts> {
        DaemonParts::new(&self.home, config, &self.environment)
    }

    /// Asks the daemon. Where none runs, this process opens the home for the request; it holds the home's lock meanwhile,
    /// so that there is one writer.
    pub(super) async fn ask(&self, request: &ControlRequest) -> anyhow::Result<Response> {
        if chat::is_reached(&self.home).await? {
            return chat::ask(&self.home, request).await;
        }
        if !store::has_store(&self.home) && !restore::is_unfinished(&self.home) {
            return Err(chat::no_data(&self.home));
        }
        if request.only_reads() {
            self.refuse_unmigrated()?;
        }
        let daemon = Daemon::open(self.plan(self.prepare()?)?).await?;
        chat::ask_in_memory(daemon.control_server(), request, &self.program()).await
    }

    /// Returns an error if only a start of the daemon may bring the store up to date, of a command that only shows something:
    /// the version that wrote it could not open it any more. Only where no daemon runs.
    pub(super) fn refuse_unmigrated(&self) -> anyhow::Result<()> {
        // The next opening finishes a restore that was cut off, and that has the store.
        if !restore::is_unfinished(&self.home) {
            store::refuse_unmigrated(&self.home)?;
        }
        Ok(())
    }

    /// The owner's time zone as the daemon knows it: of the config, of USER.md, or of this machine.
    pub(super) fn owners_zone(&self) -> Tz {
        let root = self.home.join("workspace");
        let workspace = Workspace::open_read_only(&root, SkillEnvironment::default());
        let path = daemon::USER.parse();
        let user = workspace.ok().zip(path.ok()).and_then(|(it, path)| it.read_text(&path).ok()?);
        let agent = self.load().map(|config| config.agent).unwrap_or_default();
        agent.zone(&user.unwrap_or_default())
    }
}

/// Nobody else of this account reads our memory, nor is it written down when we crash: secrets are in it.
fn keep_to_ourselves() {
    if let Err(error) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
        tracing::warn!(%error, "Our memory can be read by other programs of this account");
    }
}

/// Returns what will work, but perhaps not as meant.
pub(super) fn warnings(config: &Config, home: &Path) -> Vec<String> {
    let paired = store::try_read(home, people::paired).unwrap_or_default();
    config.warnings(&paired).into_iter().chain(config.cautions(home)).collect()
}

/// Returns the words of a request that was carried out, or its listing as JSON.
pub(super) fn shown(response: Response) -> anyhow::Result<String> {
    match response {
        Response::Listing(listed) => Ok(serde_json::to_string_pretty(&listed)?),
        response => done(response),
    }
}

/// Returns the words of a request that was carried out.
pub(super) fn done(response: Response) -> anyhow::Result<String> {
    match response {
        Response::Done(words) => Ok(words),
        Response::Failed(words) => anyhow::bail!(words),
        _ => anyhow::bail!(
            "the daemon's answer is unexpected: if it runs another version, restart it"
        ),
    }
}
