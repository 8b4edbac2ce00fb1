//! Hosts that send what Linux never would. Each gets the standard's answer or a clean end of its own connection, and a
//! correct host is not affected.

use std::io::Read;
use std::time::Duration;

use crate::common::bystander::Bystander;
use crate::common::{Host, UNIT, attach, names, pattern, serve, subsystem};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum_nvme::client::{Client, Names, Options, Pdu, block_command, command, fabrics};
use tantalum_nvme::failure::Failure;
use tantalum_nvme::server::Server;
use tantalum_nvme::wire::command::{IN_CAPSULE, Pointer, Submission, TRANSPORT};
use tantalum_nvme::wire::fabrics::{ANY_CONTROLLER, Connect, DISCOVERY_NQN};
use tantalum_nvme::wire::opcode::{FABRICS, admin, fabrics as fabrics_kind, nvm};
use tantalum_nvme::wire::pdu::{CommandCapsule, Data, Initialize, flag, kind};
use zerocopy::{FromBytes, IntoBytes};

fn plain(server: &Server) -> Client {
    Client::open(server.address(), Options::default()).unwrap()
}

/// The reason with which the controller ends a connection: status and information.
fn reason(client: &mut Client) -> (u16, u32) {
    loop {
        let Pdu { header, .. } = client.receive().expect("a termination request comes before the end");
        if header[0] == kind::C2H_TERM_REQ {
            let status = u16::from_le_bytes([header[8], header[9]]);
            let information = u32::from_le_bytes([header[10], header[11], header[12], header[13]]);
            assert!(client.receive().is_err(), "something came behind a termination request");
            return (status, information);
        }
    }
}

/// A correct host still can.
fn all_is_well(server: &Server) {
    let mut host = attach(server, Options { data_digest: true, ..Options::default() });
    let (data, block_bytes) = (pattern(77, 4 * UNIT), server.subsystem().settings.block_bytes as usize);
    host.write(500, block_bytes, &data);
    assert!(host.read(500, block_bytes, (data.len() / block_bytes) as u32) == data);
}

fn capsule(command: Submission) -> Vec<u8> {
    CommandCapsule::new(command).as_bytes().to_vec()
}

#[test]
fn headers_that_cannot_be_end_the_connection_with_their_reason() {
    let server = serve(subsystem(4096));
    let bystander = Bystander::start(&server);
    let flush = capsule(block_command(nvm::FLUSH, 0, 1));
    let changed = |at: usize, byte: u8| {
        let mut pdu = flush.clone();
        pdu[at] = byte;
        pdu
    };
    for (pdu, expected) in [
        (changed(0, 0x08), (1, 0)),                        // no such PDU
        (changed(0, kind::C2H_DATA), (1, 0)),              // a controller's
        (changed(0, kind::IC_REQ), (2, 0)),                // a second beginning
        (changed(1, 0x80), (1, 1)),                        // flags
        (changed(1, flag::HEADER_DIGEST), (1, 1)),         // a digest that was not agreed on
        (changed(2, 71), (1, 2)),                          // header length
        (changed(4, 71), (1, 4)),                          // shorter than its header
        (changed(4, 73), (1, 3)),                          // data without an offset
        ([changed(5, 0x80), vec![0; 8]].concat(), (1, 3)), // much data without an offset
        (
            {
                let mut p = changed(4, 200);
                p[3] = 74;
                p
            },
            (1, 3),
        ), // not aligned
        (
            {
                let mut p = changed(6, 1);
                p[3] = 72;
                p
            },
            (5, 0),
        ), // more than a capsule may carry
    ] {
        let mut client = plain(&server);
        client.send(&pdu).unwrap();
        assert_eq!(reason(&mut client), expected, "{:02x?}", &pdu[..8]);
    }
    all_is_well(&server);
    bystander.finish();
}

#[test]
fn the_first_pdu_must_be_the_first() {
    let server = serve(subsystem(4096));
    let mut client = Client::dial(server.address(), Options::default()).unwrap();
    client.send(&capsule(block_command(nvm::FLUSH, 0, 1))).unwrap();
    assert_eq!(reason(&mut client), (2, 0));
    let mut other_version = Initialize::new(kind::IC_REQ, 0, 0, 0);
    other_version.version = 1.into();
    let mut client = Client::dial(server.address(), Options::default()).unwrap();
    client.send(other_version.as_bytes()).unwrap();
    assert_eq!(reason(&mut client), (6, 8));
    let mut client = Client::dial(server.address(), Options::default()).unwrap();
    client.send(Initialize::new(kind::IC_REQ, 200, 0, 0).as_bytes()).unwrap();
    assert_eq!(reason(&mut client), (1, 10));
    all_is_well(&server);
}

