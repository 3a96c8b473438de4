//! A conversation with the real daemon whose two ends are replaced: people speak on [`FakeChannel`]s, and
//! a [`ScriptedModel`] is the model. If the daemon ends, so does the test.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use peacrab::bus::freshness::{ClockLag, since_boot};
use peacrab::bus::rates::RateLimits;
use peacrab::channels::intake::Intake;
use peacrab::config::AgentConfig;
use peacrab::daemon::starts::{self, STARTS_MAX, StartRecord};
use peacrab::daemon::watchdog::WatchedParts;
use peacrab::daemon::{Daemon, DaemonParts, Supervision};
use peacrab::hooks::Hook;
use peacrab::people::Access;
use peacrab::provider::{Models, Provider};
use peacrab::secret::Redactor;
use peacrab::store;
use peacrab::tasks::heartbeat::HeartbeatControl;
use peacrab::tasks::schedule::{Clock, Commands};
use peacrab::tools::{ToolSet, mcp};
use peacrab::turn::services::ModelChoice;
use peacrab::types::event::Events;
use peacrab::types::message::{Inbound, ThreadId};
use peacrab::types::person::{FolderOwner, PersonId};
use peacrab::workspace::FileScope;
use peacrab::workspace::skills::SkillEnvironment;
use rusqlite::{Connection, OpenFlags};
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::fake_channel::{FakeChannel, ReceivedMessage};
use super::log::Log;
use super::script::{Gate, ScriptedModel};

pub(crate) const OWNER: &str = "7";
pub(crate) const USER: &str = "8";
pub(crate) const OTHER_USER: &str = "9";
pub(crate) const STRANGER: &str = "66";

/// Longer than anything here takes, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// How often the store is looked at while waiting for it.
const LOOK_EVERY: Duration = Duration::from_millis(5);

pub(crate) struct Rig {
    folder: TempDir,
    pub(crate) home: Arc<FakeChannel>,
    pub(crate) model: Arc<ScriptedModel>,
    pub(crate) parts: RigOptions,
    /// How many of what each chat got was read, by channel and chat.
    read: BTreeMap<String, usize>,
    stop: CancellationToken,
    daemon: JoinSet<anyhow::Result<()>>,
    /// Of the daemon that runs.
    pub(crate) events: Option<Events>,
    pub(crate) heart: Option<HeartbeatControl>,
    pub(crate) clock_lag: Option<ClockLag>,
    pub(crate) watched: Option<WatchedParts>,
    #[cfg(feature = "gateway")]
    pub(crate) web: Option<peacrab::channels::web::WebEntrance>,
}

/// What a test may choose.
pub(crate) struct RigOptions {
    pub(crate) agent: AgentConfig,
    pub(crate) access: Access,
    pub(crate) tools: ToolSet,
    pub(crate) mcp: BTreeMap<String, mcp::Config>,
    pub(crate) store: store::StoreOptions,
    pub(crate) intake: Intake,
    pub(crate) hooks: BTreeMap<String, Hook>,
    pub(crate) gateway: Option<peacrab::gateway::Config>,
    pub(crate) redactor: Redactor,
    /// Besides `home`.
    pub(crate) channels: Vec<(&'static str, Arc<FakeChannel>)>,
    pub(crate) models: Models,
    pub(crate) skill_environment: SkillEnvironment,
    pub(crate) restarts: bool,
    pub(crate) supervision: Supervision,
    pub(crate) clock: Clock,
    /// How jobs have commands run.
    pub(crate) commands: Option<Commands>,
    /// In place of the script.
    pub(crate) provider: Option<Arc<dyn Provider>>,
    /// In place of the one that answers.
    pub(crate) summariser: Option<Arc<dyn Provider>>,
    /// Facts are noticed. Elsewhere the model is asked nothing beside turns.
    pub(crate) extracts: bool,
}

impl Default for RigOptions {
    fn default() -> Self {
        Self {
            // People speak in tests as fast as they can.
            agent: AgentConfig { limits: RateLimits::default(), ..AgentConfig::default() },
            access: Access {
                owners: vec![OWNER.to_owned()],
                allow: vec![USER.to_owned(), OTHER_USER.to_owned()],
                ..Access::default()
            },
            tools: ToolSet::standard(),
            mcp: BTreeMap::new(),
            store: store::StoreOptions::default(),
            intake: Intake::default(),
            hooks: BTreeMap::new(),
            gateway: None,
            redactor: Redactor::default(),
            channels: Vec::new(),
            models: Models::default(),
            skill_environment: SkillEnvironment::default(),
            restarts: false,
            supervision: Supervision::default(),
            clock: Clock::default(),
            commands: None,
            provider: None,
            summariser: None,
            extracts: false,
        }
    }
}

impl Rig {
    pub(crate) async fn new() -> Self {
        Self::with(FakeChannel::new(), RigOptions::default()).await
    }

