//! A host attaches, discovers what exists, and uses it.

use std::net::SocketAddr;

use crate::common::{
    Host, NQN, UNIT, attach, names, pattern, serve, settings, small, subsystem, subsystem_on, subsystem_with,
    wait_until,
};
use tantalum::{Device, PowerLoss};
use tantalum_drive::Pacing;
use tantalum_nvme::authentication::TlsKey;
use tantalum_nvme::client::{Client, Names, Options, block_command, command};
use tantalum_nvme::failure::Failure;
use tantalum_nvme::server::Server;
use tantalum_nvme::subsystem::Settings;
use tantalum_nvme::wire::fabrics::DISCOVERY_NQN;
use tantalum_nvme::wire::identify::{Controller, Namespace, cns};
use tantalum_nvme::wire::log_page::{DiscoveryEntry, ErrorEntry, Smart, id};
use tantalum_nvme::wire::opcode::{admin, nvm};
use tantalum_nvme::wire::text_of;
use zerocopy::FromBytes;

const ALL: u32 = u32::MAX;

fn identify(host: &mut Host, structure: u8, namespace: u32) -> Vec<u8> {
    let identify = command(admin::IDENTIFY, namespace, [structure.into(), 0, 0, 0, 0, 0]);
    let completed = host.admin.read_command(identify, 4096).unwrap();
    assert_eq!(completed.code, 0, "CNS {structure:#x}");
    completed.data
}

fn log(client: &mut Client, page: u8, bytes: u32, offset: u32) -> Vec<u8> {
    let dwords = [u32::from(page) | (bytes / 4 - 1) << 16, 0, offset, 0, 0, 0];
    let completed = client.read_command(command(admin::GET_LOG_PAGE, ALL, dwords), bytes).unwrap();
    assert_eq!(completed.code, 0, "log page {page:#x}");
    completed.data
}

fn every_way() -> Vec<Options> {
    let mut ways = Vec::new();
    for digests in 0..4 {
        for (no_capsule_data, no_flow_control, alignment) in
            [(false, true, 0), (true, false, 0), (true, true, 15)]
        {
            let (header_digest, data_digest) = (digests & 1 != 0, digests & 2 != 0);
            let way = Options {
                header_digest,
                data_digest,
                alignment,
                no_capsule_data,
                no_flow_control,
                ..Options::default()
            };
            ways.extend([way, Options { together: true, ..way }]);
        }
    }
    ways
}

#[test]
fn a_host_learns_what_there_is() {
    let server = serve(subsystem(4096));
    let mut host = attach(&server, Options::default());
    let controller = Controller::read_from_bytes(&identify(&mut host, cns::CONTROLLER, 0)).unwrap();
    assert_eq!(text_of(&controller.subsystem_name), Some(NQN));
    assert_eq!((controller.id.get(), controller.kind), (host.controller, 1));
    assert_eq!(controller.write_cache & 1, 1, "without a capacitor the cache is volatile");
    let list = identify(&mut host, cns::ACTIVE_NAMESPACES, 0);
    assert_eq!(list[..8], [1, 0, 0, 0, 0, 0, 0, 0]);
    let namespace = Namespace::read_from_bytes(&identify(&mut host, cns::NAMESPACE, 1)).unwrap();
    assert_eq!(namespace.size.get(), (64 << 20) / 4096);
    assert_eq!(namespace.block_formats[0].block_bytes_log2, 12);
    let descriptors = identify(&mut host, cns::NAMESPACE_DESCRIPTORS, 1);
    assert_eq!(descriptors[..2], [1, 8], "an EUI-64");
    identify(&mut host, cns::COMMAND_SETS, 0);
    let highest = controller.namespaces.get();
    let none = host.admin.read_command(command(admin::IDENTIFY, highest + 1, [0; 6]), 4096).unwrap();
    assert_eq!(none.code, Failure::INVALID_NAMESPACE.code());
    let possible = host.admin.read_command(command(admin::IDENTIFY, highest, [0; 6]), 4096).unwrap();
    assert_eq!((possible.code, possible.data), (0, vec![0; 4096]), "it could exist");
}

