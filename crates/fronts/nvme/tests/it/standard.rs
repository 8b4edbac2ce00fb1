//! What the standard says about the bytes of answers, and about refusals, where hosts do not notice if it is otherwise.

use std::sync::Arc;

use crate::common::records::server as server_with_records;
use crate::common::{attach, cut_and_attach, names, pattern, serve, small, subsystem, subsystem_on};
use tantalum::{Device, Profile};
use tantalum_drive::Pacing;
use tantalum_nvme::client::{Client, Completed, Options, block_command, command};
use tantalum_nvme::controller::ENABLED;
use tantalum_nvme::failure::Failure;
use tantalum_nvme::server::Server;
use tantalum_nvme::wire::fabrics::{ANY_CONTROLLER, property};
use tantalum_nvme::wire::opcode::{admin, nvm, program};

/// Identify, with a command set.
fn identify(client: &mut Client, structure: u8, set: u8, namespace: u32) -> Completed {
    let dwords = [structure.into(), u32::from(set) << 24, 0, 0, 0, 0];
    client.read_command(command(admin::IDENTIFY, namespace, dwords), 4096).unwrap()
}

/// Get Log Page, with a command set.
fn log(client: &mut Client, page: u8, set: u8, bytes: u32) -> Completed {
    let dwords = [u32::from(page) | (bytes / 4 - 1) << 16, 0, 0, 0, u32::from(set) << 24, 0];
    client.read_command(command(admin::GET_LOG_PAGE, u32::MAX, dwords), bytes).unwrap()
}

fn admin_of(server: &Server) -> Client {
    Client::admin(server.address(), Options::default(), &names(), 0).unwrap().0
}

