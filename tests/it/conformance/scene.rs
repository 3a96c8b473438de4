//! A daemon with bots on one platform's stand-ins. If it ends by itself, so does the test.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use peacrab::bus::Publisher;
use peacrab::bus::rates::RateLimits;
use peacrab::channels::intake::Intake;
use peacrab::channels::{
    Channel, ChannelError, Drafts, FileContent, MediaSink, PlatformLimits, SendLookup, Sent,
};
use peacrab::config::AgentConfig;
use peacrab::control::ControlServer;
use peacrab::daemon::{Daemon, DaemonParts};
use peacrab::memory;
use peacrab::people::{Access, Groups};
use peacrab::provider::Models;
use peacrab::secret::Redactor;
use peacrab::store;
use peacrab::tasks::schedule::Clock;
use peacrab::tools::ToolSet;
use peacrab::turn::services::ModelChoice;
use peacrab::types::message::{Address, Hint, MediaRef, MessageId, Outbound, OverheardLine};
use peacrab::workspace::skills::SkillEnvironment;
use rusqlite::{Connection, OpenFlags};
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::stage::{Bot, Place, Seen, Stage, Who};
use crate::support::script::ScriptedModel;

/// Longer than anything here takes, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// How often is looked whether something has come.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Where platforms want patience, tests have none.
const PACE: Duration = Duration::from_millis(100);

/// After so long, what fails while others arrive is given up.
const GIVE_UP_AFTER: Duration = Duration::from_secs(2);

/// The channel of the first stage.
pub(crate) const HOME: &str = "home";
/// That of another.
pub(crate) const AWAY: &str = "away";

pub(crate) struct Scene<S: Stage> {
    pub(crate) stage: S,
    pub(crate) model: Arc<ScriptedModel>,
    folder: TempDir,
    bots: Vec<(&'static str, String, Bot)>,
    drafts: Pace,
    groups: Groups,
    other_bots: Vec<String>,
    stop: CancellationToken,
    server: Option<Arc<ControlServer>>,
    daemon: JoinSet<anyhow::Result<()>>,
}

impl<S: Stage> Scene<S> {
    /// One whose bot hears.
    pub(crate) async fn new() -> Self {
        let mut scene = Self::at_rest(S::start().await);
        scene.begin().await;
        scene
    }

    /// One whose daemon does not run yet.
    pub(crate) fn at_rest(stage: S) -> Self {
        let base = stage.base();
        Self::of(stage, base)
    }

    /// One whose bot looks for its platform at `base`.
    pub(crate) fn of(stage: S, base: String) -> Self {
        Self {
            stage,
            model: Arc::default(),
            folder: TempDir::new().unwrap(),
            bots: vec![(HOME, base, Bot::First)],
            drafts: Pace::OfPlatform,
            groups: Groups::default(),
            other_bots: Vec::new(),
            stop: CancellationToken::new(),
            server: None,
            daemon: JoinSet::new(),
        }
    }

    /// One whose bot shows at once what it writes.
    pub(crate) async fn drafting() -> Self {
        let mut scene = Self::at_rest(S::start().await);
        scene.drafts = Pace::Quick;
        scene.begin().await;
        scene
    }

    /// One whose bot has these settings for groups, and is told of these other bots.
    pub(crate) async fn in_groups(groups: Groups, other_bots: &[Who]) -> Self {
        let mut scene = Self::at_rest(S::start().await);
        scene.groups = groups;
        scene.other_bots = other_bots.iter().map(|who| S::id(*who)).collect();
        scene.begin().await;
        scene
    }

    /// Adds another bot.
    pub(crate) fn with_another(mut self, stage: &S) -> Self {
        self.bots.push((AWAY, stage.base(), Bot::Another));
        self
    }

    /// Starts the daemon, and waits until all bots hear.
    pub(crate) async fn begin(&mut self) {
        self.start().await;
        self.wait_until("the links", |scene| scene.bots.iter().all(|(name, ..)| scene.is_up(name)))
            .await;
    }

