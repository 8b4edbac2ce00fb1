//! Compare and Write as one command: nobody else has the drive in between.

use tantalum::Command;
use tantalum_drive::When;

use super::part::Part;
use super::placed::Placed;
use super::work::{Force, Worked};
use super::write::write_on;
use crate::blocks::Blocks;
use crate::failure::Failure;
use crate::mailbox::Answer;

/// Writes the second half of `data` if the blocks are equal to the first one.
pub fn compare_and_write(
    part: Part<'_>,
    when: When,
    blocks: Blocks,
    data: Vec<u8>,
    force: Force,
    placed: Placed,
) -> Worked {
    let (expected, new) = data.split_at(data.len() / 2);
    let units = part.space.units(blocks);
    let mut device = part.lock()?;
    part.check_readable_on(&device, blocks)?;
    let mut found = vec![0; units.bytes()];
    let read_ns = device.issue(Command::Read { lpn: units.first, data: &mut found }, when)?.done_ns;
    if found[units.before..found.len() - units.after] != *expected {
        return Err(Failure::COMPARE);
    }
    let written_ns = write_on(&mut device, part, when, blocks, new, force, placed)?;
    Ok((Answer::spare(data), written_ns.max(read_ns)))
}
