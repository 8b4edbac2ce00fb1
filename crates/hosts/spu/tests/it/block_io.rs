//! Base-IO and Direct-IO, and what the drive does for their requests.

use crate::common;

use std::time::{Duration, Instant};

use common::{KERNEL, OPEN, ask, profile, rest, ssd, ssd_of, with_program};
use tantalum_image::SplitMix64;
use tantalum_spu::{
    BlockClient, InstallError, InstallOptions, IoError, Rights, STRIPE_BYTES, SpuId, answer, shipped,
};

#[test]
fn base_io_reads_what_it_wrote_at_any_place_and_length() {
    let (mut ssd, endpoint, program) = with_program(shipped::BASE_IO);
    let client = BlockClient::new(endpoint, program);
    let mut random = SplitMix64(1);
    let mut model = vec![0_u8; 1 << 20];
    for _ in 0..200 {
        let start = random.below(1 << 20) as usize;
        let length = (random.below(3 << 14) as usize).min(model.len() - start);
        if random.below(2) == 0 {
            let byte = random.below(256) as u8;
            model[start..start + length].fill(byte);
            client.write(&mut ssd, start as u64, &model[start..start + length]).unwrap();
        } else {
            let mut read = vec![1; length];
            client.read(&mut ssd, start as u64, &mut read).unwrap();
            assert!(read == model[start..start + length], "{start} {length}");
        }
    }
    client.flush(&mut ssd).unwrap();
    assert!(rest(&mut ssd).is_empty());
    let handled: Vec<bool> = (0..8).map(|spu| ssd.busy_ns(SpuId(spu)) > 0).collect();
    assert_eq!(handled, [true; 8], "every processor works on its own stripes");
}

#[test]
fn the_same_requests_take_the_same_time_on_every_run() {
    let run = || {
        let (mut ssd, endpoint, program) = with_program(shipped::BASE_IO);
        let client = BlockClient::new(endpoint, program);
        client.write(&mut ssd, 100, &[3; 50_000]).unwrap();
        client.read(&mut ssd, 5, &mut [0; 60_000]).unwrap();
        (ssd.now_ns(), ssd.link_bytes(), (0..8).map(|spu| ssd.busy_ns(SpuId(spu))).collect::<Vec<_>>())
    };
    assert_eq!(run(), run());
}

#[test]
fn only_the_kernel_uses_base_io() {
    let (mut ssd, _, program) = with_program(shipped::BASE_IO);
    let process = ssd.process();
    let endpoint = ssd.endpoint(process).unwrap();
    let refused = BlockClient::new(endpoint, program).read(&mut ssd, 0, &mut [0; 8]);
    assert_eq!(refused, Err(IoError::Refused { start: 0, end: 8, status: answer::NOT_ALLOWED }));
}

#[test]
fn direct_io_reaches_what_was_granted_and_nothing_else() {
    let (mut ssd, kernel, program) = with_program(shipped::DIRECT_IO);
    let (alice, bob) = (ssd.process(), ssd.process());
    let kernel = BlockClient::new(kernel, program);
    let alices = BlockClient::new(ssd.endpoint(alice).unwrap(), program);
    let bobs = BlockClient::new(ssd.endpoint(bob).unwrap(), program);
    kernel.write(&mut ssd, 0, &[7; 100_000]).unwrap();
    ssd.grant(alice, 10_000..60_000, Rights::READ | Rights::WRITE).unwrap();
    ssd.grant(bob, 20_000..40_000, Rights::READ).unwrap();
    alices.write(&mut ssd, 10_000, &[8; 50_000]).unwrap();
    let mut read = [0; 20_000];
    bobs.read(&mut ssd, 20_000, &mut read).unwrap();
    assert_eq!(read, [8; 20_000]);
    // nobody writes or reads beyond their extents, and what is refused has changed nothing
    assert!(matches!(bobs.write(&mut ssd, 20_000, &[9; 10]), Err(IoError::NoPermission { .. })));
    assert!(matches!(alices.write(&mut ssd, 9_999, &[9; 2]), Err(IoError::NoPermission { .. })));
    assert!(matches!(alices.read(&mut ssd, 59_999, &mut [0; 2]), Err(IoError::NoPermission { .. })));
    // a right that is taken away is gone from the processors
    ssd.grant(bob, 20_000..40_000, Rights::NONE).unwrap();
    assert!(matches!(bobs.read(&mut ssd, 20_000, &mut read), Err(IoError::NoPermission { .. })));
    rest(&mut ssd);
    let mut all = vec![0; 100_000];
    kernel.read(&mut ssd, 0, &mut all).unwrap();
    let expected = [vec![7; 10_000], vec![8; 50_000], vec![7; 40_000]].concat();
    assert!(all == expected);
}

