//! Single lines of the board. A line that was set is held as long as the program runs, because the kernel
//! guarantees nothing for a line that nobody holds.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use gpiocdev::chip::Chip;
use gpiocdev::line::Value;
use gpiocdev::{Error, Request};
use schemars::JsonSchema;
use serde::Deserialize;

use super::devices::{Devices, Family, fault, run_blocking};
use crate::people::Role;
use crate::tools::{Reach, Tool, ToolContext, ToolError, ToolKind, ToolOutput, ToolSpec, cut};
use crate::types::message::Address;

/// Maximum number of lines of one call: more than any board needs at once.
const LINES_MAX: usize = 64;

const CONSUMER: &str = "peacrab";

/// Lines that were set, by chip and number. A mutex, because two tools share it. Locked for one ioctl at
/// a time.
#[derive(Default)]
pub(super) struct HeldLines(Mutex<BTreeMap<LineId, Request>>);

/// A line of a chip.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct LineId {
    chip: u32,
    line: u32,
}

pub(super) struct GpioRead {
    pub(super) devices: Devices,
    pub(super) held: Arc<HeldLines>,
}

pub(super) struct GpioWrite {
    pub(super) devices: Devices,
    pub(super) held: Arc<HeldLines>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GpioReadArgs {
    #[serde(default)]
    chip: u32,
    /// Their numbers; empty to list the chip's lines.
    #[serde(default)]
    lines: Vec<u32>,
}

#[async_trait]
impl Tool for GpioRead {
    type Args = GpioReadArgs;
    const SPEC: ToolSpec = ToolSpec {
        name: "gpio_read",
        description: "Read GPIO lines of this board, or list them.",
        role: Role::Admin,
        kind: ToolKind::Reads,
        retries: false,
    };

    async fn call(&self, args: GpioReadArgs, _: &ToolContext) -> Result<ToolOutput, ToolError> {
        if args.lines.len() > LINES_MAX {
            return Err(ToolError::TellModel(format!("At most {LINES_MAX} lines at once.")));
        }
        let (devices, held) = (self.devices.clone(), Arc::clone(&self.held));
        run_blocking(move || {
            let path = devices.find(Family::Gpio, &name(args.chip))?;
            if args.lines.is_empty() {
                return list(&path);
            }
            let read = |line: &u32| {
                let id = LineId { chip: args.chip, line: *line };
                Ok(format!("line {line}: {}", level(held.read(&path, id)?)))
            };
            args.lines
                .iter()
                .map(read)
                .collect::<Result<Vec<_>, String>>()
                .map(|lines| lines.join("\n"))
        })
        .await
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GpioWriteArgs {
    #[serde(default)]
    chip: u32,
    line: u32,
    on: bool,
}

#[async_trait]
impl Tool for GpioWrite {
    type Args = GpioWriteArgs;
    const SPEC: ToolSpec = ToolSpec {
        name: "gpio_write",
        description: "Make a GPIO line of this board an output, and switch it on or off.",
        role: Role::Admin,
        // Switching a line on again changes nothing.
        kind: ToolKind::Acts { idempotent: true },
        retries: false,
    };

    fn reach(_: &GpioWriteArgs, _: &Address) -> Reach {
        Reach::Outside
    }

    async fn call(&self, args: GpioWriteArgs, _: &ToolContext) -> Result<ToolOutput, ToolError> {
        let (devices, held) = (self.devices.clone(), Arc::clone(&self.held));
        run_blocking(move || {
            let GpioWriteArgs { chip, line, on } = args;
            let path = devices.find(Family::Gpio, &name(chip))?;
            let value = if on { Value::Active } else { Value::Inactive };
            held.write(&path, LineId { chip, line }, value)?;
            Ok(format!("Line {line} of chip {chip} is {} now.", level(value)))
        })
        .await
    }
}

impl HeldLines {
    /// Reads a line. One that we do not hold keeps its direction.
    fn read(&self, path: &Path, id: LineId) -> Result<Value, String> {
        let held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let read = match held.get(&id) {
            Some(request) => request.value(id.line),
            None => Request::builder()
                .on_chip(path)
                .with_consumer(CONSUMER)
                .with_line(id.line)
                .as_is()
                .request()
                .and_then(|request| request.value(id.line)),
        };
        read.map_err(|error| explain(path, &error))
    }

    fn write(&self, path: &Path, id: LineId, value: Value) -> Result<(), String> {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(request) = held.get(&id) {
            return request.set_value(id.line, value).map_err(|error| explain(path, &error));
        }
        let request = Request::builder()
            .on_chip(path)
            .with_consumer(CONSUMER)
            .with_line(id.line)
            .as_output(value)
            .request()
            .map_err(|error| explain(path, &error))?;
        held.insert(id, request);
        Ok(())
    }
}

fn list(path: &Path) -> Result<String, String> {
    let chip = Chip::from_path(path).map_err(|error| explain(path, &error))?;
    let infos = chip.line_info_iter().map_err(|error| explain(path, &error))?;
    let lines = infos.flatten().map(|info| {
        let user = if info.used { format!(", used by {}", info.consumer) } else { String::new() };
        let direction = format!("{:?}", info.direction).to_lowercase();
        format!("{} {}: {direction}{user}\n", info.offset, info.name)
    });
    Ok(cut(lines.collect::<String>().trim_end(), "Read single lines by their numbers."))
}

fn name(chip: u32) -> String {
    format!("{}{chip}", Family::Gpio.prefix())
}

fn level(value: Value) -> &'static str {
    match value {
        Value::Active => "on",
        Value::Inactive => "off",
    }
}

fn explain(path: &Path, error: &Error) -> String {
    let errno = match error {
        Error::Os(errno) | Error::Uapi(_, gpiocdev_uapi::Error::Os(errno)) => errno.0,
        other => return format!("{} failed: {other}.", path.display()),
    };
    fault(Family::Gpio, path, &io::Error::from_raw_os_error(errno))
}
