//! Every command that SQLite's files send to the drive fails once, in each way in which a drive's commands fail, in each
//! mode. The statement then fails or succeeds; what was committed is there and no transaction is half there, on the same
//! connection, on a new one, and after power failed; and what follows works.
//!
//! Every 61st command does, `FAILING_STEP=1` takes each; `FAILING_COMMAND=n` lets only the nth command fail.

use crate::common::CACHE_BYTES;
use tantalum::{CommandFailure, Device, Outcome, PowerLoss, Profile};
use tantalum_sqlite::rusqlite::{self, Connection, ErrorCode, params};
use tantalum_sqlite::{Mode, SharedVolume};
use tantalum_volume::Volume;

/// Rows of the table: each transaction raises all of them to its number.
const ROWS: i64 = 24;

const TRANSACTIONS: i64 = 14;

fn open(drive: &SharedVolume) -> rusqlite::Result<Connection> {
    let connection = drive.open("app.db")?;
    connection.execute_batch(
        "PRAGMA synchronous=extra; PRAGMA cache_size=6; PRAGMA cache_spill=4; PRAGMA wal_autocheckpoint=20;",
    )?;
    Ok(connection)
}

fn transaction(connection: &Connection, number: i64) -> rusqlite::Result<()> {
    if number % 5 == 0 && connection.is_autocommit() {
        connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)")?;
    }
    connection.execute_batch("BEGIN")?;
    connection.execute("UPDATE t SET n=?1", [number])?;
    let blob = vec![number as u8; (number as usize * 977) % 6000];
    connection.execute("UPDATE t SET b=?2 WHERE k % 7 = ?1", params![number % 7, blob])?;
    connection.execute_batch("COMMIT")
}

/// The number that all rows have.
fn state(connection: &Connection, what: &str) -> rusqlite::Result<i64> {
    let check: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
    assert_eq!(check, "ok", "{what}");
    let (least, most, rows): (i64, i64, i64) =
        connection.query_row("SELECT min(n), max(n), count(*) FROM t", [], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })?;
    assert_eq!((least, rows), (most, ROWS), "{what}: a transaction is half there");
    Ok(least)
}

fn power_cycle(drive: SharedVolume, seed: u64) -> SharedVolume {
    let (mode, drive_seed) = (drive.mode(), drive.seed());
    let volume = drive.into_volume().map_err(|(_, error)| error).expect("nothing is open");
    let mut device = volume.into_client_without_sync().into_device().expect("nobody else has it");
    device.fail_command(None);
    let now_ns = device.time_ns();
    device.cut_power(now_ns);
    let mut loss =
        if seed.is_multiple_of(2) { PowerLoss::seeded(seed) } else { PowerLoss::all(Outcome::NotStarted) };
    device.power_on(&mut loss).expect("the drive recovers");
    SharedVolume::new(Volume::mount(device, CACHE_BYTES).expect("mount"), mode, drive_seed)
}

/// The host has failed below the drive: a new connection reads what it can, and nothing half done. Returns the number that all
/// rows have, if they can be read: recovery of a transaction may have to write.
fn read_on(drive: &SharedVolume, what: &str) -> Option<i64> {
    let now = open(drive).and_then(|connection| state(&connection, what));
    let code = now.as_ref().err().and_then(rusqlite::Error::sqlite_error_code);
    assert!(
        !matches!(code, Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)),
        "{what}, read on: {now:?}"
    );
    now.ok()
}

