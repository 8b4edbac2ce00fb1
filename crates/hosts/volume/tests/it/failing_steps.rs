//! A step in the middle of an operation fails: what was acknowledged is still there, and a later sync does not make the
//! failure durable.

use crate::common;

use common::*;
use tantalum::{CommandFailure, Status, TxId};
use tantalum_filesystem::{FileKind, NewFile, Timestamp};
use tantalum_volume::{FileId, RangeCommit, Volume, VolumeError};

const UNIT: usize = 4096;
const FULL: VolumeError = VolumeError::Device(Status::CapacityExceeded);

fn fail(volume: &Volume, command: u64, failure: CommandFailure) {
    volume.device().fail_command(Some((command, failure)));
}

/// What the file reads as once the volume has nothing of it in its cache.
fn without_cache(volume: &mut Volume, file: FileId) -> Vec<u8> {
    volume.lend(file).unwrap();
    content(volume, file)
}

/// A copy without room threw cached pages away first, among them the only copy of an acknowledged write: the next sync
/// succeeded, and the file read as before that write.
#[test]
fn a_copy_that_finds_no_room_leaves_what_was_written_before() {
    let mut volume = volume(8, LARGE_CACHE);
    let target = create(&mut volume, "t", &[b'o'; UNIT]);
    let source = create(&mut volume, "s", &[b's'; 8 * UNIT]);
    volume.sync_all().unwrap();
    let all = volume.create("all").unwrap();
    while volume.write(all, volume.size(all).unwrap(), &[7; UNIT]).is_ok() {}
    volume.sync_all().unwrap();
    volume.write(target, 0, b"new!").unwrap();
    let mut expected = vec![b'o'; UNIT];
    expected[..4].copy_from_slice(b"new!");
    let refused = volume.copy_range(source, 0, target, 0, 8 * UNIT as u64);
    assert!(matches!(refused, Err(VolumeError::NoSpace { .. })), "{refused:?}");
    assert_eq!(content(&mut volume, target), expected);
    volume.sync(target).unwrap();
    assert_eq!(without_cache(&mut volume, target), expected);
    let mut volume = power_cut(volume, LARGE_CACHE);
    assert_eq!(content(&mut volume, target), expected);
}

/// Zeroing units in place, and copies of units that the drive does not share, also threw cached pages away before the
/// drive had the rest.
#[test]
fn what_a_step_would_have_replaced_stays_dirty_until_the_drive_has_the_rest() {
    type Step = fn(&mut Volume, FileId, FileId) -> Result<(), VolumeError>;
    let zero: Step = |volume, file, _| volume.zero_range(file, 0, 2 * UNIT as u64, true);
    let copy: Step = |volume, file, other| volume.copy_range(other, 0, file, 0, 2 * UNIT as u64).map(drop);
    let (refused, not_shared) = (CommandFailure::OutOfBuffers, CommandFailure::CapacityExceeded);
    for (step, failure) in
        [(zero, Some(refused)), (copy, Some(refused)), (copy, Some(not_shared)), (copy, None)]
    {
        let mut volume = volume(8, LARGE_CACHE);
        let file = create(&mut volume, "a", &[1; 2 * UNIT]);
        let other = create(&mut volume, "b", &[9; 2 * UNIT]);
        volume.sync_all().unwrap();
        volume.write(file, 0, &[2; 2 * UNIT]).unwrap();
        volume.device().fail_command(failure.map(|failure| (1, failure)));
        let done = step(&mut volume, file, other);
        assert_eq!(done.is_err(), failure == Some(refused), "{done:?}");
        let expected = if done.is_ok() { [9; 2 * UNIT] } else { [2; 2 * UNIT] };
        assert_eq!(content(&mut volume, file), expected);
        volume.sync(file).unwrap();
        assert_eq!(without_cache(&mut volume, file), expected);
    }
}