/// For each size that the drive writes whole, in units, and each block size: what the controller tells, what the namespace
/// tells, in blocks less one, and its boundary.
#[test]
fn a_host_learns_up_to_which_size_a_write_is_all_or_nothing() {
    for (units, block_bytes, of_controller, of_namespace, boundary) in [
        (1, 4096, 0, 0, 0),
        (1, 512, 0, 7, 7),
        (4, 4096, 3, 3, 0),
        (64, 4096, 63, 63, 0),
        (5, 512, 32, 32, 0),
    ] {
        let mut profile = small();
        profile.limits.atomic_write_units = units;
        let device = Device::in_memory(&profile).unwrap();
        let server = serve(subsystem_on(device, block_bytes, Pacing::None));
        let mut host = attach(&server, Options::default());
        let controller = Controller::read_from_bytes(&identify(&mut host, cns::CONTROLLER, 0)).unwrap();
        let told = [controller.atomic, controller.atomic_power_fail, controller.atomic_compare];
        assert_eq!(told.map(|blocks| blocks.get()), [of_controller; 3], "{units} units");
        let namespace = Namespace::read_from_bytes(&identify(&mut host, cns::NAMESPACE, 1)).unwrap();
        let told = namespace.atomic.map(|blocks| blocks.get());
        assert_eq!(told, [of_namespace; 3], "{units} units");
        assert_eq!(namespace.boundary.map(|blocks| blocks.get()), [boundary, 0, boundary], "{units} units");
        assert_eq!(namespace.features & 1 << 1, 1 << 1, "the namespace's fields are valid");
    }
}

#[test]
fn discovery_tells_where_the_subsystem_is() {
    let server = serve(subsystem(4096));
    let discovery = Names { subsystem: DISCOVERY_NQN.to_owned(), ..names() };
    let (mut client, _) = Client::admin(server.address(), Options::default(), &discovery, 0).unwrap();
    let header = log(&mut client, id::DISCOVERY, 1024, 0);
    assert_eq!(header[8], 1, "one entry");
    let entry = log(&mut client, id::DISCOVERY, 1024, 1024);
    let entry = DiscoveryEntry::read_from_bytes(&entry).unwrap();
    assert_eq!(text_of(&entry.subsystem_name), Some(NQN));
    assert_eq!((entry.transport, entry.family, entry.kind), (3, 1, 2));
    // nvme connect-all of nvme-cli 2.3 asked for TLS, and connected to nothing, when this said that none is required
    assert_eq!(entry.requirements, 4, "nothing about TLS; flow control can be disabled");
    assert_eq!(entry.transport_specific[0], 0, "no security");
    assert_eq!(text_of(&entry.service).unwrap().trim(), server.address().port().to_string());
}

/// The transport's service identifier and address of the one entry of the discovery log, and its address family.
fn discovered(server: &Server, at: SocketAddr) -> (String, String, u8) {
    let discovery = Names { subsystem: DISCOVERY_NQN.to_owned(), ..names() };
    let at = SocketAddr::new(at.ip(), server.address().port());
    let (mut client, _) = Client::admin(at, Options::default(), &discovery, 0).unwrap();
    let entry = DiscoveryEntry::read_from_bytes(&log(&mut client, id::DISCOVERY, 1024, 1024)).unwrap();
    let text = |field: &[u8]| text_of(field).unwrap().trim_end().to_owned();
    (text(&entry.service), text(&entry.address), entry.family)
}

/// A host that came by way of an address translation cannot reach the address at which the server was reached.
#[test]
fn discovery_tells_the_advertised_address() {
    let local: SocketAddr = "127.0.0.1:0".parse().unwrap();
    for (advertised, service, address, family) in [
        ("192.0.2.7:1234", Some("1234"), "192.0.2.7", 1),
        ("192.0.2.7", None, "192.0.2.7", 1),
        ("[2001:db8::7]:1234", Some("1234"), "2001:db8::7", 2),
    ] {
        let settings = Settings { advertised: Some(advertised.parse().unwrap()), ..settings(4096) };
        let device = Device::in_memory(&small()).unwrap();
        let server = serve(subsystem_with(settings, device, Pacing::None));
        let port = server.address().port().to_string();
        let expected = (service.unwrap_or(&port).to_owned(), address.to_owned(), family);
        assert_eq!(discovered(&server, local), expected);
    }
}

