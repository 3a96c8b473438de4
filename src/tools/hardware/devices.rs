//! The devices of a board: finds them, and explains why one cannot be used.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use tokio_util::task::AbortOnDropHandle;

use crate::tools::{ToolError, ToolOutput};

/// Maximum number of bytes of one read or write: it fits on a screen, and is below the limit of any
/// driver.
const BYTES_MAX: usize = 256;

/// The folder of the devices.
#[derive(Clone, Debug)]
pub struct Devices(PathBuf);

impl Default for Devices {
    /// The devices of this machine.
    fn default() -> Self {
        Self::at("/dev")
    }
}

/// A kind of device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    Gpio,
    I2c,
    Spi,
}

impl Family {
    pub(super) const ALL: [Self; 3] = [Self::Gpio, Self::I2c, Self::Spi];

    /// Returns the prefix of the device names.
    pub(super) fn prefix(self) -> &'static str {
        match self {
            Self::Gpio => "gpiochip",
            Self::I2c => "i2c-",
            Self::Spi => "spidev",
        }
    }

    /// Returns the system group that may use the devices, on most systems.
    fn group(self) -> &'static str {
        match self {
            Self::Gpio => "gpio",
            Self::I2c => "i2c",
            Self::Spi => "spi",
        }
    }
}

impl Devices {
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self(folder.into())
    }

    /// Returns the path of a device that can be opened, or an explanation for the model.
    pub(super) fn find(&self, family: Family, name: &str) -> Result<PathBuf, String> {
        let path = self.0.join(name);
        match OpenOptions::new().read(true).write(true).open(&path) {
            Ok(_) => Ok(path),
            Err(error) => {
                let existing = if error.kind() == io::ErrorKind::NotFound {
                    self.describe_existing(family)
                } else {
                    String::new()
                };
                Err(fault(family, &path, &error) + &existing)
            }
        }
    }

    /// Returns the names of all devices of a kind, sorted.
    pub(super) fn names(&self, family: Family) -> Vec<String> {
        let names = fs::read_dir(&self.0).into_iter().flatten().flatten();
        let names = names.filter_map(|entry| entry.file_name().into_string().ok());
        let mut names: Vec<_> = names.filter(|name| name.starts_with(family.prefix())).collect();
        names.sort();
        names
    }

    fn describe_existing(&self, family: Family) -> String {
        let names = self.names(family);
        match names.is_empty() {
            true => " There is no other of its kind.".to_owned(),
            false => format!(" There are: {}.", names.join(", ")),
        }
    }
}

/// Describes a failed call to a device, with a remedy for people.
pub fn fault(family: Family, path: &Path, error: &io::Error) -> String {
    let path = path.display();
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    match (error.kind(), errno) {
        (io::ErrorKind::NotFound, _) => format!(
            "There is no {path}. Its bus or driver may be switched off on this machine (on a Raspberry Pi: \
             raspi-config, Interface Options)."
        ),
        (io::ErrorKind::PermissionDenied, _) => format!(
            "I may not use {path}: the account that I run as must be in the group `{}`, or its like here.",
            family.group()
        ),
        (_, Some(Errno::BUSY)) => {
            format!("{path} is in use there by a driver or another program.")
        }
        (_, Some(Errno::NXIO | Errno::REMOTEIO | Errno::TIMEDOUT | Errno::NODEV)) => {
            format!("Nothing answers there on {path}; look at the wiring and the address.")
        }
        (_, Some(Errno::NOTTY | Errno::INVAL)) => {
            format!(
                "{path} refuses that: it is no such device, or has no such line, mode or speed."
            )
        }
        _ => format!("{path} failed: {error}."),
    }
}

/// Runs device I/O, which blocks, on another thread.
pub(super) async fn run_blocking(
    work: impl FnOnce() -> Result<String, String> + Send + 'static,
) -> Result<ToolOutput, ToolError> {
    match AbortOnDropHandle::new(tokio::task::spawn_blocking(work)).await {
        Ok(result) => result.map(ToolOutput::text).map_err(ToolError::TellModel),
        Err(error) => Err(ToolError::Abort(error.into())),
    }
}

/// Formats bytes as data sheets write them, and as numbers.
pub fn shown(bytes: &[u8]) -> String {
    let hex: Vec<_> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let numbers: Vec<_> = bytes.iter().map(u8::to_string).collect();
    format!("hex {}\ndecimal {}", hex.join(" "), numbers.join(" "))
}

pub(super) fn check_bytes(bytes: &[u8]) -> Result<(), ToolError> {
    match bytes.len() {
        1..=BYTES_MAX => Ok(()),
        0 => Err(ToolError::TellModel("`bytes` is empty.".to_owned())),
        _ => Err(ToolError::TellModel(format!("At most {BYTES_MAX} bytes at once."))),
    }
}

pub(super) fn check_length(length: usize) -> Result<(), ToolError> {
    match length {
        1..=BYTES_MAX => Ok(()),
        _ => Err(ToolError::TellModel(format!("`length` must be from 1 to {BYTES_MAX}."))),
    }
}