/// A direct write beyond the end that failed half way, or a copy, had left units there that were seen when the file grew.
#[test]
fn what_a_failed_step_wrote_beyond_the_end_is_not_seen_when_the_file_grows() {
    for reserved in [false, true] {
        let mut volume = volume(8, LARGE_CACHE);
        let file = create(&mut volume, "a", &[1; 100]);
        if reserved {
            volume.allocate(file, 0, 40 * UNIT as u64, true).unwrap();
        }
        volume.sync(file).unwrap();
        fail(&volume, 1, CommandFailure::WrittenInPart);
        assert_eq!(volume.write_direct(file, UNIT as u64, &[2; 8 * UNIT]), Err(FULL));
        // a hole divides the copy into two shares
        let source = create(&mut volume, "b", &[3; 9 * UNIT]);
        volume.punch_hole(source, 4 * UNIT as u64, UNIT as u64).unwrap();
        volume.sync(source).unwrap();
        fail(&volume, 2, CommandFailure::OutOfBuffers);
        volume.copy_range(source, 0, file, 12 * UNIT as u64, 9 * UNIT as u64).unwrap_err();
        assert_eq!(volume.size(file), Ok(100));
        volume.set_size(file, 50 * UNIT as u64).unwrap();
        let mut expected = vec![0; 50 * UNIT];
        expected[..100].fill(1);
        assert!(content(&mut volume, file) == expected);
        volume.sync(file).unwrap();
        assert!(content(&mut crash(volume, LARGE_CACHE), file) == expected);
    }
}

/// Some units of a direct write were written when it failed: cached pages were older than what the drive had.
#[test]
fn after_a_direct_write_that_failed_the_cache_has_what_the_drive_has() {
    let mut volume = volume(8, LARGE_CACHE);
    let file = create(&mut volume, "a", &[1; 8 * UNIT]);
    volume.sync(file).unwrap();
    volume.write(file, 0, &[2; UNIT]).unwrap();
    fail(&volume, 1, CommandFailure::WrittenInPart);
    assert_eq!(volume.write_direct(file, 0, &[3; 8 * UNIT]), Err(FULL));
    let seen = content(&mut volume, file);
    assert_eq!(seen[..UNIT], [2; UNIT], "a dirty page is written back later");
    assert_eq!(without_cache(&mut volume, file), seen);
}

/// Each failed write-back left one dirty page more than the limit, until the cache had no frame: a panic.
#[test]
fn a_drive_that_takes_nothing_does_not_fill_the_cache_with_dirty_pages() {
    let mut volume = volume(8, SMALL_CACHE);
    let file = create(&mut volume, "a", &[0; 200 * UNIT]);
    volume.sync(file).unwrap();
    let mut expected = vec![0; 200 * UNIT];
    let mut refused = 0;
    for unit in 0..200 {
        fail(&volume, 1, CommandFailure::CapacityExceeded);
        match volume.write(file, (unit * UNIT) as u64, &[unit as u8 + 1; 3]) {
            Ok(()) => expected[unit * UNIT..][..3].fill(unit as u8 + 1),
            Err(error) => {
                assert_eq!(error, FULL);
                refused += 1;
            }
        }
    }
    assert!(refused > 100, "{refused} writes were refused");
    fail(&volume, 1, CommandFailure::CapacityExceeded);
    assert_eq!(volume.sync(file), Err(FULL));
    volume.sync(file).unwrap();
    assert_eq!(content(&mut volume, file), expected);
    assert_eq!(content(&mut power_cut(volume, SMALL_CACHE), file), expected);
}

/// Pages around the one that is read are read with it. One of them cannot be read: nobody asked for it.
#[test]
fn a_page_that_cannot_be_read_does_not_keep_its_neighbours_from_being_read() {
    let mut volume = volume(8, LARGE_CACHE);
    let file = create(&mut volume, "a", &[5; 10 * UNIT]);
    volume.sync(file).unwrap();
    let mut volume = crash(volume, LARGE_CACHE);
    fail(&volume, 1, CommandFailure::Unreadable);
    assert_eq!(content(&mut volume, file), [5; 10 * UNIT]);
}

