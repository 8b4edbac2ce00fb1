//! A namespace with zones: what hosts are told of it, its commands, and the status of each refusal.

use crate::common::zoned::{CAPACITY, SIZE, ZONES, profile, server, write};
use crate::common::{
    Host, UNIT, attach, names, pattern, serve, settings, small, subsystem_on, subsystem_with, wait_until,
};
use tantalum::{Device, Key, KvRecord, NamespaceAttributes, NamespaceId, Plp, Status, result_of};
use tantalum_drive::Pacing;
use tantalum_nvme::client::{
    Client, Completed, Options, block_command, command, zone_append, zone_send, zoned,
};
use tantalum_nvme::failure::Failure;
use tantalum_nvme::namespaces::SanitizeState;
use tantalum_nvme::wire::command::Submission;
use tantalum_nvme::wire::identify::{cns, command_set};
use tantalum_nvme::wire::log_page::id;
use tantalum_nvme::wire::opcode::{admin, nvm, vendor, zoned as opcode};
use tantalum_nvme::wire::zones::{action, state};
use zerocopy::IntoBytes;

fn identify(client: &mut Client, structure: u8, set: u8, namespace: u32) -> Completed {
    let dwords = [structure.into(), u32::from(set) << 24, 0, 0, 0, 0];
    client.read_command(command(admin::IDENTIFY, namespace, dwords), 4096).unwrap()
}

fn log(client: &mut Client, page: u8, set: u8, namespace: u32, bytes: u32) -> Completed {
    let dwords = [u32::from(page) | (bytes / 4 - 1) << 16, 0, 0, 0, u32::from(set) << 24, 0];
    client.read_command(command(admin::GET_LOG_PAGE, namespace, dwords), bytes).unwrap()
}

fn numbers(list: &[u8]) -> Vec<u32> {
    let words = list.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap()));
    words.take_while(|number| *number != 0).collect()
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

/// Zone Management Send or Receive, or an append, with these dwords 10 and 13.
fn raw(host: &mut Host, opcode: u8, first: u64, dword13: u32) -> u16 {
    let dwords = [first as u32, (first >> 32) as u32, 0, dword13, 0, 0];
    host.io.command(command(opcode, 2, dwords)).unwrap().code
}

