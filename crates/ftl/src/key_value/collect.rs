//! Garbage collection over records: those of a victim that are in use are packed into new units.
//!
//! A record is copied as it is: its version stays (hazard 6), the unit takes a new step. A tombstone is in use until a
//! checkpoint says what it says.

use tantalum_nand::{NandError, Nanoseconds, Ppn, Source, UNIT_BYTES};

use super::key::RecordPlace;
use super::record::{self, HEADER_BYTES, Header, UnitImage, bytes_of, records, weight};
use crate::canary::{self, Guard};
use crate::error::FtlError;
use crate::ftl::Ftl;
use crate::spare::Spare;
use crate::types::Seq;

/// A record on its way, with its first chunk in the new unit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MovingRecord {
    header: Header,
    from: RecordPlace,
    chunk: u8,
}

/// Records being packed, across units and victims.
#[derive(Debug)]
pub(crate) struct Packing {
    image: UnitImage,
    records: Vec<MovingRecord>,
    /// When all of them have been read, and so are on flash. A put of several records may be on its way, and a copy of
    /// one of them must not be there before it.
    ready_ns: Nanoseconds,
}

/// A unit that is full, or the last one.
pub(crate) struct PackedUnit {
    pub source: Source,
    pub spare: Spare,
    pub records: Vec<MovingRecord>,
    /// When it may be programmed.
    pub ready_ns: Nanoseconds,
}

impl Packing {
    pub fn new() -> Packing {
        Packing { image: UnitImage::new(), records: Vec::new(), ready_ns: 0 }
    }

    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }
}

impl Ftl {
    /// Packs the records of a unit that are in use. What does not fit the unit being filled goes to the next one; then
    /// the full one comes back.
    pub(crate) fn pack_records(
        &mut self,
        ppn: Ppn,
        packing: &mut Packing,
        step: Seq,
        at_ns: Nanoseconds,
    ) -> Result<Option<PackedUnit>, FtlError> {
        let mut unit = [0; UNIT_BYTES];
        let read_ns = match self.nand.read_retrying(ppn, &mut unit, at_ns) {
            Ok(read_ns) => read_ns,
            // they are lost, and stay where they are
            Err(NandError::Uncorrectable { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let damaged = || FtlError::Damaged(format!("records of unit {ppn}"));
        let spare = Spare::decode(&self.nand.spare(ppn)?).ok_or_else(damaged)?;
        let mut full = None;
        for (place, header) in records(&unit, record::ends(&spare), ppn).ok_or_else(damaged)? {
            if !self.is_in_use(&header, place) {
                continue;
            }
            if !packing.image.has_room(place.chunks) {
                full = Some(self.take_packed(packing, step)?);
            }
            let (chunk, to) = packing.image.push(place.chunks);
            to.copy_from_slice(bytes_of(&unit, place));
            if canary::out(Guard::RecordTakesNewVersion) {
                let value = to[HEADER_BYTES..][..usize::from(header.value_bytes)].to_vec();
                Header { version: self.next_seq(), ..header }.write(&value, to);
            }
            packing.ready_ns = packing.ready_ns.max(read_ns);
            packing.records.push(MovingRecord { header, from: place, chunk });
        }
        Ok(full)
    }

    /// The unit being filled, as far as it is.
    pub(crate) fn take_packed(&mut self, packing: &mut Packing, step: Seq) -> Result<PackedUnit, FtlError> {
        let source = Source::Staged(self.nand.stage(&packing.image.bytes)?);
        let spare = record::spare(step, packing.image.ends, None, true);
        packing.image.clear();
        let ready_ns = std::mem::take(&mut packing.ready_ns);
        Ok(PackedUnit { source, spare, records: std::mem::take(&mut packing.records), ready_ns })
    }

    fn is_in_use(&self, header: &Header, place: RecordPlace) -> bool {
        if header.tombstone {
            return self.key_value.tombstones.get(&(header.namespace, header.key)) == Some(&place);
        }
        let namespace = self.key_value.namespaces.get(&header.namespace);
        namespace.is_some_and(|namespace| namespace.index.names(header.hash(), place))
    }

    /// Packed records are at a new place.
    pub(crate) fn move_records(&mut self, records: &[MovingRecord], to: Ppn) {
        for &MovingRecord { header, from, chunk } in records {
            let place = RecordPlace { ppn: to, chunk, chunks: from.chunks };
            if header.tombstone {
                self.key_value.tombstones.insert((header.namespace, header.key), place);
            } else {
                self.namespace_mut(header.namespace).index.relocate(header.hash(), from, place);
            }
            self.map.remove_record(from.ppn, weight(from.chunks));
            self.map.add_record(to, weight(from.chunks));
        }
    }
}
