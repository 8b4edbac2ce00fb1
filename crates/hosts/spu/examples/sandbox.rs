//! What the runtime costs on this machine: `cargo run --release -p tantalum-spu --example sandbox`.
//!
//! Two handlers, each as a module and as a Rust function: one that counts, with a few instructions, and one that computes a
//! checksum of 4 KiB. Both sides get the same requests by the same queues, processors and link, with the same instructions in
//! virtual time, and their answers are compared; so the difference is the sandbox. Then, how long programs take to start.

use std::hint::black_box;
use std::time::Instant;

use tantalum::{Device, Profile};
use tantalum_drive::Drive;
use tantalum_spu::{
    EndpointId, Event, InstallOptions, NativeHandler, ProcessId, ProgramId, SpuId, Ssd, answer, shipped,
};

const OPEN: InstallOptions = InstallOptions { is_open: true, region: None };
const ENDPOINTS: usize = 16;
/// The fastest counts: what else the machine does only makes a run slower.
const RUNS: usize = 9;
const SPU: SpuId = SpuId(0);

/// Adler-32 of the body, without its highest bit.
const CHECKSUM: &str = r#"(module
    (import "tantalum" "receive" (func $receive (param i32 i32) (result i32)))
    (import "tantalum" "respond" (func $respond (param i32) (result i32)))
    (memory 1)
    (global (export "__heap_base") i32 (i32.const 4096))
    (func (export "rpc_0") (param $source i32) (param $length i32)
        (local $at i32) (local $a i32) (local $b i32)
        (drop (call $receive (i32.const 0) (local.get $length)))
        (local.set $a (i32.const 1))
        (loop $next
            (local.set $a (i32.rem_u
                (i32.add (local.get $a) (i32.load8_u (local.get $at))) (i32.const 65521)))
            (local.set $b (i32.rem_u (i32.add (local.get $b) (local.get $a)) (i32.const 65521)))
            (br_if $next (i32.lt_u
                (local.tee $at (i32.add (local.get $at) (i32.const 1))) (local.get $length))))
        (drop (call $respond (i32.and (i32.const 0x7fffffff)
            (i32.or (i32.shl (local.get $b) (i32.const 16)) (local.get $a)))))))"#;

fn checksum(body: &[u8]) -> i32 {
    let (mut a, mut b) = (1_u32, 0_u32);
    for &byte in body {
        a = (a + u32::from(byte)) % 65521;
        b = (b + a) % 65521;
    }
    ((b << 16 | a) & 0x7fff_ffff) as i32
}

/// What `hits.c` does.
fn hit(hits: &mut [i32; 64], body: &[u8]) -> i32 {
    let page = body.first_chunk().map_or(u32::MAX, |word| u32::from_le_bytes(*word));
    let Some(count) = hits.get_mut(page as usize) else { return answer::BAD_ARGUMENT };
    *count += 1;
    *count
}

/// A handler as a module, and as a function of Rust.
struct Handler {
    name: &'static str,
    module: Vec<u8>,
    native: fn() -> NativeHandler,
    body: Vec<u8>,
    requests: u64,
}

fn handlers() -> [Handler; 2] {
    [
        Handler {
            name: "counts (hits.c)",
            module: shipped::HITS.to_vec(),
            native: || {
                let mut hits = [0; 64];
                Box::new(move |body| hit(&mut hits, body))
            },
            body: 7_u32.to_le_bytes().to_vec(),
            requests: 200_000,
        },
        Handler {
            name: "checksum of 4 KiB",
            module: wat::parse_str(CHECKSUM).expect("it is valid"),
            native: || Box::new(checksum),
            body: (0..4096).map(|at| (at * 7 + at / 256) as u8).collect(),
            requests: 4000,
        },
    ]
}

fn ssd() -> Ssd {
    let profile = Profile { capacity_bytes: 64 << 20, ..Profile::load("tlc-nvme").expect("built in") };
    Ssd::new(Drive::new(Device::in_memory(&profile).expect("a drive of this size")))
}

/// Each endpoint has one request in flight until all are answered. Returns the sum of the answers.
fn closed_loop(
    ssd: &mut Ssd,
    endpoints: &[EndpointId],
    program: ProgramId,
    body: &[u8],
    requests: u64,
) -> i64 {
    let processors = ssd.processors();
    let mut sent = 0;
    let mut send = |ssd: &mut Ssd, endpoint: EndpointId, at_ns: u64| {
        let spu = SpuId(sent as u32 % processors);
        sent += 1;
        ssd.send(endpoint, spu, (program, 0), body.to_vec(), at_ns).expect("the drive has power");
    };
    let begun_ns = ssd.now_ns();
    for &endpoint in endpoints {
        send(ssd, endpoint, begun_ns);
    }
    let (mut answered, mut sum) = (0, 0);
    while let Some(event) = ssd.next_event() {
        let Event::Answer { endpoint, status, at_ns, .. } = event else { panic!("{event}") };
        answered += 1;
        sum += i64::from(status);
        if answered + endpoints.len() as u64 <= requests {
            send(ssd, endpoint, at_ns);
        }
    }
    assert_eq!(answered, requests);
    sum
}

