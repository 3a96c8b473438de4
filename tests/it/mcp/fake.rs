//! A server of tools that misbehaves as it is told: this test binary again, which speaks JSON-RPC
//! lines by hand. What the test harness itself prints is the junk that it has to be read through.

use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::time::Duration;

use peacrab::sandbox::{Sandbox, SandboxLevel};
use peacrab::tools::mcp::{Program, VariableValue, Via, WorkspaceAccess};
use serde_json::{Value, json};

use crate::sandbox::sandbox;

/// The variable that says how to behave.
const MANNER: &str = "PEACRAB_TEST_MCP";

/// A program that behaves so, with further variables.
pub(super) fn program(manner: &str, env: &[(&str, &str)]) -> Via {
    let all = env.iter().copied().chain([(MANNER, manner)]);
    let env: BTreeMap<_, _> = all
        .map(|(name, value)| (name.to_owned(), VariableValue::Plain(value.to_owned())))
        .collect();
    let command = std::env::current_exe().unwrap().display().to_string();
    let args = ["--exact", "mcp::fake::serve", "--nocapture", "--test-threads=1"];
    let args = args.map(str::to_owned).to_vec();
    let inherited = Vec::new();
    Via::Program(Box::new(Program { command, args, env, inherited, ..bare() }))
}

/// No program, without a sandbox.
pub(super) fn bare() -> Program {
    Program {
        command: String::new(),
        args: Vec::new(),
        env: BTreeMap::new(),
        inherited: Vec::new(),
        cwd: None,
        sandbox: Sandbox { level: SandboxLevel::Off, ..sandbox() },
        workspace: WorkspaceAccess::Off,
        refused: None,
    }
}

/// As [`program`], as the config has it by default.
pub(super) fn sandboxed(manner: &str) -> Program {
    let Via::Program(program) = program(manner, &[]) else { unreachable!("it is one") };
    Program { sandbox: sandbox(), ..*program }
}

pub(super) fn text(text: impl Into<String>) -> Value {
    json!({ "content": [{ "type": "text", "text": text.into() }] })
}

fn tool(name: &str) -> Value {
    let schema = json!({ "type": "object", "properties": { "text": { "type": "string" } } });
    json!({ "name": name, "description": format!("The tool {name}."), "inputSchema": schema })
}

/// What a server offers that behaves so.
pub(super) fn tools(manner: &str) -> Vec<Value> {
    match manner {
        "clashing" => vec![tool("get-it"), tool("get.it"), tool("get-it")],
        "many" => (0..30).map(|at| tool(&format!("tool-{at}"))).collect(),
        "lying" => vec![
            json!({ "name": "array", "inputSchema": { "type": "array" } }),
            json!({ "name": "huge", "inputSchema": { "type": "object", "x": "y".repeat(20_000) } }),
            json!({ "name": "wordy", "description": "w".repeat(5000),
                    "inputSchema": { "type": "object" } }),
        ],
        "broken" => vec![
            json!({ "name": "no-schema" }),
            json!({ "name": "text", "inputSchema": "{}" }),
            tool("echo"),
            json!({ "name": 7, "inputSchema": { "type": "object" } }),
            json!({ "name": "hints", "inputSchema": { "type": "object" }, "annotations": [] }),
            json!("tool"),
            tool("pid"),
        ],
        "curious" => {
            let names = ["echo", "read", "write", "connect", "spawn", "die", "env"];
            names.into_iter().map(tool).collect()
        }
        "other" => {
            let mut echo = tool("echo");
            echo["description"] = "Says it again.".into();
            vec![echo, tool("change")]
        }
        _ => {
            let mut look = tool("look");
            look["annotations"] = json!({ "readOnlyHint": true });
            let names = ["echo", "env", "die", "hang", "huge", "picture", "fail", "change", "pid"];
            names.into_iter().map(tool).chain([look]).collect()
        }
    }
}

/// The answer to a request, where nothing goes wrong.
pub(super) fn answer(request: &Value, manner: &str) -> Value {
    let result = match request["method"].as_str().unwrap() {
        "initialize" => json!({
            "protocolVersion": request["params"]["protocolVersion"],
            "capabilities": { "tools": { "listChanged": true } },
            "serverInfo": { "name": "fake", "version": "1" },
        }),
        "tools/list" => json!({ "tools": tools(manner) }),
        "tools/call" => match request["params"]["name"].as_str().unwrap() {
            "echo" | "look" | "tool-7" => {
                text(request["params"]["arguments"]["text"].as_str().unwrap_or("nothing"))
            }
            "huge" => text("x".repeat(10_000_000)),
            "picture" => json!({ "content": [
                { "type": "image", "data": "AAAA".repeat(1000), "mimeType": "image/png" },
                { "type": "resource", "resource": { "uri": "file:///a", "text": "words" } },
                { "type": "resource_link", "uri": "file:///b", "name": "b" },
            ]}),
            "fail" => {
                json!({ "content": [{ "type": "text", "text": "no such city" }], "isError": true })
            }
            "pid" => text(std::process::id().to_string()),
            other => text(other),
        },
        other => {
            let error = json!({ "code": -32601, "message": other });
            return json!({ "jsonrpc": "2.0", "id": request["id"], "error": error });
        }
    };
    json!({ "jsonrpc": "2.0", "id": request["id"], "result": result })
}

