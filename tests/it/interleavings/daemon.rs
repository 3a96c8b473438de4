//! Tells a story to a daemon, which dies and begins again as the story says, until nothing is left to do.
//! Time is paused and passes only when the story says so, or when nothing else can happen.

use std::collections::BTreeMap;
use std::slice::Iter;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use chrono::Utc;
use peacrab::bus::Bus;
use peacrab::bus::rates::RateLimits;
use peacrab::channels::intake::Intake;
use peacrab::config::AgentConfig;
use peacrab::conversation::asks::{ApprovalSettings, Approvals};
use peacrab::daemon::{Daemon, DaemonParts};
use peacrab::memory;
use peacrab::people::Access;
use peacrab::provider::{Models, Provider};
use peacrab::sandbox::SandboxState;
use peacrab::secret::Redactor;
use peacrab::store::{StoreOptions, Sync};
use peacrab::tasks::schedule::Clock;
use peacrab::tools::{McpTools, ToolSet};
use peacrab::turn::services::ModelChoice;
use peacrab::types::message::{DeliveryId, Inbound, Press};
use peacrab::workspace::skills::SkillEnvironment;
use rusqlite::{Connection, OpenFlags};
use tempfile::TempDir;
use tokio::task::{JoinSet, yield_now};
use tokio_util::sync::CancellationToken;

use super::brain::{Brain, deeds};
use super::story::{Act, Command, End, Program, Seconds, Story, Who};
use super::trap::Trap;
use super::verdict;
use super::wire::Apis;
use crate::support::fake_channel::FakeChannel;
use crate::support::rig::{OWNER, USER};

/// Longer than anything here takes, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// So often in a row nothing must have happened for it to be still.
const STILL: usize = 5;

/// How far time goes on at once.
const STEP_MAX: Duration = Duration::from_secs(60);

/// Where there are no disks to wait for.
const MEMORY: &str = "/dev/shm";

pub(super) fn tell(Story(acts): &Story, wire: &Apis) -> Result<(), String> {
    let mut world = World::new();
    let mut acts = acts.iter();
    while world.live(&mut acts)? != Ended::Quiet {}
    // Whatever the conversations have become, they can be gone on with.
    let last = [Who::Ada, Who::Bob, Who::AdaInGroup];
    let program = Program { steps: Vec::new(), end: End::Says, pace_ms: 0 };
    let last = last.map(|who| Act::Says(who, program.clone()));
    world.live(&mut last.iter())?;
    verdict::judge(&world).map_err(|fault| format!("{fault}\n{}", verdict::dump(&world)))?;
    world.brain.kept().iter().try_for_each(|kept| wire.check(kept))
}

/// What outlives a daemon.
pub(super) struct World {
    folder: TempDir,
    pub(super) home: Arc<FakeChannel>,
    pub(super) brain: Arc<Brain>,
    pub(super) said: Vec<Said>,
    numbers: usize,
}

/// A message, and what it and its edits said.
pub(super) struct Said {
    inbound: Inbound,
    pub(super) tokens: Vec<String>,
}

impl Said {
    pub(super) fn key(&self) -> String {
        format!("home:{}", self.inbound.key)
    }

    pub(super) fn is_press(&self) -> bool {
        self.inbound.body.press.is_some()
    }
}

