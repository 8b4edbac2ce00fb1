//! Flexible data placement: handles of namespaces, writes with them, their status, events, and what no correct host would send.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use crate::common::{Host, UNIT, attach, cut_and_attach, pattern, serve, small, subsystem, subsystem_on};
use crate::namespaces::{change, delete, identify, on};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum::{
    Command, Device, FdpProfile, HandleCounters, Isolation, NamespaceAttributes, NamespaceId, Profile,
};
use tantalum_drive::Pacing;
use tantalum_nvme::client::{
    Client, Completed, Options, block_command, command, group_log, handle_status, handle_update, placed,
};
use tantalum_nvme::server::Server;
use tantalum_nvme::wire::command::Submission;
use tantalum_nvme::wire::opcode::{admin, nvm};

/// A drive with two planes and small blocks: of 16 pages of four units.
fn profile(handles: u32, isolation: Isolation) -> Profile {
    let mut profile = small();
    (profile.flash.channels, profile.flash.dies_per_channel, profile.flash.planes_per_die) = (2, 1, 1);
    (profile.flash.pages_per_block, profile.over_provisioning_percent) = (16, 14.0);
    profile.fdp = (handles > 0).then_some(FdpProfile { handles, isolation });
    profile
}

/// Units of a whole reclaim unit there: a block on one of the planes.
const WHOLE: u64 = 16 * 4;

fn server(handles: u32, isolation: Isolation, block_bytes: u32) -> Server {
    let device = Device::in_memory(&profile(handles, isolation)).unwrap();
    serve(subsystem_on(device, block_bytes, Pacing::None))
}

fn with_handles(block_bytes: u32) -> Server {
    server(4, Isolation::Persistently, block_bytes)
}

