//! The host's driver: it decides which permissions processors get, and keeps the book of them.

use std::ops::Range;

use tantalum::{NamespaceId, Nanoseconds};

use crate::agenda::What;
use crate::error::SpuError;
use crate::message::HEADER_BYTES;
use crate::names::{ProcessId, SpuId};
use crate::packet::{Load, Miss};
use crate::permission::Rights;
use crate::system::Ssd;

/// What the host's driver takes to decide about a permission: a chosen constant.
const DRIVER_NS: Nanoseconds = 2_000;
/// Bytes of a permission that the driver installs.
const PERMISSION_BYTES: u64 = 32;

impl Ssd {
    /// Gives a process rights to a range, instead of those it had there; [`Rights::NONE`] takes them away. The driver
    /// keeps them in its book, and installs them in the processors.
    pub fn grant(&mut self, process: ProcessId, range: Range<u64>, rights: Rights) -> Result<(), SpuError> {
        self.check_power()?;
        let overlaps = |region: &Range<u64>| region.start < range.end && range.start < region.end;
        let reason = if process.is_kernel() {
            Some("the kernel has all rights")
        } else if !self.host.is_alive(process) {
            Some("there is no such process")
        } else if range.is_empty() || range.end > self.stripes.capacity_bytes() {
            Some("it is empty, or ends beyond the drive")
        } else if self.programs.values().filter_map(|program| program.region.as_ref()).any(overlaps) {
            Some("a part of it is a program's own")
        } else {
            None
        };
        if let Some(reason) = reason {
            return Err(SpuError::NotGrantable { start: range.start, end: range.end, reason });
        }
        self.host.book.install(process, range.clone(), rights);
        self.send_permission(process, &range, rights);
        Ok(())
    }

    /// Takes the rights to a range away from every process. When this returns, no processor allows an access by them any more,
    /// and stores that were not committed do not happen.
    pub fn revoke(&mut self, range: &Range<u64>) {
        // without power nobody is allowed anything
        if self.check_power().is_err() {
            self.host.book.remove_range(range);
            return;
        }
        for process in self.host.book.holders(range) {
            self.host.book.install(process, range.clone(), Rights::NONE);
            self.send_permission(process, range, Rights::NONE);
        }
        // a permission that is on its way arrives before
        while self.revoking > 0 && self.advance().is_some() {}
    }

    /// Lets a process read a key-value namespace.
    pub fn grant_namespace(&mut self, process: ProcessId, namespace: NamespaceId) {
        if self.host.is_alive(process) {
            self.host.namespaces.insert((process, namespace));
        }
    }

    /// A processor asks the driver for a permission.
    pub(crate) fn miss(&mut self, miss: Miss) {
        let spu = miss.spu;
        self.dispatch_packet(Some(spu), None, HEADER_BYTES, Load::Miss(miss), self.now_ns);
    }

    /// The driver has heard that a permission is missing.
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

    /// The driver sends a permission to the processors that own a part of the range.
    fn send_permission(&mut self, process: ProcessId, range: &Range<u64>, rights: Rights) {
        let rows = (range.end - range.start).div_ceil(self.stripes.row_bytes());
        let whole = rows > 1 || range.end - range.start > self.stripes.row_bytes();
        let mut owners: Vec<SpuId> = match whole {
            true => (0..self.profile.count).map(SpuId).collect(),
            false => self.stripes.pieces(range.clone()).map(|(spu, _)| spu).collect(),
        };
        owners.sort_unstable();
        owners.dedup();
        for spu in owners {
            self.revoking += usize::from(rights == Rights::NONE);
            let load = Load::Permission { process, range: range.clone(), rights, answers: None };
            self.dispatch_packet(None, Some(spu), PERMISSION_BYTES, load, self.now_ns);
        }
    }
}
