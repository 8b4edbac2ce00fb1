//! What the host's driver grants to processes and takes away from them.
//!
//! Invariant: once rights were taken away, no processor allows an access by them.

use std::ops::Range;

use tantalum::NamespaceId;

use crate::driver::PERMISSION_BYTES;
use crate::error::SpuError;
use crate::names::{ProcessId, SpuId};
use crate::packet::Load;
use crate::permission::Rights;
use crate::system::Ssd;

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
