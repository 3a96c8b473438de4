//! Prints what the real binary costs: size, memory, wake-ups, times, syncs, prompt. It runs the
//! daemon with the rehearsal provider in a home of its own, and drives it as a person would, with
//! the command line. It asserts nothing; what cannot be measured here says why.
//!
//! `cargo bench --bench footprint`, or with `--profile dist` for what ships. `-- daemon` or `-- gateway` is a part of it.
//! With `PEACRAB_BENCH_PROGRAM=FILE` it measures another binary, such as a static one.

#![expect(clippy::print_stdout, reason = "a bench prints")]

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use peacrab::sandbox::{
    self, CommandEnding, CommandInput, CommandLimits, Protections, Sandbox, SandboxCommand,
    SandboxLevel,
};
use tempfile::TempDir;

#[path = "footprint/gateway.rs"]
mod gateway;
mod measure;
#[path = "../tests/it/support/mod.rs"]
#[expect(
    dead_code,
    unused_imports,
    clippy::unwrap_used,
    reason = "it is the tests', which use all of it"
)]
mod support;

use measure::{Result, binary, cpu_time, field, quiet};
use support::bot_api::BotApi;
use support::discord_api::DiscordApi;
use support::slack_api::SlackApi;

const START_MAX: Duration = Duration::from_secs(10);
const STOP_MAX: Duration = Duration::from_secs(10);
/// Until what a start set off has come to rest.
const SETTLE: Duration = Duration::from_secs(2);
const IDLE: Duration = Duration::from_secs(10);

/// As Slack does it.
const SLACK_PINGS: Duration = Duration::from_secs(10);

const TURNS: u32 = 100;
const AT_ONCE: usize = 16;

fn main() {
    row("binary", fs::metadata(binary()).map(|file| mb(file.len())).map_err(Into::into));
    // A word chooses a part.
    let words: Vec<_> = env::args().skip(1).filter(|word| word != "--bench").collect();
    let is_wanted = |part: &str| words.is_empty() || words.iter().any(|word| word == part);
    if is_wanted("daemon")
        && let Err(error) = measure()
    {
        row("the rest", Err(error));
    }
    if is_wanted("gateway")
        && let Err(error) = gateway::measure()
    {
        row("the rest of the gateway", Err(error));
    }
}

fn measure() -> Result<()> {
    let (mut daemon, ready) = Daemon::start()?;
    row("start → ready (`status` answers)", Ok(ms(ready)));
    sleep(SETTLE);
    row("idle VmRSS", daemon.memory("VmRSS"));
    row("idle RssAnon", daemon.memory("RssAnon"));
    row("idle context switches", daemon.idle_switches());
    row("prompt of the shipped template", daemon.prompt_tokens());
    row("CPU per rehearsal turn", daemon.cpu_per_turn());
    row("VmRSS after those turns", daemon.memory("VmRSS"));
    row("syncs per message, 1 alone", daemon.syncs_per_message(1));
    row(&format!("syncs per message, {AT_ONCE} at once"), daemon.syncs_per_message(AT_ONCE));
    row("SIGTERM → gone", daemon.stop().map(ms));
    row("the sandbox, per command", sandbox_cost());
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let platforms = runtime.block_on(Platforms::start());
    measure_connected(&platforms)
}

/// The cost of a command in the sandbox beyond one outside it.
fn sandbox_cost() -> Result<String> {
    let folder = tempfile::tempdir()?;
    let place = folder.path().canonicalize()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let sandbox = Sandbox {
        program: binary().into(),
        level: SandboxLevel::Required,
        network: false,
        read: Vec::new(),
        write: Vec::new(),
        env: BTreeMap::new(),
        bounds: CommandLimits::new(1 << 29, 1 << 28, 1 << 30, 128),
        least: Protections::default(),
        places: Vec::new(),
    };
    let order = SandboxCommand {
        command: ":".to_owned(),
        cwd: place.clone(),
        folder: place.clone(),
        home: place,
        read: Vec::new(),
        write: Vec::new(),
        time_max: START_MAX,
        input: CommandInput::Pipe,
    };
    let begun = Instant::now();
    for _ in 0..TURNS {
        let run = runtime.block_on(sandbox::run(&sandbox, &order, b""))?;
        if run.ending != CommandEnding::Exit(0) {
            return Err(format!("a command ended as {:?}", run.ending).into());
        }
    }
    let sandboxed = begun.elapsed();
    let begun = Instant::now();
    for _ in 0..TURNS {
        quiet("/bin/sh").args(["-c", ":"]).status()?;
    }
    let each = sandboxed.saturating_sub(begun.elapsed()) / TURNS;
    Ok(format!("{:.1} ms", each.as_secs_f64() * 1000.0))
}

