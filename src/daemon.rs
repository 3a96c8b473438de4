//! Assembles the parts, starts them in order and ends them in order: sources first, then turns, then deliveries.
//! Every running part is a task here, and is joined here. Not here: the work of the parts.

mod backups;
mod deliveries;
pub mod gateway;
mod indexing;
pub mod logging;
mod opening;
mod providers;
mod shell;
pub mod tasks;
pub mod starts;
pub mod store_trouble;
pub mod template;
mod pruning;
mod unattended;
pub mod watchdog;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use chrono::Utc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::agent;
use crate::bus::Bus;
use crate::channels::deliver::DeliveryProgress;
use crate::channels::intake::{Intake, IntakeStores};
use crate::channels::terminal::Terminal;
use crate::channels::{self, Channel, Channels, intake, supervise};
use crate::config::{self, AgentConfig, Config, Environment, TERMINAL};
use crate::control::{self, ControlServer};
use crate::conversation::actions::{Actions, BeforeImages};
use crate::documents::DocumentReader;
use crate::hooks::Hook;
use crate::people::{Access, People};
use crate::provider::transcription::Transcriber;
use crate::provider::{self, models::Standing};
use crate::sandbox::SandboxState;
use crate::secret::Redactor;
use crate::services::Services;
use crate::store::{self, HomeLock};
use crate::tasks::heartbeat::HeartbeatControl;
use crate::tasks::schedule::{Clock, Commands};
use crate::tools::{self, ToolSet, mcp};
use crate::trust::instruction_versions;
use crate::trust::instruction_watch::{self, InstructionWatcher};
use crate::turn::draft_rate::OpenDrafts;
use crate::turn::services::{ModelChoice, TurnConfig, TurnServices};
use crate::turn::spending::Spending;
use crate::types::event::Events;
use crate::types::message::ChannelName;
use crate::workspace::skills::SkillEnvironment;
pub use providers::models;
pub use pruning::prune_rows;
use tasks::{end, respawn};
use watchdog::Watchdog;

/// Deadline of each stage of the shutdown. Turns have their own grace period within it.
const STAGE_TIME_MAX: Duration = Duration::from_secs(4);

/// Deadline of due deliveries at the shutdown.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(1);

/// Deadline of MCP servers at the shutdown.
const MCP_CALL_TIME_MAX: Duration = Duration::from_secs(3);

/// The file about the owner, which may contain their time zone.
pub const USER: &str = "USER.md";

/// The daemon's duties towards the supervisor that restarts it.
#[derive(Clone, Default)]
pub struct Supervision {
    /// None if the supervisor expects no reports of progress.
    pub watchdog: Option<Watchdog>,
    /// True if starts after unexpected ends are counted. Several of them lead to the safe mode.
    pub counts_starts: bool,
    /// Checks the config before a restart. None if the next start reads no config.
    pub config_check: Option<agent::ConfigCheck>,
    /// The lock of the home, if this process has held it for the daemon before.
    pub lock: Option<Arc<HomeLock>>,
}

/// The parts of a daemon.
pub struct DaemonParts {
    pub home: PathBuf,
    pub agent: AgentConfig,
    pub models: ModelChoice,
    /// The channels besides the terminal, which always exists.
    pub channels: BTreeMap<ChannelName, (Arc<dyn Channel>, Access)>,
    pub tools: ToolSet,
    /// The MCP servers.
    pub mcp: BTreeMap<String, mcp::Config>,
    pub store: store::StoreOptions,
    pub intake: Intake,
    /// Facts about the machine that skills may require.
    pub skill_environment: SkillEnvironment,
    /// True if a supervisor starts the daemon again when it ends.
    pub restarts: bool,
    pub supervision: Supervision,
    /// The command by which people start this program for this home.
    pub program: String,
    pub hooks: BTreeMap<String, Hook>,
    /// Regular backups.
    pub backup: Option<crate::backup::schedule::Config>,
    /// The HTTP server for browsers and other programs. None if it is off.
    pub gateway: Option<crate::gateway::Config>,
    /// State of the shell's sandbox.
    pub shell: SandboxState,
    /// Runs the commands of jobs. None without a shell.
    pub commands: Option<Commands>,
    /// The clock for due times of jobs.
    pub clock: Clock,
    /// Removes secrets that neither models nor people may see.
    pub redactor: Redactor,
}

