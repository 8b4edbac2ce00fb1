//! Every command that is all or nothing, by several hosts at once, among deep queues of plain reads and writes: while power is
//! cut, while the server is killed, and while hosts hang up in the middle of their data. `SEED`, `CUTS` and `KILLS` choose
//! another run, or a longer one.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::common::grouped::Grouped;
use crate::common::process::Process;
use crate::common::witness::{bytes_of, number};
use crate::common::{UNIT, names, serving, small};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum::{Device, NamespaceAttributes, NamespaceId, check};
use tantalum_control::Control;
use tantalum_drive::Pacing;
use tantalum_nvme::client::{Client, Options, block_command};
use tantalum_nvme::serve::{Notice, Served, Stopper};
use tantalum_nvme::wire::opcode::nvm;

/// An image with two namespaces for records.
fn create(image: &Path) -> Device {
    let mut device = Device::create(image, &small()).unwrap();
    for _ in 0..2 {
        let (attributes, at_ns) = (NamespaceAttributes::default(), device.time_ns());
        let namespace = &mut NamespaceId::default();
        device.submit(tantalum::Command::CreateNamespace { attributes, namespace }, at_ns).unwrap();
    }
    device
}

fn attach(address: SocketAddr, options: Options) -> io::Result<(Client, Client)> {
    let (admin, id) = Client::admin(address, options, &names(), 0)?;
    let io = Client::io(address, options, &names(), id, 1)?;
    for client in [&admin, &io] {
        client.stream().set_read_timeout(Some(Duration::from_secs(20)))?;
    }
    Ok((admin, io))
}

/// A host that keeps many plain commands in flight, which reach the drive together.
struct Deep {
    first: u64,
    /// The number of the last flushed write of each unit, and of the last one submitted.
    units: Vec<(u64, u64)>,
    last: u64,
    rng: Xoshiro256PlusPlus,
}

impl Deep {
    fn new(seed: u64) -> Deep {
        let rng = Xoshiro256PlusPlus::seed_from_u64(seed << 8 | 0xff);
        Deep { first: 5000, units: vec![(0, 0); 256], last: 0, rng }
    }

    fn check(&self, unit: usize, data: &[u8]) -> u64 {
        let write = u64::from_le_bytes(data[8..16].try_into().unwrap());
        let (durable, given) = self.units[unit];
        assert!((durable..=given).contains(&write), "unit {unit} has {write}, not {durable} to {given}");
        assert!(write == 0 || data == bytes_of(self.first + unit as u64, write), "unit {unit} is torn");
        write
    }

    fn look(&mut self, io: &mut Client) -> io::Result<()> {
        for from in (0..self.units.len()).step_by(32) {
            let mut units = HashMap::new();
            for unit in from..from + 32 {
                let read = block_command(nvm::READ, self.first + unit as u64, 1);
                units.insert(io.submit(read, Vec::new(), UNIT as u32)?, unit);
            }
            for _ in from..from + 32 {
                let ended = io.reap()?;
                if ended.code != 0 {
                    return Err(io::Error::other("it cannot be read"));
                }
                let unit = units[&ended.id];
                let write = self.check(unit, &ended.data);
                // nothing is in flight
                self.units[unit] = (write, write);
            }
        }
        Ok(())
    }

