//! Hosts prove that they know their secrets, or are refused.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::{UNIT, names, pattern, subsystem, wait_until};
use tantalum_nvme::authentication::group::Group;
use tantalum_nvme::authentication::hash::Hash;
use tantalum_nvme::authentication::{Hosts, Secret};
use tantalum_nvme::client::{
    Authenticated, Client, Credentials, Names, Options, block_command, command, refusal,
};
use tantalum_nvme::controller::ENABLED;
use tantalum_nvme::failure::Failure;
use tantalum_nvme::server::Server;
use tantalum_nvme::wire::authentication::{Head, Negotiate, Reason, id, kind};
use tantalum_nvme::wire::fabrics::{ANY_CONTROLLER, DISCOVERY_NQN, property};
use tantalum_nvme::wire::opcode::{admin, nvm};
use zerocopy::IntoBytes;

fn secret(byte: u8) -> Secret {
    Secret::new(vec![byte; 32], Some(Hash::Sha256)).unwrap()
}

fn credentials() -> Credentials {
    Credentials {
        secret: secret(1),
        controller_secret: None,
        hashes: Hash::ALL.to_vec(),
        groups: vec![Group::Null],
    }
}

fn of_host(name: &str) -> Names {
    Names { host: name.to_owned(), ..names() }
}

/// A server for the hosts `nqn.2014-08.org.example:one` (with a secret of the subsystem), `nqn.2014-08.org.example:two` (without) and `nqn.2014-08.org.example:open`, which needs none.
fn serve() -> Server {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("secrets");
    let text = format!(
        "nqn.2014-08.org.example:one {} {}\nnqn.2014-08.org.example:two {}\n",
        secret(1).text(),
        secret(9).text(),
        Secret::new(vec![2; 64], None).unwrap().text()
    );
    std::fs::write(&file, text).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let hosts =
        ["nqn.2014-08.org.example:one", "nqn.2014-08.org.example:two", "nqn.2014-08.org.example:open"]
            .map(str::to_owned);
    let hosts = Hosts::named(&hosts, Some(&file)).unwrap();
    let subsystem = Arc::into_inner(subsystem(4096)).unwrap().for_hosts(hosts);
    Server::start(Arc::new(subsystem), SocketAddr::from(([127, 0, 0, 1], 0))).unwrap()
}

/// A connection that is a queue but not authenticated, and the answer of Connect.
fn connect(server: &Server, queue: u16, controller: u16, names: &Names) -> (Client, u64) {
    let mut client = Client::open(server.address(), Options::default()).unwrap();
    let connected = client.connect(queue, 31, controller, names, 0).unwrap();
    assert_eq!(connected.code, 0);
    (client, connected.result)
}

fn admin(server: &Server) -> Client {
    connect(server, 0, ANY_CONTROLLER, &of_host("nqn.2014-08.org.example:one")).0
}

/// The server has hung up.
fn is_over(client: &mut Client) {
    let began = Instant::now();
    assert!(client.receive().is_err());
    assert!(began.elapsed() < Duration::from_secs(5), "the connection goes on");
}

fn all_is_well(server: &Server) {
    let names = of_host("nqn.2014-08.org.example:one");
    let (mut client, connected) = connect(server, 0, ANY_CONTROLLER, &names);
    assert_eq!(client.authenticate(&names, &credentials()).unwrap(), Authenticated::Yes);
    assert_eq!(client.set_property(property::CONFIGURATION, ENABLED.into()).unwrap().code, 0);
    let (mut io, told) = connect(server, 1, connected as u16, &names);
    assert_eq!(told >> 16, 2, "each queue is authenticated");
    assert_eq!(io.authenticate(&names, &credentials()).unwrap(), Authenticated::Yes);
    let data = pattern(1, UNIT);
    assert_eq!(io.write_command(block_command(nvm::WRITE, 5, 1), &data).unwrap().code, 0);
    assert!(io.read_command(block_command(nvm::READ, 5, 1), UNIT as u32).unwrap().data == data);
}

