//! Garbage collection of records: those of a victim that are in use are packed into new units.
//!
//! A record is copied unchanged: its version stays (hazard 6), and the unit takes a new step. A tombstone is in use
//! until a checkpoint covers it.

use tantalum_canaries::guard;
use tantalum_nand::{Nanoseconds, Ppn, UNIT_BYTES};

use super::Records;
use super::record::RecordPlace;
use super::record::{self, Header, TENANT, UnitImage, bytes_of, records, weight};
use crate::error::{Damage, FtlError};
use crate::map::Map;
use crate::metadata::MetadataLog;
use crate::reads::Reads;
use crate::space::Target;
use crate::spare::Spare;
use crate::types::Seq;

/// A record in transit, with its first chunk in the new unit.
#[derive(Clone, Copy, Debug)]
struct MovingRecord {
    header: Header,
    from: RecordPlace,
    chunk: u8,
}

/// A unit of records in transit.
#[derive(Debug)]
pub(crate) struct PackedRecords {
    /// Its destination.
    target: Target,
    image: UnitImage,
    records: Vec<MovingRecord>,
    /// When all of them have been read, and so are on flash. A put of several records may be in flight, and a copy of
    /// one of them must not reach flash before it.
    ready_ns: Nanoseconds,
}

impl PackedRecords {
    /// Its destination.
    pub fn target(&self) -> Target {
        self.target
    }

    /// When all of it has been read.
    pub fn ready_ns(&self) -> Nanoseconds {
        self.ready_ns
    }

    /// Its data, a unit.
    pub fn bytes(&self) -> &[u8] {
        &self.image.bytes
    }

    /// Its spare area.
    pub fn spare(&self, step: Seq) -> Spare {
        record::spare(step, self.image.ends, None, true)
    }
}

/// Records being packed, across units and victims. Any two of the units being filled for one stream hold more than one
/// unit's worth, so that packing gains what the weights of records promise.
#[derive(Debug, Default)]
pub(crate) struct Packing {
    open: Vec<PackedRecords>,
}

/// Units that are filled at the same time for one stream.
const OPEN_UNITS: usize = 4;

impl Packing {
    /// The unit in which a record of this many chunks leaves the least room. If a unit must make way for a new one, it
    /// is the fullest.
    fn unit_for(&mut self, target: Target, chunks: u8, full: &mut Vec<PackedRecords>) -> &mut PackedRecords {
        let fullest = |fits: &dyn Fn(&PackedRecords) -> bool| {
            let units = self.open.iter().enumerate().filter(|(_, unit)| unit.target == target && fits(unit));
            units.max_by_key(|(_, unit)| unit.image.used()).map(|(index, _)| index)
        };
        if let Some(index) = fullest(&|unit| unit.image.has_room(chunks)) {
            return &mut self.open[index];
        }
        if self.open.iter().filter(|unit| unit.target == target).count() == OPEN_UNITS
            && let Some(index) = fullest(&|_| true)
        {
            full.push(self.open.remove(index));
        }
        self.open.push(PackedRecords { target, image: UnitImage::new(), records: Vec::new(), ready_ns: 0 });
        self.open.last_mut().expect("it was just pushed")
    }

    /// How many units are partly filled.
    pub fn open_units(&self) -> usize {
        self.open.len()
    }

    /// The partly filled units.
    pub fn take_open(&mut self) -> Vec<PackedRecords> {
        std::mem::take(&mut self.open)
    }
}

impl Records {
    /// Packs the records of a unit that are in use. Returns the units that this fills.
    pub fn pack(
        &mut self,
        ppn: Ppn,
        packing: &mut Packing,
        log: &MetadataLog,
        reads: &mut Reads<'_>,
        at_ns: Nanoseconds,
    ) -> Result<Vec<PackedRecords>, FtlError> {
        let mut unit = [0; UNIT_BYTES];
        // lost records stay where they are
        let Some(read_ns) = reads.read_in_background(ppn, &mut unit, at_ns)? else { return Ok(Vec::new()) };
        let damaged = || FtlError::from(Damage::Records { ppn });
        let spare = Spare::decode(&reads.nand.spare(ppn)?).ok_or_else(damaged)?;
        let found = records(&unit, record::ends(&spare), ppn).ok_or_else(damaged)?;
        let namespaces = found.iter().map(|(_, header)| header.namespace);
        let loaded_ns = self.load_indexes(namespaces, log, reads.nand, reads.counters, at_ns)?;
        let read_ns = read_ns.max(loaded_ns);
        let mut full = Vec::new();
        for (place, header) in found {
            if !self.is_in_use(&header, place) {
                continue;
            }
            let target = reads.space.copies_of(header.namespace);
            let packed = packing.unit_for(target, place.chunks, &mut full);
            let (chunk, to) = packed.image.push(place.chunks);
            to.copy_from_slice(bytes_of(&unit, place));
            guard!(RecordTakesNewVersion(header, to));
            packed.ready_ns = packed.ready_ns.max(read_ns);
            packed.records.push(MovingRecord { header, from: place, chunk });
        }
        Ok(full)
    }

    fn is_in_use(&self, header: &Header, place: RecordPlace) -> bool {
        if header.tombstone {
            return self.tombstones.get(&(header.namespace, header.key)) == Some(&place);
        }
        let namespace = self.namespaces.get(&header.namespace);
        namespace.is_some_and(|namespace| namespace.index.get().names(header.hash(), place))
    }

    /// Packed records have a place, and no longer occupy the old ones.
    pub fn moved(&mut self, packed: &PackedRecords, to: Ppn, map: &mut Map) {
        for &MovingRecord { header, from, chunk } in &packed.records {
            let place = RecordPlace { ppn: to, chunk, chunks: from.chunks };
            if header.tombstone {
                self.tombstones.insert((header.namespace, header.key), place);
            } else {
                self.namespace_mut(header.namespace).index.get_mut().relocate(header.hash(), from, place);
            }
            map.remove_packed(from.ppn, weight(from.chunks));
            map.add_packed(TENANT, to, weight(from.chunks));
        }
    }
}
