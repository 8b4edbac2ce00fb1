//! The host's driver, which decides about the permissions that processors request, according to its book
//! ([`Host`](crate::host::Host)).

use tantalum::Nanoseconds;

use crate::agenda::What;
use crate::message::HEADER_BYTES;
use crate::packet::{Load, Miss};
use crate::system::Ssd;

/// How long the host's driver takes to decide about a permission: a chosen constant.
const DRIVER_NS: Nanoseconds = 2_000;
/// Bytes of a permission that the driver installs.
pub(crate) const PERMISSION_BYTES: u64 = 32;

impl Ssd {
    /// A processor asks the driver for a permission.
    pub(crate) fn miss(&mut self, miss: Miss) {
        let spu = miss.spu;
        self.dispatch_packet(Some(spu), None, HEADER_BYTES, Load::Miss(miss), self.now_ns);
    }

    /// The driver learns that a permission is missing.
    pub(crate) fn hear_of_miss(&mut self, miss: Miss) {
        self.arrange(self.now_ns + DRIVER_NS, What::Decide(miss));
    }

    pub(crate) fn decide(&mut self, miss: Miss) {
        let process = miss.endpoint.process();
        match self.host.resolve(process, &miss.range, miss.rights) {
            Some((range, rights)) => {
                let spu = miss.spu;
                let load = Load::Permission { process, range, rights, answers: Some(miss) };
                self.dispatch_packet(None, Some(spu), PERMISSION_BYTES, load, self.now_ns);
            }
            None => self.host.tell(miss.told(false, self.now_ns)),
        }
    }
}
