//! Namespaces with records, and vendor commands.

use crate::common::records::{Record, add_records, record_command, retrieve, server};
use crate::common::{Host, UNIT, attach, cut_and_attach, names, pattern, with_transaction};
use tantalum::{Generation, Hint, Lpn, METADATA_BYTES, Status};
use tantalum_nvme::client::{Client, Options, block_command, command};
use tantalum_nvme::failure::Failure;
use tantalum_nvme::io::vendor::{HintedPage, Range};
use tantalum_nvme::wire::identify::{cns, command_set};
use tantalum_nvme::wire::opcode::{admin, key_value, nvm, vendor};
use zerocopy::IntoBytes;

fn store(host: &mut Host, namespace: u32, key: &[u8], value: &[u8], options: u32) -> u16 {
    let store = record_command(key_value::STORE, namespace, key, value.len() as u32, options);
    host.io.write_command(store, value).unwrap().code
}

#[test]
fn records_are_stored_retrieved_listed_and_deleted() {
    let server = server();
    let mut host = attach(&server, Options { no_flow_control: true, ..Options::default() });
    for bytes in [0, 1, 100, 9000, 512 << 10] {
        let value = pattern(bytes as u64, bytes + 8)[..bytes].to_vec();
        assert_eq!(store(&mut host, 2, b"some key", &value, 0), 0);
        let read = retrieve(&mut host, 2, b"some key", 512 << 10);
        assert_eq!((read.code, read.result), (0, bytes as u64));
        assert!(read.data == value);
    }
    // a buffer that is too small gets the beginning, and the completion has the size
    let read = retrieve(&mut host, 2, b"some key", 100);
    assert_eq!((read.data.len(), read.result), (100, 512 << 10));
    assert_eq!(retrieve(&mut host, 3, b"some key", 100).code, Failure::NO_SUCH_KEY.code());
    // conditions
    assert_eq!(store(&mut host, 2, b"some key", b"x", 2), Failure::KEY_EXISTS.code());
    assert_eq!(store(&mut host, 2, b"no key", b"x", 1), Failure::NO_SUCH_KEY.code());
    assert_eq!(store(&mut host, 2, b"some key", b"x", 1), 0);
    assert_eq!(store(&mut host, 2, b"a key of 16 byte", b"y", 2), 0);
    assert_eq!(store(&mut host, 2, b"z", b"x", 3), Failure::INVALID_FIELD.code());
    assert_eq!(store(&mut host, 2, b"", b"x", 0), Failure::KEY_SIZE.code());
    assert_eq!(store(&mut host, 2, b"a key of 17 bytes", b"x", 0), Failure::KEY_SIZE.code());
    // the list
    let list = host.io.read_command(record_command(key_value::LIST, 2, b"", 4096, 0), 4096).unwrap();
    assert_eq!((list.code, list.data[0]), (0, 2));
    let text = String::from_utf8_lossy(&list.data).into_owned();
    assert!(text.contains("some key") && text.contains("a key of 16 byte"), "{text:?}");
    let short = host.io.read_command(record_command(key_value::LIST, 2, b"", 12, 0), 12).unwrap();
    assert_eq!(short.data[0], 0, "no key has room");
    // the end
    let mut ends = |opcode| host.io.command(record_command(opcode, 2, b"some key", 0, 0)).unwrap().code;
    assert_eq!(ends(key_value::EXIST), 0);
    assert_eq!(ends(key_value::DELETE), 0);
    assert_eq!(ends(key_value::EXIST), Failure::NO_SUCH_KEY.code());
    assert_eq!(ends(key_value::DELETE), Failure::NO_SUCH_KEY.code());
    assert_eq!(ends(nvm::COMPARE), Failure::INVALID_OPCODE.code());
}

#[test]
fn namespaces_with_records_are_told_of() {
    let server = server();
    let (mut client, _) = Client::admin(server.address(), Options::default(), &names(), 0).unwrap();
    let mut identify = |structure: u8, set: u8, namespace: u32| {
        let dwords = [structure.into(), u32::from(set) << 24, 0, 0, 0, 0];
        client.read_command(command(admin::IDENTIFY, namespace, dwords), 4096).unwrap()
    };
    let all = identify(cns::ACTIVE_NAMESPACES, 0, 0).data;
    assert_eq!([all[0], all[4], all[8], all[12]], [1, 2, 3, 0]);
    let records = identify(cns::ACTIVE_NAMESPACES_OF_SET, command_set::KEY_VALUE, 0).data;
    assert_eq!([records[0], records[4], records[8]], [2, 3, 0]);
    let told = identify(cns::NAMESPACE_OF_SET, command_set::KEY_VALUE, 2).data;
    assert_eq!(told[72], 16, "bytes of the longest key");
    assert_eq!(identify(cns::NAMESPACE_DESCRIPTORS, 0, 3).data[56], command_set::KEY_VALUE);
    assert_eq!(told[43], 0, "it can be written");
    server.subsystem().queue.drive().lock().refuse_changes(Status::ReadOnly);
    let told = identify(cns::NAMESPACE_OF_SET, command_set::KEY_VALUE, 2).data;
    assert_eq!(told[43], 1, "write protected");
}

