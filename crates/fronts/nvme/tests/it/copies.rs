//! Copy, also from other namespaces.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tantalum_nvme::client::{Client, Options, block_command, command};
use tantalum_nvme::wire::command::Submission;
use tantalum_nvme::wire::opcode::{admin, nvm};

use crate::common::records::server as server_with_records;
use crate::common::{EndsWhenDropped, Host, UNIT, attach, names, pattern, serve, subsystem};
use crate::namespaces::{change, create, delete, identify, on, other_host, read, try_create, write};

const INVALID: u16 = 0x002;
const SIZE: u16 = 0x183;
const INCOMPATIBLE: u16 = 0x185;
const NOT_FAST: u16 = 0x186;
const FAST_ONLY: u16 = 1 << 15;

/// A source range: its namespace and options, its first block, and how many blocks it has.
type Range = (u32, u16, u64, u32);

/// A Copy to block `to` of a namespace with ranges in this format, and its data.
fn copy(namespace: u32, to: u64, format: u32, ranges: &[Range]) -> (Submission, Vec<u8>) {
    let data = ranges.iter().flat_map(|(of, options, first, count)| {
        let mut range = [0; 32];
        range[..4].copy_from_slice(&of.to_le_bytes());
        range[8..16].copy_from_slice(&first.to_le_bytes());
        range[16..18].copy_from_slice(&((count - 1) as u16).to_le_bytes());
        range[22..24].copy_from_slice(&options.to_le_bytes());
        range
    });
    let dword = (ranges.len() as u32 - 1) & 0xff | format << 8;
    (command(nvm::COPY, namespace, [to as u32, (to >> 32) as u32, dword, 0, 0, 0]), data.collect())
}

fn code(io: &mut Client, (command, data): (Submission, Vec<u8>)) -> u16 {
    io.write_command(command, &data).unwrap().code
}

/// Enables formats of descriptors.
fn enable(admin: &mut Client, formats: u16) -> u16 {
    let mut data = [0; 512];
    data[4..6].copy_from_slice(&formats.to_le_bytes());
    admin.write_command(command(admin::SET_FEATURES, 0, [0x16, 0, 0, 0, 0, 0]), &data).unwrap().code
}

/// A host of a drive with two namespaces of 4 KiB and one of 512 bytes, each of 100 units.
fn three() -> (tantalum_nvme::server::Server, Host) {
    let server = serve(subsystem(4096));
    let mut host = attach(&server, Options::default());
    assert_eq!(delete(&mut host.admin, 1), 0);
    for (blocks, format) in [(100, 0), (100, 0), (800, 1)] {
        let number = create(&mut host.admin, blocks, format);
        assert_eq!(change(&mut host.admin, 0, number, &[host.controller]), 0);
    }
    (server, host)
}

#[test]
fn a_range_may_be_that_of_another_namespace() {
    let (server, mut host) = three();
    let formats = identify(&mut host.admin, 1, 0).data[534];
    assert_eq!(formats, 1 | 1 << 2, "OCFS");
    assert_eq!(enable(&mut host.admin, 1 << 2), 0);
    let get = command(admin::GET_FEATURES, 0, [0x16, 0, 0, 0, 0, 0]);
    assert_eq!(host.admin.read_command(get, 512).unwrap().data[4], 1 << 2);
    let io = &mut host.io;
    for block in 0..10 {
        assert_eq!(write(io, 1, block, &pattern(100 + block, UNIT)), 0);
        assert_eq!(write(io, 2, block, &pattern(200 + block, UNIT)), 0);
    }
    assert_eq!(io.command(on(nvm::FLUSH, 1, 0)).unwrap().code, 0);
    let programmed = || server.subsystem().queue.drive().lock().smart().counters.host_units_written;
    let before = programmed();
    // one from each, and a deallocated one
    assert_eq!(code(io, copy(1, 50, 2, &[(2, FAST_ONLY, 3, 2), (1, 0, 7, 1), (2, 0, 90, 1)])), 0);
    assert_eq!(programmed(), before, "units are shared");
    let expected = [pattern(203, UNIT), pattern(204, UNIT), pattern(107, UNIT), vec![0; UNIT]];
    assert_eq!([50, 51, 52, 53].map(|block| read(io, 1, block, 4096)), expected);
    // what is copied is not changed with its source
    assert_eq!(write(io, 2, 3, &pattern(9, UNIT)), 0);
    assert_eq!(read(io, 1, 50, 4096), pattern(203, UNIT));
    // format 0 names no namespace, whatever is in its place
    assert_eq!(code(io, copy(1, 60, 0, &[(2, FAST_ONLY, 3, 1)])), 0);
    assert_eq!(read(io, 1, 60, 4096), pattern(103, UNIT));
}

