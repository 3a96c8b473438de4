//! The tools for what is wired to the board, as far as a machine without a board can tell: who may, what
//! is refused, and what is said where there is nothing.

use std::fs;
use std::io;
use std::path::Path;

use peacrab::people::Role;
use peacrab::tools::hardware::{self, Devices, Family, fault, shown};
use peacrab::tools::{Caller, Reach, ToolContext, ToolError, ToolKind, ToolSet};
use peacrab::types::message::ChatKind;
use peacrab::types::session::Finish;
use rustix::io::Errno;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::tool_context::tool_context;

const TALK: Caller = Caller::Conversation(Finish::Answer);

/// A board's `/dev`, and an admin before it.
struct Board {
    tools: ToolSet,
    cx: ToolContext,
    folder: TempDir,
}

impl Board {
    fn new() -> Self {
        let (cx, folder) = tool_context(Role::Admin, ChatKind::Private);
        fs::create_dir(folder.path().join("dev")).unwrap();
        let tools = ToolSet::new(hardware::tools(&Devices::at(folder.path().join("dev"))));
        Self { tools, cx, folder }
    }

    /// Something of that name that is no device.
    fn has(&self, name: &str) {
        fs::write(self.folder.path().join("dev").join(name), "no device").unwrap();
    }

    async fn refused(&self, tool: &str, arguments: Value) -> String {
        let (tool, _) = self.tools.authorise(tool, self.cx.role).unwrap();
        match tool.call_json(&arguments.to_string(), &self.cx).await {
            Err(ToolError::TellModel(words)) => {
                words.replace(&self.folder.path().display().to_string(), "")
            }
            other => panic!("{other:?}"),
        }
    }
}