impl DaemonParts {
    /// Creates the parts that the config asks for, in this home.
    pub fn new(home: &Path, mut config: Config, environment: &Environment) -> anyhow::Result<Self> {
        config.refuse_unsafe_programs(home);
        let exposed = config.exposure_warning(home);
        if let Some(exposure) = exposed.as_ref().filter(|it| !it.is_by_system) {
            anyhow::bail!(exposure.words.clone());
        }
        let models = models(&config)?;
        let redactor = Redactor::new(config.secrets());
        let default_models = models.all().iter().filter(|it| it.standing == Standing::Default);
        let provider =
            provider::chain(default_models.map(|model| Arc::clone(&model.provider)).collect());
        // If the provider for summaries fails, those for answers take over.
        let summariser = match &config.agent.summary_provider {
            Some(name) => {
                let model = models.all().iter().find(|model| model.name == *name);
                let model = model.with_context(|| format!("there is no provider `{name}`"))?;
                provider::chain(vec![Arc::clone(&model.provider), Arc::clone(&provider)])
            }
            None => Arc::clone(&provider),
        };
        let mut channels: BTreeMap<ChannelName, (Arc<dyn Channel>, Access)> = BTreeMap::new();
        for (name, channels::Config { access, kind }) in config.channels {
            if let Some(channel) = channels::connect(&kind)? {
                channels.insert(name, (channel, access));
            }
        }
        let shell = shell::sandbox(&config.exec, &home.join("workspace"), exposed);
        let transcriber = config.transcription.as_ref().map(Transcriber::new).transpose()?;
        let transcriber = transcriber.map(Arc::new);
        Ok(Self {
            home: home.to_owned(),
            agent: config.agent,
            models: ModelChoice { default: provider, summariser, all: models },
            channels,
            tools: ToolSet::standard_with(shell::config_tools(&config.web, &config.exec, &shell)?),
            mcp: config.mcp,
            store: store::StoreOptions::default(),
            intake: Intake {
                limits: config.media,
                transcriber,
                documents: Some(DocumentReader::default()),
            },
            skill_environment: environment.skill_environment(),
            // Only systemd sets the first, and our unit has Restart=always.
            restarts: environment.raw("INVOCATION_ID").is_some()
                || environment.restart_code().is_some(),
            supervision: Supervision::default(),
            program: config::program(home, environment),
            hooks: config.hooks,
            backup: config.backup,
            gateway: config.gateway,
            commands: tools::shell::commands(&config.exec, &shell),
            shell,
            clock: Clock::default(),
            redactor,
        })
    }
}

/// A daemon that has locked its home and is about to run.
pub struct Daemon {
    lock: Arc<HomeLock>,
    plan: DaemonParts,
    services: Services,
    turns: Arc<TurnServices>,
    agent: Arc<agent::Config>,
    terminal: Arc<Terminal>,
    server: Arc<ControlServer>,
    gateway: gateway::GatewayPart,
    opened: opening::OpenedStore,
    /// True if the outbox has a notice that the store was opened on a full disk.
    full_disk_noticed: bool,
    deliveries: BTreeMap<ChannelName, DeliveryProgress>,
}

impl DaemonParts {
    fn turn_config(&self) -> TurnConfig {
        let agent = &self.agent;
        TurnConfig {
            commands: self.commands.clone(),
            personas: agent.personas.clone(),
            finish: agent.finish,
            steps_max: agent.steps_max,
            subagent_steps_max: agent.subagent_steps_max,
            wait_for_model: agent.wait_for_model,
            clean_after: agent.clean_after,
            asking: agent.asking.clone(),
            memory: agent.memory.clone(),
        }
    }
}

impl Daemon {
    /// Locks the home, opens its files, and creates what is missing.
    pub async fn open(plan: DaemonParts) -> anyhow::Result<Self> {
        // It holds the daemon and its parts several times, which would be too much for a stack.
        let opening = Box::pin(async {
            let mut attempt = opening::OpeningAttempt::begin(&plan);
            match Self::open_parts(plan, &mut attempt).await {
                Ok(daemon) => {
                    attempt.succeed();
                    Ok(daemon)
                }
                Err(error) => Err(attempt.fail(error).await),
            }
        });
        opening.await
    }

