//! Hosts write, flush and lose power at random flash operations, attach again, and find what they were promised.
//!
//! Each host has units of its own. A unit's bytes name the unit and a number that grows with each write; after a cut it must
//! hold, untorn, some write that is not older than what was flushed. `SEED` and `CUTS` choose another run, or a longer one.

use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::common::witness::{Witness, number};
use crate::common::{names, serving, small};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum::{Access, Device, Plp, Profile, check};
use tantalum_control::Control;
use tantalum_drive::Pacing;
use tantalum_nvme::client::{Client, Options as Way};
use tantalum_nvme::serve::Served;

const HOSTS: u64 = 2;

fn live(host: &mut Witness, address: SocketAddr, is_over: &AtomicBool, rounds: &AtomicU64) {
    let way = Way { data_digest: true, ..Way::default() };
    while !is_over.load(Ordering::Relaxed) {
        let attached = Client::admin(address, way, &names(), 0)
            .and_then(|(admin, id)| Ok((admin, Client::io(address, way, &names(), id, 1)?)));
        match attached {
            Ok((_admin, mut io)) => {
                // how it breaks does not matter: what is there must be known
                let _ = host.look(&mut io).and_then(|()| host.work(&mut io, rounds));
            }
            Err(_) => thread::sleep(Duration::from_millis(2)),
        }
    }
}

fn cut_again_and_again(image: &Path, profile: &Profile, seed: u64, cuts: u64) {
    let has_capacitor = profile.power.plp == Plp::Capacitor;
    let served =
        Served::start(Device::create(image, profile).unwrap(), &serving(image, Pacing::None)).unwrap();
    let (address, stopper) = (served.address(), served.stopper());
    let (is_over, rounds) = (AtomicBool::new(false), [const { AtomicU64::new(0) }; HOSTS as usize]);
    let recoveries = AtomicU64::new(0);
    thread::scope(|scope| {
        let hosts: Vec<_> = (0..HOSTS)
            .map(|number| {
                let (is_over, rounds) = (&is_over, &rounds[number as usize]);
                scope.spawn(move || {
                    let mut host = Witness::new(number, seed);
                    live(&mut host, address, is_over, rounds);
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
            // each of them, however busy the machine is
            let done = || [0, 1].map(|host: usize| rounds[host].load(Ordering::Relaxed));
            let before = done();
            while done().iter().zip(before).any(|(now, before)| *now < before + 3) {
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
