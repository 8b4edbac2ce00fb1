//! Several hosts at once, on the same blocks and records, with every command, over a network that breaks their connections,
//! while power is cut or the server is killed. A tap on the wire knows what was promised to all of them together, and judges
//! what they read meanwhile and what is there afterwards. The seed draws what each host sends; the network and the machine
//! decide how it meets. `SEED`, `CUTS` and `KILLS` choose another run, or a longer one.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::common::planned::Planned;
use crate::common::process::Process;
use crate::common::proxy::Proxy;
use crate::common::witness::number;
use crate::common::{NQN, UNIT, names, serving, small};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum::{Device, FdpProfile, Isolation, NamespaceAttributes, NamespaceId, Plp, Profile, check};
use tantalum_control::Control;
use tantalum_drive::Pacing;
use tantalum_nvme::client::{Client, Options, block_command};
use tantalum_nvme::serve::{Notice, Served};
use tantalum_nvme::tap::{Checked, Tap};
use tantalum_nvme::wire::opcode::nvm;

const HOSTS: u64 = 3;
/// Bytes after which the network breaks a connection, on average.
const BREAKS_AFTER: u64 = 500 << 10;

/// An image with two namespaces for records.
fn create(image: &Path, profile: &Profile) -> Device {
    let mut device = Device::create(image, profile).unwrap();
    for _ in 0..2 {
        let (attributes, at_ns) = (NamespaceAttributes::default(), device.time_ns());
        let namespace = &mut NamespaceId::default();
        device.submit(tantalum::Command::CreateNamespace { attributes, namespace }, at_ns).unwrap();
    }
    device
}

fn attach(address: SocketAddr, options: Options) -> std::io::Result<(Client, Client)> {
    let (admin, id) = Client::admin(address, options, &names(), 0)?;
    let io = Client::io(address, options, &names(), id, 1)?;
    for client in [&admin, &io] {
        client.stream().set_read_timeout(Some(Duration::from_secs(20)))?;
    }
    Ok((admin, io))
}

/// The hosts, the network, the tap, and what they have seen.
struct Torture {
    hosts: Vec<Planned>,
    rng: Xoshiro256PlusPlus,
    tap: Tap,
    proxy: Proxy,
    checked: Option<Checked>,
}

impl Torture {
    /// Of a drive with so many reclaim unit handles.
    fn new(seed: u64, drive: SocketAddr, handles: u16) -> Torture {
        let tap = Tap::start(drive, NQN, UNIT).unwrap();
        tap.judge_reads();
        let proxy = Proxy::start(tap.address(), seed, BREAKS_AFTER);
        Torture {
            hosts: (0..HOSTS).map(|number| Planned::new(number, seed, handles)).collect(),
            rng: Xoshiro256PlusPlus::seed_from_u64(seed),
            tap,
            proxy,
            checked: None,
        }
    }

    /// The hosts work and attach again when their connections break, until `during` says that power is about to go: then a
    /// broken connection is the end, as nobody may attach before the check. It is told when nobody is left.
    fn live(&mut self, during: impl FnOnce(&mut Xoshiro256PlusPlus, &Life)) {
        let address = self.proxy.address;
        let life =
            Life { steps: AtomicU64::new(0), ends: AtomicBool::new(false), left: AtomicU64::new(HOSTS) };
        let life = &life;
        thread::scope(|scope| {
            for host in &mut self.hosts {
                let options = Options {
                    header_digest: self.rng.random(),
                    data_digest: self.rng.random(),
                    no_capsule_data: self.rng.random(),
                    no_flow_control: self.rng.random(),
                    together: self.rng.random(),
                    ..Options::default()
                };
                scope.spawn(move || {
                    let _leaves = Leaves(&life.left);
                    while !life.ends.load(Ordering::SeqCst) {
                        let attached = attach(address, options);
                        // how it breaks does not matter: the tap knows what must be there
                        if let Ok((_admin, mut io)) = attached {
                            let _ = host.work(&mut io, &life.steps);
                        }
                    }
                });
            }
            during(&mut self.rng, life);
        });
    }

    /// Power is back: what is there must be what was promised.
    fn check(&mut self, after: &str) {
        let checked = self.tap.check().unwrap();
        assert!(checked.broken.is_empty() && checked.unjudged == 0, "{after}: {checked:?}");
        self.checked = Some(checked);
    }

    /// Prints what was done, all of which must have been reached.
    fn tell(&self) {
        let mut done: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
        for host in &self.hosts {
            for (kind, (answered, refused)) in &host.done {
                let all = done.entry(kind).or_default();
                *all = (all.0 + answered, all.1 + refused);
            }
        }
        let connections: u64 = self.hosts.iter().map(|host| host.connections).sum();
        let broken = self.proxy.happened.broken.load(Ordering::Relaxed);
        println!("done and refused: {done:?}\n{connections} attached, {broken} broken by the network");
        println!("{:?}", self.checked);
        let checked = self.checked.as_ref().expect("it was checked");
        assert!(checked.steps > 0 && checked.broken_off > 0 && checked.read > 0 && broken > 0);
        assert!(done.values().all(|(answered, _)| *answered > 0), "a kind of command was never done");
    }
}