#[test]
fn hosts_are_told_of_the_namespace_with_zones() {
    let server = server(Plp::None);
    let (mut client, _) = Client::admin(server.address(), Options::default(), &names(), 0).unwrap();
    let mut told = |structure, set, namespace| identify(&mut client, structure, set, namespace);
    for lists in [cns::ACTIVE_NAMESPACES, cns::ALLOCATED_NAMESPACES] {
        assert_eq!(numbers(&told(lists, 0, 0).data), [1, 2]);
    }
    for lists in [cns::ACTIVE_NAMESPACES_OF_SET, cns::ALLOCATED_NAMESPACES_OF_SET] {
        assert_eq!(numbers(&told(lists, command_set::NVM, 0).data), [1]);
        assert_eq!(numbers(&told(lists, command_set::ZONED, 0).data), [2]);
        assert_eq!(told(lists, command_set::KEY_VALUE, 0).code, Failure::INVALID_FIELD.code());
    }
    let controller = told(cns::CONTROLLER, 0, 0).data;
    assert_eq!(long(&controller, 280), (8 << 20) + ZONES.count as u64 * CAPACITY * UNIT as u64, "TNVMCAP");
    assert_eq!(u32::from_le_bytes(controller[92..96].try_into().unwrap()) >> 27 & 1, 1, "OAES");
    assert_eq!(told(cns::COMMAND_SETS, 0, 0).data[0], 1 << 0 | 1 << 2);
    assert_eq!(
        told(cns::CONTROLLER_OF_SET, command_set::ZONED, 0).data,
        vec![0; 4096],
        "ZASL is that of MDTS"
    );
    let descriptors = told(cns::NAMESPACE_DESCRIPTORS, 0, 2).data;
    assert_eq!(descriptors[52..57], [4, 1, 0, 0, command_set::ZONED]);
    // as blocks: its size, its capacity, one format of 4 KiB; as zones: the limits, and the size of a zone
    for structure in [cns::NAMESPACE, cns::ALLOCATED_NAMESPACE] {
        let blocks = told(structure, 0, 2).data;
        assert_eq!((long(&blocks, 0), long(&blocks, 8)), (6 * SIZE, 6 * CAPACITY));
        assert_eq!((blocks[25], blocks[128 + 2], blocks[33] & 7), (0, 12, 1));
    }
    let zones = told(cns::NAMESPACE_OF_SET, command_set::ZONED, 2).data;
    assert_eq!(zones[..12], [0, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0], "ZOC, OZCS, MAR, MOR");
    assert_eq!((long(&zones, 2816), zones[2824]), (SIZE, 0));
    assert_eq!(told(cns::NAMESPACE_OF_SET, command_set::NVM, 2).data, vec![0; 4096]);
    assert_eq!(told(cns::NAMESPACE_OF_SET, command_set::KEY_VALUE, 2).code, Failure::COMMAND_SET.code());
    assert_eq!(told(cns::NAMESPACE_OF_SET, command_set::ZONED, 1).code, Failure::COMMAND_SET.code());
    assert_eq!(told(cns::NAMESPACE_OF_ALL_SETS, 0, 2).data[14], 1, "ready");
    // commands
    let effects = log(&mut client, id::EFFECTS, command_set::ZONED, u32::MAX, 4096).data;
    let of = |opcode: u8| effects[(256 + usize::from(opcode)) * 4];
    assert_eq!(
        [nvm::READ, nvm::WRITE, opcode::ZONE_APPEND, opcode::ZONE_MANAGEMENT_SEND].map(of),
        [1, 3, 3, 3]
    );
    assert_eq!([opcode::ZONE_MANAGEMENT_RECEIVE, nvm::COPY, vendor::PUT].map(of), [1, 0, 0]);
    let pages = log(&mut client, id::SUPPORTED, 0, u32::MAX, 1024).data;
    assert_eq!(pages[usize::from(id::CHANGED_ZONES) * 4], 1);
    // the combination of command sets
    let profile = |client: &mut Client, value: u32| {
        client.command(command(admin::SET_FEATURES, 0, [0x19, value, 0, 0, 0, 0])).unwrap().code
    };
    assert_eq!(client.command(command(admin::GET_FEATURES, 0, [0x19, 0, 0, 0, 0, 0])).unwrap().result, 0);
    assert_eq!(profile(&mut client, 0), 0);
    assert_eq!(profile(&mut client, 1), Failure::COMMAND_SET_COMBINATION.code());
}

#[test]
fn a_drive_without_zones_has_no_such_namespace() {
    let server = serve(subsystem_on(Device::in_memory(&small()).unwrap(), 4096, Pacing::None));
    let mut host = attach(&server, Options::default());
    for structure in [cns::CONTROLLER_OF_SET, cns::ACTIVE_NAMESPACES_OF_SET] {
        assert_eq!(identify(&mut host.admin, structure, 2, 0).code, Failure::INVALID_FIELD.code());
    }
    assert_eq!(log(&mut host.admin, id::CHANGED_ZONES, 0, 2, 4096).code, Failure::INVALID_LOG_PAGE.code());
    assert_eq!(host.append(0, &pattern(1, UNIT)), Err(Failure::INVALID_NAMESPACE.code()));
    let events = command(admin::SET_FEATURES, 0, [0x0b, 1 << 27, 0, 0, 0, 0]);
    assert_eq!(host.admin.command(events).unwrap().code, Failure::INVALID_FIELD.code());
    let profile = command(admin::GET_FEATURES, 0, [0x19, 0, 0, 0, 0, 0]);
    assert_eq!(host.admin.command(profile).unwrap().code, Failure::INVALID_FIELD.code());
}