#[test]
fn many_records_are_put_at_once_or_not_at_all() {
    let server = server();
    let mut host = attach(&server, Options::default());
    assert_eq!(store(&mut host, 3, b"old", b"value", 0), 0);
    let put = |host: &mut Host, records: &[Record<'_>]| {
        let mut data = Vec::new();
        add_records(&mut data, records);
        let put = command(vendor::PUT, 2, [data.len() as u32, 0, 0, 0, 0, 0]);
        host.io.write_command(put, &data).unwrap().code
    };
    let records: &[Record<'_>] =
        &[(2, b"one", Some(b"first")), (3, b"two", Some(b"second value")), (3, b"old", None)];
    assert_eq!(put(&mut host, records), 0);
    assert_eq!(retrieve(&mut host, 2, b"one", 64).data, b"first");
    assert_eq!(retrieve(&mut host, 3, b"two", 64).data, b"second value");
    assert_eq!(retrieve(&mut host, 3, b"old", 64).code, Failure::NO_SUCH_KEY.code());
    let twice: &[Record<'_>] = &[(2, b"new", Some(b"1")), (2, b"new", Some(b"2"))];
    assert_eq!(put(&mut host, twice), Failure::INVALID_FIELD.code());
    assert_eq!(retrieve(&mut host, 2, b"new", 64).code, Failure::NO_SUCH_KEY.code());
}

#[test]
fn units_are_shared_and_moved() {
    let server = server();
    let mut host = attach(&server, Options::default());
    let data = pattern(1, 8 * UNIT);
    host.write(0, UNIT, &data);
    let ranges = [Range::new(100, 0, 2), Range::new(200, 4, 1)];
    let share = command(vendor::SHARE, 1, [0, 0, 1, 0, 0, 0]);
    assert_eq!(host.io.write_command(share, ranges.as_bytes()).unwrap().code, 0);
    assert!(host.read(100, UNIT, 2) == data[..2 * UNIT]);
    assert!(host.read(200, UNIT, 1) == data[4 * UNIT..5 * UNIT]);
    let remap = command(vendor::REMAP, 1, [6, 300, 2, 0, 0, 0]);
    assert_eq!(host.io.command(remap).unwrap().code, 0);
    assert!(host.read(300, UNIT, 2) == data[6 * UNIT..]);
    assert!(host.read(6, UNIT, 2).iter().all(|&byte| byte == 0));
    let again = host.io.write_command(share, [Range::new(1, 6, 1); 2].as_bytes()).unwrap();
    assert_ne!(again.code, 0);
    let unmapped = command(vendor::SHARE, 1, [0, 0, 0, 0, 0, 0]);
    let unmapped = host.io.write_command(unmapped, Range::new(1, 6, 1).as_bytes()).unwrap();
    assert_eq!(unmapped.code, Failure::UNMAPPED.code());
}

#[test]
fn transactions_are_seen_when_they_are_committed() {
    let server = server();
    let mut host = attach(&server, Options::default());
    host.write(7, UNIT, &pattern(1, UNIT));
    let transaction = host.io.command(command(vendor::BEGIN, 1, [0; 6])).unwrap().result;
    let new = pattern(2, UNIT);
    let written = host.io.write_command(with_transaction(vendor::TX_WRITE, 7, transaction), &new).unwrap();
    assert_eq!(written.code, 0);
    assert!(host.read(7, UNIT, 1) == pattern(1, UNIT));
    let inside =
        host.io.read_command(with_transaction(vendor::TX_READ, 7, transaction), UNIT as u32).unwrap();
    assert!(inside.data == new);
    assert_eq!(host.io.command(with_transaction(vendor::COMMIT, 0, transaction)).unwrap().code, 0);
    assert!(host.read(7, UNIT, 1) == new);
    let gone = host.io.command(with_transaction(vendor::ABORT, 0, transaction)).unwrap();
    assert_eq!(gone.code, Failure::UNKNOWN_TRANSACTION.code());
}

/// Scattered units and a hinted log, and then power fails: they are there as promised.
#[test]
fn scattered_writes_and_logs_survive_a_power_cut() {
    let server = server();
    let mut host = attach(&server, Options::default());
    let units = [5_u32, 900, 17];
    let mut data = vec![0; UNIT];
    for (index, unit) in units.iter().enumerate() {
        data[index * 4..index * 4 + 4].copy_from_slice(&unit.to_le_bytes());
    }
    let bodies = pattern(3, 3 * UNIT);
    data.extend(&bodies);
    let atomic = command(vendor::WRITE_ATOMIC, 1, [0, 0, 2, 0, 0, 0]);
    assert_eq!(host.io.write_command(atomic, &data).unwrap().code, 0);
    let generation = host.io.command(command(vendor::BEGIN_LOG, 1, [0; 6])).unwrap().result;
    let hint = Hint {
        generation: Generation(generation),
        attempt: 0,
        start: 1,
        first: 1,
        slot: 1,
        end: true,
        home: Some(Lpn(2000)),
    };
    let page = pattern(4, UNIT);
    let mut hinted = HintedPage::new(&hint, [9; METADATA_BYTES]).as_bytes().to_vec();
    hinted.extend(&page);
    let write = command(vendor::WRITE_HINTED, 1, [3000, 0, 0, 0, 0, 0]);
    assert_eq!(host.io.write_command(write, &hinted).unwrap().code, 0);
    assert_eq!(host.io.command(block_command(nvm::FLUSH, 0, 1)).unwrap().code, 0);
    let mut host = cut_and_attach(&server);
    for (index, &unit) in units.iter().enumerate() {
        assert!(host.read(unit.into(), UNIT, 1) == bodies[index * UNIT..(index + 1) * UNIT]);
    }
    assert!(host.read(2000, UNIT, 1) == page, "its hint brought the page home");
}
