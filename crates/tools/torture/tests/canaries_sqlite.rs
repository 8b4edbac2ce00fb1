//! Guards of the SQLite VFS and of the volume, taken out one by one: each must be caught. Prints guard, seeds needed
//! and the promise that was broken. Guards are taken out for one thread, so tests do not meet.
//!
//! `cargo test --profile canary -p tantalum-torture --features canaries --test canaries_sqlite -- --nocapture`

use tantalum::{Device, Outcome, PowerLoss, Profile, UNIT_BYTES};
use tantalum_canaries::{Guard, take_out};
use tantalum_report::Monitor;
use tantalum_sqlite::rusqlite::{Connection, Row};
use tantalum_sqlite::{Mode, SharedVolume};
use tantalum_sqlite::{Synchronous, canaries as sqlite};
use tantalum_torture::Cuts;
use tantalum_torture::sqlite::{Settings, run};
use tantalum_volume::{FileId, Volume, canaries as volume};

const CACHE_BYTES: u64 = 4 << 20;

/// Seeds within which the torture test catches a missing guard.
const MOST_SEEDS: u64 = 20;

/// Tortures a mode until a promise is broken.
fn catch(guard: &'static Guard, mode: Mode, synchronous: Synchronous) {
    let out = take_out(guard);
    for seed in 1..=MOST_SEEDS {
        let settings = Settings {
            modes: vec![mode],
            synchronous: vec![synchronous],
            seeds: (seed..seed + 1).into(),
            cuts: Cuts::Random(40),
            transactions: 40,
            host_faults: false,
        };
        let outcome = run(&settings, &Monitor::silent()).unwrap();
        if let Some(violation) = outcome.violations.first() {
            let again = run(&replayed(&settings, &violation.replay), &Monitor::silent()).unwrap();
            assert_eq!(
                again.violations.first().map(|v| &v.promise),
                Some(&violation.promise),
                "{}",
                violation.replay
            );
            drop(out);
            println!("{guard:?}: {seed} seeds, {mode}: {}", violation.promise);
            let outcome = run(&settings, &Monitor::silent()).unwrap();
            assert_eq!(outcome.violations, [], "{guard:?} is back, and seed {seed} still fails");
            return;
        }
    }
    panic!("{guard:?} was taken out, and {MOST_SEEDS} seeds of {mode} did not notice");
}

/// The settings with the cuts and the transactions of a violation's command line.
fn replayed(settings: &Settings, replay: &str) -> Settings {
    let words: Vec<&str> = replay.split_whitespace().collect();
    let value = |option| words[1 + words.iter().position(|&word| word == option).unwrap()];
    assert_eq!(value("--seed"), settings.seeds.range.start.to_string());
    let (cuts, transactions) = (value("--cuts").parse().unwrap(), value("--transactions").parse().unwrap());
    Settings { cuts, transactions, ..settings.clone() }
}

#[test]
fn a_log_that_is_not_durable_when_it_was_synced_is_caught() {
    catch(&sqlite::HomesBeforeLog, Mode::SwWal, Synchronous::Full);
}

#[test]
fn a_log_that_starts_anew_before_the_homes_are_durable_is_caught() {
    catch(&sqlite::RestartBeforeHomes, Mode::Share, Synchronous::Full);
}

/// A volume on a drive in memory.
fn volume() -> Volume {
    let mut profile = Profile::load("tlc-nvme").unwrap();
    profile.capacity_bytes = 64 << 20;
    Volume::format(Device::in_memory(&profile).unwrap(), CACHE_BYTES).unwrap()
}

/// Power fails, if it has not yet, and comes back.
fn cut(volume: Volume, loss: &mut PowerLoss) -> Volume {
    let now_ns = volume.now_ns();
    volume.device().cut_after(None);
    volume.device().cut_power(now_ns);
    let mut device = volume.into_client_without_sync().into_device().unwrap();
    device.power_on(loss).unwrap();
    Volume::mount(device, CACHE_BYTES).unwrap()
}

fn cut_drive(drive: SharedVolume, loss: &mut PowerLoss) -> SharedVolume {
    let volume = drive.into_volume().map_err(|(_, error)| error).unwrap();
    SharedVolume::new(cut(volume, loss), Mode::Share, Some(1))
}

fn number(connection: &Connection) -> i64 {
    connection.query_row("SELECT max(n) FROM t", [], |row| row.get(0)).unwrap()
}

