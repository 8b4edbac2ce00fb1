//! I/O commands: what they request ([`IoCommand`]), and what the drive does for them.
//!
//! A command is checked as a whole before any of its data move. The thread of its connection gives it to the drive
//! (`session/in_drive.rs`).

pub(crate) mod copy;
pub(crate) mod deallocate;
mod fused;
pub mod handles;
pub mod key_value;
mod part;
mod placed;
mod read;
mod read_modify_write;
mod transfer;
pub mod vendor;
mod work;
mod write;
pub mod zones;

use std::sync::atomic::Ordering;

use tantalum::Handle;
use tantalum_drive::When;

pub use copy::{COPY_BLOCKS_BYTES, COPY_RANGES, CopyCommand};
pub use placed::Placed;
pub use transfer::{TRANSFER_BYTES, TRANSFER_LIMIT_LOG2, Transfer};
pub use work::{Force, Worked};

use crate::blocks::{BlockSpace, Blocks, Units};
use crate::failure::Failure;
use crate::mailbox::Answer;
use crate::namespaces::{ALL_NAMESPACES, Denied, Target, View, ZONES_NAMESPACE};
use crate::subsystem::Subsystem;
use crate::wire::command::Submission;
use crate::wire::opcode::nvm;
use handles::HandleCommand;
use key_value::KeyValueCommand;
use part::Part;
use vendor::VendorCommand;
use zones::ZoneCommand;

/// An I/O command whose fields have been checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IoCommand {
    /// Makes everything acknowledged durable.
    Flush,
    /// Blocks are read.
    Read(Blocks),
    /// Blocks are written.
    Write(Blocks, Force, Placed),
    /// Compares blocks with what the host sends.
    Compare(Blocks),
    /// Writes blocks if they are equal to what the host sends first.
    CompareAndWrite(Blocks, Force, Placed),
    /// Makes blocks read as zeros.
    WriteZeroes(Blocks, Force, Placed),
    /// Makes blocks unreadable until they are written.
    WriteUncorrectable(Blocks),
    /// Reads blocks without returning them.
    Verify(Blocks),
    /// Deallocates ranges: their number, and whether the host requests deallocation or only hints at its use of them.
    Deallocate(u32, bool),
    /// Copies ranges to consecutive blocks.
    Copy(CopyCommand),
    /// About reclaim unit handles.
    Handles(HandleCommand),
    /// About records.
    KeyValue(KeyValueCommand),
    /// Of the namespace with zones.
    Zones(ZoneCommand),
    /// Beyond the standard.
    Vendor(VendorCommand),
}

/// The direction of the data of a read or write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// Data go to the host.
    ToHost,
    /// Data come from the host.
    FromHost(Force, Placed),
}

/// Bits of dword 12.
mod bit {
    /// Force Unit Access.
    pub const FORCE: u32 = 30;
}

/// The blocks that a command names, if they exist.
fn blocks_of(command: &Submission, space: &BlockSpace) -> Result<Blocks, Failure> {
    space.blocks(command.first_block(), (command.dword(12) & 0xffff) + 1)
}

/// The same for a command that moves them.
fn transferred(command: &Submission, space: &BlockSpace) -> Result<Blocks, Failure> {
    let blocks = blocks_of(command, space)?;
    let fits = space.bytes(blocks.count) <= u64::from(TRANSFER_BYTES);
    if fits { Ok(blocks) } else { Err(Failure::INVALID_FIELD) }
}

impl IoCommand {
    /// Reads a command's fields and checks them. Returns also its namespace.
    pub fn decode(command: &Submission, view: &View) -> Result<(Target, IoCommand), Failure> {
        let namespace = command.namespace.get();
        if let Some(target) = view.blocks(namespace) {
            if HandleCommand::is_one(command) && view.drive_handles() == 0 {
                return Err(Failure::INVALID_OPCODE);
            }
            let decoded = IoCommand::decode_blocks(command, &target.space)?;
            return Ok((*target, decoded.within(view.handles(namespace), view.drive_handles())?));
        }
        let is_flush = command.opcode == nvm::FLUSH;
        if let Some(zoned) = view.zones(namespace) {
            let decoded = match is_flush {
                true => IoCommand::Flush,
                false => IoCommand::Zones(ZoneCommand::decode(command, &zoned.zones)?),
            };
            return Ok((zoned.target, decoded));
        }
        let decoded = match view.key_value(namespace) {
            Some(_) if is_flush => IoCommand::Flush,
            None if is_flush && namespace == ALL_NAMESPACES => IoCommand::Flush,
            Some(namespace) => IoCommand::KeyValue(KeyValueCommand::decode(command, namespace)?),
            None => return Err(Failure::INVALID_NAMESPACE),
        };
        Ok((*view.records(), decoded))
    }