/// Its number stays, whatever other namespaces there are.
#[test]
fn no_other_namespace_gets_its_number_and_hosts_neither_make_nor_delete_it() {
    let mut device = Device::in_memory(&profile(Plp::None)).unwrap();
    let at_ns = device.time_ns();
    let attributes = NamespaceAttributes::default();
    let made = |namespace: &mut _| {
        device.submit(tantalum::Command::CreateNamespace { attributes, namespace }, at_ns)
    };
    assert_eq!(result_of(made).unwrap(), NamespaceId(2));
    let (key, at_ns) = (Key::new(b"key").unwrap(), device.time_ns());
    let record = KvRecord { namespace: NamespaceId(2), key, value: Some(b"value") };
    device.submit(tantalum::Command::KvPut { records: &[record] }, at_ns).unwrap();
    let server = serve(subsystem_on(device, 4096, Pacing::None));
    let mut host = attach(&server, Options::default());
    let list = |host: &mut Host, set| {
        numbers(&identify(&mut host.admin, cns::ALLOCATED_NAMESPACES_OF_SET, set, 0).data)
    };
    assert_eq!([0, 1, 2].map(|set| list(&mut host, set)), [vec![1], vec![3], vec![2]]);
    let mut asked = |opcode, namespace, dwords, data: &[u8]| {
        host.admin.write_command(command(opcode, namespace, dwords), data).unwrap()
    };
    let mut controllers = vec![0; 4096];
    controllers[0] = 1;
    controllers[2..4].copy_from_slice(&host.controller.to_le_bytes());
    let delete = asked(admin::NAMESPACE_MANAGEMENT, 2, [1, 0, 0, 0, 0, 0], &[]);
    assert_eq!(delete.code, Failure::INVALID_FIELD.code());
    let attach_again = asked(admin::NAMESPACE_ATTACHMENT, 2, [0; 6], &controllers);
    assert_eq!(attach_again.code, Failure::ALREADY_ATTACHED.code());
    let detach = asked(admin::NAMESPACE_ATTACHMENT, 2, [1, 0, 0, 0, 0, 0], &controllers);
    assert_eq!(detach.code, Failure::INVALID_FIELD.code());
    assert_eq!(asked(admin::FORMAT, 2, [0; 6], &[]).code, Failure::INVALID_FORMAT.code());
    // one of zones is not made, and two of blocks get other numbers
    let mut new = vec![0; 4096];
    (new[0], new[8]) = (16, 16);
    let create = [0, u32::from(command_set::ZONED) << 24, 0, 0, 0, 0];
    let refused = asked(admin::NAMESPACE_MANAGEMENT, 0, create, &new);
    assert_eq!(refused.code, Failure::COMMAND_SET_UNSUPPORTED.code());
    assert_eq!(asked(admin::NAMESPACE_MANAGEMENT, 1, [1, 0, 0, 0, 0, 0], &[]).code, 0);
    let made = [0; 4].map(|_| asked(admin::NAMESPACE_MANAGEMENT, 0, [0; 6], &new));
    assert!(made.iter().all(|made| made.code == 0), "{made:?}");
    assert_eq!(list(&mut host, 0), made.each_ref().map(|made| made.result as u32));
    assert_eq!([1, 2].map(|set| list(&mut host, set)), [vec![3], vec![2]]);
    assert_eq!(host.append(0, &pattern(1, UNIT)), Ok(0));
}

