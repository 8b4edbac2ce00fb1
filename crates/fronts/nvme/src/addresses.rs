//! Addresses at which hosts reach a server.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;

/// The address that hosts are told in place of the one that the server knows, because they reach it by way of another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Advertised {
    ip: IpAddr,
    /// `None` for the port at which the server listens.
    port: Option<u16>,
}

/// A text that is not an address for hosts.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "{0:?} is not an address that hosts can connect to: it is like 192.0.2.7, 192.0.2.7:4420 or [2001:db8::7]:4420"
)]
pub struct AdvertisedError(String);

impl FromStr for Advertised {
    type Err = AdvertisedError;

    fn from_str(text: &str) -> Result<Advertised, AdvertisedError> {
        let without_brackets = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
        let parsed = match text.parse::<SocketAddr>() {
            Ok(address) => Some((address.ip(), Some(address.port()))),
            Err(_) => without_brackets.parse().ok().map(|ip| (ip, None)),
        };
        match parsed {
            Some((ip, port)) if !ip.is_unspecified() && port != Some(0) => Ok(Advertised { ip, port }),
            _ => Err(AdvertisedError(text.to_owned())),
        }
    }
}

impl fmt::Display for Advertised {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => SocketAddr::new(self.ip, port).fmt(formatter),
            None => self.ip.fmt(formatter),
        }
    }
}

impl Advertised {
    /// Whether it has a port of its own.
    pub fn has_port(self) -> bool {
        self.port.is_some()
    }

    /// The whole address, for a server that listens at this port.
    pub fn with_port(self, port: u16) -> SocketAddr {
        SocketAddr::new(self.ip, self.port.unwrap_or(port))
    }
}

/// The addresses at which hosts reach a server that listens at this one. One that stands for all of this machine's addresses
/// can be connected to by nobody: instead, those of its network interfaces, or the loopback address if it has no others.
pub fn reachable(listening: SocketAddr) -> Vec<SocketAddr> {
    if !listening.ip().is_unspecified() {
        return vec![listening];
    }
    let loopback: IpAddr = match listening {
        SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
        SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
    };
    let mut addresses = of_interfaces();
    addresses.retain(|address| listening.is_ipv6() || address.is_ipv4());
    if addresses.is_empty() {
        addresses.push(loopback);
    }
    assert!(
        addresses.iter().all(|address| !address.is_unspecified()),
        "hosts cannot connect to all of {addresses:?}, at which {listening} is reached"
    );
    addresses.into_iter().map(|address| SocketAddr::new(address, listening.port())).collect()
}

/// The addresses of the interfaces that are up, other than the loopback interface.
fn of_interfaces() -> Vec<IpAddr> {
    let is_up = |flags: InterfaceFlags| {
        flags.contains(InterfaceFlags::IFF_UP) && !flags.contains(InterfaceFlags::IFF_LOOPBACK)
    };
    let interfaces = getifaddrs().into_iter().flatten().filter(|interface| is_up(interface.flags));
    let addresses = interfaces.filter_map(|interface| {
        let address = interface.address?;
        let v4 = address.as_sockaddr_in().map(|address| IpAddr::V4(address.ip()));
        v4.or_else(|| address.as_sockaddr_in6().map(|address| IpAddr::V6(address.ip())))
    });
    // one that is valid on its link alone would need the name of the link
    addresses
        .filter(|address| !matches!(address, IpAddr::V6(address) if address.is_unicast_link_local()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_advertised_address_may_have_a_port() {
        let whole =
            |text: &str| text.parse::<Advertised>().map(|address| address.with_port(4420).to_string());
        for (text, expected) in [
            ("192.0.2.7", "192.0.2.7:4420"),
            ("192.0.2.7:1", "192.0.2.7:1"),
            ("2001:db8::7", "[2001:db8::7]:4420"),
            ("[2001:db8::7]", "[2001:db8::7]:4420"),
            ("[2001:db8::7]:1", "[2001:db8::7]:1"),
        ] {
            assert_eq!(whole(text), Ok(expected.to_owned()));
            assert_eq!(
                text.parse::<Advertised>().unwrap().to_string(),
                text.trim_matches(['[', ']']).replace("2001:db8::7]:1", "[2001:db8::7]:1")
            );
        }
        for text in [
            "",
            "host",
            "host:4420",
            "0.0.0.0",
            "0.0.0.0:4420",
            "[::]",
            "::",
            "192.0.2.7:0",
            "192.0.2.7:99999",
        ] {
            assert_eq!(whole(text), Err(AdvertisedError(text.to_owned())));
        }
    }

    #[test]
    fn an_address_for_all_interfaces_is_not_one_to_connect_to() {
        let one: SocketAddr = "127.0.0.1:4420".parse().unwrap();
        assert_eq!(reachable(one), [one]);
        for listening in ["0.0.0.0:4420", "[::]:4420"] {
            let listening: SocketAddr = listening.parse().unwrap();
            let addresses = reachable(listening);
            assert!(!addresses.is_empty());
            for address in addresses {
                assert!(!address.ip().is_unspecified() && address.port() == 4420, "{address}");
                assert!(address.is_ipv4() || listening.is_ipv6(), "{address}");
            }
        }
    }
}