#[test]
fn digests_that_do_not_match_are_noticed() {
    let server = serve(subsystem(4096));
    let bystander = Bystander::start(&server);
    let options = Options { header_digest: true, data_digest: true, ..Options::default() };
    // a header's ends the connection
    let mut client = Client::open(server.address(), options).unwrap();
    let mut pdu = client.encode(&capsule(block_command(nvm::FLUSH, 0, 1)), &[]);
    pdu[20] ^= 1;
    client.send(&pdu).unwrap();
    assert_eq!(reason(&mut client), (3, 0));
    // data's fail the command, and nothing was written
    let mut host = attach(&server, options);
    host.write(0, UNIT, &pattern(1, UNIT));
    let mut write = block_command(nvm::WRITE, 0, 1);
    write.id = 900.into();
    write.flags = 1 << 6;
    write.data = Pointer::new(UNIT as u32, IN_CAPSULE);
    let mut pdu = host.io.encode(&capsule(write), &pattern(2, UNIT));
    let middle = pdu.len() - 100;
    pdu[middle] ^= 0x10;
    host.io.send(&pdu).unwrap();
    let ended = host.io.reap().unwrap();
    assert_eq!((ended.id, ended.code), (900, Failure::TRANSIENT.code()));
    // so do data that were asked for
    write.data = Pointer::new(UNIT as u32, TRANSPORT);
    let pdu = host.io.encode(&capsule(write), &[]);
    host.io.send(&pdu).unwrap();
    let ready = Data::read_from_bytes(&host.io.receive().unwrap().header).unwrap();
    let header = Data::new(kind::H2C_DATA, flag::LAST, 900, ready.transfer.get(), 0, UNIT as u32);
    let mut pdu = host.io.encode(header.as_bytes(), &pattern(2, UNIT));
    *pdu.last_mut().unwrap() ^= 1;
    host.io.send(&pdu).unwrap();
    assert_eq!(host.io.reap().unwrap().code, Failure::TRANSIENT.code());
    assert!(host.read(0, UNIT, 1) == pattern(1, UNIT));
    bystander.finish();
}

/// Opens a transfer of two units and gives its R2T.
fn asked_for(host: &mut Host) -> Data {
    let mut write = block_command(nvm::WRITE, 0, 2);
    write.id = 7.into();
    write.flags = 1 << 6;
    write.data = Pointer::new(2 * UNIT as u32, TRANSPORT);
    host.io.send(&capsule(write)).unwrap();
    let ready = Data::read_from_bytes(&host.io.receive().unwrap().header).unwrap();
    assert_eq!((ready.command.get(), ready.offset.get(), ready.bytes.get()), (7, 0, 2 * UNIT as u32));
    ready
}

#[test]
fn data_that_were_not_asked_for_end_the_connection() {
    let server = serve(subsystem(4096));
    let bystander = Bystander::start(&server);
    let (unit, both) = (UNIT as u32, 2 * UNIT as u32);
    // command, tag (of the one that was given), flags, offset, bytes
    for (id, tag, flags, offset, bytes, expected) in [
        (7, 0, flag::LAST, 0, both + 4, (4, 0)),
        (7, 0, flag::LAST, unit, unit, (4, 0)),
        (7, 0, flag::LAST, 0, unit, (1, 1)),
        (7, 0, 0, 0, both, (1, 1)),
        (8, 0, flag::LAST, 0, both, (1, 8)),
        (7, 1, flag::LAST, 0, both, (1, 10)),
        (7, 0, flag::LAST, 0, 200 << 10, (5, 0)),
    ] {
        let mut host = attach(&server, Options::default());
        let ready = asked_for(&mut host);
        let tag = ready.transfer.get() + tag;
        let header = Data::new(kind::H2C_DATA, flags, id, tag, offset, bytes);
        let pdu = host.io.encode(header.as_bytes(), &vec![1; bytes as usize]);
        // the connection may be gone before all of it is sent
        let _ = host.io.send(&pdu);
        assert_eq!(reason(&mut host.io), expected, "{id} {tag} {flags} {offset} {bytes}");
    }
    // the same data twice
    let mut host = attach(&server, Options::default());
    let ready = asked_for(&mut host);
    let header = Data::new(kind::H2C_DATA, flag::LAST, 7, ready.transfer.get(), 0, both);
    let pdu = host.io.encode(header.as_bytes(), &vec![1; both as usize]);
    host.io.send(&pdu).unwrap();
    assert_eq!(host.io.reap().unwrap().code, 0);
    host.io.send(&pdu).unwrap();
    assert_eq!(reason(&mut host.io), (1, 10));
    all_is_well(&server);
    bystander.finish();
}

