//! A served image whose host fails: any call on the image's file fails, while a host writes and flushes. The server is stopped
//! or its process ends; then the image is served without room, after a second failure, and with room, and the host finds what
//! was promised. `HOST_CALLS=all` lets every call fail once; by default about a dozen do.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::witness::{Witness, bytes_of};
use crate::common::{Host, UNIT, attach, small, subsystem_on};
use tantalum::{Access, Device, HostFailure, HostFault, Mapping, PowerLoss, Status, TestHost};
use tantalum_drive::Pacing;
use tantalum_nvme::client::{Client, Options as Way, block_command, command};
use tantalum_nvme::server::Server;
use tantalum_nvme::wire::opcode;

const FULL: HostFault = HostFault { after: 0, failure: HostFailure::NoSpace, lasts: true };

/// Rounds of writes and a flush in one life.
const ROUNDS: u64 = 12;

/// Where `NSATTR` is, with bit 0 for a namespace that is write protected.
const ATTRIBUTES: usize = 99;

/// Internal Error, Do Not Retry aside.
const INTERNAL: u16 = 0x006;

/// Serves the drive while `work` has an admin and an I/O queue. Returns whether everything was closed.
fn serve(device: Device, disk: &TestHost, work: impl FnOnce(&mut Host)) -> bool {
    let server = crate::common::serve(subsystem_on(device, UNIT as u32, Pacing::None));
    work(&mut attach(&server, Way::default()));
    stop(&server, disk)
}

/// Stops the server. If the image cannot be closed, the process ends.
fn stop(server: &Server, disk: &TestHost) -> bool {
    assert!(server.close(), "no command hangs");
    let mut device = server.subsystem().queue.drive().lock();
    let now_ns = device.time_ns().max(device.issued_ns());
    let is_closed = device.put_away(now_ns).is_ok();
    if !is_closed {
        disk.life.end();
        let _ = device.settle_power_loss(&mut PowerLoss::seeded(1));
        disk.life.end_after(None);
    }
    is_closed
}

fn is_write_protected(admin: &mut Client) -> bool {
    let identify = admin.read_command(command(opcode::admin::IDENTIFY, 1, [0; 6]), UNIT as u32).unwrap();
    // the critical warning of the SMART log page
    let pages = [(511 / 4) << 16 | 2, 0, 0, 0, 0, 0];
    let smart = admin.read_command(command(opcode::admin::GET_LOG_PAGE, 0, pages), 512).unwrap();
    assert_eq!(identify.data[ATTRIBUTES], smart.data[0] >> 3 & 1);
    identify.data[ATTRIBUTES] == 1
}

/// The host of a running server has failed: every change is refused, and reads go on. Returns how many units were read.
fn read_on(host: &Witness, attached: &mut Host) -> u64 {
    let Host { admin, io, .. } = attached;
    assert!(is_write_protected(admin));
    let found = host.read(io, INTERNAL);
    let write = io.write_command(block_command(opcode::nvm::WRITE, 0, 1), &bytes_of(0, 1)).unwrap();
    assert_eq!(write.code, INTERNAL);
    assert_eq!(io.command(block_command(opcode::nvm::FLUSH, 0, 1)).unwrap().code, INTERNAL);
    assert_eq!(host.read(io, INTERNAL), found);
    found
}

/// Works until something fails, or for a number of rounds. The process ends without closing the image, every other time. Returns
/// whether it was closed, and how many units were read after the host had failed.
fn live(host: &mut Witness, device: Device, disk: &TestHost, is_killed: bool) -> (bool, u64) {
    let server = crate::common::serve(subsystem_on(device, UNIT as u32, Pacing::None));
    let (is_over, rounds, mut found) = (AtomicBool::new(false), AtomicU64::new(0), 0);
    let mut attached = attach(&server, Way::default());
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) && rounds.load(Ordering::Relaxed) < ROUNDS {
                thread::sleep(Duration::from_micros(200));
            }
            server.close();
        });
        let began = Instant::now();
        host.work(&mut attached.io, &rounds).expect_err("it works until something fails");
        let ended = server.subsystem().queue.drive().lock().ended();
        // a store through memory that fails ends the process
        if rounds.load(Ordering::Relaxed) < ROUNDS
            && matches!(ended, Some(status) if status != Status::PowerLost)
        {
            found = read_on(host, &mut attached);
        }
        is_over.store(true, Ordering::Relaxed);
        assert!(began.elapsed() < Duration::from_secs(20), "the server did not answer");
    });
    if is_killed {
        disk.life.end();
    }
    (stop(&server, disk), found)
}

