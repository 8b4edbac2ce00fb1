//! Several block namespaces: hosts create, attach, detach and delete them, also while others use them and while power is cut.

use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use crate::common::witness::number;
use crate::common::{Host, UNIT, attach, names, pattern, serve, serving, small, subsystem_on};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum::{Device, FdpProfile, Isolation, NamespaceAttributes, NamespaceId, Plp, Profile, check};
use tantalum_control::Control;
use tantalum_drive::Pacing;
use tantalum_nvme::client::{Client, Completed, Names, Options, command, handle_update, placed};
use tantalum_nvme::failure::Failure;
use tantalum_nvme::serve::{Notice, Served};
use tantalum_nvme::server::Server;
use tantalum_nvme::wire::command::Submission;
use tantalum_nvme::wire::opcode::{admin, nvm, vendor};

const ALL: u32 = u32::MAX;

pub fn identify(client: &mut Client, structure: u32, namespace: u32) -> Completed {
    client.read_command(command(admin::IDENTIFY, namespace, [structure, 0, 0, 0, 0, 0]), 4096).unwrap()
}

fn quad(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

/// The numbers of a list up to the first zero.
pub fn listed(client: &mut Client, structure: u32) -> Vec<u32> {
    let list = identify(client, structure, 0).data;
    list.chunks_exact(4)
        .map(|four| u32::from_le_bytes(four.try_into().unwrap()))
        .take_while(|number| *number != 0)
        .collect()
}

/// The data of Namespace Management.
fn asked(blocks: u64, capacity: u64, format: u8, sharing: u8) -> Vec<u8> {
    let mut data = vec![0; 4096];
    data[..8].copy_from_slice(&blocks.to_le_bytes());
    data[8..16].copy_from_slice(&capacity.to_le_bytes());
    (data[26], data[30]) = (format, sharing);
    data
}

pub fn try_create(admin: &mut Client, blocks: u64, format: u8, sharing: u8) -> std::io::Result<Completed> {
    let create = command(admin::NAMESPACE_MANAGEMENT, 0, [0; 6]);
    admin.write_command(create, &asked(blocks, blocks, format, sharing))
}

/// Creates a namespace that is to be shared.
pub fn create(admin: &mut Client, blocks: u64, format: u8) -> u32 {
    let created = try_create(admin, blocks, format, 1).unwrap();
    assert_eq!(created.code, 0);
    created.result as u32
}

pub fn delete(admin: &mut Client, number: u32) -> u16 {
    admin.command(command(admin::NAMESPACE_MANAGEMENT, number, [1, 0, 0, 0, 0, 0])).unwrap().code
}

/// Attaches a namespace (0), or detaches it (1).
pub fn change(admin: &mut Client, selection: u32, number: u32, controllers: &[u16]) -> u16 {
    let mut data = (controllers.len() as u16).to_le_bytes().to_vec();
    data.extend(controllers.iter().flat_map(|id| id.to_le_bytes()));
    data.resize(4096, 0);
    let change = command(admin::NAMESPACE_ATTACHMENT, number, [selection, 0, 0, 0, 0, 0]);
    admin.write_command(change, &data).unwrap().code
}

/// A command on one block of a namespace.
pub fn on(opcode: u8, namespace: u32, block: u64) -> Submission {
    command(opcode, namespace, [block as u32, (block >> 32) as u32, 0, 0, 0, 0])
}

pub fn write(io: &mut Client, namespace: u32, block: u64, data: &[u8]) -> u16 {
    io.write_command(on(nvm::WRITE, namespace, block), data).unwrap().code
}

pub fn read(io: &mut Client, namespace: u32, block: u64, bytes: u32) -> Vec<u8> {
    let read = io.read_command(on(nvm::READ, namespace, block), bytes).unwrap();
    assert_eq!(read.code, 0, "block {block} of namespace {namespace}");
    read.data
}

fn server() -> Server {
    serve(subsystem_on(Device::in_memory(&small()).unwrap(), 4096, Pacing::None))
}

/// A host with another name and identifier.
pub fn other_host(server: &Server, number: u8) -> Host {
    let names =
        Names { host: format!("nqn.2014-08.org.nvmexpress:host{number}"), host_id: [number; 16], ..names() };
    let (admin, controller) = Client::admin(server.address(), Options::default(), &names, 0).unwrap();
    let io = Client::io(server.address(), Options::default(), &names, controller, 1).unwrap();
    Host { admin, io, controller }
}

#[test]
fn a_drive_is_divided_among_namespaces_that_do_not_touch_each_other() {
    let server = server();
    let mut host = attach(&server, Options::default());
    let (admin, io, me) = (&mut host.admin, &mut host.io, [host.controller]);
    let capacity = quad(&identify(admin, 1, 0).data, 280);
    assert_eq!((capacity, quad(&identify(admin, 1, 0).data, 296)), (64 << 20, 0), "TNVMCAP, UNVMCAP");
    assert_eq!(write(io, 1, 5, &pattern(1, UNIT)), 0);
    assert_eq!(try_create(admin, 1, 0, 1).unwrap().code, 0x115, "namespace 1 has everything");
    let first = identify(admin, 3, 1).data;
    assert_eq!(delete(admin, 1), 0);
    assert_eq!((listed(admin, 2), listed(admin, 0x10)), (vec![], vec![]));
    assert_eq!(io.read_command(on(nvm::READ, 1, 5), 4096).unwrap().code, 0x00b);
    assert_eq!(quad(&identify(admin, 1, 0).data, 296), 64 << 20);
    // its number is free again
    let numbers = [create(admin, 1000, 0), create(admin, 8000, 1), create(admin, 2000, 0)];
    assert_eq!(numbers, [1, 2, 3]);
    assert_eq!((listed(admin, 2), listed(admin, 0x10)), (vec![], vec![1, 2, 3]));
    assert_eq!(quad(&identify(admin, 1, 0).data, 296), (64 << 20) - 4000 * 4096);
    assert!(identify(admin, 0, 2).data.iter().all(|byte| *byte == 0), "it is not attached");
    let told = identify(admin, 0x11, 2).data;
    assert_eq!((quad(&told, 0), quad(&told, 48), told[25], told[26], told[30]), (8000, 1000 * 4096, 1, 1, 1));
    assert_eq!((&told[128..132], &told[132..136]), (&[0, 0, 12, 0][..], &[0, 0, 9, 1][..]), "formats");
    let common = identify(admin, 0, ALL).data;
    assert_eq!((quad(&common, 0), common[25], &common[128..136]), (0, 1, &told[128..136]));
    for number in numbers {
        assert_eq!(write(io, number, 0, &[1; UNIT]), 0x00b, "not before it is attached");
        assert_eq!(change(admin, 0, number, &me), 0);
    }
    assert_eq!(listed(admin, 2), [1, 2, 3]);
    // nothing is left of the old namespace
    assert_eq!(read(io, 1, 5, 4096), [0; UNIT]);
    for number in numbers {
        let bytes = if number == 2 { 512 } else { UNIT };
        let last = quad(&identify(admin, 0, number).data, 0) - 1;
        for block in [0, last] {
            assert_eq!(write(io, number, block, &pattern(u64::from(number) << 8 | block, bytes)), 0);
        }
        assert_eq!(write(io, number, last + 1, &pattern(9, bytes)), 0x080);
    }
    for number in numbers {
        let bytes = if number == 2 { 512 } else { UNIT };
        let last = quad(&identify(admin, 0, number).data, 0) - 1;
        for block in [0, last] {
            let expected = pattern(u64::from(number) << 8 | block, bytes);
            assert!(read(io, number, block, bytes as u32) == expected, "block {block} of {number}");
        }
    }
    let again = identify(admin, 3, 1).data;
    assert!(first[..52] != again[..52] && first[36..52] != again[36..52], "other identifiers");
    assert_eq!(delete(admin, ALL), 0);
    assert!(listed(admin, 0x10).is_empty());
    assert_eq!(server.subsystem().queue.drive().lock().mapped_units(), 0);
}

#[test]
fn what_is_not_possible_is_refused_with_the_standards_status() {
    let server = server();
    let mut host = attach(&server, Options::default());
    let mut other = other_host(&server, 2);
    let (admin, me, it) = (&mut host.admin, host.controller, other.controller);
    assert_eq!(delete(admin, 1), 0);
    let mut code = |data: Vec<u8>, set: u32| {
        let create = command(admin::NAMESPACE_MANAGEMENT, 0, [0, set << 24, 0, 0, 0, 0]);
        admin.write_command(create, &data).unwrap().code
    };
    assert_eq!(code(asked(10, 9, 0, 0), 0), 0x11b, "Thin Provisioning Not Supported");
    assert_eq!(code(asked(10, 10, 2, 0), 0), 0x10a, "Invalid Format");
    assert_eq!(code(asked(0, 0, 0, 0), 0), 0x002);
    assert_eq!(code(asked(12, 12, 1, 0), 0), 0x002, "half a unit");
    assert_eq!(code(asked(10, 10, 0, 0), 1), 0x129, "I/O Command Set Not Supported");
    assert_eq!(code(asked(1 << 40, 1 << 40, 0, 0), 0), 0x115);
    assert_eq!(code(asked(u64::MAX - 7, u64::MAX - 7, 1, 0), 0), 0x115);
    assert_eq!(admin.command(command(admin::NAMESPACE_MANAGEMENT, 1, [2, 0, 0, 0, 0, 0])).unwrap().code, 2);
    let private = try_create(admin, 10, 0, 0).unwrap().result as u32;
    let shared = create(admin, 10, 0);
    assert_eq!(delete(admin, 9), 0x00b);
    assert_eq!(change(admin, 0, 9, &[me]), 0x00b);
    for list in [&[][..], &[me, me], &[it.max(me), it.min(me)], &[9999], &[me, 9999]] {
        assert_eq!(change(admin, 0, shared, list), 0x11c, "Controller List Invalid: {list:?}");
    }
    assert_eq!(change(admin, 2, shared, &[me]), 0x002);
    assert_eq!(change(admin, 0, private, &[me.min(it), me.max(it)]), 0x119, "Namespace Is Private");
    assert_eq!(change(admin, 1, private, &[me]), 0x11a, "Namespace Not Attached");
    assert_eq!(change(admin, 0, private, &[me]), 0);
    assert_eq!(change(admin, 0, private, &[me]), 0x118, "Namespace Already Attached");
    assert_eq!(change(admin, 0, private, &[it]), 0x119);
    assert_eq!(change(admin, 0, shared, &[me.min(it), me.max(it)]), 0);
    let controllers = |admin: &mut Client, structure: u32, namespace: u32| {
        let list = identify(admin, structure, namespace).data;
        let words: Vec<u16> =
            list.chunks_exact(2).map(|two| u16::from_le_bytes(two.try_into().unwrap())).collect();
        words[1..=usize::from(words[0])].to_vec()
    };
    assert_eq!(controllers(admin, 0x12, private), [me]);
    assert_eq!(controllers(admin, 0x12, shared), [me.min(it), me.max(it)]);
    assert_eq!(controllers(admin, 0x12 | u32::from(me.min(it) + 1) << 16, shared), [me.max(it)]);
    assert_eq!(controllers(admin, 0x13, 0), [me.min(it), me.max(it)]);
    assert_eq!((listed(&mut other.admin, 2), listed(&mut other.admin, 0x10)), (vec![2], vec![1, 2]));
    assert_eq!(change(admin, 1, shared, &[me]), 0);
    assert_eq!((listed(admin, 2), listed(&mut other.admin, 2)), (vec![1], vec![2]));
    // as many as there can be
    let more: Vec<u16> = (0..31).map(|_| try_create(admin, 10, 0, 1).unwrap().code).collect();
    assert_eq!((&more[..30], more[30]), (&[0; 30][..], 0x116), "Namespace Identifier Unavailable");
    let most = u32::from_le_bytes(identify(admin, 1, 0).data[540..544].try_into().unwrap());
    assert_eq!(most, 32, "MNAN");
    let highest = u32::from_le_bytes(identify(admin, 1, 0).data[516..520].try_into().unwrap());
    assert!(listed(admin, 0x10).iter().all(|number| *number <= highest), "NN is {highest}");
}

/// A host finds what it was attached to when it comes back, a new one what is attached to all.
#[test]
fn attachments_are_those_of_hosts() {
    let server = server();
    let mut host = attach(&server, Options::default());
    assert_eq!(delete(&mut host.admin, 1), 0);
    let numbers = [create(&mut host.admin, 10, 0), create(&mut host.admin, 10, 0)];
    assert_eq!(change(&mut host.admin, 0, numbers[0], &[host.controller]), 0);
    let (mut second, mut other) = (attach(&server, Options::default()), other_host(&server, 2));
    assert_eq!(listed(&mut second.admin, 2), [numbers[0]], "another controller of the same host");
    assert!(listed(&mut other.admin, 2).is_empty());
    // the host forgets it with its last controller that had it
    assert_eq!(change(&mut second.admin, 1, numbers[0], &[second.controller]), 0);
    assert_eq!(listed(&mut attach(&server, Options::default()).admin, 2), [numbers[0]]);
    assert_eq!(change(&mut second.admin, 0, numbers[0], &[second.controller]), 0);
    drop((host, second));
    crate::common::wait_until("they are gone", || server.subsystem().controllers() == 1);
    let mut host = attach(&server, Options::default());
    assert_eq!(listed(&mut host.admin, 2), [numbers[0]]);
    assert_eq!(change(&mut host.admin, 1, numbers[0], &[host.controller]), 0);
    drop(host);
    assert!(listed(&mut attach(&server, Options::default()).admin, 2).is_empty());
}

/// The drive's key-value namespaces keep their numbers, and no record of them names the drive's own one.
#[test]
fn numbers_of_namespaces_with_records_stay() {
    let mut device = Device::in_memory(&small()).unwrap();
    let make = |device: &mut Device| {
        let (attributes, at_ns) = (NamespaceAttributes::default(), device.time_ns());
        let namespace = &mut NamespaceId::default();
        device.submit(tantalum::Command::CreateNamespace { attributes, namespace }, at_ns).unwrap();
        namespace.0
    };
    assert_eq!((make(&mut device), make(&mut device)), (1, 2));
    let server = serve(subsystem_on(device, 4096, Pacing::None));
    let mut host = attach(&server, Options::default());
    assert_eq!(listed(&mut host.admin, 2), [1, 2, 3]);
    assert_eq!(delete(&mut host.admin, ALL), 0);
    assert_eq!(listed(&mut host.admin, 0x10), [2, 3]);
    assert_eq!((delete(&mut host.admin, 2), change(&mut host.admin, 0, 2, &[host.controller])), (2, 0x118));
    assert_eq!(
        [create(&mut host.admin, 10, 0), create(&mut host.admin, 10, 0), create(&mut host.admin, 10, 0)],
        [1, 4, 5]
    );
    assert_eq!(listed(&mut host.admin, 0x10), [1, 2, 3, 4, 5]);
    assert_eq!(change(&mut host.admin, 0, 4, &[host.controller]), 0);
    // namespace 4 has the number of the one in which the drive keeps its table
    let record = tantalum_nvme::io::key_value::PutRecord::new(4, b"table", Some(4));
    let mut data = zerocopy::IntoBytes::as_bytes(&record).to_vec();
    data.extend([9; 4]);
    let put = command(vendor::PUT, 2, [data.len() as u32, 0, 0, 0, 0, 0]);
    assert_eq!(host.io.write_command(put, &data).unwrap().code, 0x00b);
    let device = server.subsystem().queue.drive().lock();
    assert_eq!((device.namespaces().len(), device.private_namespaces()), (2, vec![NamespaceId(3)]));
}

/// Everything beyond the standard stays in its namespace as well.
#[test]
fn vendor_commands_do_not_leave_their_namespace() {
    let server = server();
    let mut host = attach(&server, Options::default());
    assert_eq!(delete(&mut host.admin, 1), 0);
    for _ in 0..2 {
        let number = create(&mut host.admin, 100, 0);
        assert_eq!(change(&mut host.admin, 0, number, &[host.controller]), 0);
    }
    let io = &mut host.io;
    for block in 0..100 {
        assert_eq!(write(io, 1, block, &pattern(block, UNIT)), 0);
        assert_eq!(write(io, 2, block, &pattern(1000 + block, UNIT)), 0);
    }
    let outside = 0x080;
    let dwords = |words: [u32; 3]| [words[0], words[1], words[2], 0, 0, 0];
    assert_eq!(io.command(command(vendor::REMAP, 2, dwords([99, 0, 2]))).unwrap().code, outside);
    assert_eq!(io.command(command(vendor::REMAP, 1, dwords([0, 99, 2]))).unwrap().code, outside);
    assert_eq!(io.command(command(vendor::REMAP, 2, dwords([0, 99, 1]))).unwrap().code, 0);
    assert!(read(io, 2, 99, 4096) == pattern(1000, UNIT) && read(io, 2, 0, 4096) == [0; UNIT]);
    let mut names = vec![0; UNIT];
    names[..4].copy_from_slice(&100_u32.to_le_bytes());
    let batch = [names, pattern(7, UNIT)].concat();
    assert_eq!(io.write_command(command(vendor::WRITE_ATOMIC, 1, [0; 6]), &batch).unwrap().code, outside);
    // a transaction is one of its namespace
    let begun = io.command(command(vendor::BEGIN, 1, [0; 6])).unwrap().result;
    let in_transaction = |opcode, namespace, unit: u32| {
        command(opcode, namespace, [unit, 0, 0, 0, begun as u32, (begun >> 32) as u32])
    };
    let unknown = Failure::UNKNOWN_TRANSACTION.code();
    let new = pattern(8, UNIT);
    assert_eq!(io.write_command(in_transaction(vendor::TX_WRITE, 2, 1), &new).unwrap().code, unknown);
    assert_eq!(io.write_command(in_transaction(vendor::TX_WRITE, 1, 100), &new).unwrap().code, outside);
    assert_eq!(io.write_command(in_transaction(vendor::TX_WRITE, 1, 1), &new).unwrap().code, 0);
    // it ends with its namespace, and a later commit brings nothing back
    assert_eq!(delete(&mut host.admin, 1), 0);
    let number = create(&mut host.admin, 100, 0);
    assert_eq!((number, change(&mut host.admin, 0, 1, &[host.controller])), (1, 0));
    let io = &mut host.io;
    assert_eq!(io.command(in_transaction(vendor::COMMIT, 1, 0)).unwrap().code, unknown);
    assert!((0..100).all(|block| read(io, 1, block, 4096) == [0; UNIT]));
    // none of them stays open in the drive, which has room for few
    let most = server.subsystem().queue.drive().lock().limits().open_transactions;
    for _ in 0..=most {
        assert_eq!(host.io.command(command(vendor::BEGIN, 1, [0; 6])).unwrap().code, 0);
        assert_eq!(delete(&mut host.admin, 1), 0);
        assert_eq!(
            (create(&mut host.admin, 100, 0), change(&mut host.admin, 0, 1, &[host.controller])),
            (1, 0)
        );
    }
    let io = &mut host.io;
    assert!((1..99).all(|block| read(io, 2, block, 4096) == pattern(1000 + block, UNIT)));
}

/// Data of a write that were sent before its namespace was deleted, and arrive when another one has its units.
#[test]
fn a_write_under_way_does_not_reach_units_that_belong_to_another_namespace() {
    let server = server();
    let mut host = attach(&server, Options::default());
    let slow = Options { no_capsule_data: true, ..Options::default() };
    let mut late = Client::io(server.address(), slow, &names(), host.controller, 2).unwrap();
    let reserved = late.submit_write(on(nvm::WRITE, 1, 0), pattern(1, UNIT)).unwrap();
    // the write was checked, and waits for its data; the controller has asked for them, and they are not sent before `reap`
    let read = host.io.read_command(on(nvm::READ, 1, 0), 4096).unwrap();
    assert_eq!(read.code, 0);
    thread::sleep(Duration::from_millis(50));
    assert_eq!(delete(&mut host.admin, 1), 0);
    assert_eq!((create(&mut host.admin, 100, 0), change(&mut host.admin, 0, 1, &[host.controller])), (1, 0));
    let done = late.reap().unwrap();
    assert_eq!((done.id, done.code), (reserved, Failure::FORMAT_IN_PROGRESS.code()));
    assert_eq!(self::read(&mut host.io, 1, 0, 4096), [0; UNIT]);
    assert_eq!(server.subsystem().queue.drive().lock().mapped_units(), 0);
}

/// Data of a write that a host was sent before a private namespace went to another host.
#[test]
fn a_write_under_way_does_not_reach_a_private_namespace_that_another_host_has_now() {
    let server = server();
    let mut host = attach(&server, Options::default());
    let mut other = other_host(&server, 7);
    assert_eq!(delete(&mut host.admin, 1), 0);
    let private = try_create(&mut host.admin, 100, 0, 0).unwrap().result as u32;
    assert_eq!(change(&mut host.admin, 0, private, &[host.controller]), 0);
    let slow = Options { no_capsule_data: true, ..Options::default() };
    let mut late = Client::io(server.address(), slow, &names(), host.controller, 2).unwrap();
    let reserved = late.submit_write(on(nvm::WRITE, private, 0), pattern(1, UNIT)).unwrap();
    assert_eq!(read(&mut host.io, private, 0, 4096), [0; UNIT]);
    thread::sleep(Duration::from_millis(50));
    assert_eq!(change(&mut host.admin, 1, private, &[host.controller]), 0);
    assert_eq!(change(&mut host.admin, 0, private, &[other.controller]), 0);
    assert_eq!(write(&mut other.io, private, 0, &pattern(2, UNIT)), 0);
    let done = late.reap().unwrap();
    assert_eq!(done.id, reserved);
    assert_ne!(done.code, 0);
    assert_eq!(self::read(&mut other.io, private, 0, 4096), pattern(2, UNIT));
}

/// Two hosts write as fast as they can, while a third one deletes and creates. Each block names the creation for which it was written.
#[test]
fn hosts_that_write_while_namespaces_come_and_go_never_write_to_a_later_one() {
    let server = Arc::new(server());
    let mut host = attach(&server, Options::default());
    let is_over = AtomicBool::new(false);
    let ended = thread::scope(|scope| {
        let writers: Vec<_> = (0..2_u8)
            .map(|number| {
                let (server, is_over) = (&server, &is_over);
                scope.spawn(move || {
                    let mut io = attach(server, Options::default());
                    let (mut done, mut refused) = (0_u64, 0_u64);
                    while !is_over.load(Ordering::Relaxed) {
                        let ids: Vec<u16> = (0..32)
                            .map(|block| {
                                let command = on(nvm::WRITE, 1, u64::from(number) * 32 + block);
                                io.io.submit_write(command, pattern(1 << 20, UNIT)).unwrap()
                            })
                            .collect();
                        for _ in ids {
                            match io.io.reap().unwrap().code {
                                0 => done += 1,
                                0x00b | 0x084 => refused += 1,
                                code => panic!("a write ended with {code:#x}"),
                            }
                        }
                    }
                    (done, refused)
                })
            })
            .collect();
        for _ in 0..60 {
            thread::sleep(Duration::from_millis(3));
            assert_eq!(delete(&mut host.admin, 1), 0);
            let number = create(&mut host.admin, 100, 0);
            // nobody is attached: what is there was written by right to an earlier namespace
            let mapped = server.subsystem().queue.drive().lock().mapped_units();
            assert_eq!(mapped, 0, "units of a namespace that nobody has");
            let all: Vec<u16> =
                server.subsystem().io_controllers().iter().map(|controller| controller.id).collect();
            assert_eq!((number, change(&mut host.admin, 0, 1, &all)), (1, 0));
        }
        is_over.store(true, Ordering::Relaxed);
        writers.into_iter().map(|writer| writer.join().unwrap()).collect::<Vec<_>>()
    });
    let sum = |of: fn(&(u64, u64)) -> u64| ended.iter().map(of).sum::<u64>();
    println!("{} written, {} refused", sum(|ended| ended.0), sum(|ended| ended.1));
    assert!(sum(|ended| ended.0) > 0 && sum(|ended| ended.1) > 0);
}

#[test]
fn hosts_are_told_of_namespaces_that_come_and_go() {
    let server = server();
    let (mut host, mut other) = (attach(&server, Options::default()), other_host(&server, 2));
    for admin in [&mut host.admin, &mut other.admin] {
        let enable = command(admin::SET_FEATURES, 0, [0x0b, 1 << 8, 0, 0, 0, 0]);
        assert_eq!(admin.command(enable).unwrap().code, 0);
    }
    let expect = |admin: &mut Client, changed: &[u32]| {
        let event = admin.command(command(admin::ASYNC_EVENT, 0, [0; 6])).unwrap();
        assert_eq!(event.result, 0x04_0002);
        let log = command(admin::GET_LOG_PAGE, ALL, [4 | 1023 << 16, 0, 0, 0, 0, 0]);
        let log = admin.read_command(log, 4096).unwrap().data;
        let numbers: Vec<u32> =
            log.chunks_exact(4).map(|four| u32::from_le_bytes(four.try_into().unwrap())).collect();
        assert_eq!(numbers[..changed.len() + 1], [changed, &[0]].concat());
    };
    assert_eq!(delete(&mut host.admin, 1), 0);
    expect(&mut host.admin, &[1]);
    expect(&mut other.admin, &[1]);
    let numbers = [create(&mut host.admin, 10, 0), create(&mut host.admin, 10, 0)];
    for number in numbers {
        assert_eq!(change(&mut host.admin, 0, number, &[other.controller]), 0);
    }
    expect(&mut other.admin, &numbers);
    assert_eq!(change(&mut host.admin, 1, numbers[1], &[other.controller]), 0);
    expect(&mut other.admin, &[numbers[1]]);
    // nothing changed for the other one meanwhile
    let waits = host.admin.submit(command(admin::ASYNC_EVENT, 0, [0; 6]), Vec::new(), 0).unwrap();
    assert_eq!(change(&mut other.admin, 0, numbers[1], &[host.controller]), 0);
    assert_eq!(host.admin.reap().unwrap().id, waits);
}

/// What a host knows of a namespace.
#[derive(Clone, Debug, PartialEq)]
struct Known {
    number: u32,
    units: u64,
    /// Its reclaim unit handles.
    handles: Vec<u16>,
    /// The last version of its first block that was flushed.
    flushed: u64,
    /// The last version that was sent.
    sent: u64,
}

fn block(number: u32, version: u64) -> Vec<u8> {
    pattern(u64::from(number) << 24 | version, UNIT)
}

/// One host divides the drive anew again and again while power is cut at random flash operations. After each cut the namespaces are
/// those before or after the change that was under way, one that survives has its handles and its data, and a new one is empty.
fn divide_under_cuts(image: &Path, profile: &Profile, seed: u64, cuts: u64) {
    let has_capacitor = profile.power.plp == Plp::Capacitor;
    let served =
        Served::start(Device::create(image, profile).unwrap(), &serving(image, Pacing::None)).unwrap();
    let (address, stopper) = (served.address(), served.stopper());
    let (sender, recovered) = mpsc::channel();
    let serving = thread::spawn(move || {
        served.wait(|notice| {
            if let Notice::Recovered(_) = notice {
                sender.send(()).unwrap();
            }
        })
    });
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let handles = profile.fdp.map_or(0, |fdp| fdp.handles as u16);
    let mut divider = Divider { handles, known: Vec::new(), begun: None, version: 0, counts: [0; 5] };
    for cut in 0..cuts {
        let (mut admin, mut io, id) = loop {
            if let Ok(attached) = attach_to(address) {
                break attached;
            }
            thread::sleep(Duration::from_millis(2));
        };
        if cut == 0 {
            assert_eq!(delete(&mut admin, 1), 0);
        }
        divider.check(&mut admin, &mut io, id, &format!("before cut {cut} of seed {seed}"));
        let operations = (!has_capacitor).then(|| rng.random_range(1..40));
        let after = rng.random_range(0..6);
        for step in 0.. {
            if step == after {
                Control::connect(image).unwrap().cut(operations, rng.random()).unwrap();
            }
            if divider.step(&mut admin, &mut io, id, &mut rng).is_err() {
                break;
            }
        }
        recovered.recv_timeout(Duration::from_secs(60)).unwrap();
    }
    let [counts @ .., begun_units] = divider.counts;
    println!("created, deleted, found empty, formatted: {counts:?}; begun reclaim units: {begun_units}");
    assert!(counts.iter().all(|count| *count > 0) && (begun_units > 0) == (handles > 0));
    stopper.stop();
    serving.join().unwrap().unwrap();
    let checked = check::check(image, &mut |_, _| ControlFlow::Continue(())).unwrap();
    assert!(checked.findings.is_empty(), "{:?}", checked.findings);
}

fn attach_to(address: SocketAddr) -> std::io::Result<(Client, Client, u16)> {
    let (admin, id) = Client::admin(address, Options::default(), &names(), 0)?;
    let io = Client::io(address, Options::default(), &names(), id, 1)?;
    Ok((admin, io, id))
}

/// The host that divides the drive.
struct Divider {
    /// Reclaim unit handles of the drive.
    handles: u16,
    known: Vec<Known>,
    /// What was begun and not answered.
    begun: Option<Begun>,
    version: u64,
    counts: [u64; 5],
}

#[derive(Clone, Debug, PartialEq)]
enum Begun {
    /// A namespace of so many units, with these handles.
    Create(u64, Vec<u16>),
    Delete(u32),
    Format(u32),
}

/// The code of a command that was answered; an error if its connection broke or power was lost.
fn answered(completed: std::io::Result<Completed>) -> std::io::Result<Completed> {
    let completed = completed?;
    match completed.code {
        0 => Ok(completed),
        code if code == Failure::POWER_LOSS.code() => Err(std::io::ErrorKind::BrokenPipe.into()),
        code => panic!("status {code:#x}"),
    }
}

impl Divider {
    fn step(
        &mut self,
        admin: &mut Client,
        io: &mut Client,
        id: u16,
        rng: &mut Xoshiro256PlusPlus,
    ) -> std::io::Result<()> {
        match rng.random_range(0..6) {
            0 if self.known.len() < 5 => {
                let units = rng.random_range(1..1000);
                let handles: Vec<u16> = (0..self.handles).filter(|_| rng.random_ratio(1, 2)).collect();
                // a host that names none leaves the choice to the drive, which is another test
                let handles = if handles.is_empty() { (0..self.handles).rev().collect() } else { handles };
                self.begun = Some(Begun::Create(units, handles.clone()));
                let data = crate::placement::asked(units, 0, handles.len() as u16, &handles);
                let create = command(admin::NAMESPACE_MANAGEMENT, 0, [0; 6]);
                let created = answered(admin.write_command(create, &data))?;
                self.begun = None;
                self.counts[0] += 1;
                let number = created.result as u32;
                self.known.push(Known { number, units, handles, flushed: 0, sent: 0 });
                let mut data = [1_u16.to_le_bytes(), id.to_le_bytes()].concat();
                data.resize(4096, 0);
                let attach = command(admin::NAMESPACE_ATTACHMENT, number, [0; 6]);
                answered(admin.write_command(attach, &data))?;
                self.find_empty(io, number, units)?;
            }
            1 if !self.known.is_empty() => {
                let at = rng.random_range(0..self.known.len());
                let number = self.known[at].number;
                self.begun = Some(Begun::Delete(number));
                let delete = command(admin::NAMESPACE_MANAGEMENT, number, [1, 0, 0, 0, 0, 0]);
                answered(admin.command(delete))?;
                self.begun = None;
                self.counts[1] += 1;
                self.known.remove(at);
            }
            2 if !self.known.is_empty() => {
                let at = rng.random_range(0..self.known.len());
                let Known { number, units, .. } = self.known[at].clone();
                self.begun = Some(Begun::Format(number));
                let dword = rng.random_range(0..2) << 9;
                answered(admin.command(command(admin::FORMAT, number, [dword, 0, 0, 0, 0, 0])))?;
                self.begun = None;
                self.counts[3] += 1;
                (self.known[at].flushed, self.known[at].sent) = (0, 0);
                self.find_empty(io, number, units)?;
            }
            3 if !self.known.is_empty() && self.handles > 0 => {
                let Known { number, handles, .. } = &self.known[rng.random_range(0..self.known.len())];
                let identifier = rng.random_range(0..handles.len() as u16);
                answered(io.write_command(handle_update(*number, 1), &identifier.to_le_bytes()))?;
                self.counts[4] += 1;
            }
            _ if !self.known.is_empty() => {
                let at = rng.random_range(0..self.known.len());
                let Known { number, units, handles, .. } = self.known[at].clone();
                self.version += 1;
                self.known[at].sent = self.version;
                for place in [0, units / 2, units - 1] {
                    let mut write = on(nvm::WRITE, number, place);
                    if !handles.is_empty() {
                        write = placed(write, rng.random_range(0..handles.len() as u16));
                    }
                    answered(io.write_command(write, &block(number, self.version)))?;
                }
                answered(io.command(command(nvm::FLUSH, number, [0; 6])))?;
                self.known[at].flushed = self.version;
            }
            _ => {}
        }
        Ok(())
    }

    /// A namespace that is new.
    fn find_empty(&mut self, io: &mut Client, number: u32, units: u64) -> std::io::Result<()> {
        for place in 0..units {
            let read = answered(io.read_command(on(nvm::READ, number, place), 4096))?;
            assert!(read.data == [0; UNIT], "unit {place} of the new namespace {number} is not empty");
        }
        self.counts[2] += 1;
        Ok(())
    }

    /// Compares what there is with what there may be.
    fn check(&mut self, admin: &mut Client, io: &mut Client, id: u16, when: &str) {
        let there = listed(admin, 0x10);
        for number in &there {
            let units = quad(&identify(admin, 0x11, *number).data, 0);
            if let Some(known) = self.known.iter().find(|known| known.number == *number) {
                assert_eq!(known.units, units, "{when}: the size of {number}");
                continue;
            }
            let Some(Begun::Create(asked, handles)) = self.begun.clone() else {
                panic!("{when}: namespace {number} was not created");
            };
            assert_eq!(asked, units, "{when}: the size of {number}");
            self.known.push(Known { number: *number, units, handles, flushed: 0, sent: 0 });
        }
        self.known.retain(|known| {
            let is_there = there.contains(&known.number);
            assert!(is_there || self.begun == Some(Begun::Delete(known.number)), "{when}: {known:?} is gone");
            is_there
        });
        let attached = listed(admin, 2);
        for known in &mut self.known {
            let Known { number, units, .. } = *known;
            if !attached.contains(&number) {
                assert_eq!(change(admin, 0, number, &[id]), 0, "{when}");
            }
            if !known.handles.is_empty() {
                let statuses = crate::placement::status(io, number);
                let handles: Vec<u16> = statuses.into_iter().map(|(handle, _)| handle).collect();
                assert_eq!(handles, known.handles, "{when}: the handles of {number}");
            }
            let is_empty =
                |io: &mut Client| (0..units).all(|place| read(io, number, place, 4096) == [0; UNIT]);
            if self.begun == Some(Begun::Format(number)) && is_empty(io) {
                (known.flushed, known.sent) = (0, 0);
            }
            let Known { flushed, sent, .. } = *known;
            for place in 0..units {
                let found = read(io, number, place, 4096);
                let is_written = [0, units / 2, units - 1].contains(&place);
                let mut possible = (flushed..=sent).filter(|version| is_written || *version == 0);
                let is_possible = found == [0; UNIT] && (flushed == 0 || !is_written)
                    || possible.any(|version| version > 0 && found == block(number, version));
                assert!(is_possible, "{when}: unit {place} of {number}, flushed {flushed}, sent {sent}");
            }
        }
        self.begun = None;
    }
}

#[test]
fn namespaces_are_divided_all_or_nothing_under_power_cuts() {
    let (seed, cuts) = (number("SEED", 1), number("CUTS", 40));
    println!("SEED={seed} CUTS={cuts}");
    let folder = tempfile::tempdir().unwrap();
    divide_under_cuts(&folder.path().join("drive.tant"), &small(), seed, cuts);
    let plp = Profile { capacity_bytes: 1 << 30, ..Profile::load("tlc-nvme-plp").unwrap() };
    divide_under_cuts(&folder.path().join("plp.tant"), &plp, seed, cuts / 4);
    let fdp = Some(FdpProfile { handles: 4, isolation: Isolation::Persistently });
    let placed = Profile { capacity_bytes: 1 << 30, fdp, ..small() };
    divide_under_cuts(&folder.path().join("placed.tant"), &placed, seed, cuts);
}

/// The image is closed and served again.
#[test]
fn an_image_keeps_its_namespaces() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("drive.tant");
    let mut device = Some(Device::create(&image, &small()).unwrap());
    let mut uuids = Vec::new();
    for round in 0..3 {
        let device = device.take().unwrap_or_else(|| Device::open(&image).unwrap());
        let served = Served::start(device, &serving(&image, Pacing::Real)).unwrap();
        let (address, stopper) = (served.address(), served.stopper());
        let serving = thread::spawn(move || served.wait(|_| {}));
        let (mut admin, mut io, id) = attach_to(address).unwrap();
        if round == 0 {
            assert_eq!(delete(&mut admin, 1), 0);
            assert_eq!([create(&mut admin, 100, 0), create(&mut admin, 800, 1)], [1, 2]);
            assert!([1, 2].iter().all(|number| change(&mut admin, 0, *number, &[id]) == 0));
            assert_eq!(
                (write(&mut io, 1, 7, &pattern(1, UNIT)), write(&mut io, 2, 9, &pattern(2, 512))),
                (0, 0)
            );
        }
        assert_eq!(listed(&mut admin, 2), [1, 2]);
        assert!(read(&mut io, 1, 7, 4096) == pattern(1, UNIT) && read(&mut io, 2, 9, 512) == pattern(2, 512));
        uuids.push([1, 2].map(|number| identify(&mut admin, 3, number).data[36..52].to_vec()));
        drop((admin, io));
        stopper.stop();
        serving.join().unwrap().unwrap();
    }
    assert!(uuids[0][0] != uuids[0][1] && uuids.iter().all(|there| *there == uuids[0]));
}