/// Runs the transactions; the nth command fails. None if there was none; otherwise whether the database could be read after
/// its host had failed.
fn run(profile: &Profile, mode: Mode, command: u64, failure: CommandFailure) -> Option<bool> {
    let device = Device::in_memory(profile).expect("a drive");
    let mut drive =
        SharedVolume::new(Volume::format(device, 128 << 10).expect("a volume"), mode, Some(command));
    let mut connection = open(&drive).unwrap();
    let journal = mode.journal_mode();
    connection.query_row(&format!("PRAGMA journal_mode={journal}"), [], |_| Ok(())).unwrap();
    connection.execute_batch("CREATE TABLE t(k INTEGER PRIMARY KEY, n INTEGER, b BLOB)").unwrap();
    for key in 0..ROWS {
        connection.execute("INSERT INTO t VALUES(?1, 0, zeroblob(300))", [key]).unwrap();
    }
    drive.volume().device().fail_command(Some((command, failure)));
    let (mut committed, mut failed, mut reads) = (0, false, false);
    while committed < TRANSACTIONS {
        let what = format!("{mode}, {failure:?} at command {command}, in transaction {}", committed + 1);
        let done = transaction(&connection, committed + 1);
        let met = done.is_err() || !drive.volume().device().fails_commands();
        if failed || !met {
            done.unwrap_or_else(|error| {
                panic!("{what}, which comes after: {error}; below {:?}", drive.last_error())
            });
            committed += 1;
            continue;
        }
        failed = true;
        let attempted = committed + 1;
        if done.is_err() && !connection.is_autocommit() {
            let _ = connection.execute_batch("ROLLBACK");
        }
        let mut stays = failure.ends_nothing() && command % 3 == 1;
        if stays {
            let now = state(&connection, &what).map(|now| {
                let refused = done.is_err() && now == committed;
                assert!(now == attempted || refused, "{what}: {now} after {done:?}");
            });
            // the log of a connection whose commands failed may need another one to go on
            stays = now.is_ok();
        }
        if !stays {
            drop(connection);
            if matches!(failure, CommandFailure::HostBefore | CommandFailure::HostAfter)
                && let Some(now) = read_on(&drive, &what)
            {
                reads = true;
                assert!(now == committed || now == attempted, "{what}: {now} is read on");
            }
            if !failure.ends_nothing() || command.is_multiple_of(3) {
                drive = power_cycle(drive, command);
            }
            connection = open(&drive).unwrap_or_else(|error| panic!("{what}, opened again: {error}"));
        }
        let now = state(&connection, &what).unwrap_or_else(|error| panic!("{what}, read again: {error}"));
        let refused = done.is_err() && now == committed;
        assert!(now == attempted || refused, "{what}: {now} after {done:?}, opened again");
        committed = now;
    }
    if !failed {
        return None;
    }
    let what = format!("{mode}, {failure:?} at command {command}, at the end");
    assert_eq!(state(&connection, &what).unwrap(), TRANSACTIONS, "{what}");
    drop(connection);
    let drive = power_cycle(drive, command);
    let connection = open(&drive).unwrap();
    assert_eq!(state(&connection, &what).unwrap(), TRANSACTIONS, "{what}, after power went");
    Some(reads)
}

#[test]
fn whichever_command_fails_no_transaction_is_lost_or_torn() {
    let setting = |name: &str| std::env::var(name).ok().map(|number| number.parse::<u64>().unwrap());
    let (only, step) = (setting("FAILING_COMMAND"), setting("FAILING_STEP").unwrap_or(61));
    let (mut failed, mut read) = (0, 0);
    for (number, failure) in (0..).zip(CommandFailure::ALL) {
        let mut profile = Profile::load(["tlc-nvme", "tlc-nvme-plp"][number % 2]).unwrap();
        profile.capacity_bytes = 64 << 20;
        profile.over_provisioning_percent = 40.0;
        for (other, mode) in Mode::ALL.into_iter().enumerate() {
            let commands = only.map_or(1..u64::MAX, |command| command..command + 1);
            let commands = commands.skip((7 * number + 11 * other) % step as usize).step_by(step as usize);
            for command in commands {
                let Some(reads) = run(&profile, mode, command, failure) else { break };
                (failed, read) = (failed + 1, read + u32::from(reads));
            }
        }
    }
    println!("{failed} commands failed; {read} databases were read on");
    assert!(only.is_some() || read > 10, "only {read} databases were read on");
    assert!(only.is_some() || failed > 50, "only {failed} commands failed");
}