#[test]
fn a_write_that_breaks_off_leaves_what_was_there() {
    let server = serve(subsystem(4096));
    let mut host = attach(&server, Options::default());
    host.write(0, UNIT, &pattern(1, 2 * UNIT));
    let ready = asked_for(&mut host);
    let header = Data::new(kind::H2C_DATA, 0, 7, ready.transfer.get(), 0, UNIT as u32);
    let pdu = host.io.encode(header.as_bytes(), &pattern(2, UNIT));
    host.io.send(&pdu).unwrap();
    drop(host);
    std::thread::sleep(Duration::from_millis(50));
    assert!(attach(&server, Options::default()).read(0, UNIT, 2) == pattern(1, 2 * UNIT));
}

#[test]
fn before_connect_there_is_only_connect() {
    let server = serve(subsystem(4096));
    let mut client = plain(&server);
    for opcode in [nvm::FLUSH, admin::IDENTIFY, admin::KEEP_ALIVE] {
        assert_eq!(client.command(command(opcode, 1, [0; 6])).unwrap().code, Failure::SEQUENCE.code());
    }
    assert_eq!(client.property(0, true).unwrap().code, Failure::SEQUENCE.code());
    // admin commands need a controller that is enabled
    assert_eq!(client.connect(0, 31, ANY_CONTROLLER, &names(), 0).unwrap().code, 0);
    assert_eq!(client.command(command(admin::KEEP_ALIVE, 0, [0; 6])).unwrap().code, Failure::SEQUENCE.code());
    assert_eq!(client.connect(0, 31, ANY_CONTROLLER, &names(), 0).unwrap().code, Failure::SEQUENCE.code());
    assert_eq!(client.property(0, true).unwrap().code, 0);
}

#[test]
fn a_connect_is_refused_with_the_field_that_is_wrong() {
    let server = serve(subsystem(4096));
    let host = attach(&server, Options::default());
    let ours = names();
    let other = |change: &dyn Fn(&mut Names)| {
        let mut names = ours.clone();
        change(&mut names);
        names
    };
    let wrong_subsystem = other(&|names| names.subsystem.push('x'));
    let wrong_host = other(&|names| names.host.push('x'));
    let no_host = other(&|names| names.host.clear());
    let no_form = other(&|names| names.host = "nqn.host".to_owned());
    let long_host = other(&|names| names.host.extend(std::iter::repeat_n('x', 224 - ours.host.len())));
    let longest_host = other(&|names| names.host.extend(std::iter::repeat_n('x', 223 - ours.host.len())));
    let endless_host = other(&|names| names.host.extend(std::iter::repeat_n('x', 256 - ours.host.len())));
    let no_id = other(&|names| names.host_id = [0; 16]);
    let wrong_id = other(&|names| names.host_id[3] ^= 1);
    let (of_command, of_data) = (0, 1 << 16);
    let controller = host.controller;
    for (queue, entries, controller, names, result) in [
        (0, 0, ANY_CONTROLLER, &ours, of_command | 44),
        (0, 128, ANY_CONTROLLER, &ours, of_command | 44),
        (0, 31, 5, &ours, of_data | 16),
        (0, 31, ANY_CONTROLLER, &wrong_subsystem, of_data | 256),
        (0, 31, ANY_CONTROLLER, &no_host, of_data | 512),
        (0, 31, ANY_CONTROLLER, &no_form, of_data | 512),
        (0, 31, ANY_CONTROLLER, &long_host, of_data | 512),
        (0, 31, ANY_CONTROLLER, &endless_host, of_data | 512),
        (0, 31, ANY_CONTROLLER, &no_id, of_data),
        (2, 31, controller + 1, &ours, of_data | 16),
        (2, 31, controller, &wrong_host, of_data | 512),
        (2, 31, controller, &wrong_id, of_data),
        (2000, 31, controller, &ours, of_command | 42),
    ] {
        let ended = plain(&server).connect(queue, entries, controller, names, 0).unwrap();
        assert_eq!(
            (ended.code, ended.result),
            (Failure::CONNECT_PARAMETER.code(), result),
            "{queue} {entries}"
        );
    }
    assert_eq!(plain(&server).connect(0, 31, ANY_CONTROLLER, &longest_host, 0).unwrap().code, 0);
    let discovery = Names { subsystem: DISCOVERY_NQN.to_owned(), ..no_id };
    let refused = plain(&server).connect(0, 31, ANY_CONTROLLER, &discovery, 0).unwrap();
    assert_eq!((refused.code, refused.result), (0x182, of_data), "also to discover");
    let taken = plain(&server).connect(1, 31, controller, &ours, 0).unwrap();
    assert_eq!(taken.code, Failure::SEQUENCE.code(), "the queue is there already");
    let mut fields = Connect::new(0, 31, 0, 0);
    fields.format = 1.into();
    let connect = fabrics(fabrics_kind::CONNECT, fields.as_bytes());
    assert_eq!(
        plain(&server).write_command(connect, &[0; 1024]).unwrap().code,
        Failure::CONNECT_FORMAT.code()
    );
    assert_eq!(plain(&server).write_command(connect, &[0; 512]).unwrap().code, Failure::SGL_LENGTH.code());
}

