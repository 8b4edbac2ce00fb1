//! Too many connections, silent ones, slow ones, and ones that take no answers: memory stays bounded, and a correct host is
//! not affected.

mod common;

use std::io::Read;
use std::time::{Duration, Instant};

use common::bystander::Bystander;
use common::{attach, names, serve, subsystem, wait_until};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tantalum_nvme::client::{Client, Options, block_command};
use tantalum_nvme::failure::Failure;
use tantalum_nvme::server::{MOST_CONNECTIONS, Server};
use tantalum_nvme::wire::command::{Pointer, TRANSPORT};
use tantalum_nvme::wire::opcode::nvm;
use tantalum_nvme::wire::pdu::CommandCapsule;
use zerocopy::IntoBytes;

/// Bytes of memory that this process has, with its hosts.
fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

/// A connection has a descriptor here and three in the server. `None` if there cannot be that many.
fn raise_file_limit(connections: usize) -> Option<()> {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).unwrap();
    (hard as usize > connections * 4 + 200).then_some(())
}

fn dial(server: &Server) -> Client {
    Client::dial(server.address(), Options::default()).unwrap()
}

#[test]
fn a_thousand_connections_of_each_kind_and_more_than_there_may_be() {
    if raise_file_limit(MOST_CONNECTIONS + 100).is_none() {
        println!("the limit of open files is too low for this many connections");
        return;
    }
    let server = serve(subsystem(4096));
    let bystander = Bystander::start(&server);
    let before = resident_bytes();
    let silent: Vec<Client> = (0..700).map(|_| dial(&server)).collect();
    let half: Vec<Client> =
        (0..700).map(|_| Client::open(server.address(), Options::default()).unwrap()).collect();
    bystander.goes_on();
    let admins: Vec<(Client, u16)> =
        (0..600).map(|_| Client::admin(server.address(), Options::default(), &names(), 0).unwrap()).collect();
    bystander.goes_on();
    let used = resident_bytes().saturating_sub(before);
    println!("{} connections take {} KiB each, with their hosts", server.connections(), (used / 2000) >> 10);
    assert!(used < 2000 * (160 << 10), "{used} bytes for 2000 connections");
    let mut rest: Vec<Client> = Vec::new();
    wait_until("the limit is never reached", || {
        rest.push(dial(&server));
        server.connections() == MOST_CONNECTIONS
    });
    // one more is closed at once, and the existing ones stay
    std::thread::sleep(Duration::from_millis(100));
    let mut more = dial(&server);
    let began = Instant::now();
    assert!(more.receive().is_err());
    assert!(began.elapsed() < Duration::from_secs(5), "it was left waiting");
    assert_eq!(server.connections(), MOST_CONNECTIONS);
    bystander.goes_on();
    drop((silent, half, admins, rest));
    wait_until("connections are left", || server.connections() == 2);
    assert_eq!(server.subsystem().controllers(), 1, "the bystander's");
    attach(&server, Options::default());
    bystander.finish();
}

#[test]
fn silent_connections_are_hung_up_on() {
    let server = serve(subsystem(4096));
    let bystander = Bystander::start(&server);
    let mut silent: Vec<Client> = (0..50).map(|_| dial(&server)).collect();
    silent.extend((0..50).map(|_| Client::open(server.address(), Options::default()).unwrap()));
    let began = Instant::now();
    for client in &mut silent {
        assert!(client.receive().is_err());
        assert!(began.elapsed() < Duration::from_secs(50), "nobody hangs up on them");
    }
    assert!(began.elapsed() > Duration::from_secs(5), "hosts have a little time");
    wait_until("connections are left", || server.connections() == 2);
    bystander.finish();
}

