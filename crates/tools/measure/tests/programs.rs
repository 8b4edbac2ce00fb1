//! Real programs on real mounts.

use std::thread;
use std::time::Duration;

use tantalum::{Device, Profile};
use tantalum_fuse::{Mounted, Options, Pacing};
use tantalum_measure::{
    DriveSetup, Measurement, PathWrites, Stop, Task, WritePurpose, attach, run, text, write_report,
};
use tantalum_volume::Volume;
use tempfile::TempDir;

const UNIT: u64 = 4096;

fn profile() -> Profile {
    let mut profile = Profile::load("tlc-nvme").unwrap();
    profile.capacity_bytes = 1 << 30;
    profile
}

fn task(words: &[&str]) -> Task {
    Task {
        program: words.iter().map(Into::into).collect(),
        setup: None,
        drive: DriveSetup { profile: profile(), aged: None, image: None },
        time: Pacing::None,
        atomic_writes: false,
        quiet_output: true,
        replays: true,
    }
}

fn file<'a>(measurement: &'a Measurement, path: &str) -> &'a PathWrites {
    measurement.files.iter().find(|file| file.path == path).unwrap_or_else(|| panic!("no {path}"))
}

/// The replay sent what the run sent, and the parts add up.
fn check_replay(measurement: &Measurement) {
    let to_drive = measurement.counters.host_units_written * UNIT;
    assert_eq!(measurement.replays[0].drive_bytes, to_drive, "{}", text::of(measurement));
    let by_kind: u64 = measurement.kinds.iter().map(|kind| kind.drive_bytes.unwrap()).sum();
    assert_eq!(by_kind, to_drive);
}

#[test]
fn a_script_counted_by_hand_is_told_exactly() {
    let script = "dd if=/dev/zero of=a bs=4096 count=10 conv=fsync status=none
        dd if=/dev/urandom of=a bs=4096 count=10 conv=fsync,notrunc status=none
        mkdir d; dd if=/dev/urandom of=d/b bs=100 count=3 status=none; exit 7";
    let measurement = run(&task(&["sh", "-c", script]), &Stop::default()).unwrap();
    assert_eq!(measurement.exit_code, Some(7));
    let asked = &measurement.asked;
    assert_eq!((asked.bytes, asked.writes, asked.syncs), (20 * UNIT + 300, 23, 2));
    let told = |path| (file(&measurement, path).bytes, file(&measurement, path).drive_bytes);
    assert_eq!(told("a"), (20 * UNIT, Some(20 * UNIT)));
    assert_eq!(told("d/b"), (300, Some(UNIT)));
    assert_eq!(measurement.rewritten.histogram, [(1, 1, 1), (2, 3, 10)]);
    check_replay(&measurement);
}

/// The kernel passes on what goes to the end of a page apart from the rest of a write. A write that ends there by itself was counted
/// together with the next one.
#[test]
fn each_call_is_one_write_wherever_pages_end() {
    let script = "import os, sys
file = os.open('pages', os.O_CREAT | os.O_WRONLY)
for _ in range(50):
    os.write(file, b'x' * 4000)
    os.write(file, b'y' * 96)
file = os.open('thousands', os.O_CREAT | os.O_WRONLY)
for _ in range(100):
    os.write(file, b'z' * 1500)
for at in range(0, 20000, 5000):
    os.pwrite(file, b'a' * 3000, at + 3000)
    os.pwritev(file, [b'b' * 1000, b'c' * 2000], at + 3500)
";
    let measurement = run(&task(&["python3", "-c", script]), &Stop::default()).unwrap();
    assert_eq!(measurement.asked.writes, 100 + 100 + 8);
}