    pub(crate) async fn of(parts: RigOptions) -> Self {
        Self::with(FakeChannel::new(), parts).await
    }

    pub(crate) async fn with(home: FakeChannel, parts: RigOptions) -> Self {
        // On the heap, as the parts of a daemon are large.
        let begin = async move {
            let mut rig = Self::at_rest(home, parts);
            rig.start().await;
            rig
        };
        Box::pin(begin).await
    }

    /// One whose daemon does not run yet.
    pub(crate) fn at_rest(home: FakeChannel, parts: RigOptions) -> Self {
        Self {
            folder: TempDir::new().unwrap(),
            home: Arc::new(home),
            model: Arc::default(),
            parts,
            read: BTreeMap::new(),
            stop: CancellationToken::new(),
            daemon: JoinSet::new(),
            events: None,
            heart: None,
            clock_lag: None,
            watched: None,
            #[cfg(feature = "gateway")]
            web: None,
        }
    }

    pub(crate) async fn start(&mut self) {
        // Programs that other tests are just starting still have this process's files open, the one that
        // is locked among them.
        let begun = tokio::time::Instant::now();
        let daemon = loop {
            match Daemon::open(self.plan()).await {
                Err(error)
                    if begun.elapsed() < PATIENCE && error.to_string().contains("another") =>
                {
                    tokio::time::sleep(LOOK_EVERY).await;
                }
                opened => break opened.unwrap(),
            }
        };
        self.events = Some(daemon.control_server().turns.services.events.clone());
        self.watched = Some(daemon.watched_parts());
        self.clock_lag = Some(daemon.control_server().turns.services.bus.clock_lag.clone());
        #[cfg(feature = "gateway")]
        {
            self.web = daemon.control_server().web.clone();
        }
        self.heart = Some(daemon.control_server().turns.heartbeat.clone());
        self.stop = CancellationToken::new();
        self.daemon.spawn(daemon.run(self.stop.clone(), || {}));
    }

    pub(crate) fn plan(&self) -> DaemonParts {
        let access = &self.parts.access;
        let home = (("home".into()), (Arc::clone(&self.home) as _, access.clone()));
        let others = self.parts.channels.iter();
        let others = others.map(|(name, fake_channel)| {
            ((*name).into(), (Arc::clone(fake_channel) as _, access.clone()))
        });
        let provider = self.parts.provider.clone();
        let provider = provider.unwrap_or_else(|| Arc::clone(&self.model) as _);
        let summariser = self.parts.summariser.clone();
        let mut agent = self.parts.agent.clone();
        agent.memory.extract = self.parts.extracts;
        DaemonParts {
            home: self.path(),
            agent,
            models: ModelChoice {
                summariser: summariser.unwrap_or_else(|| Arc::clone(&provider)),
                default: provider,
                all: self.parts.models.clone(),
            },
            channels: others.chain([home]).collect(),
            tools: self.parts.tools.clone(),
            mcp: self.parts.mcp.clone(),
            store: self.parts.store.clone(),
            intake: self.parts.intake.clone(),
            skill_environment: self.parts.skill_environment.clone(),
            program: "peacrab".to_owned(),
            restarts: self.parts.restarts,
            supervision: self.parts.supervision.clone(),
            hooks: self.parts.hooks.clone(),
            backup: None,
            gateway: self.parts.gateway.clone(),
            shell: Default::default(),
            commands: self.parts.commands.clone(),
            clock: self.parts.clock.clone(),
            redactor: self.parts.redactor.clone(),
        }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.path().join("workspace")
    }

    /// The owner says something.
    pub(crate) fn say(&self, chat: &str, text: &str) {
        self.say_as(OWNER, chat, text);
    }

    pub(crate) fn say_as(&self, who: &str, chat: &str, text: &str) {
        self.home.hears(self.home.message(who, chat, text));
    }

    /// Somebody says something that a test has changed.
    pub(crate) fn say_changed(
        &self,
        who: &str,
        chat: &str,
        text: &str,
        change: impl FnOnce(&mut Inbound),
    ) {
        let mut message = self.home.message(who, chat, text);
        change(&mut message);
        self.home.hears(message);
    }

    pub(crate) fn say_in_thread(&self, chat: &str, thread: &str, text: &str) {
        let thread = Some(ThreadId::from(thread));
        self.say_changed(OWNER, chat, text, |message| message.from.thread = thread);
    }

    /// Waits for the next message of a chat.
    pub(crate) async fn next_message(&mut self, chat: &str) -> String {
        self.next_messages(chat, 1).await.remove(0)
    }

