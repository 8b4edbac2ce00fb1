//! The server's side of TLS.

use std::io::{self, ErrorKind};
use std::net::TcpStream;

use rustc_hash::FxHashMap;
use tantalum_tls::PresharedKey;

use crate::authentication::{Secured, Tls};
use crate::wire::fabrics::DISCOVERY_NQN;

/// A connection with TLS.
pub(super) use tantalum_tls::Stream as Secure;

/// The keys of all hosts, for the subsystem and for discovery.
pub(super) struct Keys {
    keys: Vec<PresharedKey>,
    /// By identity.
    secured: FxHashMap<Vec<u8>, Secured>,
}

impl Keys {
    /// Those with a subsystem of this name.
    pub fn new(tls: &Tls, subsystem: &str) -> io::Result<Keys> {
        let (mut keys, mut by_identity) = (Vec::new(), FxHashMap::default());
        for (secured, derived) in tls.derive(&[subsystem, DISCOVERY_NQN]) {
            let key = derived.preshared();
            by_identity.insert(key.identity.clone(), secured);
            keys.push(key);
        }
        Ok(Keys { keys, secured: by_identity })
    }

    /// A connection on which TLS begins.
    pub fn accept(&self, socket: TcpStream) -> io::Result<Secure> {
        Secure::server(socket, &self.keys)
    }

    /// Between whom a connection is whose key has this identity.
    pub fn secured(&self, identity: &[u8]) -> io::Result<Secured> {
        self.secured.get(identity).cloned().ok_or_else(|| ErrorKind::PermissionDenied.into())
    }
}