/// SQLite writes each page to its log and then home: the drive sees both, and the replay finds one in the other.
#[test]
fn sqlite_writes_pages_twice() {
    let sql = "pragma journal_mode=wal; create table t(id integer primary key, text);
        with recursive n(i) as (select 1 union all select i + 1 from n where i < 3000)
        insert into t select i, hex(randomblob(100)) from n;
        pragma wal_checkpoint(truncate);";
    let measurement = run(&task(&["sqlite3", "{}/test.db", sql]), &Stop::default()).unwrap();
    println!("{}", text::of(&measurement));
    assert_eq!(measurement.exit_code, Some(0));
    assert_eq!(file(&measurement, "test.db").kind, WritePurpose::Data);
    assert_eq!(file(&measurement, "test.db-wal").kind, WritePurpose::Log);
    check_replay(&measurement);
    let replay = |name: &str| measurement.replays.iter().find(|replay| replay.name == name).unwrap();
    let atomic = replay("atomic writes");
    assert!(atomic.left_out_bytes >= file(&measurement, "test.db").bytes / 2, "{}", text::of(&measurement));
    assert!(atomic.flash_saved_percent > 20.0, "{}", text::of(&measurement));
    assert!(replay("a capacitor").sync_saved_percent > 30.0, "{}", text::of(&measurement));
    let place = TempDir::new().unwrap();
    let page = place.path().join("page.html");
    write_report(&measurement, &page).unwrap();
    let html = std::fs::read_to_string(page).unwrap();
    assert!(html.matches("<svg").count() >= 6 && html.contains("test.db-wal"), "{html}");
    for outside in ["src=", "href=", "@import", "url(", "NaN"] {
        assert!(!html.contains(outside), "the page holds {outside}");
    }
}

#[test]
fn setup_is_not_measured_and_an_aged_drive_collects_garbage() {
    let mut task = task(&["dd", "if=/dev/urandom", "of=f", "bs=64k", "count=64", "conv=fsync,notrunc"]);
    task.setup = Some("dd if=/dev/urandom of=f bs=1M count=4".to_owned());
    task.drive.aged = Some(1);
    task.drive.profile.capacity_bytes = 256 << 20;
    let measurement = run(&task, &Stop::default()).unwrap();
    assert_eq!(measurement.asked.bytes, 64 << 16);
    assert!(measurement.drive.aged.unwrap().write_amplification > 1.5, "{}", text::of(&measurement));
    check_replay(&measurement);
}

#[test]
fn a_program_that_writes_nothing_is_refused_and_so_is_one_that_is_not_there() {
    let refused = |words: &[&str]| run(&task(words), &Stop::default()).unwrap_err().to_string();
    assert!(refused(&["true"]).contains("nothing was written to the drive"));
    assert!(refused(&["/no/such/program"]).starts_with("/no/such/program: No such file"));
    let setup = Task { setup: Some("exit 3".to_owned()), ..task(&["true"]) };
    let refused = run(&setup, &Stop::default()).unwrap_err().to_string();
    assert!(refused.contains("\"exit 3\" ended with exit status: 3"), "{refused}");
}

#[test]
fn a_mount_is_watched_until_somebody_presses_ctrl_c_and_goes_on() {
    let place = TempDir::new().unwrap();
    let (folder, image) = (place.path().join("mnt"), place.path().join("drive.tant"));
    std::fs::create_dir(&folder).unwrap();
    let options = Options {
        image: image.clone(),
        folder: folder.clone(),
        pacing: Pacing::None,
        threads: 2,
        atomic_writes: false,
        sync_writes: false,
        write_back: false,
        sync_interval: tantalum_fuse::SYNC_INTERVAL,
    };
    let volume = Volume::format(Device::create(&image, &profile()).unwrap(), 256 << 20).unwrap();
    let mounted = Mounted::mount(Box::new(volume), &options).unwrap();
    let stopper = mounted.stopper();
    let waits = thread::spawn(move || mounted.wait(|_| {}).map(drop));
    let write = |name: &str, units: usize| {
        let path = folder.join(name);
        std::fs::write(&path, vec![1; units * UNIT as usize]).unwrap();
        std::fs::File::open(&path).unwrap().sync_all().unwrap();
    };
    write("old", 20);
    let stop = Stop::default();
    let mut is_first = true;
    let measurement = attach(&folder, Some(Duration::from_secs(60)), true, &stop, |_| {
        if std::mem::take(&mut is_first) {
            write("old", 5);
            write("new", 7);
        }
        stop.press();
    });
    let measurement = measurement.unwrap();
    assert_eq!((measurement.asked.bytes, measurement.exit_code), (12 * UNIT, None));
    assert_eq!(file(&measurement, "old").drive_bytes, Some(5 * UNIT));
    assert_eq!(file(&measurement, "new").drive_bytes, Some(7 * UNIT));
    check_replay(&measurement);
    write("new", 2);
    // the end of one recording used to come after the next one was refused
    for _ in 0..20 {
        let again = attach(&folder, Some(Duration::ZERO), false, &Stop::default(), |_| write("new", 1));
        assert_eq!(again.unwrap().asked.bytes, UNIT);
    }
    stopper.stop();
    waits.join().unwrap().unwrap();
}
