//! Who lends tools: in the config, and in a file that other programs have too.

use std::time::Duration;

use peacrab::sandbox::SandboxLevel;
use peacrab::tools::mcp::{VariableValue, Via, WorkspaceAccess};

use super::*;

const SERVERS: &str = r#"
[agent]
mcp_file = "mcp.json"

[mcp.time]
command = "uvx"
args = ["mcp-server-time", ""]
env = { CITY = "Kyiv", EMPTY = "", WEATHER_KEY = "geheimnis", OTHER = { env = "OTHER" } }
cwd = "there"
network = true
paths = ["/opt/time"]
workspace = "read"
allow = ["get_current_time"]
reads = ["get_current_time"]
timeout_s = 7
role = "guest"

[mcp.far]
url = "https://mcp.example/mcp/"
headers = { Authorization = "Bearer verborgen" }
"#;

const FILE: &str = r#"{
  "other": 1,
  "mcpServers": {
    "files": { "type": "stdio", "command": "npx", "args": ["-y", "${PACKAGE:-files}", "${HOME}/x"],
               "env": { "API_KEY": "${OTHER}" }, "icon": "x", "network": true, "paths": ["/srv/x"] },
    "web": { "type": "http", "url": "http://127.0.0.1:8080/mcp", "headers": { "X-Key": "${OTHER}" } },
    "off": { "command": "no", "disabled": true }
  }
}"#;

fn env() -> Environment {
    let variables = [("OTHER", "anderes-geheimnis"), ("HOME", "/home/crab"), ("PATH", "/bin")];
    Environment::from_iter(variables)
}

fn with_file(config: &str, file: &str) -> (TempDir, Result<Config, String>) {
    let home = home(config);
    fs::write(home.path().join("mcp.json"), file).unwrap();
    let config = load_in(&home, &env());
    (home, config)
}

#[test]
fn reads_servers_of_both_kinds_and_files() {
    let (home, config) = with_file(SERVERS, FILE);
    let config = config.unwrap();
    assert_eq!(config.mcp.keys().collect::<Vec<_>>(), ["far", "files", "time", "web"]);
    let time = &config.mcp["time"];
    assert_eq!((time.timeout, time.role), (Duration::from_secs(7), Role::Guest));
    assert_eq!(time.allow, Some(vec!["get_current_time".to_owned()]));
    assert_eq!(time.reads, ["get_current_time"]);
    let Via::Program(program) = &time.via else { panic!("{time:?}") };
    assert_eq!((program.command.as_str(), program.args.len()), ("uvx", 2));
    assert_eq!(program.cwd, Some(home.path().join("there")));
    let sandbox = &program.sandbox;
    assert_eq!((sandbox.level, sandbox.network), (SandboxLevel::Required, true));
    assert_eq!(
        (&*sandbox.read, program.workspace),
        (&["/opt/time".into()][..], WorkspaceAccess::Read)
    );
    assert_eq!(sandbox.bounds, config.exec.sandbox.bounds);
    assert_eq!(program.env["CITY"], VariableValue::Plain("Kyiv".to_owned()));
    assert_eq!(program.env["OTHER"].reveal(), "anderes-geheimnis");
    let inherited: Vec<_> = program.inherited.iter().map(|(name, _)| *name).collect();
    assert_eq!(inherited, ["PATH", "HOME"]);
    let Via::Program(files) = &config.mcp["files"].via else { panic!() };
    assert_eq!(files.args, ["-y", "files", "/home/crab/x"]);
    assert_eq!((files.sandbox.level, files.sandbox.network), (SandboxLevel::Required, true));
    assert_eq!(files.sandbox.read, [std::path::PathBuf::from("/srv/x")]);
    assert_eq!(files.workspace, WorkspaceAccess::Off);
    assert_eq!((config.mcp["files"].role, &config.mcp["files"].allow), (Role::Admin, &None));

    let secrets: Vec<_> = config.secrets().map(Secret::reveal).collect();
    for secret in ["geheimnis", "Bearer verborgen", "anderes-geheimnis"] {
        assert!(secrets.contains(&secret), "{secret}");
        assert!(!format!("{config:?}{}", config.describe()).contains(secret), "{secret}");
    }
    let masked =
        peacrab::secret::Redactor::new(config.secrets()).redact("x verborgen y").into_owned();
    assert!(!masked.contains("verborgen"), "{masked}");
}

