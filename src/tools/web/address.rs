//! Decides to which addresses a model may send requests: public addresses of the internet, and hosts that
//! the owner has listed. It decides by addresses, never by their spelling or names. Makes no requests
//! itself.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;
use std::sync::Arc;

use url::{Host, Url};

use super::interfaces::{self, InterfaceNetwork};

/// Ports of other protocols whose commands can be put into an HTTP request. Browsers block them (Fetch
/// standard, "port blocking").
const BAD_PORTS: [u16; 83] = [
    0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101,
    102, 103, 104, 109, 110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427,
    465, 512, 513, 514, 515, 526, 530, 531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990,
    993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667,
    6668, 6669, 6679, 6697, 10080,
];

/// IPv4 blocks that are not public, each with its purpose (IANA's registry of special-purpose addresses;
/// and the one public address behind which a cloud has its internal service).
const SPECIAL_V4: [([u8; 4], u8, &str); 17] = [
    ([0, 0, 0, 0], 8, "this machine"),
    ([10, 0, 0, 0], 8, "a private network"),
    ([100, 64, 0, 0], 10, "a carrier's inner network"),
    ([127, 0, 0, 0], 8, "this machine"),
    ([168, 63, 129, 16], 32, "a cloud's inner service"),
    ([169, 254, 0, 0], 16, "the local link, where clouds keep their secrets"),
    ([172, 16, 0, 0], 12, "a private network"),
    ([192, 0, 0, 0], 24, "reserved"),
    ([192, 0, 2, 0], 24, "for documentation"),
    ([192, 88, 99, 0], 24, "a relay into other networks"),
    ([192, 168, 0, 0], 16, "a private network"),
    ([198, 18, 0, 0], 15, "for benchmarks"),
    ([198, 51, 100, 0], 24, "for documentation"),
    ([203, 0, 113, 0], 24, "for documentation"),
    ([224, 0, 0, 0], 4, "for multicast"),
    ([240, 0, 0, 0], 4, "reserved"),
    ([255, 255, 255, 255], 32, "for broadcast"),
];

/// Blocks within the global unicast addresses of IPv6 (2000::/3) that are not public.
const SPECIAL_V6: [([u16; 8], u8, &str); 4] = [
    // Teredo, benchmarks, ORCHID and others.
    ([0x2001, 0, 0, 0, 0, 0, 0, 0], 23, "a tunnel, or reserved"),
    ([0x2001, 0x0db8, 0, 0, 0, 0, 0, 0], 32, "for documentation"),
    ([0x2002, 0, 0, 0, 0, 0, 0, 0], 16, "a tunnel (6to4)"),
    ([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20, "for documentation"),
];

/// Blocks outside of the global unicast addresses of IPv6. Nothing there is public, and these have names.
const OUTSIDE_V6: [([u16; 8], u8, &str); 8] = [
    ([0, 0, 0, 0, 0, 0, 0, 0], 127, "this machine"),
    ([0, 0, 0, 0, 0, 0xffff, 0, 0], 96, "an IPv4 address in disguise"),
    ([0, 0, 0, 0, 0, 0, 0, 0], 96, "an IPv4 address in disguise"),
    ([0x0064, 0xff9b, 0, 0, 0, 0, 0, 0], 32, "a way to IPv4 (NAT64)"),
    ([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7, "a private network"),
    ([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10, "the local link"),
    ([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10, "a private network"),
    ([0xff00, 0, 0, 0, 0, 0, 0, 0], 8, "for multicast"),
];

/// Returns the purpose of an address that is not public.
pub fn non_public_reason(ip: IpAddr) -> Option<&'static str> {
    match ip {
        IpAddr::V4(ip) => {
            let within = |(net, bits, _): &&([u8; 4], u8, &str)| {
                same_beginning(
                    ip.to_bits().into(),
                    Ipv4Addr::from(*net).to_bits().into(),
                    32,
                    *bits,
                )
            };
            // The last match is the narrowest.
            SPECIAL_V4.iter().rfind(within).map(|(_, _, purpose)| *purpose)
        }
        IpAddr::V6(ip) => {
            let within = |(net, bits, _): &&([u16; 8], u8, &str)| {
                same_beginning(ip.to_bits(), Ipv6Addr::from(*net).to_bits(), 128, *bits)
            };
            match ip.segments()[0] >> 13 {
                0b001 => SPECIAL_V6.iter().find(within).map(|(_, _, purpose)| *purpose),
                _ => Some(
                    OUTSIDE_V6.iter().find(within).map_or("reserved", |(_, _, purpose)| *purpose),
                ),
            }
        }
    }
}

/// Returns true if the first `bits` of two numbers of `width` bits are equal.
fn same_beginning(a: u128, b: u128, width: u32, bits: u8) -> bool {
    (a ^ b) >> (width - u32::from(bits)) == 0
}

/// Returns true for a NAT64 address, which represents an IPv4 address in a network without IPv4: many
/// networks return one for every name, beside its real addresses.
fn is_nat64(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V6(ip) if ip.segments()[..2] == [0x64, 0xff9b])
}

/// A host of the owner that may be reached, wherever it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowedHost {
    host: Host,
    /// None means every port that is not a bad one.
    port: Option<u16>,
}

impl FromStr for AllowedHost {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const WRONG: &str =
            "must be a host or HOST:PORT, such as \"192.168.1.10\" or \"nas.local:8080\"";
        let text = text.trim();
        if text.contains('*') {
            return Err("must name one host; there is no `*` here");
        }
        if let Ok(ip) = text.parse::<Ipv6Addr>() {
            return Ok(Self { host: Host::Ipv6(ip), port: None });
        }
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) if !text.ends_with(']') => {
                (host, Some(port.parse().ok().filter(|port| *port > 0).ok_or(WRONG)?))
            }
            _ => (text, None),
        };
        Ok(Self { host: plain(&Host::parse(host).map_err(|_| WRONG)?), port })
    }
}