fn say(message: &Value) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{message}").unwrap();
    out.flush().unwrap();
}

/// The child's body; does nothing where it was not asked for.
#[test]
fn serve() {
    #[expect(clippy::disallowed_methods, reason = "how a child of this very binary is told")]
    let Ok(manner) = std::env::var(MANNER) else { return };
    if manner == "dead" {
        eprintln_last("cannot find the module");
        std::process::exit(1);
    }
    if manner == "stubborn" {
        ignore_sigterm();
    }
    // The harness has begun a line.
    writeln!(std::io::stdout()).unwrap();
    let mut tools = tools(&manner);
    for line in std::io::stdin().lock().lines() {
        let request: Value = serde_json::from_str(&line.unwrap()).unwrap();
        let method = request["method"].as_str().unwrap_or_default();
        let called = request["params"]["name"].as_str().unwrap_or_default();
        if request["id"].is_null() {
            continue;
        }
        match (manner.as_str(), method, called) {
            ("mute", "initialize", _) | ("listless", "tools/list", _) | (_, _, "hang") => {
                std::thread::sleep(Duration::from_secs(60));
            }
            ("liar", ..) => say(&json!({ "jsonrpc": "2.0", "id": request["id"], "result": 7 })),
            ("junk", "tools/list", _) => {
                let mut out = std::io::stdout().lock();
                for junk in ["Welcome!", "{", "[]", "{\"jsonrpc\":\"2.0\"}", "null", "\u{1}\u{2}"] {
                    writeln!(out, "{junk}").unwrap();
                }
                out.write_all(b"\xff\xfe\n").unwrap();
                drop(out);
                say(&answer(&request, &manner));
            }
            ("curious", "tools/call", "read" | "write" | "connect" | "spawn") => {
                let result = text(try_it(called, &request["params"]["arguments"]["text"]));
                say(&json!({ "jsonrpc": "2.0", "id": request["id"], "result": result }));
            }
            (_, _, "die") => {
                eprintln_last("I die");
                std::process::exit(3);
            }
            (_, _, "env") => {
                let mut names: Vec<_> =
                    std::env::vars().map(|(name, value)| format!("{name}={value}")).collect();
                names.sort();
                let result = text(names.join("\n"));
                say(&json!({ "jsonrpc": "2.0", "id": request["id"], "result": result }));
            }
            (_, _, "change") => {
                match request["params"]["arguments"]["text"].as_str() {
                    None => tools.push(tool("brand-new")),
                    // Of the tool `echo`.
                    Some(text) => tools[0]["description"] = text.into(),
                }
                say(&json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" }));
                say(&answer(&request, &manner));
            }
            (_, "tools/list", _) => {
                let result = json!({ "tools": tools });
                say(&json!({ "jsonrpc": "2.0", "id": request["id"], "result": result }));
                let changed = "notifications/tools/list_changed";
                if manner == "flood" {
                    loop {
                        say(&json!({ "jsonrpc": "2.0", "method": changed }));
                    }
                }
            }
            _ => say(&answer(&request, &manner)),
        }
    }
    if manner == "stubborn" {
        std::thread::sleep(Duration::from_secs(60));
    }
    std::process::exit(0);
}

/// Does something to a file, a port or the processes; gives what came of it.
fn try_it(act: &str, with: &Value) -> String {
    let with = with.as_str().unwrap_or_default();
    let done = match act {
        "read" => std::fs::read_to_string(with),
        "write" => std::fs::write(with, "by the server").map(|()| "written".to_owned()),
        "connect" => std::net::TcpStream::connect(with).map(|_| "connected".to_owned()),
        _ => spawn(with).map(|()| "spawned".to_owned()),
    };
    done.unwrap_or_else(|error| format!("failed: {error}"))
}

/// Starts a process that nobody waits for, in a session of its own, known by its number of seconds.
#[expect(clippy::disallowed_methods, reason = "a server may start what it likes")]
fn spawn(seconds: &str) -> std::io::Result<()> {
    let mut command = std::process::Command::new("setsid");
    command.args(["-f", "sleep", seconds]).stdin(std::process::Stdio::null());
    command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    command.spawn()?.wait().map(drop)
}

fn eprintln_last(words: &str) {
    let mut out = std::io::stderr();
    out.write_all(format!("some noise\n{words}\n").as_bytes()).unwrap();
}

/// As servers do that mean to tidy up first.
fn ignore_sigterm() {
    std::thread::spawn(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let kind = tokio::signal::unix::SignalKind::terminate();
            let mut signals = tokio::signal::unix::signal(kind).unwrap();
            while signals.recv().await.is_some() {}
        });
    });
}
