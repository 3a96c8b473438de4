//! The real program in a home of its own, with nothing of the test's environment. What it starts
//! is killed when dropped.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::AsyncWriteExt as _;
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

use super::model_api::{KEY, MODEL, ModelApi};

#[cfg(feature = "telegram")]
mod telegram;

#[cfg(feature = "telegram")]
pub(crate) use telegram::{channel, home, home_at, now, said};

/// The longest that a test waits for something that must come, on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// How often is looked whether it has come.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// A config and a home.
pub(crate) struct ProgramFixture {
    folder: TempDir,
}

/// What a config says of a provider of the name.
pub(crate) fn model(name: &str, api: &ModelApi) -> String {
    model_at(name, &api.base_url)
}

pub(crate) fn model_at(name: &str, url: &str) -> String {
    format!(
        "[providers.{name}]\ntype = \"openai\"\nmodel = \"{MODEL}\"\napi_key = \"{KEY}\"\n\
         base_url = \"{url}\"\n"
    )
}

/// How a command ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// A daemon that was begun.
pub(crate) struct Daemon {
    child: Child,
    log: PathBuf,
}

impl ProgramFixture {
    pub(crate) fn new(config: &str) -> Self {
        let fixture = Self { folder: tempfile::tempdir().unwrap() };
        let mut file = OpenOptions::new();
        let mut file = file.create(true).write(true).mode(0o600).open(fixture.config()).unwrap();
        file.write_all(config.as_bytes()).unwrap();
        fixture
    }

    /// Where the test may put things.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Made by the program.
    pub(crate) fn home(&self) -> PathBuf {
        self.folder().join("home")
    }

    /// The beginning of a command as the program names it for this home and this config.
    #[cfg(feature = "telegram")]
    pub(crate) fn here(&self) -> String {
        let program = env!("CARGO_BIN_EXE_peacrab");
        format!("`{program} --home {} --config {} ", self.home().display(), self.config().display())
    }

    fn config(&self) -> PathBuf {
        self.folder().join("config.toml")
    }

    fn log(&self) -> PathBuf {
        self.folder().join("log")
    }

    /// The program, begun by `wrapper` if there is one.
    #[expect(clippy::disallowed_methods, reason = "the program is this test's own child")]
    pub(crate) fn command(&self, wrapper: &[&OsStr], args: &[&str]) -> Command {
        let mut words: Vec<&OsStr> = wrapper.to_vec();
        let (home, config) = (self.home(), self.config());
        words.push(env!("CARGO_BIN_EXE_peacrab").as_ref());
        words.extend([
            OsStr::new("--home"),
            home.as_ref(),
            OsStr::new("--config"),
            config.as_ref(),
        ]);
        words.extend(args.iter().map(OsStr::new));
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).env_clear().env("HOME", self.folder()).kill_on_drop(true);
        command
    }

    /// The program without `--config`: its config is in the home.
    pub(crate) fn bare_command(&self, args: &[&str]) -> Command {
        self.bare_command_by(&[], args)
    }

    /// As [`Self::bare_command`], begun by `wrapper` if there is one.
    pub(crate) fn bare_command_by(&self, wrapper: &[&OsStr], args: &[&str]) -> Command {
        let home = self.home();
        let mut words = vec![OsStr::new("--home"), home.as_os_str()];
        words.extend(args.iter().map(OsStr::new));
        self.program(wrapper, &words)
    }

    /// The program with these arguments alone, so that its home is the usual one of `HOME`.
    #[expect(clippy::disallowed_methods, reason = "the program is this test's own child")]
    pub(crate) fn program(&self, wrapper: &[&OsStr], args: &[&OsStr]) -> Command {
        let program: &OsStr = env!("CARGO_BIN_EXE_peacrab").as_ref();
        let words = [wrapper, &[program], args].concat();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).env_clear().env("HOME", self.folder()).kill_on_drop(true);
        command
    }

    /// Begins a command whose output nobody reads.
    #[cfg(feature = "telegram")]
    pub(crate) fn begin_quietly(&self, args: &[&str]) -> Child {
        let mut command = self.command(&[], args);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().unwrap()
    }

    /// Runs a command to its end.
    pub(crate) async fn run(&self, args: &[&str]) -> Ended {
        self.run_with(self.command(&[], args), "").await
    }

    /// Runs a command to its end that reads `input`.
    pub(crate) async fn run_with(&self, mut command: Command, input: &str) -> Ended {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        // It may leave without reading.
        stdin.write_all(input.as_bytes()).await.ok();
        drop(stdin);
        let ended = timeout(PATIENCE, child.wait_with_output()).await.expect("it hangs").unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Ended { code: ended.status.code(), out: text(ended.stdout), err: text(ended.stderr) }
    }

    /// Begins a daemon and waits until it runs.
    pub(crate) async fn daemon(&self) -> Daemon {
        let daemon = self.begin(self.command(&[], &["run"]));
        until("the daemon to start", async || daemon.log().contains("Started").then_some(())).await;
        daemon
    }

    /// Begins a daemon; its log starts afresh.
    pub(crate) fn begin(&self, mut command: Command) -> Daemon {
        let log = self.log();
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&log).unwrap());
        Daemon { child: command.spawn().unwrap(), log }
    }

    pub(crate) async fn status(&self) -> Value {
        let ended = self.run(&["status", "--json"]).await;
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{}", ended.out);
        serde_json::from_str(&ended.out).unwrap()
    }

    /// Waits until `status` says these words of the trouble that the channel `home` has.
    pub(crate) async fn wait_for_trouble(&self, words: &str) {
        until(words, async || {
            let status = self.status().await;
            let trouble = status["channels"]["home"]["trouble"].as_str().unwrap_or_default();
            trouble.contains(words).then_some(())
        })
        .await;
    }

    pub(crate) async fn wait_for_link(&self) {
        until("the link", async || {
            (self.status().await["channels"]["home"]["up"] == true).then_some(())
        })
        .await;
    }
}