    pub(crate) async fn start(&mut self) {
        let access = Access {
            owners: vec![S::id(Who::Ada)],
            allow: [vec![S::id(Who::Bob)], self.other_bots.clone()].concat(),
            groups: self.groups,
            bots: self.other_bots.clone(),
            ..Access::default()
        };
        // As after a restart, the adapters remember nothing.
        let channels = self.bots.iter().map(|(name, base, bot)| {
            let brisk: Arc<dyn Channel> = Arc::new(Brisk(S::adapter(base, *bot), self.drafts));
            ((*name).into(), (brisk, access.clone()))
        });
        let usual = AgentConfig::default();
        // The model is asked nothing beside turns.
        let memory = memory::Config { extract: false, ..usual.memory.clone() };
        let plan = DaemonParts {
            home: self.folder.path().join("home"),
            agent: AgentConfig { limits: RateLimits::default(), memory, ..usual },
            models: ModelChoice {
                default: Arc::clone(&self.model) as _,
                summariser: Arc::clone(&self.model) as _,
                all: Models::default(),
            },
            channels: channels.collect(),
            tools: ToolSet::standard(),
            mcp: BTreeMap::default(),
            store: store::StoreOptions::default(),
            intake: Intake::default(),
            skill_environment: SkillEnvironment::default(),
            program: "peacrab".to_owned(),
            restarts: false,
            supervision: Default::default(),
            gateway: None,
            hooks: BTreeMap::default(),
            backup: None,
            shell: Default::default(),
            commands: None,
            clock: Clock::default(),
            redactor: Redactor::default(),
        };
        let daemon = Daemon::open(plan).await.unwrap();
        self.server = Some(daemon.control_server());
        self.stop = CancellationToken::new();
        self.daemon.spawn(daemon.run(self.stop.clone(), || {}));
    }

    /// Stops the daemon as SIGTERM would.
    pub(crate) async fn stop(&mut self) {
        self.stop.cancel();
        let ended = timeout(PATIENCE, self.daemon.join_next()).await.expect("it does not stop");
        ended.unwrap().expect("the daemon panicked").unwrap();
    }

    pub(crate) fn workspace(&self) -> std::path::PathBuf {
        self.folder.path().join("home/workspace")
    }

    /// Why a channel is down.
    pub(crate) fn trouble(&self, channel: &str) -> String {
        let link = self.server.as_ref().map(|server| server.links[&channel.into()].state());
        link.and_then(|link| link.trouble).unwrap_or_default()
    }

    pub(crate) fn is_up(&self, channel: &str) -> bool {
        self.server.as_ref().is_some_and(|server| server.links[&channel.into()].state().up)
    }

    /// Waits until something is so.
    pub(crate) async fn wait_until(&self, what: &str, so: impl Fn(&Self) -> bool) {
        let begun = Instant::now();
        while !so(self) {
            if begun.elapsed() > PATIENCE {
                let (seen, trouble) = (self.stage.seen(), self.trouble(HOME));
                panic!("waited in vain for {what}: {seen:#?}\n{trouble}\n{}", self.what_is_left());
            }
            sleep(LOOK_EVERY).await;
        }
    }

    /// Waits for a message that holds these words; gives the first.
    pub(crate) async fn hears(&self, words: &str) -> Seen {
        let find = |seen: Vec<Seen>| seen.into_iter().find(|seen| seen.text.contains(words));
        self.wait_until(words, |scene| find(scene.stage.seen()).is_some()).await;
        find(self.stage.seen()).unwrap()
    }

    /// Somebody says something to the bot and is answered.
    pub(crate) async fn ask(&self, place: Place, by: Who, words: &str) -> Seen {
        self.stage.say(place, by, words);
        self.hears(&format!("re: {words}")).await
    }

