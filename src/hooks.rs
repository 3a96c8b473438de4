//! Hooks: commands of the owner's config that run on events, with the event as a line of JSON on their standard
//! input. They belong to the owner, and so run outside of the sandbox. Their number and time are bounded, and they
//! delay nothing. Not here: calls that a model asks for (`tools`).

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStderr, ChildStdin, Command};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::types::event::{Event, EventSubscriber};

/// Maximum number of parallel hooks: a small board has other work.
const AT_ONCE_MAX: usize = 2;

/// Maximum number of waiting runs. Further ones are dropped.
const QUEUE_MAX: usize = 64;

/// Bytes of a hook's standard error that are kept for the log.
const STDERR_TAIL_BYTES: usize = 1_000;

/// A section `[hooks.NAME]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hook {
    /// Event names from [`crate::types::event::NAMES`].
    pub on: Vec<&'static str>,
    /// The program and its arguments. Never empty.
    pub command: Vec<String>,
    /// True if it also gets the texts of other persons' private turns.
    pub private_texts: bool,
    /// Time limit. After it the hook is killed with all processes that it started.
    pub time_max: Duration,
    /// The whole environment of the command.
    pub environment: Vec<(&'static str, OsString)>,
    /// The reason why it must not be started, if there is one.
    pub refused: Option<String>,
}

/// A hook that waits to run.
struct DueHook {
    name: String,
    hook: Hook,
    line: Arc<[u8]>,
}

/// Runs hooks until `stop`. Running ones are killed then.
pub async fn run(
    hooks: BTreeMap<String, Hook>,
    mut events: EventSubscriber,
    stop: CancellationToken,
) {
    let mut running: JoinSet<()> = JoinSet::new();
    let mut queue: VecDeque<DueHook> = VecDeque::new();
    let mut dropped = 0_u64;
    loop {
        while running.len() < AT_ONCE_MAX
            && let Some(due) = queue.pop_front()
        {
            running.spawn(run_hook(due));
        }
        if queue.is_empty() && dropped > 0 {
            tracing::warn!(dropped, "Hooks were too slow, skipped some runs");
            dropped = 0;
        }
        tokio::select! {
            () = stop.cancelled() => break,
            Some(ended) = running.join_next() => if let Err(error) = ended {
                tracing::error!(%error, "The task of a hook failed");
            },
            event = events.next() => match event {
                None => break,
                Some(event) => dropped += enqueue(&hooks, &event, &mut queue),
            },
        }
    }
    running.shutdown().await;
}

/// Queues the hooks of an event. Returns the number of dropped runs.
fn enqueue(hooks: &BTreeMap<String, Hook>, event: &Event, queue: &mut VecDeque<DueHook>) -> u64 {
    let is_wanted = |hook: &Hook| hook.on.contains(&event.what.name());
    let mut dropped = 0;
    let (mut with_texts, mut without_texts) = (None, None);
    for (name, hook) in hooks.iter().filter(|(_, hook)| is_wanted(hook)) {
        if queue.len() >= QUEUE_MAX {
            dropped += 1;
            continue;
        }
        let line = match event.is_others_private && !hook.private_texts {
            false => with_texts.get_or_insert_with(|| json_line(event)),
            true => without_texts.get_or_insert_with(|| {
                let what = event.what.clone().without_texts();
                json_line(&Event { what, ..event.clone() })
            }),
        };
        queue.push_back(DueHook { name: name.clone(), hook: hook.clone(), line: Arc::clone(line) });
    }
    dropped
}

/// Returns the event as a line of JSON.
fn json_line(event: &Event) -> Arc<[u8]> {
    let mut line = serde_json::to_vec(event).expect("our own types have string keys");
    line.push(b'\n');
    line.into()
}

async fn run_hook(DueHook { name, hook, line }: DueHook) {
    let mut child = match spawn(&hook) {
        Ok(child) => child,
        Err(error) => {
            tracing::warn!(hook = %name, %error, "Cannot start a hook");
            return;
        }
    };
    let mut group = HookProcessGroup(child.id().and_then(|id| Pid::from_raw(id.try_into().ok()?)));
    let (stdin, stderr) = (child.stdin.take(), child.stderr.take());
    let mut stderr_tail = Vec::new();
    let ended =
        timeout(hook.time_max, wait(&mut child, stdin, &line, stderr, &mut stderr_tail)).await;
    let stderr_text = String::from_utf8_lossy(&stderr_tail);
    match ended {
        Ok(Ok(status)) => {
            // The process id may belong to another process from now on.
            group.0 = None;
            tracing::debug!(hook = %name, %status, stderr = %stderr_text.trim(), "A hook has run");
        }
        Ok(Err(error)) => tracing::warn!(hook = %name, %error, "Cannot wait for a hook to end"),
        Err(_) => {
            drop(group);
            tracing::warn!(hook = %name, after = ?hook.time_max, "Killed a hook that took too long");
            child.wait().await.ok();
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a hook is the owner's own command, and not sandboxed"
)]
fn spawn(hook: &Hook) -> std::io::Result<Child> {
    let (program, arguments) = hook.command.split_first().expect("a command is never empty");
    Command::new(program)
        .args(arguments)
        .env_clear()
        .envs(hook.environment.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
}

/// Sends the event to the hook and waits until it ends. Does not wait for processes that it leaves running,
/// which may keep its standard error open.
async fn wait(
    child: &mut Child,
    stdin: Option<ChildStdin>,
    line: &[u8],
    stderr: Option<ChildStderr>,
    tail: &mut Vec<u8>,
) -> std::io::Result<ExitStatus> {
    let write_event = async {
        if let Some(mut stdin) = stdin {
            // A hook need not read its input.
            stdin.write_all(line).await.ok();
        }
        std::future::pending::<()>().await;
    };
    let read_stderr = async {
        if let Some(mut stderr) = stderr {
            let mut piece = [0; 512];
            while let Ok(length @ 1..) = stderr.read(&mut piece).await {
                tail.extend_from_slice(&piece[..length]);
                tail.drain(..tail.len().saturating_sub(STDERR_TAIL_BYTES));
            }
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        biased;
        () = write_event => unreachable!("it never ends"),
        () = read_stderr => unreachable!("it never ends"),
        status = child.wait() => status,
    }
}

/// A hook's process group. Killed when dropped, unless the hook is known to have ended.
struct HookProcessGroup(Option<Pid>);

impl Drop for HookProcessGroup {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            kill_process_group(group, Signal::KILL).ok();
        }
    }
}