impl Daemon {
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Has it read its config again, with nobody who gets the outcome.
    #[cfg(feature = "telegram")]
    pub(crate) fn hang_up(&self) {
        let pid = i32::try_from(self.child.id().expect("it runs")).unwrap();
        kill_process(Pid::from_raw(pid).unwrap(), Signal::HUP).unwrap();
    }

    /// Ends it as a power cut would.
    pub(crate) async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }

    /// Waits until it has ended by itself.
    pub(crate) async fn ended(mut self) -> ExitStatus {
        let ended = timeout(PATIENCE, self.child.wait()).await;
        ended.unwrap_or_else(|_| panic!("it does not end:\n{}", self.log())).unwrap()
    }

    /// Asks it to end, and waits until it has; its log.
    #[cfg(feature = "telegram")]
    pub(crate) async fn end(self) -> String {
        let log = self.log.clone();
        assert!(self.terminate().await.success());
        fs::read_to_string(log).unwrap()
    }

    /// The same for one that waits for nothing: none of its parts goes on until its time is over and it is cut off.
    #[cfg(feature = "telegram")]
    pub(crate) async fn end_by_itself(self) {
        let log = self.end().await;
        assert!(log.contains("Stopped") && !log.contains("did not end in time"), "{log}");
        assert!(!log.contains("Some turns will continue"), "{log}");
    }

    /// Asks it to end, and waits until it has.
    pub(crate) async fn terminate(mut self) -> ExitStatus {
        let pid = i32::try_from(self.child.id().expect("it runs")).unwrap();
        kill_process(Pid::from_raw(pid).unwrap(), Signal::TERM).unwrap();
        let ended = timeout(PATIENCE, self.child.wait()).await;
        ended.unwrap_or_else(|_| panic!("it does not end:\n{}", self.log())).unwrap()
    }
}

/// Looks until there is something.
pub(crate) async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let looking = async {
        loop {
            match look().await {
                Some(found) => return found,
                None => sleep(LOOK_EVERY).await,
            }
        }
    };
    timeout(PATIENCE, looking).await.unwrap_or_else(|_| panic!("waited in vain for {what}"))
}