#[test]
fn every_hash_and_group_lets_the_right_secret_in_and_the_wrong_one_not() {
    let server = serve();
    all_is_well(&server);
    let one = of_host("nqn.2014-08.org.example:one");
    for hash in Hash::ALL {
        for group in Group::ALL {
            let right = Credentials { hashes: vec![hash], groups: vec![group], ..credentials() };
            let with_proof = Credentials { controller_secret: Some(secret(9)), ..right.clone() };
            let wrong = Credentials { secret: secret(3), ..right.clone() };
            for (credentials, expected) in [
                (&right, Authenticated::Yes),
                (&with_proof, Authenticated::Yes),
                (&wrong, Authenticated::Refused(Reason::Failed as u8)),
            ] {
                let mut client = admin(&server);
                assert_eq!(client.authenticate(&one, credentials).unwrap(), expected, "{hash:?} {group:?}");
                if expected == Authenticated::Yes {
                    assert_eq!(client.property(property::CAPABILITIES, true).unwrap().code, 0);
                } else {
                    is_over(&mut client);
                }
            }
        }
    }
    wait_until("controllers are left", || server.subsystem().controllers() == 0);
}

#[test]
fn the_controller_proves_itself_with_its_own_secret_or_not_at_all() {
    let server = serve();
    // the host expects another secret of the subsystem
    let mut client = admin(&server);
    let other = Credentials { controller_secret: Some(secret(8)), ..credentials() };
    let ended = client.authenticate(&of_host("nqn.2014-08.org.example:one"), &other).unwrap();
    assert_eq!(ended, Authenticated::ControllerUnknown);
    is_over(&mut client);
    // the subsystem has no secret for this host
    let two = of_host("nqn.2014-08.org.example:two");
    let (mut client, _) = connect(&server, 0, ANY_CONTROLLER, &two);
    let own = Secret::new(vec![2; 64], None).unwrap();
    let asks = Credentials { secret: own.clone(), controller_secret: Some(secret(9)), ..credentials() };
    let refused = Authenticated::Refused(Reason::Failed as u8);
    assert_eq!(client.authenticate(&two, &asks).unwrap(), refused);
    let (mut client, _) = connect(&server, 0, ANY_CONTROLLER, &two);
    let asks_not = Credentials { secret: own, ..credentials() };
    assert_eq!(client.authenticate(&two, &asks_not).unwrap(), Authenticated::Yes);
}

#[test]
fn an_unauthenticated_queue_takes_nothing_else() {
    let server = serve();
    let required = Failure::AUTHENTICATION_REQUIRED.code();
    let mut client = admin(&server);
    for opcode in [admin::IDENTIFY, admin::KEEP_ALIVE, admin::ASYNC_EVENT, admin::GET_LOG_PAGE, 0xff] {
        assert_eq!(client.command(command(opcode, 0, [0; 6])).unwrap().code, required, "{opcode:#x}");
    }
    assert_eq!(client.property(property::CAPABILITIES, true).unwrap().code, required);
    assert_eq!(client.set_property(property::CONFIGURATION, ENABLED.into()).unwrap().code, required);
    // nor in the middle of it
    let names = of_host("nqn.2014-08.org.example:one");
    client.send_message(&credentials().offer(1)).unwrap();
    let challenge = client.receive_message().unwrap().data;
    assert_eq!(client.property(property::CAPABILITIES, true).unwrap().code, required);
    let answered = credentials().answer(&challenge, &names).unwrap();
    client.send_message(&answered.message).unwrap();
    assert_eq!(client.property(property::CAPABILITIES, true).unwrap().code, required, "not told yet");
    assert_eq!(refusal(&client.receive_message().unwrap().data), None);
    assert_eq!(client.property(property::CAPABILITIES, true).unwrap().code, 0);
}

#[test]
fn an_io_queue_of_an_authenticated_controller_is_not_authenticated() {
    let server = serve();
    let names = of_host("nqn.2014-08.org.example:one");
    let (mut client, connected) = connect(&server, 0, ANY_CONTROLLER, &names);
    // before the admin queue is authenticated, there is no I/O queue
    let mut early = Client::open(server.address(), Options::default()).unwrap();
    let refused = early.connect(1, 31, connected as u16, &names, 0).unwrap();
    assert_eq!(refused.code, Failure::SEQUENCE.code());
    client.authenticate(&names, &credentials()).unwrap();
    client.set_property(property::CONFIGURATION, ENABLED.into()).unwrap();
    let (mut io, _) = connect(&server, 1, connected as u16, &names);
    let required = Failure::AUTHENTICATION_REQUIRED.code();
    assert_eq!(io.command(block_command(nvm::FLUSH, 0, 1)).unwrap().code, required);
    assert_eq!(io.read_command(block_command(nvm::READ, 0, 1), 4096).unwrap().code, required);
    assert_eq!(io.write_command(block_command(nvm::WRITE, 0, 1), &[1; 4096]).unwrap().code, required);
    let wrong = Credentials { secret: secret(3), ..credentials() };
    let refused = Authenticated::Refused(Reason::Failed as u8);
    assert_eq!(io.authenticate(&names, &wrong).unwrap(), refused);
    is_over(&mut io);
    // the admin queue continues
    assert_eq!(client.property(property::CAPABILITIES, true).unwrap().code, 0);
    all_is_well(&server);
}