    /// Waits for the next `n` messages of a chat, and reads them.
    pub(crate) async fn next_messages(&mut self, chat: &str, n: usize) -> Vec<String> {
        self.next_messages_on(Arc::clone(&self.home), chat, n)
            .await
            .into_iter()
            .map(|got| got.text)
            .collect()
    }

    /// As [`Self::next_messages`], on any channel, whole.
    pub(crate) async fn next_messages_on(
        &mut self,
        on: Arc<FakeChannel>,
        chat: &str,
        n: usize,
    ) -> Vec<ReceivedMessage> {
        let key = format!("{:p} {chat}", Arc::as_ptr(&on));
        let read = self.read.get(&key).copied().unwrap_or_default();
        let mut got = on.got();
        let here = |all: &[ReceivedMessage]| -> Vec<ReceivedMessage> {
            all.iter().filter(|got| got.chat == chat).skip(read).cloned().collect()
        };
        let waited = timeout(PATIENCE, got.wait_for(|all| here(all).len() >= n));
        tokio::select! {
            ended = self.daemon.join_next() => panic!("the daemon ended: {ended:?}"),
            waited = waited => if waited.is_err() {
                let here = here(&on.got().borrow());
                panic!("{chat} waited for {n} messages and got {here:?}\n{}", self.what_is_left());
            },
        }
        let mut here = here(&on.got().borrow());
        here.truncate(n);
        self.read.insert(key, read + n);
        here
    }

    /// Says something and waits for the one answer.
    pub(crate) async fn ask(&mut self, chat: &str, text: &str) -> String {
        self.say(chat, text);
        self.next_message(chat).await
    }

    /// What a chat got and nobody has read.
    pub(crate) fn unread(&self, chat: &str) -> Vec<String> {
        let key = format!("{:p} {chat}", Arc::as_ptr(&self.home));
        let read = self.read.get(&key).copied().unwrap_or_default();
        let got = self.home.got();
        let got = got.borrow();
        got.iter().filter(|got| got.chat == chat).skip(read).map(|got| got.text.clone()).collect()
    }

    /// Waits until something hangs at a gate.
    pub(crate) async fn wait_at(&mut self, gate: &Gate) {
        self.wait_at_times(gate, 1).await;
    }

    pub(crate) async fn wait_at_times(&mut self, gate: &Gate, times: usize) {
        tokio::select! {
            ended = self.daemon.join_next() => panic!("the daemon ended: {ended:?}"),
            waited = timeout(PATIENCE, gate.reached(times)) => {
                waited.unwrap_or_else(|_| panic!("nothing hangs\n{}", self.what_is_left()));
            }
        }
    }

