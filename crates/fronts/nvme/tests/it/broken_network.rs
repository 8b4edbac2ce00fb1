//! Networks that split, delay and break connections, and servers that are killed: nothing is torn, and nothing promised is
//! lost. `SEED`, `BREAKS` and `KILLS` choose another run, or a longer one.

use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::bystander::Bystander;
use crate::common::process::Process;
use crate::common::proxy::Proxy;
use crate::common::witness::{Witness, number};
use crate::common::{names, serve, small, subsystem};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum::{Device, check};
use tantalum_nvme::authentication::TlsKey;
use tantalum_nvme::client::{Client, Options};
use tantalum_nvme::server::Server;

/// The connections of one host.
fn attach(address: SocketAddr, options: Options) -> std::io::Result<(Client, Client)> {
    let (admin, id) = Client::admin(address, options, &names(), 0)?;
    admin.stream().set_read_timeout(Some(Duration::from_secs(20)))?;
    let io = Client::io(address, options, &names(), id, 1)?;
    io.stream().set_read_timeout(Some(Duration::from_secs(20)))?;
    Ok((admin, io))
}

#[test]
fn a_network_that_breaks_tears_nothing_and_loses_nothing() {
    let breaks = number("BREAKS", 60);
    break_connections(&serve(subsystem(4096)), breaks, None);
}

/// Connections to a server break so many times; those that may have TLS, if there is a key.
pub fn break_connections(server: &Server, breaks: u64, tls: Option<TlsKey>) {
    let seed = number("SEED", 1);
    println!("SEED={seed} BREAKS={breaks}");
    let bystander = Bystander::start(server);
    let proxy = Proxy::start(server.address(), seed, 300 << 10);
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut witness = Witness::new(0, seed);
    witness.keeps_power = true;
    let rounds = AtomicU64::new(0);
    let began = Instant::now();
    while proxy.happened.broken.load(Ordering::Relaxed) < breaks {
        assert!(began.elapsed() < Duration::from_secs(300), "the network does not break");
        // checking takes more bytes than this network lets through, so the host checks over another path
        let (_admin, mut io) = attach(server.address(), Options::default()).unwrap();
        witness.look(&mut io).expect("this network is whole");
        drop((_admin, io));
        let options = Options {
            header_digest: rng.random(),
            data_digest: rng.random(),
            no_capsule_data: rng.random(),
            no_flow_control: rng.random(),
            tls,
            ..Options::default()
        };
        if let Ok((_admin, mut io)) = attach(proxy.address, options) {
            let _ = witness.work(&mut io, &rounds);
        }
        // what a connection that broke had sent may be done until its threads have ended; the bystander has two
        let until = Instant::now() + Duration::from_secs(30);
        while server.connections() > 2 {
            assert!(Instant::now() < until, "{} connections are left", server.connections());
            thread::sleep(Duration::from_millis(1));
        }
        bystander.goes_on();
    }
    assert!(witness.last_write > breaks, "next to nothing was written");
    let happened = &proxy.happened;
    println!(
        "{} connections, {} broken, {} of them silent before; {} writes, {} rounds",
        happened.connections.load(Ordering::Relaxed),
        happened.broken.load(Ordering::Relaxed),
        happened.silenced.load(Ordering::Relaxed),
        witness.last_write,
        rounds.load(Ordering::Relaxed)
    );
    assert!(happened.silenced.load(Ordering::Relaxed) > 0);
    bystander.finish();
}

// -- killed servers -----------------------------------------------------------------------------------------------

/// Not a test: the process that tests start and kill.
#[test]
#[ignore = "started by another test, as a process of its own"]
fn serves_until_it_is_killed() {
    crate::common::process::serve_image();
}

#[test]
fn a_killed_server_tears_nothing_and_loses_nothing_that_was_flushed() {
    let (seed, kills) = (number("SEED", 1), number("KILLS", 8));
    println!("SEED={seed} KILLS={kills}");
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("drive.tant");
    Device::create(&image, &small()).unwrap().shutdown(0).unwrap();
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut witness = Witness::new(0, seed);
    let (mut broken, rounds) = (0, AtomicU64::new(0));
    for kill in 0..=kills {
        let (mut process, address) = Process::start(&image);
        let (_admin, mut io) = attach(address, Options::default()).unwrap();
        witness.look(&mut io).expect("nobody killed it yet");
        if kill == kills {
            break;
        }
        let before = rounds.load(Ordering::Relaxed);
        let flushes = rng.random_range(1..20);
        let delay = Duration::from_micros(rng.random_range(0..3000));
        thread::scope(|scope| {
            scope.spawn(|| {
                while rounds.load(Ordering::Relaxed) < before + flushes {
                    thread::sleep(Duration::from_micros(50));
                }
                thread::sleep(delay);
                process.kill();
            });
            broken += u64::from(witness.work(&mut io, &rounds).is_err());
        });
        let checked = check::check(&image, &mut |_, _| ControlFlow::Continue(())).unwrap();
        assert!(checked.findings.is_empty(), "after kill {kill}: {:?}", checked.findings);
    }
    assert_eq!(broken, kills, "each was killed while it was at work");
    println!("{} writes, {} rounds with a flush", witness.last_write, rounds.load(Ordering::Relaxed));
}