/// The table has room although the drive is full.
#[test]
fn a_drive_that_is_full_can_be_divided() {
    let server = server();
    let mut host = attach(&server, Options::default());
    let fill = |host: &mut Host, number: u32, value: u64| {
        let blocks = quad(&identify(&mut host.admin, 0, number).data, 0);
        for first in (0..blocks).step_by(128) {
            let count = (blocks - first).min(128);
            let write = command(nvm::WRITE, number, [first as u32, 0, count as u32 - 1, 0, 0, 0]);
            let data = pattern(value, UNIT * count as usize);
            assert_eq!(host.io.write_command(write, &data).unwrap().code, 0, "{first} of {blocks}");
        }
        assert_eq!(host.io.command(command(nvm::FLUSH, number, [0; 6])).unwrap().code, 0);
    };
    fill(&mut host, 1, 1);
    for selection in [1, 0, 1, 0] {
        assert_eq!(change(&mut host.admin, selection, 1, &[host.controller]), 0);
    }
    fill(&mut host, 1, 2);
    assert_eq!(delete(&mut host.admin, 1), 0);
    let free = quad(&identify(&mut host.admin, 1, 0).data, 296);
    assert_eq!(free, 64 << 20);
    for (number, blocks) in [(1, 10_000), (2, free / 4096 - 10_000)] {
        assert_eq!(create(&mut host.admin, blocks, 0), number);
        assert_eq!(change(&mut host.admin, 0, number, &[host.controller]), 0);
        fill(&mut host, number, 3);
    }
    for selection in [1, 0, 1, 0] {
        assert_eq!(change(&mut host.admin, selection, 2, &[host.controller]), 0);
    }
    fill(&mut host, 2, 4);
}

