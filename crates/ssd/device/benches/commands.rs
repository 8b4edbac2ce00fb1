//! The drive's commands compared with their bound: random copies of 4 KiB into and out of memory as large as the drive,
//! with huge pages for both.
//!
//! Limits, in copies of the same run: a write that stays in the cache 2; a read 2.5; a random overwrite in steady state
//! 8, which also moves about six other units. docs/measurements.md has figures, and the reasons for the limits.

use std::hint::black_box;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use tantalum::{Command, Device, Lpn, Profile, UNIT_BYTES};

const CAPACITY_BYTES: u64 = 1 << 30;
const UNITS: u32 = (CAPACITY_BYTES / UNIT_BYTES as u64) as u32;

/// How often the drive is overwritten before any measurement, so that garbage collection is steady.
const AGEING: u32 = 4;

/// Number of units that the hot writes use; they fit in the cache.
const HOT_UNITS: u32 = 256;

/// A generator that costs next to nothing.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (((self.0 >> 32) * u64::from(limit)) >> 32) as u32
    }
}

/// A host with one command in flight.
struct Host {
    device: Device,
    at_ns: u64,
}

impl Host {
    /// A host of a full drive in steady state.
    fn new(random: &mut Random, data: &[u8]) -> Host {
        let profile = Profile { capacity_bytes: CAPACITY_BYTES, ..Profile::load("tlc-nvme").unwrap() };
        let device = Device::in_memory(&profile).unwrap();
        let mut host = Host { at_ns: device.time_ns(), device };
        (0..UNITS).for_each(|lpn| host.write(Lpn(lpn), data));
        for _ in 0..AGEING * UNITS {
            host.write(Lpn(random.below(UNITS)), data);
        }
        host
    }

    fn submit(&mut self, command: Command<'_>) {
        self.at_ns = self.device.submit(command, self.at_ns).unwrap().done_ns;
    }

    fn write(&mut self, lpn: Lpn, data: &[u8]) {
        self.submit(Command::Write { lpn, data, fua: false, handle: None });
    }
}

/// Memory as large as the drive, already written to.
fn arena() -> memmap2::MmapMut {
    let mut arena = memmap2::MmapMut::map_anon(CAPACITY_BYTES as usize).unwrap();
    #[cfg(target_os = "linux")]
    arena.advise(memmap2::Advice::HugePage).unwrap();
    arena.fill(1);
    arena
}

type Group<'a> = BenchmarkGroup<'a, WallTime>;

/// The bound: copies of units into memory as large as the drive, and out of it.
fn random_copies(group: &mut Group<'_>, random: &mut Random, data: &[u8; UNIT_BYTES]) {
    let mut memory = arena();
    group.bench_function("a random copy into memory", |bencher| {
        bencher.iter(|| {
            let at = random.below(UNITS) as usize * UNIT_BYTES;
            memory[at..at + UNIT_BYTES].copy_from_slice(black_box(data));
        });
    });
    let mut buffer = [0_u8; UNIT_BYTES];
    group.bench_function("a random copy out of it", |bencher| {
        bencher.iter(|| {
            let at = random.below(UNITS) as usize * UNIT_BYTES;
            buffer.copy_from_slice(&memory[at..at + UNIT_BYTES]);
            black_box(&buffer);
        });
    });
}

fn reads_and_writes(group: &mut Group<'_>, random: &mut Random, data: &[u8; UNIT_BYTES]) {
    let mut host = Host::new(random, data);
    let mut buffer = [0_u8; UNIT_BYTES];
    group.bench_function("a write that stays in the cache", |bencher| {
        bencher.iter(|| host.write(Lpn(random.below(HOT_UNITS)), black_box(data)));
    });
    group.bench_function("a random overwrite in steady state", |bencher| {
        bencher.iter(|| host.write(Lpn(random.below(UNITS)), black_box(data)));
    });
    group.bench_function("a random read", |bencher| {
        bencher.iter(|| {
            host.submit(Command::Read { lpn: Lpn(random.below(UNITS)), data: &mut buffer });
            black_box(&buffer);
        });
    });
    group.bench_function("an atomic write of four units", |bencher| {
        bencher.iter(|| {
            let first = random.below(UNITS / 4) * 4;
            let writes: [(Lpn, &[u8]); 4] = std::array::from_fn(|unit| (Lpn(first + unit as u32), &data[..]));
            host.submit(Command::WriteAtomic { writes: black_box(&writes) });
        });
    });
}

fn commands(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("device");
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let data = [42_u8; UNIT_BYTES];
    group.throughput(Throughput::Elements(1));
    random_copies(&mut group, &mut random, &data);
    reads_and_writes(&mut group, &mut random, &data);
    group.finish();
}

criterion_group!(benches, commands);
criterion_main!(benches);
