//! The ports of a subsystem: where it listens, and how well hosts reach its namespaces through each (asymmetric namespace access; Base
//! 2.1, section 8.1.1). All namespaces are one group. With a single port, hosts are told nothing of this, but a port that is not
//! accessible refuses commands all the same.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::atomic::{AtomicU8, Ordering};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::failure::Failure;

/// The most ports of a subsystem.
pub const MOST_PORTS: usize = 16;

/// The group of all namespaces (`ANAGRPID`).
pub const GROUP: u32 = 1;

/// The most seconds that a change of access takes (`ANATT`). It is done at once: a port stays in [`PortAccess::Change`] until somebody sets
/// another one.
pub const TRANSITION_SECONDS: u8 = 60;

/// How well hosts reach the namespaces through a port. The numbers are the standard's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum PortAccess {
    /// The best way.
    #[default]
    Optimized = 0x01,
    /// A way that is used if there is no better one.
    NonOptimized = 0x02,
    /// Commands are refused, and may be sent another way.
    Inaccessible = 0x03,
    /// The same, and another state follows soon.
    Change = 0x0f,
}

/// A text that is no access.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0:?} is no access of a port: it is optimized, non-optimized, inaccessible or change")]
pub struct AccessError(String);

/// A change of a port that does not exist.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("there is no port {port}: the drive is served at ports 1 to {ports}")]
pub struct NoPort {
    /// The port.
    pub port: u16,
    /// How many there are.
    pub ports: usize,
}

/// A port.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Port {
    /// Its number (`PORTID`), from 1.
    pub port: u16,
    /// Where it listens.
    pub address: SocketAddr,
    /// How well hosts reach the namespaces through it.
    pub access: PortAccess,
    /// How often that has changed.
    pub changes: u64,
}

/// The ports of a subsystem. Before it listens, and for connections without a socket, there is one that is not listed.
#[derive(Default)]
pub struct Ports {
    all: Mutex<Vec<Port>>,
    /// Whether commands are refused, and with which access, by port less one; 0 if they are not.
    refusing: [AtomicU8; MOST_PORTS],
}

impl PortAccess {
    /// All of them.
    pub const ALL: [PortAccess; 4] =
        [PortAccess::Optimized, PortAccess::NonOptimized, PortAccess::Inaccessible, PortAccess::Change];

    fn text(self) -> &'static str {
        match self {
            PortAccess::Optimized => "optimized",
            PortAccess::NonOptimized => "non-optimized",
            PortAccess::Inaccessible => "inaccessible",
            PortAccess::Change => "change",
        }
    }

    /// Why commands are refused, if they are: a host may send them another way (Base 2.1, section 4.2.3.4).
    fn refusal(self) -> Option<Failure> {
        match self {
            PortAccess::Optimized | PortAccess::NonOptimized => None,
            PortAccess::Inaccessible => Some(Failure::ACCESS_INACCESSIBLE),
            PortAccess::Change => Some(Failure::ACCESS_TRANSITION),
        }
    }
}

impl fmt::Display for PortAccess {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text().fmt(formatter)
    }
}

impl FromStr for PortAccess {
    type Err = AccessError;

    fn from_str(text: &str) -> Result<PortAccess, AccessError> {
        let access = PortAccess::ALL.into_iter().find(|access| access.text() == text);
        access.ok_or_else(|| AccessError(text.to_owned()))
    }
}

impl Ports {
    /// The subsystem listens at these addresses from now on, in the order of the ports' numbers.
    pub fn open(&self, ports: &[(SocketAddr, PortAccess)]) {
        assert!(ports.len() <= MOST_PORTS, "a subsystem has {} ports", ports.len());
        let mut all = self.all.lock();
        all.clear();
        for (port, (address, access)) in (1..).zip(ports) {
            all.push(Port { port, address: *address, access: *access, changes: 0 });
            self.refuse(port, *access);
        }
    }

    /// All of them, by number.
    pub fn all(&self) -> Vec<Port> {
        self.all.lock().clone()
    }

    /// Whether there are several, so that hosts are told how well they reach the namespaces through each.
    pub fn are_several(&self) -> bool {
        self.all.lock().len() > 1
    }

    /// The port with this number.
    pub fn port(&self, port: u16) -> Option<Port> {
        self.all.lock().iter().find(|there| there.port == port).copied()
    }

    /// Sets how well hosts reach the namespaces through a port. Returns whether it was otherwise.
    pub fn set(&self, port: u16, access: PortAccess) -> Result<bool, NoPort> {
        let mut all = self.all.lock();
        let ports = all.len();
        let there = all.iter_mut().find(|there| there.port == port).ok_or(NoPort { port, ports })?;
        if there.access == access {
            return Ok(false);
        }
        (there.access, there.changes) = (access, there.changes + 1);
        self.refuse(port, access);
        Ok(true)
    }

    fn refuse(&self, port: u16, access: PortAccess) {
        let refusing = if access.refusal().is_some() { access as u8 } else { 0 };
        self.refusing[usize::from(port) - 1].store(refusing, Ordering::Release);
    }

    /// Refuses commands for namespaces through a port that is not accessible.
    #[inline]
    pub fn check(&self, port: u16) -> Result<(), Failure> {
        match self.refusing[usize::from(port) - 1].load(Ordering::Acquire) {
            0 => Ok(()),
            refusing => Err(refused(refusing)),
        }
    }
}

#[cold]
fn refused(refusing: u8) -> Failure {
    let access = PortAccess::ALL.into_iter().find(|access| *access as u8 == refusing);
    access.and_then(PortAccess::refusal).unwrap_or(Failure::ACCESS_INACCESSIBLE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_refuses_commands_while_it_is_not_accessible() {
        let (ports, at) = (Ports::default(), |port| SocketAddr::from(([127, 0, 0, 1], port)));
        assert_eq!((ports.check(1), ports.are_several(), ports.all()), (Ok(()), false, vec![]));
        ports.open(&[(at(4420), PortAccess::Optimized), (at(4421), PortAccess::Inaccessible)]);
        assert_eq!((ports.check(1), ports.check(2)), (Ok(()), Err(Failure::ACCESS_INACCESSIBLE)));
        assert_eq!(
            (ports.set(1, PortAccess::Change), ports.set(2, PortAccess::NonOptimized)),
            (Ok(true), Ok(true))
        );
        assert_eq!((ports.check(1), ports.check(2)), (Err(Failure::ACCESS_TRANSITION), Ok(())));
        assert_eq!(ports.set(2, PortAccess::NonOptimized), Ok(false), "it is so already");
        assert_eq!(ports.all().iter().map(|port| port.changes).collect::<Vec<_>>(), [1, 1]);
        let refused = ports.set(3, PortAccess::Optimized).unwrap_err();
        assert_eq!(refused.to_string(), "there is no port 3: the drive is served at ports 1 to 2");
    }

    #[test]
    fn accesses_have_the_numbers_of_the_standard_and_are_read_as_they_are_written() {
        assert_eq!(PortAccess::ALL.map(|access| access as u8), [1, 2, 3, 0xf]);
        for access in PortAccess::ALL {
            assert_eq!(access.to_string().parse(), Ok(access));
            assert_eq!(serde_json::to_string(&access).unwrap(), format!("\"{access}\""));
        }
        assert!("lost".parse::<PortAccess>().unwrap_err().to_string().starts_with("\"lost\" is no access"));
    }
}