    async fn open_parts(
        plan: DaemonParts,
        attempt: &mut opening::OpeningAttempt,
    ) -> anyhow::Result<Self> {
        let lock = opening::lock(&plan)?;
        let safe_mode = attempt.count_start();
        let (store, opened) = opening::store(&lock, &plan).await?;
        // After a crash, the write-ahead log may contain text that somebody wanted forgotten.
        store.checkpoint().await;
        let workspace = opening::workspace(&plan)?;
        workspace.restore_instructions(instruction_versions::load(&store).await?);
        let terminal = Arc::new(Terminal::new(TERMINAL.into()));
        let mut channels: BTreeMap<_, Arc<dyn Channel>> = BTreeMap::new();
        let mut access = BTreeMap::new();
        for (name, (channel, rules)) in &plan.channels {
            channels.insert(name.clone(), Arc::clone(channel));
            access.insert(name.clone(), rules.clone());
        }
        channels.insert(TERMINAL.into(), Arc::clone(&terminal) as _);
        access.insert(TERMINAL.into(), Access::local());
        let gateway = gateway::GatewayPart::new(plan.gateway.clone(), &plan.home);
        gateway.add_channel(&mut channels, &mut access);
        let channels: Channels = Arc::new(channels);

        let images = BeforeImages::open(&plan.home).context("cannot make the folder `undo`")?;
        let actions = Actions { store: store.clone(), images };
        let people = People::new(access).with_program(&plan.program);
        let bus = Bus::new(store, people, plan.agent.waiting_max).with_limits(plan.agent.limits);
        let prepared = opening::prepare(&plan.home, &bus, &opened).await?;
        agent::folders::adopt(&bus.store, &bus.people, &workspace).await?;
        let user = workspace.instruction(&USER.parse()?).ok().flatten();
        let zone = plan.agent.zone(&user.unwrap_or_default());
        let instruction_watcher =
            InstructionWatcher::new(workspace.clone(), actions.clone(), bus.outbox.clone());
        let redactor = plan.redactor.clone();
        let events = Events::default();
        let services = Services { bus, channels, workspace, events, zone, redactor };
        agent::former_home::review(&services).await?;
        let heartbeat = HeartbeatControl {
            config: plan.agent.heartbeat.clone(),
            services: services.clone(),
            clock: plan.clock.clone(),
            terminal: TERMINAL.into(),
            next: Default::default(),
            switched: Default::default(),
        };
        let (budgets, prices) = (plan.agent.budgets.clone(), plan.models.all.prices.clone());
        let spending = Spending::open(&services.bus.store, budgets, prices, zone).await?;
        let turns = Arc::new(TurnServices {
            services: services.clone(),
            models: plan.models.clone(),
            config: plan.turn_config(),
            tools: plan.tools.clone(),
            actions,
            instruction_watcher,
            drafts: OpenDrafts::default(),
            last_error: Default::default(),
            tools_shown: Default::default(),
            heartbeat,
            spending,
            common_terms: Default::default(),
        });
        let agent = Arc::new(agent::Config {
            turns_max: plan.agent.turns_max,
            queue: plan.agent.queue,
            shell: plan.shell.clone(),
            since: Utc::now(),
            restart: plan.restarts.then(|| agent::Restart {
                stop: CancellationToken::new(),
                check: plan.supervision.config_check.clone(),
            }),
            safe_mode,
            newest_subagent: prepared.newest_subagent,
            #[cfg(feature = "gateway")]
            web: gateway.entrance(),
        });
        let server = Arc::new(ControlServer {
            turns: Arc::clone(&turns),
            agent: Arc::clone(&agent),
            terminal: Arc::clone(&terminal),
            links: services.channels.keys().map(|name| (name.clone(), Arc::default())).collect(),
            home: plan.home.display().to_string(),
            since: Utc::now(),
            reloads: Default::default(),
            indexing: Default::default(),
            #[cfg(feature = "gateway")]
            web: gateway.entrance(),
        });
        let names = services.channels.keys();
        let deliveries = names.map(|name| (name.clone(), DeliveryProgress::default())).collect();
        Ok(Self {
            lock,
            plan,
            services,
            turns,
            agent,
            terminal,
            server,
            gateway,
            opened,
            full_disk_noticed: prepared.full_disk_noticed,
            deliveries,
        })
    }

    /// Returns the lock of the home. A caller that keeps it after the daemon has ended keeps others out.
    pub fn lock(&self) -> Arc<HomeLock> {
        Arc::clone(&self.lock)
    }

    /// Returns the control server; the daemon's own terminal uses it too.
    pub fn control_server(&self) -> Arc<ControlServer> {
        Arc::clone(&self.server)
    }

