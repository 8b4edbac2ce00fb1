//! Commands on blocks, as a recording has them.

use tantalum_record::blocks::{BlockEvent, BlockTape};

use crate::blocks::BlockSpace;
use crate::io::{Force, IoCommand, deallocate};

/// Records a command that has all of its data and is about to be given to the drive. With `is_write_through` all writes are durable
/// when they are done.
pub fn record(tape: &BlockTape, io: IoCommand, space: &BlockSpace, data: &[u8], is_write_through: bool) {
    let fua = |force: Force| force.0 || is_write_through;
    match io {
        IoCommand::Read(_)
        | IoCommand::Compare(_)
        | IoCommand::Verify(_)
        | IoCommand::Deallocate(_, false)
        | IoCommand::Handles(_) => {}
        IoCommand::Flush => tape.take(&BlockEvent::Flush),
        IoCommand::Write(blocks, force, _) => {
            tape.take(&BlockEvent::Write { offset: space.offset(blocks.first), data, fua: fua(force) });
        }
        IoCommand::WriteZeroes(blocks, force, _) => {
            let (offset, bytes) = (space.offset(blocks.first), space.bytes(blocks.count));
            tape.take(&BlockEvent::Zero { offset, bytes, fua: fua(force) });
        }
        IoCommand::Deallocate(_, true) => {
            for (first, count) in deallocate::ranges_of(data).unwrap_or_default() {
                // the drive refuses what does not exist
                if let Ok(blocks) = space.blocks(first, count as u32) {
                    let (offset, bytes) = (space.offset(blocks.first), space.bytes(blocks.count));
                    tape.take(&BlockEvent::Discard { offset, bytes });
                }
            }
            if is_write_through {
                tape.take(&BlockEvent::Flush);
            }
        }
        IoCommand::CompareAndWrite(..) => tape.take(&BlockEvent::Other("Compare and Write")),
        IoCommand::WriteUncorrectable(_) => tape.take(&BlockEvent::Other("Write Uncorrectable")),
        IoCommand::Copy(..) => tape.take(&BlockEvent::Other("Copy")),
        IoCommand::KeyValue(_) => tape.take(&BlockEvent::Other("a command on records")),
        IoCommand::Zones(command) if !command.changes() => {}
        IoCommand::Zones(_) => tape.take(&BlockEvent::Other("a command on zones")),
        IoCommand::Vendor(_) => tape.take(&BlockEvent::Other("a vendor command")),
    }
}