fn word(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn dword(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn quad(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

fn log(admin: &mut Client, page: u8, bytes: u32) -> Vec<u8> {
    let read = admin.read_command(group_log(page, 1, 0, bytes), bytes).unwrap();
    assert_eq!(read.code, 0, "log page {page:#x}");
    read.data
}

/// What each handle is used for.
fn usage(admin: &mut Client) -> Vec<u8> {
    let log = log(admin, 0x21, 8 + 4 * 8);
    assert_eq!(word(&log, 0), 4);
    log[8..].chunks(8).map(|usage| usage[0]).collect()
}

/// Host bytes, media bytes, erased bytes.
fn statistics(admin: &mut Client) -> [u64; 3] {
    let log = log(admin, 0x22, 64);
    [quad(&log, 0), quad(&log, 16), quad(&log, 32)]
}

/// An event: its type, flags, placement identifier, namespace, handle and moved blocks.
type Told = (u8, u8, u16, u32, u16, u16);

fn events(admin: &mut Client, are_of_hosts: bool) -> Vec<Told> {
    let read = admin.read_command(group_log(0x23, 1, are_of_hosts.into(), 4096), 4096).unwrap();
    assert_eq!(read.code, 0);
    let events = read.data[64..].chunks_exact(64).take(dword(&read.data, 0) as usize);
    let told = |event: &[u8]| {
        (event[0], event[1], word(event, 2), dword(event, 12), word(event, 34), word(event, 18))
    };
    events.map(told).collect()
}

/// The command that sets whether events of so many types are recorded.
fn set_events(namespace: u32, placement_handle: u16, kinds: usize, are_recorded: bool) -> Submission {
    let dword11 = u32::from(placement_handle) | (kinds as u32) << 16;
    command(admin::SET_FEATURES, namespace, [0x1e, dword11, are_recorded.into(), 0, 0, 0])
}

fn record(admin: &mut Client, namespace: u32, placement_handle: u16, kinds: &[u8]) {
    let set = set_events(namespace, placement_handle, kinds.len(), true);
    assert_eq!(admin.write_command(set, kinds).unwrap().code, 0);
}

fn write(io: &mut Client, to: Submission, data: &[u8]) -> u16 {
    io.write_command(to, data).unwrap().code
}

/// The status of a namespace's handles: the handle and the blocks that still fit.
pub fn status(io: &mut Client, namespace: u32) -> Vec<(u16, u64)> {
    let read = io.read_command(handle_status(namespace, 4096), 4096).unwrap();
    assert_eq!(read.code, 0);
    let statuses = read.data[16..].chunks_exact(32).take(word(&read.data, 14).into());
    let told = |(at, status): (usize, &[u8])| {
        assert_eq!((usize::from(word(status, 0)), dword(status, 4)), (at, 0));
        (word(status, 2), quad(status, 8))
    };
    statuses.enumerate().map(told).collect()
}

fn update(io: &mut Client, namespace: u32, identifiers: &[u16]) -> u16 {
    let data: Vec<u8> = identifiers.iter().flat_map(|identifier| identifier.to_le_bytes()).collect();
    io.write_command(handle_update(namespace, identifiers.len() as u16), &data).unwrap().code
}

fn flush(io: &mut Client) {
    assert_eq!(io.command(command(nvm::FLUSH, 1, [0; 6])).unwrap().code, 0);
}

/// The data of Namespace Management, with the number of placement handles and a list.
pub fn asked(blocks: u64, format: u8, count: u16, handles: &[u16]) -> Vec<u8> {
    let mut data = vec![0; 4096];
    data[..8].copy_from_slice(&blocks.to_le_bytes());
    data[8..16].copy_from_slice(&blocks.to_le_bytes());
    (data[26], data[30]) = (format, 1);
    data[392..394].copy_from_slice(&count.to_le_bytes());
    let list: Vec<u8> = handles.iter().flat_map(|handle| handle.to_le_bytes()).collect();
    data[512..512 + list.len()].copy_from_slice(&list);
    data
}

fn try_create(host: &mut Host, blocks: u64, format: u8, handles: &[u16]) -> Completed {
    let create = command(admin::NAMESPACE_MANAGEMENT, 0, [0; 6]);
    host.admin.write_command(create, &asked(blocks, format, handles.len() as u16, handles)).unwrap()
}

/// Creates a namespace and attaches it.
fn create(host: &mut Host, blocks: u64, handles: &[u16]) -> u32 {
    let created = try_create(host, blocks, 0, handles);
    assert_eq!(created.code, 0);
    let number = created.result as u32;
    assert_eq!(change(&mut host.admin, 0, number, &[host.controller]), 0);
    number
}

fn counters(server: &Server) -> Vec<HandleCounters> {
    server.subsystem().queue.drive().lock().handles().iter().map(|state| state.counters).collect()
}

/// Units that were written with each handle.
fn written(server: &Server) -> Vec<u64> {
    counters(server).iter().map(|counters| counters.host_units_written).collect()
}

#[test]
fn a_drive_tells_of_its_endurance_group_and_of_its_configuration() {
    for (isolation, kind) in [(Isolation::Initially, 1), (Isolation::Persistently, 2)] {
        let server = server(4, isolation, 4096);
        let mut host = attach(&server, Options::default());
        let controller = identify(&mut host.admin, 1, 0).data;
        assert_eq!(dword(&controller, 96), 1 | 1 << 4 | 1 << 6 | 1 << 19, "CTRATT");
        assert_eq!((word(&controller, 256) >> 5 & 1, word(&controller, 340)), (1, 1), "OACS, ENDGIDMAX");
        assert_eq!(word(&identify(&mut host.admin, 0, 1).data, 102), 1, "ENDGID");
        assert_eq!(word(&identify(&mut host.admin, 8, 1).data, 12), 1);
        let bytes = 16 + 64 + 4 * 4;
        let log = log(&mut host.admin, 0x20, 512);
        assert_eq!((word(&log, 0), log[2], dword(&log, 4)), (0, 0, bytes), "one configuration");
        assert_eq!((word(&log, 16), log[18]), (64 + 4 * 4, 1 << 7 | 1 << 4), "valid, with a volatile cache");
        assert_eq!((dword(&log, 20), word(&log, 24), word(&log, 26), dword(&log, 28)), (1, 4, 3, 32));
        assert_eq!((quad(&log, 32), dword(&log, 40)), (WHOLE * UNIT as u64, 0));
        assert_eq!([80, 84, 88, 92].map(|at| log[at]), [kind; 4]);
        assert!(log[bytes as usize..].iter().all(|byte| *byte == 0));
    }
}

#[test]
fn groups_are_listed_and_the_group_of_all_drives_tells_of_its_health() {
    for handles in [0, 4] {
        let server = server(handles, Isolation::Initially, 4096);
        let mut host = attach(&server, Options::default());
        let mut list = |from: u32| {
            let dwords = [0x19, from, 0, 0, 0, 0];
            let list = host.admin.read_command(command(admin::IDENTIFY, 0, dwords), 4096).unwrap().data;
            (word(&list, 0), word(&list, 2), list[4..].iter().all(|byte| *byte == 0))
        };
        assert_eq!(
            [0, 1, 2, 0xffff].map(&mut list),
            [(1, 1, true), (1, 1, true), (0, 0, true), (0, 0, true)]
        );
        let data = pattern(1, 16 * UNIT);
        for first in 0..100 {
            assert_eq!(write(&mut host.io, block_command(nvm::WRITE, first * 16, 16), &data), 0);
        }
        let log = log(&mut host.admin, 0x09, 512);
        assert_eq!((log[0], log[1], log[3], log[4]), (0, 0, 100, 10), "nothing rotates; spare");
        assert_eq!((quad(&log, 48), quad(&log, 64), quad(&log, 80)), (0, 1, 1), "billions of bytes");
        let flash = profile(handles, Isolation::Initially).geometry().unwrap();
        let bytes = u64::from(flash.blocks()) * u64::from(flash.units_per_block()) * UNIT as u64;
        let cycles = u64::from(small().flash.endurance_cycles);
        assert_eq!(quad(&log, 32), (bytes * cycles).div_ceil(1_000_000_000));
        assert_eq!((quad(&log, 112), quad(&log, 160), quad(&log, 176)), (100, 64 << 20, 0));
        for group in [0, 2, 0xffff] {
            let read = host.admin.read_command(group_log(0x09, group, 0, 512), 512).unwrap();
            assert_eq!(read.code, 0x002, "group {group}");
        }
    }
}

#[test]
fn a_drive_without_handles_knows_nothing_of_placement() {
    let server = serve(subsystem(4096));
    let mut host = attach(&server, Options::default());
    let controller = identify(&mut host.admin, 1, 0).data;
    assert_eq!((dword(&controller, 96) >> 19 & 1, word(&controller, 256) >> 5 & 1), (0, 0));
    for page in 0x20..0x24 {
        let read = host.admin.read_command(group_log(page, 1, 0, 64), 64).unwrap();
        assert_eq!(read.code, 0x109, "Invalid Log Page");
    }
    for feature in [0x1d, 0x1e] {
        let get = command(admin::GET_FEATURES, 1, [feature, 1 | 1 << 16, 0, 0, 0, 0]);
        assert_eq!(host.admin.read_command(get, 2).unwrap().code, 0x002);
        let set = command(admin::SET_FEATURES, 1, [feature, 1 | 1 << 16, 1, 0, 0, 0]);
        assert_eq!(host.admin.write_command(set, &[0]).unwrap().code, 0x002);
    }
    for opcode in [admin::DIRECTIVE_SEND, admin::DIRECTIVE_RECEIVE] {
        let directive = command(opcode, 1, [1023, 1, 0, 0, 0, 0]);
        assert_eq!(host.admin.read_command(directive, 4096).unwrap().code, 0x001);
    }
    let io = &mut host.io;
    assert_eq!(write(io, placed(block_command(nvm::WRITE, 0, 1), 0), &[1; UNIT]), 0x002);
    assert_eq!(io.command(placed(block_command(nvm::WRITE_ZEROES, 0, 1), 0)).unwrap().code, 0x002);
    assert_eq!(io.read_command(handle_status(1, 4096), 4096).unwrap().code, 0x001);
    assert_eq!(update(io, 1, &[0]), 0x001);
    assert_eq!(delete(&mut host.admin, 1), 0);
    assert_eq!(try_create(&mut host, 100, 0, &[]).code, 0);
    let create = command(admin::NAMESPACE_MANAGEMENT, 0, [0; 6]);
    let with_handles = host.admin.write_command(create, &asked(100, 0, u16::MAX, &[0, 0, 9])).unwrap();
    assert_eq!(with_handles.code, 0, "placement handles are ignored");
}

/// The profile decides, so nothing can be changed.
#[test]
fn placement_is_enabled_and_cannot_be_changed_least_of_all_with_namespaces() {
    let server = with_handles(4096);
    let mut host = attach(&server, Options::default());
    let get = |admin: &mut Client, selection: u32, group: u32| {
        let got = admin.command(command(admin::GET_FEATURES, 0, [0x1d | selection << 8, group, 0, 0, 0, 0]));
        let got = got.unwrap();
        (got.code, got.result)
    };
    assert_eq!(
        [0, 1, 2, 3].map(|selection| get(&mut host.admin, selection, 1)),
        [(0, 1), (0, 1), (0, 1), (0, 1)],
        "and it can be saved, as it always is"
    );
    assert_eq!([0, 2, 0xffff].map(|group| get(&mut host.admin, 0, group)), [(2, 0); 3]);
    let set = |admin: &mut Client, namespace: u32, group: u32, value: u32| {
        let set = command(admin::SET_FEATURES, namespace, [0x1d, group, value, 0, 0, 0]);
        admin.command(set).unwrap().code
    };
    let values = [1, 0, 1 | 1 << 8];
    assert_eq!(
        values.map(|value| set(&mut host.admin, 0, 1, value)),
        [0, 0x00c, 0x00c],
        "as it is; Command Sequence Error"
    );
    let saved = command(admin::SET_FEATURES, 0, [0x1d | 1 << 31, 1, 1, 0, 0, 0]);
    assert_eq!(host.admin.command(saved).unwrap().code, 0, "as nvme-cli sends it");
    assert_eq!(set(&mut host.admin, 1, 1, 1), 0x10f, "Feature Not Namespace Specific");
    assert_eq!(delete(&mut host.admin, 1), 0);
    assert_eq!(set(&mut host.admin, 0, 1, 1), 0, "as it is");
    assert_eq!(set(&mut host.admin, 0, 1, 1 | 1 << 8), 0x002, "no such configuration");
    assert_eq!(set(&mut host.admin, 0, 1, 0), 0x10e, "Feature Not Changeable");
    assert_eq!(set(&mut host.admin, 0, 2, 1), 0x002);
}

#[test]
fn the_directive_of_data_placement_is_enabled_for_good() {
    let server = with_handles(4096);
    let mut host = attach(&server, Options::default());
    let mut receive = |namespace: u32, bytes: u32, dword11: u32| {
        let receive = command(admin::DIRECTIVE_RECEIVE, namespace, [bytes / 4 - 1, dword11, 0, 0, 0, 0]);
        host.admin.read_command(receive, bytes).unwrap()
    };
    let told = receive(1, 4096, 1).data;
    assert_eq!((told.len(), told[0], told[32], told[64]), (4096, 1 | 1 << 2, 1 | 1 << 2, 1 << 2));
    assert_eq!(told.iter().filter(|byte| **byte != 0).count(), 3);
    assert_eq!(receive(1, 8, 1).data, told[..8]);
    assert_eq!(receive(1, 8192, 1).data[4096..], [0; 4096]);
    assert_eq!(receive(u32::MAX, 4096, 1).code, 0x002);
    assert_eq!((receive(0, 4096, 1).code, receive(9, 4096, 1).code), (0x00b, 0x00b));
    for dword11 in [0, 2, 1 | 1 << 8, 1 | 2 << 8, 0xffff] {
        assert_eq!(receive(1, 4096, dword11).code, 0x002, "{dword11:#x}");
    }
    let mut send = |namespace: u32, dword11: u32, dword12: u32| {
        let send = command(admin::DIRECTIVE_SEND, namespace, [0, dword11, dword12, 0, 0, 0]);
        host.admin.command(send).unwrap().code
    };
    assert_eq!(send(1, 1, 1 | 2 << 8), 0);
    assert_eq!(send(1, 1, 2 << 8), 0x002, "it cannot be disabled");
    assert_eq!(send(u32::MAX, 1, 1 | 2 << 8), 0x00b);
    for (dword11, dword12) in [(1, 1), (1, 1 | 1 << 8), (1 | 2 << 8, 1), (0, 1 | 2 << 8), (2, 1 | 2 << 8)] {
        assert_eq!(send(1, dword11, dword12), 0x002, "{dword11:#x}, {dword12:#x}");
    }
}

#[test]
fn data_are_placed_with_the_handle_that_a_write_names() {
    let server = with_handles(4096);
    let mut host = attach(&server, Options::default());
    let io = &mut host.io;
    assert_eq!(usage(&mut host.admin), [1; 4], "namespace 1 has all");
    for identifier in 0..4 {
        let to = placed(block_command(nvm::WRITE, u64::from(identifier) * 16, 4), identifier);
        assert_eq!(write(io, to, &pattern(identifier.into(), 4 * UNIT)), 0);
    }
    assert_eq!(write(io, block_command(nvm::WRITE, 100, 3), &pattern(9, 3 * UNIT)), 0);
    assert_eq!(written(&server), [7, 4, 4, 4]);
    // a directive that there is not
    for kind in [1, 3, 15] {
        let mut to = block_command(nvm::WRITE, 0, 1);
        to.dword10[2] = (kind << 20).into();
        assert_eq!(write(io, to, &[1; UNIT]), 0x002, "directive {kind}");
    }
    flush(io);
    assert_eq!(
        counters(&server).iter().map(|counters| counters.flash_host_units).collect::<Vec<_>>(),
        [7, 4, 4, 4]
    );
    let [host_bytes, media_bytes, _] = statistics(&mut host.admin);
    assert!(host_bytes == 19 * UNIT as u64 && media_bytes >= host_bytes, "{host_bytes}, {media_bytes}");
    assert!(host.read(48, UNIT, 4) == pattern(3, 4 * UNIT));
    server.subsystem().queue.drive().lock().audit();
}

/// What is written in part is placed as a whole, and so is a copy that names a handle.
#[test]
fn parts_of_units_zeroes_and_copies_are_placed() {
    let server = with_handles(512);
    let mut host = attach(&server, Options::default());
    let io = &mut host.io;
    assert_eq!(write(io, placed(block_command(nvm::WRITE, 3, 2), 2), &pattern(1, 1024)), 0);
    assert_eq!(written(&server), [0, 0, 1, 0]);
    // the second half of unit 0, unit 1, and the first half of unit 2
    assert_eq!(write(io, block_command(nvm::WRITE, 0, 24), &pattern(2, 24 * 512)), 0);
    assert_eq!(io.command(placed(block_command(nvm::WRITE_ZEROES, 4, 16), 3)).unwrap().code, 0);
    assert_eq!(written(&server), [3, 0, 1, 2], "two edges");
    let mut copy = |to: u64, identifier: Option<u16>| {
        let mut range = vec![0; 32];
        range[16] = 15;
        let copy = command(nvm::COPY, 1, [to as u32, 0, 0, 0, 0, 0]);
        let copy = identifier.map_or(copy, |identifier| placed(copy, identifier));
        io.write_command(copy, &range).unwrap().code
    };
    assert_eq!(copy(800, None), 0);
    assert_eq!(written(&server), [3, 0, 1, 2], "shared");
    assert_eq!(copy(1600, Some(1)), 0);
    assert_eq!(written(&server), [3, 2, 1, 2], "copied");
    let expected = [&pattern(2, 24 * 512)[..2048], &[0; 6144][..]].concat();
    for block in [0, 800, 1600] {
        assert!(host.read(block, 512, 16) == expected, "block {block}");
    }
}

#[test]
fn an_identifier_that_the_namespace_does_not_have_is_told_and_the_first_handle_taken() {
    let server = with_handles(4096);
    let mut host = attach(&server, Options::default());
    assert_eq!(delete(&mut host.admin, 1), 0);
    let number = create(&mut host, 1000, &[2, 1]);
    let identifiers = [2, 3, 0x8000, u16::MAX];
    let unknown = |identifier: u16| placed(on(nvm::WRITE, number, 5), identifier);
    for identifier in identifiers {
        assert_eq!(write(&mut host.io, unknown(identifier), &[7; UNIT]), 0);
    }
    assert_eq!(written(&server), [0, 0, 4, 0]);
    assert!(events(&mut host.admin, true).is_empty(), "nobody asked for them");
    // asked for with the other handle
    record(&mut host.admin, number, 1, &[3]);
    assert_eq!(write(&mut host.io, unknown(5), &[7; UNIT]), 0);
    assert!(events(&mut host.admin, true).is_empty());
    record(&mut host.admin, number, 0, &[3]);
    for identifier in identifiers {
        assert_eq!(write(&mut host.io, unknown(identifier), &[7; UNIT]), 0);
    }
    assert_eq!(host.io.command(placed(on(nvm::WRITE_ZEROES, number, 0), 9)).unwrap().code, 0);
    let expected = [2, 3, 0x8000, u16::MAX, 9].map(|identifier| (3, 7, identifier, number, 2, 0));
    assert_eq!(events(&mut host.admin, true), expected);
    assert!(events(&mut host.admin, false).is_empty());
}

/// Every command of other hosts waited until it was done.
#[test]
fn a_long_format_keeps_nobody_from_other_namespaces() {
    let fdp = Some(FdpProfile { handles: 4, isolation: Isolation::Persistently });
    let device = Device::in_memory(&Profile { capacity_bytes: 8 << 30, fdp, ..small() }).unwrap();
    let server = serve(subsystem_on(device, 4096, Pacing::None));
    let mut host = attach(&server, Options::default());
    assert_eq!(delete(&mut host.admin, 1), 0);
    let long = create(&mut host, 2_000_000, &[1]);
    let other = create(&mut host, 1000, &[2]);
    let mut admin = attach(&server, Options::default()).admin;
    // one that was under way when it began is refused as well
    let (mut most, mut rounds) = (0, 0);
    while most < 3 {
        rounds += 1;
        assert!(rounds < 100, "at most {most} commands were refused in one of {rounds} formats");
        let mut meanwhile = 0;
        let format = admin.submit(command(admin::FORMAT, long, [0; 6]), Vec::new(), 0).unwrap();
        let is_done = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                let done = admin.reap().unwrap();
                is_done.store(true, Ordering::Relaxed);
                assert_eq!((done.id, done.code), (format, 0));
            });
            while !is_done.load(Ordering::Relaxed) {
                // which has only begun if it is refused
                let code = write(&mut host.io, on(nvm::WRITE, long, 0), &[1; UNIT]);
                assert!([0, 0x084].contains(&code), "{code:#x}");
                assert_eq!(write(&mut host.io, placed(on(nvm::WRITE, other, 0), 9), &[1; UNIT]), 0);
                meanwhile += u32::from(code == 0x084);
            }
        });
        assert_eq!(identify(&mut host.admin, 0, long).data[..8], 2_000_000_u64.to_le_bytes());
        most = most.max(meanwhile);
    }
    println!("{most} commands were refused in one of {rounds} formats");
}

