//! Hosts write, flush and lose power at random flash operations, attach again, and find what they were promised.
//!
//! Each host has units of its own. A unit's bytes name the unit and a number that grows with each write; after a cut it must
//! hold, untorn, some write that is not older than what was flushed. `SEED` and `CUTS` choose another run, or a longer one.

mod common;

use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use common::{NQN, UNIT, names, small};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum::{Access, Device, Plp, Profile, check, mix};
use tantalum_drive::Pacing;
use tantalum_drive::control::Control;
use tantalum_nvme::client::{Client, Options as Way, block_command};
use tantalum_nvme::serve::{Options, Served};
use tantalum_nvme::wire::opcode::nvm;

const HOSTS: u64 = 2;
/// Units of each host.
const UNITS: u64 = 300;

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// The bytes of a unit: its name, the number of the write, and what follows from both.
fn bytes_of(unit: u64, write: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(UNIT);
    bytes.extend(unit.to_le_bytes());
    bytes.extend(write.to_le_bytes());
    while bytes.len() < UNIT {
        bytes.extend(mix(unit << 40 ^ write << 12 ^ bytes.len() as u64).to_le_bytes());
    }
    bytes
}

/// A host's knowledge of its units.
struct Host {
    first: u64,
    /// The number of the write that each unit has at least.
    durable: Vec<u64>,
    /// The number of the last write that was given for each unit.
    given: Vec<u64>,
    last_write: u64,
    rng: Xoshiro256PlusPlus,
}

impl Host {
    fn new(number: u64, seed: u64) -> Host {
        Host {
            first: number * UNITS,
            durable: vec![0; UNITS as usize],
            given: vec![0; UNITS as usize],
            last_write: 0,
            rng: Xoshiro256PlusPlus::seed_from_u64(seed << 8 | number),
        }
    }

    /// Looks at all units: after a loss of power what is there is durable.
    fn look(&mut self, io: &mut Client) -> std::io::Result<()> {
        for at in 0..UNITS {
            let unit = self.first + at;
            let read = io.read_command(block_command(nvm::READ, unit, 1), UNIT as u32)?;
            if read.code != 0 {
                return Err(std::io::ErrorKind::Other.into());
            }
            let write = u64::from_le_bytes(read.data[8..16].try_into().unwrap());
            let (durable, given) = (self.durable[at as usize], self.given[at as usize]);
            assert!(
                (durable..=given).contains(&write),
                "unit {unit} has write {write}; {durable} was durable, {given} the last given"
            );
            assert!(write == 0 || read.data == bytes_of(unit, write), "unit {unit} is torn");
            self.durable[at as usize] = write;
        }
        Ok(())
    }