/// The memory that all hosts together make the server hold is bounded: 256 MiB, plus a command of each.
#[test]
fn all_connections_together_hold_no_more_than_there_is() {
    let server = serve(subsystem(4096));
    let bystander = Bystander::start(&server);
    let big = 512 << 10;
    let mut hosts: Vec<_> = (0..100).map(|_| attach(&server, Options::default())).collect();
    for host in &mut hosts {
        for _ in 0..16 {
            let mut write = block_command(nvm::WRITE, 0, 128);
            write.data = Pointer::new(big, TRANSPORT);
            host.io.submit(write, Vec::new(), 0).unwrap();
        }
    }
    // each could hold eight: 400 MiB
    wait_until("next to nothing is held", || server.subsystem().budget.held() > 250 << 20);
    bystander.goes_on();
    let most = (256 << 20) + (100 + 1) * big as usize;
    let held = server.subsystem().budget.held();
    assert!(held <= most, "{held} bytes are held");
    println!("{} MiB are held", held >> 20);
    drop(hosts);
    wait_until("what was held is not given back", || server.subsystem().budget.held() <= 4096);
    bystander.finish();
}

/// The server stops reading from a host that sends commands and takes no answers once too much waits for it.
#[test]
fn who_takes_no_answers_is_not_read_from() {
    let server = serve(subsystem(4096));
    let bystander = Bystander::start(&server);
    let mut host = attach(&server, Options::default());
    host.io.stream().set_write_timeout(Some(Duration::from_secs(3))).unwrap();
    let unknown = CommandCapsule::new(block_command(0x7e, 0, 1));
    let many = unknown.as_bytes().repeat(1000);
    let mut sent = 0;
    while sent < 256 << 20 && host.io.send(&many).is_ok() {
        sent += many.len();
    }
    // answers are a third as long, and wait in the sockets as well
    assert!(sent < 128 << 20, "{} MiB of commands were taken", sent >> 20);
    drop(host);
    bystander.finish();
}

#[test]
fn slow_hosts_slow_down_nobody_else() {
    let server = serve(subsystem(4096));
    let bystander = Bystander::start(&server);
    // a byte now and then
    let mut dripping: Vec<_> = (0..40).map(|_| attach(&server, Options::default())).collect();
    let pdu = CommandCapsule::new(block_command(nvm::FLUSH, 0, 1));
    // these ask for much and take nothing
    let mut deaf: Vec<_> = (0..20).map(|_| attach(&server, Options::default())).collect();
    for host in &mut deaf {
        for _ in 0..60 {
            host.io.submit(block_command(nvm::READ, 0, 128), Vec::new(), 512 << 10).unwrap();
        }
    }
    for byte in pdu.as_bytes().chunks(1) {
        for host in &mut dripping {
            host.io.send(byte).unwrap();
        }
        bystander.goes_on();
    }
    for host in &mut dripping {
        assert_eq!(host.io.reap().unwrap().code, 0);
    }
    // what waits for a host that does not take it is bounded
    let held = server.subsystem().budget.held();
    assert!(held <= 20 * (4 << 20) + 8192, "{held} bytes wait");
    // and all of it is there for a host that finally takes it
    let mut last = deaf.pop().unwrap();
    for _ in 0..60 {
        assert_eq!(last.io.reap().unwrap().data.len(), 512 << 10);
    }
    // a host that hangs up with much in flight leaves nothing behind
    let mut some = [0; 1000];
    let gone = deaf.pop().unwrap();
    let _ = (&mut gone.io.stream()).read(&mut some);
    drop((gone, deaf, dripping));
    wait_until("connections are left", || server.connections() == 4);
    bystander.finish();
}

/// Each read that fails makes room for the next, which fails at once: a queue full of them must not nest that deep.
#[test]
fn a_queue_full_of_reads_without_power_is_answered() {
    let server = serve(subsystem(4096));
    let mut host = attach(&server, Options { together: true, ..Options::default() });
    {
        let mut device = server.subsystem().queue.drive().lock();
        let now_ns = device.time_ns();
        device.cut_power(now_ns);
    }
    for round in 0..4 {
        for _ in 0..120 {
            host.io.submit(block_command(nvm::READ, 0, 128), Vec::new(), 512 << 10).unwrap();
        }
        for _ in 0..120 {
            assert_eq!(host.io.reap().unwrap().code, Failure::POWER_LOSS.code(), "round {round}");
        }
    }
    assert_eq!(server.subsystem().budget.held(), 0);
}