const ROWS: &str = "CREATE TABLE t(k INTEGER PRIMARY KEY, n, b);
    WITH RECURSIVE c(x) AS (VALUES(1) UNION ALL SELECT x+1 FROM c WHERE x<4)
    INSERT INTO t SELECT x, 0, zeroblob(3000) FROM c;
    PRAGMA wal_checkpoint(TRUNCATE)";

/// A log with a transaction of one frame and one of four is completely home. Another transaction of four restarts the
/// log, and the cut comes while it is sent: the flash page with the header and the first frames may be lost, and the
/// next one not. Returns whether the rows then have one number.
fn log_that_starts_anew(seed: u64) -> bool {
    let drive = SharedVolume::new(volume(), Mode::Share, Some(1));
    let connection = drive.open("app.db").unwrap();
    connection
        .execute_batch(&format!(
            "PRAGMA wal_autocheckpoint=0; {ROWS}; UPDATE t SET n=1 WHERE k=1; UPDATE t SET n=2;
             PRAGMA wal_checkpoint(PASSIVE); PRAGMA synchronous=FULL"
        ))
        .unwrap();
    drive.volume().device().cut_after(Some(2));
    connection.execute_batch("UPDATE t SET n=3").unwrap_err();
    drop(connection);
    let drive = cut_drive(drive, &mut PowerLoss::seeded(seed));
    let connection = drive.open("app.db").unwrap();
    let range = |row: &Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?));
    let (least, most) = connection.query_row("SELECT min(n), max(n) FROM t", [], range).unwrap();
    least == most
}

#[test]
fn frames_sent_before_the_new_header_is_durable_are_caught() {
    const SEEDS: u64 = 100;
    assert!((0..SEEDS).all(log_that_starts_anew), "with the guard");
    let _out = take_out(&sqlite::FramesBeforeHeader);
    let needed = (0..SEEDS).find(|&seed| !log_that_starts_anew(seed));
    let needed = needed.expect("FramesBeforeHeader was taken out, and nothing noticed");
    println!("{:?}: {} seeds, share: transactions are whole", &sqlite::FramesBeforeHeader, needed + 1);
}

/// Two transactions are sent; the cut leaves all of the second and not the first. The first is done again, byte for
/// byte the same. Returns the number of the last transaction after one more cut; `None` if the first cut did something
/// else.
fn transaction_behind_one_that_is_done_again(seed: u64) -> Option<i64> {
    let mut loss = PowerLoss::seeded(seed);
    let drive = SharedVolume::new(volume(), Mode::Share, Some(1));
    let connection = drive.open("app.db").unwrap();
    connection
        .execute_batch(&format!(
            "PRAGMA wal_autocheckpoint=0; {ROWS}; PRAGMA synchronous=FULL; UPDATE t SET n=-1;
             PRAGMA synchronous=NORMAL; UPDATE t SET n=1; UPDATE t SET n=2;"
        ))
        .unwrap();
    drive.volume().device().cut_after(Some(2));
    connection.execute_batch("PRAGMA wal_checkpoint(PASSIVE)").unwrap_err();
    drop(connection);
    let drive = cut_drive(drive, &mut loss);
    let connection = drive.open("app.db").unwrap();
    if number(&connection) != -1 {
        return None;
    }
    connection.execute_batch("PRAGMA synchronous=FULL; UPDATE t SET n=1").unwrap();
    let now_ns = drive.volume().now_ns();
    drive.volume().device().cut_power(now_ns);
    drop(connection);
    let drive = cut_drive(drive, &mut loss);
    Some(number(&drive.open("app.db").unwrap()))
}

/// The checksums of SQLite's log are a chain, and what is done again makes the same chain: without the trim behind a
/// reopened log, a transaction comes back that the application knows to be lost.
#[test]
fn a_transaction_behind_a_reopened_log_that_comes_back_is_caught() {
    const SEEDS: u64 = 100;
    let found: Vec<i64> = (0..SEEDS).filter_map(transaction_behind_one_that_is_done_again).collect();
    assert!(!found.is_empty() && found.iter().all(|&number| number == 1), "with the guard: {found:?}");
    let _out = take_out(&sqlite::StaleTailKept);
    let needed = (0..SEEDS).find(|&seed| transaction_behind_one_that_is_done_again(seed) == Some(2));
    let needed = needed.expect("StaleTailKept was taken out, and nothing noticed");
    println!("{:?}: {} seeds, share: nothing is there that was not done", &sqlite::StaleTailKept, needed + 1);
}