    /// Writes and flushes until something fails.
    fn work(&mut self, io: &mut Client, rounds: &AtomicU64) -> std::io::Result<()> {
        loop {
            let mut written = Vec::new();
            for _ in 0..self.rng.random_range(1..6) {
                let at = self.rng.random_range(0..UNITS - 16);
                let count = self.rng.random_range(1..16_u64);
                self.last_write += 1;
                let mut data = Vec::new();
                for unit in at..at + count {
                    self.given[unit as usize] = self.last_write;
                    data.extend(bytes_of(self.first + unit, self.last_write));
                }
                let mut write = block_command(nvm::WRITE, self.first + at, count as u32);
                let is_forced = self.rng.random_ratio(1, 4);
                if is_forced {
                    write.dword10[2] = ((count as u32 - 1) | (1 << 30)).into();
                }
                succeeded(io.write_command(write, &data)?.code)?;
                let units = at..at + count;
                if is_forced {
                    units.for_each(|unit| self.durable[unit as usize] = self.last_write);
                } else {
                    written.push((units, self.last_write));
                }
            }
            succeeded(io.command(block_command(nvm::FLUSH, 0, 1))?.code)?;
            for (units, write) in written {
                units.for_each(|unit| {
                    let durable = &mut self.durable[unit as usize];
                    *durable = write.max(*durable);
                });
            }
            rounds.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn live(&mut self, address: SocketAddr, is_over: &AtomicBool, rounds: &AtomicU64) {
        let way = Way { data_digest: true, ..Way::default() };
        while !is_over.load(Ordering::Relaxed) {
            let attached = Client::admin(address, way, &names(), 0)
                .and_then(|(admin, id)| Ok((admin, Client::io(address, way, &names(), id, 1)?)));
            match attached {
                Ok((_admin, mut io)) => {
                    // how it breaks is of no interest: it must be known what is there
                    let _ = self.look(&mut io).and_then(|()| self.work(&mut io, rounds));
                }
                Err(_) => thread::sleep(Duration::from_millis(2)),
            }
        }
    }
}

fn succeeded(code: u16) -> std::io::Result<()> {
    if code == 0 { Ok(()) } else { Err(std::io::Error::other(format!("status {code:#x}"))) }
}

fn cut_again_and_again(image: &Path, profile: &Profile, seed: u64, cuts: u64) {
    let has_capacitor = profile.power.plp == Plp::Capacitor;
    let options = Options {
        image: image.to_path_buf(),
        listen: ([127, 0, 0, 1], 0).into(),
        pacing: Pacing::None,
        block_bytes: 4096,
        name: Some(NQN.to_owned()),
        remap_duplicates: false,
    };
    let served = Served::start(Device::create(image, profile).unwrap(), &options).unwrap();
    let (address, stopper) = (served.address(), served.stopper());
    let (is_over, rounds) = (AtomicBool::new(false), AtomicU64::new(0));
    let recoveries = AtomicU64::new(0);
    thread::scope(|scope| {
        let hosts: Vec<_> = (0..HOSTS)
            .map(|number| {
                let (is_over, rounds) = (&is_over, &rounds);
                scope.spawn(move || {
                    let mut host = Host::new(number, seed);
                    host.live(address, is_over, rounds);
                    host
                })
            })
            .collect();
        let serving = scope.spawn(|| {
            served.wait(|notice| {
                if let tantalum_nvme::serve::Notice::Recovered(_) = notice {
                    recoveries.fetch_add(1, Ordering::Relaxed);
                }
            })
        });
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        for cut in 0..cuts {
            let before = rounds.load(Ordering::Relaxed);
            while rounds.load(Ordering::Relaxed) < before + 5 {
                thread::sleep(Duration::from_millis(1));
                assert!(!hosts.iter().any(|host| host.is_finished()), "a host found what should not be");
            }
            // what a capacitor protects may wait in DRAM for ever
            let operations = (!has_capacitor).then(|| rng.random_range(1..60));
            Control::connect(image).unwrap().cut(operations, rng.random()).unwrap();
            while recoveries.load(Ordering::Relaxed) <= cut {
                thread::sleep(Duration::from_millis(1));
                assert!(!hosts.iter().any(|host| host.is_finished()), "a host found what should not be");
            }
        }
        is_over.store(true, Ordering::Relaxed);
        stopper.stop();
        serving.join().unwrap().unwrap();
        for host in hosts {
            let host = host.join().unwrap();
            assert!(host.last_write > cuts, "this host wrote next to nothing");
        }
    });
    assert_eq!(recoveries.load(Ordering::Relaxed), cuts);
    let checked = check::check(image, &mut |_, _| ControlFlow::Continue(())).unwrap();
    assert!(checked.findings.is_empty(), "{:?}", checked.findings);
    assert!(Device::open_as(image, Access::Overlay).unwrap().recovery().clean, "the stop was clean");
}

#[test]
fn hosts_find_what_they_were_promised() {
    let (seed, cuts) = (number("SEED", 1), number("CUTS", 12));
    println!("SEED={seed} CUTS={cuts}");
    let folder = tempfile::tempdir().unwrap();
    cut_again_and_again(&folder.path().join("drive.tant"), &small(), seed, cuts);
    let plp = Profile { capacity_bytes: 1 << 30, ..Profile::load("tlc-nvme-plp").unwrap() };
    cut_again_and_again(&folder.path().join("plp.tant"), &plp, seed, cuts);
}