#[test]
fn zones_are_written_in_order_and_each_refusal_has_the_standards_status() {
    let server = server(Plp::None);
    let mut host = attach(&server, Options::default());
    let (unit, two) = (pattern(1, UNIT), pattern(2, 2 * UNIT));
    // a read needs nothing that was written
    assert_eq!(host.zone_read(2 * SIZE - 90, 90).unwrap(), vec![0; 90 * UNIT]);
    assert_eq!(host.zone_read(SIZE - 1, 2), Err(Failure::ZONE_BOUNDARY.code()));
    assert_eq!(host.zone_read(6 * SIZE - 1, 2), Err(Failure::OUT_OF_RANGE.code()));
    // the write pointer
    assert_eq!(host.zone_write(0, &two), 0);
    assert_eq!(host.zone_write(0, &unit), Failure::ZONE_INVALID_WRITE.code());
    assert_eq!(host.zone_write(3, &unit), Failure::ZONE_INVALID_WRITE.code());
    assert_eq!(host.append(0, &unit), Ok(2));
    assert_eq!(host.states()[0], (state::IMPLICITLY_OPEN, 3));
    assert_eq!(host.zone_read(0, 3).unwrap(), [&two[..], &unit].concat());
    // appends name the zone's first block
    let elsewhere = host.io.write_command(zone_append(1, 1), &unit).unwrap();
    assert_eq!(elsewhere.code, Failure::INVALID_FIELD.code());
    assert_eq!(host.append(6, &unit), Err(Failure::OUT_OF_RANGE.code()));
    let directive = Submission { dword10: [0, 0, 2 << 20, 0, 0, 0].map(Into::into), ..zone_append(0, 1) };
    assert_eq!(host.io.write_command(directive, &unit).unwrap().code, Failure::INVALID_FIELD.code());
    let too_much = pattern(3, (128 + 1) * UNIT);
    assert_eq!(host.append(0, &too_much), Err(Failure::INVALID_FIELD.code()));
    // the capacity
    assert_eq!(host.zone_write(3, &pattern(5, (CAPACITY as usize - 100 - 3) * UNIT)), 0);
    let (rest, last) = (pattern(4, 101 * UNIT), CAPACITY - 100);
    assert_eq!(host.zone_write(last, &rest), Failure::ZONE_BOUNDARY.code());
    assert_eq!(host.append(0, &rest), Err(Failure::ZONE_BOUNDARY.code()));
    assert_eq!(host.states()[0], (state::IMPLICITLY_OPEN, last), "what is refused changes nothing");
    assert_eq!(host.append(0, &rest[UNIT..]), Ok(last));
    assert_eq!(host.states()[0], (state::FULL, u64::MAX));
    assert_eq!(host.zone_write(CAPACITY, &unit), Failure::ZONE_FULL.code());
    assert_eq!(host.append(0, &unit), Err(Failure::ZONE_FULL.code()));
    assert!(host.zone_read(last, 100).unwrap() == rest[UNIT..]);
    // states
    assert_eq!(host.send(action::OPEN, Some(0)), Failure::ZONE_TRANSITION.code());
    assert_eq!(host.send(action::CLOSE, Some(0)), Failure::ZONE_TRANSITION.code());
    assert_eq!(host.send(action::CLOSE, Some(1)), Failure::ZONE_TRANSITION.code(), "it is empty");
    assert_eq!(host.send(action::OFFLINE, Some(1)), Failure::ZONE_TRANSITION.code());
    assert_eq!(host.send(action::FINISH, Some(0)), 0, "again");
    assert_eq!(host.send(action::RESET, Some(0)), 0);
    assert_eq!(host.states()[0], (state::EMPTY, 0));
    assert_eq!(host.zone_read(0, 128).unwrap(), vec![0; 128 * UNIT]);
    // the limits: two open, three active
    assert_eq!([1, 2].map(|zone| host.send(action::OPEN, Some(zone))), [0, 0]);
    assert_eq!(host.send(action::OPEN, Some(3)), Failure::TOO_MANY_OPEN_ZONES.code());
    assert_eq!(host.append(3, &unit), Err(Failure::TOO_MANY_OPEN_ZONES.code()));
    assert_eq!(host.append(1, &unit), Ok(SIZE));
    assert_eq!(host.send(action::CLOSE, Some(1)), 0);
    assert_eq!(host.append(3, &unit), Ok(3 * SIZE));
    assert_eq!(host.append(4, &unit), Err(Failure::TOO_MANY_ACTIVE_ZONES.code()));
    assert_eq!(host.send(action::OPEN, Some(4)), Failure::TOO_MANY_ACTIVE_ZONES.code());
    assert_eq!(
        host.states()[1..5],
        [(state::CLOSED, 1), (state::EXPLICITLY_OPEN, 0), (state::IMPLICITLY_OPEN, 1), (state::EMPTY, 0)]
    );
    // fields of Zone Management Send: its zone, its action, and what is not offered
    let send = opcode::ZONE_MANAGEMENT_SEND;
    assert_eq!(raw(&mut host, send, 1, action::RESET.into()), Failure::INVALID_FIELD.code());
    assert_eq!(raw(&mut host, send, 6 * SIZE, action::RESET.into()), Failure::OUT_OF_RANGE.code());
    for not_offered in [0, 0x10, 0x11, u32::from(action::OPEN) | 1 << 9] {
        assert_eq!(raw(&mut host, send, 0, not_offered), Failure::INVALID_FIELD.code(), "{not_offered:#x}");
    }
    // all zones
    assert_eq!(host.send(action::CLOSE, None), 0);
    assert_eq!(host.states()[1..4], [(state::CLOSED, 1), (state::EMPTY, 0), (state::CLOSED, 1)]);
    assert_eq!(host.send(action::OFFLINE, None), 0, "none is read-only");
    assert_eq!(host.send(action::FINISH, None), 0);
    assert_eq!(host.states().iter().filter(|(state, _)| *state == state::FULL).count(), 2);
    assert_eq!(host.send(action::RESET, None), 0);
    assert_eq!(host.states(), [(state::EMPTY, 0); 6]);
    // commands of other sets
    for opcode in [nvm::COPY, nvm::WRITE_UNCORRECTABLE, nvm::RESERVATION_REPORT, vendor::PUT, 0x7b] {
        assert_eq!(host.io.command(command(opcode, 2, [0; 6])).unwrap().code, Failure::INVALID_OPCODE.code());
    }
    let of_blocks = host.io.command(Submission { namespace: 1.into(), ..zone_send(action::RESET, None) });
    assert_eq!(of_blocks.unwrap().code, Failure::INVALID_OPCODE.code());
}

