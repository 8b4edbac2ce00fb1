//! The tap on the wire: it confirms that a drive keeps what it has acknowledged, and detects one that does not. `SEED`
//! and `CUTS` choose another run, or a longer one.

use std::sync::atomic::AtomicU64;
use std::sync::mpsc;
use std::thread;

use crate::common::witness::{Witness, number};
use crate::common::{NQN, UNIT, names, pattern, serve, serving, small, subsystem_on, with_transaction};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum::Device;
use tantalum_control::Control;
use tantalum_drive::Pacing;
use tantalum_nvme::client::{Client, Options, block_command, command};
use tantalum_nvme::io::vendor::Range;
use tantalum_nvme::serve::{Notice, Served};
use tantalum_nvme::server::Server;
use tantalum_nvme::tap::Tap;
use tantalum_nvme::tap::promises::Broken;
use tantalum_nvme::tap::spot::Spot;
use tantalum_nvme::wire::opcode::{nvm, vendor};
use zerocopy::IntoBytes;

fn attach(tap: &Tap, options: Options) -> std::io::Result<(Client, Client)> {
    let (admin, id) = Client::admin(tap.address(), options, &names(), 0)?;
    let io = Client::io(tap.address(), options, &names(), id, 1)?;
    Ok((admin, io))
}

#[test]
fn a_drive_keeps_what_went_over_the_wire() {
    let (seed, cuts) = (number("SEED", 1), number("CUTS", 8));
    println!("SEED={seed} CUTS={cuts}");
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("drive.tant");
    let options = serving(&image, Pacing::None);
    let served = Served::start(Device::create(&image, &small()).unwrap(), &options).unwrap();
    let tap = Tap::start(served.address(), NQN, UNIT).unwrap();
    let stopper = served.stopper();
    let (sender, recovered) = mpsc::channel();
    let serving = thread::spawn(move || {
        served.wait(|notice| {
            if let Notice::Recovered(_) = notice {
                sender.send(()).unwrap();
            }
        })
    });
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut witness = Witness::new(0, seed);
    let rounds = AtomicU64::new(0);
    for cut in 0..cuts {
        // with small and with large writes
        let options = Options { no_capsule_data: rng.random(), ..Options::default() };
        let (admin, mut io) = attach(&tap, options).unwrap();
        let operations = rng.random_range(1..200);
        Control::connect(&image).unwrap().cut(Some(operations), rng.random()).unwrap();
        assert!(witness.work(&mut io, &rounds).is_err());
        recovered.recv().unwrap();
        drop((admin, io));
        let checked = tap.check().unwrap();
        assert!(checked.broken.is_empty() && checked.unjudged == 0, "cut {cut}: {checked:?}");
        assert!(checked.spots > 0);
        println!("cut {cut}: {} blocks, {} flushes", checked.spots, checked.flushes);
    }
    stopper.stop();
    serving.join().unwrap().unwrap();
}

fn served_by(server: &Server, commands: impl Fn(&mut Client)) -> usize {
    let tap = Tap::start(server.address(), NQN, UNIT).unwrap();
    let (admin, mut io) = attach(&tap, Options::default()).unwrap();
    commands(&mut io);
    drop((admin, io));
    tap.check().unwrap().broken.len()
}

#[test]
fn a_drive_that_forgets_is_found_out() {
    let device = Device::in_memory(&small()).unwrap();
    let subsystem = subsystem_on(device, UNIT as u32, Pacing::None);
    let Ok(subsystem) = std::sync::Arc::try_unwrap(subsystem) else { panic!("nobody else has it") };
    // it answers everything, and reads zeros
    let server = serve(subsystem.without_drive().into());
    let write = |io: &mut Client, blocks: usize, force: u32| {
        let mut write = block_command(nvm::WRITE, 5, blocks as u32);
        write.dword10[2] = ((blocks as u32 - 1) | (force << 30)).into();
        assert_eq!(io.write_command(write, &pattern(1, blocks * UNIT)).unwrap().code, 0);
    };
    let flush = |io: &mut Client| assert_eq!(io.command(block_command(nvm::FLUSH, 0, 1)).unwrap().code, 0);
    let flushed = served_by(&server, |io| {
        write(io, 1, 0);
        write(io, 20, 0);
        flush(io);
    });
    assert_eq!(flushed, 20);
    assert_eq!(served_by(&server, |io| write(io, 3, 1)), 3, "forced to flash");
    let atomic = |io: &mut Client| {
        let mut data: Vec<u8> = [3_u32, 90].into_iter().flat_map(u32::to_le_bytes).collect();
        data.resize(UNIT, 0);
        data.extend(pattern(2, 2 * UNIT));
        let write = command(vendor::WRITE_ATOMIC, 1, [0, 0, 1, 0, 0, 0]);
        assert_eq!(io.write_command(write, &data).unwrap().code, 0);
    };
    assert_eq!(served_by(&server, atomic), 2, "durable when it is done");
    let shared = served_by(&server, |io| {
        atomic(io);
        let range = Range::new(200, 3, 1).as_bytes().to_vec();
        assert_eq!(io.write_command(command(vendor::SHARE, 1, [0; 6]), &range).unwrap().code, 0);
    });
    assert_eq!(shared, 3, "and so is what is shared");
    let committed = served_by(&server, |io| {
        let write = with_transaction(vendor::TX_WRITE, 7, 9);
        assert_eq!(io.write_command(write, &pattern(3, UNIT)).unwrap().code, 0);
        assert_eq!(io.command(with_transaction(vendor::COMMIT, 0, 9)).unwrap().code, 0);
    });
    assert_eq!(committed, 1, "or committed");
    assert_eq!(served_by(&server, |io| write(io, 3, 0)), 0, "nothing was promised");
}

/// It reads zeros where something was written, without any power loss.
#[test]
fn a_drive_that_misreads_is_found_out() {
    let device = Device::in_memory(&small()).unwrap();
    let subsystem = subsystem_on(device, UNIT as u32, Pacing::None);
    let Ok(subsystem) = std::sync::Arc::try_unwrap(subsystem) else { panic!("nobody else has it") };
    let server = serve(subsystem.without_drive().into());
    let tap = Tap::start(server.address(), NQN, UNIT).unwrap();
    tap.judge_reads();
    for no_flow_control in [false, true] {
        let (admin, mut io) = attach(&tap, Options { no_flow_control, ..Options::default() }).unwrap();
        let write = block_command(nvm::WRITE, 5, 1);
        assert_eq!(io.write_command(write, &pattern(1, UNIT)).unwrap().code, 0);
        assert_eq!(io.read_command(block_command(nvm::READ, 4, 2), 2 * UNIT as u32).unwrap().code, 0);
        drop((admin, io));
        let checked = tap.check().unwrap();
        assert_eq!(checked.broken, [Broken::Misread(Spot::Block(5))], "nobody knows what block 4 holds");
    }
}