    /// The same for a namespace with these reclaim unit handles, on a drive with so many.
    fn within(self, handles: &[Handle], drive: u32) -> Result<IoCommand, Failure> {
        match self {
            IoCommand::Write(blocks, force, placed) => {
                Ok(IoCommand::Write(blocks, force, placed.within(handles)?))
            }
            IoCommand::WriteZeroes(blocks, force, placed) => {
                Ok(IoCommand::WriteZeroes(blocks, force, placed.within(handles)?))
            }
            IoCommand::Copy(copy) => {
                Ok(IoCommand::Copy(CopyCommand { placed: copy.placed.within(handles)?, ..copy }))
            }
            IoCommand::Handles(command) => command.check(drive).map(|()| self),
            _ => Ok(self),
        }
    }

    /// Reads the fields of a command for a namespace with these blocks.
    pub fn decode_blocks(command: &Submission, space: &BlockSpace) -> Result<IoCommand, Failure> {
        let force = Force(command.bit(12, bit::FORCE));
        let (blocks, transferred) = (|| blocks_of(command, space), || transferred(command, space));
        let decoded = match command.opcode {
            nvm::FLUSH => IoCommand::Flush,
            nvm::READ => IoCommand::Read(transferred()?),
            nvm::WRITE => {
                let placed = Placed::of(command, 0xf)?;
                IoCommand::Write(transferred()?, force, placed)
            }
            nvm::COMPARE => IoCommand::Compare(transferred()?),
            // bit 23 is about all blocks of the namespace, and not offered
            nvm::WRITE_ZEROES => IoCommand::WriteZeroes(blocks()?, force, Placed::of(command, 7)?),
            nvm::WRITE_UNCORRECTABLE => IoCommand::WriteUncorrectable(blocks()?),
            nvm::VERIFY => IoCommand::Verify(blocks()?),
            nvm::DATASET_MANAGEMENT => {
                IoCommand::Deallocate((command.dword(10) & 0xff) + 1, command.bit(11, 2))
            }
            nvm::COPY => IoCommand::Copy(CopyCommand::decode(command, force)?),
            nvm::IO_MANAGEMENT_RECEIVE | nvm::IO_MANAGEMENT_SEND => {
                IoCommand::Handles(HandleCommand::decode(command)?)
            }
            0x80..=0xff => IoCommand::Vendor(VendorCommand::decode(command)?),
            _ => return Err(Failure::INVALID_OPCODE),
        };
        Ok(decoded)
    }

    /// Refuses it if another host has reserved what it reads or writes.
    pub fn check_reserved(&self, denied: Denied) -> Result<(), Failure> {
        let is_denied = match self {
            IoCommand::Read(_)
            | IoCommand::Compare(_)
            | IoCommand::Verify(_)
            | IoCommand::Vendor(VendorCommand::TxRead(..)) => denied.reads,
            _ => denied.writes,
        };
        if is_denied { Err(Failure::RESERVATION_CONFLICT) } else { Ok(()) }
    }

    /// The data that it moves.
    pub fn transfer(&self, space: &BlockSpace) -> Transfer {
        match *self {
            IoCommand::Flush
            | IoCommand::WriteZeroes(..)
            | IoCommand::WriteUncorrectable(_)
            | IoCommand::Verify(_) => Transfer::None,
            IoCommand::Read(blocks) => Transfer::ToHost(space.bytes(blocks.count) as u32),
            IoCommand::Write(blocks, ..) | IoCommand::Compare(blocks) => {
                Transfer::FromHost(space.bytes(blocks.count) as u32)
            }
            IoCommand::CompareAndWrite(blocks, ..) => {
                Transfer::FromHost(2 * space.bytes(blocks.count) as u32)
            }
            IoCommand::Deallocate(ranges, _) => Transfer::FromHost(ranges * deallocate::RANGE_BYTES),
            IoCommand::Copy(copy) => Transfer::FromHost(copy.ranges * copy::RANGE_BYTES),
            IoCommand::Handles(command) => command.transfer(),
            IoCommand::KeyValue(command) => command.transfer(),
            IoCommand::Zones(command) => command.transfer(),
            IoCommand::Vendor(command) => command.transfer(),
        }
    }