pub fn format(admin: &mut Client, number: u32, dword: u32) -> u16 {
    admin.command(command(admin::FORMAT, number, [dword, 0, 0, 0, 0, 0])).unwrap().code
}

#[test]
fn a_format_changes_the_blocks_and_leaves_nothing() {
    let server = server();
    let (mut host, mut other) = (attach(&server, Options::default()), other_host(&server, 2));
    assert_eq!(delete(&mut host.admin, 1), 0);
    for blocks in [1000, 2000] {
        let number = create(&mut host.admin, blocks, 0);
        for host in [&mut host, &mut other] {
            assert_eq!(change(&mut host.admin, 0, number, &[host.controller]), 0);
        }
        assert_eq!(write(&mut host.io, number, 9, &pattern(number.into(), UNIT)), 0);
    }
    let before = identify(&mut host.admin, 3, 1).data;
    assert_eq!(format(&mut host.admin, 1, 2), 0x10a, "no such format");
    assert_eq!(format(&mut host.admin, 1, 1 << 4), 0x10a, "metadata");
    assert_eq!(format(&mut host.admin, 1, 1 << 5), 0x10a, "protection information");
    assert_eq!(format(&mut host.admin, 1, 2 << 9), 0x002, "cryptographic erase");
    assert_eq!((format(&mut host.admin, 7, 0), format(&mut host.admin, 0, 0)), (0x00b, 0x00b));
    assert_eq!(format(&mut host.admin, 1, 1), 0);
    let told = identify(&mut other.admin, 0, 1).data;
    assert_eq!((quad(&told, 0), told[26]), (8000, 1));
    assert_eq!(identify(&mut host.admin, 3, 1).data, before, "it is the same namespace");
    assert!((0..8000).step_by(7).all(|block| read(&mut other.io, 1, block, 512) == [0; 512]));
    assert!(read(&mut other.io, 2, 9, 4096) == pattern(2, UNIT), "the other one is as it was");
    assert_eq!(write(&mut other.io, 1, 7999, &pattern(5, 512)), 0);
    assert_eq!(format(&mut other.admin, ALL, 1 << 9), 0);
    for number in [1, 2] {
        let told = identify(&mut host.admin, 0, number).data;
        assert_eq!((quad(&told, 0), told[26]), (u64::from(number) * 1000, 0));
        assert!(read(&mut host.io, number, 9, 4096) == [0; UNIT]);
    }
}

