//! Devices that are wired to the board: lines (GPIO) and two buses (I2C, SPI), by the kernel's own
//! interfaces. For admins. Reading and acting are separate tools, so that acting can require approval. It
//! always does after untrusted content was read. Without the Cargo feature `hardware` these tools do not
//! exist.

mod devices;
mod gpio;
mod i2c;
mod smbus;
mod spi;

use std::sync::Arc;

pub use devices::{Devices, Family, fault, shown};

use super::AnyTool;

/// Returns the tools of all kinds of devices.
pub fn tools(devices: &Devices) -> Vec<Arc<dyn AnyTool>> {
    Family::ALL.into_iter().flat_map(|family| tools_of(family, devices)).collect()
}

/// Returns the tools of the kinds of devices that exist now. The others would only take space in every prompt.
pub fn tools_of_present(devices: &Devices) -> Vec<Arc<dyn AnyTool>> {
    let present = Family::ALL.into_iter().filter(|family| !devices.names(*family).is_empty());
    present.flat_map(|family| tools_of(family, devices)).collect()
}

/// Returns the tools of one kind of devices.
fn tools_of(family: Family, devices: &Devices) -> Vec<Arc<dyn AnyTool>> {
    let devices = || devices.clone();
    match family {
        Family::Gpio => {
            let held = Arc::new(gpio::HeldLines::default());
            let read = gpio::GpioRead { devices: devices(), held: Arc::clone(&held) };
            vec![Arc::new(read), Arc::new(gpio::GpioWrite { devices: devices(), held })]
        }
        Family::I2c => {
            vec![Arc::new(i2c::I2cRead(devices())), Arc::new(i2c::I2cWrite(devices()))]
        }
        Family::Spi => {
            vec![Arc::new(spi::SpiRead(devices())), Arc::new(spi::SpiWrite(devices()))]
        }
    }
}