#[test]
fn discovery_tells_an_ipv4_host_an_ipv4_address() {
    let Ok(server) = Server::start(subsystem(4096), "[::]:0".parse().unwrap()) else { return };
    let port = server.address().port().to_string();
    let found = discovered(&server, "127.0.0.1:0".parse().unwrap());
    assert_eq!(found, (port, "127.0.0.1".to_owned(), 1));
}

#[test]
fn data_come_back_in_every_way_of_moving_them() {
    for block_bytes in [4096, 512] {
        move_data(&serve(subsystem(block_bytes as u32)), block_bytes, None);
    }
}

/// Data go to a server with blocks of this size and back, over TLS if there is a key.
pub fn move_data(server: &Server, block_bytes: usize, tls: Option<TlsKey>) {
    for (way, options) in every_way().into_iter().enumerate() {
        let mut host = attach(server, Options { tls, ..options });
        // in a capsule, by one R2T, and in several PDUs
        for (index, bytes) in [block_bytes, 8192, 64 << 10, 512 << 10].into_iter().enumerate() {
            let data = pattern((way * 4 + index) as u64, bytes);
            let first = 3 + index as u64 * 1024;
            host.write(first, block_bytes, &data);
            let read = host.read(first, block_bytes, (bytes / block_bytes) as u32);
            assert!(read == data, "{bytes} bytes, {options:?}");
        }
    }
}

#[test]
fn small_blocks_leave_their_neighbours_alone() {
    let server = serve(subsystem(512));
    let mut host = attach(&server, Options::default());
    let mut model = pattern(1, 64 * 512);
    host.write(0, 512, &model);
    let mut change = |host: &mut Host, first: usize, blocks: usize, seed: u64| {
        let data = pattern(seed, blocks * 512);
        host.write(first as u64, 512, &data);
        model[first * 512..(first + blocks) * 512].copy_from_slice(&data);
        assert!(host.read(0, 512, 64) == model, "{blocks} blocks at {first}");
    };
    change(&mut host, 9, 2, 2);
    change(&mut host, 7, 10, 3);
    change(&mut host, 8, 8, 4);
    change(&mut host, 15, 1, 5);
    change(&mut host, 0, 9, 6);
    let zeroes = block_command(nvm::WRITE_ZEROES, 5, 20);
    assert_eq!(host.io.command(zeroes).unwrap().code, 0);
    model[5 * 512..25 * 512].fill(0);
    assert!(host.read(0, 512, 64) == model);
}

#[test]
fn compare_verify_and_write_zeroes_do_what_they_say() {
    let server = serve(subsystem(4096));
    let mut host = attach(&server, Options::default());
    let data = pattern(1, 4 * UNIT);
    host.write(10, UNIT, &data);
    let compare = |host: &mut Host, data: &[u8]| {
        host.io.write_command(block_command(nvm::COMPARE, 10, 4), data).unwrap().code
    };
    assert_eq!(compare(&mut host, &data), 0);
    let mut other = data.clone();
    other[3 * UNIT + 17] ^= 1;
    assert_eq!(compare(&mut host, &other), Failure::COMPARE.code());
    assert_eq!(host.io.command(block_command(nvm::VERIFY, 0, 300)).unwrap().code, 0);
    assert_eq!(host.io.command(block_command(nvm::WRITE_ZEROES, 11, 2)).unwrap().code, 0);
    let read = host.read(10, UNIT, 4);
    assert!(read[..UNIT] == data[..UNIT] && read[3 * UNIT..] == data[3 * UNIT..]);
    assert!(read[UNIT..3 * UNIT].iter().all(|&byte| byte == 0));
}

fn ranges(ranges: &[(u64, u32)]) -> Vec<u8> {
    let range = |&(first, blocks): &(u64, u32)| {
        let mut bytes = vec![0; 4];
        bytes.extend(blocks.to_le_bytes());
        bytes.extend(first.to_le_bytes());
        bytes
    };
    ranges.iter().flat_map(range).collect()
}

