//! What requests to programs cost: `cargo run --release -p tantalum-spu --example rpc`.
//!
//! All times are virtual, and the same on every machine. The example `sandbox` measures this machine's.

use tantalum::{Device, Profile};
use tantalum_drive::Drive;
use tantalum_spu::{
    BlockClient, EndpointId, InstallOptions, ProcessId, ProgramId, Rights, SpuId, Ssd, shipped,
};

const OPEN: InstallOptions = InstallOptions { is_open: true, region: None };

fn ssd(processors: u32) -> Ssd {
    let mut profile = Profile { capacity_bytes: 256 << 20, ..Profile::load("tlc-nvme").expect("built in") };
    profile.spu.count = processors;
    Ssd::new(Drive::new(Device::in_memory(&profile).expect("a drive of this size")))
}

/// Each endpoint has one request in flight until `requests` are answered; returns the virtual nanoseconds.
fn closed_loop(
    ssd: &mut Ssd,
    endpoints: &[EndpointId],
    to: (ProgramId, u32),
    body: usize,
    requests: u64,
) -> u64 {
    let begun_ns = ssd.now_ns();
    let processors = ssd.processors();
    let mut sent = 0;
    let mut send = |ssd: &mut Ssd, endpoint: EndpointId, at_ns: u64| {
        let spu = SpuId(sent as u32 % processors);
        sent += 1;
        ssd.send(endpoint, spu, to, vec![0; body], at_ns).expect("the drive has power");
    };
    for &endpoint in endpoints {
        send(ssd, endpoint, begun_ns);
    }
    let mut answered = 0;
    while let Some(event) = ssd.next_event() {
        if let tantalum_spu::Event::Answer { endpoint, status, at_ns, .. } = event {
            assert_eq!(status, 0);
            answered += 1;
            if answered + endpoints.len() as u64 <= requests {
                send(ssd, endpoint, at_ns);
            }
        }
    }
    ssd.now_ns() - begun_ns
}

fn endpoints(ssd: &mut Ssd, count: usize) -> Vec<EndpointId> {
    (0..count).map(|_| ssd.endpoint(ProcessId::KERNEL).expect("a queue pair")).collect()
}

fn round_trips() {
    println!("Round trip of an empty request, ns (one endpoint), and requests a second (endpoints):");
    println!("{:>11} {:>10} {:>12} {:>12} {:>12}", "processors", "round trip", "1", "8", "48");
    for processors in [1, 2, 4, 8, 16] {
        let mut rates = Vec::new();
        let mut round_trip = 0;
        for count in [1, 8, 48] {
            let mut ssd = ssd(processors);
            let program = ssd.install(ProcessId::KERNEL, shipped::ECHO, OPEN).expect("it fits");
            let endpoints = endpoints(&mut ssd, count);
            while ssd.next_event().is_some() {}
            let ns = closed_loop(&mut ssd, &endpoints, (program, 0), 0, 4000);
            if count == 1 {
                round_trip = ns / 4000;
            }
            rates.push(4000 * 1_000_000_000 / ns);
        }
        println!("{processors:>11} {round_trip:>10} {:>12} {:>12} {:>12}", rates[0], rates[1], rates[2]);
    }
}

fn bandwidth() {
    println!("\nBandwidth of requests with a body, MB/s, 16 endpoints and 8 processors:");
    println!("{:>11} {:>10}", "body", "MB/s");
    for body in [512, 4096, 16_384, 65_536] {
        let mut ssd = ssd(8);
        let program = ssd.install(ProcessId::KERNEL, shipped::ECHO, OPEN).expect("it fits");
        let endpoints = endpoints(&mut ssd, 16);
        while ssd.next_event().is_some() {}
        let ns = closed_loop(&mut ssd, &endpoints, (program, 0), body, 4000);
        println!("{body:>11} {:>10}", 4000 * body as u64 * 1000 / ns);
    }
}

/// A read of 4 KiB by a process with this many extents, less the same read by the kernel, which is not looked up.
fn permission_check() {
    println!("\nA permission check, ns, by extents in the table of the processor:");
    println!("{:>11} {:>10}", "extents", "ns");
    for extents in [1_u64, 16, 128, 768] {
        let mut ssd = ssd(8);
        let program = ssd.install(ProcessId::KERNEL, shipped::DIRECT_IO, OPEN).expect("it fits");
        let process = ssd.process();
        let user = ssd.endpoint(process).expect("a queue pair");
        let kernel = ssd.endpoint(ProcessId::KERNEL).expect("a queue pair");
        let row = ssd.stripes().row_bytes();
        for extent in 0..extents {
            ssd.grant(process, extent * row..extent * row + 4096, Rights::READ)
                .expect("a range of the drive");
        }
        while ssd.next_event().is_some() {}
        let mut busy = [user, kernel].map(|endpoint| {
            let before_ns = ssd.busy_ns(SpuId(0));
            BlockClient::new(endpoint, program).read(&mut ssd, 0, &mut [0; 4096]).expect("it has the right");
            while ssd.next_event().is_some() {}
            ssd.busy_ns(SpuId(0)) - before_ns
        });
        busy[0] -= busy[1];
        println!("{extents:>11} {:>10}", busy[0]);
    }
}

fn main() {
    round_trips();
    bandwidth();
    permission_check();
}
