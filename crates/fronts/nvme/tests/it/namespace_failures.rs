//! What is left when Format or Sanitize cannot do all that was asked: refused before anything is lost, interrupted, or on a drive with
//! old data that nobody can erase.

use std::time::Duration;

use tantalum::{Access, Command, Device, FailingStep, Lpn, PowerLoss, Profile, StepFault};
use tantalum_drive::Pacing;
use tantalum_nvme::client::Options;
use tantalum_nvme::namespaces::SanitizeState;

use crate::common::{UNIT, attach, pattern, serve, small, subsystem_on};
use crate::namespaces::{change, create, delete, format, listed, read, sanitize, sanitize_status, write};

/// Both were refused only when everything had been deallocated.
#[test]
fn an_image_that_keeps_what_is_old_refuses_an_erase_before_anything_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("drive.tant");
    Device::create(&image, &small()).unwrap().shutdown(0).unwrap();
    let device = Device::open_as(&image, Access::Ordered).unwrap();
    let server = serve(subsystem_on(device, 4096, Pacing::None));
    let mut host = attach(&server, Options::default());
    assert_eq!(write(&mut host.io, 1, 5, &pattern(1, UNIT)), 0);
    assert_eq!(format(&mut host.admin, 1, 1 << 9), 0x002);
    assert_eq!(sanitize(&mut host.admin, 2), 0x002);
    assert_eq!(sanitize_status(&mut host.admin).1, 0, "none was begun");
    assert_eq!(read(&mut host.io, 1, 5, 4096), pattern(1, UNIT));
    assert_eq!(format(&mut host.admin, 1, 0), 0, "without an erase");
    assert_eq!(read(&mut host.io, 1, 5, 4096), [0; UNIT]);
}

/// A drive with a block that failed a program and has been retired with what was in it.
fn with_kept_block() -> Device {
    let mut device = Device::in_memory(&small()).unwrap();
    let round = |device: &mut Device, value| {
        for lpn in (0..4096).map(Lpn) {
            let at_ns = device.time_ns();
            let data = [value; UNIT];
            device.submit(Command::Write { lpn, data: &data, fua: false, handle: None }, at_ns).unwrap();
        }
        let at_ns = device.time_ns();
        device.submit(Command::Flush, at_ns).unwrap();
    };
    round(&mut device, 1);
    device.fail_step(Some(StepFault { step: FailingStep::Program, after: 50, lasts: false })).unwrap();
    round(&mut device, 2);
    assert!(device.step_has_failed());
    round(&mut device, 3);
    assert!(device.smart().bad_blocks > 0);
    device
}

/// Management waited forever for an erase that cannot succeed.
#[test]
fn a_format_that_cannot_erase_is_told_and_leaves_a_usable_namespace() {
    let server = serve(subsystem_on(with_kept_block(), 4096, Pacing::None));
    let mut host = attach(&server, Options::default());
    assert_eq!(format(&mut host.admin, 1, 1 | 1 << 9), 0x280, "Write Fault");
    assert_eq!(read(&mut host.io, 1, 5, 512), [0; 512], "it has its new format and is empty");
    assert_eq!(format(&mut host.admin, 1, 0), 0);
    assert_eq!((delete(&mut host.admin, 1), create(&mut host.admin, 100, 0)), (0, 1));
    assert_eq!(change(&mut host.admin, 0, 1, &[host.controller]), 0);
    assert_eq!(write(&mut host.io, 1, 5, &pattern(1, UNIT)), 0);
    assert_eq!(listed(&mut host.admin, 2), [1]);
}

/// Power is lost and comes back between two steps of a Sanitize, so that none of them fails: what was deallocated and not flushed is
/// back, and the Sanitize has not ended.
#[test]
fn a_sanitize_that_a_power_loss_interrupts_is_not_done() {
    let (mut interrupted, mut rounds) = (0, 0);
    while interrupted == 0 {
        rounds += 1;
        // on a busy machine one in some hundreds is between the steps
        assert!(rounds < 3000, "none of them was interrupted");
        let profile = Profile { capacity_bytes: 8 << 30, ..small() };
        let mut device = Device::in_memory(&profile).unwrap();
        let at_ns = device.time_ns();
        let write = Command::Write { lpn: Lpn(0), data: &[1; UNIT], fua: true, handle: None };
        device.submit(write, at_ns).unwrap();
        let last = Lpn(device.limits().capacity_units as u32 - 1);
        let at_ns = device.time_ns();
        let write = Command::Write { lpn: last, data: &[1; UNIT], fua: true, handle: None };
        device.submit(write, at_ns).unwrap();
        let subsystem = subsystem_on(device, 4096, Pacing::None);
        let queue = subsystem.queue.clone();
        subsystem.namespaces.begin_sanitize(&queue, 2).unwrap();
        let (has_ended, was_between) = std::thread::scope(|scope| {
            let mut device = queue.drive().lock();
            let sanitizer = scope.spawn(|| subsystem.namespaces.run_sanitize(&queue));
            // while it waits for its first step; a lock that was held for so long goes to who waits, and soon comes back
            while device.is_mapped(Lpn(0)) {
                std::thread::sleep(Duration::from_millis(2));
                drop(device);
                device = queue.drive().lock();
            }
            let was_between = device.is_mapped(last);
            let at_ns = device.issued_ns().max(device.time_ns());
            device.cut_power(at_ns);
            // now all learn of it
            drop(device);
            queue.drive().lock().power_on(&mut PowerLoss::seeded(rounds)).unwrap();
            (sanitizer.join().unwrap(), was_between)
        });
        interrupted += u64::from(was_between);
        let is_empty = !queue.drive().lock().is_mapped(Lpn(0));
        assert!(is_empty || !has_ended, "round {rounds}: it has ended, and unit 0 is back");
        if was_between && !has_ended {
            assert_eq!(subsystem.namespaces.sanitize().state, SanitizeState::Running);
        }
        // it is done again
        subsystem.power_on().unwrap();
        assert_eq!(subsystem.namespaces.sanitize().state, SanitizeState::Done);
        assert!(!queue.drive().lock().is_mapped(Lpn(0)));
    }
    println!("interrupted {interrupted} times in {rounds} rounds");
}
