//! Commands in the background. They end with the daemon, as their sandbox does, also at a reload: the next one may allow them
//! less. Their names are never reused, so a request for one afterwards gets an explanation.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::{places, shown};
use crate::replies;
use crate::sandbox::{
    CommandEnding, KeptOutput, RunningSandbox, Sandbox, SandboxCommand, StdinFeed,
};
use crate::tools::{ToolContext, ToolError, ToolOutput, tell};
use crate::trust::instruction_watch::WatchGuard;
use crate::types::message::Address;
use crate::types::source::Source;
use crate::workspace::FileScope;
use crate::workspace::file_reads::FileReads;

/// Maximum number of running background commands, and of commands whose end is remembered.
const RUNNING_MAX: usize = 8;
const KEPT_MAX: usize = 24;

/// Maximum number of writes that wait for a command that does not read.
const WRITES_MAX: usize = 16;

/// Maximum wait for the first output, and for more output when a model asks for it.
const FIRST_WAIT: Duration = Duration::from_millis(500);
const POLL_WAIT: Duration = Duration::from_secs(5);

/// Characters of a command that are shown in a list.
const SHOWN_CHARS: usize = 60;

pub(super) struct Sessions {
    /// Identifies this run of the daemon.
    run: String,
    /// Locked only briefly, and never over an await. A mutex, because calls of several conversations use
    /// it.
    table: Mutex<SessionTable>,
}

#[derive(Default)]
struct SessionTable {
    last: u64,
    sessions: BTreeMap<u64, ShellSession>,
    tasks: JoinSet<()>,
}

#[derive(Clone)]
struct ShellSession {
    at: Address,
    /// The files of its person or group. Whoever comes to the address later with others does not see it.
    scope: FileScope,
    command: String,
    /// Determines if its output may contain untrusted content.
    others: Arc<FileReads>,
    /// True if the model that wrote the command had read untrusted content.
    tainted: bool,
    began: Instant,
    time_max: Duration,
    input: mpsc::Sender<Vec<u8>>,
    stop: CancellationToken,
    /// Its output, and its end.
    state: Arc<Mutex<ShellState>>,
    /// The number of changes of `state`.
    changed: watch::Receiver<u64>,
}

#[derive(Default)]
struct ShellState {
    kept: KeptOutput,
    /// Bytes that a model has seen.
    seen: u64,
    ending: Option<(CommandEnding, Duration)>,
}

pub(super) enum SessionRequest {
    Poll,
    Write(String),
    Kill,
}

impl Default for Sessions {
    fn default() -> Self {
        // Short, but distinct from the last runs.
        Self { run: format!("{:04x}", fastrand::u16(..)), table: Mutex::default() }
    }
}

/// A command that is to run in the background.
pub(super) struct BackgroundCommand<'a> {
    pub(super) order: SandboxCommand,
    pub(super) others: FileReads,
    pub(super) stdin: &'a str,
}

impl Sessions {
    fn table(&self) -> MutexGuard<'_, SessionTable> {
        self.table.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Starts a command. Returns its name and its output so far.
    pub(super) async fn begin(
        &self,
        sandbox: &Sandbox,
        command: BackgroundCommand<'_>,
        cx: &ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        let BackgroundCommand { order, others, stdin } = command;
        if self.running() >= RUNNING_MAX {
            return tell(format!(
                "{RUNNING_MAX} commands run in the background already: kill one of them first."
            ));
        }
        // The command continues to change files after the call has ended.
        let watch = cx.instruction_watcher.watch(cx.actor("exec")).await?;
        let sandboxed = RunningSandbox::start(sandbox, &order).await.map_err(|error| {
            ToolError::TellModel(format!("The command could not be started: {error}."))
        })?;
        let (input, writes) = mpsc::channel(WRITES_MAX);
        if !stdin.is_empty() {
            input.try_send(stdin.as_bytes().to_vec()).ok();
        }
        let (change, changed) = watch::channel(0);
        let session = ShellSession {
            at: cx.address.clone(),
            scope: cx.scope(),
            command: order.command,
            others: Arc::new(others),
            tainted: cx.tainted,
            began: Instant::now(),
            time_max: order.time_max,
            input,
            stop: CancellationToken::new(),
            state: Arc::default(),
            changed,
        };
        let id = {
            let mut table = self.table();
            table.last += 1;
            let id = table.last;
            table.forget();
            while table.tasks.try_join_next().is_some() {}
            let (state, stop) = (Arc::clone(&session.state), session.stop.clone());
            let lost = cx.access_lost();
            table.tasks.spawn(async move {
                let ended = follow(sandboxed, writes, stop.clone(), state, change);
                tokio::pin!(ended);
                tokio::select! {
                    () = &mut ended => {}
                    () = lost => {
                        stop.cancel();
                        ended.await;
                    }
                }
                drop::<WatchGuard>(watch);
            });
            table.sessions.insert(id, session.clone());
            id
        };
        session.wait(FIRST_WAIT).await;
        Ok(session.report(&format!("{}-{id}", self.run), cx).await)
    }

    fn running(&self) -> usize {
        self.table().sessions.values().filter(|session| !session.has_ended()).count()
    }