#[test]
fn a_permission_that_was_evicted_comes_back_from_the_driver() {
    let mut profile = profile("tlc-nvme");
    profile.spu.permission_entries = 4;
    let mut ssd = ssd_of(&profile);
    let program = ssd.install(KERNEL, shipped::DIRECT_IO, OPEN).unwrap();
    let process = ssd.process();
    let client = BlockClient::new(ssd.endpoint(process).unwrap(), program);
    // eight extents at processor 0, of which its table holds four
    let rows: Vec<u64> = (0..8).map(|row| row * 8 * STRIPE_BYTES).collect();
    for &row in &rows {
        ssd.grant(process, row..row + 4096, Rights::READ | Rights::WRITE).unwrap();
    }
    for round in 0..3 {
        for &row in &rows {
            client.write(&mut ssd, row, &[round; 4096]).unwrap();
            let mut read = [9; 4096];
            client.read(&mut ssd, row, &mut read).unwrap();
            assert_eq!(read, [round; 4096]);
        }
    }
    let (entries, evicted) = ssd.permissions(SpuId(0));
    assert!(entries == 4 && evicted >= 20, "{entries} entries, {evicted} evicted");
}

#[test]
fn what_does_not_fit_is_refused_with_the_figures() {
    let mut ssd = ssd();
    let (data, code) = ssd.free_memory();
    assert_eq!((data, code), (32_768 - 19_968, 32_768));
    let region = InstallOptions { region: Some(0..100), ..OPEN };
    let refusal = ssd.install(KERNEL, shipped::ECHO, region);
    assert!(matches!(refusal, Err(InstallError::Region { .. })), "{refusal:?}");
    assert_eq!(ssd.free_memory(), (data, code));
    let mut installed = 0;
    let refusal = loop {
        match ssd.install(KERNEL, shipped::ATOMIC_WRITES, OPEN) {
            Ok(_) => installed += 1,
            Err(refusal) => break refusal,
        }
    };
    assert!(installed >= 1);
    let InstallError::DoesNotFit { memory, needed, free, total, .. } = &refusal else { panic!("{refusal}") };
    assert!(*memory == "data" && needed > free && *total == 32_768, "{refusal}");
    assert!(refusal.to_string().contains("permissions take 19968, program 1 takes"), "{refusal}");
}

#[test]
fn several_programs_are_installed_at_once() {
    let mut ssd = ssd();
    let endpoint = ssd.endpoint(KERNEL).unwrap();
    for module in [shipped::ECHO, shipped::BASE_IO, shipped::DIRECT_IO, shipped::ATOMIC_WRITES] {
        let program = ssd.install(KERNEL, module, OPEN).unwrap();
        assert_ne!(ask(&mut ssd, endpoint, 3, (program, 0), &[]).0, answer::NO_ANSWER);
    }
}

/// From the module to the first answer. The machine that runs the tests may be busy, so the fastest of several starts counts.
#[test]
fn shipped_programs_start_within_ten_milliseconds() {
    for (name, module, _) in shipped::ALL {
        let start = || {
            let mut ssd = ssd();
            let endpoint = ssd.endpoint(KERNEL).unwrap();
            let begun = Instant::now();
            let program = ssd.install(KERNEL, module, OPEN).unwrap();
            ask(&mut ssd, endpoint, 3, (program, 0), &[]);
            begun.elapsed()
        };
        let fastest = (0..10).map(|_| start()).min().unwrap();
        println!("{name}: {fastest:?}");
        assert!(fastest < Duration::from_millis(10), "{name} took {fastest:?}");
    }
}
