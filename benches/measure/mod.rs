//! Processes as the benches see them from outside: how the binary is started, and what `/proc` and
//! strace report about it. What is done with the figures stands in the benches.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

pub(crate) type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The program that is measured: the one of this build, or the one that `PEACRAB_BENCH_PROGRAM` names, such as a static one.
#[expect(clippy::disallowed_methods, reason = "a bench has no config")]
pub(crate) fn binary() -> &'static str {
    static PROGRAM: OnceLock<String> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let named = std::env::var("PEACRAB_BENCH_PROGRAM");
        named.unwrap_or_else(|_| env!("CARGO_BIN_EXE_peacrab").to_owned())
    })
}

/// Clock ticks per second in `/proc/PID/stat`: `sysconf(_SC_CLK_TCK)`, 100 on Linux.
const TICKS_PER_SECOND: f64 = 100.0;

/// The binary on this home, with nothing of our environment, started by `wrapper` if that is not empty.
pub(crate) fn peacrab(wrapper: &[&str], home: &Path, args: &[&str]) -> Command {
    let (program, rest) = match wrapper {
        [] => (binary(), [].as_slice()),
        [program, rest @ ..] => (*program, rest),
    };
    let mut command = quiet(program);
    command.args(rest);
    if !wrapper.is_empty() {
        command.arg(binary());
    }
    command.env_clear().env("HOME", home).arg("--home").arg(home).args(args);
    command
}

/// A program without input and output.
#[expect(clippy::disallowed_methods, reason = "a bench measures programs from outside")]
pub(crate) fn quiet(program: &str) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// The CPU time, user and system, that a process has used so far, in steps of 10 ms.
pub(crate) fn cpu_time(pid: u32) -> Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The program's name, in parentheses, may hold anything; utime and stime are the fields 14
    // and 15 of the whole line (proc(5)), so 12 and 13 of what follows the name.
    let after_name = stat.rsplit_once(')').ok_or("/proc/PID/stat has no name")?.1;
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    let [user, system] = [11, 12].map(|at| fields.get(at).map_or(Ok(0), |text| text.parse()));
    let ticks: u64 = user? + system?;
    Ok(Duration::from_secs_f64(ticks as f64 / TICKS_PER_SECOND))
}

/// The number behind `key:` in a file such as `/proc/PID/status` or `/proc/PID/io`.
pub(crate) fn field(path: &Path, key: &str) -> Result<u64> {
    let text = fs::read_to_string(path)?;
    let value = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    let number = value.and_then(|value| value.split_whitespace().next());
    Ok(number.ok_or_else(|| format!("{} has no {key}", path.display()))?.parse()?)
}