/// Records, and vendor commands of any namespace, are written with the first handle.
#[test]
fn an_event_of_the_first_handle_is_of_a_namespace_only_if_there_is_no_other() {
    for has_records in [false, true] {
        let device = if has_records {
            with_records(4)
        } else {
            Device::in_memory(&profile(4, Isolation::Persistently)).unwrap()
        };
        let server = serve(subsystem_on(device, 4096, Pacing::None));
        let mut host = attach(&server, Options::default());
        record(&mut host.admin, 1, 0, &[0x81]);
        for first in 0..WHOLE {
            assert_eq!(write(&mut host.io, block_command(nvm::WRITE, first, 1), &[1; UNIT]), 0);
        }
        flush(&mut host.io);
        let told = if has_records { (0x81, 4, 0, 0, 0, 0) } else { (0x81, 7, 0, 1, 0, 0) };
        assert_eq!(events(&mut host.admin, false), [told]);
    }
}

/// A drive with so many handles and a key-value namespace.
fn with_records(handles: u32) -> Device {
    let mut device = Device::in_memory(&profile(handles, Isolation::Persistently)).unwrap();
    let (attributes, at_ns) = (NamespaceAttributes::default(), device.time_ns());
    let namespace = &mut NamespaceId::default();
    device.submit(Command::CreateNamespace { attributes, namespace }, at_ns).unwrap();
    device
}

