//! What a mount and a recovery read, by the drive's capacity: bounded by the last checkpoint, except for the table of
//! segments. Also checks that writes are counted.

use crate::common;

use common::{KINDS, LARGE_CACHE, LISTS, NOW, ROOT, SMALL_CACHE, device_with_lists, new};
use tantalum::UNIT_BYTES;
use tantalum_drive::Drive;
use tantalum_filesystem::{Content, FileKind, FileSystem, Names};
use tantalum_lfs::{Cleaning, Indexing, LfsKind, LogFs, WrittenCounters};

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
fn costs(capacity_gib: u64, kind: LfsKind, indexing: Indexing) -> [Cost; 2] {
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

fn mounts_and_recoveries_do_not_grow_with_the_capacity(kind: LfsKind) {
    println!("{kind:?}                                      units read  written  virtual ms");
    let all = [Indexing::Conventional, Indexing::Appended, Indexing::Nvm];
    // Trees append in any case.
    for indexing in all.into_iter().filter(|one| kind == LfsKind::Nat || *one != Indexing::Appended) {
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
    mounts_and_recoveries_do_not_grow_with_the_capacity(LfsKind::Nat);
}

#[test]
fn mounts_and_recoveries_of_trees_do_not_grow_with_the_capacity() {
    mounts_and_recoveries_do_not_grow_with_the_capacity(LfsKind::Tree);
}

/// What a mount reads after a crash behind this many synced writes of 4 KiB to a file, on a drive of 64 MiB.
fn read_after(kind: LfsKind, synced_writes: u64) -> u64 {
    let drive = Drive::new(device_with_lists(64, 0));
    let made = LogFs::format_indexed(drive.client(), kind, Cleaning::Copy, Indexing::Appended, LARGE_CACHE);
    let mut fs = made.unwrap();
    let file = fs.create_in(ROOT, b"file", &new(FileKind::File)).unwrap();
    fs.write(file, 0, &vec![1; 1 << 20]).unwrap();
    fs.sync_folder(ROOT).unwrap();
    let checkpoints = fs.syncs().checkpoints;
    for number in 0..synced_writes {
        fs.write(file, number * 31 % 256 * UNIT_BYTES as u64, &[2; UNIT_BYTES]).unwrap();
        fs.sync_data(file).unwrap();
    }
    println!("{kind:?}: {} checkpoints", fs.syncs().checkpoints - checkpoints);
    drop(fs);
    mount(&drive).units_read
}

/// Free segments alone would allow for more than twice as many.
#[test]
fn a_mount_reads_sixteen_segments_behind_a_checkpoint_at_most() {
    let segment_units = 128;
    // A mount of trees reads 8 units where a partial segment begins, which here has two.
    for (kind, times) in [(LfsKind::Nat, 1), (LfsKind::Tree, 4)] {
        let without = read_after(kind, 0);
        let most = (1500..6000).step_by(500).map(|writes| read_after(kind, writes)).max().unwrap();
        println!("{kind:?}: {without} units read without synced writes, up to {most} with them");
        assert!(most > without + 8 * times * segment_units, "{kind:?}: nothing to roll forward");
        assert!(most <= without + 17 * times * segment_units, "{kind:?}: a mount read {most} units");
    }
}

fn counts_what_it_writes(kind: LfsKind, indexing: Indexing, cleaning: Cleaning) {
    let drive = Drive::new(device_with_lists(32, 64));
    let mut fs = LogFs::format_indexed(drive.client(), kind, cleaning, indexing, SMALL_CACHE).unwrap();
    let names: Vec<String> = (0..40).map(|number| format!("file{number}")).collect();
    for (number, name) in (0..).zip(&names) {
        let file = fs.create_in(ROOT, name.as_bytes(), &new(FileKind::File)).unwrap();
        fs.write(file, 0, &vec![number as u8; 300_000]).unwrap();
        fs.write_direct(file, 77 * UNIT_BYTES as u64, &[3; UNIT_BYTES], None).unwrap();
        fs.sync(file).unwrap();
        fs.write(file, number * 5000, &[4; 9000]).unwrap();
        fs.sync_data(file).unwrap();
        if number % 5 == 0 {
            let link = format!("link{number}");
            fs.create_symbolic_link(ROOT, link.as_bytes(), &[b't'; 3000], &new(FileKind::File)).unwrap();
            fs.sync_folder(ROOT).unwrap();
        }
    }
    for name in names.iter().step_by(3) {
        fs.unlink(ROOT, name.as_bytes(), NOW).unwrap();
    }
    fs.clean_all().unwrap();
    let (written, sent) = (fs.written(), fs.statistics().log.unwrap().units_written);
    println!("{kind:?} {indexing:?} {cleaning:?}: {written:?}");
    assert_eq!(written.total(), sent, "{kind:?} {indexing:?} {cleaning:?}: {written:?}");
    assert!(written.contents > 2000 && written.nodes > 40 && written.summaries > 10, "{written:?}");
    assert!(written.tables > 3 && written.roots > 3, "{written:?}");
}

#[test]
fn every_unit_sent_is_counted_as_what_it_is() {
    for kind in KINDS {
        for indexing in [Indexing::Conventional, Indexing::Appended, Indexing::Nvm] {
            counts_what_it_writes(kind, indexing, Cleaning::Copy);
            counts_what_it_writes(kind, indexing, Cleaning::Remap);
        }
    }
}

/// What four writers with files of 16 MiB write for `count` overwrites, each with a sync of data: before a checkpoint, and with one.
fn synced_overwrites(kind: LfsKind, count: u64) -> [WrittenCounters; 2] {
    let drive = Drive::new(device_with_lists(512, 0));
    let made = LogFs::format_indexed(drive.client(), kind, Cleaning::Copy, Indexing::Appended, LARGE_CACHE);
    let mut fs = made.unwrap();
    let files = [b"a", b"b", b"c", b"d"].map(|name| {
        let file = fs.create_in(ROOT, name, &new(FileKind::File)).unwrap();
        (0..16).for_each(|part| fs.write(file, part << 20, &vec![1; 1 << 20]).unwrap());
        file
    });
    fs.write_back().unwrap();
    let before = fs.written();
    for number in 0..count {
        let (file, unit) = (files[number as usize % 4], number * 1579 % 4096);
        fs.write(file, unit * UNIT_BYTES as u64, &[2; UNIT_BYTES]).unwrap();
        fs.sync_data(file).unwrap();
    }
    let synced = fs.written();
    fs.write_back().unwrap();
    [since(before, synced), since(before, fs.written())]
}

fn since(before: WrittenCounters, after: WrittenCounters) -> WrittenCounters {
    WrittenCounters {
        contents: after.contents - before.contents,
        nodes: after.nodes - before.nodes,
        summaries: after.summaries - before.summaries,
        tables: after.tables - before.tables,
        roots: after.roots - before.roots,
    }
}

#[test]
fn a_sync_of_data_writes_one_unit_besides() {
    for kind in KINDS {
        for count in [200, 1000, 5000] {
            let [synced, all] = synced_overwrites(kind, count);
            let units = all.total() as f64 / count as f64;
            println!(
                "{kind:?}, {count}: {units:.2} units for each; syncs {synced:?}, with a checkpoint {all:?}"
            );
            assert_eq!(all.contents, count, "{kind:?} {count}: {all:?}");
            let besides = match kind {
                LfsKind::Nat => synced.nodes,
                LfsKind::Tree => synced.summaries,
            };
            assert!((count..count + count / 50).contains(&besides), "{kind:?} {count}: {synced:?}");
            // The checkpoint: a table of 49 units and what is above it, and nodes of four files.
            assert!(all.total() <= 2 * count + count / 50 + 100, "{kind:?} {count}: {all:?}");
        }
    }
}