    /// Counts it.
    pub fn count(&self, subsystem: &Subsystem, space: &BlockSpace) {
        let counts = &subsystem.counts;
        match self.transfer(space) {
            Transfer::FromHost(_) => counts.writes.fetch_add(1, Ordering::Relaxed),
            Transfer::ToHost(_) => counts.reads.fetch_add(1, Ordering::Relaxed),
            Transfer::None => 0,
        };
    }

    /// Tells of a placement identifier that its namespace does not have.
    pub fn tell_unknown_identifier(&self, subsystem: &Subsystem, target: &Target) {
        let (IoCommand::Write(_, _, placed)
        | IoCommand::CompareAndWrite(_, _, placed)
        | IoCommand::WriteZeroes(_, _, placed)
        | IoCommand::Copy(CopyCommand { placed, .. })) = self
        else {
            return;
        };
        if let (Some(identifier), Some(handle)) = (placed.unknown(), placed.handle) {
            let drive = subsystem.queue.drive();
            subsystem.namespaces.tell_unknown_identifier(drive, target, identifier, handle);
        }
    }

    /// The units and the direction, if it is a read, or a write of whole units: these may be issued together.
    pub fn access(&self, subsystem: &Subsystem, target: &Target) -> Option<(Units, Direction)> {
        let space = &target.space;
        match *self {
            _ if target.is_checked() => None,
            IoCommand::Read(blocks) => Some((space.units(blocks), Direction::ToHost)),
            IoCommand::Write(blocks, fua, placed) => {
                let force = Force(fua.0 || subsystem.is_write_through());
                let units = space.units(blocks);
                units.are_whole().then_some((units, Direction::FromHost(force, placed)))
            }
            _ => None,
        }
    }

    /// Possible refusals of the drive.
    pub fn answer_without_drive(self, space: &BlockSpace, mut buffer: Vec<u8>) -> Answer {
        match self.transfer(space) {
            Transfer::ToHost(bytes) => {
                buffer.resize(bytes as usize, 0);
                Answer::data(buffer)
            }
            Transfer::None | Transfer::FromHost(_) => Answer::spare(buffer),
        }
    }

    /// Whether its data name other namespaces.
    pub fn is_across(&self) -> bool {
        matches!(self, IoCommand::Copy(CopyCommand { is_across: true, .. }))
    }

    /// Executes it, with the data that came from the host. `sources` has the namespaces that these may name.
    pub fn work(
        self,
        subsystem: &Subsystem,
        target: &Target,
        sources: Option<&View>,
        when: When,
        data: Vec<u8>,
    ) -> Worked {
        let namespaces = &subsystem.namespaces;
        let (drive, fence) = (subsystem.queue.drive(), namespaces.fence(target));
        let part = Part::new(drive, fence, target, namespaces.uncorrectable());
        let force = |force: Force| Force(force.0 || subsystem.is_write_through());
        let worked = match self {
            IoCommand::Flush => write::flush(subsystem.queue.drive(), when),
            IoCommand::Read(blocks) => read::read(part, when, blocks, data),
            IoCommand::Write(blocks, fua, placed) => {
                write::write(part, when, blocks, data, force(fua), placed)
            }
            IoCommand::Compare(blocks) => read::compare(part, when, blocks, &data),
            IoCommand::CompareAndWrite(blocks, fua, placed) => {
                fused::compare_and_write(part, when, blocks, data, force(fua), placed)
            }
            IoCommand::WriteZeroes(blocks, fua, placed) => {
                write::write_zeroes(part, when, blocks, force(fua), placed)
            }
            IoCommand::WriteUncorrectable(blocks) => {
                let kept = namespaces.kept(&subsystem.queue)?;
                let worked = write::write_uncorrectable(part, when, kept, blocks);
                namespaces.outdate_views();
                worked
            }
            IoCommand::Verify(blocks) => read::verify(part, when, blocks),
            IoCommand::Deallocate(_, is_wanted) => {
                deallocate::deallocate(part, when, &data, is_wanted, force(Force(false)))
            }
            IoCommand::Copy(copy) => {
                let copy = CopyCommand { force: force(copy.force), ..copy };
                copy::copy(part, when, copy, &data, |namespace| {
                    let source = sources.ok_or(Failure::INVALID_FIELD)?.source_of_copy(namespace)?;
                    Ok(Part::new(drive, namespaces.fence(source), source, namespaces.uncorrectable()))
                })
            }
            IoCommand::Handles(command) => command.work(part, target, namespaces, when, &data),
            IoCommand::KeyValue(command) => command.work(part, namespaces, when, data),
            IoCommand::Zones(command) => {
                let zones = namespaces.zones_of(ZONES_NAMESPACE).ok_or(Failure::INVALID_NAMESPACE)?;
                command.work(part, zones, when, subsystem.is_write_through(), data)
            }
            IoCommand::Vendor(command) => command.work(part, target, namespaces, when, data),
        };
        match worked {
            Err(failure) if failure.is_kept_out() => {
                Err(namespaces.refusal(target).with_result(failure.result))
            }
            worked => worked,
        }
    }
}

