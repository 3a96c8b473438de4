//! The real daemon as a child process: started on a home, looked at from outside, killed when dropped.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::fakes::{Fakes, TOKEN};
use crate::measure::{self, Result, cpu_time, field};

/// A start may prune a million rows.
const START_MAX: Duration = Duration::from_secs(120);
/// An orderly end, with its grace.
const STOP_MAX: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// All others are guests.
pub(crate) const OWNER: i64 = 7001;

/// Guests have a small budget by default. Here nobody has any, so that all are answered.
const UNLIMITED: &str = "[budgets.guest]\ntokens_per_month = 0\n";

/// What is written into config.toml.
pub(crate) fn configure(home: &Path, fakes: &Fakes, turns_max: usize) -> Result<()> {
    configure_with(home, fakes, turns_max, UNLIMITED)
}

/// The same with other budgets.
pub(crate) fn configure_with(
    home: &Path,
    fakes: &Fakes,
    turns_max: usize,
    budgets: &str,
) -> Result<()> {
    let Fakes { telegram_url, model_url, .. } = fakes;
    // The context is so large that nothing is summed up while it is measured. Nobody is limited, and no facts are
    // noticed beside it.
    let config = format!(
        "[agent]\nturns_max = {turns_max}\n\n\
         [providers.main]\ntype = \"openai\"\nmodel = \"pea-1\"\nbase_url = \"{model_url}\"\n\
         context = 20000000\n\n\
         [channels.home]\ntype = \"telegram\"\ntoken = \"{TOKEN}\"\napi_url = \"{telegram_url}\"\n\
         owners = [{OWNER}]\nallow = [\"*\"]\n\n\
         [memory]\nextract = false\n\n\
         [limits]\nmessages_per_minute = 0\nchat_messages_per_minute = 0\n\n{budgets}"
    );
    let mut file = OpenOptions::new();
    let file = file.create(true).write(true).truncate(true).mode(0o600);
    Ok(file.open(home.join("config.toml"))?.write_all(config.as_bytes())?)
}

/// A daemon that runs.
pub(crate) struct Daemon {
    child: Child,
    home: PathBuf,
    /// From the start of the process to `READY=1` at systemd's socket.
    pub(crate) ready: Duration,
}

/// What `/proc` counts from the start of the process on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counters {
    pub(crate) cpu: Duration,
    /// None where `/proc/PID/io` may not be read.
    pub(crate) written: Option<u64>,
}

impl Daemon {
    pub(crate) fn start(home: &Path) -> Result<Self> {
        Self::start_under(&[], home)
    }

    /// Starts it by `wrapper`, which has to become the daemon.
    fn start_under(wrapper: &[&str], home: &Path) -> Result<Self> {
        let socket = home.join("notify");
        fs::remove_file(&socket).ok();
        let notified = UnixDatagram::bind(&socket)?;
        notified.set_read_timeout(Some(LOOK_EVERY))?;
        let log = File::create(home.join("bench.log"))?;
        let mut command = measure::peacrab(wrapper, home, &["run"]);
        command.env("NOTIFY_SOCKET", &socket).env("PATH", "/usr/local/bin:/usr/bin:/bin");
        // Otherwise the daemon's first sync would wait for what the bench has copied.
        if let Ok(store) = File::open(home.join("state.db")) {
            store.sync_all()?;
        }
        let begun = Instant::now();
        let child = command.stderr(log).spawn()?;
        let mut daemon = Self { child, home: home.to_owned(), ready: Duration::ZERO };
        let mut message = [0; 256];
        loop {
            if notified.recv(&mut message).is_ok_and(|size| message[..size].starts_with(b"READY=1"))
            {
                daemon.ready = begun.elapsed();
                return Ok(daemon);
            }
            if let Some(status) = daemon.child.try_wait()? {
                return Err(format!("the daemon ended ({status}):\n{}", daemon.log()).into());
            }
            if begun.elapsed() > START_MAX {
                return Err(format!("not ready in {START_MAX:?}:\n{}", daemon.log()).into());
            }
        }
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.home.join("bench.log")).unwrap_or_default()
    }

    fn proc(&self) -> PathBuf {
        Path::new("/proc").join(self.child.id().to_string())
    }

    pub(crate) fn counters(&self) -> Result<Counters> {
        let written = field(&self.proc().join("io"), "write_bytes").ok();
        Ok(Counters { cpu: cpu_time(self.child.id())?, written })
    }

    /// Resident memory, in bytes.
    pub(crate) fn memory(&self) -> Result<u64> {
        Ok(field(&self.proc().join("status"), "VmRSS")? * 1024)
    }

    /// Open file descriptors; none where they may not be listed.
    pub(crate) fn open_files(&self) -> Option<usize> {
        fs::read_dir(self.proc().join("fd")).ok().map(Iterator::count)
    }

    /// Ends it in order.
    pub(crate) fn stop(mut self) -> Result<()> {
        let pid = i32::try_from(self.child.id())?;
        kill_process(Pid::from_raw(pid).ok_or("no process")?, Signal::TERM)?;
        let begun = Instant::now();
        while self.child.try_wait()?.is_none() {
            if begun.elapsed() > STOP_MAX {
                return Err(format!("still there after {STOP_MAX:?}").into());
            }
            sleep(LOOK_EVERY);
        }
        Ok(())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// A daemon whose syncs strace counts.
pub(crate) struct Traced {
    _daemon: Daemon,
    calls: PathBuf,
}

impl Traced {
    pub(crate) fn start(home: &Path) -> Result<Self> {
        let calls = home.join("strace.txt");
        let file = calls.display().to_string();
        // With -D the daemon is our child, and strace is its; with --seccomp-bpf it stops for these
        // calls only, so that the daemon is hardly slower.
        let trace = "trace=fsync,fdatasync";
        let wrapper = ["strace", "-D", "-f", "--seccomp-bpf", "-e", trace, "-o", &file, "--"];
        Ok(Self { _daemon: Daemon::start_under(&wrapper, home)?, calls })
    }

    /// How many syncs there were since the start.
    pub(crate) fn syncs(&self) -> Result<usize> {
        let calls = fs::read_to_string(&self.calls)?;
        Ok(calls.lines().filter(|line| line.contains("sync(")).count())
    }
}