/// How a daemon's life ended.
#[derive(Debug, PartialEq)]
enum Ended {
    Killed,
    Stopped,
    /// Nothing is left to do.
    Quiet,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir_in(MEMORY).or_else(|_| tempfile::tempdir()).unwrap();
        let home = Arc::new(FakeChannel::with(true, 8000));
        Self { folder, home, brain: Arc::default(), said: Vec::new(), numbers: 0 }
    }

    pub(super) fn path(&self) -> std::path::PathBuf {
        self.folder.path().join("home")
    }

    pub(super) fn store(&self) -> Connection {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let store = Connection::open_with_flags(self.path().join("state.db"), flags).unwrap();
        store.busy_timeout(PATIENCE).unwrap();
        store
    }

    fn plan(&self, trap: &Arc<Trap>) -> DaemonParts {
        let access = Access {
            owners: vec![OWNER.to_owned()],
            allow: vec![USER.to_owned()],
            ..Access::default()
        };
        let approvals = Approvals { tools: vec!["leave".to_owned()], roles: Vec::new() };
        let asking = ApprovalSettings { approvals, ..ApprovalSettings::default() };
        let tools = ToolSet::standard();
        tools.set_mcp_tools(McpTools::new(deeds(&self.path().join("acts")), Vec::new()));
        let provider = Arc::clone(&self.brain) as Arc<dyn Provider>;
        let usual = AgentConfig::default();
        // The brain is asked nothing beside turns.
        let memory = memory::Config { extract: false, ..usual.memory.clone() };
        DaemonParts {
            home: self.path(),
            agent: AgentConfig {
                asking,
                wait_for_model: None,
                limits: RateLimits::default(),
                memory,
                ..usual
            },
            models: ModelChoice {
                summariser: Arc::clone(&provider),
                default: provider,
                all: Models::default(),
            },
            channels: [("home".into(), (Arc::clone(&self.home) as _, access))].into(),
            tools,
            mcp: BTreeMap::default(),
            store: StoreOptions { observer: Some(trap.observer()), ..StoreOptions::default() },
            intake: Intake::default(),
            skill_environment: SkillEnvironment::default(),
            program: "peacrab".to_owned(),
            restarts: false,
            supervision: Default::default(),
            gateway: None,
            hooks: BTreeMap::default(),
            backup: None,
            clock: Clock::default(),
            redactor: Redactor::default(),
            shell: SandboxState::default(),
            commands: None,
        }
    }

    /// One daemon's life, on a clock of its own.
    fn live(&mut self, acts: &mut Iter<'_, Act>) -> Result<Ended, String> {
        let trap = Arc::new(Trap::default());
        let mut building = tokio::runtime::Builder::new_current_thread();
        let runtime = building.enable_all().start_paused(true).build().unwrap();
        let (end, ended) = sync_channel::<()>(1);
        // While it blocks, time does not go on by itself.
        let blocks = runtime.spawn_blocking(move || ended.recv().ok());
        let ended = runtime.block_on(async {
            let daemon = loop {
                match Daemon::open(self.plan(&trap)).await {
                    Ok(daemon) => break daemon,
                    // Programs that other tests are just starting have its lock open, too.
                    Err(error) if error.to_string().contains("another") => {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                    Err(error) => return Err(format!("{error:#}")),
                }
            };
            let (bus, stop) =
                (daemon.control_server().turns.services.bus.clone(), CancellationToken::new());
            let mut tasks = JoinSet::new();
            tasks.spawn(daemon.run(stop.clone(), || {}));
            let store = self.store();
            let mut life = Life { world: self, trap: &trap, bus, store, stop, tasks };
            life.go(acts).await
        });
        drop(end);
        drop((blocks, runtime));
        trap.is_over();
        ended
    }

    fn token(&mut self) -> String {
        self.numbers += 1;
        format!("#{}", self.numbers)
    }

    fn say(&mut self, who: Who, text: &str, tokens: Vec<String>) {
        let (who, chat) = place(who);
        self.hear(Said { inbound: self.home.message(who, chat, text), tokens });
    }

    fn hear(&mut self, said: Said) {
        self.home.hears(said.inbound.clone());
        self.said.push(said);
    }
}

fn place(who: Who) -> (&'static str, &'static str) {
    match who {
        Who::Ada => (OWNER, "1"),
        Who::Bob => (USER, "2"),
        Who::AdaInGroup => (OWNER, "-1"),
        Who::BobInGroup => (USER, "-1"),
    }
}

struct Life<'a> {
    world: &'a mut World,
    trap: &'a Trap,
    bus: Bus,
    store: Connection,
    stop: CancellationToken,
    tasks: JoinSet<anyhow::Result<()>>,
}