/// With all three platforms, which are local stand-ins: no TLS, nobody speaks.
fn measure_connected(platforms: &Platforms) -> Result<()> {
    let (mut daemon, _) = Daemon::start_with(&platforms.config())?;
    daemon.wait_until_connected(3)?;
    sleep(SETTLE);
    row("three platforms: idle VmRSS", daemon.memory("VmRSS"));
    row("three platforms: idle RssAnon", daemon.memory("RssAnon"));
    row("three platforms: context switches", daemon.idle_switches());
    row("three platforms: SIGTERM → gone", daemon.stop().map(ms));
    Ok(())
}

struct Platforms {
    telegram: BotApi,
    discord: DiscordApi,
    slack: SlackApi,
}

impl Platforms {
    async fn start() -> Self {
        let slack = SlackApi::start().await;
        slack.set_pings(SLACK_PINGS);
        Self { telegram: BotApi::start().await, discord: DiscordApi::start().await, slack }
    }

    fn config(&self) -> String {
        use support::{discord_api, slack_api};
        let Self { telegram, discord, slack } = self;
        format!(
            "[channels.t]\ntype = \"telegram\"\ntoken = \"{}\"\napi_url = \"{}\"\n\
             [channels.d]\ntype = \"discord\"\ntoken = \"{}\"\napi_url = \"{}\"\n\
             [channels.s]\ntype = \"slack\"\ntoken = \"{}\"\napp_token = \"{}\"\napi_url = \"{}\"\n",
            telegram.token(),
            telegram.url(),
            discord_api::TOKEN,
            discord.url(),
            slack_api::BOT_TOKEN,
            slack_api::APP_TOKEN,
            slack.url(),
        )
    }
}

fn row(what: &str, figure: Result<String>) {
    match figure {
        Ok(figure) => println!("{what:<36} {figure:>14}"),
        Err(why) => println!("{what:<36} not measured: {why}"),
    }
}

/// The real binary with a home of its own; killed if it is dropped while it runs.
struct Daemon {
    child: Child,
    home: TempDir,
}

impl Daemon {
    /// Starts it; also tells how long it took until it answered.
    fn start() -> Result<(Self, Duration)> {
        Self::start_with("")
    }

    fn start_with(config: &str) -> Result<(Self, Duration)> {
        let home = tempfile::tempdir()?;
        fs::write(home.path().join("config.toml"), config)?;
        let log = fs::File::create(home.path().join("bench.log"))?;
        let begun = Instant::now();
        let child = peacrab(home.path(), &["run"]).stderr(log).spawn()?;
        let mut daemon = Self { child, home };
        let socket = daemon.home.path().join("control.sock");
        while UnixStream::connect(&socket).is_err() {
            if let Some(status) = daemon.child.try_wait()? {
                return Err(format!("the daemon ended ({status}):\n{}", daemon.log()).into());
            }
            if begun.elapsed() > START_MAX {
                return Err(format!("no control socket in {START_MAX:?}:\n{}", daemon.log()).into());
            }
            sleep(Duration::from_millis(1));
        }
        daemon.status()?;
        Ok((daemon, begun.elapsed()))
    }

    fn log(&self) -> String {
        fs::read_to_string(self.home.path().join("bench.log")).unwrap_or_default()
    }

    fn status(&self) -> Result<serde_json::Value> {
        let mut status = peacrab(self.home.path(), &["status", "--json"]);
        let output = status.stdout(Stdio::piped()).output()?;
        if !output.status.success() {
            return Err(format!("`status --json` failed ({})", output.status).into());
        }
        Ok(serde_json::from_slice(&output.stdout)?)
    }

    /// Waits until so many platforms have taken our tokens.
    fn wait_until_connected(&self, platforms: usize) -> Result<()> {
        let begun = Instant::now();
        loop {
            let status = self.status()?;
            let up = |channel: &&serde_json::Value| channel["up"] == true;
            let channels = status["channels"].as_object();
            let channels = channels.map_or(0, |all| all.values().filter(up).count());
            // The terminal is one of them.
            if channels > platforms {
                return Ok(());
            }
            if begun.elapsed() > START_MAX {
                return Err(format!("not all platforms are up:\n{status:#}\n{}", self.log()).into());
            }
            sleep(Duration::from_millis(50));
        }
    }

    fn say(&self, session: &str) -> io::Result<Child> {
        let chat = ["chat", "-m", "hello", "--session", session];
        peacrab(self.home.path(), &chat).spawn()
    }

    fn proc(&self) -> PathBuf {
        Path::new("/proc").join(self.child.id().to_string())
    }

    /// A line of `/proc/PID/status` that is in kB.
    fn memory(&self, key: &str) -> Result<String> {
        Ok(format!("{} kB", field(&self.proc().join("status"), key)?))
    }

