//! Servers that others wrote, where the environment says how to start them: `PEACRAB_MCP_SERVERS`
//! is an `mcpServers` file. Without it there is nothing to try.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use peacrab::config::{self, Environment};
use peacrab::people::Role;
use peacrab::tools::mcp::{Config, Via};
use serde_json::json;

use super::{call, mcp_server};
use crate::support::fake_channel::FakeChannel;
use crate::support::rig::{Rig, RigOptions};

fn servers(file: &Path) -> BTreeMap<String, Config> {
    let home = tempfile::tempdir().unwrap();
    let text = format!("[agent]\nmcp_file = {:?}\n", file.display().to_string());
    fs::write(home.path().join("config.toml"), text).unwrap();
    let config = config::load(home.path(), None, &Environment::of_process()).unwrap();
    config
        .mcp
        .into_iter()
        .map(|(name, mut server)| {
            if let Via::Program(program) = &mut server.via {
                // These tests are no program that begins a sandbox.
                program.sandbox.program = env!("CARGO_BIN_EXE_peacrab").into();
            }
            (name, Config { role: Role::Guest, trusted: true, ..server })
        })
        .collect()
}

#[tokio::test]
async fn servers_that_others_wrote_lend_their_tools() {
    let environment = Environment::of_process();
    let Some(file) = environment.raw("PEACRAB_MCP_SERVERS") else { return };
    let mcp = servers(Path::new(file));
    let names: Vec<_> = mcp.keys().cloned().collect();
    let mut rig = Rig::with(FakeChannel::new(), RigOptions { mcp, ..RigOptions::default() }).await;
    for name in &names {
        rig.wait_until(|rig| mcp_server(rig, name).up).await;
        assert!(mcp_server(&rig, name).tools > 0);
    }
    let tried = [
        ("time", "mcp_time_get_current_time", json!({ "timezone": "Europe/Kyiv" }), "Europe/Kyiv"),
        ("everything", "mcp_everything_echo", json!({ "message": "hello" }), "hello"),
        ("files", "mcp_files_list_allowed_directories", json!({}), "Allowed directories"),
    ];
    for (name, tool, arguments, wanted) in tried {
        if names.iter().any(|other| other == name) {
            let got = call(&mut rig, tool, arguments).await;
            assert!(got.contains(wanted), "{tool}: {got}");
        }
    }
    rig.finish().await;
}