impl Life<'_> {
    async fn go(&mut self, acts: &mut Iter<'_, Act>) -> Result<Ended, String> {
        for act in acts.by_ref() {
            self.act(act).await;
            if self.trap.has_sprung() {
                return Ok(Ended::Killed);
            }
            if matches!(act, Act::Restarts) {
                return self.end().await;
            }
        }
        self.rest().await
    }

    async fn act(&mut self, act: &Act) {
        match act {
            Act::Says(who, program) => {
                let token = self.world.token();
                self.world.brain.learn(&token, program);
                self.world.say(*who, &token.clone(), vec![token]);
            }
            Act::Edits(back, program) => {
                let token = self.world.token();
                let Some(at) = self.recent(*back) else { return };
                self.world.brain.learn(&token, program);
                let said = &mut self.world.said[at];
                said.inbound.body.text.clone_from(&token);
                said.tokens.push(token);
                self.world.home.edits(said.inbound.clone());
            }
            Act::Deletes(back) => {
                let Some(at) = self.recent(*back) else { return };
                self.world.home.deletes(self.world.said[at].inbound.clone());
            }
            Act::Commands(who, command) => {
                let text = self.command(*command);
                self.world.say(*who, &text, Vec::new());
            }
            Act::Presses(who, choice) => self.press(*who, *choice),
            Act::Judges(allow) => {
                let asked = "SELECT max(id) FROM asks WHERE state = 'open' AND kind = 'approval'";
                let asked = self.store.query_row(asked, [], |row| row.get::<_, Option<i64>>(0));
                let Some(id) = asked.unwrap() else { return };
                let verb = if *allow { "/approve" } else { "/deny" };
                self.world.say(Who::Ada, &format!("{verb} {id}"), Vec::new());
            }
            Act::Expires => self.expire().await,
            Act::Settles => self.still().await,
            Act::Passes(Seconds(seconds)) => {
                self.still().await;
                // In steps, so that what happens on the way does.
                let mut left = Duration::from_secs(*seconds);
                while !left.is_zero() && !self.trap.has_sprung() {
                    let step = left.min(STEP_MAX);
                    tokio::time::advance(step).await;
                    self.still().await;
                    left -= step;
                }
            }
            Act::Dies(commits, when) => self.trap.set(*commits, *when),
            Act::Restarts => {}
        }
    }

    fn command(&mut self, command: Command) -> String {
        match command {
            Command::Stop => "/stop".to_owned(),
            Command::New => "/new".to_owned(),
            Command::Queue(mode) => format!("/queue {}", mode.as_str()),
            Command::Btw(end) => {
                let token = self.world.token();
                let program = Program { steps: Vec::new(), end, pace_ms: 1_000 };
                self.world.brain.learn(&token, &program);
                format!("/btw {token}")
            }
            Command::Compact => "/compact".to_owned(),
            Command::Status => "/status".to_owned(),
        }
    }

    /// A plain message that was said so many before the last one.
    fn recent(&self, back: usize) -> Option<usize> {
        let said = self.world.said.iter().enumerate().rev();
        said.filter(|(_, said)| !said.tokens.is_empty()).nth(back).map(|(at, _)| at)
    }

    fn press(&mut self, who: Who, choice: usize) {
        let got = self.world.home.got();
        let asked = got.borrow().iter().rev().find(|got| !got.choices.is_empty()).cloned();
        let Some(asked) = asked else { return };
        let (who, _) = place(who);
        let mut inbound = self.world.home.message(who, &asked.chat, "");
        inbound.body.press = Some(Press { delivery: DeliveryId(asked.delivery), choice });
        self.world.hear(Said { inbound, tokens: Vec::new() });
    }

    /// What was asked has waited for too long.
    async fn expire(&self) {
        // Just over: what was over long ago is forgotten at the next start.
        let over = Utc::now().timestamp_millis() - 1;
        let expire = move |store: &Connection| store.execute("UPDATE asks SET expires = ?", [over]);
        let expire = self.bus.store.write("time passes", Sync::Later, expire);
        let mut expire = std::pin::pin!(expire);
        while !self.trap.has_sprung() {
            tokio::select! {
                biased;
                expired = &mut expire => {
                    expired.unwrap();
                    self.bus.inbox.notify();
                    return;
                }
                () = yield_now() => std::thread::yield_now(),
            }
        }
    }

    /// Waits until nothing happens without time.
    async fn still(&self) {
        let now = || {
            let got = self.world.home.got().borrow().len();
            let (commits, asked) = (self.trap.commits(), self.world.brain.asked());
            (commits, asked, got, self.world.home.unaccepted())
        };
        let (mut before, mut same) = (now(), 0);
        while same < STILL && !self.trap.has_sprung() {
            for _ in 0..20 {
                yield_now().await;
            }
            // The threads of the store and of the disk work meanwhile.
            std::thread::sleep(Duration::from_micros(100));
            let now = now();
            same = if now == before { same + 1 } else { 0 };
            before = now;
        }
    }

    /// Lets time go on until nothing is left to do.
    async fn rest(&mut self) -> Result<Ended, String> {
        let begun = Instant::now();
        let mut step = Duration::from_millis(50);
        loop {
            self.still().await;
            if self.trap.has_sprung() {
                return Ok(Ended::Killed);
            }
            if self.world.home.unaccepted() == 0 && verdict::open(&self.store).is_empty() {
                self.trap.unset();
                return Ok(if self.trap.has_sprung() { Ended::Killed } else { Ended::Quiet });
            }
            if self.tasks.try_join_next().is_some() {
                return Err("the daemon ended by itself".to_owned());
            }
            if begun.elapsed() > PATIENCE {
                let left = verdict::open(&self.store).join("\n");
                return Err(format!("never quiet:\n{left}\n{}", verdict::dump(self.world)));
            }
            if step > Duration::from_secs(10) {
                self.expire().await;
            }
            tokio::time::advance(step).await;
            step = (step * 2).min(STEP_MAX);
        }
    }

    /// Ends the daemon as SIGTERM would.
    async fn end(&mut self) -> Result<Ended, String> {
        self.stop.cancel();
        let begun = Instant::now();
        loop {
            self.still().await;
            if self.trap.has_sprung() {
                return Ok(Ended::Killed);
            }
            if let Some(ended) = self.tasks.try_join_next() {
                return ended.map(|_| Ended::Stopped).map_err(|error| error.to_string());
            }
            if begun.elapsed() > PATIENCE {
                return Err("the daemon does not end".to_owned());
            }
            tokio::time::advance(Duration::from_millis(200)).await;
        }
    }
}
