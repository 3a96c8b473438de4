//! The state of the shell's sandbox, and the tools that depend on it.

use std::path::Path;
use std::sync::Arc;

use crate::config::ExposureWarning;
use crate::sandbox::{self, SandboxLevel, SandboxState};
#[cfg(feature = "hardware")]
use crate::tools::hardware;
use crate::tools::{self, AnyTool};

/// Returns the tools that depend on the config and on the build.
pub(super) fn config_tools(
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

/// Tests the sandbox, and logs and returns its state. Refuses it if commands could read protected files.
pub(super) fn sandbox(
    config: &tools::shell::Config,
    workspace: &Path,
    exposed: Option<ExposureWarning>,
) -> SandboxState {
    sandbox::sweep();
    sandbox::adopt_cgroup();
    let state = match exposed {
        Some(ExposureWarning { words: why, .. }) => SandboxState::Refused { why },
        None => tools::shell::check_sandbox_in(config, workspace),
    };
    match &state {
        SandboxState::Off => {}
        SandboxState::Sandboxed { level: SandboxLevel::Required, .. } => {
            tracing::info!("{}", state.describe())
        }
        _ => tracing::warn!("{}", state.describe()),
    }
    state
}
