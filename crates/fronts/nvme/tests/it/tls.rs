//! TLS: hosts with the right key, and others; what is moved over it; connections that are changed or break.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use crate::attach::move_data;
use crate::broken_network::break_connections;
use crate::common::witness::number;
use crate::common::{NQN, UNIT, names, pattern, serve, subsystem, wait_until};
use tantalum_nvme::authentication::{Derivation, Hosts, Secret, Tls, TlsKey};
use tantalum_nvme::client::{Authenticated, Client, Credentials, Names, Options, block_command, command};
use tantalum_nvme::failure::Failure;
use tantalum_nvme::server::Server;
use tantalum_nvme::wire::fabrics::{ANY_CONTROLLER, DISCOVERY_NQN};
use tantalum_nvme::wire::opcode::{admin, nvm};

const OTHER: &str = "nqn.2014-08.org.nvmexpress:other";

fn key(byte: u8) -> TlsKey {
    TlsKey::new(&[byte; 32], true).unwrap()
}

/// A server on which the host of all tests has key 1, and another one key 2.
fn server_as(block_bytes: u32, is_required: bool) -> Server {
    let keys = [(names().host, key(1)), (OTHER.to_owned(), key(2))];
    let hosts = Hosts::default().with_tls(Tls::new(keys, is_required));
    serve(Arc::new(Arc::into_inner(subsystem(block_bytes)).unwrap().for_hosts(hosts)))
}

fn with(key: TlsKey) -> Options {
    Options { tls: Some(key), ..Options::default() }
}

fn works(server: &Server, options: Options, names: &Names) {
    let (_admin, controller) = Client::admin(server.address(), options, names, 0).unwrap();
    let mut io = Client::io(server.address(), options, names, controller, 1).unwrap();
    let data = pattern(controller.into(), UNIT);
    assert_eq!(io.write_command(block_command(nvm::WRITE, 5, 1), &data).unwrap().code, 0);
    assert!(io.read_command(block_command(nvm::READ, 5, 1), UNIT as u32).unwrap().data == data);
}

#[test]
fn a_host_with_its_key_is_let_in_and_no_other_is() {
    let server = server_as(4096, true);
    works(&server, with(key(1)), &names());
    let other = Names { host: OTHER.to_owned(), ..names() };
    works(&server, with(key(2)), &other);
    let stranger = Names { host: "nqn.2014-08.org.nvmexpress:stranger".to_owned(), ..names() };
    let bound_elsewhere = TlsKey::new(&[1; 32], false).unwrap();
    for (options, names, what) in [
        (Options::default(), names(), "without TLS"),
        (with(key(2)), names(), "the key of another host"),
        (with(bound_elsewhere), names(), "the same bytes, not bound to the name"),
        (with(key(1).derived_as(Derivation::Compatible)), names(), "derived otherwise"),
        (with(key(1)), stranger, "a host without a key"),
        (
            with(key(1)),
            Names { subsystem: "nqn.2014-08.org.nvmexpress:else".to_owned(), ..names() },
            "elsewhere",
        ),
    ] {
        assert!(Client::admin(server.address(), options, &names, 0).is_err(), "{what}");
    }
    works(&server, with(key(1)), &names());
}

#[test]
fn keys_of_each_kind_and_age_are_known() {
    let long = TlsKey::new(&[3; 48], true).unwrap();
    for key in [
        key(3),
        TlsKey::new(&[3; 32], false).unwrap(),
        long,
        TlsKey::new(&[3; 48], false).unwrap(),
        long.derived_as(Derivation::Compatible),
    ] {
        let tls = Tls::new([(names().host, key)], true);
        let subsystem = Arc::into_inner(subsystem(4096)).unwrap();
        let server = serve(Arc::new(subsystem.for_hosts(Hosts::default().with_tls(tls))));
        works(&server, with(key), &names());
        // version 1 of the identity, and version 0
        for derived in key.derive(&names().host, NQN) {
            let socket = TcpStream::connect(server.address()).unwrap();
            let mut stream = tantalum_tls::Stream::client(socket, &[derived.clone().preshared()]).unwrap();
            stream.handshake().unwrap();
            assert_eq!(stream.identity(), derived.identity.as_bytes());
            let cipher =
                if key.text().len() > 70 { "TLS_AES_256_GCM_SHA384" } else { "TLS_AES_128_GCM_SHA256" };
            assert_eq!(stream.cipher(), Some(cipher));
        }
    }
}

/// The key of one host, or of discovery, is none of another.
#[test]
fn a_secured_connection_is_that_of_the_host_and_the_subsystem_of_its_key() {
    let server = server_as(4096, true);
    let open = |subsystem: &str| {
        let names = Names { subsystem: subsystem.to_owned(), ..names() };
        Client::open_as(server.address(), with(key(1)), &names).unwrap()
    };
    let other = Names { host: OTHER.to_owned(), ..names() };
    let refused = open(NQN).connect(0, 31, ANY_CONTROLLER, &other, 0).unwrap();
    assert_eq!(refused.code, Failure::CONNECT_HOST.code());
    let discovery = Names { subsystem: DISCOVERY_NQN.to_owned(), ..names() };
    let refused = open(NQN).connect(0, 31, ANY_CONTROLLER, &discovery, 0).unwrap();
    assert_eq!(refused.code, Failure::connect_parameter(true, 0).code());
    let refused = open(DISCOVERY_NQN).connect(0, 31, ANY_CONTROLLER, &names(), 0).unwrap();
    assert_eq!(refused.code, Failure::connect_parameter(true, 0).code());
    assert_eq!(open(DISCOVERY_NQN).connect(0, 31, ANY_CONTROLLER, &discovery, 0).unwrap().code, 0);
}