fn new_link() -> NewFile {
    let now = Timestamp { seconds: 1, nanoseconds: 0 };
    NewFile { kind: FileKind::SymbolicLink, permissions: 0o777, owner: 0, group: 0, device_number: 0, now }
}

/// The link was unlinked again, which made waiting names durable: the link among them, without its target.
#[test]
fn a_long_symbolic_link_that_failed_is_never_seen_without_its_target() {
    for failing in 1.. {
        let mut volume = Volume::format(device_with_batches_of(16, 8), LARGE_CACHE).unwrap();
        for name in ["a", "b", "c", "d"] {
            volume.create(name).unwrap();
        }
        fail(&volume, failing, CommandFailure::CapacityExceeded);
        let made = volume.create_symbolic_link(FileId::ROOT, b"link", &[b'x'; 4000], &new_link());
        if made.is_ok() {
            assert!(failing > 2, "{failing} commands are too few");
            return;
        }
        assert_eq!(volume.find("link"), None);
        assert_eq!(crash(volume, LARGE_CACHE).find("link"), None, "command {failing} failed");
    }
}

fn started(volume: &mut Volume, file: FileId) -> TxId {
    let tx = volume.tx_begin().unwrap();
    volume.tx_write(tx, file, 0, &[2; UNIT]).unwrap();
    tx
}

/// A commit that failed had sent the file's inode, and a second one brought it back over the newer one of a sync: the file
/// lost what had been synced in between.
#[test]
fn a_commit_that_failed_after_its_inodes_cannot_be_repeated_over_a_newer_inode() {
    let mut last = 0;
    for failing in 1.. {
        let mut volume = volume(8, LARGE_CACHE);
        let file = create(&mut volume, "db", &[1; 2 * UNIT]);
        volume.sync(file).unwrap();
        let tx = started(&mut volume, file);
        fail(&volume, failing, CommandFailure::CapacityExceeded);
        let failed = volume.tx_commit(tx, file, Some(3 * UNIT as u64));
        volume.device().fail_command(None);
        if failed.is_ok() {
            break;
        }
        last = failing;
        assert_eq!(content(&mut volume, file), [1; 2 * UNIT]);
        volume.write(file, 20 * UNIT as u64, &[3; UNIT]).unwrap();
        volume.sync(file).unwrap();
        let mut expected = content(&mut volume, file);
        if volume.tx_commit(tx, file, None).is_ok() {
            expected[..UNIT].fill(2);
        } else {
            assert_eq!(volume.tx_commit(tx, file, None), Err(VolumeError::CommitFailed { tx }));
            volume.tx_abort(tx).unwrap();
        }
        assert_eq!(content(&mut volume, file), expected);
        assert_eq!(content(&mut crash(volume, LARGE_CACHE), file), expected, "command {failing} failed");
    }
    assert!(last >= 2, "{last} commands failed");
}

/// Units whose trim failed were free after the next mount, with what the removed file had there.
#[test]
fn a_volume_is_not_unmounted_while_units_that_were_given_up_are_not_trimmed() {
    let mut tried = 0;
    for failing in 1..20 {
        let mut volume = volume(1, LARGE_CACHE);
        create(&mut volume, "secret", &[7; 100 * UNIT]);
        let open = create(&mut volume, "open", &[8; 20 * UNIT]);
        volume.sync_all().unwrap();
        volume.open(open).unwrap();
        volume.remove("secret").unwrap();
        volume.remove("open").unwrap();
        fail(&volume, failing, CommandFailure::CapacityExceeded);
        let client = volume.unmount().unwrap_or_else(|failed| {
            tried += 1;
            assert_eq!(failed.volume.stopped(), None);
            failed.volume.unmount().unwrap()
        });
        client.device().fail_command(None);
        let mut volume = Volume::mount(client, LARGE_CACHE).unwrap();
        let all = volume.create("all").unwrap();
        volume.allocate(all, 0, volume.free_units() * UNIT as u64, false).unwrap();
        assert!(content(&mut volume, all).iter().all(|byte| *byte == 0), "command {failing} failed");
    }
    assert!(tried > 4, "{tried} commands failed");
}