    /// Waits until something is so.
    pub(crate) async fn wait_until(&self, so: impl Fn(&Self) -> bool) {
        let begun = tokio::time::Instant::now();
        while !so(self) {
            assert!(begun.elapsed() < PATIENCE, "it never was\n{}", self.what_is_left());
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Waits until a count that the store gives is `n`.
    pub(crate) async fn wait_for_count(&mut self, sql: &str, n: i64) {
        let path = self.path();
        let looked = timeout(PATIENCE, async {
            while count(&path, sql) != Some(n) {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        });
        tokio::select! {
            ended = self.daemon.join_next() => panic!("the daemon ended: {ended:?}"),
            looked = looked => {
                let now = count(&path, sql);
                assert!(looked.is_ok(), "{sql} gave {now:?}, not {n}\n{}", self.what_is_left());
            }
        }
    }

    /// Waits until so many messages wait for a turn.
    pub(crate) async fn waiting(&mut self, n: i64) {
        self.wait_for_count("SELECT count(*) FROM inbound WHERE state = 'waiting'", n).await;
    }

    /// Changes the store beside the daemon, as time or an older version would.
    pub(crate) fn execute(&self, sql: &str) {
        let store = Connection::open(self.path().join("state.db")).unwrap();
        store.busy_timeout(PATIENCE).unwrap();
        store.execute_batch(sql).unwrap();
    }

    /// One text that the store gives.
    pub(crate) fn query(&self, sql: &str) -> Vec<String> {
        let store = open(&self.path()).unwrap();
        let mut rows = store.prepare(sql).unwrap();
        let rows = rows.query_map([], |row| row.get(0)).unwrap();
        rows.collect::<Result<_, _>>().unwrap()
    }

    /// The files of an account's person, who is not the owner.
    pub(crate) fn files_of(&self, sender: &str) -> FileScope {
        let sql = format!("SELECT 'p' || person FROM accounts WHERE sender = '{sender}'");
        let person = PersonId::parse(&self.query(&sql).remove(0)).unwrap();
        FileScope::of_person(&FolderOwner::Person(person))
    }

    /// Stops the daemon as SIGTERM would.
    pub(crate) async fn stop(&mut self) {
        self.stop.cancel();
        let ended = timeout(PATIENCE, self.daemon.join_next()).await.expect("it does not stop");
        ended.unwrap().expect("the daemon panicked").unwrap();
    }

    /// The same for one that waits for nothing: none of its parts goes on until its time is over and it is cut off.
    pub(crate) async fn stop_by_itself(&mut self) {
        let log = Log::default();
        let lines = tracing_subscriber::fmt().with_writer(log.clone()).with_ansi(false).finish();
        let logging = tracing::subscriber::set_default(lines);
        self.stop().await;
        drop(logging);
        // A line may be missing while tests on other threads begin or end logs of their own.
        let log = log.text();
        assert!(!log.contains("did not end in time"), "{log}");
    }

    /// Waits until the daemon ends by itself.
    pub(crate) async fn ends(&mut self) {
        let ended = timeout(PATIENCE, self.daemon.join_next()).await.expect("it does not end");
        ended.unwrap().expect("the daemon panicked").unwrap();
    }

    /// Starts the daemon in safe mode, as after crashes.
    pub(crate) async fn start_in_safe_mode(&mut self) {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
        let unexpected = vec![since_boot().as_secs(); STARTS_MAX];
        let (boot, runs, is_reported) = (boot.trim().to_owned(), true, true);
        let record = StartRecord { boot, runs, unexpected, is_reported, ..Default::default() };
        let text = serde_json::to_vec(&record).unwrap();
        std::fs::write(self.path().join(starts::FILE), text).unwrap();
        self.parts.supervision.counts_starts = true;
        self.start().await;
    }

    pub(crate) async fn stop_and_start_again(&mut self) {
        self.stop().await;
        self.start().await;
    }

    /// Waits until all is done, and checks that nothing is left unread.
    pub(crate) async fn finish(mut self) {
        self.settled().await;
        let mut fake_channels: Vec<_> =
            self.parts.channels.iter().map(|(_, fake_channel)| Arc::clone(fake_channel)).collect();
        fake_channels.push(Arc::clone(&self.home));
        for fake_channel in fake_channels {
            let mut chats: BTreeMap<String, Vec<String>> = BTreeMap::new();
            for got in fake_channel.got().borrow().iter() {
                chats.entry(got.chat.clone()).or_default().push(got.text.clone());
            }
            for (chat, texts) in chats {
                let key = format!("{:p} {chat}", Arc::as_ptr(&fake_channel));
                let unread = &texts[self.read.get(&key).copied().unwrap_or_default()..];
                assert!(unread.is_empty(), "{chat} got what nobody has read: {unread:?}");
            }
            assert_eq!(fake_channel.faults(), Vec::<String>::new());
        }
        assert_eq!(self.model.faults(), Vec::<String>::new());
        self.stop().await;
    }

    /// Waits until nothing is left to do.
    pub(crate) async fn settled(&mut self) {
        let begun = tokio::time::Instant::now();
        while self.home.unaccepted() > 0 {
            assert!(begun.elapsed() < PATIENCE, "not accepted\n{}", self.what_is_left());
            tokio::time::sleep(LOOK_EVERY).await;
        }
        for open in [
            "SELECT count(*) FROM inbound WHERE state <> 'done'",
            "SELECT count(*) FROM turns WHERE ending IS NULL",
            "SELECT count(*) FROM calls WHERE state IN ('planned', 'running')",
            "SELECT count(*) FROM outbox WHERE state = 'pending'",
        ] {
            self.wait_for_count(open, 0).await;
        }
    }

    fn what_is_left(&self) -> String {
        let rows = "SELECT 'inbound ' || id || ' ' || state || ' ' || message FROM inbound
                    WHERE state <> 'done'
                    UNION ALL SELECT 'turn ' || id || ' attempts ' || attempts FROM turns
                    WHERE ending IS NULL
                    UNION ALL SELECT 'call ' || tool || ' ' || state FROM calls
                    WHERE state IN ('planned', 'running')
                    UNION ALL SELECT 'outbox ' || chat || ' ' || body || ' ' || ifnull(reason, '')
                    FROM outbox WHERE state = 'pending'";
        self.query(rows).join("\n")
    }
}

fn open(home: &Path) -> Option<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let store = Connection::open_with_flags(home.join("state.db"), flags).ok()?;
    store.busy_timeout(PATIENCE).ok()?;
    Some(store)
}

fn count(home: &Path, sql: &str) -> Option<i64> {
    open(home)?.query_row(sql, [], |row| row.get(0)).ok()
}