#[test]
fn deallocation_is_the_drives_and_all_ranges_must_be_there() {
    let server = serve(subsystem(4096));
    let mut host = attach(&server, Options::default());
    host.write(0, UNIT, &pattern(1, 16 * UNIT));
    let deallocate = |host: &mut Host, of: &[(u64, u32)], attributes| {
        let count = of.len() as u32 - 1;
        let dsm = command(nvm::DATASET_MANAGEMENT, 1, [count, attributes, 0, 0, 0, 0]);
        // as Linux does it: 4 KiB, of which the first ranges count
        let mut data = ranges(of);
        data.resize(4096, 0xee);
        host.io.write_command(dsm, &data).unwrap().code
    };
    let is_mapped = |lpn| server.subsystem().queue.drive().lock().is_mapped(tantalum::Lpn(lpn));
    assert_eq!(deallocate(&mut host, &[(0, 4), (u64::MAX, 1)], 4), Failure::OUT_OF_RANGE.code());
    assert!(is_mapped(0), "nothing is done of a command that is refused");
    assert_eq!(deallocate(&mut host, &[(0, 4)], 0), 0);
    assert!(is_mapped(0), "only hinted at");
    assert_eq!(deallocate(&mut host, &[(0, 4), (8, 2)], 4), 0);
    assert_eq!((0..12).map(is_mapped).filter(|&is_mapped| is_mapped).count(), 6);
    assert!(host.read(0, UNIT, 4).iter().all(|&byte| byte == 0));
}

/// Source ranges of a Copy.
fn sources(of: &[(u64, u32)]) -> Vec<u8> {
    let source = |&(first, blocks): &(u64, u32)| {
        let mut bytes = vec![0; 32];
        bytes[8..16].copy_from_slice(&first.to_le_bytes());
        bytes[16..20].copy_from_slice(&(blocks - 1).to_le_bytes());
        bytes
    };
    of.iter().flat_map(source).collect()
}

fn copy(host: &mut Host, to: u64, of: &[(u64, u32)]) -> u16 {
    let copy = command(nvm::COPY, 1, [to as u32, 0, of.len() as u32 - 1, 0, 0, 0]);
    host.io.write_command(copy, &sources(of)).unwrap().code
}

#[test]
fn copy_shares_and_programs_no_data() {
    let server = serve(subsystem(4096));
    let mut host = attach(&server, Options::default());
    let data = pattern(1, 64 * UNIT);
    host.write(0, UNIT, &data);
    let flush = block_command(nvm::FLUSH, 0, 1);
    assert_eq!(host.io.command(flush).unwrap().code, 0);
    let counters = || server.subsystem().queue.drive().lock().smart().counters;
    let before = counters();
    assert_eq!(copy(&mut host, 1000, &[(0, 32), (40, 8), (200, 4)]), 0);
    let since = counters().since(&before);
    assert_eq!((since.units_shared, since.host_units_written, since.flash_units.host), (40, 0, 0));
    let copied = host.read(1000, UNIT, 44);
    assert!(copied[..32 * UNIT] == data[..32 * UNIT]);
    assert!(copied[32 * UNIT..40 * UNIT] == data[40 * UNIT..48 * UNIT]);
    assert!(copied[40 * UNIT..].iter().all(|&byte| byte == 0), "the source was nothing");
}

#[test]
fn copy_copies_what_cannot_be_shared() {
    let server = serve(subsystem(512));
    let mut host = attach(&server, Options::default());
    let data = pattern(1, 64 * 512);
    host.write(0, 512, &data);
    assert_eq!(copy(&mut host, 1001, &[(3, 20)]), 0);
    assert!(host.read(1001, 512, 20) == data[3 * 512..23 * 512]);
    // onto itself, shifted
    assert_eq!(copy(&mut host, 8, &[(0, 16)]), 0);
    assert!(host.read(8, 512, 16) == data[..16 * 512]);
    assert_eq!(copy(&mut host, 0, &[(0, 2048), (0, 1)]), Failure::SIZE_LIMIT.code());
    assert_eq!(copy(&mut host, 131_071, &[(0, 2)]), Failure::OUT_OF_RANGE.code());
}

