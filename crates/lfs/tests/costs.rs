//! What a mount and a recovery read, by the drive's capacity: bounded by the last checkpoint, but for the table of segments.

mod common;

use common::{LARGE_CACHE, LISTS, ROOT, device_with_lists, new};
use tantalum::UNIT_BYTES;
use tantalum_drive::Drive;
use tantalum_filesystem::{Content, FileKind, FileSystem, Names};
use tantalum_lfs::{Cleaning, Indexing, Kind, LogFs};

/// What a mount costs.
#[derive(Clone, Copy, Debug)]
struct Cost {
    units_read: u64,
    units_written: u64,
    virtual_ms: f64,
}

fn mount(drive: &Drive) -> Cost {
    let counters = |drive: &Drive| {
        let device = drive.lock();
        (device.smart().counters, device.time_ns())
    };
    let (before, begun_ns) = counters(drive);
    let fs = LogFs::mount(drive.client(), LARGE_CACHE).expect("it mounts");
    let ended_ns = fs.client().now_ns();
    drop(fs.unmount().map_err(|failed| failed.1).unwrap());
    let (after, _) = counters(drive);
    Cost {
        units_read: after.host_units_read - before.host_units_read,
        units_written: after.host_units_written - before.host_units_written,
        virtual_ms: (ended_ns - begun_ns) as f64 / 1e6,
    }
}

/// A mount after a clean unmount, and one after a crash behind 200 synced writes of 4 KiB.
fn costs(capacity_gib: u64, kind: Kind, indexing: Indexing) -> [Cost; 2] {
    let drive = Drive::new(device_with_lists(capacity_gib << 10, LISTS));
    let made = LogFs::format_indexed(drive.client(), kind, Cleaning::Copy, indexing, LARGE_CACHE);
    let mut fs = made.unwrap();
    let file = fs.create_in(ROOT, b"file", &new(FileKind::File)).unwrap();
    fs.write(file, 0, &vec![1; 16 << 20]).unwrap();
    fs.sync_folder(ROOT).unwrap();
    drop(fs.unmount().map_err(|failed| failed.1).unwrap());
    let clean = mount(&drive);
    let mut fs = LogFs::mount(drive.client(), LARGE_CACHE).unwrap();
    for number in 0..200 {
        fs.write(file, number * 31 % 4096 * UNIT_BYTES as u64, &[2; UNIT_BYTES]).unwrap();
        fs.sync_data(file).unwrap();
    }
    drop(fs);
    [clean, mount(&drive)]
}

fn mounts_and_recoveries_do_not_grow_with_the_capacity(kind: Kind) {
    println!("{kind:?}                                      units read  written  virtual ms");
    for indexing in [Indexing::Conventional, Indexing::Nvm] {
        let all = [1, 10, 100].map(|capacity_gib| {
            let both = costs(capacity_gib, kind, indexing);
            for (what, cost) in ["after an unmount", "after a crash"].iter().zip(both) {
                let Cost { units_read, units_written, virtual_ms } = cost;
                println!(
                    "{:<12} {capacity_gib:>3} GiB, {what:<16} {units_read:>11} {units_written:>8} {virtual_ms:>11.2}",
                    format!("{indexing:?}"),
                );
            }
            both
        });
        for (small, large) in all[0].iter().zip(&all[2]) {
            // 12 bytes for each of 51,200 segments
            let table = 51_200 * 12 / UNIT_BYTES as u64 + 10;
            assert!(large.units_read <= small.units_read + table, "{small:?} {large:?}");
            assert!(large.units_written <= small.units_written + table, "{small:?} {large:?}");
            assert!(large.virtual_ms < 1000.0, "{large:?}");
        }
    }
}

#[test]
fn mounts_and_recoveries_of_node_address_tables_do_not_grow_with_the_capacity() {
    mounts_and_recoveries_do_not_grow_with_the_capacity(Kind::Nat);
}

#[test]
fn mounts_and_recoveries_of_trees_do_not_grow_with_the_capacity() {
    mounts_and_recoveries_do_not_grow_with_the_capacity(Kind::Tree);
}
