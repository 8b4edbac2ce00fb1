//! Vendor commands: one batch of units and records, and the failures of transactions, logs and shares.

use crate::common::records::{self, Record, add_records, server};
use crate::common::{Host, UNIT, attach, cut_and_attach, pattern, with_transaction};
use tantalum::{Generation, Hint, METADATA_BYTES};
use tantalum_nvme::client::{Completed, Options, block_command, command};
use tantalum_nvme::failure::Failure;
use tantalum_nvme::io::vendor::{HintedPage, Range};
use tantalum_nvme::wire::command::Submission;
use tantalum_nvme::wire::opcode::{nvm, vendor};
use zerocopy::IntoBytes;

/// The data of a batch: names of units, the units, and records.
fn batch_data(units: &[(u32, Vec<u8>)], records: &[Record<'_>]) -> Vec<u8> {
    let mut data = vec![0; UNIT];
    for (index, (lpn, unit)) in units.iter().enumerate() {
        data[index * 4..index * 4 + 4].copy_from_slice(&lpn.to_le_bytes());
        data.extend(unit);
    }
    add_records(&mut data, records);
    data
}

fn batch(host: &mut Host, units: &[(u32, Vec<u8>)], records: &[Record<'_>]) -> u16 {
    let data = batch_data(units, records);
    let write = command(vendor::WRITE_BATCH, 1, [data.len() as u32, 0, units.len() as u32 - 1, 0, 0, 0]);
    host.io.write_command(write, &data).unwrap().code
}

fn retrieve(host: &mut Host, namespace: u32, key: &[u8]) -> Completed {
    records::retrieve(host, namespace, key, 16 << 10)
}

#[test]
fn a_batch_of_units_and_records_survives_a_power_cut() {
    let server = server();
    let mut host = attach(&server, Options::default());
    let large = pattern(9, 9000);
    let first: &[Record<'_>] = &[(2, b"gone", Some(b"soon")), (3, b"stays", Some(b"as it was"))];
    assert_eq!(batch(&mut host, &[(1, pattern(1, UNIT))], first), 0);
    let units = [(5, pattern(5, UNIT)), (900, pattern(6, UNIT)), (1, pattern(7, UNIT))];
    let records: &[Record<'_>] =
        &[(2, b"gone", None), (2, b"large", Some(&large)), (3, b"a key of 16 byte", Some(b"x"))];
    assert_eq!(batch(&mut host, &units, records), 0);
    let mut host = cut_and_attach(&server);
    for (lpn, unit) in &units {
        assert!(host.read(u64::from(*lpn), UNIT, 1) == *unit, "unit {lpn}");
    }
    assert_eq!(retrieve(&mut host, 2, b"gone").code, Failure::NO_SUCH_KEY.code());
    assert!(retrieve(&mut host, 2, b"large").data == large);
    assert_eq!(retrieve(&mut host, 3, b"a key of 16 byte").data, b"x");
    assert_eq!(retrieve(&mut host, 3, b"stays").data, b"as it was");
}

#[test]
fn a_batch_that_is_refused_has_changed_nothing() {
    let server = server();
    let mut host = attach(&server, Options::default());
    let old: &[Record<'_>] = &[(2, b"key", Some(b"old"))];
    assert_eq!(batch(&mut host, &[(5, pattern(1, UNIT))], old), 0);
    let unit = (5, pattern(2, UNIT));
    let new: Record<'_> = (2, b"key", Some(b"new"));
    let mut refused = |units: &[(u32, Vec<u8>)], records: &[Record<'_>], failure: Failure| {
        assert_eq!(batch(&mut host, units, records), failure.code());
        assert!(host.read(5, UNIT, 1) == pattern(1, UNIT));
        assert_eq!(retrieve(&mut host, 2, b"key").data, b"old");
    };
    refused(std::slice::from_ref(&unit), &[new, new], Failure::INVALID_FIELD);
    refused(&[unit.clone(), unit.clone()], &[new], Failure::INVALID_FIELD);
    refused(&[(u32::MAX, unit.1.clone())], &[new], Failure::OUT_OF_RANGE);
    refused(std::slice::from_ref(&unit), &[new, (1, b"key", None)], Failure::INVALID_NAMESPACE);
    refused(std::slice::from_ref(&unit), &[new, (9, b"key", None)], Failure::INVALID_NAMESPACE);
    // a length without room for the units that it announces, and one beyond the largest transfer
    let write = |bytes: u32, units: u32| command(vendor::WRITE_BATCH, 1, [bytes, 0, units - 1, 0, 0, 0]);
    let data = batch_data(&[unit], &[new]);
    let mut code = |command: Submission| host.io.write_command(command, &data).unwrap().code;
    assert_eq!(code(write(data.len() as u32, 2)), Failure::INVALID_FIELD.code());
    assert_eq!(code(write((512 << 10) + 4, 1)), Failure::INVALID_FIELD.code());
    // records that do not fit in the bytes
    for (missing, failure) in [(8, Failure::INVALID_FIELD), (4, Failure::VALUE_SIZE)] {
        let data = &data[..data.len() - missing];
        let cut = host.io.write_command(write(data.len() as u32, 1), data).unwrap();
        assert_eq!(cut.code, failure.code());
    }
    let elsewhere = command(vendor::WRITE_BATCH, 2, [data.len() as u32, 0, 0, 0, 0, 0]);
    assert_eq!(host.io.write_command(elsewhere, &data).unwrap().code, Failure::INVALID_OPCODE.code());
    assert!(host.read(5, UNIT, 1) == pattern(1, UNIT));
    assert_eq!(retrieve(&mut host, 2, b"key").data, b"old");
}

#[test]
fn an_aborted_transaction_leaves_nothing_and_others_go_on() {
    let server = server();
    let mut host = attach(&server, Options::default());
    host.write(7, UNIT, &pattern(1, UNIT));
    let mut begin = || host.io.command(command(vendor::BEGIN, 1, [0; 6])).unwrap().result;
    let (one, other) = (begin(), begin());
    assert_ne!(one, other);
    for (transaction, seed) in [(one, 2), (other, 3)] {
        let write = with_transaction(vendor::TX_WRITE, 7, transaction);
        assert_eq!(host.io.write_command(write, &pattern(seed, UNIT)).unwrap().code, 0);
    }
    assert_eq!(host.io.command(with_transaction(vendor::ABORT, 0, one)).unwrap().code, 0);
    let unknown = Failure::UNKNOWN_TRANSACTION.code();
    assert_eq!(host.io.command(with_transaction(vendor::COMMIT, 0, one)).unwrap().code, unknown);
    let write = with_transaction(vendor::TX_WRITE, 7, one);
    assert_eq!(host.io.write_command(write, &pattern(2, UNIT)).unwrap().code, unknown);
    let read = with_transaction(vendor::TX_READ, 7, one);
    assert_eq!(host.io.read_command(read, UNIT as u32).unwrap().code, unknown);
    assert!(host.read(7, UNIT, 1) == pattern(1, UNIT));
    assert_eq!(host.io.command(with_transaction(vendor::COMMIT, 0, other)).unwrap().code, 0);
    assert!(host.read(7, UNIT, 1) == pattern(3, UNIT));
    // more of them than the drive has open at once
    let mut codes = (0..10_000).map(|_| host.io.command(command(vendor::BEGIN, 1, [0; 6])).unwrap().code);
    assert_eq!(codes.find(|code| *code != 0), Some(Failure::OVER_LIMIT.code()));
}

fn page(generation: u64, slot: u32, home: Option<u32>) -> Vec<u8> {
    let hint = Hint {
        generation: Generation(generation),
        attempt: 0,
        start: 1,
        first: slot,
        slot,
        end: true,
        home: home.map(tantalum::Lpn),
    };
    let mut data = HintedPage::new(&hint, [9; METADATA_BYTES]).as_bytes().to_vec();
    data.extend(pattern(slot.into(), UNIT));
    data
}

/// Only changes of its pages end a log: a trimmed page no longer claims its home.
#[test]
fn pages_of_a_log_follow_each_other_and_end_with_a_trim() {
    let server = server();
    let mut host = attach(&server, Options::default());
    host.write(2000, UNIT, &pattern(50, UNIT));
    host.write(2001, UNIT, &pattern(51, UNIT));
    let generation = host.io.command(command(vendor::BEGIN_LOG, 1, [0; 6])).unwrap().result;
    let write = |host: &mut Host, lpn: u32, page: &[u8]| {
        host.io.write_command(command(vendor::WRITE_HINTED, 1, [lpn, 0, 0, 0, 0, 0]), page).unwrap().code
    };
    assert_eq!(write(&mut host, 3000, &page(generation, 1, Some(2000))), 0);
    assert_eq!(write(&mut host, 3001, &page(generation, 3, Some(2001))), Failure::SLOT_OUT_OF_ORDER.code());
    assert_eq!(write(&mut host, 3001, &page(generation, 2, Some(2001))), 0);
    assert_eq!(write(&mut host, 3002, &page(generation + 1, 3, None)), Failure::UNKNOWN_LOG.code());
    assert_eq!(
        write(&mut host, 3002, &page(generation, 3, Some(u32::MAX - 1))),
        Failure::OUT_OF_RANGE.code()
    );
    assert_eq!(host.io.command(block_command(nvm::FLUSH, 0, 1)).unwrap().code, 0);
    // Dataset Management, one range, deallocate: the first page
    let mut range = [0; 16];
    range[4..8].copy_from_slice(&1_u32.to_le_bytes());
    range[8..16].copy_from_slice(&3000_u64.to_le_bytes());
    let trim = command(nvm::DATASET_MANAGEMENT, 1, [0, 4, 0, 0, 0, 0]);
    assert_eq!(host.io.write_command(trim, &range).unwrap().code, 0);
    assert_eq!(host.io.command(block_command(nvm::FLUSH, 0, 1)).unwrap().code, 0);
    let mut host = cut_and_attach(&server);
    assert!(host.read(2000, UNIT, 1) == pattern(50, UNIT), "a trimmed page claims nothing");
    assert!(host.read(2001, UNIT, 1) == pattern(2, UNIT), "the other one is home");
}

#[test]
fn shares_that_contradict_themselves_are_refused() {
    let server = server();
    let mut host = attach(&server, Options::default());
    host.write(0, UNIT, &pattern(1, 4 * UNIT));
    let mut share = |ranges: &[Range], flags: u32| {
        let share = command(vendor::SHARE, 1, [0, 0, (ranges.len() as u32 - 1) | flags, 0, 0, 0]);
        host.io.write_command(share, ranges.as_bytes()).unwrap().code
    };
    assert_eq!(share(&[Range::new(100, 0, 2), Range::new(101, 2, 1)], 0), Failure::INVALID_FIELD.code());
    assert_eq!(share(&[Range::new(1, 0, 2)], 0), Failure::INVALID_FIELD.code());
    assert_eq!(share(&[Range::new(100, 0, 0)], 0), Failure::INVALID_FIELD.code());
    assert_eq!(share(&[Range::new(u32::MAX, 0, 1)], 0), Failure::OUT_OF_RANGE.code());
    assert_eq!(share(&[Range::new(100, 0, 1_000)], 0), Failure::OVER_LIMIT.code());
    // durable by the next flush
    assert_eq!(share(&[Range::new(100, 0, 2)], 1 << 31), 0);
    assert!(host.read(100, UNIT, 2) == pattern(1, 4 * UNIT)[..2 * UNIT]);
}
