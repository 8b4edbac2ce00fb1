//! The same commands again and again, for counting instructions or files: `cargo build --profile profiling -p tantalum --example
//! counted_commands`, then `valgrind --tool=callgrind --dump-line=yes target/profiling/examples/counted_commands`. With any argument it
//! cuts power after one write and one share, during another write, and recovers.

use tantalum::{Command, Device, Lpn, PowerLoss, Profile, ShareRange};

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (((self.0 >> 32) * u64::from(limit)) >> 32) as u32
    }
}

fn submit(device: &mut Device, command: Command<'_>, at_ns: &mut u64) {
    *at_ns = device.submit(command, *at_ns).unwrap().done_ns;
}

#[inline(never)]
fn one_write(device: &mut Device, at_ns: &mut u64) {
    submit(device, Command::Write { lpn: Lpn(5), data: &[7; 4096], fua: true, handle: None }, at_ns);
}

#[inline(never)]
fn one_share(device: &mut Device, at_ns: &mut u64) {
    let ranges = [ShareRange { dst: Lpn(9), src: Lpn(5), units: 1 }];
    submit(device, Command::Share { ranges: &ranges, deferred: false }, at_ns);
}

#[inline(never)]
fn one_recovery(device: &mut Device) {
    device.power_on(&mut PowerLoss::seeded(1)).unwrap();
}

#[inline(never)]
fn overwrites(device: &mut Device, at_ns: &mut u64, units: u32, operations: u32) {
    let (mut random, data) = (Random(7), [3; 4096]);
    for _ in 0..operations {
        submit(
            device,
            Command::Write { lpn: Lpn(random.below(units)), data: &data, fua: false, handle: None },
            at_ns,
        );
    }
}

#[inline(never)]
fn reads(device: &mut Device, at_ns: &mut u64, units: u32, operations: u32) {
    let (mut random, mut data) = (Random(9), [0; 4096]);
    for _ in 0..operations {
        submit(device, Command::Read { lpn: Lpn(random.below(units)), data: &mut data }, at_ns);
    }
}

#[inline(never)]
fn shares(device: &mut Device, at_ns: &mut u64, units: u32, operations: u32) {
    let mut random = Random(11);
    for _ in 0..operations {
        let (dst, src) = (Lpn(random.below(units / 2)), Lpn(units / 2 + random.below(units / 2)));
        let ranges = [ShareRange { dst, src, units: 1 }];
        submit(device, Command::Share { ranges: &ranges, deferred: false }, at_ns);
    }
}

fn main() {
    let units = 16 << 10;
    let profile = Profile { capacity_bytes: 64 << 20, ..Profile::load("femu-2021").unwrap() };
    let mut device = Device::in_memory(&profile).unwrap();
    let mut at_ns = device.time_ns();
    for lpn in 0..units {
        submit(
            &mut device,
            Command::Write { lpn: Lpn(lpn), data: &[1; 4096], fua: false, handle: None },
            &mut at_ns,
        );
    }
    submit(&mut device, Command::Flush, &mut at_ns);
    one_write(&mut device, &mut at_ns);
    one_share(&mut device, &mut at_ns);
    if std::env::args().count() > 1 {
        // the last write is under way
        submit(
            &mut device,
            Command::Write { lpn: Lpn(6), data: &[8; 4096], fua: false, handle: None },
            &mut at_ns,
        );
        device.cut_power(0);
        one_recovery(&mut device);
        return;
    }
    overwrites(&mut device, &mut at_ns, units, 60_000);
    let before = at_ns;
    reads(&mut device, &mut at_ns, units, 40_000);
    shares(&mut device, &mut at_ns, units, 2_000);
    println!("{before} {at_ns} {:?}", device.smart().counters.flash_units);
}