#[test]
fn pointers_and_fields_that_cannot_be_fail_their_command() {
    let server = serve(subsystem(4096));
    let mut host = attach(&server, Options::default());
    let read = |pointer: Pointer| Submission { data: pointer, ..block_command(nvm::READ, 0, 1) };
    let mut code = |command: Submission| host.io.command(command).unwrap().code;
    assert_eq!(code(read(Pointer::new(4095, TRANSPORT))), Failure::SGL_LENGTH.code());
    assert_eq!(code(read(Pointer::new(8192, TRANSPORT))), 0, "there may be more room than data");
    assert_eq!(code(read(Pointer::new(u32::MAX, TRANSPORT))), Failure::SGL_LENGTH.code());
    assert_eq!(code(read(Pointer::new(4096, IN_CAPSULE))), Failure::SGL_TYPE.code());
    assert_eq!(code(read(Pointer::new(4096, 0x20))), Failure::SGL_TYPE.code());
    let write = |address: u64| {
        let mut pointer = Pointer::new(4096, IN_CAPSULE);
        pointer.address = address.into();
        Submission { data: pointer, ..block_command(nvm::WRITE, 0, 1) }
    };
    assert_eq!(code(write(0)), Failure::SGL_OFFSET.code(), "nothing is in the capsule");
    assert_eq!(code(write(u64::MAX)), Failure::SGL_OFFSET.code());
    assert_eq!(
        code(Submission { flags: 1, ..block_command(nvm::FLUSH, 0, 1) }),
        Failure::INVALID_FIELD.code()
    );
    assert_eq!(code(command(FABRICS, 0x77, [0; 6])), Failure::INVALID_OPCODE.code());
    for opcode in [0x03, 0x06, 0x14, 0x7f, 0xff] {
        let ended = code(command(opcode, 1, [0; 6]));
        assert!(ended == Failure::INVALID_OPCODE.code() || ended == Failure::SEQUENCE.code(), "{opcode:#x}");
    }
    for namespace in [0, 2, u32::MAX] {
        let flush = code(command(nvm::FLUSH, namespace, [0; 6]));
        let expected = if namespace == u32::MAX { 0 } else { Failure::INVALID_NAMESPACE.code() };
        assert_eq!(flush, expected);
    }
}

#[test]
fn one_name_for_two_commands_fails_the_second() {
    let server = serve(subsystem(4096));
    let (mut client, _) = Client::admin(server.address(), Options::default(), &names(), 0).unwrap();
    let event = client.submit(command(admin::ASYNC_EVENT, 0, [0; 6]), Vec::new(), 0).unwrap();
    let mut again = command(admin::KEEP_ALIVE, 0, [0; 6]);
    again.id = event.into();
    again.flags = 1 << 6;
    client.send(&capsule(again)).unwrap();
    let ended = client.reap().unwrap();
    assert_eq!((ended.id, ended.code), (event, Failure::ID_CONFLICT.code()));
}

#[test]
fn more_commands_than_the_queue_has_entries_end_the_connection() {
    let server = serve(subsystem(4096));
    let bystander = Bystander::start(&server);
    let mut host = attach(&server, Options::default());
    let write = block_command(nvm::WRITE, 0, 16);
    for id in 0..200_u16 {
        // data that never arrive keep their commands in progress
        let mut write = write;
        write.id = id.into();
        write.flags = 1 << 6;
        write.data = Pointer::new(16 * UNIT as u32, TRANSPORT);
        if host.io.send(&capsule(write)).is_err() {
            break;
        }
    }
    assert_eq!(reason(&mut host.io).0, 2);
    all_is_well(&server);
    bystander.finish();
}

