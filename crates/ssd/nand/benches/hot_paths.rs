//! The medium's hot paths compared with their bound: random copies of 4 KiB into memory as large as the medium.
//!
//! Limits, in copies of the same run: stage and program of a unit 1.3; copyback of a unit 0.2. docs/measurements.md has
//! figures, and the reasons for the limits.

use std::hint::black_box;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use tantalum_nand::{
    BlockId, Geometry, Nand, PageId, Ppn, Source, Timing, UNIT_BYTES, UNIT_SPARE_BYTES, UnitSpare,
};

const GEOMETRY: Geometry = Geometry {
    channels: 4,
    dies_per_channel: 2,
    planes_per_die: 4,
    blocks_per_plane: 8,
    pages_per_block: 256,
    page_bytes: 16384,
};
const TIMING: Timing = Timing {
    read_ns: 50_000,
    program_ns: 500_000,
    erase_ns: 5_000_000,
    channel_bytes_per_second: 1_200_000_000,
};
const UNITS: usize = 4;
const SPARES: [UnitSpare; UNITS] = [[7; UNIT_SPARE_BYTES]; UNITS];

/// A generator that costs next to nothing.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 32) as usize * limit) >> 32
    }
}

/// A medium with every place programmed, so that every slot has been touched.
struct Filled {
    nand: Nand,
    at_ns: u64,
    next: PageId,
}

impl Filled {
    fn new() -> Filled {
        let nand = Nand::in_memory(GEOMETRY, TIMING).unwrap();
        let mut filled = Filled { nand, at_ns: 0, next: PageId(0) };
        for _ in 0..GEOMETRY.pages() {
            filled.program(&[1; UNIT_BYTES], |data, nand| Source::Staged(nand.stage(data).unwrap()));
        }
        filled
    }

    /// Programs the next page, erasing its block first if it is the first of a used one.
    fn program(&mut self, data: &[u8], mut source: impl FnMut(&[u8], &mut Nand) -> Source) {
        let block = GEOMETRY.block_of(self.next);
        if self.nand.next_page(block) == GEOMETRY.pages_per_block {
            self.at_ns = self.nand.erase(block, self.at_ns).unwrap();
            self.nand.advance(self.at_ns);
        }
        let sources: [Source; UNITS] = std::array::from_fn(|_| source(data, &mut self.nand));
        self.at_ns = self.nand.program(self.next, &sources, &SPARES, self.at_ns).unwrap();
        self.nand.advance(self.at_ns);
        self.next = PageId((self.next.0 + 1) % GEOMETRY.pages());
    }
}

type Group<'a> = BenchmarkGroup<'a, WallTime>;

/// The bound: copies of units into memory as large as the medium, and out of it.
fn random_copies(group: &mut Group<'_>, random: &mut Random, data: &[u8; UNIT_BYTES]) {
    let units = GEOMETRY.units() as usize;
    let mut arena = vec![1_u8; units * UNIT_BYTES];
    group.bench_function("four random copies into memory", |bencher| {
        bencher.iter(|| {
            for _ in 0..UNITS {
                let at = random.below(units) * UNIT_BYTES;
                arena[at..at + UNIT_BYTES].copy_from_slice(black_box(data));
            }
        });
    });
    let mut buffer = [0_u8; UNIT_BYTES];
    group.bench_function("four random copies out of it", |bencher| {
        bencher.iter(|| {
            for _ in 0..UNITS {
                let at = random.below(units) * UNIT_BYTES;
                buffer.copy_from_slice(&arena[at..at + UNIT_BYTES]);
                black_box(&buffer);
            }
        });
    });
}

fn program_and_read(
    group: &mut Group<'_>,
    filled: &mut Filled,
    random: &mut Random,
    data: &[u8; UNIT_BYTES],
) {
    group.bench_function("stage and program a page of four units", |bencher| {
        bencher.iter(|| {
            filled.program(black_box(data), |data, nand| Source::Staged(nand.stage(data).unwrap()));
        });
    });

    let units = GEOMETRY.units() as usize;
    let mut buffer = [0_u8; UNIT_BYTES];
    group.bench_function("read four random units", |bencher| {
        bencher.iter(|| {
            for _ in 0..UNITS {
                let ppn = Ppn(random.below(units) as u32);
                // The block being programmed is partly erased.
                let _ = black_box(filled.nand.read(ppn, &mut buffer, filled.at_ns));
            }
        });
    });
}

/// Copies pages back: each block is emptied into the previous one, which was emptied before.
fn copy_back(group: &mut Group<'_>, filled: &mut Filled, data: &[u8; UNIT_BYTES]) {
    while filled.nand.next_page(GEOMETRY.block_of(filled.next)) < GEOMETRY.pages_per_block {
        filled.program(data, |_, _| Source::Padding);
    }
    let pages = GEOMETRY.pages_per_block;
    let mut target = BlockId(GEOMETRY.blocks() - 1);
    let mut index = pages;
    group.bench_function("copy a page of four units back", |bencher| {
        bencher.iter(|| {
            if index == pages {
                index = 0;
                target = BlockId((target.0 + 1) % GEOMETRY.blocks());
                filled.at_ns = filled.nand.erase(target, filled.at_ns).unwrap();
                filled.nand.advance(filled.at_ns);
            }
            let victim = BlockId((target.0 + 1) % GEOMETRY.blocks());
            let from = GEOMETRY.page(victim, index);
            let sources: [Source; UNITS] =
                std::array::from_fn(|unit| Source::Copy(GEOMETRY.unit(from, unit as u32)));
            let page = GEOMETRY.page(target, index);
            filled.at_ns = filled.nand.program(page, &sources, &SPARES, filled.at_ns).unwrap();
            filled.nand.advance(filled.at_ns);
            index += 1;
        });
    });
}

fn hot_paths(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("nand");
    group.throughput(Throughput::Elements(UNITS as u64));
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let data = [42_u8; UNIT_BYTES];
    random_copies(&mut group, &mut random, &data);
    let mut filled = Filled::new();
    program_and_read(&mut group, &mut filled, &mut random, &data);
    copy_back(&mut group, &mut filled, &data);
    group.finish();
}

criterion_group!(benches, hot_paths);
criterion_main!(benches);