    /// Runs until `stop`. `ready` is called once the loop runs, whether or not the channels are up.
    pub async fn run(self, stop: CancellationToken, ready: impl FnOnce()) -> anyhow::Result<()> {
        let listener = opening::control_socket(&self.plan)?;
        let (sources, turns, deliveries) =
            (stop.child_token(), CancellationToken::new(), CancellationToken::new());

        let mut source_tasks = JoinSet::new();
        let mut delivery_tasks = JoinSet::new();
        for (name, channel) in self.services.channels.iter() {
            let link = self.link(name);
            let bus = self.services.bus.clone();
            let (receiver, until) = ((name.clone(), Arc::clone(channel), bus), sources.clone());
            source_tasks.spawn(respawn("a channel", until, move |stop| {
                let ((name, channel, bus), link) = (receiver.clone(), Arc::clone(&link));
                supervise::run(name, channel, bus, link, stop)
            }));
            let (fetcher, until) = ((name.clone(), Arc::clone(channel)), sources.clone());
            let Services { bus, workspace, .. } = &self.services;
            let stores = IntakeStores { bus: bus.clone(), workspace: workspace.clone() };
            let intake = self.plan.intake.clone();
            source_tasks.spawn(respawn("the intake of files", until, move |stop| {
                let (name, channel) = fetcher.clone();
                intake::run(name, channel, stores.clone(), intake.clone(), stop)
            }));
            self.deliver(name, channel, &mut delivery_tasks, &deliveries);
        }
        let (workspace, bus) = (self.services.workspace.clone(), self.services.bus.clone());
        source_tasks.spawn(respawn("the versions of instructions", sources.clone(), move |stop| {
            let (workspace, bus) = (workspace.clone(), bus.clone());
            instruction_versions::run(workspace, bus.store, bus.outbox, stop)
        }));
        let instruction_watcher = self.turns.instruction_watcher.clone();
        source_tasks.spawn(respawn("the watch over instructions", sources.clone(), move |stop| {
            instruction_watch::run(instruction_watcher.clone(), stop)
        }));
        let (server, listener) = (Arc::clone(&self.server), Arc::new(listener));
        let home = self.plan.home.clone();
        source_tasks.spawn(respawn("the control socket", sources.clone(), move |stop| {
            control::run(Arc::clone(&server), Arc::clone(&listener), home.clone(), stop)
        }));
        self.gateway.start(&self.server, &mut source_tasks, &sources);
        let services = self.services.clone();
        source_tasks.spawn(respawn("incognito conversations", sources.clone(), move |stop| {
            agent::incognito_sessions::run(services.clone(), stop)
        }));
        let services = self.services.clone();
        source_tasks.spawn(respawn("the folders of persons", sources.clone(), move |stop| {
            agent::folders::run(services.clone(), stop)
        }));
        self.start_unattended(&sources, &mut source_tasks);
        self.watch(&sources, &mut source_tasks);
        let hook_tasks = self.start_hooks(&deliveries);
        let mcp_stop = CancellationToken::new();
        let mcp_tasks = self.set_mcp_tools(&mcp_stop);

        let mut turn_tasks = JoinSet::new();
        let (services, config) = (Arc::clone(&self.turns), Arc::clone(&self.agent));
        turn_tasks.spawn(respawn("the agent loop", turns.clone(), move |stop| {
            agent::run(Arc::clone(&services), Arc::clone(&config), stop)
        }));
        self.log_start().await;
        opening::report_restart(&self.services.bus).await;
        if let Some(safe_mode) = self.agent.safe_mode {
            let bus = &self.services.bus;
            opening::report_safe_mode(bus, safe_mode, self.plan.restarts).await;
            starts::note_reported(&self.plan.home);
        }
        ready();
        self.start_tidying(&sources, &mut source_tasks);
        template::follow(&self.services, &self.plan.home).await;

        let restart = self.agent.restart.as_ref();
        let restart = restart.map(|restart| restart.stop.clone()).unwrap_or_default();
        tokio::select! {
            () = stop.cancelled() => {}
            () = restart.cancelled() => stop.cancel(),
        }
        tracing::info!("Stopping");
        end("listeners", source_tasks, STAGE_TIME_MAX).await;
        turns.cancel();
        end("turns", turn_tasks, STAGE_TIME_MAX).await;
        mcp_stop.cancel();
        deliveries.cancel();
        // MCP servers get a little more time than deliveries.
        tokio::join!(
            self.turns.drafts.end(DRAIN_TIME_MAX),
            end("deliveries", delivery_tasks, DRAIN_TIME_MAX),
            end("hooks", hook_tasks, DRAIN_TIME_MAX),
            end("MCP servers", mcp_tasks, MCP_CALL_TIME_MAX)
        );
        let mut store_tasks = JoinSet::new();
        let store = self.services.bus.store.clone();
        store_tasks.spawn(async move { store.close().await });
        end("the disk", store_tasks, STAGE_TIME_MAX).await;
        std::fs::remove_file(self.plan.home.join(control::SOCKET)).ok();
        if self.plan.supervision.counts_starts {
            starts::end(&self.plan.home);
        }
        tracing::info!("Stopped");
        Ok(())
    }
}