/// A format of one namespace with an erase leaves nothing of it in the image, and everything of the other.
#[test]
fn a_format_with_an_erase_leaves_nothing_in_the_image() {
    let folder = tempfile::tempdir().unwrap();
    for profile in ["tlc-nvme", "tlc-nvme-plp"] {
        let image = folder.path().join(format!("{profile}.tant"));
        let profile = Profile { capacity_bytes: 1 << 30, ..Profile::load(profile).unwrap() };
        let server = serve(subsystem_on(Device::create(&image, &profile).unwrap(), 4096, Pacing::None));
        let mut host = attach(&server, Options::default());
        assert_eq!(delete(&mut host.admin, 1), 0);
        for blocks in [1000, 2000] {
            let number = create(&mut host.admin, blocks, 0);
            assert_eq!(change(&mut host.admin, 0, number, &[host.controller]), 0);
        }
        let (old, stays) = (b"what-must-be-gone".repeat(300), b"what-has-to-stay-".repeat(300));
        for round in 0..3 {
            for block in 0..1000 - round {
                assert_eq!(write(&mut host.io, 1, block, &old[..UNIT]), 0);
                assert_eq!(write(&mut host.io, 2, block, &stays[..UNIT]), 0);
            }
        }
        let found = |pattern: &[u8]| {
            std::fs::read(&image).unwrap().windows(17).filter(|found| *found == pattern).count()
        };
        assert!(found(&old[..17]) > 100_000 && found(&stays[..17]) > 100_000);
        assert_eq!(format(&mut host.admin, 1, 0), 0);
        assert!(found(&old[..17]) > 100_000, "without an erase it is only deallocated");
        assert_eq!(format(&mut host.admin, 1, 1 << 9), 0);
        assert_eq!(found(&old[..17]), 0);
        assert!((0..1000).all(|block| read(&mut host.io, 2, block, 4096) == stays[..UNIT]));
    }
}

