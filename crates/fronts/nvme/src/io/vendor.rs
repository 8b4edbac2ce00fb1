//! Vendor commands on the namespace with blocks: what the drive does beyond the standard. docs/nvme.md has their fields.
//!
//! Units of 4 KiB are named by their numbers, whatever the size of a logical block.

use std::ops;

use tantalum::{Generation, Hint, Lpn, METADATA_BYTES, ShareRange, TxId, UNIT_BYTES};
use tantalum_drive::{InReply, Output, Request, When};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::key_value::existing_records_of;
use super::part::Part;
use super::transfer::{TRANSFER_BYTES, Transfer};
use super::work::Worked;
use crate::blocks::{BlockSpace, SECTOR_BYTES};
use crate::failure::Failure;
use crate::mailbox::Answer;
use crate::namespaces::{Namespaces, Target};
use crate::wire::command::Submission;
use crate::wire::opcode::vendor as opcode;

const UNIT: u32 = UNIT_BYTES as u32;

/// "No home" in [`HintedPage::home`].
const NO_HOME: u32 = u32::MAX;

/// A range to share or move: the first unit on either side.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Range {
    /// Where the mapping goes.
    pub to: U32,
    /// Where it is.
    pub from: U32,
    /// How many units.
    pub units: U32,
    reserved: U32,
}

/// The descriptor before the data of a page of a hinted log.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct HintedPage {
    /// The log's generation, as BeginLog returned it.
    pub generation: U64,
    /// The attempt.
    pub attempt: U32,
    /// The slot at which it starts.
    pub start: U32,
    /// The first slot of the transaction.
    pub first: U32,
    /// The page's slot.
    pub slot: U32,
    /// 1 if the page ends its transaction.
    pub end: U32,
    /// Where it belongs; FFFFFFFFh if nowhere yet.
    pub home: U32,
    /// Its metadata.
    pub metadata: [u8; METADATA_BYTES],
    reserved: [u8; 8],
}

/// A vendor command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum VendorCommand {
    /// Shares ranges: their number, and whether the share becomes durable only with the next flush.
    Share(u32, bool),
    /// Moves mappings: from, to, and the number of units.
    Remap(u32, u32, u32),
    /// Writes scattered units, all or nothing; their number.
    WriteAtomic(u32),
    /// Begins a transaction; the completion names it.
    Begin,
    /// Writes a unit in a transaction.
    TxWrite(u32, u64),
    /// Reads a unit as a transaction sees it.
    TxRead(u32, u64),
    /// Commits a transaction.
    Commit(u64),
    /// Aborts a transaction.
    Abort(u64),
    /// Begins a hinted log; the completion names its generation.
    BeginLog,
    /// Writes a page of a hinted log.
    WriteHinted(u32),
    /// Writes scattered units and puts records, all or nothing; the number of units, and the total bytes.
    WriteBatch(u32, u32),
}

impl Range {
    /// A range.
    pub fn new(to: u32, from: u32, units: u32) -> Range {
        Range { to: to.into(), from: from.into(), units: units.into(), reserved: 0.into() }
    }
}

impl HintedPage {
    /// The descriptor before a page.
    pub fn new(hint: &Hint, metadata: [u8; METADATA_BYTES]) -> HintedPage {
        HintedPage {
            generation: hint.generation.0.into(),
            attempt: hint.attempt.into(),
            start: hint.start.into(),
            first: hint.first.into(),
            slot: hint.slot.into(),
            end: u32::from(hint.end).into(),
            home: hint.home.map_or(NO_HOME, |home| home.0).into(),
            metadata,
            reserved: [0; 8],
        }
    }

    pub(crate) fn hint(&self) -> Hint {
        let home = self.home.get();
        Hint {
            generation: Generation(self.generation.get()),
            attempt: self.attempt.get(),
            start: self.start.get(),
            first: self.first.get(),
            slot: self.slot.get(),
            end: self.end.get() != 0,
            home: (home != NO_HOME).then_some(Lpn(home)),
        }
    }
}

impl VendorCommand {
    /// Reads a command's fields.
    pub fn decode(command: &Submission) -> Result<VendorCommand, Failure> {
        let unit = command.dword(10);
        let transaction = u64::from(command.dword(15)) << 32 | u64::from(command.dword(14));
        let count = (command.dword(12) & 0xffff) + 1;
        let fits = |bytes: u32| if bytes > TRANSFER_BYTES { Err(Failure::INVALID_FIELD) } else { Ok(()) };
        let decoded = match command.opcode {
            opcode::SHARE => {
                fits(count * size_of::<Range>() as u32)?;
                VendorCommand::Share(count, command.bit(12, 31))
            }
            opcode::REMAP => VendorCommand::Remap(unit, command.dword(11), command.dword(12)),
            opcode::WRITE_ATOMIC => {
                fits(unit_bytes(count))?;
                VendorCommand::WriteAtomic(count)
            }
            opcode::BEGIN => VendorCommand::Begin,
            opcode::TX_WRITE => VendorCommand::TxWrite(unit, transaction),
            opcode::TX_READ => VendorCommand::TxRead(unit, transaction),
            opcode::COMMIT => VendorCommand::Commit(transaction),
            opcode::ABORT => VendorCommand::Abort(transaction),
            opcode::BEGIN_LOG => VendorCommand::BeginLog,
            opcode::WRITE_HINTED => VendorCommand::WriteHinted(unit),
            opcode::WRITE_BATCH => {
                let bytes = command.dword(10);
                fits(bytes)?;
                if bytes < unit_bytes(count) {
                    return Err(Failure::INVALID_FIELD);
                }
                VendorCommand::WriteBatch(count, bytes)
            }
            _ => return Err(Failure::INVALID_OPCODE),
        };
        Ok(decoded)
    }