#[test]
fn describes_who_lends_tools() {
    let (_home, config) = with_file(SERVERS, FILE);
    let described = config.unwrap().describe();
    let servers = described.split("MCP servers\n").nth(1).unwrap().split("limits").next().unwrap();
    insta::assert_snapshot!(servers, @r"
      far: https://mcp.example/mcp, tools all, role admin, 60 s a call
      files: program npx, sandbox required, network, tools all, role admin, 60 s a call
      time: program uvx, sandbox required, network, workspace read, tools get_current_time, reads get_current_time, role guest, 7 s a call
      web: http://127.0.0.1:8080/mcp, tools all, role admin, 60 s a call
    ");
}

#[test]
fn says_all_that_is_wrong_with_servers() {
    let config = r#"
[agent]
mcp_file = "mcp.json"
[mcp.none]
role = "king"
[mcp.both]
command = "a"
url = "https://a.example"
[mcp.plain]
url = "http://mcp.example/mcp"
timeout_s = 1000
[mcp.mixed]
command = "a"
headers = { A = "b" }
[mcp.files]
command = "a"
[mcp.reading]
command = "a"
allow = ["one"]
reads = ["one", "two"]
[mcp.loose]
command = "a"
paths = ["here"]
workspace = "all"
[mcp.remote]
url = "https://a.example"
network = true
"#;
    let file = r#"{ "mcpServers": { "files": { "command": "x" }, "old": { "type": "sse", "url": "https://a.example" },
        "a b": { "command": "x" }, "lost": { "command": "${NOWHERE}" }, "idle": {} } }"#;
    insta::assert_snapshot!(with_file(config, file).1.unwrap_err(), @r"
    mcp.json: cannot use `a b`: its name must be 1 to 32 of a-z, A-Z, 0-9, - and _
    mcp.json: cannot use `idle`: it needs a `command` or a `url`
    mcp.json: cannot use `lost`: it needs the environment variable NOWHERE
    mcp.json: cannot use `old`: the old transport `sse` is not supported; most servers offer `http` too
    config.toml:3:12: `mcp_file` in [agent] has a server `files`, which this file defines too: [mcp.files]
    config.toml:4:6: [mcp.none] needs a `command` or a `url`
    config.toml:5:8: `role` in [mcp.none] must be one of guest, user, admin, owner
    config.toml:6:6: [mcp.both] has a `command` and a `url`; keep one
    config.toml:10:7: `url` in [mcp.plain] must begin with https://; http:// is for this machine only (127.0.0.1)
    config.toml:11:13: `timeout_s` in [mcp.plain] must be from 1 to 100
    config.toml:14:1: `headers` in [mcp.mixed] has no effect for an MCP server that is started by `command`: remove it
    config.toml:20:17: an entry of `reads` in [mcp.reading] names a tool that is not in `allow`
    config.toml:23:10: an entry of `paths` in [mcp.loose] must be an absolute path without `..`, and not the whole machine
    config.toml:24:13: `workspace` in [mcp.loose] must be one of off, read, write
    config.toml:27:1: `network` in [mcp.remote] has no effect for an MCP server at a `url`: remove it
    ");
    let broken = r#"{ "mcpServers": "geheimnis" }"#;
    let broken = with_file("[agent]\nmcp_file = 'mcp.json'\n", broken).1.unwrap_err();
    assert!(broken.starts_with("mcp.json: is not a valid mcpServers file: see line 1"), "{broken}");
    assert!(!broken.contains("geheimnis"), "{broken}");
    let absent = load("[agent]\nmcp_file = 'mcp.json'\n", &env());
    insta::assert_snapshot!(absent.unwrap_err(), @"mcp.json: there is no such file");
}
