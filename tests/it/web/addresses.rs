//! Which addresses are public: known ones by name, and all others against a second way of telling.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use peacrab::tools::web::address::{AllowedHost, Forbidden, Gate, non_public_reason};
use peacrab::tools::web::interfaces::{self, InterfaceNetwork};
use proptest::prelude::*;
use url::Url;

use crate::support::effort;

fn what(ip: &str) -> Option<&'static str> {
    non_public_reason(ip.parse().unwrap())
}

#[test]
fn knows_what_is_not_public() {
    for (ip, expected) in [
        ("0.0.0.0", "this machine"),
        ("0.1.2.3", "this machine"),
        ("127.0.0.1", "this machine"),
        ("127.255.255.254", "this machine"),
        ("10.0.0.1", "a private network"),
        ("172.16.0.1", "a private network"),
        ("172.31.255.255", "a private network"),
        ("192.168.1.1", "a private network"),
        ("100.64.0.1", "a carrier's inner network"),
        ("100.100.100.200", "a carrier's inner network"),
        ("100.127.255.255", "a carrier's inner network"),
        ("169.254.169.254", "the local link, where clouds keep their secrets"),
        ("168.63.129.16", "a cloud's inner service"),
        ("192.0.0.192", "reserved"),
        ("192.0.2.7", "for documentation"),
        ("198.51.100.7", "for documentation"),
        ("203.0.113.7", "for documentation"),
        ("198.19.0.1", "for benchmarks"),
        ("192.88.99.1", "a relay into other networks"),
        ("224.0.0.1", "for multicast"),
        ("239.255.255.250", "for multicast"),
        ("240.0.0.1", "reserved"),
        ("255.255.255.255", "for broadcast"),
        ("::", "this machine"),
        ("::1", "this machine"),
        ("::ffff:127.0.0.1", "an IPv4 address in disguise"),
        ("::ffff:1.1.1.1", "an IPv4 address in disguise"),
        ("::127.0.0.1", "an IPv4 address in disguise"),
        ("64:ff9b::7f00:1", "a way to IPv4 (NAT64)"),
        ("64:ff9b:1::1", "a way to IPv4 (NAT64)"),
        ("100::1", "reserved"),
        ("2001::1", "a tunnel, or reserved"),
        ("2001:0:4136:e378:8000:63bf:3fff:fdd2", "a tunnel, or reserved"),
        ("2001:2::1", "a tunnel, or reserved"),
        ("2001:db8::1", "for documentation"),
        ("2002:7f00:1::", "a tunnel (6to4)"),
        ("3fff::1", "for documentation"),
        ("5f00::1", "reserved"),
        ("fc00::1", "a private network"),
        ("fd00:ec2::254", "a private network"),
        ("fe80::1", "the local link"),
        ("febf::1", "the local link"),
        ("fec0::1", "a private network"),
        ("ff02::1", "for multicast"),
    ] {
        assert_eq!(what(ip), Some(expected), "{ip}");
    }
}

#[test]
fn lets_the_public_ones_pass() {
    for ip in [
        "1.1.1.1",
        "8.8.8.8",
        "9.255.255.255",
        "11.0.0.0",
        "100.63.255.255",
        "100.128.0.0",
        "126.255.255.255",
        "128.0.0.0",
        "169.253.255.255",
        "172.15.255.255",
        "172.32.0.0",
        "192.167.255.255",
        "192.169.0.0",
        "223.255.255.255",
        "2606:4700:4700::1111",
        "2001:4860:4860::8888",
        "2a00:1450:4001:80b::200e",
        "2003::1",
        "2400:cb00::1",
    ] {
        assert_eq!(what(ip), None, "{ip}");
    }
}

