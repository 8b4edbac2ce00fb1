//! Garbage collection of records: those of a victim that are in use are packed into new units.
//!
//! A record is copied unchanged: its version stays (hazard 6), and the unit takes a new step. A tombstone is in use
//! until a checkpoint covers it.

use tantalum_nand::{NandError, Nanoseconds, Ppn, UNIT_BYTES};

use super::record::RecordPlace;
use super::record::{self, HEADER_BYTES, Header, TENANT, UnitImage, bytes_of, records, weight};
use crate::canary::{self, Guard};
use crate::error::{Damage, FtlError};
use crate::parts::Parts;
use crate::space::Target;
use crate::spare::Spare;
use crate::tenants::{PackedUnit, Packer};
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
struct RecordsUnit {
    /// Its destination.
    target: Target,
    image: UnitImage,
    records: Vec<MovingRecord>,
    /// When all of them have been read, and so are on flash. A put of several records may be in flight, and a copy of
    /// one of them must not reach flash before it.
    ready_ns: Nanoseconds,
}

impl PackedUnit for RecordsUnit {
    fn target(&self) -> Target {
        self.target
    }

    fn ready_ns(&self) -> Nanoseconds {
        self.ready_ns
    }

    fn bytes(&self) -> &[u8] {
        &self.image.bytes
    }

    fn spare(&self, step: Seq) -> Spare {
        record::spare(step, self.image.ends, None, true)
    }

    fn moved(&self, parts: &mut Parts, to: Ppn) {
        parts.move_records(&self.records, to);
    }
}

/// Records being packed, across units and victims. Any two of the units being filled for one stream hold more than one
/// unit's worth, so that packing gains what the weights of records promise.
#[derive(Debug, Default)]
pub(crate) struct Packing {
    open: Vec<RecordsUnit>,
}

/// Units that are filled at the same time for one stream.
const OPEN_UNITS: usize = 4;

impl Packing {
    /// The unit in which a record of this many chunks leaves the least room. If a unit must make way for a new one, it
    /// is the fullest.
    fn unit_for(&mut self, target: Target, chunks: u8, full: &mut Vec<RecordsUnit>) -> &mut RecordsUnit {
        let fullest = |fits: &dyn Fn(&RecordsUnit) -> bool| {
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
        self.open.push(RecordsUnit { target, image: UnitImage::new(), records: Vec::new(), ready_ns: 0 });
        self.open.last_mut().expect("it was just pushed")
    }
}

impl Packer for Packing {
    fn pack(
        &mut self,
        parts: &mut Parts,
        ppn: Ppn,
        at_ns: Nanoseconds,
    ) -> Result<Vec<Box<dyn PackedUnit>>, FtlError> {
        Ok(boxed(parts.pack_records(ppn, self, at_ns)?))
    }

    fn open_units(&self) -> usize {
        self.open.len()
    }

    fn take_open(&mut self) -> Vec<Box<dyn PackedUnit>> {
        boxed(std::mem::take(&mut self.open))
    }
}

fn boxed(units: Vec<RecordsUnit>) -> Vec<Box<dyn PackedUnit>> {
    units.into_iter().map(|unit| Box::new(unit) as Box<dyn PackedUnit>).collect()
}

impl Parts {
    /// Packs the records of a unit that are in use. Returns the units that are full.
    fn pack_records(
        &mut self,
        ppn: Ppn,
        packing: &mut Packing,
        at_ns: Nanoseconds,
    ) -> Result<Vec<RecordsUnit>, FtlError> {
        let mut unit = [0; UNIT_BYTES];
        let read_ns = match self.nand.read_in_background(ppn, &mut unit, at_ns) {
            Ok(read_ns) => read_ns,
            // lost records stay where they are
            Err(NandError::Uncorrectable { .. }) => {
                self.space.note_loss_in(self.geometry.block_of_unit(ppn));
                return Ok(Vec::new());
            }
            Err(error) => return Err(error.into()),
        };
        let damaged = || FtlError::from(Damage::Records { ppn });
        let spare = Spare::decode(&self.nand.spare(ppn)?).ok_or_else(damaged)?;
        let found = records(&unit, record::ends(&spare), ppn).ok_or_else(damaged)?;
        let loaded_ns = self.load_indexes(found.iter().map(|(_, header)| header.namespace), at_ns)?;
        let read_ns = read_ns.max(loaded_ns);
        let mut full = Vec::new();
        for (place, header) in found {
            if !self.is_in_use(&header, place) {
                continue;
            }
            let target = self.space.copies_of(header.namespace);
            let packed = packing.unit_for(target, place.chunks, &mut full);
            let (chunk, to) = packed.image.push(place.chunks);
            to.copy_from_slice(bytes_of(&unit, place));
            if canary::out(Guard::RecordTakesNewVersion) {
                let value = to[HEADER_BYTES..][..usize::from(header.value_bytes)].to_vec();
                Header { version: self.next_seq(), ..header }.write(&value, to);
            }
            packed.ready_ns = packed.ready_ns.max(read_ns);
            packed.records.push(MovingRecord { header, from: place, chunk });
        }
        Ok(full)
    }

    fn is_in_use(&self, header: &Header, place: RecordPlace) -> bool {
        if header.tombstone {
            return self.tenants.records.tombstones.get(&(header.namespace, header.key)) == Some(&place);
        }
        let namespace = self.tenants.records.namespaces.get(&header.namespace);
        namespace.is_some_and(|namespace| namespace.index.get().names(header.hash(), place))
    }

    /// Packed records are at a new place.
    fn move_records(&mut self, records: &[MovingRecord], to: Ppn) {
        for &MovingRecord { header, from, chunk } in records {
            let place = RecordPlace { ppn: to, chunk, chunks: from.chunks };
            if header.tombstone {
                self.tenants.records.tombstones.insert((header.namespace, header.key), place);
            } else {
                self.namespace_mut(header.namespace).index.get_mut().relocate(header.hash(), from, place);
            }
            self.map.remove_packed(from.ppn, weight(from.chunks));
            self.map.add_packed(TENANT, to, weight(from.chunks));
        }
    }
}