#[test]
fn smart_and_the_error_log_tell_what_happened() {
    let server = serve(subsystem(4096));
    let mut host = attach(&server, Options::default());
    host.write(0, UNIT, &pattern(1, 125 * UNIT));
    let smart = Smart::read_from_bytes(&log(&mut host.admin, id::SMART, 512, 0)).unwrap();
    assert_eq!(smart.data_written[0].get(), 1, "125 units are 1000 times 512 bytes");
    assert_eq!((smart.host_writes[0].get(), smart.critical_warning), (1, 0));
    let beyond = block_command(nvm::READ, 1 << 40, 1);
    assert_eq!(host.io.read_command(beyond, 4096).unwrap().code, Failure::OUT_OF_RANGE.code());
    let errors = log(&mut host.admin, id::ERRORS, 128, 0);
    let entry = ErrorEntry::read_from_bytes(&errors[..64]).unwrap();
    assert_eq!((entry.queue.get(), entry.block.get(), entry.count.get()), (1, 1 << 40, 1));
    assert_eq!(Failure::code_of(entry.status.get()), Failure::OUT_OF_RANGE.code());
}

#[test]
fn features_are_told_and_set() {
    let server = serve(subsystem(4096));
    let (mut client, _) = Client::admin(server.address(), Options::default(), &names(), 0).unwrap();
    let mut set = |feature: u32, value: u32| {
        let completed =
            client.command(command(admin::SET_FEATURES, 0, [feature, value, 0, 0, 0, 0])).unwrap();
        (completed.code, completed.result)
    };
    assert_eq!(set(0x07, 0x0003_0003), (0, 0x0003_0003), "queues");
    assert_eq!(set(0x07, 0x0fff_0fff), (0, 0x003f_003f), "no more than there are");
    assert_eq!(set(0x07, 0xffff), (Failure::INVALID_FIELD.code(), 0));
    assert_eq!(set(0x06, 0), (0, 0));
    assert_eq!(set(0x0b, 0x100), (0, 0));
    assert_eq!(set(0x04, 300), (Failure::NOT_CHANGEABLE.code(), 0));
    assert_eq!(set(0x06 | 1 << 31, 0), (Failure::NOT_SAVEABLE.code(), 0));
    assert_eq!(set(0xc0, 0), (Failure::INVALID_FIELD.code(), 0));
    let mut get = |feature: u32| {
        let completed = client.command(command(admin::GET_FEATURES, 0, [feature, 0, 0, 0, 0, 0])).unwrap();
        (completed.code, completed.result)
    };
    assert_eq!(get(0x06), (0, 0), "write through");
    assert_eq!(get(0x06 | 1 << 8), (0, 1), "by default the cache is used");
    assert_eq!(get(0x0b), (0, 0x100));
    assert_eq!(get(0x06 | 3 << 8), (0, 4), "it can be changed");
}

/// What a host wrote, flushed or with FUA or with the cache off, is there after a power loss; all of it, unit by unit.
#[test]
fn what_was_promised_survives_a_power_cut() {
    for way in ["flush", "fua", "write through", "zeroes"] {
        let subsystem = subsystem_on(Device::in_memory(&small()).unwrap(), 4096, Pacing::None);
        let server = serve(subsystem.clone());
        let mut host = attach(&server, Options::default());
        let data = pattern(9, 32 * UNIT);
        let mut write = block_command(nvm::WRITE, 100, 32);
        match way {
            "fua" => write.dword10[2] = (31 | 1 << 30).into(),
            "write through" | "zeroes" => {
                let off = command(admin::SET_FEATURES, 0, [0x06, 0, 0, 0, 0, 0]);
                assert_eq!(host.admin.command(off).unwrap().code, 0);
            }
            _ => {}
        }
        assert_eq!(host.io.write_command(write, &data).unwrap().code, 0);
        if way == "flush" {
            assert_eq!(host.io.command(block_command(nvm::FLUSH, 0, 1)).unwrap().code, 0);
        }
        if way == "zeroes" {
            assert_eq!(host.io.command(block_command(nvm::WRITE_ZEROES, 100, 32)).unwrap().code, 0);
        }
        {
            let mut device = subsystem.queue.drive().lock();
            let now_ns = device.issued_ns().max(device.time_ns());
            device.cut_power(now_ns);
        }
        let failed = host.io.read_command(block_command(nvm::READ, 0, 1), 4096);
        assert!(failed.is_err() || failed.unwrap().code != 0, "a drive without power answered");
        assert!(server.close());
        subsystem.queue.drive().lock().power_on(&mut PowerLoss::seeded(3)).unwrap();
        server.open();
        let mut host = attach(&server, Options::default());
        let expected = if way == "zeroes" { vec![0; data.len()] } else { data };
        assert!(host.read(100, UNIT, 32) == expected, "{way}");
    }
}

