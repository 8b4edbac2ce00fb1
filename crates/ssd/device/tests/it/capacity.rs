//! The space of units, records, homes and the owners of shared units together never prevents a drive from recovering
//! after a cut, nor deletes.
//!
//! Found by reviewing the drive with the aim of losing data. The drives of the torture are so small that every checkpoint
//! fits one block, and it kept homes away from what makes a drive full.

use crate::host;
use crate::small_drive;

use host::{Host, hint};
use small_drive::{profiles, small_drive};
use tantalum::{Command, Key, Lpn, NamespaceId, Outcome, Plp, PowerLoss, UNIT_BYTES};

fn delete_all(host: &mut Host, namespace: NamespaceId, records: u32) {
    for number in 0..records {
        let key = Key::new(&number.to_le_bytes()).unwrap();
        if let Err(status) = host.submit(Command::KvDelete { namespace, key }) {
            panic!("delete {number} of {records}: {status}");
        }
    }
}

/// Power fails and comes back; recovery may be tried twice.
fn cut(host: &mut Host, what: &str) {
    host.device.cut_power(host.now_ns);
    if let Err(error) = host.device.power_on(&mut PowerLoss::all(Outcome::NotStarted)) {
        let again = host.device.power_on(&mut PowerLoss::all(Outcome::NotStarted));
        panic!("{what}: the drive cannot be brought back: {error}; and again: {again:?}");
    }
    host.device.audit();
    host.now_ns = host.device.time_ns();
}

/// Every unit of the drive is where a remap put it: its version is in a table that is bounded by owners beyond the first,
/// of which there are none. A checkpoint has all of them, and takes twice the blocks that are reserved for it.
fn remapped_everywhere(percent: f64, remaps: bool) {
    let capacity_bytes = 256 << 20;
    let mut profile = small_drive("tlc-nvme", capacity_bytes, percent, Plp::None);
    profile.flash.page_bytes = 4096;
    let mut host = Host::new(&profile);
    let (units, step) = ((capacity_bytes / UNIT_BYTES as u64) as u32, 128);
    let data = vec![1; step as usize * UNIT_BYTES];
    for lpn in (0..units).step_by(step as usize) {
        host.submit(Command::Write { lpn: Lpn(lpn), data: &data, fua: true, handle: None }).unwrap();
    }
    if remaps {
        for lpn in (0..units - step).step_by(step as usize).rev() {
            host.submit(Command::Remap { src: Lpn(lpn), dst: Lpn(lpn + step), units: step }).unwrap();
        }
    }
    host.submit(Command::Write { lpn: Lpn(0), data: &data, fua: true, handle: None }).unwrap();
    for round in 0..20_000_u32 {
        host.write_through(round.wrapping_mul(2_654_435_761) % units, 2);
        if round % 1000 == 999 {
            cut(&mut host.fork(), &format!("{percent} percent, write {round}"));
        }
    }
}

#[test]
fn a_drive_comes_back_though_all_of_it_was_remapped() {
    remapped_everywhere(7.0, true);
}

#[test]
fn a_drive_comes_back_though_all_of_it_was_remapped_with_much_over_provisioning() {
    remapped_everywhere(28.0, true);
}

#[test]
fn a_drive_comes_back_if_nothing_was_remapped() {
    remapped_everywhere(7.0, false);
}

/// Recovery maps homes that no command was admitted for: units and records take more than the drive's capacity, and
/// garbage collection gains nothing any more.
#[test]
fn homes_take_room_before_a_cut_maps_them() {
    for mut profile in profiles() {
        profile.over_provisioning_percent = 45.0;
        let mut host = Host::new(&profile);
        let namespace = host.create_namespace();
        for lpn in 0..512 {
            host.write(lpn, 1);
        }
        host.flush();
        let records = (0..).take_while(|number| host.put(namespace, *number, 3900).is_ok()).count() as u32;
        let mut homes = 512..1024;
        for round in 0..40 {
            let log = host.begin_log();
            for slot in 1..=64 {
                let Some(home) = homes.next() else { break };
                if host.write_page(slot, 100 + round, hint(log, slot, home)).is_err() {
                    break;
                }
            }
            let _ = host.submit(Command::Flush);
            cut(&mut host, &format!("{:?}, round {round}", profile.cache.mode));
        }
        // a full drive still deletes
        delete_all(&mut host, namespace, records);
    }
}

/// Records take the room of units whose trim is not durable, and a cut brings the units back.
#[test]
fn room_of_trims_that_are_not_durable_is_no_room() {
    let [mut profile, ..] = profiles();
    profile.over_provisioning_percent = 45.0;
    profile.ftl.checkpoint_interval_pages = Some(1_000_000);
    let mut host = Host::new(&profile);
    let namespace = host.create_namespace();
    for lpn in 0..1000 {
        host.write(lpn, 1);
    }
    host.flush();
    host.submit(Command::Trim { lpn: Lpn(200), units: 800 }).unwrap();
    let mut records = 0;
    while host.put(namespace, records, 3900).is_ok() {
        records += 1;
        cut(&mut host.fork(), &format!("{records} records beside 1000 units"));
    }
}

/// What is not counted while there is no namespace is not counted when there is one again.
#[test]
fn units_count_that_were_written_while_there_was_no_namespace() {
    for mut profile in profiles() {
        profile.over_provisioning_percent = 45.0;
        profile.ftl.checkpoint_interval_pages = Some(1_000_000);
        let mut host = Host::new(&profile);
        let namespace = host.create_namespace();
        host.put(namespace, 1, 3900).unwrap();
        host.submit(Command::DeleteNamespace { namespace }).unwrap();
        for lpn in 0..1000 {
            host.write(lpn, 1);
        }
        host.flush();
        let namespace = host.create_namespace();
        let records =
            (0..2000).take_while(|number| host.put(namespace, *number, 3900).is_ok()).count() as u32;
        cut(&mut host, &format!("{:?}, full", profile.cache.mode));
        delete_all(&mut host, namespace, records);
        assert!(records < 40, "{:?}: {records} records beside 1000 units of 1024", profile.cache.mode);
    }
}

/// Nothing is written while the checkpoint grows, so that nothing else makes room for it.
#[test]
fn a_drive_comes_back_though_it_was_remapped_when_its_flash_was_used_up() {
    let capacity_bytes = 256 << 20;
    let mut profile = small_drive("tlc-nvme", capacity_bytes, 4.0, Plp::None);
    profile.flash.page_bytes = 4096;
    profile.ftl.checkpoint_interval_pages = Some(1_000_000);
    let mut host = Host::new(&profile);
    let (units, step) = ((capacity_bytes / UNIT_BYTES as u64) as u32, 128);
    let data = vec![1; step as usize * UNIT_BYTES];
    for lpn in (0..units).step_by(step as usize) {
        host.submit(Command::Write { lpn: Lpn(lpn), data: &data, fua: true, handle: None }).unwrap();
    }
    for round in 0..6_000_u32 {
        host.write_through(round.wrapping_mul(2_654_435_761) % units, 2);
    }
    for (number, lpn) in (0..units - step).step_by(step as usize).rev().enumerate() {
        host.submit(Command::Remap { src: Lpn(lpn), dst: Lpn(lpn + step), units: step }).unwrap();
        if number % 50 == 49 {
            cut(&mut host.fork(), &format!("remap {number}"));
        }
    }
}