    /// The data that it moves.
    pub fn transfer(&self) -> Transfer {
        match *self {
            VendorCommand::Share(count, _) => Transfer::FromHost(count * size_of::<Range>() as u32),
            VendorCommand::WriteAtomic(count) => Transfer::FromHost(unit_bytes(count)),
            VendorCommand::WriteBatch(_, bytes) => Transfer::FromHost(bytes),
            VendorCommand::TxWrite(..) => Transfer::FromHost(UNIT),
            VendorCommand::TxRead(..) => Transfer::ToHost(UNIT),
            VendorCommand::WriteHinted(_) => Transfer::FromHost(size_of::<HintedPage>() as u32 + UNIT),
            VendorCommand::Remap(..)
            | VendorCommand::Begin
            | VendorCommand::Commit(_)
            | VendorCommand::Abort(_)
            | VendorCommand::BeginLog => Transfer::None,
        }
    }

    /// Executes it on the drive.
    pub fn work(
        self,
        part: Part<'_>,
        target: &Target,
        namespaces: &Namespaces,
        when: When,
        data: Vec<u8>,
    ) -> Worked {
        if let Some(transaction) = self.transaction() {
            namespaces.check_transaction(transaction, target)?;
        }
        let request = self.request(part.space, namespaces, data)?;
        if let Some(marks) = part.uncorrectable()
            && units_of(&request).into_iter().any(|(lpn, units)| marks.touches(sectors_of(lpn, units)))
        {
            return Err(Failure::UNREADABLE);
        }
        let reply = part.perform(request, when)?;
        let done_ns = reply.done_ns;
        let result = match reply.output {
            Output::Transaction(tx) => {
                namespaces.add_transaction(tx.0, target);
                tx.0
            }
            Output::Log(generation) => generation.0,
            _ => 0,
        };
        if let VendorCommand::Commit(transaction) | VendorCommand::Abort(transaction) = self {
            namespaces.end_transaction(transaction);
        }
        Ok((Answer { data: reply.into_data(), result, ..Answer::default() }, done_ns))
    }

    /// The transaction that it names.
    fn transaction(&self) -> Option<u64> {
        match *self {
            VendorCommand::TxWrite(_, tx)
            | VendorCommand::TxRead(_, tx)
            | VendorCommand::Commit(tx)
            | VendorCommand::Abort(tx) => Some(tx),
            _ => None,
        }
    }

    /// The drive's command: units of the namespace become units of the drive.
    fn request(self, space: &BlockSpace, namespaces: &Namespaces, data: Vec<u8>) -> Result<Request, Failure> {
        let unit = |unit: u32| space.unit(Lpn(unit), 1);
        Ok(match self {
            VendorCommand::Share(_, deferred) => {
                let ranges = ranges_of(&data)?.into_iter().map(|range| there(space, range));
                Request::Share { ranges: ranges.collect::<Result<_, _>>()?, deferred }
            }
            VendorCommand::Remap(from, to, units) => {
                let ShareRange { dst, src, units } =
                    there(space, ShareRange { dst: Lpn(to), src: Lpn(from), units })?;
                Request::Remap { src, dst, units }
            }
            VendorCommand::WriteAtomic(count) => {
                Request::WriteAtomic { writes: placed(space, writes_of(count, &data)?)? }
            }
            VendorCommand::WriteBatch(count, _) => {
                let (units, records) = data.split_at(unit_bytes(count) as usize);
                let records = existing_records_of(records, namespaces)?;
                Request::WriteBatch { writes: placed(space, writes_of(count, units)?)?, records }
            }
            VendorCommand::Begin => Request::Begin { tx: InReply },
            VendorCommand::TxWrite(lpn, tx) => Request::TxWrite { tx: TxId(tx), lpn: unit(lpn)?, data },
            VendorCommand::TxRead(lpn, tx) => {
                Request::TxRead { tx: TxId(tx), lpn: unit(lpn)?, data: InReply }
            }
            VendorCommand::Commit(tx) => Request::Commit { tx: TxId(tx) },
            VendorCommand::Abort(tx) => Request::Abort { tx: TxId(tx) },
            VendorCommand::BeginLog => Request::BeginLog { generation: InReply },
            VendorCommand::WriteHinted(lpn) => {
                let (page, data) = HintedPage::ref_from_prefix(&data).map_err(|_| Failure::INVALID_FIELD)?;
                let hint = page.hint();
                let home = hint.home.map(|home| unit(home.0)).transpose()?;
                let (data, metadata) = (data.to_vec(), page.metadata);
                Request::WriteHinted { lpn: unit(lpn)?, data, metadata, hint: Hint { home, ..hint } }
            }
        })
    }
}