fn word(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn dword(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

#[test]
fn a_controller_enabled_with_wrong_entry_sizes_is_not_ready_until_it_is_reset() {
    let server = serve(subsystem(4096));
    let mut client = Client::open(server.address(), Options::default()).unwrap();
    assert_eq!(client.connect(0, 31, ANY_CONTROLLER, &names(), 0).unwrap().code, 0);
    let mut enable = |configuration: u64| {
        assert_eq!(client.set_property(property::CONFIGURATION, configuration).unwrap().code, 0);
        let status = client.property(property::STATUS, false).unwrap().result;
        (status, client.command(command(admin::KEEP_ALIVE, 0, [0; 6])).unwrap().code)
    };
    assert_eq!(enable(1), (2, 0x00c), "fatal, and no command but those of fabrics");
    assert_eq!(enable(ENABLED.into()), (2, 0x00c), "it must be reset first");
    assert_eq!(enable(0), (0, 0x00c));
    assert_eq!(enable(ENABLED.into()), (1, 0));
}

#[test]
fn the_controller_takes_host_identifiers_of_128_bits() {
    // what has namespaces also has an endurance group
    let discovery = "nqn.2014-08.org.nvmexpress.discovery".to_owned();
    for (name, groups) in [(names().subsystem, 1 << 4), (discovery, 0)] {
        let server = serve(subsystem(4096));
        let names = tantalum_nvme::client::Names { subsystem: name, ..names() };
        let (mut client, _) = Client::admin(server.address(), Options::default(), &names, 0).unwrap();
        let told = identify(&mut client, 1, 0, 0).data;
        assert_eq!(dword(&told, 96), 1 << 6 | 1 | groups, "CTRATT");
    }
}

#[test]
fn the_host_identifier_has_no_short_form() {
    let server = serve(subsystem(4096));
    let mut client = admin_of(&server);
    let mut get = |extended: u32, bytes: u32| {
        let get = command(admin::GET_FEATURES, 0, [0x81, extended, 0, 0, 0, 0]);
        let told = client.read_command(get, bytes).unwrap();
        (told.code, told.data)
    };
    assert_eq!(get(1, 16), (0, vec![7; 16]));
    // a tool that asks for the short form has room for eight bytes
    assert_eq!(get(0, 8), (0x002, Vec::new()));
    assert_eq!(get(0, 16), (0x002, Vec::new()));
}

#[test]
fn the_timestamp_goes_on_from_what_the_host_has_set() {
    let server = serve(subsystem(4096));
    let mut client = admin_of(&server);
    let get = |client: &mut Client| {
        let told = client.read_command(command(admin::GET_FEATURES, 0, [0x0e, 0, 0, 0, 0, 0]), 8).unwrap();
        let time = u64::from_le_bytes([&told.data[..6], &[0, 0]].concat().try_into().unwrap());
        (told.code, time, told.data[6], told.data[7])
    };
    let (code, age, origin, _) = get(&mut client);
    assert_eq!((code, origin), (0, 0));
    assert!(age < 60_000, "{age} ms");
    let now = 0x0123_4567_89ab_u64;
    let set = command(admin::SET_FEATURES, 0, [0x0e, 0, 0, 0, 0, 0]);
    assert_eq!(client.write_command(set, &now.to_le_bytes()).unwrap().code, 0);
    std::thread::sleep(std::time::Duration::from_millis(20));
    let (code, time, origin, _) = get(&mut client);
    assert_eq!((code, origin), (0, 1 << 1), "a host has set it");
    assert!((now + 20..now + 60_000).contains(&time), "{time}");
}

#[test]
fn features_belong_to_the_controller_and_not_to_its_namespaces() {
    let server = serve(subsystem(4096));
    let mut client = admin_of(&server);
    let mut code = |opcode: u8, feature: u32, namespace: u32| {
        client.command(command(opcode, namespace, [feature, 1, 0, 0, 0, 0])).unwrap().code
    };
    for namespace in [0, u32::MAX] {
        assert_eq!(code(admin::SET_FEATURES, 0x06, namespace), 0);
        assert_eq!(code(admin::GET_FEATURES, 0x06, namespace), 0);
    }
    assert_eq!(code(admin::SET_FEATURES, 0x06, 1), 0x10f, "Feature Not Namespace Specific");
    assert_eq!(code(admin::GET_FEATURES, 0x06, 1), 0, "its value for the namespace");
    assert_eq!(code(admin::SET_FEATURES, 0x05, 1), 0, "of a namespace");
    assert_eq!(code(admin::SET_FEATURES, 0x04, 0), 0x10e, "not changeable");
    for opcode in [admin::SET_FEATURES, admin::GET_FEATURES] {
        assert_eq!(code(opcode, 0x06, 2), 0x00b, "no such namespace");
        assert_eq!(code(opcode, 0x06, u32::MAX - 1), 0x00b);
        assert_eq!(code(opcode, 0xc0, 1), 0x002, "no such feature");
    }
    let mut capabilities = |feature: u32| {
        client.command(command(admin::GET_FEATURES, 0, [feature | 3 << 8, 0, 0, 0, 0, 0])).unwrap().result
    };
    assert_eq!((capabilities(0x06), capabilities(0x05)), (1 << 2, 1 << 1 | 1 << 2));
}

#[test]
fn the_effects_of_features_name_their_scope() {
    let effects = |profile: &str| {
        let profile = Profile { capacity_bytes: 1 << 30, ..Profile::load(profile).unwrap() };
        let server = serve(subsystem_on(Device::in_memory(&profile).unwrap(), 4096, Pacing::None));
        let mut client = admin_of(&server);
        let told = log(&mut client, 0x12, 0, 1024).data;
        let get = command(admin::GET_FEATURES, 0, [0x06, 0, 0, 0, 0, 0]);
        ([0x01, 0x05, 0x06, 0x7f].map(|feature| dword(&told, feature * 4)), client.command(get).unwrap().code)
    };
    let (controller, namespace) = (1 << 21 | 1, 1 << 20 | 1);
    assert_eq!(effects("tlc-nvme"), ([controller, namespace, controller, 0], 0));
    assert_eq!(
        effects("tlc-nvme-plp"),
        ([controller, namespace, 0, 0], 0x002),
        "no volatile cache to switch off"
    );
}

#[test]
fn a_structure_of_another_command_set_is_refused_as_that() {
    let server = server_with_records();
    let mut client = admin_of(&server);
    let mut code = |structure, set, namespace| identify(&mut client, structure, set, namespace).code;
    assert_eq!(code(0x00, 0, 1), 0);
    assert_eq!(code(0x00, 0, 2), 0x02c, "Invalid I/O Command Set");
    assert_eq!(code(0x05, 0, 2), 0x02c);
    assert_eq!(code(0x05, 1, 1), 0x02c);
    assert_eq!((code(0x05, 0, 1), code(0x05, 1, 2)), (0, 0));
    for (structure, set) in [(0x00, 0), (0x03, 0), (0x05, 0), (0x05, 1), (0x08, 0)] {
        // a namespace that could exist has zeros, but for its descriptors
        let of_possible = if structure == 0x03 { 0x00b } else { 0 };
        assert_eq!(code(structure, set, 9), of_possible, "CNS {structure:#x}, CSI {set}");
        assert_eq!(code(structure, set, 1000), 0x00b, "CNS {structure:#x}, CSI {set}");
    }
    assert_eq!(code(0x05, 2, 1), 0x002, "a command set that is not supported");
    assert_eq!(server.subsystem().errors.count(), 0, "what a host finds out by asking is no error");
}

#[test]
fn command_sets_are_those_of_the_namespaces() {
    let (with_records, without) = (server_with_records(), serve(subsystem(4096)));
    for (server, vector, offered) in [(&with_records, 3, 0x41), (&without, 1, 0x01)] {
        let mut client = admin_of(server);
        assert_eq!(identify(&mut client, 0x1c, 0, 0).data[..9], [vector, 0, 0, 0, 0, 0, 0, 0, 0]);
        let capabilities = client.property(property::CAPABILITIES, true).unwrap().result;
        assert_eq!(capabilities >> 37 & 0xff, offered, "CAP.CSS");
        let of_records = if offered == 1 { 0x002 } else { 0 };
        assert_eq!(identify(&mut client, 0x06, 1, 0).code, of_records);
        assert_eq!(identify(&mut client, 0x07, 1, 0).code, of_records);
    }
    // a host that selects all command sets is not served if there is but one
    let mut client = Client::open(without.address(), Options::default()).unwrap();
    assert_eq!(client.connect(0, 31, ANY_CONTROLLER, &names(), 0).unwrap().code, 0);
    client.set_property(property::CONFIGURATION, u64::from(ENABLED) | 6 << 4).unwrap();
    assert_eq!(client.property(property::STATUS, false).unwrap().result, 2);
}

/// Programs are executed by somebody else: where nobody does, their commands are unknown ones.
#[test]
fn a_subsystem_without_programs_does_not_know_their_commands() {
    let (mut own, with) = (Arc::into_inner(subsystem(4096)).unwrap(), serve(subsystem(4096)));
    own.programs = None;
    let without = serve(own.into());
    for (server, code, effects) in [(&without, Failure::INVALID_OPCODE.code(), 0), (&with, 0, 1)] {
        let mut host = attach(server, Options::default());
        let opened = host.io.read_command(command(program::OPEN, 1, [0; 6]), 64).unwrap();
        assert_eq!(opened.code, code);
        let log = log(&mut host.admin, 0x05, 0, 4096).data;
        assert_eq!(dword(&log, 1024 + usize::from(program::OPEN) * 4), effects);
    }
}

#[test]
fn each_command_set_has_its_effects_log() {
    let server = server_with_records();
    let mut client = admin_of(&server);
    let io = |log: &[u8], opcode: usize| dword(log, 1024 + opcode * 4);
    let blocks = log(&mut client, 0x05, 0, 4096).data;
    let records = log(&mut client, 0x05, 1, 4096).data;
    // Identify and Flush are in both; Write and Store, Read and Retrieve have the same opcodes
    for told in [&blocks, &records] {
        assert_eq!((dword(told, 0x06 * 4), io(told, 0x00), io(told, 0x01), io(told, 0x02)), (1, 1, 3, 1));
    }
    // Compare, Copy, Write Atomic; List, Delete, Exist, Put
    assert_eq!(
        [0x05, 0x19, 0x85].map(|opcode| (io(&blocks, opcode), io(&records, opcode))),
        [(1, 0), (3, 0), (3, 0)]
    );
    let of_records = [0x06, 0x10, 0x14, 0xa1].map(|opcode| (io(&blocks, opcode), io(&records, opcode)));
    assert_eq!(of_records, [(0, 1), (0, 3), (0, 1), (0, 3)]);
    assert_eq!(log(&mut client, 0x05, 2, 4096).code, 0x02c, "zones");
    assert_eq!(server.subsystem().errors.count(), 0);
    // a host that selected blocks only names no command set
    client.set_property(property::CONFIGURATION, 0).unwrap();
    client.set_property(property::CONFIGURATION, ENABLED.into()).unwrap();
    assert!(log(&mut client, 0x05, 1, 4096).data == blocks);
}

#[test]
fn smart_tells_a_temperature_and_power_cycles() {
    let server = serve(subsystem(4096));
    let told = log(&mut admin_of(&server), 0x02, 0, 512).data;
    assert_eq!((word(&told, 1), dword(&told, 112), dword(&told, 144)), (313, 1, 0), "40 degrees Celsius");
    let mut host = attach(&server, Options::default());
    host.write(0, 4096, &pattern(1, 4096));
    assert_eq!(host.io.command(block_command(nvm::FLUSH, 0, 1)).unwrap().code, 0);
    let mut host = cut_and_attach(&server);
    let told = log(&mut host.admin, 0x02, 0, 512).data;
    assert_eq!((dword(&told, 112), dword(&told, 144)), (2, 1), "power cycles and unsafe shutdowns");
    // the drive warns of heat only where it says that it does
    let controller = identify(&mut host.admin, 1, 0, 0).data;
    assert!(word(&told, 1) < word(&controller, 266), "WCTEMP");
}

/// Sizes are in blocks less one: NPWG and NPWA a page of flash, NPDG and NPDA a unit, NOWS a page on each plane.
#[test]
fn a_namespace_tells_what_the_flash_likes() {
    for (block_bytes, expected) in [(4096, [3, 3, 0, 0, 127]), (512, [31, 31, 7, 7, 1023])] {
        let server = serve(subsystem(block_bytes));
        let told = identify(&mut admin_of(&server), 0, 0, 1).data;
        assert_eq!([64, 66, 68, 70, 72].map(|at| word(&told, at)), expected, "blocks of {block_bytes} bytes");
        assert_eq!(told[24] >> 4 & 1, 1, "they are valid (OPTPERF)");
    }
    // pages of 4 KiB on fewer planes
    let mut profile = small();
    profile.flash.page_bytes = 4096;
    profile.flash.channels = 2;
    let server = serve(subsystem_on(Device::in_memory(&profile).unwrap(), 4096, Pacing::None));
    let told = identify(&mut admin_of(&server), 0, 0, 1).data;
    assert_eq!([64, 66, 68, 70, 72].map(|at| word(&told, at)), [0, 0, 0, 0, 15]);
    // a page on each of more planes than a command can write
    let mut profile = small();
    profile.flash.channels = 8;
    let server = serve(subsystem_on(Device::in_memory(&profile).unwrap(), 4096, Pacing::None));
    let mut host = attach(&server, Options::default());
    let told = identify(&mut host.admin, 0, 0, 1).data;
    assert_eq!(word(&told, 72), 127);
    host.write(0, 4096, &pattern(1, 128 * 4096));
}

/// Type, length, two bytes of zeros, and the value.
#[test]
fn each_namespace_has_a_uuid_beside_its_other_identifiers() {
    let server = server_with_records();
    let mut client = admin_of(&server);
    let mut uuids = Vec::new();
    for (namespace, set) in [(1, 0), (2, 1), (3, 1)] {
        let told = identify(&mut client, 3, 0, namespace).data;
        let heads: Vec<&[u8]> = [0, 12, 32, 52, 57].map(|at| &told[at..at + 4]).to_vec();
        assert_eq!(heads, [[1, 8, 0, 0], [2, 16, 0, 0], [3, 16, 0, 0], [4, 1, 0, 0], [0; 4]]);
        assert_eq!(told[56], set);
        let uuid = told[36..52].to_vec();
        assert_eq!((uuid[6] >> 4, uuid[8] >> 6), (8, 2), "a UUID of version 8");
        uuids.push(uuid);
    }
    uuids.dedup();
    assert_eq!(uuids.len(), 3);
    let again = identify(&mut client, 3, 0, 3).data;
    assert_eq!(again[36..52], uuids[2]);
}