#[test]
fn namespaces_with_records_are_in_no_group_in_which_data_are_placed() {
    for (handles, group) in [(0, 1), (4, 0)] {
        let server = serve(subsystem_on(with_records(handles), 4096, Pacing::None));
        let mut host = attach(&server, Options::default());
        let common = identify(&mut host.admin, 8, 2).data;
        let of_set = command(admin::IDENTIFY, 2, [5, 1 << 24, 0, 0, 0, 0]);
        let of_set = host.admin.read_command(of_set, 4096).unwrap();
        assert_eq!(of_set.code, 0);
        assert_eq!((word(&common, 12), word(&of_set.data, 46)), (group, group), "{handles} handles");
        assert_eq!(word(&identify(&mut host.admin, 8, 1).data, 12), 1);
    }
}

/// (NVM 1.1, section 4.1.4.6)
#[test]
fn bytes_of_hosts_are_those_of_all_commands_that_change_blocks() {
    let server = with_handles(512);
    let mut host = attach(&server, Options::default());
    let mut bytes = 0;
    let mut expect = |host: &mut Host, units: u64, what: &str| {
        bytes += units * UNIT as u64;
        assert_eq!(statistics(&mut host.admin)[0], bytes, "{what}");
    };
    assert_eq!(write(&mut host.io, block_command(nvm::WRITE, 0, 24), &pattern(2, 24 * 512)), 0);
    expect(&mut host, 3, "Write");
    assert_eq!(host.io.command(block_command(nvm::WRITE_ZEROES, 4, 16)).unwrap().code, 0);
    expect(&mut host, 3, "Write Zeroes, of two units in part");
    let mut range = vec![0; 32];
    range[16] = 31;
    let copy = command(nvm::COPY, 1, [800, 0, 0, 0, 0, 0]);
    assert_eq!(host.io.write_command(copy, &range).unwrap().code, 0);
    expect(&mut host, 4, "Copy, which shares three units");
    assert_eq!(host.io.command(block_command(nvm::WRITE_UNCORRECTABLE, 7, 2)).unwrap().code, 0);
    expect(&mut host, 2, "Write Uncorrectable");
    assert_eq!(host.io.read_command(block_command(nvm::READ, 800, 8), 4096).unwrap().code, 0);
    expect(&mut host, 0, "Read");
}