#[test]
fn an_overheard_reply_is_worth_nothing() {
    let server = serve();
    let names = of_host("nqn.2014-08.org.example:one");
    let mut client = admin(&server);
    client.send_message(&credentials().offer(1)).unwrap();
    let challenge = client.receive_message().unwrap().data;
    let overheard = credentials().answer(&challenge, &names).unwrap().message;
    client.send_message(&overheard).unwrap();
    assert_eq!(refusal(&client.receive_message().unwrap().data), None);
    // another connection gets a different challenge
    let mut other = admin(&server);
    other.send_message(&credentials().offer(1)).unwrap();
    assert_ne!(other.receive_message().unwrap().data[16..48], challenge[16..48]);
    other.send_message(&overheard).unwrap();
    assert_eq!(refusal(&other.receive_message().unwrap().data), Some(Reason::Failed as u8));
    is_over(&mut other);
    // a host that sends our own challenge back gets no answer
    let mut mirror = admin(&server);
    mirror.send_message(&credentials().offer(1)).unwrap();
    let challenge = mirror.receive_message().unwrap().data;
    let asks = Credentials { controller_secret: Some(secret(9)), ..credentials() };
    let mut message = asks.answer(&challenge, &names).unwrap().message;
    message[48..80].copy_from_slice(&challenge[16..48]);
    mirror.send_message(&message).unwrap();
    assert_eq!(refusal(&mirror.receive_message().unwrap().data), Some(Reason::Failed as u8));
}

/// Sends these messages one after the other; the first message that is received has this reason, and is the last.
#[track_caller]
fn fails(server: &Server, messages: &[Vec<u8>], reason: Reason) {
    let mut client = admin(server);
    for message in messages {
        assert_eq!(client.send_message(message).unwrap().code, 0);
    }
    assert_eq!(refusal(&client.receive_message().unwrap().data), Some(reason as u8));
    is_over(&mut client);
}

#[test]
fn messages_out_of_order_or_damaged_end_the_connection() {
    let server = serve();
    let offer = credentials().offer(1);
    let head = |kind, id| [Head::new(kind, id, 1).as_bytes(), &[0; 250]].concat();
    fails(&server, &[head(kind::CHAP, id::REPLY)], Reason::Message);
    fails(&server, &[head(kind::CHAP, id::SUCCESS2)], Reason::Message);
    fails(&server, &[head(kind::COMMON, id::FAILURE2)], Reason::Message);
    fails(&server, &[head(7, 7)], Reason::Message);
    fails(&server, &[], Reason::Message);
    fails(&server, &[offer.clone(), offer.clone()], Reason::Message);
    fails(&server, &[offer.clone(), head(kind::CHAP, id::REPLY)], Reason::Message);
    fails(&server, &[vec![0; 3]], Reason::Payload);
    fails(&server, &[offer[..40].to_vec()], Reason::Payload);
    let change = |change: &dyn Fn(&mut Negotiate)| {
        let mut offer = Negotiate::new(1, &[1, 2, 3], &[0, 1]);
        change(&mut offer);
        vec![offer.as_bytes().to_vec()]
    };
    fails(&server, &change(&|offer| offer.secure_channel = 1), Reason::SecureChannel);
    fails(&server, &change(&|offer| offer.protocols = 0), Reason::Protocol);
    fails(&server, &change(&|offer| offer.protocol = 2), Reason::Protocol);
    fails(&server, &change(&|offer| offer.hash_count = 0), Reason::Hash);
    fails(&server, &change(&|offer| offer.hashes = [9; 30]), Reason::Hash);
    fails(&server, &change(&|offer| offer.group_count = 0), Reason::Group);
    fails(&server, &change(&|offer| offer.groups = [5; 30]), Reason::Group);
    fails(&server, &change(&|offer| offer.hash_count = 31), Reason::Payload);
    fails(&server, &change(&|offer| offer.group_count = 255), Reason::Payload);
    all_is_well(&server);
}

