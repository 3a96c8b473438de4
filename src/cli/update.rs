//! `peacrab update`: fetches a newer version, checks who signed it and that it is whole, and puts it into the place of
//! this program. The old program is kept beside it, and returns if the new one does not come up healthy.

mod begun;
mod download;
mod replacing;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::signature::{ED25519, UnparsedPublicKey};
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::process::Command;
use tokio::time::timeout;

use super::interrupts::Interrupts;
use super::invocation::Invocation;
use super::systemd::{self, Manager};
use super::{chat, print};
use crate::atomic_file::with_ending;
use crate::config;
use crate::config::update::UpdateSource;
use crate::store::{self, HomeLock};
use crate::types::hex::hex;
use crate::types::version::Version;
use begun::{BegunUpdate, UpdateLock};
use download::{PROGRAM, SMALL_FILE, fetch};
use replacing::{HealthLimits, Replacement};

/// The description of a release, and its signature in Base64.
const RELEASE: &str = "release.json";
const SIGNATURE: &str = "release.json.sig";

/// Usual time for a restarted service to be healthy, in seconds. It begins anew with each report that it makes while it
/// starts.
const HEALTHY_WITHIN_S: u64 = 120;

/// Usual time for which a new version must stay healthy, in seconds: a program that cannot do its work most often ends when
/// it first tries.
const HEALTHY_FOR_S: u64 = 10;

/// Time for a new program to answer `--version` and `check`.
const TRY_TIME_MAX: Duration = Duration::from_secs(30);

/// A release: its version, and a program for each kind of machine.
#[derive(Debug, Deserialize)]
struct Release {
    version: String,
    /// By the machine, such as `aarch64-linux`.
    programs: BTreeMap<String, ReleasedProgram>,
}

#[derive(Debug, Deserialize)]
struct ReleasedProgram {
    /// The file's name beside the description.
    file: String,
    /// In hexadecimal digits.
    sha256: String,
}

#[derive(clap::Args)]
pub(super) struct Args {
    /// Only say if there is one
    #[arg(long)]
    check: bool,
    /// Say it as JSON
    #[arg(long, requires = "check")]
    json: bool,
    /// Time for the new version to be healthy, before the old one returns
    #[arg(long, default_value_t = HEALTHY_WITHIN_S, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3600))]
    health_timeout: u64,
    /// Time for which the new version must stay healthy, before it counts as installed
    #[arg(long, default_value_t = HEALTHY_FOR_S, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(0..=3600))]
    healthy_for: u64,
}

/// Installs a newer version, or says if there is one. First it ends an update that was killed.
pub(super) async fn handle(on: &Invocation, asked: &Args) -> anyhow::Result<()> {
    if asked.check {
        return check(on, asked.json).await;
    }
    let exe = std::env::current_exe().context("cannot find this program's file")?;
    let limits = HealthLimits {
        within: Duration::from_secs(asked.health_timeout),
        stays_for: Duration::from_secs(asked.healthy_for),
    };
    let _lock = UpdateLock::claim(&exe)?;
    // Else the new program would be kept as the old one.
    let exe = std::env::current_exe().ok().filter(|exe| exe.exists());
    let exe = exe.context("another update has replaced this program: nothing was changed")?;
    if let Some(begun) = BegunUpdate::cut_off(&exe) {
        return Box::pin(resume(on, &exe, &begun, limits)).await;
    }
    BegunUpdate::remove(&exe);
    match FoundRelease::find(on).await? {
        FoundRelease::Newer(newer) => Box::pin(install(on, &exe, newer, limits)).await,
        FoundRelease::NotForMachine { version, machine } => bail!(
            "version {version} has no program for this machine ({machine}): nothing was changed"
        ),
        found @ (FoundRelease::NoSource | FoundRelease::UpToDate(_)) => {
            print::line(&found.describe());
            Ok(())
        }
    }
}

/// Says if there is a newer version. As JSON, also that it cannot be known, and why.
async fn check(on: &Invocation, is_json: bool) -> anyhow::Result<()> {
    let found = FoundRelease::find(on).await;
    if is_json {
        print::json(&as_json(&found));
        return found.map(drop);
    }
    print::line(&found?.describe());
    Ok(())
}

/// The endings of the new and of the old program's file.
const NEW: &str = ".new";
const OLD: &str = ".old";

/// The version of this program.
const PRESENT: &str = env!("CARGO_PKG_VERSION");

/// The newest release, compared with this program.
enum FoundRelease {
    /// Nothing is configured.
    NoSource,
    /// It is not newer. Its version.
    UpToDate(String),
    /// It is newer, and has no program for this machine.
    NotForMachine {
        version: String,
        machine: String,
    },
    Newer(NewerRelease),
}