#[test]
fn what_is_unallocated_is_the_sum_of_all_gaps_of_the_group_and_the_largest_for_a_namespace() {
    let server = with_handles(4096);
    let mut host = attach(&server, Options::default());
    let units = server.subsystem().queue.drive().lock().limits().capacity_units;
    assert_eq!(delete(&mut host.admin, 1), 0);
    let numbers = [1000, 100, 2000].map(|blocks| create(&mut host, blocks, &[0]));
    create(&mut host, units - 3100, &[0]);
    assert_eq!((delete(&mut host.admin, numbers[0]), delete(&mut host.admin, numbers[2])), (0, 0));
    let unallocated = |units: u64| units * UNIT as u64;
    assert_eq!(quad(&log(&mut host.admin, 0x09, 512), 176), unallocated(3000), "UEGCAP");
    assert_eq!(quad(&identify(&mut host.admin, 1, 0).data, 296), unallocated(2000), "UNVMCAP");
    assert_eq!(try_create(&mut host, 2001, 0, &[0]).code, 0x115);
    assert_eq!(try_create(&mut host, 2000, 0, &[0]).code, 0);
}

#[test]
fn namespaces_have_the_handles_with_which_they_were_created() {
    let server = with_handles(4096);
    let mut host = attach(&server, Options::default());
    assert_eq!(delete(&mut host.admin, 1), 0);
    assert_eq!(usage(&mut host.admin), [0; 4]);
    for list in [&[4][..], &[0, 0], &[0, 1, 2, 3, 0], &[0xff00], &[0, 65535]] {
        assert_eq!(
            try_create(&mut host, 100, 0, list).code,
            0x02a,
            "Invalid Placement Handle List: {list:?}"
        );
    }
    for count in [129, u16::MAX] {
        let create = command(admin::NAMESPACE_MANAGEMENT, 0, [0; 6]);
        let data = asked(100, 0, count, &[0, 1, 2, 3]);
        assert_eq!(host.admin.write_command(create, &data).unwrap().code, 0x02a, "{count} handles");
    }
    let first = create(&mut host, 1000, &[3, 1]);
    let (chosen, other) = (create(&mut host, 1000, &[]), create(&mut host, 1000, &[]));
    let shares = create(&mut host, 1000, &[1]);
    assert_eq!(usage(&mut host.admin), [2, 1, 0, 1]);
    assert_eq!(try_create(&mut host, 100, 0, &[0]).code, 0x02a, "the drive has chosen it for others");
    assert_eq!(try_create(&mut host, 800, 1, &[1]).code, 0x10a, "Invalid Format: shared with larger blocks");
    let format = |number: u32, format: u32| command(admin::FORMAT, number, [format, 0, 0, 0, 0, 0]);
    assert_eq!(host.admin.command(format(shares, 1)).unwrap().code, 0x10a);
    let check = |server: &Server, host: &mut Host| {
        let handles = |io: &mut Client, number: u32| -> Vec<u16> {
            status(io, number).into_iter().map(|(handle, _)| handle).collect()
        };
        assert_eq!(handles(&mut host.io, first), [3, 1]);
        assert_eq!([chosen, other, shares].map(|number| handles(&mut host.io, number)), [[0], [0], [1]]);
        let before = written(server);
        assert_eq!(write(&mut host.io, placed(on(nvm::WRITE, first, 0), 1), &[1; UNIT]), 0);
        assert_eq!(write(&mut host.io, on(nvm::WRITE, first, 1), &[1; UNIT]), 0);
        assert_eq!(write(&mut host.io, on(nvm::WRITE, chosen, 1), &[1; UNIT]), 0);
        let since = written(server).into_iter().zip(before).map(|(now, before)| now - before);
        assert_eq!(since.collect::<Vec<_>>(), [1, 1, 0, 1]);
    };
    check(&server, &mut host);
    let mut host = cut_and_attach(&server);
    check(&server, &mut host);
    // all of them together
    assert_eq!(host.admin.command(format(u32::MAX, 1)).unwrap().code, 0);
    assert_eq!(delete(&mut host.admin, u32::MAX), 0);
    assert_eq!(usage(&mut host.admin), [0; 4]);
}

/// What is in the image is as it was when it is served again, and nothing is left of it where it was damaged.
#[test]
fn handles_and_recorded_events_are_stored() {
    let server = with_handles(4096);
    let mut host = attach(&server, Options::default());
    assert_eq!(delete(&mut host.admin, 1), 0);
    let number = create(&mut host, 1000, &[2, 3]);
    record(&mut host.admin, number, 1, &[0, 3]);
    let recorded = |host: &mut Host, placement_handle: u32| {
        let get = command(admin::GET_FEATURES, number, [0x1e, placement_handle | 4 << 16, 0, 0, 0, 0]);
        let got = host.admin.read_command(get, 8).unwrap();
        assert_eq!((got.code, got.result), (0, 4));
        got.data
    };
    let capabilities = command(admin::GET_FEATURES, number, [0x31e, 1 | 4 << 16, 0, 0, 0, 0]);
    assert_eq!(host.admin.command(capabilities).unwrap().result, 7, "saved, of a namespace, changeable");
    let (no, yes) = ([0, 0, 2, 0, 3, 0, 0x81, 0], [0, 1, 2, 0, 3, 1, 0x81, 0]);
    let mut saved = set_events(number, 0, 1, false);
    saved.dword10[0] = (0x1e | 1 << 31).into();
    assert_eq!(host.admin.write_command(saved, &[0]).unwrap().code, 0);
    assert_eq!((recorded(&mut host, 0), recorded(&mut host, 1)), (no.to_vec(), yes.to_vec()));
    let mut host = cut_and_attach(&server);
    assert_eq!((recorded(&mut host, 0), recorded(&mut host, 1)), (no.to_vec(), yes.to_vec()));
    let default = command(admin::GET_FEATURES, number, [0x11e, 1 | 4 << 16, 0, 0, 0, 0]);
    assert_eq!(host.admin.read_command(default, 8).unwrap().data, no);
    let saved = command(admin::GET_FEATURES, number, [0x21e, 1 | 4 << 16, 0, 0, 0, 0]);
    assert_eq!(host.admin.read_command(saved, 8).unwrap().data, yes);
}

