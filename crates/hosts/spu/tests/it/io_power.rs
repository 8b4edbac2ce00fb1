//! Base-IO and Direct-IO under power cuts. After each, every unit holds one version of it whole: that of the last flush, or a
//! later one. `SPU_SEEDS=200` runs more seeds, `SPU_SEED=17` one.

use crate::common;

use std::ops::Range;

use common::{KERNEL, OPEN, fail_each_step, nothing_fails, profile, seeds, ssd_of};
use tantalum::{Outcome, PowerLoss, UNIT_BYTES};
use tantalum_image::SplitMix64;
use tantalum_spu::{BlockClient, EndpointId, IoError, ProcessId, Rights, SpuError, Ssd, shipped};

const UNITS: u64 = 64;

struct Host {
    ssd: Ssd,
    process: ProcessId,
    endpoint: EndpointId,
    module: &'static [u8],
    random: SplitMix64,
    /// The versions that each unit may hold: the last flushed, and those after it.
    versions: Vec<Vec<u64>>,
    next: u64,
    /// Units of the write that failed.
    failed: Range<u64>,
}

fn unit(version: u64) -> Vec<u8> {
    version.to_le_bytes().repeat(UNIT_BYTES / 8)
}

impl Host {
    fn new(drive: &str, module: &'static [u8], is_kernel: bool, random: SplitMix64) -> Host {
        let mut ssd = ssd_of(&profile(drive));
        let process = if is_kernel { KERNEL } else { ssd.process() };
        let endpoint = ssd.endpoint(process).unwrap();
        let versions = vec![vec![0]; UNITS as usize];
        Host { ssd, process, endpoint, module, random, versions, next: 0, failed: 0..0 }
    }

    fn client(&mut self) -> BlockClient {
        let program = self.ssd.install(KERNEL, self.module, OPEN).unwrap();
        if !self.process.is_kernel() {
            self.ssd.grant(self.process, 0..UNITS * 4096, Rights::READ | Rights::WRITE).unwrap();
        }
        BlockClient::new(self.endpoint, program)
    }

    fn work(&mut self, client: BlockClient, steps: u32) -> Result<(), IoError> {
        for _ in 0..steps {
            if self.random.below(6) == 0 {
                client.flush(&mut self.ssd)?;
                for versions in &mut self.versions {
                    versions.drain(..versions.len() - 1);
                }
                continue;
            }
            let first = self.random.below(UNITS);
            let count = 1 + self.random.below((UNITS - first).min(6));
            let mut data = Vec::new();
            for versions in &mut self.versions[first as usize..(first + count) as usize] {
                self.next += 1;
                versions.push(self.next);
                data.extend(unit(self.next));
            }
            let written = client.write(&mut self.ssd, first * 4096, &data);
            if written.is_err() {
                self.failed = first..first + count;
            }
            written?;
        }
        Ok(())
    }

    fn recover(&mut self) {
        loop {
            let mut device = self.ssd.drive().lock();
            let again = self.random.below(3) == 0;
            device.cut_after(again.then(|| 1 + self.random.below(20)));
            let mut loss = PowerLoss::seeded(self.random.next_u64());
            if device.power_on(&mut loss).is_ok() {
                device.cut_after(None);
                break;
            }
        }
        self.ssd.power_on().unwrap();
        while self.ssd.next_event().is_some() {}
    }

    /// Reads each unit. Returns which of its possible versions it holds.
    fn find(&mut self, client: BlockClient) -> Result<Vec<usize>, String> {
        let mut found = Vec::new();
        for (at, possible) in self.versions.iter().enumerate() {
            let mut data = vec![0; UNIT_BYTES];
            client.read(&mut self.ssd, at as u64 * 4096, &mut data).unwrap();
            let version = u64::from_le_bytes(data[..8].try_into().unwrap());
            if data != unit(version) {
                return Err(format!("unit {at} is torn"));
            }
            let place = possible.iter().position(|possible| *possible == version);
            found.push(place.ok_or_else(|| format!("unit {at} holds {version}, and may hold {possible:?}"))?);
        }
        Ok(found)
    }

    /// Power has come back: what is there is durable.
    fn check(&mut self, client: BlockClient) -> Result<(), String> {
        let found = self.find(client)?;
        for (versions, found) in self.versions.iter_mut().zip(found) {
            *versions = vec![versions[found]];
        }
        Ok(())
    }

    /// The drive goes on: every unit holds its latest version, unless the write of that has failed. What that did not change
    /// then, it never does.
    fn check_running(&mut self, client: BlockClient) -> Result<(), String> {
        let found = self.find(client)?;
        for (at, (versions, found)) in self.versions.iter_mut().zip(found).enumerate() {
            if found + 1 < versions.len() && !self.failed.contains(&(at as u64)) {
                return Err(format!(
                    "unit {at} holds {}, and its latest version is another",
                    versions[found]
                ));
            }
            versions.truncate(found + 1);
        }
        Ok(())
    }
}

const DRIVES: [&str; 4] = ["tlc-nvme", "openssd-barefoot", "tlc-nvme-plp", "willow"];