/// A right call of each tool.
fn calls() -> [(&'static str, Value); 6] {
    [
        ("gpio_read", json!({ "lines": [17] })),
        ("gpio_write", json!({ "line": 17, "on": true })),
        ("i2c_read", json!({ "bus": 1, "address": 72, "register": 0, "length": 2 })),
        ("i2c_write", json!({ "bus": 1, "address": 72, "bytes": [1, 2] })),
        ("spi_read", json!({ "bus": 0, "length": 3 })),
        ("spi_write", json!({ "bus": 0, "chip_select": 1, "mode": 3, "bytes": [255] })),
    ]
}

#[tokio::test]
async fn says_what_is_missing_and_what_there_is() {
    let board = Board::new();
    for (tool, arguments) in calls() {
        let words = board.refused(tool, arguments.clone()).await;
        assert!(words.starts_with("There is no /dev/"), "{words}");
        assert!(words.ends_with("There is no other of its kind."), "{words}");
    }
    board.has("i2c-20");
    board.has("i2c-3");
    let words = board.refused("i2c_read", calls()[2].1.clone()).await;
    assert!(words.ends_with("Interface Options). There are: i2c-20, i2c-3."), "{words}");
}

#[tokio::test]
async fn what_is_no_device_is_refused() {
    let board = Board::new();
    ["gpiochip0", "i2c-1", "spidev0.0", "spidev0.1"].iter().for_each(|name| board.has(name));
    for (tool, arguments) in calls() {
        let words = board.refused(tool, arguments).await;
        assert!(words.starts_with("/dev/") && words.ends_with('.'), "{words}");
        assert!(words.contains(" refuses that") || words.contains(" failed: "), "{words}");
    }
    assert!(board.refused("gpio_read", json!({})).await.starts_with("/dev/gpiochip0 "));
}

#[tokio::test]
async fn bad_arguments_are_answered_with_what_would_be_right() {
    let board = Board::new();
    for (tool, arguments, part) in [
        ("gpio_read", json!({ "lines": vec![1; 65] }), "At most 64 lines"),
        ("gpio_read", json!({ "chip": -1 }), "invalid value"),
        ("gpio_write", json!({ "line": 1 }), "`on` is missing"),
        (
            "gpio_write",
            json!({ "line": "../../etc/passwd", "on": true }),
            "`line` must be a whole number",
        ),
        (
            "i2c_read",
            json!({ "bus": 1, "address": 0, "length": 1 }),
            "`address` must be from 8 to 119",
        ),
        ("i2c_read", json!({ "bus": 1, "address": 120, "length": 1 }), "`address` must be from 8"),
        (
            "i2c_read",
            json!({ "bus": 1, "address": 72, "length": 0 }),
            "`length` must be from 1 to 256",
        ),
        ("i2c_read", json!({ "bus": 1, "address": 72, "length": 257 }), "`length` must be from 1"),
        (
            "i2c_read",
            json!({ "bus": 1, "address": 72, "register": 256, "length": 1 }),
            "invalid value",
        ),
        ("i2c_write", json!({ "bus": 1, "address": 72, "bytes": [] }), "`bytes` is empty"),
        ("i2c_write", json!({ "bus": 1, "address": 72, "bytes": [256] }), "invalid value"),
        (
            "i2c_write",
            json!({ "bus": 1, "address": 72, "bytes": vec![0; 257] }),
            "At most 256 bytes",
        ),
        ("spi_read", json!({ "bus": 0, "length": 1, "mode": 4 }), "`mode` must be from 0 to 3"),
        ("spi_write", json!({ "bus": 0, "bytes": [1], "hz": 0 }), "there is no `hz`"),
        ("spi_write", json!({ "bus": 0, "bytes": [] }), "`bytes` is empty"),
    ] {
        let words = board.refused(tool, arguments).await;
        assert!(words.contains(part), "{tool}: {words}");
    }
}

#[test]
fn tools_are_offered_for_the_kinds_of_devices_that_exist() {
    let board = Board::new();
    let devices = Devices::at(board.folder.path().join("dev"));
    let offered = || {
        let tools = ToolSet::new(hardware::tools_of_present(&devices));
        let schemas = tools.offered(TALK, Role::Admin);
        schemas.iter().map(|schema| schema.name.clone()).collect::<Vec<_>>()
    };
    assert!(offered().is_empty());
    board.has("i2c-1");
    assert_eq!(offered(), ["i2c_read", "i2c_write"]);
    board.has("gpiochip0");
    assert_eq!(offered(), ["gpio_read", "gpio_write", "i2c_read", "i2c_write"]);
}

#[test]
fn is_for_admins_and_acting_is_told_from_looking() {
    let board = Board::new();
    assert!(board.tools.offered(TALK, Role::User).is_empty());
    assert_eq!(board.tools.offered(TALK, Role::Admin).len(), 6);
    for (tool, arguments) in calls() {
        let denied = board.tools.authorise(tool, Role::User).err().unwrap();
        assert!(denied.contains("needs the role admin"), "{denied}");
        let (found, terms) = board.tools.authorise(tool, Role::Admin).unwrap();
        let call = found.call_terms(&arguments.to_string(), &board.cx.address);
        let (kind, reach) = (terms.kind, call.reach);
        match tool {
            "gpio_write" => {
                assert_eq!((kind, reach), (ToolKind::Acts { idempotent: true }, Reach::Outside));
            }
            "i2c_write" | "spi_write" => {
                assert_eq!((kind, reach), (ToolKind::Acts { idempotent: false }, Reach::Outside));
            }
            _ => assert_eq!((kind, reach), (ToolKind::Reads, Reach::Here)),
        }
    }
}

#[test]
fn takes_little_room_in_the_prompt() {
    for tool in Board::new().tools.offered(TALK, Role::Owner) {
        let shown = json!({"name": tool.name, "description": tool.description, "parameters": tool.parameters});
        let length = shown.to_string().chars().count();
        assert!(length <= 400, "{} takes {length} characters", tool.name);
    }
}

#[test]
fn failures_are_told_with_what_to_do() {
    let told = |errno: Errno| {
        let error = io::Error::from_raw_os_error(errno.raw_os_error());
        fault(Family::I2c, Path::new("/dev/i2c-1"), &error)
    };
    for (errno, part) in [
        (Errno::ACCESS, "must be in the group `i2c`"),
        (Errno::PERM, "must be in the group `i2c`"),
        (Errno::NOENT, "There is no /dev/i2c-1. Its bus or driver may be switched off"),
        (Errno::BUSY, "/dev/i2c-1 is in use there by a driver"),
        (Errno::REMOTEIO, "Nothing answers there on /dev/i2c-1"),
        (Errno::NXIO, "Nothing answers there on /dev/i2c-1"),
        (Errno::TIMEDOUT, "Nothing answers there on /dev/i2c-1"),
        (Errno::NOTTY, "it is no such device"),
        (Errno::IO, "/dev/i2c-1 failed: "),
    ] {
        assert!(told(errno).contains(part), "{}", told(errno));
    }
}

#[test]
fn bytes_read_as_in_data_sheets() {
    assert_eq!(shown(&[0, 10, 255]), "hex 00 0a ff\ndecimal 0 10 255");
}