    /// Units are written and read at once, each by one write at most.
    fn work(&mut self, io: &mut Client, rounds: &AtomicU64) -> io::Result<()> {
        loop {
            self.last += 1;
            let from = self.rng.random_range(0..self.units.len() - 48);
            let (mut reads, mut under_way) = (HashMap::new(), 0);
            for unit in from..from + 48 {
                let lpn = self.first + unit as u64;
                if self.rng.random_ratio(2, 3) {
                    self.units[unit].1 = self.last;
                    io.submit_write(block_command(nvm::WRITE, lpn, 1), bytes_of(lpn, self.last))?;
                    under_way += 1;
                }
                if self.rng.random() {
                    let id = io.submit(block_command(nvm::READ, lpn, 1), Vec::new(), UNIT as u32)?;
                    reads.insert(id, unit);
                    under_way += 1;
                }
            }
            for _ in 0..under_way {
                let ended = io.reap()?;
                if ended.code != 0 {
                    return Err(io::Error::other("it failed"));
                }
                if let Some(&unit) = reads.get(&ended.id) {
                    self.check(unit, &ended.data);
                }
            }
            if io.command(block_command(nvm::FLUSH, 0, 1))?.code != 0 {
                return Err(io::Error::other("it was not flushed"));
            }
            self.units.iter_mut().for_each(|(durable, given)| *durable = *given);
            rounds.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Stops a server also if a test fails.
struct Stops(Stopper);

impl Drop for Stops {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// What a host does with its connections until they break.
type Life<'a> = dyn FnMut(&mut Client, &mut Client) -> io::Result<()> + 'a;

/// The life of a host: it attaches, checks its units, and works until its connection breaks.
struct Hosts {
    grouped: Vec<Grouped>,
    deep: Deep,
    rng: Xoshiro256PlusPlus,
}

impl Hosts {
    fn new(seed: u64) -> Hosts {
        let rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        Hosts {
            grouped: (0..3).map(|number| Grouped::new(number, seed)).collect(),
            deep: Deep::new(seed),
            rng,
        }
    }

    /// All of them, until it is over; `during` runs meanwhile.
    fn live(&mut self, address: SocketAddr, during: impl FnOnce(&AtomicU64, &AtomicBool)) {
        let (is_over, failed, steps) = (AtomicBool::new(false), AtomicBool::new(false), AtomicU64::new(0));
        let (is_over, failed, steps) = (&is_over, &failed, &steps);
        let again = |options: Options, mut live: Box<Life<'_>>| {
            while !is_over.load(Ordering::Relaxed) {
                let attached = attach(address, options);
                // how it breaks does not matter: what is there must be known
                let broken = attached.and_then(|(mut admin, mut io)| live(&mut admin, &mut io));
                if broken.is_err() {
                    thread::sleep(Duration::from_millis(2));
                }
            }
        };
        thread::scope(|scope| {
            let mut threads = Vec::new();
            for host in &mut self.grouped {
                let options = Options {
                    header_digest: self.rng.random(),
                    data_digest: self.rng.random(),
                    no_capsule_data: self.rng.random(),
                    ..Options::default()
                };
                threads.push(scope.spawn(move || {
                    again(
                        options,
                        Box::new(|admin, io| {
                            host.look(io)?;
                            host.work(admin, io, steps)
                        }),
                    );
                }));
            }
            let deep = &mut self.deep;
            threads.push(scope.spawn(move || {
                let options = Options { together: true, no_flow_control: true, ..Options::default() };
                again(
                    options,
                    Box::new(|_, io| {
                        deep.look(io)?;
                        deep.work(io, steps)
                    }),
                );
            }));
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    if threads.iter().any(|thread| thread.is_finished()) {
                        failed.store(true, Ordering::Relaxed);
                        return;
                    }
                    thread::sleep(Duration::from_millis(1));
                }
            });
            during(steps, failed);
            is_over.store(true, Ordering::Relaxed);
        });
    }

    fn tell(&self) {
        for (number, host) in self.grouped.iter().enumerate() {
            let Grouped { last, done, torn_off, aborted, .. } = host;
            println!(
                "host {number}: {last} commands, {done:?} of each step, {torn_off} torn off, {aborted} aborted"
            );
        }
        println!("deep queues: {} rounds", self.deep.last);
    }
}

fn is_whole(image: &Path) {
    let checked = check::check(image, &mut |_, _| ControlFlow::Continue(())).unwrap();
    assert!(checked.findings.is_empty(), "{:?}", checked.findings);
}

#[test]
fn all_or_nothing_holds_for_mixed_commands_under_power_cuts() {
    let (seed, cuts) = (number("SEED", 1), number("CUTS", 20));
    println!("SEED={seed} CUTS={cuts}");
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("drive.tant");
    let served = Served::start(create(&image), &serving(&image, Pacing::None)).unwrap();
    let (address, stops) = (served.address(), Stops(served.stopper()));
    let recoveries = AtomicU64::new(0);
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut hosts = Hosts::new(seed);
    let (image, recoveries) = (&image, &recoveries);
    thread::scope(|scope| {
        let serving = scope.spawn(|| {
            served.wait(|notice| {
                if let Notice::Recovered(_) = notice {
                    recoveries.fetch_add(1, Ordering::Relaxed);
                }
            })
        });
        hosts.live(address, move |steps, failed| {
            // hosts work until their connections end
            let _stops = stops;
            for cut in 0..cuts {
                let before = steps.load(Ordering::Relaxed);
                while steps.load(Ordering::Relaxed) < before + 30 && !failed.load(Ordering::Relaxed) {
                    thread::sleep(Duration::from_millis(1));
                }
                if failed.load(Ordering::Relaxed) {
                    return;
                }
                Control::connect(image).unwrap().cut(Some(rng.random_range(1..60)), rng.random()).unwrap();
                while recoveries.load(Ordering::Relaxed) <= cut && !failed.load(Ordering::Relaxed) {
                    thread::sleep(Duration::from_millis(1));
                }
            }
        });
        serving.join().unwrap().unwrap();
    });
    hosts.tell();
    for host in &hosts.grouped {
        assert!(host.done.iter().all(|&done| done > 0), "a kind of command was never done");
    }
    is_whole(image);
}

#[test]
fn all_or_nothing_holds_for_mixed_commands_when_the_server_is_killed() {
    let (seed, kills) = (number("SEED", 1), number("KILLS", 10));
    println!("SEED={seed} KILLS={kills}");
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("drive.tant");
    create(&image).shutdown(0).unwrap();
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut hosts = Hosts::new(seed);
    for _ in 0..kills {
        let (mut process, address) = Process::start(&image);
        let (wanted, delay) = (rng.random_range(1..300), Duration::from_micros(rng.random_range(0..3000)));
        hosts.live(address, |steps, failed| {
            while steps.load(Ordering::Relaxed) < wanted && !failed.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_micros(100));
            }
            thread::sleep(delay);
            process.kill();
        });
        is_whole(&image);
    }
    hosts.tell();
    assert!(hosts.grouped.iter().all(|host| host.last > kills), "next to nothing was done");
}