/// The first failure leaves the drive with a superblock that says "unmounted", the second keeps it from being told
/// otherwise. A mount would trim nothing that is written from then on.
#[test]
fn a_volume_that_may_be_marked_as_unmounted_accepts_no_changes() {
    let mut volume = volume(8, LARGE_CACHE);
    let file = create(&mut volume, "a", &[1; UNIT]);
    volume.sync_all().unwrap();
    fail(&volume, 1, CommandFailure::ReadOnly);
    let failed = volume.unmount().unwrap_err();
    let mut volume = failed.volume;
    volume.device().fail_command(None);
    assert_eq!(volume.stopped(), Some(Status::ReadOnly));
    assert_eq!(volume.write(file, 0, &[2]), Err(VolumeError::Device(Status::ReadOnly)));
    assert_eq!(content(&mut crash(volume, LARGE_CACHE), file), [1; UNIT]);
}

/// Near the limit of extents the undo of an exchange was refused, as an exchange would be.
#[test]
fn an_exchange_that_fails_is_undone_however_many_extents_there_are() {
    const MOST: u64 = 111 * 340;
    let mut volume = Volume::format(device(400), SMALL_CACHE).unwrap();
    let a = volume.create("a").unwrap();
    volume.allocate(a, 0, (2 * MOST + 20) * UNIT as u64, false).unwrap();
    for piece in 0..MOST - 12 {
        volume.punch_hole(a, (2 * piece + 10) * UNIT as u64, UNIT as u64).unwrap();
    }
    let b = create(&mut volume, "b", &[9; 16 * UNIT]);
    for unit in [3, 5, 7] {
        volume.punch_hole(b, unit * UNIT as u64, UNIT as u64).unwrap();
    }
    volume.sync_all().unwrap();
    let places =
        |volume: &Volume| [a, b].map(|file| [1, 2, 3, 4, 5, 6, 7, 8].map(|unit| volume.lpn(file, unit)));
    let before = places(&volume);
    let mut failed = 0;
    for piece in MOST - 12..MOST {
        fail(&volume, 1, CommandFailure::CapacityExceeded);
        match volume.exchange_ranges(a, UNIT as u64, b, UNIT as u64, 8 * UNIT as u64) {
            Err(VolumeError::TooFragmented { .. }) => break,
            exchanged => assert_eq!(exchanged, Err(FULL)),
        }
        failed += 1;
        assert_eq!(places(&volume), before, "{piece} holes");
        volume.device().fail_command(None);
        volume.punch_hole(a, (2 * piece + 10) * UNIT as u64, UNIT as u64).unwrap();
    }
    assert!((1..12).contains(&failed), "{failed} exchanges failed before there were too many extents");
}

/// A size that grew with a commit of ranges was durable before the data that it shows (V4).
#[test]
fn data_of_a_committed_file_precede_its_inode() {
    let mut volume = volume(8, LARGE_CACHE);
    let from = create(&mut volume, "from", &[2; 4 * UNIT]);
    let to = create(&mut volume, "to", &[1; UNIT]);
    volume.sync_all().unwrap();
    volume.write(to, UNIT as u64, &[3; 3 * UNIT]).unwrap();
    let range = RangeCommit { from, from_offset: 0, to, to_offset: 0, bytes: UNIT as u64 };
    volume.commit_ranges(&[range]).unwrap();
    let expected = content(&mut volume, to);
    assert_eq!(content(&mut power_cut(volume, LARGE_CACHE), to), expected);
}
