//! The current networks of this machine, from the kernel. An address in them may be one of its own services, or
//! a neighbour's, even if it is global.

#![expect(unsafe_code, reason = "getifaddrs has no safe form in rustix")]

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ptr;

/// An address of an interface, and the length of its network's prefix in bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterfaceNetwork {
    pub address: IpAddr,
    pub bits: u32,
}

impl InterfaceNetwork {
    /// Returns true if an address is in the network. A network of all addresses contains only its own.
    pub fn contains(&self, ip: IpAddr) -> bool {
        let (width, differs) = match (self.address, ip) {
            (IpAddr::V4(own), IpAddr::V4(ip)) => (32, u128::from(own.to_bits() ^ ip.to_bits())),
            (IpAddr::V6(own), IpAddr::V6(ip)) => (128, own.to_bits() ^ ip.to_bits()),
            _ => return false,
        };
        match self.bits {
            0 => differs == 0,
            bits if bits >= width => differs == 0,
            bits => differs >> (width - bits) == 0,
        }
    }
}

/// Reads the networks of all interfaces (getifaddrs(3)).
pub fn networks() -> io::Result<Vec<InterfaceNetwork>> {
    let mut first: *mut libc::ifaddrs = ptr::null_mut();
    // SAFETY: the call writes the head of a list, which is freed below and not used afterwards.
    if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut found = Vec::new();
    let mut at = first;
    // SAFETY: each entry of the list is valid until the list is freed.
    while let Some(entry) = unsafe { at.as_ref() } {
        if let Some(address) = address(entry.ifa_addr) {
            let bits = address_bits(entry.ifa_netmask, address);
            found.push(InterfaceNetwork { address, bits });
        }
        // The peer's address on a point-to-point link.
        if entry.ifa_flags & libc::IFF_POINTOPOINT.unsigned_abs() != 0
            && let Some(address) = address(entry.ifa_ifu)
        {
            found.push(InterfaceNetwork { address, bits: u32::MAX });
        }
        at = entry.ifa_next;
    }
    // SAFETY: the list came from getifaddrs and is freed once.
    unsafe { libc::freeifaddrs(first) };
    Ok(found)
}

/// Returns the IP address in a socket address. None for another family.
fn address(pointer: *const libc::sockaddr) -> Option<IpAddr> {
    // SAFETY: the pointer is null, or leads to a socket address of the family that it names.
    let family = i32::from(unsafe { pointer.as_ref() }?.sa_family);
    match family {
        libc::AF_INET => {
            // SAFETY: as above; an address of this family is a `sockaddr_in`.
            let found = unsafe { ptr::read_unaligned(pointer.cast::<libc::sockaddr_in>()) };
            Some(Ipv4Addr::from_bits(u32::from_be(found.sin_addr.s_addr)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: as above; an address of this family is a `sockaddr_in6`.
            let found = unsafe { ptr::read_unaligned(pointer.cast::<libc::sockaddr_in6>()) };
            Some(Ipv6Addr::from(found.sin6_addr.s6_addr).into())
        }
        _ => None,
    }
}

/// Returns the number of bits of a mask. Without a mask, all bits of the address count.
fn address_bits(mask: *const libc::sockaddr, ip: IpAddr) -> u32 {
    match (address(mask), ip) {
        (Some(IpAddr::V4(mask)), IpAddr::V4(_)) => mask.to_bits().leading_ones(),
        (Some(IpAddr::V6(mask)), IpAddr::V6(_)) => mask.to_bits().leading_ones(),
        _ => u32::MAX,
    }
}
