//! Chips on an I2C bus. A chip that a driver of the kernel uses is left alone.

use std::io;
use std::path::PathBuf;

use async_trait::async_trait;
use i2cdev::core::{I2CMessage, I2CTransfer};
use i2cdev::linux::{LinuxI2CDevice, LinuxI2CError, LinuxI2CMessage};
use rustix::io::Errno;
use schemars::JsonSchema;
use serde::Deserialize;

use super::devices::{Devices, Family, check_bytes, check_length, fault, run_blocking, shown};
use super::smbus;
use crate::people::Role;
use crate::tools::{Tool, ToolContext, ToolError, ToolKind, ToolOutput, ToolSpec};

/// Valid addresses. The others are reserved by the bus (I2C specification, table 4).
const ADDRESSES: std::ops::RangeInclusive<u16> = 0x08..=0x77;

pub(super) struct I2cRead(pub(super) Devices);

pub(super) struct I2cWrite(pub(super) Devices);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct I2cReadArgs {
    bus: u32,
    address: u16,
    register: Option<u8>,
    length: usize,
}

#[async_trait]
impl Tool for I2cRead {
    type Args = I2cReadArgs;
    const SPEC: ToolSpec = ToolSpec {
        name: "i2c_read",
        description: "Read bytes of a chip on an I2C bus.",
        role: Role::Admin,
        kind: ToolKind::Reads,
        retries: false,
    };

    async fn call(&self, args: I2cReadArgs, _: &ToolContext) -> Result<ToolOutput, ToolError> {
        check_address(args.address)?;
        check_length(args.length)?;
        let devices = self.0.clone();
        run_blocking(move || {
            let I2cReadArgs { bus, address, register, length } = args;
            let mut bytes = vec![0; length];
            FreeChip::open(&devices, bus, address)?.read(register, &mut bytes)?;
            Ok(shown(&bytes))
        })
        .await
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct I2cWriteArgs {
    bus: u32,
    address: u16,
    /// A register's number is the first.
    bytes: Vec<u8>,
}

#[async_trait]
impl Tool for I2cWrite {
    type Args = I2cWriteArgs;
    const SPEC: ToolSpec = ToolSpec {
        name: "i2c_write",
        description: "Write bytes to a chip on an I2C bus.",
        role: Role::Admin,
        kind: ToolKind::Acts { idempotent: false },
        retries: false,
    };

    async fn call(&self, args: I2cWriteArgs, _: &ToolContext) -> Result<ToolOutput, ToolError> {
        check_address(args.address)?;
        check_bytes(&args.bytes)?;
        let devices = self.0.clone();
        run_blocking(move || {
            let I2cWriteArgs { bus, address, bytes } = args;
            FreeChip::open(&devices, bus, address)?.write(&bytes)?;
            Ok(format!("Wrote {} byte(s) to {address:#04x} on bus {bus}.", bytes.len()))
        })
        .await
    }
}

/// A chip that no driver of the kernel uses.
struct FreeChip {
    device: LinuxI2CDevice,
    path: PathBuf,
}

impl FreeChip {
    fn open(devices: &Devices, bus: u32, address: u16) -> Result<Self, String> {
        let path = devices.find(Family::I2c, &name(bus))?;
        match LinuxI2CDevice::new(&path, address) {
            Ok(device) => Ok(Self { device, path }),
            Err(error) => Err(fault(Family::I2c, &path, &error.into())),
        }
    }

    fn read(&mut self, register: Option<u8>, bytes: &mut [u8]) -> Result<(), String> {
        let number = register.map(|register| [register]);
        // One transaction, so that nobody else can come in between.
        let mut messages: Vec<_> =
            number.iter().map(|number| LinuxI2CMessage::write(number)).collect();
        messages.push(LinuxI2CMessage::read(bytes));
        let read = match transfer(&mut self.device, &mut messages) {
            Err(error) if is_unsupported(&error) => {
                drop(messages);
                smbus::read(&mut self.device, register, bytes).map_err(io::Error::from)
            }
            result => result,
        };
        read.map_err(|error| self.explain(&error))
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), String> {
        let written = match transfer(&mut self.device, &mut [LinuxI2CMessage::write(bytes)]) {
            Err(error) if is_unsupported(&error) => {
                smbus::write(&mut self.device, bytes).map_err(io::Error::from)
            }
            result => result,
        };
        written.map_err(|error| self.explain(&error))
    }

    fn explain(&self, error: &io::Error) -> String {
        if is_unsupported(error) {
            return format!(
                "The bus of {} is an SMBus: it moves one byte, or up to {} from or to a `register` (in a write, the \
                 first byte is its number).",
                self.path.display(),
                smbus::BLOCK_MAX
            );
        }
        fault(Family::I2c, &self.path, error)
    }
}

fn transfer<'a>(
    device: &mut LinuxI2CDevice,
    messages: &mut [LinuxI2CMessage<'a>],
) -> io::Result<()> {
    let moved = <LinuxI2CDevice as I2CTransfer<'a>>::transfer(device, messages);
    moved.map(drop).map_err(|error: LinuxI2CError| error.into())
}

/// Returns `true` if the bus cannot do such a transfer at all. Nothing was moved.
fn is_unsupported(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::OPNOTSUPP.raw_os_error())
}

fn name(bus: u32) -> String {
    format!("{}{bus}", Family::I2c.prefix())
}

fn check_address(address: u16) -> Result<(), ToolError> {
    if ADDRESSES.contains(&address) {
        return Ok(());
    }
    let (least, most) = (ADDRESSES.start(), ADDRESSES.end());
    let message = format!(
        "`address` must be from {least} to {most} (0x08 to 0x77), as data sheets have it in 7 bits."
    );
    Err(ToolError::TellModel(message))
}