/// As the standard library knows them, and the rest by arithmetic.
fn is_special(ip: Ipv4Addr) -> bool {
    let [a, b, c, _] = ip.octets();
    ip.is_private()
        || ip.is_loopback()
        || ip.is_link_local()
        || ip.is_broadcast()
        || ip.is_documentation()
        || ip.is_multicast()
        || a == 0
        || a >= 240
        || (a == 100 && (64..128).contains(&b))
        || (a == 198 && (b == 18 || b == 19))
        || (a, b, c) == (192, 0, 0)
        || (a, b, c) == (192, 88, 99)
        || ip == Ipv4Addr::new(168, 63, 129, 16)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(effort::cases(4096)) })]

    #[test]
    fn tells_all_of_ipv4_as_the_standard_library_does(bits: u32) {
        let ip = Ipv4Addr::from(bits);
        prop_assert_eq!(non_public_reason(ip.into()).is_some(), is_special(ip));
    }

    #[test]
    fn tells_the_edges_of_ipv4_too(
        net in prop::sample::select(vec![0u8, 10, 100, 127, 168, 169, 172, 192, 198, 203, 224, 239, 240, 255]),
        rest: [u8; 3],
    ) {
        let ip = Ipv4Addr::new(net, rest[0], rest[1], rest[2]);
        prop_assert_eq!(non_public_reason(ip.into()).is_some(), is_special(ip));
    }

    #[test]
    fn no_ipv4_address_gets_through_in_disguise(bits: u32, more: u16) {
        let v4 = Ipv4Addr::from(bits);
        let [a, b] = [(bits >> 16) as u16, bits as u16];
        for disguise in [
            v4.to_ipv6_mapped(),
            v4.to_ipv6_compatible(),
            Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, a, b),
            Ipv6Addr::new(0x64, 0xff9b, 1, more, more, 0, a, b),
            Ipv6Addr::new(0x2002, a, b, more, 0, 0, 0, 1),
            Ipv6Addr::new(0x2001, 0, more, more, 0, more, !a, !b),
            Ipv6Addr::new(0, 0, 0, 0, 0xffff, 0, a, b),
            Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0x5efe, a, b),
        ] {
            prop_assert!(non_public_reason(disguise.into()).is_some(), "{}", disguise);
        }
    }

    #[test]
    fn of_ipv6_only_global_unicast_is_public(segments: [u16; 8]) {
        let ip = Ipv6Addr::from(segments);
        let is_global = (0x2000..0x4000).contains(&segments[0]);
        prop_assert!(is_global || non_public_reason(ip.into()).is_some());
        let is_known = matches!(segments[0], 0x2001 | 0x2002 | 0x3fff);
        prop_assert!(!is_global || is_known || non_public_reason(ip.into()).is_none());
    }

    #[test]
    fn a_name_is_as_bad_as_its_worst_address(
        public in prop::collection::vec(prop::sample::select(vec!["1.1.1.1", "2606:4700::1"]), 0..4),
        bad in prop::sample::select(vec!["127.0.0.1", "10.0.0.1", "::1", "fd00::1", "169.254.169.254"]),
        at: prop::sample::Index,
    ) {
        let mut addresses: Vec<IpAddr> = public.iter().map(|ip| ip.parse().unwrap()).collect();
        addresses.insert(at.index(addresses.len() + 1), bad.parse().unwrap());
        let refused = Gate::default().choose("some.example", 80, addresses).unwrap_err();
        prop_assert!(refused.0.contains(bad));
    }

    #[test]
    fn no_way_of_writing_an_address_matters(bits: u32, form in 0usize..7) {
        let ip = Ipv4Addr::from(bits);
        let [a, b, c, d] = ip.octets();
        let host = match form {
            0 => format!("{bits}"),
            1 => format!("0x{bits:x}"),
            2 => format!("0{bits:o}"),
            3 => format!("{a}.{b}.{}", bits & 0xffff),
            4 => format!("{a}.{}", bits & 0xff_ffff),
            5 => format!("0x{a:X}.0{b:o}.{c}.0x{d:x}"),
            _ => format!("{a}。{b}．{c}｡{d}."),
        };
        let url = Url::parse(&format!("http://{host}/")).unwrap();
        prop_assert_eq!(Gate::default().check(&url).is_err(), is_special(ip), "{} is {}", host, ip);
    }
}

#[test]
fn names_with_a_way_from_ipv6_to_ipv4_beside_their_own_addresses_are_fine() {
    let choose = |ips: &[&str]| {
        let ips = ips.iter().map(|ip| ip.parse::<IpAddr>().unwrap());
        Gate::default().choose("some.example", 80, ips)
    };
    assert_eq!(choose(&["64:ff9b::101:101", "1.1.1.1"]), Ok(vec!["1.1.1.1".parse().unwrap()]));
    assert!(choose(&["64:ff9b::101:101"]).is_err());
    assert!(choose(&["64:ff9b::7f00:1", "127.0.0.1"]).is_err());
}

