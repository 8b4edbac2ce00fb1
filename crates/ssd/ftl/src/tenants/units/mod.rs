//! Units of the block namespace: what hosts read and write by logical page number.
//!
//! The map says where they are. [`Units`] has what else is known of them: which pages of hinted logs claim homes, and which
//! belong to open transactions. `step` has the commands that change the map and write no data. Garbage collection copies units
//! unchanged (`collect`).

mod fold;
mod kept;
mod step;

use tantalum_canaries::guard;
use tantalum_nand::{Geometry, Nand, Ppn, Slot};

pub(crate) use self::fold::{UnitsFold, UnitsFound};
use self::kept::{CHUNK_BYTES, HINT_BYTES, put_chunks};
pub(crate) use self::kept::{KeptChunks, OWNER_BYTES, UnitsKept};
pub use self::step::ShareRefusal;
pub(crate) use self::step::{MapStep, check_share};
use crate::error::FtlError;
use crate::findings::{Audit, Finding};
use crate::host_unit::HostUnit;
use crate::map::{Claim, EndedClaim, HintError, IN_SPARE, Living, Logs, Map, Transactions, TxPage};
use crate::metadata::{CheckpointBytes, Record};
use crate::spare::{Kind, Mark, Spare};
use crate::types::{Generation, Hint, Lpn, Numbers, Seq, TxId};

/// What the drive keeps of units beyond the map.
#[derive(Clone, Debug, Default)]
pub(crate) struct Units {
    /// Hinted logs.
    logs: Logs,
    /// Open transactions.
    transactions: Transactions,
    /// The newest version at which anything was unmapped.
    last_unmap: Seq,
}

impl Units {
    /// The hinted logs.
    pub fn logs(&self) -> &Logs {
        &self.logs
    }

    /// The open transactions.
    pub fn transactions(&self) -> &Transactions {
        &self.transactions
    }

    // -- hinted logs --------------------------------------------------------------------------------------------

    /// Opens a hinted log.
    pub fn begin_log(&mut self, generation: Generation) {
        self.logs.begin(generation);
    }

    /// Forgets a hinted log without living hints, right after a checkpoint. False if there is none.
    pub fn forget_idle_log(&mut self) -> bool {
        self.logs.forget_idle()
    }

    /// A checkpoint stands that has what recovery found of hinted logs.
    pub fn forget_logs(&mut self) {
        self.logs = Logs::default();
    }

    /// Checks that a hinted page follows the previous one.
    pub fn check_hint(&self, hint: &Hint) -> Result<(), HintError> {
        self.logs.check(hint)
    }

    /// The drive has accepted a hinted page, into its cache or on flash.
    pub fn accept_hint(&mut self, hint: &Hint) {
        self.logs.accept(hint);
    }

    /// A unit now waits in the cache, and an earlier one for the same logical page no longer does.
    #[inline]
    pub fn unit_cached(&mut self, map: &mut Map, unit: &HostUnit, replaced: Option<&HostUnit>) {
        if replaced.is_some_and(|replaced| replaced.hint.is_some()) {
            self.logs.unit_dropped(map, unit.lpn);
        }
        if let Some(hint) = unit.hint {
            self.logs.unit_cached(map, unit.lpn, hint, unit.version);
        }
    }

    /// A unit no longer waits in the cache: it is dropped because something newer replaced it.
    pub fn unit_dropped(&mut self, map: &mut Map, unit: &HostUnit) {
        if unit.hint.is_some() {
            self.logs.unit_dropped(map, unit.lpn);
        }
    }

    /// Claims that this many log pages may end.
    #[inline]
    pub fn claims_of(&self, units: usize) -> usize {
        units.min(self.logs.count())
    }

    /// Whether a unit holds a log page that claims its home.
    pub fn is_claiming_page(&self, map: &Map, lpn: Lpn) -> bool {
        map.is_hinted(lpn) && self.logs.hint(lpn).is_some_and(|living| living.hint.home.is_some())
    }