/// `TREQ`, and the type of security.
fn told(server: &Server, options: Options) -> (u8, u8) {
    let names = Names { subsystem: DISCOVERY_NQN.to_owned(), ..names() };
    let (mut admin, _) = Client::admin(server.address(), options, &names, 0).unwrap();
    let log = command(admin::GET_LOG_PAGE, 0, [0x70 | 511 << 16, 0, 0, 0, 0, 0]);
    let log = admin.read_command(log, 2048).unwrap().data;
    (log[1024 + 3], log[1024 + 768])
}

#[test]
fn discovery_tells_whether_tls_is_required_or_allowed() {
    assert_eq!(told(&server_as(4096, true), with(key(1))), (1 | 1 << 2, 2));
    let allowed = server_as(4096, false);
    assert_eq!((told(&allowed, with(key(1))), told(&allowed, Options::default())), ((2 | 1 << 2, 2), (6, 2)));
    assert_eq!(told(&serve(subsystem(4096)), Options::default()), (1 << 2, 0));
}

#[test]
fn where_tls_is_allowed_hosts_choose() {
    let server = server_as(4096, false);
    works(&server, Options::default(), &names());
    works(&server, with(key(1)), &names());
    assert!(Client::admin(server.address(), with(key(2)), &names(), 0).is_err());
    // a server that has no keys takes TLS for a damaged PDU
    assert!(Client::admin(serve(subsystem(4096)).address(), with(key(1)), &names(), 0).is_err());
}

#[test]
fn hosts_with_tls_also_prove_their_secrets() {
    let secret = Secret::new(vec![7; 32], None).unwrap();
    let secrets = tantalum_nvme::authentication::hosts::Secrets { host: secret.clone(), controller: None };
    let hosts = Hosts::with_secrets([(names().host, Some(secrets))]);
    let hosts = hosts.with_tls(Tls::new([(names().host, key(1))], true));
    let server = serve(Arc::new(Arc::into_inner(subsystem(4096)).unwrap().for_hosts(hosts)));
    let mut client = Client::open_as(server.address(), with(key(1)), &names()).unwrap();
    let connected = client.connect(0, 31, ANY_CONTROLLER, &names(), 0).unwrap();
    assert_eq!((connected.code, connected.result >> 17 & 1), (0, 1), "it must authenticate");
    let credentials = Credentials {
        secret,
        controller_secret: None,
        hashes: tantalum_nvme::authentication::hash::Hash::ALL.to_vec(),
        groups: vec![tantalum_nvme::authentication::group::Group::Null],
    };
    let authenticated = client.authenticate(&names(), &credentials).unwrap();
    assert!(!matches!(authenticated, Authenticated::Refused(_)), "{authenticated:?}");
}

#[test]
fn data_come_back_over_tls_in_every_way_of_moving_them() {
    for block_bytes in [4096, 512] {
        move_data(&server_as(block_bytes as u32, true), block_bytes, Some(key(1)));
    }
}

#[test]
fn a_network_that_breaks_connections_with_tls_tears_nothing_and_loses_nothing() {
    break_connections(&server_as(4096, false), number("BREAKS", 60) / 2, Some(key(1)));
}

/// Between a host and the server, a byte of the host changes after so many.
fn damaging(server: SocketAddr, at: usize) -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let Ok((mut host, _)) = listener.accept() else { return };
        let mut to = TcpStream::connect(server).unwrap();
        let (mut back, mut answers) = (host.try_clone().unwrap(), to.try_clone().unwrap());
        thread::spawn(move || {
            let _ = std::io::copy(&mut answers, &mut back);
            let _ = back.shutdown(Shutdown::Both);
        });
        let (mut buffer, mut done) = ([0; 4096], 0);
        while let Ok(bytes @ 1..) = host.read(&mut buffer) {
            if (done..done + bytes).contains(&at) {
                buffer[at - done] ^= 1;
            }
            done += bytes;
            if to.write_all(&buffer[..bytes]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Write);
    });
    address
}

/// Bytes of the handshake, and of what follows.
#[test]
fn a_changed_byte_ends_the_connection() {
    let server = server_as(4096, true);
    let mut changed = 0;
    for at in (0..).step_by(37) {
        let attached = Client::admin(damaging(server.address(), at), with(key(1)), &names(), 0);
        if attached.is_ok() {
            assert!(at > 1000, "byte {at} was changed");
            break;
        }
        changed += 1;
    }
    println!("{changed} connections ended");
    assert!(changed > 20);
    works(&server, with(key(1)), &names());
}

#[test]
fn a_host_that_stops_in_the_middle_of_a_handshake_is_not_waited_for_by_others() {
    let server = server_as(4096, true);
    let mut halves = Vec::new();
    for bytes in [1, 5, 60] {
        let mut half = TcpStream::connect(server.address()).unwrap();
        // a record with a handshake of 512 bytes
        let mut record = vec![22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3];
        record.resize(bytes, 0);
        half.write_all(&record[..bytes]).unwrap();
        halves.push(half);
    }
    wait_until("they are connected", || server.connections() == halves.len());
    works(&server, with(key(1)), &names());
    // and they are closed in time
    wait_until("they have ended", || server.connections() == 0);
    let mut rest = Vec::new();
    assert!(halves[0].read_to_end(&mut rest).is_ok() && rest.is_empty(), "{rest:?}");
}
