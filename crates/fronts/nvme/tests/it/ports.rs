//! Several ports: what hosts are told of them, and commands through ports that are not accessible.

use std::net::SocketAddr;

use crate::attach::move_data;
use crate::common::{Host, UNIT, attach, names, pattern, serve, subsystem};
use crate::namespaces::{change, create, delete, format, identify, listed};
use tantalum_nvme::client::{Client, Names, Options, block_command, command};
use tantalum_nvme::events::ACCESS_NOTICES;
use tantalum_nvme::failure::Failure;
use tantalum_nvme::ports::{NoPort, PortAccess};
use tantalum_nvme::server::Server;
use tantalum_nvme::wire::command::{Pointer, TRANSPORT};
use tantalum_nvme::wire::fabrics::DISCOVERY_NQN;
use tantalum_nvme::wire::opcode::{admin, nvm};
use tantalum_nvme::wire::pdu::{Data, flag, kind};
use zerocopy::{FromBytes, IntoBytes};

fn server(accesses: &[PortAccess]) -> Server {
    let local = SocketAddr::from(([127, 0, 0, 1], 0));
    let listen: Vec<_> = accesses.iter().map(|access| (local, *access)).collect();
    Server::start_at(subsystem(4096), &listen).unwrap()
}

/// A host that has come through a port.
fn attach_at(server: &Server, port: usize) -> Host {
    let address = server.addresses()[port - 1];
    let (admin, controller) = Client::admin(address, Options::default(), &names(), 0).unwrap();
    let io = Client::io(address, Options::default(), &names(), controller, 1).unwrap();
    Host { admin, io, controller }
}