/// What the hosts of a life share.
struct Life {
    steps: AtomicU64,
    ends: AtomicBool,
    /// Hosts that may still attach.
    left: AtomicU64,
}

impl Life {
    /// Waits for so many commands. Panics if a host does.
    fn wait_for(&self, steps: u64) {
        while self.steps.load(Ordering::Relaxed) < steps {
            assert_eq!(self.left.load(Ordering::SeqCst), HOSTS, "a host has failed");
            thread::sleep(Duration::from_micros(200));
        }
    }
}

/// Counts a host that ends, also by a panic.
struct Leaves<'a>(&'a AtomicU64);

impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

fn is_whole(image: &Path) {
    let checked = check::check(image, &mut |_, _| ControlFlow::Continue(())).unwrap();
    assert!(checked.findings.is_empty(), "{:?}", checked.findings);
}

/// A host that the tap does not see writes a little, or until it cannot.
fn write_elsewhere(address: SocketAddr) {
    let Ok((_admin, mut io)) = attach(address, Options::default()) else { return };
    let mut write = block_command(nvm::WRITE, 9000, 1);
    write.dword10[2] = (1 << 30).into();
    let mut writes = 0..20;
    while writes.next().is_some() && io.write_command(write, &[1; UNIT]).is_ok_and(|ended| ended.code == 0) {}
}

fn under_power_cuts(image: &Path, profile: &Profile, seed: u64, cuts: u64) {
    let has_capacitor = profile.power.plp == Plp::Capacitor;
    let served = Served::start(create(image, profile), &serving(image, Pacing::None)).unwrap();
    let (address, stopper) = (served.address(), served.stopper());
    let (sender, recovered) = mpsc::channel();
    let serving = thread::spawn(move || {
        served.wait(|notice| {
            if let Notice::Recovered(_) = notice {
                sender.send(()).unwrap();
            }
        })
    });
    let handles = profile.fdp.map_or(0, |fdp| fdp.handles as u16);
    let mut torture = Torture::new(seed, address, handles);
    for cut in 0..cuts {
        torture.live(|rng, life| {
            life.wait_for(rng.random_range(20..300));
            life.ends.store(true, Ordering::SeqCst);
            let (operations, seed) = (rng.random_range(1..60), rng.random());
            // what a capacitor protects may wait in DRAM for ever
            let operations = (!has_capacitor).then_some(operations);
            Control::connect(image).unwrap().cut(operations, seed).unwrap();
            while recovered.recv_timeout(Duration::from_millis(20)).is_err() {
                if life.left.load(Ordering::SeqCst) == 0 {
                    // the network broke the last connection before power went
                    write_elsewhere(address);
                }
            }
        });
        torture.check(&format!("cut {cut} of seed {seed}"));
    }
    torture.tell();
    stopper.stop();
    serving.join().unwrap().unwrap();
    is_whole(image);
}

#[test]
fn what_several_hosts_were_promised_survives_power_cuts() {
    let (seed, cuts) = (number("SEED", 1), number("CUTS", 12));
    println!("SEED={seed} CUTS={cuts}");
    let folder = tempfile::tempdir().unwrap();
    under_power_cuts(&folder.path().join("drive.tant"), &small(), seed, cuts);
    let plp = Profile { capacity_bytes: 1 << 30, ..Profile::load("tlc-nvme-plp").unwrap() };
    under_power_cuts(&folder.path().join("plp.tant"), &plp, seed, cuts);
    let isolation = Isolation::Persistently;
    let placing =
        Profile { capacity_bytes: 1 << 30, fdp: Some(FdpProfile { handles: 3, isolation }), ..small() };
    under_power_cuts(&folder.path().join("placing.tant"), &placing, seed, cuts);
}

#[test]
fn what_several_hosts_were_promised_survives_kills_of_the_server() {
    let (seed, kills) = (number("SEED", 1), number("KILLS", 10));
    println!("SEED={seed} KILLS={kills}");
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("drive.tant");
    create(&image, &small()).shutdown(0).unwrap();
    let (mut process, address) = Process::start(&image);
    let mut torture = Torture::new(seed, address, 0);
    for kill in 0..kills {
        torture.live(|rng, life| {
            life.wait_for(rng.random_range(20..300));
            life.ends.store(true, Ordering::SeqCst);
            thread::sleep(Duration::from_micros(rng.random_range(0..3000)));
            process.kill();
        });
        is_whole(&image);
        let (next, address) = Process::start(&image);
        process = next;
        torture.tap.move_drive(address);
        torture.check(&format!("kill {kill} of seed {seed}"));
    }
    torture.tell();
}