#[test]
fn reports_have_the_zones_that_are_asked_for() {
    let server = server(Plp::None);
    let mut host = attach(&server, Options::default());
    for zone in [1, 3] {
        assert_eq!(host.append(zone, &pattern(zone, UNIT)), Ok(zone * SIZE));
    }
    assert_eq!(host.send(action::OPEN, Some(3)), 0);
    assert_eq!(host.send(action::FINISH, Some(4)), 0);
    let all = 64 + 6 * 64;
    assert_eq!(host.reported(0, 0, false, all), Ok((6, vec![0, 1, 2, 3, 4, 5])));
    assert_eq!(host.reported(2 * SIZE + 5, 0, false, all), Ok((4, vec![2, 3, 4, 5])), "from within a zone");
    assert_eq!(host.reported(6 * SIZE, 0, false, all), Err(Failure::OUT_OF_RANGE.code()));
    for (states, zones) in
        [(1, vec![0, 2, 5]), (2, vec![1]), (3, vec![3]), (4, vec![]), (5, vec![4]), (6, vec![]), (7, vec![])]
    {
        assert_eq!(host.reported(0, states, false, all), Ok((zones.len() as u64, zones)));
    }
    assert_eq!(host.reported(0, 8, false, all), Err(Failure::INVALID_FIELD.code()));
    // room for two, and for none
    assert_eq!(host.reported(0, 1, false, 64 + 2 * 64 + 4), Ok((3, vec![0, 2])));
    assert_eq!(host.reported(0, 1, true, 64 + 2 * 64 + 4), Ok((2, vec![0, 2])));
    assert_eq!(host.reported(0, 0, false, 64), Ok((6, vec![])));
    assert_eq!(host.reported(0, 0, false, 60), Err(Failure::INVALID_FIELD.code()));
    assert_eq!(host.reported(0, 0, false, (512 << 10) + 4), Err(Failure::INVALID_FIELD.code()));
    // an extended report has descriptor extensions
    assert_eq!(raw(&mut host, opcode::ZONE_MANAGEMENT_RECEIVE, 0, 1), Failure::INVALID_FIELD.code());
    let zone = host.zones()[1];
    assert_eq!((zone.kind, zone.capacity.get(), zone.pointer.get()), (2, CAPACITY, SIZE + 1));
}

