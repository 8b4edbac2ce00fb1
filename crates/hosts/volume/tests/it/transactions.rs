//! The drive's transactions on files.

use crate::common;

use common::*;
use tantalum::TxId;
use tantalum_volume::{FileId, Volume, VolumeError};

fn seen_in(volume: &mut Volume, tx: TxId, file: FileId) -> Vec<u8> {
    let mut data = vec![0xee; 1 << 20];
    let bytes = volume.tx_read(tx, file, 0, &mut data).unwrap();
    data.truncate(bytes);
    data
}

#[test]
fn others_see_the_old_units_until_the_commit() {
    for cache in [SMALL_CACHE, LARGE_CACHE] {
        let mut volume = volume(64, cache);
        let old = vec![1; 100 * 4096];
        let file = create(&mut volume, "db", &old);
        volume.sync(file).unwrap();
        let tx = volume.tx_begin().unwrap();
        let new = vec![2; 90 * 4096];
        volume.tx_write(tx, file, 5 * 4096, &new).unwrap();
        assert_eq!(content(&mut volume, file), old);
        let mut expected = old.clone();
        expected[5 * 4096..95 * 4096].fill(2);
        assert_eq!(seen_in(&mut volume, tx, file), expected);
        let mut crashed = crash(volume.try_clone().unwrap(), cache);
        assert_eq!(content(&mut crashed, file), old);
        volume.tx_commit(tx, file, None).unwrap();
        assert_eq!(content(&mut volume, file), expected);
        assert_eq!(content(&mut crash(volume, cache), file), expected);
    }
}

#[test]
fn a_commit_makes_the_size_durable_with_the_units() {
    let mut volume = volume(8, LARGE_CACHE);
    let file = volume.create("db").unwrap();
    let tx = volume.tx_begin().unwrap();
    volume.tx_write(tx, file, 4096, &[2; 4096]).unwrap();
    assert_eq!(volume.size(file), Ok(0));
    assert_eq!(seen_in(&mut volume, tx, file).len(), 8192);
    volume.tx_commit(tx, file, Some(8192)).unwrap();
    let mut volume = crash(volume, LARGE_CACHE);
    let file = volume.find("db").unwrap();
    assert_eq!(content(&mut volume, file)[4096..], [2; 4096]);
    let tx = volume.tx_begin().unwrap();
    volume.tx_write(tx, file, 0, &[3; 4096]).unwrap();
    volume.tx_commit(tx, file, Some(4096)).unwrap();
    assert_eq!(content(&mut volume, file), [3; 4096]);
    assert_eq!(content(&mut crash(volume, LARGE_CACHE), file), [3; 4096]);
}

#[test]
fn an_abort_leaves_no_trace() {
    let mut volume = volume(8, LARGE_CACHE);
    let file = create(&mut volume, "db", &[1; 4096]);
    let tx = volume.tx_begin().unwrap();
    volume.tx_write(tx, file, 0, &[2; 8192]).unwrap();
    volume.tx_abort(tx).unwrap();
    assert_eq!(content(&mut volume, file), [1; 4096]);
    assert_eq!(volume.tx_commit(tx, file, None), Err(VolumeError::UnknownTransaction(tx)));
    volume.set_size(file, 8192).unwrap();
    assert_eq!(content(&mut volume, file)[4096..], [0; 4096]);
}

#[test]
fn a_committed_unit_replaces_a_dirty_page() {
    let mut volume = volume(8, LARGE_CACHE);
    let file = create(&mut volume, "db", &[1; 8192]);
    let tx = volume.tx_begin().unwrap();
    volume.tx_write(tx, file, 0, &[2; 4096]).unwrap();
    volume.tx_commit(tx, file, None).unwrap();
    volume.sync(file).unwrap();
    let mut volume = crash(volume, LARGE_CACHE);
    let file = volume.find("db").unwrap();
    let expected = [[2; 4096], [1; 4096]].concat();
    assert_eq!(content(&mut volume, file), expected);
}

#[test]
fn a_file_in_a_transaction_cannot_be_cut_or_removed() {
    let mut volume = volume(8, LARGE_CACHE);
    let file = create(&mut volume, "db", &[1; 8192]);
    create(&mut volume, "other", b"x");
    let tx = volume.tx_begin().unwrap();
    volume.tx_write(tx, file, 0, &[2; 4096]).unwrap();
    let refused = Err(VolumeError::InTransaction { file, tx });
    assert_eq!(volume.remove("db"), refused);
    assert_eq!(volume.rename("other", "db"), refused);
    assert_eq!(volume.set_size(file, 0), refused);
    let second = volume.tx_begin().unwrap();
    assert_eq!(volume.tx_commit(second, file, Some(0)), refused);
    volume.tx_commit(tx, file, Some(0)).unwrap();
    volume.remove("db").unwrap();
}

#[test]
fn unmounting_aborts_what_is_open() {
    let mut volume = volume(8, LARGE_CACHE);
    let file = create(&mut volume, "db", &[1; 4096]);
    let tx = volume.tx_begin().unwrap();
    volume.tx_write(tx, file, 0, &[2; 4096]).unwrap();
    assert_eq!(content(&mut remount(volume, LARGE_CACHE), file), [1; 4096]);
}

/// The unit lost its place, which another file got, and the commit would have written there.
#[test]
fn an_atomic_write_does_not_cut_what_a_transaction_has_written() {
    let mut volume = volume(8, LARGE_CACHE);
    let file = create(&mut volume, "db", &[1; 8192]);
    let tx = volume.tx_begin().unwrap();
    volume.tx_write(tx, file, 4096, &[2; 4096]).unwrap();
    let refused = Err(VolumeError::InTransaction { file, tx });
    assert_eq!(volume.write_atomic(file, &[(0, &[3; 4096])], Some(4096)), refused);
    assert_eq!(content(&mut volume, file), [1; 8192]);
    volume.tx_commit(tx, file, None).unwrap();
    volume.write_atomic(file, &[(0, &[3; 4096])], Some(4096)).unwrap();
    assert_eq!(content(&mut volume, file), [3; 4096]);
}