#[test]
fn replies_that_cannot_be_are_refused() {
    let server = serve();
    let names = of_host("nqn.2014-08.org.example:one");
    // the position in the reply, what to write there, the length of the message, and the reason for the refusal
    let whole = usize::MAX;
    for (group, at, byte, length, reason) in [
        (Group::Null, 6, 0, whole, Reason::Payload),
        (Group::Null, 6, 31, whole, Reason::Payload),
        (Group::Null, 6, 255, whole, Reason::Payload),
        (Group::Null, 10, 1, whole, Reason::Payload),
        (Group::Null, 16, 0xaa, 16, Reason::Payload),
        (Group::Null, 16, 0xaa, 79, Reason::Payload),
        (Group::Null, 4, 2, whole, Reason::Message),
        (Group::Ffdhe2048, 11, 0, whole, Reason::Group),
        (Group::Ffdhe2048, 11, 2, whole, Reason::Payload),
        (Group::Ffdhe2048, 80, 0xff, whole, Reason::Failed),
    ] {
        let mut client = admin(&server);
        let credentials = Credentials { groups: vec![group], ..credentials() };
        client.send_message(&credentials.offer(1)).unwrap();
        let challenge = client.receive_message().unwrap().data;
        let mut reply = credentials.answer(&challenge, &names).unwrap().message;
        reply[at] = if reply[at] == byte { !byte } else { byte };
        reply.truncate(length);
        assert_eq!(client.send_message(&reply).unwrap().code, 0);
        let told = refusal(&client.receive_message().unwrap().data);
        assert_eq!(told, Some(reason as u8), "{group:?} {at} {byte} {length}");
        is_over(&mut client);
    }
}

#[test]
fn hosts_that_are_not_named_are_refused_and_those_without_a_secret_are_not_asked() {
    let server = serve();
    let mut client = Client::open(server.address(), Options::default()).unwrap();
    let refused =
        client.connect(0, 31, ANY_CONTROLLER, &of_host("nqn.2014-08.org.example:other"), 0).unwrap();
    assert_eq!(refused.code, Failure::CONNECT_HOST.code());
    let (mut open, told) = connect(&server, 0, ANY_CONTROLLER, &of_host("nqn.2014-08.org.example:open"));
    assert_eq!(told >> 16, 0);
    assert_eq!(open.property(property::CAPABILITIES, true).unwrap().code, 0);
    assert_eq!(open.send_message(&credentials().offer(1)).unwrap().code, Failure::SEQUENCE.code());
    // where the subsystem is may be asked by any named host
    let discovery = |host: &str| Names { subsystem: DISCOVERY_NQN.to_owned(), ..of_host(host) };
    let (_, told) = connect(&server, 0, ANY_CONTROLLER, &discovery("nqn.2014-08.org.example:one"));
    assert_eq!(told >> 16, 0);
    let mut client = Client::open(server.address(), Options::default()).unwrap();
    let refused =
        client.connect(0, 31, ANY_CONTROLLER, &discovery("nqn.2014-08.org.example:other"), 0).unwrap();
    assert_eq!(refused.code, Failure::CONNECT_HOST.code());
}

#[test]
fn a_host_may_prove_itself_again_and_loses_everything_if_it_cannot() {
    let server = serve();
    let names = of_host("nqn.2014-08.org.example:one");
    let mut client = admin(&server);
    for _ in 0..3 {
        assert_eq!(client.authenticate(&names, &credentials()).unwrap(), Authenticated::Yes);
    }
    let wrong = Credentials { secret: secret(3), ..credentials() };
    let refused = Authenticated::Refused(Reason::Failed as u8);
    assert_eq!(client.authenticate(&names, &wrong).unwrap(), refused);
    is_over(&mut client);
}

#[test]
fn who_connects_and_does_not_authenticate_is_hung_up_on() {
    let server = serve();
    let mut client = admin(&server);
    let began = Instant::now();
    // one that continues to talk fares no better
    while client.property(property::CAPABILITIES, true).is_ok() {
        std::thread::sleep(Duration::from_millis(200));
        assert!(began.elapsed() < Duration::from_secs(30), "it may stay for ever");
    }
    assert!(began.elapsed() > Duration::from_secs(5));
    wait_until("controllers are left", || server.subsystem().controllers() == 0);
}