pub fn sanitize(admin: &mut Client, dword: u32) -> u16 {
    admin.command(command(admin::SANITIZE, 0, [dword, 0, 0, 0, 0, 0])).unwrap().code
}

/// Progress and status of the last Sanitize, and dword 10 of its command.
pub fn sanitize_status(admin: &mut Client) -> (u16, u16, u32) {
    let log = command(admin::GET_LOG_PAGE, ALL, [0x81 | 127 << 16, 0, 0, 0, 0, 0]);
    let log = admin.read_command(log, 512).unwrap().data;
    let word = |at: usize| u16::from_le_bytes([log[at], log[at + 1]]);
    (word(0), word(2), u32::from_le_bytes(log[4..8].try_into().unwrap()))
}

/// A drive with two block namespaces and one with records, all of whose contents have a pattern.
fn create_full_of(image: &Path, profile: &Profile, pattern: &[u8]) -> Device {
    let mut device = Device::create(image, profile).unwrap();
    let (attributes, at_ns) = (NamespaceAttributes::default(), device.time_ns());
    let namespace = &mut NamespaceId::default();
    device.submit(tantalum::Command::CreateNamespace { attributes, namespace }, at_ns).unwrap();
    for round in 0..2 {
        for lpn in 0..3000 - round {
            let at_ns = device.time_ns();
            let write = tantalum::Command::Write {
                lpn: tantalum::Lpn(lpn),
                data: &pattern[..UNIT],
                fua: false,
                handle: None,
            };
            device.submit(write, at_ns).unwrap();
        }
    }
    for number in 0..1000_u32 {
        let key = tantalum::Key::new(&[&pattern[..12], &number.to_le_bytes()].concat()).unwrap();
        let record = tantalum::KvRecord { namespace: *namespace, key, value: Some(&pattern[..200]) };
        let at_ns = device.time_ns();
        device.submit(tantalum::Command::KvPut { records: &[record] }, at_ns).unwrap();
    }
    device
}