#[test]
fn what_cannot_be_copied_is_refused_and_changes_nothing() {
    let (server, mut host) = three();
    let there = |to, format, range| copy(1, to, format, &[range]);
    assert_eq!(code(&mut host.io, there(0, 2, (1, 0, 5, 1))), INVALID, "not enabled");
    assert_eq!((enable(&mut host.admin, 1 << 3), enable(&mut host.admin, 1 << 2)), (INVALID, 0));
    let io = &mut host.io;
    for format in [1, 3, 4, 15] {
        assert_eq!(code(io, there(0, format, (1, 0, 5, 1))), INVALID, "format {format}");
    }
    assert_eq!(write(io, 1, 0, &pattern(1, UNIT)), 0);
    for namespace in [0, 4, 99, u32::MAX] {
        assert_eq!(code(io, there(0, 2, (namespace, 0, 5, 1))), 0x00b, "namespace {namespace}");
    }
    assert_eq!(code(io, there(0, 2, (3, 0, 5, 1))), INCOMPATIBLE, "other blocks");
    assert_eq!(code(io, there(0, 2, (2, 0, 99, 2))), 0x080);
    assert_eq!(code(io, there(0, 2, (2, 0, u64::MAX, 1))), 0x080);
    assert_eq!(code(io, there(99, 2, (2, 0, 0, 2))), 0x080, "the target");
    assert_eq!(code(io, copy(1, 0, 2, &[(2, 0, 5, 1), (9, 0, 5, 1)])), 0x00b, "the second range");
    // MSRC, MSSRL, MCL
    let told = identify(&mut host.admin, 0, 1).data;
    let ranges = u32::from(told[80]) + 1;
    let io = &mut host.io;
    assert_eq!(ranges, 128);
    let (most, data) = copy(1, 0, 2, &vec![(2, 0, 5, 1); 129]);
    assert_eq!(code(io, (most, data)), SIZE);
    assert_eq!(code(io, copy(2, 0, 2, &[(1, 0, 0, 1), (1, 0, 0, 100)])), 0x080, "longer than the namespace");
    assert_eq!(read(io, 1, 0, 4096), pattern(1, UNIT), "nothing was copied");
    // data would have to be moved
    assert_eq!(code(io, copy(1, 1, 2, &[(1, FAST_ONLY, 0, 2)])), NOT_FAST, "it overlaps");
    assert_eq!(code(io, copy(1, 1, 2, &[(1, 0, 0, 2)])), 0);
    assert_eq!(code(io, copy(3, 1, 2, &[(3, FAST_ONLY, 0, 8)])), NOT_FAST, "not whole units");
    assert_eq!(code(io, copy(3, 8, 2, &[(3, FAST_ONLY, 0, 8)])), 0);
    let many = copy(3, 0, 2, &vec![(3, 0, 0, 256); 9]);
    assert_eq!(code(io, many), SIZE, "more than a MiB");
    drop(server);
    // records are no blocks
    let server = server_with_records();
    let mut host = attach(&server, Options::default());
    assert_eq!(enable(&mut host.admin, 1 << 2), 0);
    assert_eq!(code(&mut host.io, copy(1, 0, 2, &[(2, 0, 0, 1)])), INCOMPATIBLE);
}