fn number(bytes: &[u8], at: usize, count: usize) -> u64 {
    bytes[at..at + count].iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Changes, groups; the group, its namespaces, its changes and access; the namespaces.
fn access(host: &mut Host, specific: u32) -> (u64, u64, [u64; 4], Vec<u64>) {
    let log = command(admin::GET_LOG_PAGE, 0, [0x0c | specific << 8 | 31 << 16, 0, 0, 0, 0, 0]);
    let log = host.admin.read_command(log, 128).unwrap();
    assert_eq!(log.code, 0);
    let log = log.data;
    let group = [number(&log, 16, 4), number(&log, 20, 4), number(&log, 24, 8), number(&log, 32, 1)];
    let namespaces = (0..group[1] as usize).map(|at| number(&log, 48 + at * 4, 4)).collect();
    (number(&log, 0, 8), number(&log, 8, 2), group, namespaces)
}

#[test]
fn hosts_are_told_of_each_port_and_how_they_reach_namespaces_through_theirs() {
    let server = server(&[PortAccess::Optimized, PortAccess::NonOptimized]);
    for (port, state) in [(1, 1), (2, 2)] {
        let mut host = attach_at(&server, port);
        let told = identify(&mut host.admin, 1, 0).data;
        assert_eq!(told[76], 1 | 1 << 1 | 1 << 3, "CMIC");
        assert_eq!(number(&told, 92, 4) >> 11 & 1, 1, "OAES");
        assert_eq!((told[342], told[343]), (60, 0b101_0111), "ANATT, ANACAP");
        assert_eq!((number(&told, 344, 4), number(&told, 348, 4)), (1, 1), "ANAGRPMAX, NANAGRPID");
        let namespace = identify(&mut host.admin, 0, 1).data;
        assert_eq!((namespace[30], number(&namespace, 92, 4)), (1, 1), "NMIC, ANAGRPID");
        assert_eq!(number(&identify(&mut host.admin, 8, 1).data, 4, 4), 1);
        assert_eq!(access(&mut host, 0), (0, 1, [1, 1, 0, state], vec![1]));
        assert_eq!(access(&mut host, 1), (0, 1, [1, 0, 0, state], vec![]), "without namespaces");
    }
    let mut host = attach_at(&server, 2);
    assert_eq!(delete(&mut host.admin, 1), 0);
    let numbers = [create(&mut host.admin, 10, 0), create(&mut host.admin, 10, 0)];
    assert_eq!(change(&mut host.admin, 0, numbers[1], &[host.controller]), 0);
    assert_eq!(access(&mut host, 0).3, [u64::from(numbers[1])], "those that it has");
    assert_eq!(listed(&mut host.admin, 2), [numbers[1]]);
}

#[test]
fn a_subsystem_with_one_port_tells_nothing_of_accesses() {
    let server = serve(subsystem(4096));
    let mut host = attach(&server, Options::default());
    let told = identify(&mut host.admin, 1, 0).data;
    assert_eq!((told[76], number(&told, 92, 4) >> 11 & 1, number(&told, 342, 10)), (1 << 1, 0, 0));
    assert_eq!(number(&identify(&mut host.admin, 0, 1).data, 92, 4), 0);
    let log = command(admin::GET_LOG_PAGE, 0, [0x0c | 31 << 16, 0, 0, 0, 0, 0]);
    assert_eq!(host.admin.read_command(log, 128).unwrap().code, 0x109);
    server.subsystem().set_access(1, PortAccess::Inaccessible).unwrap();
    assert_eq!(host.io.command(command(nvm::FLUSH, 1, [0; 6])).unwrap().code, 0x302);
}

#[test]
fn discovery_lists_all_ports() {
    let server = server(&[PortAccess::Optimized; 3]);
    let names = Names { subsystem: DISCOVERY_NQN.to_owned(), ..names() };
    for address in server.addresses() {
        let (mut admin, _) = Client::admin(*address, Options::default(), &names, 0).unwrap();
        let log = command(admin::GET_LOG_PAGE, 0, [0x70 | 1023 << 16, 0, 0, 0, 0, 0]);
        let log = admin.read_command(log, 4096).unwrap().data;
        assert_eq!(number(&log, 8, 8), 3);
        for (at, there) in server.addresses().iter().enumerate() {
            let entry = &log[1024 * (at + 1)..][..1024];
            let text =
                |at: usize, bytes: usize| String::from_utf8_lossy(&entry[at..at + bytes]).trim().to_owned();
            assert_eq!(number(entry, 4, 2), at as u64 + 1, "PORTID");
            assert_eq!((text(512, 256), text(32, 32)), ("127.0.0.1".to_owned(), there.port().to_string()));
        }
    }
}

/// Requests of which the host waits for one.
fn awaited(host: &mut Host) -> u16 {
    host.admin.submit(command(admin::ASYNC_EVENT, 0, [0; 6]), Vec::new(), 0).unwrap()
}

#[test]
fn commands_through_a_port_that_is_not_accessible_are_refused_and_its_hosts_are_told() {
    let server = server(&[PortAccess::Optimized, PortAccess::Optimized]);
    let (mut first, mut second) = (attach_at(&server, 1), attach_at(&server, 2));
    for host in [&mut first, &mut second] {
        let enable = command(admin::SET_FEATURES, 0, [0x0b, ACCESS_NOTICES, 0, 0, 0, 0]);
        assert_eq!(host.admin.command(enable).unwrap().code, 0);
    }
    let data = pattern(1, UNIT);
    let write = |host: &mut Host| host.io.write_command(block_command(nvm::WRITE, 5, 1), &data).unwrap().code;
    let (waits, other) = (awaited(&mut first), awaited(&mut second));
    for (access_now, code, state) in [(PortAccess::Inaccessible, 0x302, 3), (PortAccess::Change, 0x303, 0xf)]
    {
        server.subsystem().set_access(1, access_now).unwrap();
        if state == 3 {
            let told = first.admin.reap().unwrap();
            assert_eq!((told.id, told.result), (waits, 0x0c_0302));
        }
        assert_eq!((write(&mut first), write(&mut second)), (code, 0));
        for opcode in [nvm::READ, nvm::VERIFY, nvm::WRITE_ZEROES, nvm::COMPARE, 0x80, 0x0d] {
            let refused = first.io.read_command(block_command(opcode, 5, 1), UNIT as u32).unwrap();
            assert_eq!(refused.code, code, "opcode {opcode:#x}");
        }
        assert_eq!(first.io.command(command(nvm::FLUSH, u32::MAX, [0; 6])).unwrap().code, code);
        assert_eq!(format(&mut first.admin, 1, 0), code, "Format NVM");
        // what is about the controller is answered
        assert_eq!(identify(&mut first.admin, 0, 1).data[..8], identify(&mut second.admin, 0, 1).data[..8]);
        let (changes, _, group, _) = access(&mut first, 0);
        assert_eq!((changes, group[3]), (group[2], state));
    }
    // the second change was told of when the log page had been read
    let waits = awaited(&mut first);
    assert_eq!(first.admin.reap().unwrap().id, waits);
    server.subsystem().set_access(1, PortAccess::NonOptimized).unwrap();
    assert_eq!((write(&mut first), access(&mut first, 0).2[3]), (0, 2));
    // nothing changed for the other one
    server.subsystem().set_access(2, PortAccess::NonOptimized).unwrap();
    assert_eq!(second.admin.reap().unwrap().id, other);
    assert_eq!(access(&mut second, 0), (1, 1, [1, 1, 1, 2], vec![1]));
    let refused = server.subsystem().set_access(3, PortAccess::Optimized);
    assert_eq!(refused, Err(NoPort { port: 3, ports: 2 }));
}

/// Data of a write come after its port has become inaccessible.
#[test]
fn a_write_that_waits_for_its_data_is_refused_as_well() {
    let server = server(&[PortAccess::Optimized, PortAccess::Optimized]);
    let (mut host, mut other) = (attach_at(&server, 1), attach_at(&server, 2));
    other.write(5, UNIT, &pattern(2, 16 * UNIT));
    let data = pattern(1, 16 * UNIT);
    let mut write = block_command(nvm::WRITE, 5, 16);
    write.data = Pointer::new(data.len() as u32, TRANSPORT);
    let id = host.io.submit(write, Vec::new(), 0).unwrap();
    let ready = Data::read_from_bytes(&host.io.receive().unwrap().header).unwrap();
    server.subsystem().set_access(1, PortAccess::Inaccessible).unwrap();
    let header = Data::new(kind::H2C_DATA, flag::LAST, id, ready.transfer.get(), 0, data.len() as u32);
    let pdu = host.io.encode(header.as_bytes(), &data);
    host.io.send(&pdu).unwrap();
    let ended = host.io.reap().unwrap();
    assert_eq!((ended.id, ended.code), (id, 0x302));
    assert!(other.read(5, UNIT, 16) == pattern(2, 16 * UNIT), "it is not written");
}

#[test]
fn all_queues_of_a_controller_come_through_one_port() {
    let server = server(&[PortAccess::Optimized, PortAccess::Optimized]);
    let host = attach_at(&server, 1);
    let mut elsewhere = Client::open(server.addresses()[1], Options::default()).unwrap();
    let refused = elsewhere.connect(2, 31, host.controller, &names(), 0).unwrap();
    assert_eq!(refused.code, Failure::connect_parameter(true, 0).code());
    let mut here = Client::open(server.addresses()[0], Options::default()).unwrap();
    assert_eq!(here.connect(2, 31, host.controller, &names(), 0).unwrap().code, 0);
}

#[test]
fn data_come_back_through_each_port() {
    let server = server(&[PortAccess::NonOptimized, PortAccess::Optimized]);
    move_data(&server, 4096, None);
    let mut second = attach_at(&server, 2);
    second.write(7, UNIT, &pattern(3, 64 * UNIT));
    assert!(attach_at(&server, 1).read(7, UNIT, 64) == pattern(3, 64 * UNIT));
}