#[test]
fn memory_is_asked_for_within_the_budget_and_all_commands_are_done_in_the_end() {
    let server = serve(subsystem(4096));
    let bystander = Bystander::start(&server);
    let mut host = attach(&server, Options::default());
    let data = pattern(5, 512 << 10);
    for index in 0..100_u64 {
        let write = block_command(nvm::WRITE, index % 64 * 128, 128);
        host.io.submit_write(write, data.clone()).unwrap();
    }
    // at most eight of half a MiB may be requested before data have arrived
    let mut asked = 0;
    host.io.stream().set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    let mut bytes = [0; 24];
    while host.io.stream().read_exact(&mut bytes).is_ok() {
        assert_eq!(bytes[0], kind::R2T);
        asked += 1;
    }
    assert_eq!(asked, 8);
    bystander.finish();
}

#[test]
fn reads_that_nobody_takes_stop_the_connection_and_no_other() {
    let server = serve(subsystem(4096));
    let bystander = Bystander::start(&server);
    let mut host = attach(&server, Options::default());
    for _ in 0..100 {
        host.io.submit(block_command(nvm::READ, 0, 128), Vec::new(), 512 << 10).unwrap();
    }
    all_is_well(&server);
    for _ in 0..100 {
        let ended = host.io.reap().unwrap();
        assert_eq!((ended.code, ended.data.len()), (0, 512 << 10));
    }
    bystander.finish();
}

#[test]
fn a_byte_at_a_time_is_as_good() {
    let server = serve(subsystem(4096));
    let bystander = Bystander::start(&server);
    let options = Options { header_digest: true, data_digest: true, ..Options::default() };
    let mut host = attach(&server, options);
    let mut write = block_command(nvm::WRITE, 3, 1);
    write.id = 44.into();
    write.flags = 1 << 6;
    write.data = Pointer::new(UNIT as u32, IN_CAPSULE);
    let pdu = host.io.encode(&capsule(write), &pattern(8, UNIT));
    let mut pieces = pdu.chunks(1).take(200).collect::<Vec<_>>();
    pieces.push(&pdu[200..]);
    for piece in pieces {
        host.io.send(piece).unwrap();
        std::thread::yield_now();
    }
    let ended = host.io.reap().unwrap();
    assert_eq!((ended.id, ended.code), (44, 0));
    assert!(host.read(3, UNIT, 1) == pattern(8, UNIT));
    bystander.finish();
}

/// Commands with random fields on both queues, and PDUs with random bytes changed. The seed is printed; `SEED` chooses.
/// Admin commands by which a host may take namespaces, or what is in them, from others.
const TAKES_NAMESPACES: [u8; 4] = [0x0d, 0x15, 0x80, 0x84];

#[test]
fn random_commands_and_damaged_pdus_harm_nobody() {
    let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    println!("SEED={seed}");
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let server = serve(subsystem(512));
    let bystander = Bystander::start(&server);
    let (mut sent, mut answer_bytes) = (0, 0);
    for round in 0..150 {
        let options =
            Options { header_digest: rng.random(), data_digest: rng.random(), ..Options::default() };
        let mut host = attach(&server, options);
        for _ in 0..20 {
            let client = if rng.random() { &mut host.io } else { &mut host.admin };
            let mut submission = Submission::read_from_bytes(&rng.random::<[u8; 64]>()).unwrap();
            submission.opcode = if rng.random_ratio(1, 4) { rng.random() } else { rng.random_range(0..0x20) };
            if TAKES_NAMESPACES.contains(&submission.opcode) {
                continue;
            }
            submission.namespace = rng.random_range(0..3_u32).into();
            submission.flags = 1 << 6;
            for dword in &mut submission.dword10 {
                if rng.random_ratio(3, 4) {
                    *dword = rng.random_range(0..9_u32).into();
                }
            }
            submission.data = Pointer::new(
                512 << rng.random_range(0..5),
                [IN_CAPSULE, TRANSPORT][usize::from(rng.random::<bool>())],
            );
            let data = vec![3; rng.random_range(0..3) * 4096];
            let mut pdu = client.encode(&capsule(submission), &data);
            if rng.random_ratio(1, 8) {
                let at = rng.random_range(0..pdu.len());
                pdu[at] = rng.random();
            }
            if client.send(&pdu).is_err() {
                break;
            }
            sent += 1;
        }
        if round % 10 == 9 {
            let mut rest = Vec::new();
            host.io.stream().set_read_timeout(Some(Duration::from_millis(50))).unwrap();
            let _ = host.io.stream().read_to_end(&mut rest);
            answer_bytes += rest.len();
        }
    }
    assert!(answer_bytes > 1000, "{answer_bytes} bytes: next to nothing was answered");
    assert!(sent > 1000, "{sent}: the connections ended too early");
    all_is_well(&server);
    bystander.finish();
}
