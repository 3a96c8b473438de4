//! The services of turns beyond the shared ones: models, tools, limits, and the watcher of instructions.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::conversation::actions::Actions;
use crate::conversation::asks::ApprovalSettings;
use crate::memory;
use crate::memory::recall::common::CommonTerms;
use crate::provider::{Models, Provider};
use crate::services::Services;
use crate::tasks::heartbeat::HeartbeatControl;
use crate::tasks::schedule::Commands;
use crate::tools::ToolSet;
use crate::trust::instruction_watch::InstructionWatcher;
use crate::turn::draft_rate::OpenDrafts;
use crate::turn::personas::Personas;
use crate::turn::spending::Spending;
use crate::turn::tools_shown::ToolsShown;
use crate::types::origin::Origin;
use crate::types::persona::Persona;
use crate::types::session::{Finish, Session, Settings};

/// The services of turns.
pub struct TurnServices {
    pub services: Services,
    pub models: ModelChoice,
    pub config: TurnConfig,
    pub tools: ToolSet,
    pub actions: Actions,
    /// Reports changes of instructions to the owner.
    pub instruction_watcher: InstructionWatcher,
    pub drafts: OpenDrafts,
    pub last_error: LastError,
    pub tools_shown: ToolsShown,
    pub heartbeat: HeartbeatControl,
    pub spending: Spending,
    /// Common words, which automatic recall ignores.
    pub common_terms: CommonTerms,
}

impl TurnServices {
    /// Returns the way in which turns of a session end.
    pub(crate) fn finish_of(&self, session: &Session) -> Finish {
        session.persona.finish.unwrap_or(self.config.finish)
    }
}

/// The last failure of a turn, for `/status`. Forgotten at a restart.
#[derive(Clone, Default)]
// A mutex because turns are different tasks; it guards one value.
pub struct LastError(Arc<Mutex<Option<(Instant, String)>>>);

impl LastError {
    pub(crate) fn set(&self, error: &impl ToString) {
        let error = Some((Instant::now(), error.to_string()));
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = error;
    }

    /// Returns the time since the failure, and its text.
    pub(crate) fn get(&self) -> Option<(Duration, String)> {
        let error = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        error.as_ref().map(|(at, error)| (at.elapsed(), error.clone()))
    }
}

/// The models that answer.
#[derive(Clone)]
pub struct ModelChoice {
    /// The default provider, with its fallbacks.
    pub default: Arc<dyn Provider>,
    /// The provider that summarises conversations; usually the same.
    pub summariser: Arc<dyn Provider>,
    /// The models from which a conversation can choose.
    pub all: Models,
}

impl ModelChoice {
    /// Returns the provider for a session of this origin with these settings. For a background task, the provider that
    /// the config sets for its kind comes first. A persona may limit the choice.
    pub(crate) fn for_origin(
        &self,
        origin: &Origin,
        settings: &Settings,
        persona: &Persona,
    ) -> Arc<dyn Provider> {
        let of_task = origin.task().and_then(|task| self.all.for_task(task.kind));
        let chosen = persona.provider(of_task.or(settings.model.as_deref()));
        let chain = chosen.and_then(|name| self.all.chain(name));
        chain.unwrap_or_else(|| Arc::clone(&self.default))
    }

    /// Returns the provider that answers in a session.
    pub(crate) fn for_session(&self, session: &Session) -> Arc<dyn Provider> {
        self.for_origin(&session.origin, &session.settings, &session.persona)
    }
}

/// The config of turns.
#[derive(Clone, Debug)]
pub struct TurnConfig {
    /// The services for shell commands of jobs. None if jobs run none.
    pub commands: Option<Commands>,
    pub personas: Personas,
    /// The way in which a turn of a conversation ends, if its persona does not set it.
    pub finish: Finish,
    /// Maximum number of steps in a turn of a conversation.
    pub steps_max: usize,
    /// Maximum number of steps of a subagent or a job.
    pub subagent_steps_max: usize,
    /// The settings of approvals.
    pub asking: ApprovalSettings,
    /// The `[memory]` section.
    pub memory: memory::Config,
    /// Maximum time for which a turn waits for a model that cannot be reached. None if it does not wait.
    pub wait_for_model: Option<Duration>,
    /// The pause after which a private conversation goes on without its untrusted parts. None: it does not.
    pub clean_after: Option<Duration>,
}