/// Returns the cuts, or what was wrong after one.
fn torture(seed: u64, module: &'static [u8], is_kernel: bool) -> Result<u64, String> {
    println!("seed {seed}");
    let mut random = SplitMix64(seed);
    let drive = DRIVES[random.below(4) as usize];
    let mut host = Host::new(drive, module, is_kernel, random);
    let mut cuts = 0;
    for _ in 0..4 {
        let client = host.client();
        host.check(client)?;
        let operations = 1 + host.random.below(60);
        host.ssd.drive().lock().cut_after(Some(operations));
        match host.work(client, 60) {
            Err(IoError::Sending(SpuError::PowerLost)) => cuts += 1,
            Ok(()) => {
                host.ssd.cut_power();
                while host.ssd.next_event().is_some() {}
            }
            Err(error) => return Err(error.to_string()),
        }
        host.recover();
    }
    let client = host.client();
    host.check(client)?;
    Ok(cuts)
}

/// Seeds for the program of this module, which is for the kernel or not.
fn torture_all(module: &'static [u8], is_kernel: bool) {
    let mut cuts = 0;
    for seed in seeds(12) {
        cuts += torture(seed, module, is_kernel).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
    assert!(cuts > 0);
}

#[test]
fn base_io_keeps_what_was_flushed_and_tears_nothing() {
    torture_all(shipped::BASE_IO, true);
}

#[test]
fn direct_io_keeps_what_was_flushed_and_tears_nothing() {
    torture_all(shipped::DIRECT_IO, false);
}

/// Power fails at each flash operation of one workload in turn; each operation in flight is done or not.
#[test]
fn a_cut_at_every_flash_operation_of_base_io_and_direct_io_keeps_what_was_flushed() {
    for (module, is_kernel) in [(shipped::BASE_IO, true), (shipped::DIRECT_IO, false)] {
        for drive in &DRIVES[..2] {
            let mut operation = 1;
            'workload: loop {
                for outcome in [Outcome::NotStarted, Outcome::Completed] {
                    let mut host = Host::new(drive, module, is_kernel, SplitMix64(7));
                    let client = host.client();
                    host.ssd.drive().lock().cut_after(Some(operation));
                    match host.work(client, 25) {
                        Ok(()) => break 'workload,
                        Err(error) => assert_eq!(error, IoError::Sending(SpuError::PowerLost)),
                    }
                    host.ssd.drive().lock().power_on(&mut PowerLoss::all(outcome)).unwrap();
                    host.ssd.power_on().unwrap();
                    while host.ssd.next_event().is_some() {}
                    let client = host.client();
                    let found = host.check(client);
                    found.unwrap_or_else(|error| panic!("{drive}, {operation}, {outcome:?}: {error}"));
                }
                operation += 1;
            }
            println!("{drive}: {} operations", operation - 1);
            assert!(operation > 10, "{drive}: only {operation} operations");
        }
    }
}

/// A step inside a command of the drive fails. The program may say so; what was flushed is there, nothing is torn, and both the
/// drive and the program go on.
#[test]
fn whichever_step_of_the_drive_fails_base_io_and_direct_io_keep_what_was_flushed() {
    let (mut failed, mut refused) = (0, 0);
    for (module, is_kernel) in [(shipped::BASE_IO, true), (shipped::DIRECT_IO, false)] {
        for drive in DRIVES {
            failed += fail_each_step(|fault| {
                let mut host = Host::new(drive, module, is_kernel, SplitMix64(7));
                let client = host.client();
                host.work(client, 10).unwrap();
                host.ssd.drive().lock().fail_step(Some(fault)).unwrap();
                let answer = host.work(client, 25);
                while host.ssd.next_event().is_some() {}
                if !nothing_fails(&host.ssd) {
                    answer.unwrap_or_else(|error| panic!("{drive}, {fault:?}: {error}"));
                    return false;
                }
                refused += u32::from(answer.is_err());
                let client = host.client();
                host.check_running(client).unwrap_or_else(|error| panic!("{drive}, {fault:?}: {error}"));
                host.work(client, 10).unwrap_or_else(|error| panic!("{drive}, {fault:?}, then: {error}"));
                host.ssd.cut_power();
                while host.ssd.next_event().is_some() {}
                host.recover();
                let client = host.client();
                host.check(client).unwrap_or_else(|error| panic!("{drive}, {fault:?}: {error}"));
                true
            });
        }
    }
    println!("{failed} steps failed, {refused} requests were refused");
    assert!(failed > 60 && refused > 20, "{failed}, {refused}");
}

/// Base-IO and Direct-IO that acknowledge flushes and do nothing.
#[test]
fn the_torture_notices_programs_that_do_not_flush() {
    let base_io = include_bytes!("../canaries/base_io_unflushed.wasm");
    let direct_io = include_bytes!("../canaries/direct_io_unflushed.wasm");
    for (module, is_kernel) in [(&base_io[..], true), (&direct_io[..], false)] {
        let noticed = (0..20).find_map(|seed| torture(seed, module, is_kernel).err());
        println!("{}", noticed.expect("what was flushed is gone"));
    }
}