/// Seconds, the sum of the answers, and the virtual time.
fn run(handler: &Handler, install: impl FnOnce(&mut Ssd) -> ProgramId) -> (f64, i64, u64) {
    let mut ssd = ssd();
    let program = install(&mut ssd);
    let endpoints: Vec<EndpointId> =
        (0..ENDPOINTS).map(|_| ssd.endpoint(ProcessId::KERNEL).expect("a queue pair")).collect();
    while ssd.next_event().is_some() {}
    let (begun_ns, begun) = (ssd.now_ns(), Instant::now());
    let sum = closed_loop(&mut ssd, &endpoints, program, &handler.body, handler.requests);
    (begun.elapsed().as_secs_f64(), sum, ssd.now_ns() - begun_ns)
}

fn as_module(handler: &Handler) -> impl FnOnce(&mut Ssd) -> ProgramId {
    |ssd| ssd.install(ProcessId::KERNEL, &handler.module, OPEN).expect("it fits")
}

fn as_function(handler: &Handler, instructions: u64) -> impl FnOnce(&mut Ssd) -> ProgramId {
    move |ssd| {
        let make = |_| (handler.native)();
        ssd.install_native(ProcessId::KERNEL, OPEN, instructions, make).expect("it fits")
    }
}

/// The instructions that a module's handler executes for a request.
fn instructions(handler: &Handler) -> u64 {
    let profile = Profile::load("tlc-nvme").expect("built in");
    let busy_ns = |install: Box<dyn FnOnce(&mut Ssd) -> ProgramId + '_>| {
        let mut ssd = ssd();
        let program = install(&mut ssd);
        let endpoint = ssd.endpoint(ProcessId::KERNEL).expect("a queue pair");
        ssd.ask(endpoint, SPU, (program, 0), handler.body.clone()).expect("the drive has power");
        while ssd.next_event().is_some() {}
        ssd.busy_ns(SPU)
    };
    let more_ns = busy_ns(Box::new(as_module(handler))) - busy_ns(Box::new(as_function(handler, 0)));
    more_ns * profile.spu.instructions_per_second / 1_000_000_000
}

fn fastest(runs: &[f64]) -> f64 {
    runs.iter().copied().fold(f64::INFINITY, f64::min)
}

/// Nanoseconds of a call of the function alone, without a drive.
fn alone_ns(handler: &Handler) -> f64 {
    let calls = handler.requests * 10;
    let runs = (0..RUNS).map(|_| {
        let mut function = (handler.native)();
        let begun = Instant::now();
        for _ in 0..calls {
            black_box(function(black_box(&handler.body)));
        }
        begun.elapsed().as_secs_f64() * 1e9 / calls as f64
    });
    fastest(&runs.collect::<Vec<f64>>())
}

fn compare(handler: &Handler) {
    let instructions = instructions(handler);
    let (mut module, mut native) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        let (module_s, module_sum, module_ns) = run(handler, as_module(handler));
        let (native_s, native_sum, native_ns) = run(handler, as_function(handler, instructions));
        assert_eq!(module_sum, native_sum, "both sides answer the same");
        assert!(module_ns.abs_diff(native_ns) * 20 < module_ns, "both take the same virtual time");
        module.push(module_s);
        native.push(native_s);
    }
    let [module, native] = [module, native].map(|runs| fastest(&runs) * 1e9 / handler.requests as f64);
    let sandbox = module - native;
    println!(
        "{:>18} {instructions:>12} {:>10.0} {:>10.0} {:>6.2} {sandbox:>11.0} {:>14.1} {:>10.1}",
        handler.name,
        1e9 / module,
        1e9 / native,
        module / native,
        sandbox / instructions as f64,
        alone_ns(handler),
    );
}

/// How long each shipped program takes to start: checked, translated, copied to eight processors.
fn starts() {
    println!("\nStart of a program, us (median and slowest of 20):");
    for (name, module, _) in shipped::ALL {
        let starts = (0..20).map(|_| {
            let mut ssd = ssd();
            let begun = Instant::now();
            ssd.install(ProcessId::KERNEL, module, OPEN).expect("it fits");
            begun.elapsed().as_secs_f64() * 1e6
        });
        let mut starts: Vec<f64> = starts.collect();
        starts.sort_by(f64::total_cmp);
        println!("{name:>18} {:>10.0} {:>10.0}", starts[10], starts[19]);
    }
}

fn main() {
    println!(
        "Requests a second on this machine (fastest of {RUNS} runs, {ENDPOINTS} endpoints, 8 processors):"
    );
    println!(
        "{:>18} {:>12} {:>10} {:>10} {:>6} {:>11} {:>14} {:>10}",
        "handler",
        "instructions",
        "as module",
        "as Rust",
        "ratio",
        "sandbox, ns",
        "ns/instruction",
        "alone, ns"
    );
    for handler in &handlers() {
        compare(handler);
    }
    starts();
}