#[test]
fn the_io_queues_of_a_controller_end_with_its_admin_connection() {
    let server = serve(subsystem(4096));
    let host = attach(&server, Options::default());
    assert_eq!(server.subsystem().controllers(), 1);
    let Host { admin, mut io, .. } = host;
    drop(admin);
    wait_until("the controller outlives its connection", || server.subsystem().controllers() == 0);
    wait_until("its I/O queue outlives it", || io.command(block_command(nvm::FLUSH, 0, 1)).is_err());
}

#[test]
fn a_silent_host_loses_its_controller_and_one_that_is_heard_of_does_not() {
    let server = serve(subsystem(4096));
    let (silent, _) = Client::admin(server.address(), Options::default(), &names(), 1500).unwrap();
    let (mut alive, _) = Client::admin(server.address(), Options::default(), &names(), 1500).unwrap();
    for _ in 0..10 {
        std::thread::sleep(std::time::Duration::from_millis(200));
        assert_eq!(alive.command(command(admin::KEEP_ALIVE, 0, [0; 6])).unwrap().code, 0);
    }
    wait_until("the silent host keeps its controller", || server.subsystem().controllers() == 1);
    drop(silent);
}

#[test]
fn asynchronous_events_wait_until_they_are_aborted() {
    let server = serve(subsystem(4096));
    let (mut client, _) = Client::admin(server.address(), Options::default(), &names(), 0).unwrap();
    let event = command(admin::ASYNC_EVENT, 0, [0; 6]);
    let ids: Vec<u16> = (0..4).map(|_| client.submit(event, Vec::new(), 0).unwrap()).collect();
    let fifth = client.command(event).unwrap();
    assert_eq!(fifth.code, Failure::EVENT_LIMIT.code());
    let abort = command(admin::ABORT, 0, [u32::from(ids[2]) << 16, 0, 0, 0, 0, 0]);
    client.submit(abort, Vec::new(), 0).unwrap();
    let (first, second) = (client.reap().unwrap(), client.reap().unwrap());
    assert_eq!((first.id, first.code), (ids[2], Failure::ABORTED.code()));
    assert_eq!((second.code, second.result), (0, 0));
}

/// Buffers of commands are reused: a later command must not read their old contents.
#[test]
fn blocks_that_hold_nothing_read_as_zeros_whatever_was_moved_before() {
    for block_bytes in [4096, 512] {
        let server = serve(subsystem(block_bytes));
        let mut host = attach(&server, Options { no_flow_control: true, ..Options::default() });
        let per_unit = u64::from(UNIT as u32 / block_bytes);
        for units in [1, 2, 16, 128_u32] {
            let data = pattern(units.into(), units as usize * UNIT);
            let blocks = units * per_unit as u32;
            host.write(0, block_bytes as usize, &data);
            assert!(host.read(0, block_bytes as usize, blocks) == data);
            let nothing = host.read(1000 * per_unit, block_bytes as usize, blocks);
            assert!(nothing.iter().all(|&byte| byte == 0), "{units} units");
            // a part of a unit, where blocks are smaller
            let part = host.read(0, block_bytes as usize, 1);
            assert!(part == data[..block_bytes as usize]);
        }
    }
}
