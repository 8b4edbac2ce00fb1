//! What a host may ask of a drive without a command. These calls take no time and are not counted.

use std::ops::ControlFlow;

use tantalum_ftl::{Footprint, Key, KvRecord, Lpn, NamespaceId, NamespaceInfo};
use tantalum_nand::UNIT_BYTES;

use crate::check::audit;
use crate::controller::{Device, Power};
use crate::lifecycle::DeviceError;

impl Device {
    /// Whether a unit is what a plain write of `data` leaves: mapped, reading as `data`, without metadata. It is not a
    /// command: it takes no time and counts nowhere. With it, a host can remember what it wrote without a second copy
    /// of the bytes.
    pub fn holds(&self, lpn: Lpn, data: &[u8; UNIT_BYTES]) -> bool {
        self.check_range(lpn, 1).is_ok() && self.engine().is_some_and(|engine| engine.holds(lpn, data))
    }

    /// Whether a unit is mapped or waits in the cache.
    pub fn is_mapped(&self, lpn: Lpn) -> bool {
        self.engine().is_some_and(|engine| engine.is_mapped(lpn))
    }

    /// How many units are mapped, not counting those that wait in the cache for the first time; 0 without power.
    pub fn mapped_units(&self) -> u64 {
        self.ftl().map_or(0, |ftl| ftl.map().mapped_units().into())
    }

    /// The key-value namespaces, in order of creation, except private ones; none without power.
    pub fn namespaces(&self) -> Vec<NamespaceInfo> {
        let all = self.ftl().into_iter().flat_map(|ftl| ftl.namespaces());
        all.filter(|info| !info.attributes.is_private).collect()
    }

    /// The number of the newest key-value namespace that ever existed, also if it was deleted; 0 if there was none, or without power.
    pub fn last_namespace(&self) -> u32 {
        self.ftl().map_or(0, |ftl| ftl.last_namespace())
    }

    /// The drive's own key-value namespaces ([`crate::NamespaceAttributes::is_private`]), in order of creation; none without power.
    pub fn private_namespaces(&self) -> Vec<NamespaceId> {
        let all = self.ftl().into_iter().flat_map(|ftl| ftl.namespaces());
        all.filter(|info| info.attributes.is_private).map(|info| info.namespace).collect()
    }

    /// The number of files that may have a list of what `fs_write` wrote, of files that have one, and of entries in all
    /// lists; zeros without power, and for a drive without lists.
    pub fn file_list_counts(&self) -> (u32, usize, usize) {
        self.ftl().map_or((0, 0, 0), |ftl| ftl.file_list_counts())
    }

    /// Whether a `put` of these records would wait for a full page in DRAM that a capacitor protects. Then it takes no
    /// page of its own, and two of them take no more than one `put` of all their records.
    pub fn put_waits(&self, records: &[KvRecord<'_>]) -> bool {
        self.ftl().is_some_and(|ftl| ftl.put_waits(records))
    }

    /// Whether records fit in addition to everything that is stored, even if they are put in parts. It is not a command: it
    /// takes no time and counts nowhere.
    pub fn has_room(&self, footprint: Footprint) -> bool {
        self.engine().is_some_and(|engine| engine.has_room(footprint))
    }

    /// How many chunks (64 of a unit) are free for records, with this many more entries of the index, when puts need them: then records
    /// that wait are programmed, and a checkpoint is taken if that releases enough. Less than none if more is stored than there is
    /// room for. It is not a command: it takes no time and counts nowhere. None without power.
    pub fn free_at_last(&self, entries: u64) -> Option<i64> {
        self.engine().map(|engine| engine.free_at_last(entries))
    }

    /// How many chunks (64 of a unit) are free for records, with this many more entries of the index, once groups of records are
    /// deleted, one after the other: before the first group, and after each. Less than none if more is stored than there is
    /// room for. No record may be in it twice. It is not a command: it takes no time and counts nowhere. None without power.
    pub fn free_without<'a>(
        &self,
        entries: u64,
        groups: impl Iterator<Item = &'a [(NamespaceId, Key)]>,
    ) -> Vec<i64> {
        self.engine().map_or_else(Vec::new, |engine| engine.free_without(entries, groups))
    }

    /// Buffers that hold nothing: neither a unit on flash nor one that waits. Each would be lost to the drive until power
    /// comes back. There are none between commands, unless a host fills some ([`Device::fills`]). None without power.
    pub fn stray_buffers(&self) -> u64 {
        self.engine().map_or(0, |engine| {
            let nand = engine.ftl.nand();
            u64::from(nand.slots_in_use() - nand.slots_on_flash()) - engine.waiting_units()
        })
    }

    /// Checks everything that the check of an image checks, except the image itself: the maps, and what they name on flash.
    /// Panics if there is a finding.
    ///
    /// # Errors
    /// If the drive cannot read its own flash.
    pub fn audit_flash(&mut self) -> Result<(), DeviceError> {
        let Power::On(engine) = &mut self.power else { return Ok(()) };
        let audit = audit(&mut engine.ftl, &mut |_, _| ControlFlow::Continue(()))?;
        let findings: Vec<String> = audit.findings().map(ToString::to_string).collect();
        assert!(findings.is_empty(), "the drive and its flash disagree: {}", findings.join("; "));
        Ok(())
    }

    /// Checks the invariants of the maps, and panics if one is broken.
    pub fn audit(&self) {
        if let Some(ftl) = self.ftl() {
            let audit = ftl.audit_maps();
            let findings: Vec<String> = audit.findings().map(ToString::to_string).collect();
            assert!(findings.is_empty(), "the maps disagree: {}", findings.join("; "));
        }
    }
}
