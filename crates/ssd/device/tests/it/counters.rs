//! The drive's counters say what was requested of it and what it did to the flash: write amplification and wear are
//! read from them, and nothing else shows when one is wrong.

use crate::host;
use crate::small_drive;

use host::{Host, hint};
use small_drive::profiles;
use tantalum::{Command, Counters, Lpn, Outcome, PowerLoss, ShareRange, UNIT_BYTES, result_of};

fn counters(host: &Host) -> Counters {
    host.device.smart().counters
}

/// The flash's work according to the counters: programs of pages, and erases.
fn operations(host: &Host) -> u64 {
    let counted = counters(host);
    let units_per_page = u64::from(host.device.profile().flash.page_bytes) / UNIT_BYTES as u64;
    assert_eq!(counted.flash_units.total() % units_per_page, 0, "{counted:?}");
    counted.flash_units.total() / units_per_page + counted.blocks_erased
}

/// Writes of one, two and three units, so that pages have padding; batches; pages of a log and of transactions; shares.
fn work(host: &mut Host, round: u32) {
    let log = host.begin_log();
    for number in 0..40 {
        let (lpn, byte) = (Lpn((round * 97 + number * 13) % 600), number as u8);
        let data = vec![byte; (1 + number as usize % 3) * UNIT_BYTES];
        host.submit(Command::Write { lpn, data: &data, fua: number % 4 == 0, handle: None }).unwrap();
    }
    let unit = [7; UNIT_BYTES];
    let writes: Vec<(Lpn, &[u8])> = (0..5).map(|number| (Lpn(700 + number), &unit[..])).collect();
    host.submit(Command::WriteAtomic { writes: &writes }).unwrap();
    host.write_page(800, 3, hint(log, 1, 10)).unwrap();
    let tx = result_of(|tx| host.submit(Command::Begin { tx })).unwrap();
    for lpn in 0..3 {
        host.submit(Command::TxWrite { tx, lpn: Lpn(lpn), data: &unit }).unwrap();
    }
    host.submit(Command::Commit { tx }).unwrap();
    let ranges = [ShareRange { dst: Lpn(710), src: Lpn(700), units: 4 }];
    host.submit(Command::Share { ranges: &ranges, deferred: false }).unwrap();
    host.submit(Command::Remap { src: Lpn(710), dst: Lpn(720), units: 4 }).unwrap();
    host.trim(720);
    host.flush();
}

/// Six units.
fn read_each_way(host: &mut Host) {
    let mut data = [0; 4 * UNIT_BYTES];
    host.submit(Command::Read { lpn: Lpn(700), data: &mut data }).unwrap();
    let data = &mut data[..UNIT_BYTES];
    host.submit(Command::ReadWithMetadata { lpn: Lpn(700), data, metadata: &mut [0; 24] }).unwrap();
    assert_eq!(data, [7; UNIT_BYTES]);
    let tx = result_of(|tx| host.submit(Command::Begin { tx })).unwrap();
    host.submit(Command::TxRead { tx, lpn: Lpn(701), data }).unwrap();
    host.submit(Command::Abort { tx }).unwrap();
}

#[test]
fn the_causes_of_programs_add_up_to_what_the_flash_did() {
    for profile in profiles() {
        let mut host = Host::new(&profile);
        let namespace = host.create_namespace();
        let (formatted, counted) = (host.device.flash_operations(), operations(&host));
        for round in 0..60 {
            work(&mut host, round);
            (0..8).for_each(|number| host.put(namespace, number * 3 + round % 5, 700).unwrap());
            let done = host.device.flash_operations() - formatted;
            assert_eq!(
                operations(&host) - counted,
                done,
                "{:?} {round}: {:?}",
                profile.cache.mode,
                counters(&host)
            );
        }
        let units = counters(&host).flash_units;
        let causes =
            [units.host, units.key_value, units.padding, units.copyback, units.journal, units.checkpoint];
        assert!(causes.iter().all(|units| *units > 0), "{units:?}");
    }
}

#[test]
fn each_command_is_counted_with_its_units() {
    for profile in profiles() {
        let mut host = Host::new(&profile);
        let namespace = host.create_namespace();
        let before = counters(&host);
        let rounds = 3;
        for round in 0..rounds {
            work(&mut host, round);
            host.put(namespace, round, 700).unwrap();
            read_each_way(&mut host);
        }
        let rounds = u64::from(rounds);
        let counted = counters(&host).since(&before);
        let written: u64 = (0..40).map(|number| 1 + number % 3).sum::<u64>() + 5 + 1 + 3;
        assert_eq!(counted.host_units_written, rounds * written);
        assert_eq!((counted.host_units_read, counted.flushes), (rounds * 6, rounds));
        assert_eq!((counted.units_shared, counted.units_remapped), (rounds * 4, rounds * 4));
        assert_eq!((counted.transactions_committed, counted.records_put), (rounds, rounds));
        assert_eq!(counted.record_bytes_put, rounds * (4 + 700));
    }
}

#[test]
fn a_power_loss_is_counted_once() {
    for profile in profiles() {
        let mut host = Host::new(&profile);
        work(&mut host, 0);
        for cuts in 1..4 {
            host.write(1, 1);
            host.device.cut_power(host.now_ns);
            host.device.power_on(&mut PowerLoss::all(Outcome::Completed)).unwrap();
            host.now_ns = host.device.time_ns();
            assert_eq!(counters(&host).unsafe_shutdowns, cuts);
        }
    }
}
