//! Chips on an SPI bus, which returns a byte for each written one.

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use spidev::{SpiModeFlags, Spidev, SpidevOptions, SpidevTransfer};

use super::devices::{Devices, Family, check_bytes, check_length, fault, run_blocking, shown};
use crate::people::Role;
use crate::tools::{Tool, ToolContext, ToolError, ToolKind, ToolOutput, ToolSpec};

/// Clock rate, in Hz: slow enough for every chip and for loose wires.
const HZ: u32 = 500_000;

pub(super) struct SpiRead(pub(super) Devices);

pub(super) struct SpiWrite(pub(super) Devices);

/// A chip and its mode.
struct Chip {
    bus: u32,
    select: u32,
    mode: u32,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SpiReadArgs {
    bus: u32,
    #[serde(default)]
    chip_select: u32,
    #[serde(default)]
    mode: u32,
    length: usize,
}

#[async_trait]
impl Tool for SpiRead {
    type Args = SpiReadArgs;
    const SPEC: ToolSpec = ToolSpec {
        name: "spi_read",
        description: "Read bytes of an SPI chip; zeros are sent.",
        role: Role::Admin,
        kind: ToolKind::Reads,
        retries: false,
    };

    async fn call(&self, args: SpiReadArgs, _: &ToolContext) -> Result<ToolOutput, ToolError> {
        check_length(args.length)?;
        let SpiReadArgs { bus, chip_select, mode, length } = args;
        exchange(&self.0, Chip { bus, select: chip_select, mode }, vec![0; length]).await
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SpiWriteArgs {
    bus: u32,
    #[serde(default)]
    chip_select: u32,
    #[serde(default)]
    mode: u32,
    bytes: Vec<u8>,
}

#[async_trait]
impl Tool for SpiWrite {
    type Args = SpiWriteArgs;
    const SPEC: ToolSpec = ToolSpec {
        name: "spi_write",
        description: "Write bytes to an SPI chip; gives what comes back.",
        role: Role::Admin,
        kind: ToolKind::Acts { idempotent: false },
        retries: false,
    };

    async fn call(&self, args: SpiWriteArgs, _: &ToolContext) -> Result<ToolOutput, ToolError> {
        check_bytes(&args.bytes)?;
        let SpiWriteArgs { bus, chip_select, mode, bytes } = args;
        exchange(&self.0, Chip { bus, select: chip_select, mode }, bytes).await
    }
}

/// Sends bytes. Returns the same number of received ones.
async fn exchange(devices: &Devices, chip: Chip, sent: Vec<u8>) -> Result<ToolOutput, ToolError> {
    let Chip { bus, select, mode } = chip;
    let mode = match mode {
        0 => SpiModeFlags::SPI_MODE_0,
        1 => SpiModeFlags::SPI_MODE_1,
        2 => SpiModeFlags::SPI_MODE_2,
        3 => SpiModeFlags::SPI_MODE_3,
        _ => return Err(ToolError::TellModel("`mode` must be from 0 to 3.".to_owned())),
    };
    let devices = devices.clone();
    run_blocking(move || {
        let path = devices.find(Family::Spi, &format!("{}{bus}.{select}", Family::Spi.prefix()))?;
        let explain = |error| fault(Family::Spi, &path, &error);
        let mut link = Spidev::open(&path).map_err(explain)?;
        let options = SpidevOptions::new().bits_per_word(8).max_speed_hz(HZ).mode(mode).build();
        link.configure(&options).map_err(explain)?;
        let mut received = vec![0; sent.len()];
        link.transfer(&mut SpidevTransfer::read_write(&sent, &mut received)).map_err(explain)?;
        Ok(shown(&received))
    })
    .await
}
