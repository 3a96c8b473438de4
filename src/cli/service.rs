//! `peacrab service`: the unit of systemd for this home, of the system or of this account. Not here: the text of the unit
//! (`unit`).

mod unit;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, anyhow, bail};
use clap::{Args, Subcommand, ValueEnum};
use rustix::process::geteuid;
use serde_json::{Value, json};

use super::invocation::Invocation;
use super::print::{self, ResultForm};
use super::service_environment;
use super::systemd::{self, Manager, UNIT};
use crate::config::{self, Environment};
use crate::daemon::starts;
use crate::doctor::service::ServiceState;
use crate::replies;
pub(super) use unit::SYSTEM_HOME;
use unit::{KEPT_ENDING, PROGRAM, packaged_unit, unit_file, write_unit};
pub use unit::{SYSTEM_UNIT, USER_UNIT, system_unit, unstartable, user_unit};

#[derive(Subcommand)]
pub(super) enum ServiceCommand {
    /// Write the unit, start the service, and start it at each boot
    Install(ServiceScope),
    /// Stop the service and remove the unit; the home stays
    Uninstall(ServiceScope),
    /// Show what systemd knows of the service
    Status {
        #[command(flatten)]
        whose: ServiceScope,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Show the log of the service
    Logs {
        #[command(flatten)]
        whose: ServiceScope,
        /// Show new lines as they come
        #[arg(short, long)]
        follow: bool,
        /// The number of lines
        #[arg(short = 'n', long, default_value_t = 100, value_name = "N")]
        lines: usize,
    },
}

/// Default: of the system for root, else of this account.
#[derive(Args, Clone, Copy)]
pub(super) struct ServiceScope {
    /// A service of this account
    #[arg(long, conflicts_with = "system")]
    user: bool,
    /// A service of the system, with an account of its own; only root can install it
    #[arg(long)]
    system: bool,
}

/// The kind of service that `init` installs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ServiceChoice {
    User,
    System,
    None,
}

impl ServiceChoice {
    /// Returns the word for it on the command line.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::System => "system",
            Self::None => "none",
        }
    }

    pub(super) fn manager(self) -> Option<Manager> {
        match self {
            Self::User => Some(Manager::User),
            Self::System => Some(Manager::System),
            Self::None => None,
        }
    }
}

impl ServiceScope {
    fn manager(self) -> Manager {
        self.chosen().unwrap_or(match geteuid().is_root() {
            true => Manager::System,
            false => Manager::User,
        })
    }

    /// The manager that the command line names.
    fn chosen(self) -> Option<Manager> {
        match (self.user, self.system) {
            (true, _) => Some(Manager::User),
            (_, true) => Some(Manager::System),
            _ => None,
        }
    }
}

