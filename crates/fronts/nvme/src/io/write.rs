//! Write, Write Zeroes, Flush.

use tantalum::{Command, Lpn, Nanoseconds, UNIT_BYTES};
use tantalum_drive::{DeviceGuard, Drive, Request, When};

use super::read_modify_write::surround;
use super::work::{Force, Worked};
use crate::blocks::{BlockSpace, Blocks, Units};
use crate::failure::Failure;
use crate::mailbox::Answer;

/// Makes everything acknowledged durable.
pub fn flush(drive: &Drive, when: When) -> Worked {
    let reply = drive.perform(Request::Flush, when)?;
    Ok((Answer::default(), reply.done_ns))
}

/// Flushes a change of the map alone, if it must be durable before it completes.
pub fn flush_if(force: Force, drive: &Drive, when: When, done_ns: Nanoseconds) -> Worked {
    let flushed_ns = if force.0 { flush(drive, when)?.1 } else { 0 };
    Ok((Answer::default(), done_ns.max(flushed_ns)))
}

/// Writes new data to blocks.
pub fn write(
    drive: &Drive,
    when: When,
    space: &BlockSpace,
    blocks: Blocks,
    data: Vec<u8>,
    Force(fua): Force,
) -> Worked {
    let units = space.units(blocks);
    if units.are_whole() {
        let completion = drive.write(units.first, &data, fua, when)?;
        return Ok((Answer::spare(data), completion.done_ns));
    }
    let mut buffer = vec![0; units.bytes()];
    buffer[units.before..units.before + data.len()].copy_from_slice(&data);
    let mut device = drive.lock();
    let read_ns = surround(&mut device, when, units, &mut buffer)?;
    let write = Command::Write { lpn: units.first, data: &buffer, fua };
    let completion = device.issue_or_share(write, when)?;
    Ok((Answer::spare(data), completion.done_ns.max(read_ns)))
}

/// Makes blocks read as zeros. Whole units are deallocated.
pub fn write_zeroes(drive: &Drive, when: When, space: &BlockSpace, blocks: Blocks, force: Force) -> Worked {
    let units = space.units(blocks);
    let mut device = drive.lock();
    let mut done_ns = 0;
    for edge in edges(units) {
        let written_ns = zero_edge(&mut device, when, edge)?;
        done_ns = done_ns.max(written_ns);
    }
    let (lpn, count) = units.whole();
    if count > 0 {
        let completion = device.issue(Command::WriteZeroes { lpn, units: count }, when)?;
        done_ns = done_ns.max(completion.done_ns);
    }
    drop(device);
    flush_if(force, drive, when, done_ns)
}

/// The units that are covered only in part.
fn edges(units: Units) -> impl Iterator<Item = Units> {
    let last = Lpn(units.first.0 + units.count - 1);
    let single = units.count == 1 && !units.are_whole();
    let first = Units { count: 1, after: if single { units.after } else { 0 }, ..units };
    let second = Units { first: last, count: 1, before: 0, after: units.after };
    let first = Some(first).filter(|_| single || units.before > 0);
    let second = Some(second).filter(|_| !single && units.after > 0);
    first.into_iter().chain(second)
}

fn zero_edge(device: &mut DeviceGuard<'_>, when: When, edge: Units) -> Result<Nanoseconds, Failure> {
    let mut unit = [0; UNIT_BYTES];
    let read_ns = surround(device, when, edge, &mut unit)?;
    let completion = device.issue(Command::Write { lpn: edge.first, data: &unit, fua: false }, when)?;
    Ok(completion.done_ns.max(read_ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_are_the_units_that_are_not_whole() {
        let space = BlockSpace::new(512, 100);
        let of = |first, count| edges(space.units(Blocks { first, count })).collect::<Vec<_>>();
        assert_eq!(of(8, 16), []);
        assert_eq!(of(9, 2), [Units { first: Lpn(1), count: 1, before: 512, after: 5 * 512 }]);
        let (front, back) = (7 * 512, 7 * 512);
        assert_eq!(
            of(7, 10),
            [
                Units { first: Lpn(0), count: 1, before: front, after: 0 },
                Units { first: Lpn(2), count: 1, before: 0, after: back }
            ]
        );
    }
}