    /// `lpn` takes `version`, which ends older claims to it. If it held a log page that claimed a home, the returned
    /// record ends that claim, because the page may be read again after a cut, on flash or through a checkpoint. The
    /// record belongs to the step or the program that gives `lpn` something else.
    pub fn superseded(
        &mut self,
        map: &mut Map,
        numbers: &mut Numbers,
        lpn: Lpn,
        version: Seq,
    ) -> Option<Record> {
        let ended = self.logs.superseded(map, lpn, version)?;
        let EndedClaim { home, version } = ended;
        guard!(ClaimNotEnded, Some(Record::ClaimEnded { home, version, step: numbers.draw() }))
    }

    /// Units were programmed: ends the hints that they supersede, and begins those that they carry. Returns the records of the
    /// former.
    pub fn programmed(&mut self, map: &mut Map, numbers: &mut Numbers, units: &[HostUnit]) -> Vec<Record> {
        let mut ended = Vec::new();
        for unit in units {
            if map.is_hinted(unit.lpn) {
                ended.extend(self.superseded(map, numbers, unit.lpn, unit.version));
            }
            if let Some(hint) = unit.hint {
                self.logs.programmed(map, unit.lpn, hint, unit.version);
            }
        }
        ended
    }

    /// The log page of a unit with this spare area and these owners, if its hint lives.
    pub fn living_log_page(&self, spare: &Spare, owners: &[(Lpn, Seq)]) -> Option<Lpn> {
        let Mark::Hint(hint, log_lpn) = spare.mark else { return None };
        let living = self.logs.hint(log_lpn)?;
        let is_owner = owners.iter().any(|owner| owner.0 == log_lpn);
        (is_owner && living.hint.is_same_page(&hint)).then_some(log_lpn)
    }

    /// How far a log is whole: each attempt with its last slot.
    pub fn whole_run(&mut self, generation: Generation) -> Vec<(u32, u32)> {
        self.logs.whole_run(generation)
    }

    // -- transactions -------------------------------------------------------------------------------------------

    /// Opens a transaction.
    pub fn begin_transaction(&mut self, tx: TxId) {
        self.transactions.begin(tx);
    }

    /// A unit of an open transaction was programmed at a place, at a step that is its version.
    pub fn transaction_programmed(
        &mut self,
        (map, nand): (&mut Map, &Nand),
        &(tx, lpn, _): &(TxId, Lpn, Slot),
        ppn: Ppn,
        step: Seq,
    ) {
        let over = whereabouts(map, nand, lpn);
        map.claim(ppn, Claim::Transaction(tx, lpn));
        if let Some(old) = self.transactions.put(tx, lpn, TxPage { ppn, version: step, over }) {
            map.unclaim(old);
        }
    }

    /// Garbage collection moved a unit of an open transaction.
    pub fn transaction_moved(&mut self, map: &mut Map, (tx, lpn): (TxId, Lpn), from: Ppn, to: Ppn) {
        let claim = map.unclaim(from);
        map.claim(to, claim);
        self.transactions.moved(tx, lpn, to);
    }

    /// Drops a transaction's pages.
    pub fn abort(&mut self, map: &mut Map, tx: TxId) {
        let pages = self.transactions.take(tx).expect("the transaction is open");
        pages.values().for_each(|page| drop(map.unclaim(page.ppn)));
    }

    // -- checkpoint, dump, capacity -----------------------------------------------------------------------------

    /// After recovery: an unmapping may have been lost that a transaction's version must not pass. All transactions are over
    /// anyway.
    pub fn last_unmapped_at(&mut self, version: Seq) {
        self.last_unmap = version;
    }