#[test]
fn other_commands_on_blocks_keep_the_order_of_zones() {
    let server = server(Plp::None);
    let mut host = attach(&server, Options::default());
    let data = pattern(1, 8 * UNIT);
    assert_eq!(host.zone_write(0, &data), 0);
    let compare = |host: &mut Host, data: &[u8]| {
        let compare = zoned(nvm::COMPARE, 0, (data.len() / UNIT) as u32);
        host.io.write_command(compare, data).unwrap().code
    };
    assert_eq!((compare(&mut host, &data), compare(&mut host, &data[UNIT..])), (0, Failure::COMPARE.code()));
    let mut on = |opcode, first, count| host.io.command(zoned(opcode, first, count)).unwrap().code;
    assert_eq!(on(nvm::VERIFY, 0, SIZE as u32), 0);
    assert_eq!(on(nvm::VERIFY, 0, SIZE as u32 + 1), Failure::ZONE_BOUNDARY.code());
    assert_eq!(on(nvm::WRITE_ZEROES, 4, 4), Failure::ZONE_INVALID_WRITE.code());
    assert_eq!(on(nvm::WRITE_ZEROES, 8, CAPACITY as u32 - 7), Failure::ZONE_BOUNDARY.code());
    // nothing of it was written, though more than one command moves
    assert_eq!(on(nvm::WRITE_ZEROES, 8, CAPACITY as u32 - 8), 0);
    assert_eq!(on(nvm::WRITE_ZEROES, CAPACITY, 1), Failure::ZONE_FULL.code());
    assert_eq!(on(nvm::FLUSH, 0, 1), 0);
    // a hint: nothing is deallocated before the reset
    let mut ranges = vec![0; 16];
    ranges[4] = 8;
    let deallocate = command(nvm::DATASET_MANAGEMENT, 2, [0, 4, 0, 0, 0, 0]);
    assert_eq!(host.io.write_command(deallocate, &ranges).unwrap().code, 0);
    assert!(host.zone_read(0, 8).unwrap() == data);
    ranges[9] = 16;
    let beyond = host.io.write_command(deallocate, &ranges).unwrap();
    assert_eq!(beyond.code, Failure::OUT_OF_RANGE.code());
    assert_eq!(host.states()[0].0, state::FULL);
    // nothing of it is in the blocks, and a copy does not come from it
    assert_eq!(host.read(0, UNIT, 8), vec![0; 8 * UNIT]);
    let behaviour = {
        let mut data = vec![0; 512];
        data[4] = 1 << 2;
        host.admin.write_command(command(admin::SET_FEATURES, 0, [0x16, 0, 0, 0, 0, 0]), &data).unwrap().code
    };
    assert_eq!(behaviour, 0);
    let mut range = [0_u8; 32];
    range[0] = 2;
    let copy = command(nvm::COPY, 1, [0, 0, 2 << 8, 0, 0, 0]);
    let copied = host.io.write_command(copy, range.as_bytes()).unwrap();
    assert_eq!(copied.code, Failure::INCOMPATIBLE_NAMESPACE.code());
}

#[test]
fn zones_of_a_drive_that_takes_no_writes_are_read_only_and_hosts_are_told() {
    let server = server(Plp::None);
    let mut host = attach(&server, Options::default());
    let data = pattern(1, 2 * UNIT);
    assert_eq!(host.zone_write(0, &data), 0);
    let events = command(admin::SET_FEATURES, 0, [0x0b, 1 << 27, 0, 0, 0, 0]);
    assert_eq!(host.admin.command(events).unwrap().code, 0);
    assert_eq!(host.admin.read_command(list(), 4096).unwrap().data[..2], [0, 0], "nothing has changed");
    let waits = host.admin.submit(command(admin::ASYNC_EVENT, 0, [0; 6]), Vec::new(), 0).unwrap();
    server.subsystem().queue.drive().lock().refuse_changes(Status::ReadOnly);
    server.subsystem().look();
    let told = host.admin.reap().unwrap();
    assert_eq!((told.id, told.code, told.result), (waits, 0, 0xbf_ef02));
    let changed = host.admin.read_command(list(), 4096).unwrap().data;
    assert_eq!((changed[0], long(&changed, 8), long(&changed, 16)), (6, 0, SIZE));
    assert_eq!(host.admin.read_command(list(), 4096).unwrap().data[..2], [0, 0], "it was read");
    let elsewhere = Submission { namespace: 1.into(), ..list() };
    let refused = host.admin.read_command(elsewhere, 4096).unwrap();
    assert_eq!(refused.code, Failure::INVALID_NAMESPACE.code());
    assert_eq!(host.states(), [(state::READ_ONLY, u64::MAX); 6]);
    assert!(host.zone_read(0, 2).unwrap() == data);
    assert_eq!(host.zone_write(2, &data), Failure::ZONE_READ_ONLY.code());
    assert_eq!(host.append(1, &data), Err(Failure::ZONE_READ_ONLY.code()));
    for action in [action::OPEN, action::CLOSE, action::FINISH, action::RESET, action::OFFLINE] {
        assert_eq!(host.send(action, Some(0)), Failure::ZONE_TRANSITION.code());
    }
    assert_eq!(host.send(action::RESET, None), 0, "no action applies to any");
    assert!(host.zone_read(0, 2).unwrap() == data);
    assert_eq!(identify(&mut host.admin, cns::NAMESPACE, 0, 2).data[99], 1, "write protected");
}

