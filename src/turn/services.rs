//! What turns need beyond the shared services: models, tools, limits, and what watches over changes.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::conversation::actions::Actions;
use crate::conversation::asks::Asking;
use crate::provider::{Models, Provider};
use crate::services::Services;
use crate::tasks::heartbeat::HeartbeatControl;
use crate::tasks::schedule::Commands;
use crate::tools::ToolSet;
use crate::trust::instruction_watch::Oversight;
use crate::turn::draft_rate::DraftsOut;
use crate::types::session::{Finish, Settings};

/// The services of turns.
pub struct TurnServices {
    pub services: Services,
    pub models: ModelChoice,
    pub config: TurnConfig,
    pub tools: ToolSet,
    pub actions: Actions,
    /// Tells the owner which instructions were changed.
    pub oversight: Oversight,
    pub drafts: DraftsOut,
    pub last_error: LastError,
    pub heartbeat: HeartbeatControl,
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

    /// How long ago it was, and what.
    pub(crate) fn get(&self) -> Option<(Duration, String)> {
        let error = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        error.as_ref().map(|(at, error)| (at.elapsed(), error.clone()))
    }
}

/// The models that answer.
#[derive(Clone)]
pub struct ModelChoice {
    /// The provider that answers where nobody chose another, with its fallbacks.
    pub default: Arc<dyn Provider>,
    /// The provider that summarises conversations; usually the same.
    pub summariser: Arc<dyn Provider>,
    /// The models from which a conversation can choose.
    pub all: Models,
}

impl ModelChoice {
    /// Returns the provider that answers in a conversation with these settings.
    pub(crate) fn for_settings(&self, settings: &Settings) -> Arc<dyn Provider> {
        let chosen = settings.model.as_deref().and_then(|name| self.all.chain(name));
        chosen.unwrap_or_else(|| Arc::clone(&self.default))
    }
}

/// What the config says about turns.
#[derive(Clone, Debug)]
pub struct TurnConfig {
    /// How jobs run commands; none where they run none.
    pub commands: Option<Commands>,
    /// How a turn of a conversation ends.
    pub finish: Finish,
    /// Steps of a turn of a conversation.
    pub steps_max: usize,
    /// Steps of a subagent or a job.
    pub subagent_steps_max: usize,
    /// What people are asked before it is done.
    pub asking: Asking,
    /// How long a turn waits for a model that cannot be reached; none: not at all.
    pub wait_for_model: Option<Duration>,
}
