//! Units of the block namespace as a tenant of the flash. Garbage collection copies them unchanged (`collect`).

use tantalum_nand::{Nanoseconds, Ppn};

use super::fold::UnitsFold;
use super::kept::{CHUNK_BYTES, HINT_BYTES, KeptChunks, OWNER_BYTES, UnitsKept, put_chunks};
use crate::error::FtlError;
use crate::findings::Audit;
use crate::map::{Claim, IN_SPARE, Living};
use crate::metadata::CheckpointBytes;
use crate::parts::Parts;
use crate::spare::{Kind, Mark, Spare};
use crate::tenants::{CheckpointReader, Tenant, TenantFold};
use crate::types::{Lpn, Seq};

/// See the head of this file.
pub(crate) struct Units;

impl Tenant for Units {
    fn has(&self, kind: Kind) -> bool {
        matches!(kind, Kind::Data | Kind::Transaction)
    }

    /// An atomic batch is acknowledged when it is on flash, and a page of a transaction by its commit.
    fn is_saved(&self, _parts: &Parts, spare: &Spare) -> bool {
        spare.kind == Kind::Data && !matches!(spare.mark, Mark::Batch(_))
    }

    fn write_checkpoint(
        &self,
        parts: &mut Parts,
        bytes: &mut CheckpointBytes,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, FtlError> {
        kept_lists(parts).encode_lists(bytes);
        // straight from the map: an intermediate copy would be just as large
        put_chunks(bytes, parts.map.touched_chunks(), parts.map.chunks(), &mut parts.nand)?;
        Ok(at_ns)
    }

    fn kept_bytes(&self, parts: &Parts) -> u64 {
        let owners = parts.map.claims().len() + parts.map.extra_owners();
        let bytes = parts.map.touched_chunks() * CHUNK_BYTES
            + owners * OWNER_BYTES
            + parts.tenants.units.logs.count() * HINT_BYTES;
        bytes as u64
    }

    fn fold(&self, kept: &mut CheckpointReader<'_>, step: Seq) -> Option<Box<dyn TenantFold>> {
        Some(Box::new(UnitsFold::new(step, UnitsKept::decode(kept)?)))
    }

    fn audit(&self, parts: &Parts, audit: &mut Audit) {
        parts.audit_owners(audit);
        parts.audit_hints(audit);
    }

    fn reserved_units(&self, parts: &Parts) -> u64 {
        // a cut may bring each of them home
        let homes =
            parts.tenants.units.logs.claimed_homes().filter(|home| parts.map.lookup(*home).is_none()).count();
        u64::from(parts.map.mapped_units()) + homes as u64
    }
}

/// All but the chunks.
fn kept_lists(parts: &mut Parts) -> UnitsKept {
    let mut versions = Vec::new();
    for (_, claim) in parts.map.claims() {
        if let Claim::Owners(owners) = claim {
            versions.extend(owners.iter().filter(|(_, version)| *version != IN_SPARE));
        }
    }
    versions.sort_unstable();
    parts.tenants.units.logs.forget_needless(&mut parts.map);
    let living = parts.tenants.units.logs.living().map(|(lpn, living)| (lpn, *living, parts.map.lookup(lpn)));
    let waiting = parts.tenants.units.logs.waiting().map(|(lpn, waiting)| (lpn, *waiting, None));
    let mut hints: Vec<(Lpn, Living, Option<Ppn>)> = living.chain(waiting).collect();
    hints.sort_unstable_by_key(|(lpn, living, _)| (*lpn, living.version));
    UnitsKept {
        last_unmap: parts.tenants.units.last_unmap,
        versions,
        runs: parts.tenants.units.logs.runs(),
        hints,
        chunks: KeptChunks::default(),
    }
}

#[cfg(test)]
mod tests {
    use tantalum_nand::{Nand, UNIT_BYTES};

    use super::*;
    use crate::ftl::Ftl;
    use crate::host_unit::HostUnit;
    use crate::spare::BatchMark;
    use crate::test_support::{CONFIG, GEOMETRY, TIMING};
    use crate::types::{Hint, ShareRange};

    fn ftl() -> Ftl {
        Ftl::format(Nand::in_memory(GEOMETRY, TIMING).unwrap(), CONFIG).unwrap()
    }

    /// What was not acknowledged is not dumped: the capacitor has no energy for it.
    #[test]
    fn members_and_pages_of_transactions_are_not_saved() {
        let (ftl, batch) = (ftl(), Mark::Batch(BatchMark { id: Seq(1), index: 0, count: 2 }));
        let is_saved = |(kind, mark)| {
            let mut spare = Spare::new(kind, Seq(5));
            spare.mark = mark;
            Units.is_saved(&ftl, &spare)
        };
        let spares = [
            (Kind::Data, Mark::Plain),
            (Kind::Data, batch),
            (Kind::Transaction, Mark::Plain),
            (Kind::Transaction, batch),
        ];
        assert_eq!(spares.map(is_saved), [true, false, false, false]);
    }

    /// A cut may give a unit to a home that has none yet.
    #[test]
    fn homes_that_a_cut_would_map_are_reserved_and_hints_are_kept() {
        let mut ftl = ftl();
        let (generation, _) = ftl.begin_log(0).unwrap().expect("no log is open");
        for (slot, home) in [(1, 50), (2, 51), (3, 101)] {
            let home = Some(Lpn(home));
            let hint = Hint { generation, attempt: 0, start: 1, first: 1, slot, end: false, home };
            let (lpn, version) = (Lpn(100 + slot), ftl.next_seq());
            let slot = ftl.nand_mut().stage(&[1; UNIT_BYTES]).unwrap();
            ftl.write_page(&[HostUnit { slot, lpn, version, metadata: [0; 24], hint: Some(hint) }], 0)
                .unwrap();
            ftl.accept_hint(&hint);
        }
        assert_eq!(Units.reserved_units(&ftl), 3 + 2, "three pages, and two homes that are not mapped");
        // a checkpoint has the chunk of the map, and a hint for each page
        assert_eq!(Units.kept_bytes(&ftl), (CHUNK_BYTES + 3 * HINT_BYTES) as u64);
        // and two owners of the unit that is shared
        ftl.share(&[ShareRange { dst: Lpn(60), src: Lpn(101), units: 1 }], 0).unwrap();
        assert_eq!(Units.kept_bytes(&ftl), (CHUNK_BYTES + 3 * HINT_BYTES + 2 * OWNER_BYTES) as u64);
    }

    /// A page that waits in the cache claims its home: a claim that the checkpoint does not have would not count.
    #[test]
    fn a_checkpoint_has_hints_of_pages_that_wait() {
        let mut ftl = ftl();
        let (generation, _) = ftl.begin_log(0).unwrap().expect("no log is open");
        let hint =
            Hint { generation, attempt: 0, start: 1, first: 1, slot: 1, end: true, home: Some(Lpn(50)) };
        let version = ftl.next_seq();
        let slot = ftl.nand_mut().stage(&[1; UNIT_BYTES]).unwrap();
        let unit = HostUnit { slot, lpn: Lpn(100), version, metadata: [0; 24], hint: Some(hint) };
        ftl.accept_hint(&hint);
        ftl.unit_cached(&unit, None);
        let hints = kept_lists(&mut ftl).hints;
        assert_eq!(hints, [(Lpn(100), Living { hint, version }, None)]);
    }
}