fn count_in(image: &Path, pattern: &[u8]) -> usize {
    std::fs::read(image).unwrap().windows(pattern.len()).filter(|found| *found == pattern).count()
}

#[test]
fn a_sanitize_leaves_nothing_in_the_image() {
    let folder = tempfile::tempdir().unwrap();
    let old = b"what-must-be-gone".repeat(300);
    let mut refused = 0;
    for profile in ["tlc-nvme", "tlc-nvme-plp"] {
        let image = folder.path().join(format!("{profile}.tant"));
        let profile = Profile { capacity_bytes: 1 << 30, ..Profile::load(profile).unwrap() };
        let device = create_full_of(&image, &profile, &old);
        let server = serve(subsystem_on(device, 512, Pacing::None));
        let (mut host, mut other) = (attach(&server, Options::default()), other_host(&server, 2));
        assert_eq!(sanitize_status(&mut host.admin), (0xffff, 0, 0));
        assert_eq!(sanitize(&mut host.admin, 3), 0x002, "overwrite");
        assert_eq!(sanitize(&mut host.admin, 4), 0x002, "cryptographic erase");
        assert_eq!(sanitize(&mut host.admin, 2 | 1 << 9), 0x002, "without deallocating");
        assert_eq!(sanitize(&mut host.admin, 1), 0, "none has failed");
        assert!(count_in(&image, &old[..12]) > 100_000);
        let waits = other.admin.submit(command(admin::ASYNC_EVENT, 0, [0; 6]), Vec::new(), 0).unwrap();
        assert_eq!(sanitize(&mut host.admin, 2), 0);
        // what others send is refused until it is over
        loop {
            let formatted = format(&mut host.admin, 1, 1);
            let code = other.io.read_command(on(nvm::READ, 1, 0), 512).unwrap().code;
            assert!([0, 0x01d].contains(&code) && [0, 0x01d].contains(&formatted), "{code:x} {formatted:x}");
            if code == 0 {
                break;
            }
            refused += 1;
        }
        let told = other.admin.reap().unwrap();
        assert_eq!((told.id, told.result), (waits, 0x81_0106));
        let (progress, status, dword) = sanitize_status(&mut host.admin);
        assert_eq!((progress, status, dword & 7), (0xffff, 1, 2));
        assert_eq!(count_in(&image, &old[..12]), 0);
        // namespaces are as they were, without contents
        assert_eq!(listed(&mut host.admin, 2), [1, 2]);
        assert_eq!(read(&mut host.io, 1, 0, 512), [0; 512]);
        let list = host.io.read_command(command(0x06, 2, [4096, 0, 0, 0, 0, 0]), 4096).unwrap();
        assert_eq!((list.code, &list.data[..4]), (0, &[0; 4][..]));
        assert_eq!(write(&mut other.io, 1, 0, &pattern(1, 512)), 0);
        assert_eq!(read(&mut host.io, 1, 0, 512), pattern(1, 512));
    }
    println!("refused {refused} times");
    assert!(refused > 0);
}