    fn switches(&self) -> Result<u64> {
        let mut sum = 0;
        for thread in fs::read_dir(self.proc().join("task"))? {
            let status = thread?.path().join("status");
            sum += field(&status, "voluntary_ctxt_switches")?;
            sum += field(&status, "nonvoluntary_ctxt_switches")?;
        }
        Ok(sum)
    }

    fn idle_switches(&self) -> Result<String> {
        self.switches_within(IDLE)
    }

    fn switches_within(&self, time: Duration) -> Result<String> {
        let before = self.switches()?;
        sleep(time);
        // Threads that ended meanwhile take their count with them.
        let during = self.switches()?.saturating_sub(before);
        Ok(format!("{:.1} /s", during as f64 / time.as_secs_f64()))
    }

    fn prompt_tokens(&self) -> Result<String> {
        let status = self.status()?;
        let tokens = status.get("prompt_tokens").and_then(serde_json::Value::as_u64);
        Ok(format!("{} tokens", tokens.ok_or("`status --json` has no prompt_tokens")?))
    }

    fn cpu_per_turn(&self) -> Result<String> {
        let before = cpu_time(self.child.id())?;
        for _ in 0..TURNS {
            answered(self.say("cpu")?)?;
        }
        let seconds = (cpu_time(self.child.id())? - before).as_secs_f64();
        Ok(format!("{:.1} ms", seconds * 1000.0 / f64::from(TURNS)))
    }

    /// Says `messages` things at once, each in a session of its own, and counts the syncs.
    fn syncs_per_message(&self, messages: usize) -> Result<String> {
        let counts = self.home.path().join("strace.txt");
        let mut strace = quiet("strace")
            .args(["-f", "-c", "-e", "trace=fsync,fdatasync", "-o"])
            .arg(&counts)
            .args(["-p", &self.child.id().to_string()])
            .spawn()
            .map_err(|_| "no strace")?;
        self.wait_until_traced(&mut strace)?;
        let people: io::Result<Vec<Child>> =
            (0..messages).map(|person| self.say(&format!("sync-{person}"))).collect();
        for person in people? {
            answered(person)?;
        }
        signal("INT", &strace)?;
        strace.wait()?;
        let syncs = count_syncs(&fs::read_to_string(&counts)?);
        Ok(format!("{:.2}", syncs as f64 / messages as f64))
    }

    fn wait_until_traced(&self, strace: &mut Child) -> Result<()> {
        let begun = Instant::now();
        loop {
            let mut threads = fs::read_dir(self.proc().join("task"))?;
            let traced = |thread: &Path| field(&thread.join("status"), "TracerPid");
            if threads.all(|thread| thread.is_ok_and(|it| traced(&it.path()).unwrap_or(0) > 0)) {
                return Ok(());
            }
            if strace.try_wait()?.is_some() || begun.elapsed() > START_MAX {
                strace.kill().ok();
                return Err("strace may not trace here".into());
            }
            sleep(Duration::from_millis(10));
        }
    }

    fn stop(&mut self) -> Result<Duration> {
        let begun = Instant::now();
        signal("TERM", &self.child)?;
        while self.child.try_wait()?.is_none() {
            if begun.elapsed() > STOP_MAX {
                return Err(format!("still there after {STOP_MAX:?}").into());
            }
            sleep(Duration::from_millis(1));
        }
        Ok(begun.elapsed())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Our binary on this home, with no key in its environment, so that the provider is rehearsal.
fn peacrab(home: &Path, args: &[&str]) -> Command {
    measure::peacrab(&[], home, args)
}

/// Sends a signal; the standard library knows only how to kill.
fn signal(name: &str, to: &Child) -> Result<()> {
    let sent = quiet("sh").args(["-c", &format!("kill -{name} {}", to.id())]).status()?;
    if sent.success() { Ok(()) } else { Err(format!("cannot send SIG{name}").into()) }
}

fn answered(mut person: Child) -> Result<()> {
    let status = person.wait()?;
    if status.success() { Ok(()) } else { Err(format!("`chat -m` failed ({status})").into()) }
}

/// The syncs in a table of `strace -c`: percent, seconds, each, calls, perhaps errors, name.
fn count_syncs(table: &str) -> u64 {
    let rows = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    rows.filter(|row| matches!(row.last(), Some(&("fsync" | "fdatasync"))))
        .filter_map(|row| row.get(3)?.parse::<u64>().ok())
        .sum()
}

fn ms(time: Duration) -> String {
    format!("{:.0} ms", time.as_secs_f64() * 1000.0)
}

fn mb(bytes: u64) -> String {
    format!("{:.2} MB", bytes as f64 / 1e6)
}