/// Get Log Page of changed zones.
fn list() -> Submission {
    command(admin::GET_LOG_PAGE, 2, [u32::from(id::CHANGED_ZONES) | 1023 << 16, 0, 0, 0, 0, 0])
}

#[test]
fn without_a_write_cache_writes_to_zones_are_durable_when_they_are_done() {
    let server = server(Plp::None);
    let mut host = attach(&server, Options::default());
    assert_eq!(write(&mut host.io, 0, &pattern(1, UNIT), false), 0);
    let off = command(admin::SET_FEATURES, 0, [6, 0, 0, 0, 0, 0]);
    assert_eq!(host.admin.command(off).unwrap().code, 0);
    assert_eq!(write(&mut host.io, 1, &pattern(2, UNIT), false), 0);
    let mut host = crate::common::cut_and_attach(&server);
    assert_eq!(host.states()[0], (state::CLOSED, 2));
}

#[test]
fn a_sanitize_leaves_nothing_in_zones() {
    let server = server(Plp::None);
    let mut host = attach(&server, Options::default());
    assert_eq!(host.append(2, &pattern(1, 4 * UNIT)), Ok(2 * SIZE));
    assert_eq!(host.admin.command(command(admin::SANITIZE, 0, [2, 0, 0, 0, 0, 0])).unwrap().code, 0);
    wait_until("the sanitize ends", || host.io.command(block_command(nvm::FLUSH, 0, 1)).unwrap().code == 0);
    assert_eq!(host.states(), [(state::EMPTY, 0); 6]);
    assert_eq!(host.zone_read(2 * SIZE, 4).unwrap(), vec![0; 4 * UNIT]);
}

/// Its data come when nothing of before is to be on the drive any more.
#[test]
fn an_append_that_waits_for_its_data_does_not_reach_a_drive_that_was_sanitized() {
    let server = server(Plp::None);
    let mut host = attach(&server, Options { no_capsule_data: true, ..Options::default() });
    let waits = host.io.submit_write(zone_append(0, 1), pattern(1, UNIT)).unwrap();
    let namespaces = &server.subsystem().namespaces;
    // so that the command has been checked when the Sanitize begins
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(host.admin.command(command(admin::SANITIZE, 0, [2, 0, 0, 0, 0, 0])).unwrap().code, 0);
    wait_until("the sanitize ends", || namespaces.sanitize().state == SanitizeState::Done);
    let refused = host.io.reap().unwrap();
    assert_eq!((refused.id, refused.code), (waits, Failure::SANITIZE_IN_PROGRESS.code()));
    assert_eq!(host.states(), [(state::EMPTY, 0); 6]);
}

/// The same identity gives the same identifiers, which are not those of the other namespaces.
#[test]
fn its_identifiers_are_its_own_and_stay() {
    let descriptors = || {
        let device = Device::in_memory(&profile(Plp::None)).unwrap();
        let server = serve(subsystem_with(settings(4096), device, Pacing::None));
        let mut host = attach(&server, Options::default());
        [1, 2].map(|number| {
            identify(&mut host.admin, cns::NAMESPACE_DESCRIPTORS, 0, number).data[..52].to_vec()
        })
    };
    let [blocks, zones] = descriptors();
    assert_eq!(descriptors(), [blocks.clone(), zones.clone()]);
    assert_ne!((&blocks[..12], &blocks[12..32], &blocks[32..]), (&zones[..12], &zones[12..32], &zones[32..]));
}