/// The ranges of a copy arrive when the units of its source belong to a namespace of another host.
#[test]
fn a_copy_under_way_does_not_read_what_belongs_to_another_host() {
    for (target, count) in [(1, 1), (3, 3)] {
        let (server, mut host) = three();
        let mut other = other_host(&server, 9);
        let source = if target == 1 { 2 } else { create(&mut host.admin, 80, 1) };
        if source != 2 {
            assert_eq!(change(&mut host.admin, 0, source, &[host.controller]), 0);
        }
        let bytes = if target == 1 { UNIT } else { 512 };
        assert_eq!(enable(&mut host.admin, 1 << 2), 0);
        assert_eq!(write(&mut host.io, target, 1, &pattern(1, bytes)), 0);
        let slow = Options { no_capsule_data: true, ..Options::default() };
        let mut late = Client::io(server.address(), slow, &names(), host.controller, 2).unwrap();
        let (command, data) = copy(target, 1, 2, &[(source, 0, 0, count)]);
        let sent = late.submit_write(command, data).unwrap();
        assert_eq!(host.io.read_command(block_command(nvm::READ, 0, 1), 4096).unwrap().code, 0);
        thread::sleep(Duration::from_millis(50));
        // the source is gone, and another host has its units
        assert_eq!(delete(&mut host.admin, source), 0);
        let blocks = if target == 1 { 100 } else { 80 };
        let private = try_create(&mut host.admin, blocks, u8::from(target != 1), 0).unwrap().result as u32;
        assert_eq!(change(&mut host.admin, 0, private, &[other.controller]), 0);
        for block in 0..8 {
            assert_eq!(write(&mut other.io, private, block, &vec![0x5e; bytes]), 0);
        }
        let done = late.reap().unwrap();
        assert_eq!((done.id, done.code), (sent, 0x00b));
        assert_eq!(read(&mut host.io, target, 1, bytes as u32), pattern(1, bytes));
    }
}

/// A host copies from a namespace as fast as it can, which becomes that of another host again and again: nothing of that is copied.
#[test]
fn a_host_copies_nothing_from_a_namespace_that_another_one_has_now() {
    let (server, mut host) = three();
    let mut other = other_host(&server, 9);
    let is_over = AtomicBool::new(false);
    assert_eq!(delete(&mut host.admin, 2), 0);
    let (copied, refused) = thread::scope(|scope| {
        let copier = scope.spawn(|| {
            let mut host = attach(&server, Options::default());
            assert_eq!(enable(&mut host.admin, 1 << 2), 0);
            let (mut copied, mut refused) = (0_u64, 0_u64);
            while !is_over.load(Ordering::Relaxed) {
                for _ in 0..32 {
                    let (command, data) = copy(1, 0, 2, &[(2, 0, 0, 8)]);
                    host.io.submit_write(command, data).unwrap();
                }
                for _ in 0..32 {
                    match host.io.reap().unwrap().code {
                        0 => copied += 1,
                        0x00b | 0x021 | 0x084 => refused += 1,
                        code => panic!("{code:x}"),
                    }
                }
            }
            (copied, refused)
        });
        let over = EndsWhenDropped(&is_over);
        for round in 0..100 {
            assert_eq!(create(&mut host.admin, 100, 0), 2);
            let mine: Vec<u16> = (server.subsystem().io_controllers().iter())
                .filter(|controller| controller.id != other.controller)
                .map(|controller| controller.id)
                .collect();
            assert_eq!(change(&mut host.admin, 0, 2, &mine), 0);
            thread::sleep(Duration::from_millis(2));
            assert_eq!(delete(&mut host.admin, 2), 0);
            assert_eq!(try_create(&mut host.admin, 100, 0, 0).unwrap().result, 2);
            assert_eq!(change(&mut host.admin, 0, 2, &[other.controller]), 0);
            for block in 0..8 {
                assert_eq!(write(&mut other.io, 2, block, &[0x5e; UNIT]), 0);
            }
            thread::sleep(Duration::from_millis(1));
            for block in 0..8 {
                assert!(read(&mut host.io, 1, block, 4096) != [0x5e; UNIT], "round {round}, block {block}");
            }
            assert_eq!(delete(&mut host.admin, 2), 0);
        }
        drop(over);
        copier.join().unwrap()
    });
    println!("{copied} copied, {refused} refused");
    assert!(copied > 0 && refused > 0);
}
