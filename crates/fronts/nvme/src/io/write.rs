//! Write, Write Zeroes, Flush.

use tantalum::{Command, Handle, Lpn, NamespaceId, Nanoseconds, UNIT_BYTES};
use tantalum_drive::{DeviceGuard, Drive, Request, When};

use super::part::Part;
use super::placed::Placed;
use super::read_modify_write::surround;
use super::work::{Force, Worked};
use crate::blocks::{Blocks, Units};
use crate::failure::Failure;
use crate::mailbox::Answer;

/// Makes everything acknowledged durable.
pub fn flush(drive: &Drive, when: When) -> Worked {
    let reply = drive.perform(Request::Flush, when)?;
    Ok((Answer::default(), reply.done_ns))
}

/// Flushes a change of the map alone, if it must be durable before it completes.
pub fn flush_if(force: Force, part: Part<'_>, when: When, done_ns: Nanoseconds) -> Worked {
    let flushed_ns = if force.0 { part.perform(Request::Flush, when)?.done_ns } else { 0 };
    Ok((Answer::default(), done_ns.max(flushed_ns)))
}

/// Writes new data to blocks.
pub fn write(
    part: Part<'_>,
    when: When,
    blocks: Blocks,
    data: Vec<u8>,
    Force(fua): Force,
    placed: Placed,
) -> Worked {
    let units = part.space.units(blocks);
    if units.are_whole() && part.uncorrectable().is_none() {
        let completion = part.write(units.first, &data, fua, placed.handle, when)?;
        return Ok((Answer::spare(data), completion.done_ns));
    }
    let done_ns = write_on(&mut part.lock()?, part, when, blocks, &data, Force(fua), placed)?;
    Ok((Answer::spare(data), done_ns))
}

/// Writes new data to blocks, for whoever has the drive.
pub fn write_on(
    device: &mut DeviceGuard<'_>,
    part: Part<'_>,
    when: When,
    blocks: Blocks,
    data: &[u8],
    Force(fua): Force,
    Placed { handle, .. }: Placed,
) -> Result<Nanoseconds, Failure> {
    let units = part.space.units(blocks);
    let (mut buffer, mut read_ns) = (Vec::new(), 0);
    let data = match units.are_whole() {
        true => data,
        false => {
            buffer.resize(units.bytes(), 0);
            buffer[units.before..units.before + data.len()].copy_from_slice(data);
            read_ns = surround(device, when, units, &mut buffer)?;
            &buffer
        }
    };
    let marks = part.uncorrectable();
    let unmarked = marks.and_then(|marks| marks.without(device, part.space.sectors(blocks)));
    let (Some(marks), Some(unmarked)) = (marks, unmarked) else {
        let write = Command::Write { lpn: units.first, data, fua, handle };
        return Ok(device.issue_or_share(write, when)?.done_ns.max(read_ns));
    };
    if units.count > device.limits().atomic_units {
        let write = Command::Write { lpn: units.first, data, fua: true, handle };
        let written_ns = device.issue(write, when)?.done_ns;
        let cleared_ns = marks.clear(device, when, part.space.sectors(blocks))?;
        return Ok(cleared_ns.max(written_ns).max(read_ns));
    }
    let lpns = (units.first.0..).map(Lpn);
    let writes: Vec<(Lpn, &[u8])> = lpns.zip(data.chunks_exact(UNIT_BYTES)).collect();
    let write = Command::WriteBatch { writes: &writes, records: &unmarked.records() };
    let done_ns = device.issue(write, when)?.done_ns;
    marks.are_stored(device, unmarked);
    Ok(done_ns.max(read_ns))
}

/// Marks blocks as not readable until they are written.
pub fn write_uncorrectable(part: Part<'_>, when: When, kept: NamespaceId, blocks: Blocks) -> Worked {
    let mut device = part.lock()?;
    let done_ns = part.mark(&mut device, when, kept, blocks)?;
    device.count_without_data(part.space.units(blocks).count.into());
    Ok((Answer::default(), done_ns))
}

