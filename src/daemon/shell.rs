//! The parts of a daemon that the shell's sandbox decides on: its state, and the tools.

use std::path::Path;
use std::sync::Arc;

use crate::config::Exposure;
use crate::sandbox::{self, SandboxLevel, SandboxState};
#[cfg(feature = "hardware")]
use crate::tools::hardware;
use crate::tools::{self, AnyTool};

/// Returns the tools that depend on the config and on the build.
pub(super) fn more_tools(
    web: &tools::web::Config,
    exec: &tools::shell::Config,
    shell: &SandboxState,
) -> anyhow::Result<Vec<Arc<dyn AnyTool>>> {
    let mut tools = tools::web::tools(web)?;
    tools.extend(tools::shell::tools(exec, shell));
    #[cfg(feature = "hardware")]
    tools.extend(hardware::tools_of_present(&hardware::Devices::default()));
    Ok(tools)
}

/// Tests the sandbox, unless commands could read what they must not. Logs its state.
pub(super) fn sandbox(
    config: &tools::shell::Config,
    workspace: &Path,
    exposed: Option<Exposure>,
) -> SandboxState {
    sandbox::sweep();
    sandbox::adopt_cgroup();
    let standing = match exposed {
        Some(Exposure { words: why, .. }) => SandboxState::Refused { why },
        None => tools::shell::standing_in(config, workspace),
    };
    match &standing {
        SandboxState::Off => {}
        SandboxState::Sandboxed { level: SandboxLevel::Required, .. } => {
            tracing::info!("{}", standing.words())
        }
        _ => tracing::warn!("{}", standing.words()),
    }
    standing
}