    /// Whether a unit lost on its way to flash was acknowledged as durable and exists nowhere else. What garbage
    /// collection was moving is still at its old place. An atomic batch is acknowledged when it is on flash, and a page of a
    /// transaction by its commit.
    pub fn is_saved(spare: &Spare) -> bool {
        spare.kind == Kind::Data && !matches!(spare.mark, Mark::Batch(_))
    }

    /// Appends the contents of a checkpoint.
    pub fn write_checkpoint(
        &mut self,
        map: &mut Map,
        nand: &mut Nand,
        bytes: &mut CheckpointBytes,
    ) -> Result<(), FtlError> {
        self.kept_lists(map).encode_lists(bytes);
        // straight from the map: an intermediate copy would be just as large
        put_chunks(bytes, map.touched_chunks(), map.chunks(), nand)
    }

    /// The current number of these bytes.
    pub fn kept_bytes(&self, map: &Map) -> u64 {
        let owners = map.claims().len() + map.extra_owners();
        let bytes =
            map.touched_chunks() * CHUNK_BYTES + owners * OWNER_BYTES + self.logs.count() * HINT_BYTES;
        bytes as u64
    }

    /// Units of the drive's capacity that they take, also after a cut, which may bring pages of logs home.
    pub fn reserved_units(&self, map: &Map) -> u64 {
        let homes = self.logs.claimed_homes().filter(|home| map.lookup(*home).is_none()).count();
        u64::from(map.mapped_units()) + homes as u64
    }

    /// All that a checkpoint has but the chunks.
    fn kept_lists(&mut self, map: &mut Map) -> UnitsKept {
        let mut versions = Vec::new();
        for (_, claim) in map.claims() {
            if let Claim::Owners(owners) = claim {
                versions.extend(owners.iter().filter(|(_, version)| *version != IN_SPARE));
            }
        }
        versions.sort_unstable();
        self.logs.forget_needless(map);
        let living = self.logs.living().map(|(lpn, living)| (lpn, *living, map.lookup(lpn)));
        let waiting = self.logs.waiting().map(|(lpn, waiting)| (lpn, *waiting, None));
        let mut hints: Vec<(Lpn, Living, Option<Ppn>)> = living.chain(waiting).collect();
        hints.sort_unstable_by_key(|(lpn, living, _)| (*lpn, living.version));
        UnitsKept {
            last_unmap: self.last_unmap,
            versions,
            runs: self.logs.runs(),
            hints,
            chunks: KeptChunks::default(),
        }
    }

    /// Compares L2P with P2L, and the hints with both.
    pub fn audit(&self, map: &Map, geometry: &Geometry, audit: &mut Audit) {
        map.audit_owners(geometry, audit);
        audit.hints = self.logs.count() as u64;
        let mut wrong = |lpn, wrong| audit.map_findings.push(Finding::Hint { lpn, wrong });
        for (lpn, _) in self.logs.living() {
            if !map.is_hinted(lpn) {
                wrong(lpn, "its hint lives, but L2P does not say so");
            }
            if map.lookup(lpn).is_none() {
                wrong(lpn, "its hint lives, but it is not mapped");
            }
        }
        for (lpn, page) in self.logs.living().chain(self.logs.waiting()) {
            let Some(home) = page.hint.home else { continue };
            if !map.is_hinted(home) || !self.logs.claims(home, lpn, page.version) {
                wrong(lpn, "its hint claims a home that does not know the claim");
            }
        }
        for lpn in map.touched().flatten().map(Lpn).filter(|lpn| map.is_hinted(*lpn)) {
            if self.logs.hint(lpn).is_none() && !self.logs.is_claimed(lpn) {
                wrong(lpn, "L2P says that a hint refers to it, but none does");
            }
        }
    }

