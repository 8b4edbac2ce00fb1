//! Base-IO and Direct-IO under power cuts. After each, every unit holds one version of it whole: that of the last flush, or a
//! later one. `SPU_SEEDS=200` runs more seeds, `SPU_SEED=17` one.

mod common;

use common::{KERNEL, OPEN, profile, seeds, ssd_of};
use tantalum::{PowerLoss, SplitMix64, UNIT_BYTES};
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
    fn client(&mut self) -> BlockClient {
        let program = self.ssd.install(KERNEL, self.module, OPEN).unwrap();
        if !self.process.is_kernel() {
            self.ssd.grant(self.process, 0..UNITS * 4096, Rights::READ | Rights::WRITE).unwrap();
        }
        BlockClient::new(self.endpoint, program)
    }

    fn work(&mut self, client: BlockClient) -> Result<(), IoError> {
        for _ in 0..60 {
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

    fn check(&mut self, client: BlockClient) {
        for at in 0..UNITS {
            let mut data = vec![0; UNIT_BYTES];
            client.read(&mut self.ssd, at * 4096, &mut data).unwrap();
            let version = u64::from_le_bytes(data[..8].try_into().unwrap());
            assert_eq!(data, unit(version), "unit {at} is torn");
            let possible = &mut self.versions[at as usize];
            assert!(possible.contains(&version), "unit {at} holds {version}, and may hold {possible:?}");
            *possible = vec![version];
        }
    }
}

fn torture(seed: u64, is_kernel: bool) -> u64 {
    println!("seed {seed}");
    let mut random = SplitMix64(seed);
    let names = ["tlc-nvme", "openssd-barefoot", "tlc-nvme-plp", "willow"];
    let mut ssd = ssd_of(&profile(names[random.below(4) as usize]));
    let process = if is_kernel { KERNEL } else { ssd.process() };
    let endpoint = ssd.endpoint(process).unwrap();
    let module = if is_kernel { shipped::BASE_IO } else { shipped::DIRECT_IO };
    let versions = vec![vec![0]; UNITS as usize];
    let mut host = Host { ssd, process, endpoint, module, random, versions, next: 0 };
    let mut cuts = 0;
    for _ in 0..4 {
        let client = host.client();
        host.check(client);
        let operations = 1 + host.random.below(60);
        host.ssd.drive().lock().cut_after(Some(operations));
        match host.work(client) {
            Err(IoError::Sending(SpuError::PowerLost)) => cuts += 1,
            Ok(()) => {
                host.ssd.cut_power();
                while host.ssd.next_event().is_some() {}
            }
            Err(error) => panic!("{error}"),
        }
        host.recover();
    }
    let client = host.client();
    host.check(client);
    cuts
}

#[test]
fn base_io_keeps_what_was_flushed_and_tears_nothing() {
    let cuts: u64 = seeds(12).map(|seed| torture(seed, true)).sum();
    assert!(cuts > 0);
}

#[test]
fn direct_io_keeps_what_was_flushed_and_tears_nothing() {
    let cuts: u64 = seeds(12).map(|seed| torture(seed, false)).sum();
    assert!(cuts > 0);
}