/// Power is cut during a Sanitize; when hosts may attach again, it is complete.
#[test]
fn a_sanitize_that_power_cuts_short_is_completed_before_hosts_attach() {
    let folder = tempfile::tempdir().unwrap();
    let old = b"what-must-be-gone".repeat(300);
    for (number, operations) in [1, 2, 3, 5, 8, 13, 21].into_iter().enumerate() {
        let image = folder.path().join(format!("{number}.tant"));
        let device = create_full_of(&image, &small(), &old);
        let served = Served::start(device, &serving(&image, Pacing::None)).unwrap();
        let (address, stopper) = (served.address(), served.stopper());
        let (sender, recovered) = mpsc::channel();
        let serving = thread::spawn(move || {
            served.wait(|notice| {
                if let Notice::Recovered(_) = notice {
                    sender.send(()).unwrap();
                }
            })
        });
        let (mut admin, _, _) = attach_to(address).unwrap();
        Control::connect(&image).unwrap().cut(Some(operations), number as u64).unwrap();
        let begun = admin.command(command(admin::SANITIZE, 0, [2, 0, 0, 0, 0, 0]));
        let is_begun = begun.is_ok_and(|begun| begun.code == 0);
        recovered.recv_timeout(Duration::from_secs(60)).unwrap();
        let (mut admin, mut io, _) = loop {
            if let Ok(attached) = attach_to(address) {
                break attached;
            }
            thread::sleep(Duration::from_millis(2));
        };
        let state = sanitize_status(&mut admin).1;
        assert!(state == 1 || state == 0 && !is_begun, "{operations} operations, begun {is_begun}: {state}");
        if state == 1 {
            assert_eq!(count_in(&image, &old[..12]), 0, "{operations} operations");
            assert_eq!(read(&mut io, 1, 0, 4096), [0; UNIT]);
            // nobody goes on with it when there are new data
            assert_eq!(write(&mut io, 1, 5, &pattern(1, UNIT)), 0);
            thread::sleep(Duration::from_millis(50));
            assert_eq!(read(&mut io, 1, 5, 4096), pattern(1, UNIT));
        }
        println!("{operations} operations: begun {is_begun}, state {state}");
        drop((admin, io));
        stopper.stop();
        serving.join().unwrap().unwrap();
    }
}
