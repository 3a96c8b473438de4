//! Chips on a bus that is only an SMBus, as in many PCs. It has no transfers of any length, but a few fixed kinds.

use i2cdev::core::I2CDevice;
use i2cdev::linux::{LinuxI2CDevice, LinuxI2CError};
use rustix::io::Errno;

/// Maximum number of bytes of a block, without its register (SMBus specification 3.1, 6.5.7).
pub(super) const BLOCK_MAX: usize = 32;

/// Reads with the kind that has this length. There is none for several bytes without a register.
pub(super) fn read(
    device: &mut LinuxI2CDevice,
    register: Option<u8>,
    bytes: &mut [u8],
) -> Result<(), LinuxI2CError> {
    match (register, bytes) {
        (None, [byte]) => *byte = device.smbus_read_byte()?,
        (Some(register), [byte]) => *byte = device.smbus_read_byte_data(register)?,
        // A word comes with its low byte first.
        (Some(register), [low, high]) => {
            [*low, *high] = device.smbus_read_word_data(register)?.to_le_bytes();
        }
        (Some(register), bytes) if bytes.len() <= BLOCK_MAX => {
            let length = u8::try_from(bytes.len()).unwrap_or(u8::MAX);
            let block = device.smbus_read_i2c_block_data(register, length)?;
            if block.len() != bytes.len() {
                return Err(LinuxI2CError::Errno(Errno::REMOTEIO.raw_os_error()));
            }
            bytes.copy_from_slice(&block);
        }
        _ => return Err(unsupported()),
    }
    Ok(())
}

/// Writes with the kind that has this length.
pub(super) fn write(device: &mut LinuxI2CDevice, bytes: &[u8]) -> Result<(), LinuxI2CError> {
    match bytes {
        [byte] => device.smbus_write_byte(*byte),
        [register, byte] => device.smbus_write_byte_data(*register, *byte),
        [register, low, high] => {
            device.smbus_write_word_data(*register, u16::from_le_bytes([*low, *high]))
        }
        [register, block @ ..] if block.len() <= BLOCK_MAX => {
            device.smbus_write_i2c_block_data(*register, block)
        }
        _ => Err(unsupported()),
    }
}

fn unsupported() -> LinuxI2CError {
    LinuxI2CError::Errno(Errno::OPNOTSUPP.raw_os_error())
}