/// Makes everything acknowledged durable at once: a host announces that it leaves.
pub fn durable(subsystem: &Subsystem) -> Result<(), Failure> {
    write::flush(subsystem.queue.drive(), When::AfterAll).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(opcode: u8, dword10: [u32; 6]) -> Submission {
        let dword10 = dword10.map(Into::into);
        Submission { opcode, namespace: 1.into(), dword10, ..Submission::default() }
    }

    #[test]
    fn fields_are_checked_before_anything_moves() {
        let space = BlockSpace::new(512, 1024);
        let view = View::undivided(space, Vec::new());
        let decode =
            |opcode, dwords| IoCommand::decode(&command(opcode, dwords), &view).map(|(_, decoded)| decoded);
        let last = decode(nvm::READ, [8191, 0, 0, 0, 0, 0]).unwrap();
        assert_eq!(last.transfer(&space), Transfer::ToHost(512));
        assert_eq!(decode(nvm::READ, [8191, 0, 1, 0, 0, 0]), Err(Failure::OUT_OF_RANGE));
        assert_eq!(decode(nvm::WRITE, [u32::MAX, u32::MAX, 0, 0, 0, 0]), Err(Failure::OUT_OF_RANGE));
        assert_eq!(decode(nvm::READ, [0, 0, 1024, 0, 0, 0]), Err(Failure::INVALID_FIELD), "over MDTS");
        assert!(decode(nvm::READ, [0, 0, 1023, 0, 0, 0]).is_ok());
        assert!(decode(nvm::WRITE_ZEROES, [0, 0, 8191, 0, 0, 0]).is_ok(), "nothing is transferred");
        assert_eq!(decode(nvm::WRITE, [0, 0, 1 << 20, 0, 0, 0]), Err(Failure::INVALID_FIELD), "a directive");
        assert_eq!(decode(0x7e, [0; 6]), Err(Failure::INVALID_OPCODE));
        let other = Submission { namespace: 2.into(), ..command(nvm::READ, [0; 6]) };
        assert_eq!(IoCommand::decode(&other, &view), Err(Failure::INVALID_NAMESPACE));
    }

    #[test]
    fn flags_are_read() {
        let space = BlockSpace::new(4096, 1024);
        let view = View::undivided(space, Vec::new());
        let (_, write) = IoCommand::decode(&command(nvm::WRITE, [5, 0, 1 << 30, 0, 0, 0]), &view).unwrap();
        assert_eq!(write, IoCommand::Write(Blocks { first: 5, count: 1 }, Force(true), Placed::default()));
        let trim = command(nvm::DATASET_MANAGEMENT, [255, 4, 0, 0, 0, 0]);
        let (_, trim) = IoCommand::decode(&trim, &view).unwrap();
        assert_eq!(
            (trim, trim.transfer(&space)),
            (IoCommand::Deallocate(256, true), Transfer::FromHost(4096))
        );
    }
}
