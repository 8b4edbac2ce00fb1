//! Read, Compare, Verify.

use tantalum::UNIT_BYTES;
use tantalum_drive::When;

use super::part::Part;
use super::work::Worked;
use crate::blocks::Blocks;
use crate::failure::Failure;
use crate::mailbox::Answer;

/// Units that Verify reads at a time.
const VERIFY_UNITS: u32 = 128;

/// Reads blocks into a buffer with arbitrary contents.
pub fn read(part: Part<'_>, when: When, blocks: Blocks, mut buffer: Vec<u8>) -> Worked {
    part.check_readable(blocks)?;
    let units = part.space.units(blocks);
    buffer.resize(units.bytes(), 0);
    let completion = part.read(units.first, &mut buffer, when)?;
    buffer.truncate(buffer.len() - units.after);
    buffer.drain(..units.before);
    Ok((Answer::data(buffer), completion.done_ns))
}

/// Fails if blocks differ from `data`.
pub fn compare(part: Part<'_>, when: When, blocks: Blocks, data: &[u8]) -> Worked {
    let (answer, done_ns) = read(part, when, blocks, Vec::new())?;
    if answer.data != data {
        return Err(Failure::COMPARE);
    }
    Ok((Answer::default(), done_ns))
}

/// Fails if blocks cannot be read.
pub fn verify(part: Part<'_>, when: When, blocks: Blocks) -> Worked {
    part.check_readable(blocks)?;
    let units = part.space.units(blocks);
    let (mut lpn, end) = (units.first, units.first.0 + units.count);
    let mut done_ns = 0;
    let mut data = vec![0; units.count.min(VERIFY_UNITS) as usize * UNIT_BYTES];
    while lpn.0 < end {
        let count = VERIFY_UNITS.min(end - lpn.0);
        let completion = part.read(lpn, &mut data[..count as usize * UNIT_BYTES], when)?;
        done_ns = done_ns.max(completion.done_ns);
        lpn.0 += count;
    }
    Ok((Answer::default(), done_ns))
}