/// Makes blocks read as zeros. Whole units are deallocated.
pub fn write_zeroes(
    part: Part<'_>,
    when: When,
    blocks: Blocks,
    force: Force,
    Placed { handle, .. }: Placed,
) -> Worked {
    let units = part.space.units(blocks);
    let mut device = part.lock()?;
    let mut done_ns = 0;
    for edge in edges(units) {
        let written_ns = zero_edge(&mut device, when, edge, handle)?;
        done_ns = done_ns.max(written_ns);
    }
    let (lpn, count) = units.whole();
    if count > 0 {
        let completion = device.issue(Command::WriteZeroes { lpn, units: count }, when)?;
        device.count_without_data(count.into());
        done_ns = done_ns.max(completion.done_ns);
    }
    drop(device);
    let unmarked_ns = part.unmark(blocks, when)?;
    flush_if(force, part, when, done_ns.max(unmarked_ns))
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

fn zero_edge(
    device: &mut DeviceGuard<'_>,
    when: When,
    edge: Units,
    handle: Option<Handle>,
) -> Result<Nanoseconds, Failure> {
    let mut unit = [0; UNIT_BYTES];
    let read_ns = surround(device, when, edge, &mut unit)?;
    let completion =
        device.issue(Command::Write { lpn: edge.first, data: &unit, fua: false, handle }, when)?;
    Ok(completion.done_ns.max(read_ns))
}

#[cfg(test)]
mod tests {
    use tantalum::{Device, Outcome, PowerLoss, Profile};
    use tantalum_drive::{Fence, Fences};

    use super::*;
    use crate::blocks::BlockSpace;
    use crate::namespaces::{Uncorrectable, View};

    /// A drive on which writes of five units are all or nothing, with a small cache.
    fn drive() -> Drive {
        let mut profile = Profile { capacity_bytes: 8 << 20, ..Profile::load("tlc-nvme").unwrap() };
        (profile.flash.channels, profile.flash.dies_per_channel, profile.flash.planes_per_die) = (2, 1, 1);
        profile.flash.page_bytes = 4096;
        profile.limits.atomic_write_units = 5;
        profile.cache.bytes = 20 * UNIT_BYTES as u64;
        Drive::new(Device::in_memory(&profile).unwrap())
    }

    /// 33 blocks of 512 bytes touch five units wherever they begin, the first and the last of them in part. Power is cut at each
    /// operation of the write, and of what pushes it out of the cache.
    #[test]
    fn a_write_of_the_size_that_is_told_is_never_torn_wherever_it_begins() {
        let (space, fences, marks) =
            (BlockSpace::new(512, 2048), Fences::default(), Uncorrectable::default());
        let target = *View::undivided(space, Vec::new()).blocks(1).unwrap();
        let whole = (5 - 1) * u64::from(space.per_unit()) + 1;
        let (mut cuts, mut old, mut new) = (0, 0, 0);
        for (begins, fua) in (80..88).flat_map(|begins| [(begins, false), (begins, true)]) {
            let blocks = Blocks { first: begins, count: whole as u32 };
            for operations in 1.. {
                let drive = drive();
                let write_blocks = |blocks: Blocks, byte: u8, fua: bool| {
                    let data = vec![byte; blocks.count as usize * 512];
                    let at_ns = drive.lock().time_ns();
                    let part = Part::new(&drive, Fence::new(&fences, 0), &target, &marks);
                    write(part, at_ns.into(), blocks, data, Force(fua), Placed::default()).is_ok()
                };
                assert!(write_blocks(Blocks { first: 0, count: 512 }, 1, true));
                drive.lock().cut_after(Some(operations));
                write_blocks(blocks, 2, fua);
                let pushed =
                    (10..20).all(|first| write_blocks(Blocks { first: first * 80, count: 80 }, 3, false));
                let mut device = drive.lock();
                if pushed {
                    break;
                }
                device.power_on(&mut PowerLoss::all(Outcome::Completed)).unwrap();
                let mut data = vec![0; 16 * UNIT_BYTES];
                let at_ns = device.time_ns();
                device.issue(Command::Read { lpn: Lpn(8), data: &mut data }, at_ns).unwrap();
                let within = (begins as usize - 64) * 512..(begins as usize - 64 + whole as usize) * 512;
                assert!(data[..within.start].iter().chain(&data[within.end..]).all(|byte| *byte == 1));
                let found = &data[within];
                assert!(found.iter().all(|byte| *byte == found[0]), "{blocks:?}, fua {fua}, {operations}");
                cuts += 1;
                old += u32::from(found[0] == 1);
                new += u32::from(found[0] == 2);
            }
        }
        assert!(cuts > 100 && old > 20 && new > 20, "{cuts} cuts, {old} old, {new} new");
    }

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