/// A newer version, with its program for this machine.
struct NewerRelease {
    source: UpdateSource,
    version: String,
    program: ReleasedProgram,
}

impl FoundRelease {
    async fn find(on: &Invocation) -> anyhow::Result<Self> {
        let Some(source) = on.load()?.update else { return Ok(Self::NoSource) };
        let Release { version, mut programs } = fetch_release(&source).await?;
        if parse_version(&version)? <= parse_version(PRESENT)? {
            return Ok(Self::UpToDate(version));
        }
        let machine = format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS);
        Ok(match programs.remove(&machine) {
            Some(program) => Self::Newer(NewerRelease { source, version, program }),
            None => Self::NotForMachine { version, machine },
        })
    }

    fn describe(&self) -> String {
        match self {
            Self::NoSource => NO_SOURCE.to_owned(),
            Self::UpToDate(_) => format!("Version {PRESENT} is up to date."),
            Self::NotForMachine { version, machine } => {
                format!("Version {version} has no program for this machine ({machine}).")
            }
            Self::Newer(NewerRelease { version, .. }) => {
                format!("Version {version} can be installed; this is {PRESENT}.")
            }
        }
    }
}

/// The report for a script. `newest` is null if there is nothing to compare with, and `error` is the reason if there is one.
fn as_json(found: &anyhow::Result<FoundRelease>) -> Value {
    let newest = match found {
        Ok(FoundRelease::NoSource) | Err(_) => None,
        Ok(
            FoundRelease::UpToDate(version)
            | FoundRelease::NotForMachine { version, .. }
            | FoundRelease::Newer(NewerRelease { version, .. }),
        ) => Some(version),
    };
    json!({
        "version": PRESENT,
        "newest": newest,
        "can_be_installed": matches!(found, Ok(FoundRelease::Newer(_))),
        "error": found.as_ref().err().map(|error| format!("{error:#}")),
    })
}

async fn install(
    on: &Invocation,
    exe: &Path,
    newer: NewerRelease,
    limits: HealthLimits,
) -> anyhow::Result<()> {
    let NewerRelease { source, version, program } = newer;
    let new = with_ending(exe, NEW);
    let installed = async {
        // That nothing can be written here is known before anything is fetched.
        write_program(&new, &[])?;
        let bytes = fetch_program(&source, &program).await?;
        write_program(&new, &bytes)?;
        try_program(on, &new, &version).await
    };
    if let Err(error) = installed.await {
        fs::remove_file(&new).ok();
        return Err(error.context("nothing was changed"));
    }
    replace(on, exe, &version, limits).await
}

/// Told where nothing is configured.
const NO_SOURCE: &str = "There is no [update] section in config.toml, so nothing was changed. With `url` and \
                         `public_key` in it, this fetches signed programs from there.";

/// Fetches the description of the newest release, and checks its signature.
async fn fetch_release(source: &UpdateSource) -> anyhow::Result<Release> {
    let text = fetch(source, RELEASE, &SMALL_FILE).await?;
    let signature = fetch(source, SIGNATURE, &SMALL_FILE).await?;
    // `base64` breaks lines after 76 characters, and a signature has 88.
    let signature: Vec<u8> =
        signature.into_iter().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let signature = STANDARD.decode(signature).context("the signature is not Base64")?;
    UnparsedPublicKey::new(&ED25519, source.public_key)
        .verify(&text, &signature)
        .ok()
        .with_context(|| format!("{RELEASE} is not signed by `public_key`: nothing was changed"))?;
    let release: Release =
        serde_json::from_slice(&text).with_context(|| format!("cannot read {RELEASE}"))?;
    Ok(release)
}

async fn fetch_program(
    source: &UpdateSource,
    program: &ReleasedProgram,
) -> anyhow::Result<Vec<u8>> {
    ensure!(!program.file.contains('/'), "the release names a file elsewhere: {}", program.file);
    let bytes = fetch(source, &program.file, &PROGRAM).await?;
    let sum = hex(&Sha256::digest(&bytes));
    ensure!(
        sum == program.sha256.to_ascii_lowercase(),
        "the checksum of {} differs from the signed one",
        program.file
    );
    Ok(bytes)
}

fn parse_version(text: &str) -> anyhow::Result<Version> {
    Version::parse(text).with_context(|| format!("`{text}` is not a version"))
}

fn write_program(file: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    fs::remove_file(file).ok();
    let write = || {
        let mut options = OpenOptions::new();
        let mut written = options.write(true).create_new(true).mode(0o755).open(file)?;
        written.write_all(bytes)?;
        written.sync_all()
    };
    write().with_context(|| format!("cannot write {}", file.display()))
}

