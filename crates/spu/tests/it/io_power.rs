//! Base-IO and Direct-IO under power cuts. After each, every unit holds one version of it whole: that of the last flush, or a
//! later one. `SPU_SEEDS=200` runs more seeds, `SPU_SEED=17` one.

use crate::common;

use common::{KERNEL, OPEN, profile, seeds, ssd_of};
use tantalum::{Outcome, PowerLoss, SplitMix64, UNIT_BYTES};
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
        Host { ssd, process, endpoint, module, random, versions, next: 0 }
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
            client.write(&mut self.ssd, first * 4096, &data)?;
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

    fn check(&mut self, client: BlockClient) -> Result<(), String> {
        for at in 0..UNITS {
            let mut data = vec![0; UNIT_BYTES];
            client.read(&mut self.ssd, at * 4096, &mut data).unwrap();
            let version = u64::from_le_bytes(data[..8].try_into().unwrap());
            if data != unit(version) {
                return Err(format!("unit {at} is torn"));
            }
            let possible = &mut self.versions[at as usize];
            if !possible.contains(&version) {
                return Err(format!("unit {at} holds {version}, and may hold {possible:?}"));
            }
            *possible = vec![version];
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