#[test]
fn events_are_recorded_from_when_a_host_asks_until_it_does_not() {
    let server = with_handles(4096);
    let mut host = attach(&server, Options::default());
    let (admin, io) = (&mut host.admin, &mut host.io);
    let fill = |io: &mut Client, identifier: u16| {
        for first in (0..WHOLE).step_by(32) {
            let to = placed(block_command(nvm::WRITE, first, 32), identifier);
            assert_eq!(write(io, to, &pattern(first, 32 * UNIT)), 0);
        }
        flush(io);
    };
    fill(io, 1);
    record(admin, 1, 1, &[0x81, 0]);
    assert!(events(admin, false).is_empty(), "that was before");
    fill(io, 1);
    fill(io, 2);
    let filled = (0x81, 7, 1, 1, 1, 0);
    assert_eq!(events(admin, false), [filled]);
    // reading them leaves them there
    assert_eq!((events(admin, false), events(admin, true)), (vec![filled], vec![]));
    assert_eq!(write(io, placed(block_command(nvm::WRITE, 0, 4), 1), &pattern(1, 4 * UNIT)), 0);
    assert_eq!(update(io, 1, &[1, 2]), 0);
    assert_eq!(events(admin, true), [(0, 7, 1, 1, 1, 0)]);
    assert_eq!(admin.write_command(set_events(1, 1, 1, false), &[0x81]).unwrap().code, 0);
    fill(io, 1);
    assert_eq!(events(admin, false), [filled], "no more");
    // a reset is told to whoever asked, and ends the log
    record(admin, 1, 0, &[2]);
    let mut host = cut_and_attach(&server);
    assert_eq!(
        (events(&mut host.admin, true), events(&mut host.admin, false)),
        (vec![(2, 0, 0, 0, 0, 0)], vec![])
    );
}

#[test]
fn an_event_is_of_the_namespace_that_had_the_handle_then() {
    let server = with_handles(4096);
    let mut host = attach(&server, Options::default());
    assert_eq!(delete(&mut host.admin, 1), 0);
    let (other, gone) = (create(&mut host, 1000, &[0]), create(&mut host, 1000, &[1]));
    record(&mut host.admin, gone, 0, &[0x81]);
    for first in 0..WHOLE {
        assert_eq!(write(&mut host.io, on(nvm::WRITE, gone, first), &[1; UNIT]), 0);
    }
    assert_eq!(host.io.command(command(nvm::FLUSH, other, [0; 6])).unwrap().code, 0);
    assert_eq!(delete(&mut host.admin, gone), 0);
    create(&mut host, 1000, &[2]);
    create(&mut host, 1000, &[1]);
    assert_eq!(events(&mut host.admin, false), [(0x81, 7, 0, gone, 1, 0)]);
}

#[test]
fn what_is_moved_is_told_if_handles_are_isolated_at_first_only() {
    let (at_first, always) = (Isolation::Initially, Isolation::Persistently);
    for (isolation, per_unit, is_told) in [(at_first, 1, true), (at_first, 8, true), (always, 1, false)] {
        let server = server(4, isolation, UNIT as u32 / per_unit);
        let mut host = attach(&server, Options::default());
        let kinds: &[u8] = if is_told { &[0x80, 0x81] } else { &[0x81] };
        record(&mut host.admin, 1, 3, kinds);
        let moved = host.admin.write_command(set_events(1, 3, 1, true), &[0x80]).unwrap();
        assert_eq!(moved.code, if is_told { 0 } else { 0x002 });
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        let units = server.subsystem().queue.drive().lock().limits().capacity_units;
        for first in (0..units).chain((0..2 * units).map(|_| random.random_range(0..units))) {
            let to = placed(block_command(nvm::WRITE, first * u64::from(per_unit), per_unit), 3);
            assert_eq!(write(&mut host.io, to, &[1; UNIT]), 0);
        }
        assert!(counters(&server)[3].flash_copies > 100);
        let told = events(&mut host.admin, false);
        assert_eq!(told.len(), 63, "as many as there is room for");
        let moved: Vec<u16> = told.iter().filter(|event| event.0 == 0x80).map(|event| event.5).collect();
        assert_eq!(!moved.is_empty(), is_told, "{moved:?} blocks");
        assert!(moved.iter().all(|blocks| *blocks > 0 && u32::from(*blocks) % per_unit == 0), "{moved:?}");
    }
}

/// Events have the time of the controller that reads them, less what has passed on the drive since.
#[test]
fn events_have_a_time() {
    let mut profile = profile(4, Isolation::Persistently);
    // a quarter of an hour for each page
    profile.flash.program_ns = 900_000_000_000;
    let server = serve(subsystem_on(Device::in_memory(&profile).unwrap(), 4096, Pacing::None));
    let drive_ms = || server.subsystem().queue.drive().lock().time_ns() / 1_000_000;
    let mut host = attach(&server, Options::default());
    record(&mut host.admin, 1, 0, &[3]);
    let unknown = |host: &mut Host| {
        let write = placed(block_command(nvm::WRITE, 0, 1), 99);
        assert_eq!(host.io.write_command(write, &[1; UNIT]).unwrap().code, 0);
        let at_ms = drive_ms();
        flush(&mut host.io);
        at_ms
    };
    let times = |host: &mut Host| -> [(u64, u8); 2] {
        let log = host.admin.read_command(group_log(0x23, 1, 1, 192), 192).unwrap().data;
        [64, 128].map(|at| (quad(&log, at + 4) & 0xffff_ffff_ffff, log[at + 10]))
    };
    let at_ms = [unknown(&mut host), unknown(&mut host)];
    assert_eq!(times(&mut host), [(0, 0); 2], "before the controller was made");
    let (now, begun) = (1_800_000_000_000_u64, Instant::now());
    let set = command(admin::SET_FEATURES, 0, [0x0e, 0, 0, 0, 0, 0]);
    assert_eq!(host.admin.write_command(set, &now.to_le_bytes()).unwrap().code, 0);
    let since_ms = at_ms.map(|at_ms| drive_ms() - at_ms);
    assert!(since_ms[1] >= 900_000 && since_ms[0] >= since_ms[1] + 900_000, "{since_ms:?}");
    let told = times(&mut host);
    let passed_ms = begun.elapsed().as_millis() as u64 + 2;
    for ((told_ms, origin), since_ms) in told.into_iter().zip(since_ms) {
        let expected = now - since_ms - 1..=now - since_ms + passed_ms;
        assert!(expected.contains(&told_ms) && origin == 2, "{told_ms} of {expected:?}, {origin}");
    }
}

