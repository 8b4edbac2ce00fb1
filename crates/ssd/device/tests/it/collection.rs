//! Garbage collection gives way to hosts, one flash operation at a time.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum::{Command, Device, FlashScheduling, Lpn, Nanoseconds, Plp, UNIT_BYTES};

use crate::small_drive::small_drive;

const PROGRAM_NS: Nanoseconds = 500_000;
/// As long as a program, so that what a command waits for is of one length.
const ERASE_NS: Nanoseconds = PROGRAM_NS;
const READ_NS: Nanoseconds = 50_000;
/// Transfers and firmware, of which a command may wait for several.
const REST_NS: Nanoseconds = 100_000;

/// The longest read beside durable writes, while most of each block that is collected has to be moved.
fn longest_read(scheduling: FlashScheduling) -> Nanoseconds {
    let mut profile = small_drive("tlc-nvme", 4 << 20, 40.0, Plp::None);
    (profile.flash.program_ns, profile.flash.erase_ns) = (PROGRAM_NS, ERASE_NS);
    (profile.flash.read_ns, profile.flash.scheduling) = (READ_NS, scheduling);
    (profile.flash.suspend_ns, profile.flash.suspensions) = (None, None);
    let mut device = Device::in_memory(&profile).unwrap();
    let units = device.limits().capacity_units as u32;
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let (mut now_ns, mut buffer) = (0, [0; UNIT_BYTES]);
    for lpn in 0..units {
        let write = Command::Write { lpn: Lpn(lpn), data: &[1; UNIT_BYTES], fua: false, handle: None };
        now_ns = device.submit(write, now_ns).unwrap().done_ns;
    }
    let mut longest_ns = 0;
    for _ in 0..4 * units {
        let write = Command::Write {
            lpn: Lpn(random.random_range(0..units)),
            data: &[2; UNIT_BYTES],
            fua: true,
            handle: None,
        };
        let wrote_ns = device.submit(write, now_ns).unwrap().done_ns;
        let read = Command::Read { lpn: Lpn(random.random_range(0..units)), data: &mut buffer };
        let read_ns = device.submit(read, now_ns).unwrap().done_ns;
        longest_ns = longest_ns.max(read_ns - now_ns);
        now_ns = wrote_ns.max(read_ns);
    }
    let moved = device.smart().counters.flash_units.copyback;
    assert!(moved > u64::from(2 * units), "only {moved} units were moved");
    longest_ns
}

#[test]
fn a_read_does_not_wait_for_a_block_to_be_collected() {
    // the operation under way, and the program of its own page
    let read_ns = longest_read(FlashScheduling::ReadFirst);
    assert!(read_ns <= 2 * PROGRAM_NS + READ_NS + REST_NS, "a read took {read_ns} ns");
    // first come, first served, it waits for all that is moved
    let read_ns = longest_read(FlashScheduling::Fifo);
    assert!(read_ns > 10 * (PROGRAM_NS + READ_NS), "a read took {read_ns} ns");
}