#[test]
fn listed_hosts_are_meant_as_they_are_written() {
    let gate = |listed: &[&str]| {
        let listed: Vec<AllowedHost> = listed.iter().map(|text| text.parse().unwrap()).collect();
        Gate::new(&listed)
    };
    let passes = |gate: &Gate, url: &str| gate.check(&Url::parse(url).unwrap()).is_ok();
    let any = gate(&["192.168.1.10", "[fd00::1]", "::1"]);
    assert!(passes(&any, "http://192.168.1.10/"));
    assert!(passes(&any, "https://192.168.1.10:8443/"));
    assert!(passes(&any, "http://[fd00::1]:8080/") && passes(&any, "http://[::1]/"));
    assert!(!passes(&any, "http://192.168.1.11/"));
    assert!(!passes(&any, "http://192.168.1.10:22/"), "a bad port has to be named");
    let one = gate(&["127.0.0.1:8080", "192.168.1.10:22", "[fd00::1]:81"]);
    assert!(passes(&one, "http://127.0.0.1:8080/") && passes(&one, "http://192.168.1.10:22/"));
    assert!(passes(&one, "http://0x7f.1:8080/"), "it is the same address");
    assert!(passes(&one, "http://[fd00::1]:81/") && !passes(&one, "http://[fd00::1]/"));
    assert!(!passes(&one, "http://127.0.0.1/") && !passes(&one, "http://127.0.0.1:8081/"));
    assert!(!passes(&one, "http://[::ffff:127.0.0.1]:8080/"), "it is not written so");
    let named = gate(&["NAS.local.:8080"]);
    let home: IpAddr = "192.168.1.10".parse().unwrap();
    assert_eq!(named.choose("nas.local", 8080, [home]), Ok(vec![home]));
    assert_eq!(named.choose("nas.local.", 8080, [home]), Ok(vec![home]));
    let other = named.choose("nas.local", 80, [home]).unwrap_err();
    let words = "nas.local leads to 192.168.1.10, which is not public (a private network)";
    assert_eq!(other, Forbidden(words.to_owned()));
    assert!(named.choose("evil.example", 8080, [home]).is_err());
    for wrong in ["", "*", "*.local", "a b", "nas:0", "nas:99999", "http://nas", "nas/x", "u@nas"] {
        assert!(wrong.parse::<AllowedHost>().is_err(), "{wrong}");
    }
}

#[test]
fn a_global_address_of_this_machine_or_its_networks_is_refused() {
    let networks = || {
        Ok(vec![
            InterfaceNetwork { address: "9.9.9.7".parse().unwrap(), bits: 24 },
            InterfaceNetwork { address: "2a00:1450:4001::7".parse().unwrap(), bits: 64 },
            InterfaceNetwork { address: "1.1.1.1".parse().unwrap(), bits: u32::MAX },
            InterfaceNetwork { address: "8.8.8.8".parse().unwrap(), bits: 0 },
        ])
    };
    let gate = Gate::new(&["9.9.9.10:8080".parse().unwrap()]).with_networks(networks);
    let passes = |url: &str| gate.check(&Url::parse(url).unwrap()).is_ok();
    for own in [
        "http://9.9.9.7/",
        "https://9.9.9.1:8443/",
        "http://0x9090907/",
        "http://[2a00:1450:4001::1]/",
        "http://[2a00:1450:4001:0:ffff::1]/",
        "http://1.1.1.1/",
        "http://8.8.8.8/",
    ] {
        assert!(!passes(own), "{own}");
    }
    for other in
        ["http://9.9.8.7/", "http://1.1.1.2/", "http://8.8.8.9/", "http://[2a00:1450:4001:1::1]/"]
    {
        assert!(passes(other), "{other}");
    }
    assert!(passes("http://9.9.9.10:8080/"), "the owner has listed it");
    let by_name = gate.choose("some.example", 80, ["9.9.9.7".parse().unwrap()]);
    assert!(by_name.unwrap_err().to_string().contains("in its network"));
    let unknown = Gate::new(&[]).with_networks(|| Err(std::io::ErrorKind::Other.into()));
    let refused = unknown.check(&Url::parse("http://9.9.8.7/").unwrap());
    assert!(refused.unwrap_err().to_string().contains("cannot be read"));
}

#[test]
fn the_kernel_tells_the_networks_of_this_machine() {
    let networks = interfaces::networks().unwrap();
    let local = InterfaceNetwork { address: "127.0.0.1".parse().unwrap(), bits: 8 };
    assert!(networks.contains(&local), "{networks:?}");
}