    /// Lists the commands of a chat. The words of one are those of the model that wrote it.
    pub(super) fn list(&self, cx: &ToolContext) -> ToolOutput {
        let (mut lines, mut read_others) = (String::new(), false);
        for (id, session) in self.table().sessions.iter().filter(|(_, it)| it.is_visible(cx)) {
            read_others |= session.tainted;
            let command: String = session.command.chars().take(SHOWN_CHARS).collect();
            let command = command.replace('\n', " ");
            let _ = writeln!(lines, "[{}-{id}] {}: {command}", self.run, session.describe_state());
        }
        match lines.is_empty() {
            true => ToolOutput::text("No commands in the background."),
            false => ToolOutput::of(Source::Command { read_others }, lines),
        }
    }

    pub(super) async fn ask(
        &self,
        name: &str,
        request: SessionRequest,
        cx: &ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        let session = self.find(name, cx).map_err(ToolError::TellModel)?;
        match request {
            SessionRequest::Poll => {}
            SessionRequest::Write(_) if session.has_ended() => {
                return tell(format!("It has ended: {}.", session.describe_state()));
            }
            SessionRequest::Write(text) => {
                if session.input.try_send(text.into_bytes()).is_err() {
                    return tell("It does not read what was written to it.".to_owned());
                }
            }
            SessionRequest::Kill => session.stop.cancel(),
        }
        session.wait(POLL_WAIT).await;
        Ok(session.report(name, cx).await)
    }

    fn find(&self, name: &str, cx: &ToolContext) -> Result<ShellSession, String> {
        let name = name.trim();
        let (run, id) = name.split_once('-').unwrap_or_default();
        let table = self.table();
        let found = id.parse().ok().and_then(|id: u64| table.sessions.get(&id));
        match found {
            Some(session) if run == self.run && session.is_visible(cx) => Ok(session.clone()),
            _ if !run.is_empty() && run != self.run => Err(format!(
                "`{name}` is dead: it ended when I was restarted or my config was reloaded, and its output is lost. Start it \
                 again if it is still needed."
            )),
            _ => Err(format!("There is no command `{name}` in the background here.")),
        }
    }
}

impl SessionTable {
    /// Drops the oldest ended commands, if there are too many.
    fn forget(&mut self) {
        while self.sessions.len() >= KEPT_MAX {
            let ended = self.sessions.iter().find(|(_, session)| session.has_ended());
            let Some(id) = ended.map(|(id, _)| *id) else { return };
            self.sessions.remove(&id);
        }
    }
}

impl ShellSession {
    /// Returns true if a caller may see it and write to it.
    fn is_visible(&self, cx: &ToolContext) -> bool {
        self.at == cx.address && self.scope == cx.scope()
    }

    fn state(&self) -> MutexGuard<'_, ShellState> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn has_ended(&self) -> bool {
        self.state().ending.is_some()
    }

    fn describe_state(&self) -> String {
        match &self.state().ending {
            None => format!("runs for {}", replies::seconds(self.began.elapsed())),
            Some((ending, took)) => {
                format!("{} after {}", ending.describe(self.time_max), replies::seconds(*took))
            }
        }
    }

    /// Waits until there is new output, or an end.
    async fn wait(&self, most: Duration) {
        let mut changed = self.changed.clone();
        let has_news =
            |state: &ShellState| state.ending.is_some() || state.kept.total() > state.seen;
        let news = async {
            while !has_news(&self.state()) && changed.changed().await.is_ok() {}
            // Output that is written together is returned together.
            tokio::time::sleep(Duration::from_millis(50)).await;
        };
        timeout(most, news).await.ok();
    }

    /// Returns its state, and its output since the last call, for the model.
    async fn report(&self, name: &str, cx: &ToolContext) -> ToolOutput {
        // Output that is written after this check is not included yet.
        let text = self.new_output(cx).await;
        shown::output(self.others.has_read().await, format!("[{name}] {text}"))
    }

    async fn new_output(&self, cx: &ToolContext) -> String {
        let description = self.describe_state();
        let (text, whole) = {
            let mut state = self.state();
            let total = state.kept.total();
            let from = std::mem::replace(&mut state.seen, total);
            let whole = state.ending.is_some() && !shown::fits(&state.kept);
            // The lock is not held while the file is written.
            let whole = whole.then(|| std::mem::take(&mut state.kept));
            let text = match &whole {
                Some(_) => String::new(),
                None => shown::since(&state.kept, from, None),
            };
            (text, whole.map(|kept| (kept, from)))
        };
        let text = match whole {
            None => text,
            Some((kept, from)) => {
                let path = places::save(cx, &kept, self.others.has_read().await).await;
                shown::since(&kept, from.min(kept.total()), path.as_deref())
            }
        };
        format!("{description}\n{text}")
    }
}

/// Follows a command to its end, and notes its output and its end in `state`.
async fn follow(
    mut sandboxed: RunningSandbox,
    mut writes: mpsc::Receiver<Vec<u8>>,
    stop: CancellationToken,
    state: Arc<Mutex<ShellState>>,
    change: watch::Sender<u64>,
) {
    let began = Instant::now();
    let locked = || state.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let note_change = || change.send_modify(|count| *count += 1);
    let feed = sandboxed.take_stdin();
    let writing = async {
        if let Some(mut feed) = feed {
            feed_all(&mut feed, &mut writes).await;
        }
    };
    let mut take = |piece: &[u8]| {
        locked().kept.take(piece);
        note_change();
    };
    let ending = sandboxed.follow(writing, &mut take, &stop).await;
    locked().ending = Some((ending, began.elapsed()));
    note_change();
}

async fn feed_all(feed: &mut StdinFeed, writes: &mut mpsc::Receiver<Vec<u8>>) {
    while let Some(bytes) = writes.recv().await {
        if feed.write(&bytes).await.is_err() {
            return;
        }
    }
}
