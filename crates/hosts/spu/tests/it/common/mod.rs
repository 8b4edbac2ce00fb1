//! A small drive with processors, for tests.
#![allow(dead_code)]

use tantalum::{Device, FailingStep, Profile, StepFault};
use tantalum_drive::Drive;
use tantalum_spu::{EndpointId, Event, InstallOptions, ProcessId, ProgramId, SpuId, Ssd};

pub const KERNEL: ProcessId = ProcessId::KERNEL;
pub const OPEN: InstallOptions = InstallOptions { is_open: true, region: None };

/// A small drive of a profile, with what a capacitor saves to match.
pub fn profile(name: &str) -> Profile {
    let mut profile = Profile { capacity_bytes: 64 << 20, ..Profile::load(name).unwrap() };
    if profile.power.dump_bytes > 0 {
        profile.cache.bytes = 1 << 20;
        profile.power.dump_bytes = 2 << 20;
    }
    profile
}

pub fn ssd() -> Ssd {
    ssd_of(&profile("tlc-nvme"))
}

pub fn ssd_of(profile: &Profile) -> Ssd {
    Ssd::new(Drive::new(Device::in_memory(profile).unwrap()))
}

/// A program in the text form of WebAssembly.
pub fn wat(text: &str) -> Vec<u8> {
    wat::parse_str(text).unwrap()
}

/// The drive, an endpoint of the kernel, and an open program of the kernel.
pub fn with_program(module: &[u8]) -> (Ssd, EndpointId, ProgramId) {
    let mut ssd = ssd();
    let endpoint = ssd.endpoint(KERNEL).unwrap();
    let program = ssd.install(KERNEL, module, OPEN).unwrap();
    (ssd, endpoint, program)
}

/// Sends a request and waits for its answer; other events are returned too.
pub fn ask(
    ssd: &mut Ssd,
    endpoint: EndpointId,
    spu: u32,
    to: (ProgramId, u32),
    body: &[u8],
) -> (i32, Vec<Event>) {
    let sent = ssd.send(endpoint, SpuId(spu), to, body.to_vec(), ssd.now_ns()).unwrap();
    let mut others = Vec::new();
    loop {
        match ssd.next_event() {
            Some(Event::Answer { request, status, .. }) if request == sent => return (status, others),
            Some(other) => others.push(other),
            None => panic!("request {sent} was not answered; {others:?}"),
        }
    }
}

/// Everything still in flight.
pub fn rest(ssd: &mut Ssd) -> Vec<Event> {
    std::iter::from_fn(|| ssd.next_event()).collect()
}

/// The seeds of a random test: `SPU_SEED` for one, `SPU_SEEDS` for as many, or the default.
pub fn seeds(default: u64) -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok().map(|value| value.parse::<u64>().expect("a number"));
    match (number("SPU_SEED"), number("SPU_SEEDS")) {
        (Some(seed), _) => seed..seed + 1,
        (None, count) => 0..count.unwrap_or(default),
    }
}

/// Lets each step inside the commands of a workload fail: the first ones of each kind, then ever fewer; once, or, if that does
/// not use up the drive's blocks, from then on. `run` says whether the step came. Returns how many failed. Reads are left
/// out: their pages would be lost.
pub fn fail_each_step(mut run: impl FnMut(StepFault) -> bool) -> u32 {
    use FailingStep::{Buffer, Erase, Program, Reservation};
    let mut failed = 0;
    let faults = [
        (Program, false),
        (Erase, false),
        (Buffer, false),
        (Buffer, true),
        (Reservation, false),
        (Reservation, true),
    ];
    for (step, lasts) in faults {
        for after in (0..).filter(|after: &u64| *after < 4 || after.is_power_of_two()) {
            if !run(StepFault { step, after, lasts }) {
                break;
            }
            failed += 1;
        }
    }
    failed
}

/// Ends the failure. Returns whether the step came.
pub fn nothing_fails(ssd: &Ssd) -> bool {
    let mut device = ssd.drive().lock();
    let failed = device.step_has_failed();
    device.fail_step(None).expect("the drive has power");
    failed
}
