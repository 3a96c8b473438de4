//! Chips on an I2C bus. A chip that a driver of the kernel uses is left alone.

use std::io;
use std::path::Path;

use async_trait::async_trait;
use i2cdev::core::{I2CMessage, I2CTransfer};
use i2cdev::linux::{LinuxI2CDevice, LinuxI2CMessage};
use schemars::JsonSchema;
use serde::Deserialize;

use super::devices::{Devices, Family, check_bytes, check_length, fault, run_blocking, shown};
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
            let path = devices.find(Family::I2c, &name(bus))?;
            let mut bytes = vec![0; length];
            let register = register.map(|register| [register]);
            // One transaction, so that nobody else can come in between.
            let register_writes = register.iter().map(|register| LinuxI2CMessage::write(register));
            let mut messages: Vec<_> = register_writes.collect();
            messages.push(LinuxI2CMessage::read(&mut bytes));
            transfer_messages(&path, address, &mut messages)?;
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
            let path = devices.find(Family::I2c, &name(bus))?;
            transfer_messages(&path, address, &mut [LinuxI2CMessage::write(&bytes)])?;
            Ok(format!("Wrote {} byte(s) to {address:#04x} on bus {bus}.", bytes.len()))
        })
        .await
    }
}

fn transfer_messages<'a>(
    path: &Path,
    address: u16,
    messages: &mut [LinuxI2CMessage<'a>],
) -> Result<(), String> {
    let explain = |error| fault(Family::I2c, path, &io::Error::from(error));
    // Refused if a driver uses the chip.
    let mut device: LinuxI2CDevice = LinuxI2CDevice::new(path, address).map_err(explain)?;
    <LinuxI2CDevice as I2CTransfer<'a>>::transfer(&mut device, messages).map(drop).map_err(explain)
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