#[test]
fn a_status_tells_what_fits_and_an_update_begins_the_next_reclaim_unit() {
    for (block_bytes, per_unit) in [(4096, 1), (512, 8)] {
        let server = with_handles(block_bytes);
        let mut host = attach(&server, Options::default());
        let io = &mut host.io;
        let whole = WHOLE * per_unit;
        let of = |handles: [u64; 4]| -> Vec<(u16, u64)> { (0..4).zip(handles).collect() };
        assert_eq!(status(io, 1), of([whole; 4]));
        let to = placed(block_command(nvm::WRITE, 0, 8 * per_unit as u32), 2);
        assert_eq!(write(io, to, &pattern(1, 8 * UNIT)), 0);
        let after = whole - 8 * per_unit;
        assert_eq!(status(io, 1), of([whole, whole, after, whole]), "it waits in the cache");
        flush(io);
        assert_eq!(status(io, 1), of([whole, whole, after, whole]));
        assert_eq!(update(io, 1, &[2, 0]), 0);
        assert_eq!(status(io, 1), of([whole; 4]));
        let read =
            |io: &mut Client, bytes: u32| io.read_command(handle_status(1, bytes), bytes).unwrap().data;
        let all = read(io, 16 + 4 * 32);
        assert_eq!((read(io, 20), read(io, 4)), (all[..20].to_vec(), all[..4].to_vec()));
        assert_eq!(read(io, 8192)[16 + 4 * 32..], [0; 8192 - 16 - 4 * 32]);
    }
}

#[test]
fn hostile_fields_of_management_are_refused_and_change_nothing() {
    let server = with_handles(4096);
    let mut host = attach(&server, Options::default());
    assert_eq!(delete(&mut host.admin, 1), 0);
    let (own, others) = (create(&mut host, 1000, &[2, 1]), create(&mut host, 1000, &[0]));
    let detached = try_create(&mut host, 1000, 0, &[3]).result as u32;
    let io = &mut host.io;
    assert_eq!(write(io, placed(on(nvm::WRITE, own, 0), 1), &[1; UNIT]), 0);
    assert_eq!(write(io, on(nvm::WRITE, others, 0), &[1; UNIT]), 0);
    flush(io);
    let before = (status(io, own), status(io, others));
    // identifiers of no handle, the drive's numbers of handles, and one after those that are right
    for identifiers in [&[2][..], &[3], &[0xffff], &[0x8000, 0], &[1, 0, 2], &[1, 1, 1, 9]] {
        assert_eq!(update(io, own, identifiers), 0x002, "{identifiers:?}");
    }
    assert_eq!(update(io, own, &[0; 5]), 0x002, "more than the drive has handles");
    assert_eq!(update(io, own, &[0; 2000]), 0x002);
    for namespace in [0, detached, 99, u32::MAX] {
        assert_eq!(update(io, namespace, &[0]), 0x00b, "namespace {namespace}");
        assert_eq!(io.read_command(handle_status(namespace, 64), 64).unwrap().code, 0x00b);
    }
    for operation in [2, 0x80, 0xff] {
        let receive = command(nvm::IO_MANAGEMENT_RECEIVE, own, [operation, 15, 0, 0, 0, 0]);
        assert_eq!(io.read_command(receive, 64).unwrap().code, 0x002, "operation {operation:#x}");
        let send = command(nvm::IO_MANAGEMENT_SEND, own, [operation, 0, 0, 0, 0, 0]);
        assert_eq!(io.write_command(send, &[0; 2]).unwrap().code, 0x002);
    }
    let receive = |dwords: u32| command(nvm::IO_MANAGEMENT_RECEIVE, own, [1, dwords, 0, 0, 0, 0]);
    for dwords in [u32::MAX, 1 << 17, u32::MAX / 4] {
        assert_eq!(io.read_command(receive(dwords), 64).unwrap().code, 0x002, "{dwords} dwords");
    }
    assert_eq!(io.read_command(receive(99), 64).unwrap().code, 0x00f, "a pointer to less than it asks for");
    assert_eq!(io.write_command(handle_update(own, 4), &[0; 4]).unwrap().code, 0x00f);
    for opcode in [nvm::IO_MANAGEMENT_RECEIVE, nvm::IO_MANAGEMENT_SEND] {
        assert_eq!(io.command(command(opcode, own, [0; 6])).unwrap().code, 0, "no operation");
    }
    assert_eq!((status(io, own), status(io, others)), before);
}