/// The units of the drive that a request names.
fn units_of(request: &Request) -> Vec<(Lpn, u32)> {
    match request {
        Request::Share { ranges, .. } => {
            ranges.iter().flat_map(|range| [(range.dst, range.units), (range.src, range.units)]).collect()
        }
        Request::Remap { src, dst, units } => vec![(*src, *units), (*dst, *units)],
        Request::WriteAtomic { writes } | Request::WriteBatch { writes, .. } => {
            writes.iter().map(|(lpn, _)| (*lpn, 1)).collect()
        }
        Request::TxWrite { lpn, .. } | Request::TxRead { lpn, .. } => vec![(*lpn, 1)],
        Request::WriteHinted { lpn, hint, .. } => {
            [Some(*lpn), hint.home].into_iter().flatten().map(|lpn| (lpn, 1)).collect()
        }
        _ => Vec::new(),
    }
}

/// The drive's sectors of 512 bytes in these units.
fn sectors_of(lpn: Lpn, units: u32) -> ops::Range<u64> {
    let per_unit = (UNIT_BYTES / SECTOR_BYTES) as u64;
    u64::from(lpn.0) * per_unit..(u64::from(lpn.0) + u64::from(units)) * per_unit
}

/// Where a range of the namespace is on the drive.
fn there(space: &BlockSpace, ShareRange { dst, src, units }: ShareRange) -> Result<ShareRange, Failure> {
    Ok(ShareRange { dst: space.unit(dst, units)?, src: space.unit(src, units)?, units })
}

/// Where units of the namespace are on the drive.
fn placed(space: &BlockSpace, writes: Vec<(Lpn, Vec<u8>)>) -> Result<Vec<(Lpn, Vec<u8>)>, Failure> {
    writes.into_iter().map(|(lpn, data)| Ok((space.unit(lpn, 1)?, data))).collect()
}

pub(crate) fn ranges_of(data: &[u8]) -> Result<Vec<ShareRange>, Failure> {
    let ranges = <[Range]>::ref_from_bytes(data).map_err(|_| Failure::INVALID_FIELD)?;
    let range = |range: &Range| ShareRange {
        dst: Lpn(range.to.get()),
        src: Lpn(range.from.get()),
        units: range.units.get(),
    };
    Ok(ranges.iter().map(range).collect())
}

/// The bytes of a number of scattered units, including those that name them.
fn unit_bytes(count: u32) -> u32 {
    (count + 1) * UNIT
}

/// The first 4 KiB name the units, in four bytes each; their data follow.
pub(crate) fn writes_of(count: u32, data: &[u8]) -> Result<Vec<(Lpn, Vec<u8>)>, Failure> {
    let (names, data) = data.split_at_checked(UNIT_BYTES).ok_or(Failure::INVALID_FIELD)?;
    let names = <[U32]>::ref_from_bytes(names).map_err(|_| Failure::INVALID_FIELD)?;
    let units = data.chunks_exact(UNIT_BYTES).map(<[u8]>::to_vec);
    Ok(names.iter().take(count as usize).map(|name| Lpn(name.get())).zip(units).collect())
}

#[cfg(test)]
mod tests {
    use tantalum::COMMANDS;

    use super::*;

    /// All but the one for records, which are on other namespaces.
    #[test]
    fn each_opcode_of_the_drive_for_vendors_is_taken() {
        let opcodes = COMMANDS.iter().filter_map(|info| info.vendor_opcode);
        for opcode in opcodes.filter(|opcode| *opcode != opcode::PUT) {
            let dwords = [u32::from(opcode == opcode::WRITE_BATCH) * 2 * UNIT, 0, 0, 0, 0, 0].map(Into::into);
            let command = Submission { opcode, dword10: dwords, ..Submission::default() };
            assert!(VendorCommand::decode(&command).is_ok(), "{opcode:x}h");
        }
    }

    #[test]
    fn layouts_are_those_of_the_page_that_documents_them() {
        assert_eq!((size_of::<Range>(), size_of::<HintedPage>()), (16, 64));
        let hint = Hint {
            generation: Generation(1 << 40),
            attempt: 2,
            start: 3,
            first: 4,
            slot: 5,
            end: true,
            home: Some(Lpn(6)),
        };
        assert_eq!(HintedPage::new(&hint, [7; METADATA_BYTES]).hint(), hint);
        let homeless = Hint { home: None, end: false, ..hint };
        assert_eq!(HintedPage::new(&homeless, [7; METADATA_BYTES]).hint(), homeless);
    }
}
