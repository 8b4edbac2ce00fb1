//! What a killed process left in protected DRAM, dumped when the image is opened as the capacitor would have dumped it.

use std::collections::BTreeSet;

use tantalum_canaries::guard;
use tantalum_nand::{BlockId, Nand, UNIT_BYTES, UnitSpare, checksum_of};
use zerocopy::{FromBytes, IntoBytes};

use super::dump_pages::DumpPages;
use super::protected_layout::{
    HEAD_BYTES, Header, JournalHead, Places, UnitHead, damaged, read, read_header,
};
use super::record::{self, Record};
use crate::error::FtlError;
use crate::space::FtlConfig;
use crate::spare::{self, Kind, Spare};
use crate::types::{Lpn, Metadata, Seq};

/// Returns how many bytes of a unit have contents.
pub(super) type FilledBytes = fn(&Spare) -> usize;

/// What a killed process left behind.
pub(super) struct Left {
    dump_blocks: Vec<BlockId>,
    checkpoint_step: Seq,
    pub units: Vec<(UnitSpare, Vec<u8>)>,
    pub records: Vec<Record>,
}

impl Left {
    pub fn read(nand: &Nand, places: &Places, filled_bytes: FilledBytes) -> Result<Option<Left>, FtlError> {
        let Some(header) = read_header(nand)? else { return Ok(None) };
        let count = header.dump_blocks.get();
        if u64::from(count) * 4 > places.list_bytes {
            return Err(damaged("the number of dump blocks"));
        }
        let mut list = vec![0; count as usize * 4];
        nand.read_protected(places.list(header.epoch.get()), &mut list)?;
        if checksum_of(&list) != header.list_checksum.get() {
            return Err(damaged("the list of dump blocks"));
        }
        let (ids, _) = list.as_chunks();
        let dump_blocks: Vec<BlockId> = ids.iter().map(|id| BlockId(u32::from_le_bytes(*id))).collect();
        if dump_blocks.iter().any(|block| block.0 >= nand.geometry().blocks()) {
            return Err(damaged("a dump block"));
        }
        let mut units = Vec::new();
        let mut heads = vec![0; places.unit_count as usize * HEAD_BYTES as usize];
        nand.read_protected(places.heads, &mut heads)?;
        for (index, head) in (0..).zip(heads.chunks_exact(HEAD_BYTES as usize)) {
            units.extend(read_unit(nand, places, (index, head), &header, filled_bytes)?);
        }
        Ok(Some(Left {
            dump_blocks,
            checkpoint_step: Seq(header.checkpoint_step.get()),
            units,
            records: read_records(nand, places, header.epoch.get())?,
        }))
    }
}

fn read_unit(
    nand: &Nand,
    places: &Places,
    (index, head): (u32, &[u8]),
    header: &Header,
    filled_bytes: FilledBytes,
) -> Result<Option<(UnitSpare, Vec<u8>)>, FtlError> {
    let (head, _) = UnitHead::read_from_prefix(head).expect("a head is not larger than its place");
    if head.as_bytes().iter().all(|byte| *byte == 0) {
        return Ok(None);
    }
    if head.checksum.get() != head.checksum() {
        return Err(damaged("the head of a unit"));
    }
    // a process killed in the middle of taking units in has taken in none
    let entered = guard!(EntersInParts, head.entry.get() <= header.entries.get());
    if head.epoch.get() != header.epoch.get() || !entered {
        return Ok(None);
    }
    let spare = Spare::decode(&head.spare).ok_or_else(|| damaged("a unit"))?;
    let mut data = vec![0; UNIT_BYTES];
    nand.read_protected(places.unit(index), &mut data)?;
    data[filled_bytes(&spare)..].fill(0);
    if checksum_of(&data) != head.data_checksum.get() {
        return Err(damaged("a unit"));
    }
    Ok(Some((head.spare, data)))
}

fn read_records(nand: &Nand, places: &Places, epoch: u64) -> Result<Vec<Record>, FtlError> {
    let head: JournalHead = read(nand, places.journal)?;
    if head.as_bytes().iter().all(|byte| *byte == 0) {
        return Ok(Vec::new());
    }
    let most = record::records_per_page(nand.geometry().units_per_page());
    if head.checksum.get() != head.checksum() || head.records.get() as usize > most {
        return Err(damaged("the head of the journal"));
    }
    if head.epoch.get() != epoch {
        return Ok(Vec::new());
    }
    let mut bytes = vec![0; head.records.get() as usize * record::RECORD_BYTES];
    nand.read_protected(places.records(), &mut bytes)?;
    if checksum_of(&bytes) != head.records_checksum.get() {
        return Err(damaged("the journal"));
    }
    record::decode_records(&bytes).ok_or_else(|| damaged("a record"))
}

/// Dumps what a killed process left, as the capacitor would have. Returns the number of units that had been waiting. A
/// kill during this does no harm: what is already in the dump blocks is not dumped again.
pub(crate) fn dump_what_is_left(
    nand: &mut Nand,
    dump_blocks: u32,
    config: &FtlConfig,
    filled_bytes: FilledBytes,
) -> Result<u64, FtlError> {
    if !nand.outlives_process() || dump_blocks == 0 {
        return Ok(0);
    }
    let places = Places::new(nand.geometry(), dump_blocks, config);
    let Some(left) = Left::read(nand, &places, filled_bytes)? else { return Ok(0) };
    let dumped = Dumped::find(nand, &left.dump_blocks)?;
    let step = left.next_step();
    let restored = left.units.len() as u64;
    let mut dump = DumpPages::new(left.dump_blocks, config);
    for (mut bytes, data) in left.units {
        let spare = Spare::decode(&bytes).ok_or_else(|| damaged("a unit"))?;
        if dumped.units.contains(&identity(&spare)) {
            continue;
        }
        bytes[..8].copy_from_slice(&spare::head(step));
        let slot = nand.stage(&data)?;
        dump.push(nand, slot, bytes, 0)?;
    }
    dump.end_pages(nand, 0)?;
    if !dumped.journal {
        dump.push_records(nand, &left.records, step, 0)?;
    }
    Ok(restored)
}

impl Left {
    /// A step later than everything that was left and than the checkpoint.
    pub fn next_step(&self) -> Seq {
        let versions = self.units.iter().filter_map(|(bytes, _)| Spare::decode(bytes));
        let units = versions.map(|spare| spare.step);
        let newest = units.chain(self.records.iter().map(Record::newest_seq)).chain([self.checkpoint_step]);
        Seq(newest.max().unwrap_or_default().0 + 1)
    }
}

/// What an interrupted attempt has already dumped.
struct Dumped {
    units: BTreeSet<Identity>,
    journal: bool,
}

/// What identifies a unit: owners with versions, and for records the metadata, which also contain a version.
type Identity = (Vec<(Lpn, Seq)>, Metadata);

fn identity(spare: &Spare) -> Identity {
    (spare.owners().to_vec(), spare.metadata)
}

impl Dumped {
    fn find(nand: &Nand, blocks: &[BlockId]) -> Result<Dumped, FtlError> {
        let mut dumped = Dumped { units: BTreeSet::new(), journal: false };
        let mut scratch = Vec::new();
        for block in blocks {
            for spare in
                nand.block_spares(*block, &mut scratch)?.filter_map(|(_, spare)| Spare::decode(spare))
            {
                dumped.journal |= spare.kind == Kind::Journal;
                dumped.units.insert(identity(&spare));
            }
        }
        Ok(dumped)
    }
}