/// What a file holds after a cut at which nothing in flight reached flash.
fn content_after_cut(volume: Volume, name: &str) -> Vec<u8> {
    let mut volume = cut(volume, &mut PowerLoss::all(Outcome::NotStarted));
    let file: FileId = volume.find(name).expect("the file is durable");
    let mut data = vec![0; volume.size(file).unwrap() as usize];
    volume.read(file, 0, &mut data).unwrap();
    data
}

/// A file gets the place of one that was just removed, and grows over units that it has not written.
fn file_in_the_place_of_another() -> Vec<u8> {
    let mut volume = volume();
    let secret = volume.create("secret").unwrap();
    volume.write(secret, 0, &[0xaa; 64 * UNIT_BYTES]).unwrap();
    volume.sync(secret).unwrap();
    volume.remove("secret").unwrap();
    volume.sync_names().unwrap();
    let file = volume.create("file").unwrap();
    volume.write_atomic(file, &[(0, &[1; UNIT_BYTES])], Some(8 * UNIT_BYTES as u64)).unwrap();
    content_after_cut(volume, "file").split_off(UNIT_BYTES)
}

#[test]
fn a_trim_that_is_lost_while_its_units_have_a_new_owner_is_caught() {
    assert!(file_in_the_place_of_another().iter().all(|&byte| byte == 0), "V3, with the guard");
    let _out = take_out(&volume::TrimUnflushed);
    assert!(file_in_the_place_of_another().contains(&0xaa), "TrimUnflushed was not noticed");
    println!("{:?}: 1 case, volume: V3, a file never shows what another held", &volume::TrimUnflushed);
}

/// A file was cut within a unit, and grows again by an atomic write.
fn tail_of_a_file_that_grows() -> Vec<u8> {
    let mut volume = volume();
    let file = volume.create("file").unwrap();
    volume.write(file, 0, &[0xaa; UNIT_BYTES]).unwrap();
    volume.sync(file).unwrap();
    volume.set_size(file, 100).unwrap();
    volume.sync(file).unwrap();
    // Once more, so that no trim is left that would cause a flush of the drive.
    volume.sync(file).unwrap();
    volume.write_atomic(file, &[(1, &[1; UNIT_BYTES])], Some(2 * UNIT_BYTES as u64)).unwrap();
    content_after_cut(volume, "file")[100..UNIT_BYTES].to_vec()
}

#[test]
fn an_inode_that_precedes_the_cleared_tail_is_caught() {
    assert!(tail_of_a_file_that_grows().iter().all(|&byte| byte == 0), "V4, with the guard");
    let _out = take_out(&volume::InodeBeforeData);
    assert!(tail_of_a_file_that_grows().contains(&0xaa), "InodeBeforeData was not noticed");
    println!("{:?}: 1 case, volume: V4, metadata never precede data", &volume::InodeBeforeData);
}

/// A file is removed and the volume closed; power fails at an operation of the closing, which completes. Returns whether
/// a new file then shows what the removed one held; `None` if closing has fewer operations.
fn removed_file_is_seen_again(operation: u64) -> Option<bool> {
    const UNITS: u64 = 200;
    let mut volume = volume();
    let old = volume.create("old").unwrap();
    volume.write(old, 0, &[0xaa; 20 * UNIT_BYTES]).unwrap();
    volume.sync(old).unwrap();
    // Its units are trimmed once the removal is durable: while the volume is closed.
    volume.remove("old").unwrap();
    volume.device().cut_after(Some(operation));
    let error = volume.unmount().err()?;
    let mut device = error.volume.into_client_without_sync().into_device().unwrap();
    device.power_on(&mut PowerLoss::all(Outcome::Completed)).unwrap();
    let mut volume = Volume::mount(device, CACHE_BYTES).unwrap();
    let new = volume.create("new").unwrap();
    volume.set_size(new, UNITS * UNIT_BYTES as u64).unwrap();
    for unit in 0..UNITS {
        volume.write(new, unit * UNIT_BYTES as u64 + 1, &[1]).unwrap();
    }
    let mut data = vec![0; UNITS as usize * UNIT_BYTES];
    volume.read(new, 0, &mut data).unwrap();
    Some(data.contains(&0xaa))
}

#[test]
fn a_volume_that_says_it_is_closed_before_its_last_trims_are_durable_is_caught() {
    let seen_again = || (1..).map_while(removed_file_is_seen_again).any(|seen| seen);
    assert!(!seen_again(), "V3, with the guard");
    let _out = take_out(&volume::ClosedBeforeTrims);
    assert!(seen_again(), "ClosedBeforeTrims was not noticed");
    println!("{:?}: 1 case, volume: V3, a file never shows what another held", &volume::ClosedBeforeTrims);
}