/// The new program must run here, be the version that was signed, and accept the config.
async fn try_program(on: &Invocation, program: &Path, version: &str) -> anyhow::Result<()> {
    let said = run(program, &[OsStr::new("--version")]).await?;
    let is_it = said.split_whitespace().last() == Some(version);
    ensure!(is_it, "the new program says that it is \"{}\", not {version}", said.trim());
    let mut arguments = vec![OsStr::new("--home"), on.home.as_os_str()];
    if let Some(config) = &on.config {
        arguments.extend([OsStr::new("--config"), config.as_os_str()]);
    }
    arguments.push(OsStr::new("check"));
    run(program, &arguments).await.map(drop)
}

#[expect(clippy::disallowed_methods, reason = "the new version of this very program")]
async fn run(program: &Path, arguments: &[&OsStr]) -> anyhow::Result<String> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).kill_on_drop(true);
    let output = timeout(TRY_TIME_MAX, command.output()).await;
    let output = output
        .context("the new program did not end in time")?
        .context("it cannot run on this machine")?;
    let said = String::from_utf8_lossy(&output.stderr);
    let status = output.status;
    ensure!(status.success(), "the new program failed ({status}): {}", said.trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Puts the new program into the old one's place, and restarts the service if it runs.
async fn replace(
    on: &Invocation,
    exe: &Path,
    version: &str,
    limits: HealthLimits,
) -> anyhow::Result<()> {
    let mut interrupts = Interrupts::watch()?;
    let Some(manager) = running_service(on).await else {
        let old = put_in_place(exe)?;
        print::line(&format!("Installed version {version}. The old program is {}.", old.display()));
        if chat::is_running(&on.home).await? {
            print::line("The running daemon is not a systemd service. Restart it yourself.");
        }
        return Ok(());
    };
    let begun = BegunUpdate {
        version: version.to_owned(),
        former: PRESENT.to_owned(),
        former_schema: store::newest_schema(),
        home: on.home.clone(),
        is_service_of_account: manager == Manager::User,
        goes_back: false,
    };
    begun.write(exe).inspect_err(|_| {
        fs::remove_file(with_ending(exe, NEW)).ok();
    })?;
    let old = put_in_place(exe).inspect_err(|_| BegunUpdate::remove(exe))?;
    Replacement { on, exe, old, begun: &begun, limits }.start(&mut interrupts).await
}

/// Gives the new program the name of the old one, which is kept beside it. Returns the old one's file. A failure deletes the
/// new program.
fn put_in_place(exe: &Path) -> anyhow::Result<PathBuf> {
    let (new, old) = (with_ending(exe, NEW), with_ending(exe, OLD));
    fs::remove_file(&old).ok();
    // By a link, so that there is a program under the name at any moment.
    let kept = fs::hard_link(exe, &old).or_else(|_| fs::copy(exe, &old).map(drop));
    let kept = kept.with_context(|| {
        format!("nothing was changed: cannot keep the old program as {}", old.display())
    });
    let replaced = kept.and_then(|()| {
        fs::rename(&new, exe).with_context(|| format!("cannot replace {}", exe.display()))
    });
    if replaced.is_err() {
        fs::remove_file(&new).ok();
    }
    replaced.map(|()| old)
}

/// Ends an update that was killed after the new program had got its place.
async fn resume(
    on: &Invocation,
    exe: &Path,
    begun: &BegunUpdate,
    limits: HealthLimits,
) -> anyhow::Result<()> {
    ensure!(
        begun.home == on.home,
        "an update to version {} was cut off, and its service has another home. End it first: `peacrab --home {} update`",
        begun.version,
        config::quoted(&begun.home)
    );
    let mut interrupts = Interrupts::watch()?;
    print::line(&format!("The update to version {} was cut off. It goes on now.", begun.version));
    let old = with_ending(exe, OLD);
    Replacement { on, exe, old, begun, limits }.resume(&mut interrupts).await
}

/// The manager whose service is the daemon of this home. Each may have the service of another one.
async fn running_service(on: &Invocation) -> Option<Manager> {
    if !chat::is_running(&on.home).await.ok()? {
        return None;
    }
    let daemon = HomeLock::last_holder(&on.home);
    for manager in [Manager::System, Manager::User] {
        let Ok(Some(state)) = systemd::state_of(manager).await else { continue };
        let processes = systemd::main_process(manager).await.zip(daemon.as_ref());
        let is_of_home = processes.is_none_or(|(service, daemon)| service == *daemon);
        if is_of_home && matches!(state.active.as_str(), "active" | "reloading") {
            return Some(manager);
        }
    }
    None
}