impl fmt::Display for AllowedHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => write!(f, "{}:{port}", self.host),
            None => write!(f, "{}", self.host),
        }
    }
}

/// Returns a host name without its final dot, which does not change its meaning.
fn plain<T: AsRef<str>>(host: &Host<T>) -> Host {
    match host {
        Host::Domain(name) => {
            let name = name.as_ref();
            Host::Domain(name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase())
        }
        Host::Ipv4(ip) => Host::Ipv4(*ip),
        Host::Ipv6(ip) => Host::Ipv6(*ip),
    }
}

/// An explanation why a request is not made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Forbidden(pub String);

/// Returns the current networks of this machine.
pub type ReadNetworks = fn() -> io::Result<Vec<InterfaceNetwork>>;

/// Allows requests to listed hosts, and to public addresses outside of this machine's own networks.
#[derive(Clone, Debug)]
pub struct Gate {
    listed: Arc<[AllowedHost]>,
    networks: ReadNetworks,
}

impl Default for Gate {
    fn default() -> Self {
        Self::new(&[])
    }
}

impl Gate {
    pub fn new(listed: &[AllowedHost]) -> Self {
        Self { listed: listed.into(), networks: interfaces::networks }
    }

    /// Replaces the kernel's networks.
    pub fn with_networks(self, networks: ReadNetworks) -> Self {
        Self { networks, ..self }
    }

    /// Checks a URL before its name is looked up.
    pub fn check(&self, url: &Url) -> Result<(), Forbidden> {
        match self.check_form(url)? {
            (Host::Ipv4(ip), port) => self.check_address(ip.into(), port),
            (Host::Ipv6(ip), port) => self.check_address(ip.into(), port),
            (Host::Domain(_), _) => Ok(()),
        }
    }

    /// Checks a URL as it is written: scheme, host and port, and nothing of this machine. Returns host and port.
    pub fn check_form(&self, url: &Url) -> Result<(Host, u16), Forbidden> {
        let refuse = |reason: String| Err(Forbidden(reason));
        if !matches!(url.scheme(), "http" | "https") {
            return refuse(format!("{}: is not spoken here, only https: and http:", url.scheme()));
        }
        let (Some(host), Some(port)) = (url.host(), url.port_or_known_default()) else {
            return refuse("it leads to no host".to_owned());
        };
        if !url.username().is_empty() || url.password().is_some() {
            return refuse("it holds a name or password; leave that out".to_owned());
        }
        let host = plain(&host);
        if BAD_PORTS.contains(&port) && !self.is_port_listed(&host, port) {
            return refuse(format!("port {port} is not one of the web's"));
        }
        Ok((host, port))
    }

    /// Returns the addresses of a name that may be connected to. If one of them is forbidden, the name is
    /// forbidden: the decision must not depend on which of them is tried first.
    pub fn choose(
        &self,
        name: &str,
        port: u16,
        addresses: impl IntoIterator<Item = IpAddr>,
    ) -> Result<Vec<IpAddr>, Forbidden> {
        let addresses: Vec<IpAddr> = addresses.into_iter().collect();
        if Host::parse(name).is_ok_and(|host| self.is_listed(&plain(&host), port)) {
            return Ok(addresses);
        }
        let real: Vec<IpAddr> = addresses.iter().copied().filter(|ip| !is_nat64(*ip)).collect();
        let chosen = if real.is_empty() { addresses } else { real };
        for ip in &chosen {
            self.check_address(*ip, port)
                .map_err(|Forbidden(why)| Forbidden(format!("{name} leads to {why}")))?;
        }
        Ok(chosen)
    }

    fn check_address(&self, ip: IpAddr, port: u16) -> Result<(), Forbidden> {
        let host = match ip {
            IpAddr::V4(ip) => Host::Ipv4(ip),
            IpAddr::V6(ip) => Host::Ipv6(ip),
        };
        if self.is_listed(&host, port) {
            return Ok(());
        }
        if let Some(purpose) = non_public_reason(ip) {
            return Err(Forbidden(format!("{ip}, which is not public ({purpose})")));
        }
        let networks = (self.networks)().map_err(|error| {
            let explanation = "which may be this machine's: its networks cannot be read";
            Forbidden(format!("{ip}, {explanation} ({error})"))
        })?;
        match networks.iter().any(|network| network.contains(ip)) {
            true => Err(Forbidden(format!("{ip}, which is this machine's, or in its network"))),
            false => Ok(()),
        }
    }

    fn is_listed(&self, host: &Host, port: u16) -> bool {
        let matches =
            |listed: &AllowedHost| listed.host == *host && listed.port.is_none_or(|it| it == port);
        self.listed.iter().any(matches)
    }

    /// Returns true if the owner has listed this port explicitly.
    fn is_port_listed(&self, host: &Host, port: u16) -> bool {
        self.listed.iter().any(|listed| listed.host == *host && listed.port == Some(port))
    }
}
