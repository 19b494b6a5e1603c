//! Classification of addresses that are not part of the public internet.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Non-public ranges with descriptions. The first match counts.
const V4: &[(Ipv4Addr, u32, &str)] = &[
    (Ipv4Addr::new(169, 254, 169, 254), 32, "a cloud's metadata service"),
    (Ipv4Addr::new(169, 254, 170, 2), 32, "a cloud's metadata service"),
    (Ipv4Addr::new(100, 100, 100, 200), 32, "a cloud's metadata service"),
    (Ipv4Addr::new(168, 63, 129, 16), 32, "a cloud's metadata service"),
    (Ipv4Addr::new(192, 0, 0, 192), 32, "a cloud's metadata service"),
    (Ipv4Addr::new(255, 255, 255, 255), 32, "broadcast"),
    (Ipv4Addr::new(0, 0, 0, 0), 8, "this machine or network"),
    (Ipv4Addr::new(10, 0, 0, 0), 8, "private"),
    (Ipv4Addr::new(100, 64, 0, 0), 10, "a carrier's own"),
    (Ipv4Addr::new(127, 0, 0, 0), 8, "loopback"),
    (Ipv4Addr::new(169, 254, 0, 0), 16, "link-local"),
    (Ipv4Addr::new(172, 16, 0, 0), 12, "private"),
    (Ipv4Addr::new(192, 0, 0, 0), 24, "reserved for protocols"),
    (Ipv4Addr::new(192, 0, 2, 0), 24, "for documentation"),
    (Ipv4Addr::new(192, 88, 99, 0), 24, "a 6to4 relay"),
    (Ipv4Addr::new(192, 168, 0, 0), 16, "private"),
    (Ipv4Addr::new(198, 18, 0, 0), 15, "for benchmarks"),
    (Ipv4Addr::new(198, 51, 100, 0), 24, "for documentation"),
    (Ipv4Addr::new(203, 0, 113, 0), 24, "for documentation"),
    (Ipv4Addr::new(224, 0, 0, 0), 4, "multicast"),
    (Ipv4Addr::new(240, 0, 0, 0), 4, "reserved"),
];

/// Non-public ranges of IPv6. Everything outside `GLOBAL_UNICAST` is not public either.
const V6: &[(Ipv6Addr, u32, &str)] = &[
    (v6(0, 0, 0, 0), 128, "unspecified"),
    (Ipv6Addr::LOCALHOST, 128, "loopback"),
    (Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254), 128, "a cloud's metadata service"),
    (v6(0x64, 0xff9b, 1, 0), 48, "a local NAT64"),
    (v6(0xfc00, 0, 0, 0), 7, "private"),
    (v6(0xfe80, 0, 0, 0), 10, "link-local"),
    (v6(0xfec0, 0, 0, 0), 10, "site-local"),
    (v6(0xff00, 0, 0, 0), 8, "multicast"),
    (v6(0x2001, 2, 0, 0), 48, "for benchmarks"),
    (v6(0x2001, 0x10, 0, 0), 28, "no address of a machine"),
    (v6(0x2001, 0x20, 0, 0), 28, "no address of a machine"),
    (v6(0x2001, 0xdb8, 0, 0), 32, "for documentation"),
    (v6(0x3fff, 0, 0, 0), 20, "for documentation"),
];
const GLOBAL_UNICAST: (Ipv6Addr, u32) = (v6(0x2000, 0, 0, 0), 3);

const fn v6(a: u16, b: u16, c: u16, d: u16) -> Ipv6Addr {
    Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0)
}

/// Describes an address that is not a public address of a single machine.
pub(super) fn non_public_kind(address: IpAddr) -> Option<String> {
    match address {
        IpAddr::V4(address) => non_public_v4(address).map(str::to_owned),
        IpAddr::V6(address) => non_public_v6(address),
    }
}

fn non_public_v4(address: Ipv4Addr) -> Option<&'static str> {
    let bits = u32::from(address);
    let is_in =
        |net: Ipv4Addr, length: u32| (bits ^ u32::from(net)).checked_shr(32 - length).unwrap_or(0) == 0;
    V4.iter().find(|(net, length, _)| is_in(*net, *length)).map(|(.., what)| *what)
}

fn non_public_v6(address: Ipv6Addr) -> Option<String> {
    let is_in = |net: Ipv6Addr, length: u32| {
        (u128::from(address) ^ u128::from(net)).checked_shr(128 - length).unwrap_or(0) == 0
    };
    if let Some((.., what)) = V6.iter().find(|(net, length, _)| is_in(*net, *length)) {
        return Some((*what).to_owned());
    }
    let inside = embedded_v4(address);
    for address in &inside {
        if let Some(what) = non_public_v4(*address) {
            return Some(format!("{what}, with {address} inside"));
        }
    }
    // Addresses that lead to a public IPv4 address are public: mapped ones, and those of NAT64.
    let is_translated =
        !inside.is_empty() && (is_in(v6(0x64, 0xff9b, 0, 0), 96) || address.to_ipv4_mapped().is_some());
    (!is_translated && !is_in(GLOBAL_UNICAST.0, GLOBAL_UNICAST.1)).then(|| "no global unicast".to_owned())
}

/// Lists the IPv4 addresses that packets to this address may reach.
fn embedded_v4(address: Ipv6Addr) -> Vec<Ipv4Addr> {
    let s = address.segments();
    let v4 = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match s {
        // compatible, mapped, translated
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low] | [0, 0, 0, 0, 0xffff, 0, high, low] => vec![v4(high, low)],
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => vec![v4(high, low)],
        [0x2002, high, low, ..] => vec![v4(high, low)],
        // Teredo: the server's, and the client's with inverted bits
        [0x2001, 0, high, low, _, _, client_high, client_low] => {
            vec![v4(high, low), v4(!client_high, !client_low)]
        }
        // ISATAP
        [_, _, _, _, 0 | 0x200, 0x5efe, high, low] => vec![v4(high, low)],
        _ => Vec::new(),
    }
}