    /// What is wrong with the spare area at the place of a logical page, if anything. It names a plain owner. It may name one with
    /// a claim, and then at no newer version: anything beyond that comes from the journal or a checkpoint.
    pub fn audit_spare(&self, map: &Map, lpn: Lpn, ppn: Ppn, spare: Option<&Spare>) -> Option<&'static str> {
        let Some(spare) = spare else { return Some("makes no sense") };
        if !matches!(spare.kind, Kind::Data | Kind::Transaction) {
            return Some("says that it holds no data");
        }
        let claimed = map.owners(ppn).into_iter().find(|owner| owner.0 == lpn).and_then(|owner| owner.1);
        match (claimed, spare.version_of(lpn)) {
            (None, None) => return Some("does not name the unit"),
            (Some(claimed), Some(named)) if claimed < named => {
                return Some("names the unit at a newer version");
            }
            _ => {}
        }
        let has = |hint: Hint| match spare.mark {
            Mark::Hint(named, log_lpn) => {
                let claims = hint.home.is_none() || hint.home == named.home;
                log_lpn == lpn && hint.is_same_page(&named) && claims
            }
            _ => false,
        };
        let is_missing = self.logs.hint(lpn).is_some_and(|living| !has(living.hint));
        is_missing.then_some("does not have the hint that lives")
    }
}

/// Where a logical page is, and how often that block has been erased: if both are the same later, so is the
/// version.
fn whereabouts(map: &Map, nand: &Nand, lpn: Lpn) -> Option<(Ppn, u32)> {
    let ppn = map.lookup(lpn)?;
    Some((ppn, nand.erase_count(nand.geometry().block_of_unit(ppn))))
}

#[cfg(test)]
mod tests {
    use tantalum_nand::{Nand, UNIT_BYTES};

    use super::*;
    use crate::control::Ftl;
    use crate::host_unit::HostUnit;
    use crate::placement::Handle;
    use crate::spare::BatchMark;
    use crate::test_support::{CONFIG, GEOMETRY, TIMING};
    use crate::types::{Hint, ShareRange};

    fn ftl() -> Ftl {
        Ftl::format(Nand::in_memory(GEOMETRY, TIMING).unwrap(), CONFIG).unwrap()
    }

    /// What was not acknowledged is not dumped: the capacitor has no energy for it.
    #[test]
    fn members_and_pages_of_transactions_are_not_saved() {
        let batch = Mark::Batch(BatchMark { id: Seq(1), index: 0, count: 2 });
        let is_saved = |(kind, mark)| {
            let mut spare = Spare::new(kind, Seq(5));
            spare.mark = mark;
            Units::is_saved(&spare)
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
            ftl.write_page(
                &[HostUnit {
                    slot,
                    lpn,
                    version,
                    metadata: [0; 24],
                    hint: Some(hint),
                    handle: Handle::DEFAULT,
                }],
                0,
            )
            .unwrap();
            ftl.accept_hint(&hint);
        }
        assert_eq!(
            ftl.units().reserved_units(ftl.map()),
            3 + 2,
            "three pages, and two homes that are not mapped"
        );
        // a checkpoint has the chunk of the map, and a hint for each page
        assert_eq!(ftl.units().kept_bytes(ftl.map()), (CHUNK_BYTES + 3 * HINT_BYTES) as u64);
        // and two owners of the unit that is shared
        ftl.share(&[ShareRange { dst: Lpn(60), src: Lpn(101), units: 1 }], 0).unwrap();
        assert_eq!(
            ftl.units().kept_bytes(ftl.map()),
            (CHUNK_BYTES + 3 * HINT_BYTES + 2 * OWNER_BYTES) as u64
        );
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
        let unit = HostUnit {
            slot,
            lpn: Lpn(100),
            version,
            metadata: [0; 24],
            hint: Some(hint),
            handle: Handle::DEFAULT,
        };
        ftl.accept_hint(&hint);
        ftl.unit_cached(&unit, None);
        let (units, map) = ftl.units_and_map();
        let hints = units.kept_lists(map).hints;
        assert_eq!(hints, [(Lpn(100), Living { hint, version }, None)]);
    }
}
