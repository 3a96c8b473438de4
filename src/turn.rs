//! One turn: the prompt, the steps of the model, their calls, and the commits between them. Not here: the
//! choice of turns and their sessions; `agent` begins turns and takes the sessions back.

use std::time::Duration;

pub mod draft;
pub mod draft_rate;
pub mod end;
pub mod error;
pub(crate) mod facts;
pub(crate) mod frozen;
pub mod tools_shown;
pub mod spending;
pub mod personas;
pub mod services;
pub mod prompt;
pub mod quoted;
pub(crate) mod refused;
pub mod compaction;
pub mod loops;
pub mod background;
pub mod instructions;
pub mod commits;
pub mod invoked;
pub mod progress;
pub mod call_context;
pub mod proposed;
pub mod suspension;
pub mod detour;
pub mod calls;
pub mod job_commands;
pub mod notes;
pub mod extraction;
pub mod run;
pub(crate) mod snapshot;

/// Pause before work is tried again when the store fails.
pub(crate) const STORE_PAUSE: Duration = Duration::from_secs(2);