#[test]
fn hostile_fields_of_log_pages_and_features_are_refused() {
    let server = with_handles(4096);
    let mut host = attach(&server, Options::default());
    let admin = &mut host.admin;
    for page in 0x20..0x24 {
        for group in [0, 2, 0x100, 0xffff] {
            let read = admin.read_command(group_log(page, group, 0, 64), 64).unwrap();
            assert_eq!(read.code, 0x002, "page {page:#x} of group {group}");
        }
        let mut at = |offset: u64, bytes: u32| {
            let mut read = group_log(page, 1, 0, bytes);
            (read.dword10[2], read.dword10[3]) = ((offset as u32).into(), ((offset >> 32) as u32).into());
            let read = admin.read_command(read, bytes).unwrap();
            (read.code, read.data)
        };
        let whole = at(0, 8192).1;
        assert_eq!((at(8, 8).1, at(0, 4).1), (whole[8..16].to_vec(), whole[..4].to_vec()));
        for offset in [2, 8192, u64::MAX, u64::MAX - 3, 1 << 32] {
            assert_eq!(at(offset, 8).0, 0x002, "page {page:#x} from {offset}");
        }
    }
    let get =
        |namespace: u32, dword11: u32| command(admin::GET_FEATURES, namespace, [0x1e, dword11, 0, 0, 0, 0]);
    for (namespace, code) in [(0, 0x00b), (u32::MAX, 0x00b), (9, 0x00b), (1, 0)] {
        assert_eq!(admin.read_command(get(namespace, 1 | 1 << 16), 2).unwrap().code, code, "{namespace}");
    }
    assert_eq!(admin.read_command(get(1, 4 | 1 << 16), 2).unwrap().code, 0x002, "no such placement handle");
    assert_eq!(admin.read_command(get(1, 0xffff | 1 << 16), 2).unwrap().code, 0x002);
    assert_eq!(admin.read_command(get(1, 0), 2).unwrap().code, 0x002, "of no events");
    assert_eq!(admin.read_command(get(1, 255 << 16), 2).unwrap().code, 0x00f);
    let all = admin.read_command(get(1, 255 << 16), 510).unwrap();
    assert_eq!((all.result, &all.data[..8]), (4, &[0, 0, 2, 0, 3, 0, 0x81, 0][..]));
    assert!(all.data.len() == 510 && all.data[8..].iter().all(|byte| *byte == 0));
    for (namespace, handle, kinds, code) in [
        (1, 0, &[1][..], 0x002), // there is no time limit
        (1, 0, &[0x70], 0x002),
        (1, 0, &[0, 3, 0x80], 0x002),
        (1, 4, &[0], 0x002),
        (1, 0xffff, &[0], 0x002),
        (0, 0, &[0], 0x00b),
        (9, 0, &[0], 0x00b),
        (u32::MAX, 0, &[0], 0x00b),
    ] {
        let set = set_events(namespace, handle, kinds.len(), true);
        assert_eq!(admin.write_command(set, kinds).unwrap().code, code, "{namespace} {handle} {kinds:?}");
    }
    assert_eq!(admin.command(set_events(1, 0, 0, true)).unwrap().code, 0x002);
    let all = admin.read_command(get(1, 4 << 16), 8).unwrap();
    assert_eq!(all.data, [0, 0, 2, 0, 3, 0, 0x81, 0], "nothing of what was refused is recorded");
}

/// The commands of a tenant of a drive.
struct Tenant {
    io: Client,
    namespace: u32,
    blocks: u64,
    /// Its next block, of a log.
    head: u64,
    random: Xoshiro256PlusPlus,
}

/// Blocks of one write of the log, and of its segments.
const LOG_BLOCKS: u64 = 16;
const SEGMENT: u64 = 512;

impl Tenant {
    fn write(&mut self, first: u64, data: &[u8]) {
        let mut to = on(nvm::WRITE, self.namespace, first);
        to.dword10[2] = (data.len() as u32 / UNIT as u32 - 1).into();
        assert_eq!(write(&mut self.io, to, data), 0);
    }

    /// Appends, and deallocates the next segment before it goes on there.
    fn append(&mut self, data: &[u8]) {
        if self.head.is_multiple_of(SEGMENT) {
            let count = SEGMENT.min(self.blocks - self.head) as u32;
            let mut range = vec![0; 16];
            range[4..8].copy_from_slice(&count.to_le_bytes());
            range[8..16].copy_from_slice(&self.head.to_le_bytes());
            let trim = command(nvm::DATASET_MANAGEMENT, self.namespace, [0, 4, 0, 0, 0, 0]);
            assert_eq!(self.io.write_command(trim, &range).unwrap().code, 0);
        }
        self.write(self.head, data);
        self.head = (self.head + LOG_BLOCKS) % self.blocks;
    }

    /// Overwrites blocks at random.
    fn overwrite(&mut self, blocks: u64, data: &[u8]) {
        for _ in 0..blocks {
            let first = self.random.random_range(0..self.blocks);
            self.write(first, data);
        }
    }
}

/// What two tenants cost, by log page 22h, and what the log costs by its handle.
fn cost(handles: u32) -> (f64, Option<f64>) {
    let server = server(handles, Isolation::Persistently, 4096);
    let mut host = attach(&server, Options::default());
    assert_eq!(delete(&mut host.admin, 1), 0);
    let units = server.subsystem().queue.drive().lock().limits().capacity_units;
    let half = units / 2 / SEGMENT * SEGMENT;
    let lists: [&[u16]; 2] = if handles > 0 { [&[1], &[2]] } else { [&[], &[]] };
    let mut tenants = lists.map(|list| {
        let namespace = create(&mut host, half, list);
        let io = Client::io(
            server.address(),
            Options::default(),
            &crate::common::names(),
            host.controller,
            2 + namespace as u16,
        );
        let random = Xoshiro256PlusPlus::seed_from_u64(namespace.into());
        Tenant { io: io.unwrap(), namespace, blocks: half, head: 0, random }
    });
    let (one, many) = (pattern(1, UNIT), pattern(2, LOG_BLOCKS as usize * UNIT));
    let [cache, tail] = &mut tenants;
    (0..half).for_each(|first| cache.write(first, &one));
    let mut round = |rounds: u64| {
        for _ in 0..rounds * half / LOG_BLOCKS {
            tail.append(&many);
            cache.overwrite(LOG_BLOCKS, &one);
        }
    };
    round(3);
    let read = |admin: &mut Client| {
        if handles > 0 {
            let [host_bytes, media_bytes, erased_bytes] = statistics(admin);
            assert!(erased_bytes > 0);
            return (host_bytes, media_bytes);
        }
        let counters = server.subsystem().queue.drive().lock().smart().counters;
        let bytes = |units: u64| units * UNIT as u64;
        (bytes(counters.host_units_written), bytes(counters.flash_units.total()))
    };
    let (before, of_log) = (read(&mut host.admin), counters(&server).get(2).copied());
    round(3);
    let now = read(&mut host.admin);
    let of_log = of_log.map(|before| counters(&server)[2].since(&before).write_amplification().unwrap());
    ((now.1 - before.1) as f64 / (now.0 - before.0) as f64, of_log)
}

/// A cache that overwrites at random, and a log that appends around a ring, each in a namespace with a handle of its own.
#[test]
fn two_tenants_with_handles_of_their_own_cost_less() {
    let (together, _) = cost(0);
    let (apart, log) = cost(3);
    println!("together {together:.2}, apart {apart:.2}, the log {log:?}");
    assert!(log.is_some_and(|log| (0.99..1.1).contains(&log)), "{log:?}");
    assert!(apart < together - 0.3, "{apart} with handles, {together} without");
}
