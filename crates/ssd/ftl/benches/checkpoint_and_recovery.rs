//! What the FTL does rarely and at length, on a full drive of 1 GiB: a checkpoint of its map, and a recovery.
//!
//! Limits, in copies of the same map within memory: a checkpoint 10, a recovery with nothing to fold 350.
//! docs/measurements.md has figures, and the reasons for the limits.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use tantalum_ftl::{CheckpointInterval, Ftl, FtlConfig, HostUnit, Lpn, VictimPolicy};
use tantalum_nand::{Geometry, Nand, Timing, UNIT_BYTES};

const LOGICAL_UNITS: u32 = 1 << 18;
const GEOMETRY: Geometry = Geometry {
    channels: 4,
    dies_per_channel: 2,
    planes_per_die: 4,
    blocks_per_plane: 36,
    pages_per_block: 64,
    page_bytes: 16384,
};
const TIMING: Timing = Timing {
    read_ns: 50_000,
    program_ns: 500_000,
    erase_ns: 5_000_000,
    channel_bytes_per_second: 1_200_000_000,
};
const CONFIG: FtlConfig = FtlConfig {
    logical_units: LOGICAL_UNITS,
    victim_policy: VictimPolicy::Greedy,
    wear_spread: 100,
    dump_units: 0,
    protected_units: 0,
    units_at_once: 1,
    shared_owners: 65536,
    checkpoint_interval: CheckpointInterval::DEFAULT,
    index_dram_bytes: None,
    nvm_log_bytes: None,
    file_lists: None,
    placement: None,
    zones: None,
};

/// Bytes of L2P.
const MAP_BYTES: usize = LOGICAL_UNITS as usize * 4;

/// A drive that is full, and when it was.
fn full() -> (Ftl, u64) {
    let mut ftl = Ftl::format(Nand::in_memory(GEOMETRY, TIMING).unwrap(), CONFIG).unwrap();
    let mut at_ns = 0;
    for first in (0..LOGICAL_UNITS).step_by(4) {
        let page: [HostUnit; 4] = std::array::from_fn(|unit| {
            let slot = ftl.nand_mut().stage(&[1; UNIT_BYTES]).unwrap();
            HostUnit::plain(slot, Lpn(first + unit as u32), ftl.next_seq())
        });
        at_ns = ftl.write_page(&page, at_ns).unwrap();
        ftl.maintain(at_ns).unwrap();
    }
    (ftl, at_ns)
}

fn checkpoint_and_recovery(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("ftl");
    group.throughput(Throughput::Bytes(MAP_BYTES as u64));
    group.sample_size(20);
    let map = vec![1_u8; MAP_BYTES];
    let mut copy = vec![0_u8; MAP_BYTES];
    group.bench_function("a copy of a map of 1 MiB", |bencher| {
        bencher.iter(|| copy.copy_from_slice(black_box(&map)));
    });

    let (mut ftl, mut at_ns) = full();
    group.bench_function("a checkpoint of it", |bencher| {
        bencher.iter(|| {
            at_ns = ftl.take_checkpoint(at_ns, false).unwrap();
            ftl.maintain(at_ns).unwrap();
        });
    });

    // a clean checkpoint is the last thing written, so recovery reads it and takes none itself
    ftl.take_checkpoint(at_ns, true).unwrap();
    let mut flash = Some(ftl.into_nand());
    group.bench_function("a recovery of it", |bencher| {
        bencher.iter(|| {
            let nand = flash.take().expect("each recovery gives the flash back");
            let at_ns = nand.idle_ns();
            let (ftl, report) = Ftl::recover(nand, CONFIG, at_ns).map_err(|(_, error)| error).unwrap();
            assert!(report.clean);
            flash = Some(ftl.into_nand());
        });
    });
    group.finish();
}

criterion_group!(benches, checkpoint_and_recovery);
criterion_main!(benches);