    /// How many rows the store gives.
    pub(crate) fn count(&self, sql: &str) -> Option<i64> {
        self.open()?.query_row(sql, [], |row| row.get(0)).ok()
    }

    fn open(&self) -> Option<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let path = self.folder.path().join("home/state.db");
        Connection::open_with_flags(path, flags).ok()
    }

    fn what_is_left(&self) -> String {
        let rows = "SELECT 'inbound ' || state || ' ' || message FROM inbound WHERE state <> 'done'
                    UNION ALL SELECT 'outbox ' || body || ' ' || ifnull(reason, '') FROM outbox
                    WHERE state = 'pending'";
        let store = self.open().unwrap();
        let mut rows = store.prepare(rows).unwrap();
        let rows = rows.query_map([], |row| row.get::<_, String>(0)).unwrap();
        rows.flatten().collect::<Vec<_>>().join("\n")
    }

    /// Waits until `n` messages of those who are let in have had their outcome, and nothing is left
    /// to do.
    pub(crate) async fn settles(&self, n: i64) {
        let done = "SELECT count(*) FROM inbound
                    WHERE state = 'done' AND outcome <> 'turned away'";
        self.wait_until("all outcomes", |scene| scene.count(done) == Some(n)).await;
        for open in [
            "SELECT count(*) FROM inbound WHERE state <> 'done'",
            "SELECT count(*) FROM turns WHERE ending IS NULL",
            "SELECT count(*) FROM outbox WHERE state = 'pending'",
        ] {
            self.wait_until(open, |scene| scene.count(open) == Some(0)).await;
        }
    }

    /// Waits until all is done, `n` messages in all, and checks that the bot said these and no more.
    pub(crate) async fn ends_with(mut self, n: i64, texts: &[&str]) {
        self.settles(n).await;
        let seen: Vec<_> = self.stage.seen().into_iter().map(|seen| seen.text).collect();
        assert_eq!(seen, texts);
        assert_eq!(self.stage.offences(), Vec::<String>::new());
        assert_eq!(self.model.faults(), Vec::<String>::new());
        self.stop().await;
    }
}

/// How soon, and how often, an answer is shown that is being written.
#[derive(Clone, Copy)]
enum Pace {
    OfPlatform,
    Quick,
}

/// The adapter, without the pauses that only people and platforms need.
struct Brisk(Arc<dyn Channel>, Pace);

#[async_trait]
impl Channel for Brisk {
    fn limits(&self) -> PlatformLimits {
        let limits = self.0.limits();
        let drafts = match self.1 {
            Pace::OfPlatform => limits.drafts,
            Pace::Quick => Drafts::Edited { every: PACE, every_in_groups: PACE },
        };
        PlatformLimits { drafts, ambiguity_pause: PACE, give_up_after: GIVE_UP_AFTER, ..limits }
    }

    async fn listen(&self, publisher: &Publisher) -> Result<(), ChannelError> {
        self.0.listen(publisher).await
    }

    async fn send(&self, message: &Outbound) -> Result<Sent, ChannelError> {
        self.0.send(message).await
    }

    async fn upload(&self, message: &Outbound, file: FileContent) -> Result<Sent, ChannelError> {
        self.0.upload(message, file).await
    }

    async fn fetch(&self, media: &MediaRef, into: &mut MediaSink) -> Result<(), ChannelError> {
        self.0.fetch(media, into).await
    }

    async fn history(
        &self,
        at: &Address,
        before: Option<&MessageId>,
        max: usize,
    ) -> Result<Vec<OverheardLine>, ChannelError> {
        self.0.history(at, before, max).await
    }

    async fn hint(&self, to: &Address, hint: Hint) -> Result<(), ChannelError> {
        self.0.hint(to, hint).await
    }

    async fn find(
        &self,
        message: &Outbound,
        since: DateTime<Utc>,
    ) -> Result<SendLookup, ChannelError> {
        self.0.find(message, since).await
    }
}