/// Serves the image on a full disk: what is there can be read, and nothing else.
fn find_without_room(host: &mut Witness, image: &Path, disk: &TestHost) -> bool {
    disk.faults.fail(FULL);
    let (mut device, why) = Device::open_or_read_on(image, Access::Write, disk).unwrap();
    let is_only_read = why.is_some();
    why.into_iter().for_each(|why| device.refuse_changes(why));
    let is_closed = serve(device, disk, |attached| {
        let Host { admin, io, .. } = attached;
        host.look(io).unwrap();
        if is_only_read {
            assert!(is_write_protected(admin));
            let write = io.write_command(block_command(opcode::nvm::WRITE, 0, 1), &bytes_of(0, 1)).unwrap();
            assert_eq!(write.code, 0x020, "write protected");
            assert_eq!(io.command(block_command(opcode::nvm::FLUSH, 0, 1)).unwrap().code, 0, "nothing waits");
            host.look(io).unwrap();
        }
    });
    assert!(is_closed || !is_only_read, "nothing was changed");
    is_only_read
}

/// One life in which call number `call` fails. Returns whether it did, how many units the server then read, and whether the image
/// could then only be read.
fn fail_at(call: u64, mapping: Mapping, failure: HostFailure, lasts: bool) -> (bool, u64, bool) {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("drive.tant");
    drop(Device::create(&image, &small()).unwrap());
    let disk = TestHost::new(mapping, call);
    let mut host = Witness::new(0, call);
    disk.faults.fail(HostFault { after: call, failure, lasts });
    let mut found = 0;
    if let Ok((device, None)) = Device::open_or_read_on(&image, Access::Write, &disk) {
        let is_closed;
        (is_closed, found) = live(&mut host, device, &disk, call % 2 == 1);
        assert!(!is_closed || disk.faults.failed().is_none() || !lasts, "what was not stored was closed");
    }
    let has_failed = disk.faults.failed().is_some();
    disk.life.end_after(None);
    let only_read = find_without_room(&mut host, &image, &disk);
    disk.faults.fail(HostFault { after: call % 60, ..FULL });
    if let Ok((mut device, why)) = Device::open_or_read_on(&image, Access::Write, &disk) {
        why.into_iter().for_each(|why| device.refuse_changes(why));
        serve(device, &disk, |attached| host.look(&mut attached.io).unwrap());
    }
    disk.faults.heal();
    disk.life.end_after(None);
    let device = Device::open_on(&image, Access::Write, &disk).unwrap();
    let look = |attached: &mut Host| host.look(&mut attached.io).unwrap();
    assert!(serve(device, &disk, look), "the host is well");
    (has_failed, found, only_read)
}

#[test]
fn a_host_finds_what_it_was_promised_whichever_call_on_the_image_fails() {
    let all = std::env::var("HOST_CALLS").is_ok_and(|text| text == "all");
    let mut read_in_all = 0;
    for mapping in [Mapping::Allowed, Mapping::Never] {
        for (failure, lasts) in [(HostFailure::Io, false), (HostFailure::NoSpace, true)] {
            let (mut call, mut failures, mut read, mut only_read) = (0, 0, 0, 0);
            loop {
                println!("{mapping:?}, {failure:?} at call {call}, lasts: {lasts}");
                let (has_failed, found, could_only_be_read) = fail_at(call, mapping, failure, lasts);
                if !has_failed {
                    break;
                }
                failures += 1;
                read += found;
                only_read += u32::from(could_only_be_read);
                call += if all { 1 } else { 7 + call };
            }
            println!(
                "{mapping:?}, {failure:?}: {failures} calls failed, then {read} units were read, and {only_read} images could only \
                 be read"
            );
            assert!(failures > 3, "{mapping:?}, {failure:?}: {failures}");
            read_in_all += read;
        }
    }
    assert!(read_in_all > 1000, "{read_in_all} units were read after the host had failed");
}