pub(super) async fn handle(on: &Invocation, command: ServiceCommand) -> anyhow::Result<ExitCode> {
    match command {
        ServiceCommand::Install(whose) => {
            let manager = whose.manager();
            print::line(&install(&in_home_of(on, manager), manager).await?);
        }
        ServiceCommand::Uninstall(whose) => {
            print::line(&uninstall(&on.environment, whose.manager()).await?);
        }
        ServiceCommand::Status { whose, json } => {
            return show_status(on, whose, ResultForm::of(json)).await;
        }
        ServiceCommand::Logs { whose, follow, lines } => {
            let lines = format!("--lines={lines}");
            let mut arguments = vec!["--no-pager", lines.as_str()];
            arguments.extend(follow.then_some("--follow"));
            let manager = manager_with_log(on, whose).await?;
            return systemd::journal(manager, &arguments).await;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Shows the service of the named manager, or else of the first that knows one of this home. It fails if that does not run.
async fn show_status(
    on: &Invocation,
    whose: ServiceScope,
    form: ResultForm,
) -> anyhow::Result<ExitCode> {
    let found = find_service(on, whose).await?;
    let runs =
        found.as_ref().is_some_and(|it| matches!(it.active.as_str(), "active" | "reloading"));
    if form == ResultForm::Json {
        print::json(&state_as_json(found.as_ref(), runs));
        return Ok(if runs { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    let state = found.with_context(|| not_installed(on))?;
    let manager = manager_of(&state);
    let status = systemd::systemctl(manager, &["status", "--no-pager", "--lines=5", UNIT]);
    // It fails where the service does not run, which is said below.
    print::line(&match status.await {
        Ok(words) => words,
        Err(_) => format!("{UNIT}: {}, {}", state.active, state.unit_file),
    });
    if !runs && starts::has_damage(&in_home_of(on, manager).home) {
        bail!("the service does not run: {}", replies::LAST_START_FOUND_DAMAGE);
    }
    if !runs {
        bail!("the service does not run; `{} service logs` shows why", on.program());
    }
    Ok(ExitCode::SUCCESS)
}

fn not_installed(on: &Invocation) -> String {
    format!(
        "the service is not installed for this home; `{} service install` installs it, and `--user` or `--system` shows one of \
         another home",
        on.program()
    )
}

fn manager_of(state: &ServiceState) -> Manager {
    if state.is_users { Manager::User } else { Manager::System }
}

/// Returns the manager whose service has a log to show. The error says that there is no service.
async fn manager_with_log(on: &Invocation, whose: ServiceScope) -> anyhow::Result<Manager> {
    let found = find_service(on, whose).await;
    if let Ok(Some(state)) = &found {
        return Ok(manager_of(state));
    }
    // The journal has the log also where the manager cannot be asked.
    let manager = whose.manager();
    let is_written = unit_file(&on.environment, manager).is_ok_and(|file| file.exists());
    let has_unit = is_written || packaged_unit(manager).is_some();
    if has_unit && is_meant(on, whose, manager).await {
        return Ok(manager);
    }
    found.and_then(|_| Err(anyhow!(not_installed(on))))
}

/// Returns true if the service of this manager is meant: the command line names the manager, or it may be that of this home.
async fn is_meant(on: &Invocation, whose: ServiceScope, manager: Manager) -> bool {
    whose.chosen().is_some() || systemd::may_serve(manager, &in_home_of(on, manager).home).await
}

/// Returns the service of the named manager, or else of the first that knows one of this home. None if it is not installed.
async fn find_service(
    on: &Invocation,
    whose: ServiceScope,
) -> anyhow::Result<Option<ServiceState>> {
    let mut failed = None;
    let mut is_unknown = false;
    let all = [Manager::System, Manager::User];
    for manager in all.into_iter().filter(|it| whose.chosen().is_none_or(|chosen| chosen == *it)) {
        let state = match systemd::state_of(manager).await {
            Ok(state) => state,
            Err(error) => {
                failed = Some(systemd::explain(&on.environment, manager, error));
                continue;
            }
        };
        let is_meant = is_meant(on, whose, manager).await;
        match state.filter(|_| is_meant) {
            Some(state) => return Ok(Some(state)),
            None => is_unknown = true,
        }
    }
    match failed {
        Some(error) if !is_unknown => Err(error),
        _ => Ok(None),
    }
}

fn state_as_json(state: Option<&ServiceState>, runs: bool) -> Value {
    let Some(state) = state else { return json!({ "installed": false, "runs": false }) };
    json!({
        "installed": true,
        "runs": runs,
        "manager": if state.is_users { "user" } else { "system" },
        "active": state.active,
        "unit_file": state.unit_file,
        "result": state.result,
        "restarts": state.restarts,
        "lingers": state.lingers,
    })
}

/// Returns the service that suits this account and this home. The error says why there is none.
pub(super) async fn usual_choice(on: &Invocation) -> anyhow::Result<ServiceChoice> {
    let (manager, choice) = match geteuid().is_root() {
        true => (Manager::System, ServiceChoice::System),
        false => (Manager::User, ServiceChoice::User),
    };
    systemd::reach(&on.environment, manager).await?;
    check_home(on, manager)?;
    Ok(choice)
}

/// Returns the invocation for the home of a service: that of the system has one of its own, which is meant where no other
/// home is named or set up.
fn in_home_of(on: &Invocation, manager: Manager) -> Invocation {
    match manager == Manager::System && is_unused_default(on) {
        true => Invocation { home: SYSTEM_HOME.into(), ..on.clone() },
        false => on.clone(),
    }
}

/// Returns true if nobody has named this home, and nothing is set up in it.
pub(super) fn is_unused_default(on: &Invocation) -> bool {
    on.config.is_none()
        && on.environment.raw("PEACRAB_HOME").is_none()
        && on.home == config::home(None, &Environment::default())
        && !config::file(&on.home, None).exists()
}

/// Returns true if this account is root and systemd runs here, but the service of the system has another home.
pub(super) async fn has_other_home(home: &Path) -> bool {
    geteuid().is_root()
        && home != Path::new(SYSTEM_HOME)
        && systemd::systemctl(Manager::System, &["show", "--property=Version"]).await.is_ok()
}

/// Checks that this account may install a service of this manager.
fn check_account(manager: Manager) -> anyhow::Result<()> {
    if manager == Manager::System && !geteuid().is_root() {
        bail!(
            "only root can install the service of the system, which has its home in {SYSTEM_HOME}"
        );
    }
    Ok(())
}

/// Checks that a service of this manager can run in this home, with this config and this program. Returns its home.
pub(super) fn check_home(on: &Invocation, manager: Manager) -> anyhow::Result<PathBuf> {
    check_account(manager)?;
    if on.config.is_some() {
        bail!(
            "the service reads config.toml in its home: put the config there, and leave --config out"
        );
    }
    let home = std::path::absolute(&on.home)?;
    if manager == Manager::System && home != Path::new(SYSTEM_HOME) {
        bail!(
            "the service of the system has its home in {SYSTEM_HOME}: move {} there, and use `--home {SYSTEM_HOME}`",
            home.display()
        );
    }
    if manager == Manager::System {
        check_program(&this_program()?)?;
    }
    Ok(home)
}

/// Checks that the service of the system can start this program, which the unit would name.
fn check_program(program: &Path) -> anyhow::Result<()> {
    let Some(why) = unstartable(program) else { return Ok(()) };
    let (shown, quoted) = (program.display(), config::quoted(program));
    if program == Path::new(PROGRAM) {
        bail!("the service of the system could not start {shown}: {why}. Run `chmod 755 {quoted}`");
    }
    bail!(
        "the service of the system could not start {shown}: {why}. Copy it, `install -m 755 {quoted} {PROGRAM}`, and run \
         `{PROGRAM} --home {SYSTEM_HOME} service install`"
    );
}

fn this_program() -> anyhow::Result<PathBuf> {
    std::env::current_exe().context("cannot find this program's file")
}

/// Writes the unit and starts the service. Returns what was done, in words.
pub(super) async fn install(on: &Invocation, manager: Manager) -> anyhow::Result<String> {
    // Another account may not read its config.
    check_account(manager)?;
    // A service with a wrong config ends at once, and systemd does not start it again.
    let config = on.load()?;
    let home = check_home(on, manager)?;
    if let Some(exposure) =
        config.exposure_warning(&on.home).filter(|exposure| !exposure.is_by_system)
    {
        bail!(exposure.words);
    }
    service_environment::check(on, &config, manager).await?;
    let file = unit_file(&on.environment, manager)?;
    let program = this_program()?;
    let unit = match manager {
        Manager::System => system_unit(&program)?,
        Manager::User => user_unit(&program, &home)?,
    };
    systemd::reach(&on.environment, manager).await?;
    let before = fs::read_to_string(&file).ok();
    // The unit of a package changes with the package, which a copy of it would hide.
    let packaged = packaged_unit(manager).filter(|packaged| {
        before.is_none() && fs::read_to_string(packaged).is_ok_and(|text| text == unit)
    });
    if packaged.is_none() && before.as_deref() != Some(&unit) {
        write_unit(&file, &unit)?;
    }
    let enable = async {
        systemd::systemctl(manager, &["daemon-reload"]).await?;
        systemd::systemctl(manager, &["enable", UNIT]).await
    };
    if let Err(error) = enable.await {
        // A unit that nobody has enabled helps nobody.
        if before.is_none() {
            fs::remove_file(&file).ok();
        }
        return Err(error);
    }
    systemd::restart(manager).await.map_err(|error| {
        let error = format!("{error:#}");
        let why = error.trim_end_matches('.');
        anyhow!("{why}. `{} service logs` shows more", on.program())
    })?;
    let lingers = match manager {
        Manager::System => Ok(()),
        // Else it would end at the logout.
        Manager::User => systemd::enable_linger().await,
    };
    let used = packaged.as_ref().unwrap_or(&file);
    let mut words =
        format!("The service runs, and starts at each boot. Its unit is {}.", used.display());
    if before.is_some_and(|before| before != unit) {
        let kept = file.with_extension(KEPT_ENDING);
        words += &format!("\nThe unit before it, which differed, is kept as {}.", kept.display());
    }
    if let Err(error) = lingers {
        words += &format!(
            "\nIt ends when you log out, because this account may not linger ({error:#}). As root, run `loginctl \
             enable-linger NAME` with the name of this account."
        );
    }
    Ok(words)
}

async fn uninstall(environment: &Environment, manager: Manager) -> anyhow::Result<String> {
    let file = unit_file(environment, manager)?;
    if !file.exists() {
        let Some(packaged) = packaged_unit(manager) else {
            bail!("there is no {}: nothing is installed", file.display());
        };
        let ended = systemd::systemctl(manager, &["disable", "--now", UNIT]).await;
        ended.map_err(|error| systemd::explain(environment, manager, error))?;
        return Ok(format!(
            "The service has ended, and does not start at boot any more. Its unit {} goes with its package. The home with \
             all data is untouched.",
            packaged.display()
        ));
    }
    if let Err(error) = systemd::systemctl(manager, &["disable", "--now", UNIT]).await {
        let error = systemd::explain(environment, manager, error);
        let starts = match remove_boot_links(&file) {
            true => "It does not start at boot any more",
            false => "It still starts at boot",
        };
        // With its unit it can be looked at and ended, also by this command.
        bail!(
            "systemd could not end the service: {error:#}.\nIt may still run, so its unit {} stays. {starts}. Once that is set \
             right, run this command again; if nothing runs, you can delete the unit yourself. The home with all data is \
             untouched",
            file.display()
        );
    }
    fs::remove_file(&file).with_context(|| format!("cannot remove {}", file.display()))?;
    let reloaded = systemd::systemctl(manager, &["daemon-reload"]).await;
    reloaded
        .context("the service has ended and its unit is removed, but systemd still knows it")?;
    Ok("The service has ended and is removed. The home with all data is untouched.".to_owned())
}

/// Removes the links by which a unit starts at boot, where systemd has not. Returns true if none is left.
fn remove_boot_links(unit: &Path) -> bool {
    let targets = ["default.target.wants", "multi-user.target.wants"];
    let links = targets.map(|target| unit.with_file_name(target).join(UNIT));
    for link in &links {
        fs::remove_file(link).ok();
    }
    links.iter().all(|link| link.symlink_metadata().is_err())
}
