//! Programs in wall-clock time: messages through the runtime, beside messages that the system answers itself and the same handler
//! as native Rust; and how long a program takes to start.
//!
//! Limits: a program starts in less than 10 ms. docs/measurements.md has the figures.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use tantalum::{Device, Profile};
use tantalum_drive::Drive;
use tantalum_spu::{EndpointId, Event, InstallOptions, ProcessId, ProgramId, SpuId, Ssd, shipped};

const OPEN: InstallOptions = InstallOptions { is_open: true, region: None };

/// Messages in one iteration.
const MESSAGES: u64 = 1000;

/// A handler that no program has: the system answers it.
const NO_HANDLER: u32 = 63;

fn ssd() -> Ssd {
    let profile = Profile { capacity_bytes: 64 << 20, ..Profile::load("willow").expect("built in") };
    Ssd::new(Drive::new(Device::in_memory(&profile).expect("a drive of this size")))
}

/// One message after the other; returns the sum of the answers.
fn messages(ssd: &mut Ssd, endpoint: EndpointId, program: ProgramId, handler: u32) -> i64 {
    let mut sum = 0;
    for message in 0..MESSAGES as u32 {
        let (now_ns, body) = (ssd.now_ns(), (message % 64).to_le_bytes().to_vec());
        let spu = SpuId(message % 8);
        ssd.send(endpoint, spu, (program, handler), body, now_ns).expect("the drive has power");
        match ssd.next_event() {
            Some(Event::Answer { status, .. }) => sum += i64::from(status),
            other => panic!("{other:?}"),
        }
    }
    sum
}

/// The program `hits`, as native Rust.
fn hits(counts: &mut [u32; 64], body: &[u8]) -> i32 {
    let Some(page) = body.first_chunk().map(|bytes| u32::from_le_bytes(*bytes)) else { return -13 };
    let Some(count) = counts.get_mut(page as usize) else { return -10 };
    *count += 1;
    *count as i32
}

fn speed(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("messages");
    group.throughput(Throughput::Elements(MESSAGES));
    let mut ssd = ssd();
    let endpoint = ssd.endpoint(ProcessId::KERNEL).expect("a queue pair");
    let program = ssd.install(ProcessId::KERNEL, shipped::HITS, OPEN).expect("it fits");
    while ssd.next_event().is_some() {}
    group.bench_function("a handler in the runtime", |bencher| {
        bencher.iter(|| messages(&mut ssd, endpoint, program, 0));
    });
    group.bench_function("answered by the system", |bencher| {
        bencher.iter(|| messages(&mut ssd, endpoint, program, NO_HANDLER));
    });
    let mut counts = [[0; 64]; 8];
    group.bench_function("the handler alone, native", |bencher| {
        bencher.iter(|| {
            (0..MESSAGES as u32)
                .map(|message| {
                    let body = black_box((message % 64).to_le_bytes());
                    i64::from(hits(&mut counts[message as usize % 8], &body))
                })
                .sum::<i64>()
        });
    });
}

fn start(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("start on eight processors");
    for (name, module) in [("echo", shipped::ECHO), ("atomic_writes", shipped::ATOMIC_WRITES)] {
        let mut ssd = ssd();
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let program = ssd.install(ProcessId::KERNEL, module, OPEN).expect("it fits");
                ssd.uninstall(program).expect("it was just installed");
                while ssd.next_event().is_some() {}
            });
        });
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20);
    targets = speed, start
}
criterion_main!(benches);
