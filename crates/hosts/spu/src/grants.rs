//! Granting rights to processes, and revoking them.
//!
//! Invariant: after a revocation no processor allows an access by the revoked rights.

use std::ops::Range;

use tantalum::NamespaceId;

use crate::driver::PERMISSION_BYTES;
use crate::error::SpuError;
use crate::names::{ProcessId, SpuId};
use crate::packet::Load;
use crate::permission::Rights;
use crate::system::Ssd;

impl Ssd {
    /// Gives a process rights to a range, replacing those that it had there; [`Rights::NONE`] revokes them. The driver
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

    /// Revokes the rights of every process to a range. When this returns, no processor allows an access by them any more, and
    /// uncommitted stores are discarded.
    pub fn revoke(&mut self, range: &Range<u64>) {
        // without power the processors hold no permissions
        if self.check_power().is_err() {
            self.host.book.remove_range(range);
            return;
        }
        for process in self.host.book.holders(range) {
            self.host.book.install(process, range.clone(), Rights::NONE);
            self.send_permission(process, range, Rights::NONE);
        }
        // packets arrive in order, so a permission still on its way arrives before its revocation
        while self.revoking > 0 && self.advance().is_some() {}
    }

    /// Lets a process read a key-value namespace.
    pub fn grant_namespace(&mut self, process: ProcessId, namespace: NamespaceId) {
        if self.host.is_alive(process) {
            self.host.namespaces.insert((process, namespace));
        }
    }

    /// Sends a permission to the processors that own a part of the range.
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
