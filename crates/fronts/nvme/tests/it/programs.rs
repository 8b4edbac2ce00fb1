//! Programs in the drive, used by attached hosts: endpoints, rights, and forbidden requests.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::{Host, attach, names, pattern, small, subsystem_on};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum::{Device, PowerLoss};
use tantalum_drive::Pacing;
use tantalum_nvme::authentication::Hosts;
use tantalum_nvme::client::{Client, Completed, Names, Options, command};
use tantalum_nvme::failure::Failure;
use tantalum_nvme::serve::{Notice, Served};
use tantalum_nvme::server::Server;
use tantalum_nvme::wire::opcode::program as opcode;
use tantalum_nvme_programs::ENDPOINTS;
use tantalum_nvme_programs::wire::{Granted, Installation, Opened, Told};
use tantalum_spu::{answer, shipped};
use zerocopy::{FromBytes, IntoBytes};

/// A drive whose kernel is the host that [`names`] names.
fn server(pacing: Pacing) -> Server {
    let device = Device::in_memory(&small()).unwrap();
    let hosts = Hosts::default().with_kernels(&[names().host]).unwrap();
    let subsystem = Arc::into_inner(subsystem_on(device, 4096, pacing)).unwrap();
    crate::common::serve(subsystem.for_hosts(hosts).into())
}

/// A host that is not the kernel.
fn stranger(server: &Server) -> Host {
    let names = Names { host: "nqn.2014-08.org.nvmexpress:stranger".to_owned(), ..names() };
    let (admin, controller) = Client::admin(server.address(), Options::default(), &names, 0).unwrap();
    let io = Client::io(server.address(), Options::default(), &names, controller, 1).unwrap();
    Host { admin, io, controller }
}

/// An endpoint, as its host knows it.
#[derive(Clone, Copy, Debug)]
struct Endpoint {
    key: u64,
    number: u32,
    process: u32,
}

const NEW: u64 = 0;

fn give(host: &mut Host, code: u8, key: u64, dwords: [u32; 4], data: &[u8], read_bytes: u32) -> Completed {
    let [first, second, third, fourth] = dwords;
    let command = command(code, 1, [first, second, third, fourth, key as u32, (key >> 32) as u32]);
    match data {
        [] if read_bytes > 0 => host.io.read_command(command, read_bytes).unwrap(),
        [] => host.io.command(command).unwrap(),
        data => host.io.write_command(command, data).unwrap(),
    }
}

fn open_as(host: &mut Host, is_kernel: bool, key: u64) -> Result<Endpoint, u16> {
    let opened = give(host, opcode::OPEN, key, [is_kernel.into(), 0, 0, 0], &[], 64);
    if opened.code != 0 {
        return Err(opened.code);
    }
    let opened = Opened::read_from_bytes(&opened.data).unwrap();
    assert_eq!((opened.processors.get(), opened.stripe_bytes.get()), (8, 8192));
    assert_eq!((opened.capacity_bytes.get(), opened.body_bytes.get()), (64 << 20, 64 << 10));
    Ok(Endpoint { key: opened.key.get(), number: opened.endpoint.get(), process: opened.process.get() })
}

fn open(host: &mut Host) -> Endpoint {
    open_as(host, false, NEW).unwrap()
}

fn install_as(host: &mut Host, endpoint: Endpoint, module: &[u8], head: Installation) -> Completed {
    let data = [head.as_bytes(), module].concat();
    give(host, opcode::INSTALL, endpoint.key, [data.len() as u32, 0, 0, 0], &data, 0)
}

fn install(host: &mut Host, endpoint: Endpoint, module: &[u8]) -> u32 {
    let mut head = Installation::default();
    head.is_open = 1.into();
    let installed = install_as(host, endpoint, module, head);
    assert_eq!(installed.code, 0);
    installed.result as u32
}

fn send_to(host: &mut Host, endpoint: Endpoint, spu: u32, to: (u32, u32), body: &[u8]) -> Completed {
    give(host, opcode::SEND, endpoint.key, [body.len() as u32, spu, to.0, to.1], body, 0)
}

fn send(host: &mut Host, endpoint: Endpoint, spu: u32, to: (u32, u32), body: &[u8]) -> i32 {
    let sent = send_to(host, endpoint, spu, to, body);
    assert_eq!((sent.code, sent.result >> 32), (0, 0));
    sent.result as u32 as i32
}

fn receive_in(host: &mut Host, endpoint: Endpoint, bytes: u32, wait_ms: u32) -> Completed {
    give(host, opcode::RECEIVE, endpoint.key, [bytes, wait_ms, 0, 0], &[], bytes)
}

/// The next event, and what came with it.
fn receive(host: &mut Host, endpoint: Endpoint) -> Option<(Told, Vec<u8>)> {
    let received = receive_in(host, endpoint, 48 + (64 << 10), 2000);
    assert_eq!((received.code, received.result), (0, received.data.len() as u64));
    let (told, rest) = Told::read_from_prefix(&received.data).ok()?;
    assert_eq!(told.bytes.get() as usize, rest.len());
    Some((told, rest.to_vec()))
}

fn grant(host: &mut Host, kernel: Endpoint, process: u32, range: std::ops::Range<u64>, rights: u32) -> u16 {
    let mut granted = Granted::default();
    (granted.process, granted.rights) = (process.into(), rights.into());
    (granted.start, granted.end) = (range.start.into(), range.end.into());
    give(host, opcode::GRANT, kernel.key, [0; 4], granted.as_bytes(), 0).code
}

fn refusal(host: &mut Host, endpoint: Endpoint) -> String {
    let told = give(host, opcode::OUTPUT, endpoint.key, [4096, 0, 0, 0], &[], 4096);
    assert_eq!((told.code, told.result), (0, told.data.len() as u64));
    String::from_utf8(told.data).unwrap()
}

/// The head of a read or write of Base-IO and Direct-IO.
fn io_head(address: u64, bytes: u32, tag: u32) -> Vec<u8> {
    [&address.to_le_bytes()[..], &bytes.to_le_bytes(), &tag.to_le_bytes()].concat()
}

fn read_direct(
    host: &mut Host,
    endpoint: Endpoint,
    program: u32,
    address: u64,
    bytes: u32,
) -> Result<Vec<u8>, i32> {
    let spu = (address / 8192 % 8) as u32;
    match send(host, endpoint, spu, (program, 0), &io_head(address, bytes, 7)) {
        answer::OK => {
            let (told, body) = receive(host, endpoint).expect("the data follow");
            assert_eq!((told.kind.get(), told.spu.get(), told.program.get()), (1, spu, program));
            assert_eq!(&body[12..16], &7_u32.to_le_bytes());
            Ok(body[16..].to_vec())
        }
        status => Err(status),
    }
}

fn write_direct(host: &mut Host, endpoint: Endpoint, program: u32, address: u64, data: &[u8]) -> i32 {
    let body = [&io_head(address, data.len() as u32, 1)[..], data].concat();
    send(host, endpoint, (address / 8192 % 8) as u32, (program, 1), &body)
}

/// A program in the text form of WebAssembly, whose handlers have these bodies.
fn program(handlers: &[&str]) -> Vec<u8> {
    let functions: String = handlers
        .iter()
        .enumerate()
        .map(|(number, body)| {
            format!("(func $handler_{number} (export \"rpc_{number}\") (param i32 i32) {body})\n")
        })
        .collect();
    wat::parse_str(format!(
        r#"(module
            (import "tantalum" "origin" (func $origin (result i32)))
            (import "tantalum" "respond" (func $respond (param i32) (result i32)))
            (import "tantalum" "request_start" (func $start (param i32 i32 i32) (result i32)))
            (import "tantalum" "request_append" (func $append (param i32 i32) (result i32)))
            (import "tantalum" "request_finish" (func $finish (result i32)))
            (import "tantalum" "wait" (func $wait (param i32) (result i32)))
            (import "tantalum" "print" (func $print (param i32 i32)))
            (import "tantalum" "count" (func $count (param i32 i32)))
            (memory (export "memory") 1 1)
            (data (i32.const 16) "hello from the drive")
            (global (export "__heap_base") i32 (i32.const 1024))
            {functions})"#
    ))
    .unwrap()
}

/// Sends this many bytes to the origin.
fn sends(bytes: u32) -> String {
    format!(
        "(drop (call $start (call $origin) (i32.const 0) (i32.const 9)))
         (drop (call $append (i32.const 16) (i32.const {bytes})))
         (drop (call $respond (call $wait (call $finish))))"
    )
}

#[test]
fn a_program_is_installed_and_answers_in_the_drive_s_time_and_without() {
    for pacing in [Pacing::None, Pacing::Real] {
        let server = server(pacing);
        let mut host = attach(&server, Options::default());
        let endpoint = open(&mut host);
        let hits = install(&mut host, endpoint, shipped::HITS);
        for count in 1..=3 {
            assert_eq!(send(&mut host, endpoint, 3, (hits, 0), &7_u32.to_le_bytes()), count);
        }
        assert_eq!(
            send(&mut host, endpoint, 4, (hits, 0), &7_u32.to_le_bytes()),
            1,
            "a processor of its own"
        );
        assert_eq!(send(&mut host, endpoint, 3, (hits, 0), &64_u32.to_le_bytes()), answer::BAD_ARGUMENT);
        assert_eq!(send(&mut host, endpoint, 3, (hits, 1), &[]), answer::NO_HANDLER);
        assert_eq!(send(&mut host, endpoint, 3, (hits + 1, 0), &[]), answer::NO_PROGRAM);
        // through another queue of the same controller
        let mut io = Client::io(server.address(), Options::default(), &names(), host.controller, 2).unwrap();
        std::mem::swap(&mut host.io, &mut io);
        assert_eq!(send(&mut host, endpoint, 3, (hits, 0), &7_u32.to_le_bytes()), 4);
    }
}

#[test]
fn answers_come_no_sooner_than_the_drive_gives_them() {
    let server = server(Pacing::Real);
    let mut host = attach(&server, Options::default());
    let endpoint = open(&mut host);
    // 500,000 instructions at 125 MHz are 4 ms
    let works = "(local $left i32) (local.set $left (i32.const 125000))
        (loop (br_if 0 (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))
        (drop (call $respond (i32.const 1)))";
    let id = install(&mut host, endpoint, &program(&[works]));
    let began = Instant::now();
    assert_eq!(send(&mut host, endpoint, 0, (id, 0), &[]), 1);
    assert!(began.elapsed() >= Duration::from_millis(4), "{:?}", began.elapsed());
}

#[test]
fn base_io_and_plain_commands_see_the_same_drive() {
    let server = server(Pacing::None);
    let mut host = attach(&server, Options::default());
    let kernel = open_as(&mut host, true, NEW).unwrap();
    assert_eq!((kernel.number >> 31, kernel.process), (0, 0));
    let base = install(&mut host, kernel, shipped::BASE_IO);
    let stripe = pattern(1, 8192);
    assert_eq!(write_direct(&mut host, kernel, base, 5 * 8192, &stripe), answer::OK);
    assert_eq!(host.read(10, 4096, 2), stripe);
    host.write(10, 4096, &pattern(2, 4096));
    let read = read_direct(&mut host, kernel, base, 5 * 8192, 8192).unwrap();
    assert_eq!(read, [&pattern(2, 4096)[..], &stripe[4096..]].concat());
}

#[test]
fn the_origin_is_who_sent_and_an_endpoint_is_its_controller_s_alone() {
    let server = server(Pacing::None);
    let (mut one, mut other) = (attach(&server, Options::default()), stranger(&server));
    let (mine, hers) = (open(&mut one), open(&mut other));
    assert!(mine.number >> 31 == 1 && hers.number >> 31 == 1 && mine.process != hers.process);
    let tells = "(drop (call $respond (call $origin)))";
    let id = install(&mut one, mine, &program(&[tells]));
    // whatever the body says
    assert_eq!(send(&mut one, mine, 0, (id, 0), &hers.number.to_le_bytes()) as u32, mine.number);
    assert_eq!(send(&mut other, hers, 0, (id, 0), &mine.number.to_le_bytes()) as u32, hers.number);
    // another controller does not get anywhere with the key, nor anybody with the number
    for key in [mine.key, mine.number.into(), mine.key ^ 1, 0] {
        let forged = Endpoint { key, ..mine };
        assert_eq!(send_to(&mut other, forged, 0, (id, 0), &[]).code, Failure::UNKNOWN_ENDPOINT.code());
        assert_eq!(receive_in(&mut other, forged, 64, 0).code, Failure::UNKNOWN_ENDPOINT.code());
        let closed = give(&mut other, opcode::CLOSE, key, [0; 4], &[], 0);
        assert_eq!(closed.code, Failure::UNKNOWN_ENDPOINT.code());
        if key != 0 {
            assert_eq!(open_as(&mut other, false, key).unwrap_err(), Failure::UNKNOWN_ENDPOINT.code());
        }
    }
    // a second endpoint of a process, and a second process of a host
    let (second, process) = (open_as(&mut one, false, mine.key).unwrap(), open(&mut one));
    assert_eq!(second.process, mine.process);
    assert!(process.process != mine.process && second.number != mine.number);
}

#[test]
fn what_is_the_kernel_s_is_refused_to_others() {
    let server = server(Pacing::None);
    let (mut host, mut other) = (attach(&server, Options::default()), stranger(&server));
    let kernel = open_as(&mut host, true, NEW).unwrap();
    let (user, hers) = (open(&mut host), open(&mut other));
    let not_allowed = Failure::NOT_ALLOWED.code();
    assert_eq!(open_as(&mut other, true, NEW).unwrap_err(), not_allowed);
    for (host, endpoint) in [(&mut host, user), (&mut other, hers)] {
        assert_eq!(grant(host, endpoint, endpoint.process, 0..8192, 3), not_allowed);
        let mut region = Installation::default();
        region.region_end = (64 << 10).into();
        let installed = install_as(host, endpoint, shipped::APPEND, region);
        assert_eq!(installed.code, Failure::NOT_INSTALLED.code());
        assert!(refusal(host, endpoint).contains("only the kernel"), "{}", refusal(host, endpoint));
    }
    // a program cannot be removed, inspected or called by others
    let closed = install_as(&mut host, user, shipped::HITS, Installation::default()).result as u32;
    let calls = install(&mut other, hers, shipped::ECHO);
    for (code, dwords, bytes) in [
        (opcode::OUTPUT, [4096, 0, closed, 0], 4096),
        (opcode::ALLOW_CALLS, [calls, closed, 1, 0], 0),
        (opcode::UNINSTALL, [closed, 0, 0, 0], 0),
    ] {
        assert_eq!(give(&mut other, code, hers.key, dwords, &[], bytes).code, not_allowed);
        assert_eq!(give(&mut host, code, kernel.key, dwords, &[], bytes).code, 0, "{code:#x}");
    }
    let gone = give(&mut host, opcode::UNINSTALL, kernel.key, [closed, 0, 0, 0], &[], 0);
    assert_eq!(gone.code, Failure::UNKNOWN_PROGRAM.code());
    let again = install_as(&mut host, user, shipped::HITS, Installation::default());
    assert_eq!(again.result as u32, closed + 2, "numbers are not used again");
    assert_eq!(send(&mut other, hers, 0, (closed + 2, 0), &[0; 4]), answer::NOT_ALLOWED);
}

#[test]
fn rights_are_a_process_s_and_a_miss_is_told() {
    let server = server(Pacing::None);
    let mut host = attach(&server, Options::default());
    let kernel = open_as(&mut host, true, NEW).unwrap();
    let direct = install(&mut host, kernel, shipped::DIRECT_IO);
    let (alice, mallory) = (open(&mut host), open(&mut host));
    let second = open_as(&mut host, false, alice.key).unwrap();
    assert_eq!(grant(&mut host, kernel, alice.process, 0..16_384, 3), 0);
    let data = pattern(3, 8192);
    assert_eq!(write_direct(&mut host, alice, direct, 8192, &data), answer::OK);
    assert_eq!(read_direct(&mut host, second, direct, 8192, 8192).unwrap(), data);
    assert_eq!(write_direct(&mut host, mallory, direct, 8192, &pattern(4, 8192)), answer::NO_PERMISSION);
    let (told, _) = receive(&mut host, mallory).unwrap();
    assert_eq!((told.kind.get(), told.granted.get()), (2, 0));
    assert_eq!((told.start.get(), told.end.get()), (8192, 16_384));
    assert_eq!(read_direct(&mut host, mallory, direct, 8192, 16).unwrap_err(), answer::NO_PERMISSION);
    assert_eq!(host.read(2, 4096, 2), data);
    // rights go as they came, and with the process
    assert_eq!(grant(&mut host, kernel, alice.process, 0..16_384, 1), 0);
    assert_eq!(write_direct(&mut host, alice, direct, 8192, &data), answer::NO_PERMISSION);
    for (endpoint, status) in [(alice, 0), (second, 0), (second, Failure::UNKNOWN_ENDPOINT.code())] {
        assert_eq!(give(&mut host, opcode::CLOSE, endpoint.key, [0; 4], &[], 0).code, status);
    }
    assert_eq!(grant(&mut host, kernel, alice.process, 0..16_384, 3), Failure::INVALID_FIELD.code());
}

#[test]
fn requests_of_programs_wait_until_they_are_received() {
    let server = server(Pacing::None);
    let mut host = attach(&server, Options::default());
    let endpoint = open(&mut host);
    let id = install(&mut host, endpoint, &program(&[&sends(20), &sends(1000)]));
    let began = Instant::now();
    assert_eq!(receive_in(&mut host, endpoint, 48, 50).result, 0, "there is none");
    assert!(began.elapsed() >= Duration::from_millis(50));
    assert_eq!(receive_in(&mut host, endpoint, 48, 0).result, 0);
    assert_eq!(send(&mut host, endpoint, 2, (id, 0), &[]), answer::OK);
    let short = receive_in(&mut host, endpoint, 48 + 19, 1000);
    assert_eq!((short.code, short.result), (Failure::VALUE_SIZE.code(), 68));
    let (told, body) = receive(&mut host, endpoint).unwrap();
    assert_eq!((told.kind.get(), told.spu.get(), told.handler.get()), (1, 2, 9));
    assert_eq!(body, b"hello from the drive");
    // one that waits is given the request when it comes; a second one may not wait
    let wait = [48 + 64, 5000, 0, 0, endpoint.key as u32, (endpoint.key >> 32) as u32];
    let waits = host.io.submit(command(opcode::RECEIVE, 1, wait), Vec::new(), 48 + 64).unwrap();
    let mut second = Client::io(server.address(), Options::default(), &names(), host.controller, 2).unwrap();
    std::mem::swap(&mut host.io, &mut second);
    let began = Instant::now();
    while receive_in(&mut host, endpoint, 48, 0).code != Failure::SEQUENCE.code() {
        assert!(began.elapsed() < Duration::from_secs(4), "nobody waits");
    }
    std::mem::swap(&mut host.io, &mut second);
    let sent = [0, 2, id, 0, endpoint.key as u32, (endpoint.key >> 32) as u32];
    let sends = host.io.submit(command(opcode::SEND, 1, sent), Vec::new(), 0).unwrap();
    let mut both = [host.io.reap().unwrap(), host.io.reap().unwrap()];
    both.sort_by_key(|completed| completed.id);
    assert_eq!((both[0].id, both[0].result, both[1].id, both[1].result), (waits, 68, sends, 0));
    // what nobody receives takes bounded room: 64 requests
    let delivered = (0..100).filter(|_| send(&mut host, endpoint, 2, (id, 0), &[]) == answer::OK).count();
    assert_eq!(delivered, 64);
}

#[test]
fn a_program_that_ends_badly_ends_alone_and_says_why() {
    let server = server(Pacing::None);
    let (mut host, mut other) = (attach(&server, Options::default()), stranger(&server));
    let (endpoint, hers) = (open(&mut host), open(&mut other));
    let hits = install(&mut other, hers, shipped::HITS);
    let faults = [
        ("(loop (br 0))", "instructions"),
        ("unreachable", "unreachable"),
        ("(i32.store (i32.const 2000) (i32.const 1))", "out of bounds"),
    ];
    for (hit, (body, why)) in faults.into_iter().enumerate() {
        let id = install(&mut host, endpoint, &program(&[body]));
        assert_eq!(send(&mut host, endpoint, 1, (id, 0), &[]), answer::ENDED);
        let (told, text) = receive(&mut host, endpoint).unwrap();
        assert_eq!((told.kind.get(), told.program.get(), told.spu.get()), (3, id, 1));
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains(why) && text.contains(", in `handler_0`"), "{text}");
        assert_eq!(send(&mut host, endpoint, 1, (id, 0), &[]), answer::NO_PROGRAM);
        assert_eq!(send(&mut other, hers, 1, (hits, 0), &[0; 4]), hit as i32 + 1);
    }
}

/// The user who serves the image learns of it through the log, even if the program's owner never asks.
#[test]
fn the_end_of_a_program_is_a_notice_of_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("app.tant");
    let device = Device::create(&image, &small()).unwrap();
    let served = Served::start(device, &crate::common::serving(&image, Pacing::None)).unwrap();
    let (admin, controller) = Client::admin(served.address(), Options::default(), &names(), 0).unwrap();
    let io = Client::io(served.address(), Options::default(), &names(), controller, 1).unwrap();
    let mut host = Host { admin, io, controller };
    let endpoint = open(&mut host);
    let id = install(&mut host, endpoint, &program(&["unreachable"]));
    assert_eq!(send(&mut host, endpoint, 1, (id, 0), &[]), answer::ENDED);
    let stopper = served.stopper();
    // the answer may be here before the notice is on its way
    stopper.stop();
    let mut log = Vec::new();
    let ended = served.wait(|notice| {
        if let Notice::ProgramEnded(text) = notice {
            log.push(text.to_owned());
        }
    });
    ended.unwrap();
    let [line] = &log[..] else { panic!("{log:?}") };
    assert!(line.starts_with("program 1 of process 1 was ended at processor 1, handler 0: "), "{line}");
    assert!(line.contains("unreachable") && line.ends_with(", in `handler_0`"), "{line}");
}

#[test]
fn the_serial_port_and_the_counters_are_read() {
    let server = server(Pacing::None);
    let mut host = attach(&server, Options::default());
    let endpoint = open(&mut host);
    let says = "(call $print (i32.const 16) (i32.const 5)) (call $count (i32.const 3) (i32.const 40))
        (drop (call $respond (i32.const 0)))";
    let id = install(&mut host, endpoint, &program(&[says]));
    for spu in [6, 6, 7] {
        assert_eq!(send(&mut host, endpoint, spu, (id, 0), &[]), 0);
    }
    let output = give(&mut host, opcode::OUTPUT, endpoint.key, [4096, 6, id, 0], &[], 4096);
    assert_eq!((output.code, output.result, output.data.len()), (0, 74, 74));
    assert_eq!(&output.data[24..32], &120_u64.to_le_bytes());
    assert_eq!(&output.data[64..], b"hellohello");
    let beyond = give(&mut host, opcode::OUTPUT, endpoint.key, [4096, 8, id, 0], &[], 4096);
    assert_eq!(beyond.code, Failure::INVALID_FIELD.code());
}

#[test]
fn what_does_not_fit_is_refused_with_the_figures_and_what_is_bounded_stays_so() {
    let server = server(Pacing::None);
    let mut host = attach(&server, Options::default());
    let endpoint = open(&mut host);
    let mut installed = Vec::new();
    let refused = loop {
        let head = Installation::default();
        match install_as(&mut host, endpoint, shipped::ATOMIC_WRITES, head) {
            Completed { code: 0, result, .. } => installed.push(result),
            refused => break refused,
        }
    };
    assert_eq!(refused.code, Failure::NOT_INSTALLED.code());
    let text = refusal(&mut host, endpoint);
    assert!(text.contains("bytes of") && text.contains("are free"), "{text}");
    let garbage = install_as(&mut host, endpoint, b"\0asm but not a module", Installation::default());
    assert_eq!(garbage.code, Failure::NOT_INSTALLED.code());
    assert!(refusal(&mut host, endpoint).contains("not a valid module"));
    // endpoints of one controller, whatever their process
    for _ in 1..ENDPOINTS {
        open(&mut host);
    }
    assert_eq!(open_as(&mut host, false, NEW).unwrap_err(), Failure::NO_QUEUE_PAIR.code());
    let mut other = stranger(&server);
    let hers = open(&mut other);
    let head = Installation::default();
    assert_eq!(
        install_as(&mut other, hers, shipped::ATOMIC_WRITES, head).code,
        Failure::NOT_INSTALLED.code()
    );
    // everything is released when the controller ends
    drop(host);
    let began = Instant::now();
    while install_as(&mut other, hers, shipped::ATOMIC_WRITES, head).code != 0 {
        assert!(began.elapsed() < Duration::from_secs(10), "its programs were not removed");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn power_loss_ends_programs_and_the_next_life_starts_with_none() {
    for pacing in [Pacing::None, Pacing::Real] {
        let server = server(pacing);
        let mut host = attach(&server, Options::default());
        let kernel = open_as(&mut host, true, NEW).unwrap();
        let base = install(&mut host, kernel, shipped::BASE_IO);
        assert_eq!(write_direct(&mut host, kernel, base, 0, &pattern(1, 8192)), answer::OK);
        assert_eq!(send(&mut host, kernel, 0, (base, 2), &[]), answer::OK, "flushed");
        let wait = [64, 5000, 0, 0, kernel.key as u32, (kernel.key >> 32) as u32];
        host.io.submit(command(opcode::RECEIVE, 1, wait), Vec::new(), 64).unwrap();
        {
            let mut device = server.subsystem().queue.drive().lock();
            let now_ns = server.subsystem().queue.answers().now_ns().unwrap_or_else(|| device.time_ns());
            let now_ns = now_ns.max(device.issued_ns());
            device.cut_power(now_ns);
        }
        // waiting events are reported, and nothing more is taken
        assert_eq!(host.io.reap().unwrap().code, Failure::POWER_LOSS.code());
        assert_eq!(send_to(&mut host, kernel, 0, (base, 2), &[]).code, Failure::POWER_LOSS.code());
        assert!(server.close());
        let subsystem = server.subsystem();
        subsystem.programs.as_ref().unwrap().stop();
        subsystem.queue.drive().lock().power_on(&mut PowerLoss::seeded(1)).unwrap();
        subsystem.programs.as_ref().unwrap().power_on();
        server.open();
        let mut host = attach(&server, Options::default());
        let kernel = open_as(&mut host, true, NEW).unwrap();
        assert_eq!(send(&mut host, kernel, 0, (base, 2), &[]), answer::NO_PROGRAM);
        let base = install(&mut host, kernel, shipped::BASE_IO);
        assert_eq!(read_direct(&mut host, kernel, base, 0, 8192).unwrap(), pattern(1, 8192));
    }
}

/// Every command of programs with every kind of wrong field: a status, and the connection survives.
#[test]
fn wrong_fields_get_a_status_and_nothing_else() {
    let seed = std::env::var("SEED").map_or(17, |seed| seed.parse().expect("a number"));
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let server = server(Pacing::None);
    let mut host = attach(&server, Options::default());
    let endpoint = open_as(&mut host, true, NEW).unwrap();
    let hits = install(&mut host, endpoint, shipped::HITS);
    let mut failed = 0;
    for round in 0..400 {
        let codes = [
            opcode::OPEN,
            opcode::INSTALL,
            opcode::UNINSTALL,
            opcode::GRANT,
            opcode::ALLOW_CALLS,
            opcode::SEND,
            opcode::RECEIVE,
            opcode::OUTPUT,
        ];
        let code = codes[random.random_range(0..codes.len())];
        let mut dword = || match random.random_range(0..6) {
            0 => random.random(),
            1 => u32::MAX,
            2 => 1 << 31,
            // none is the program that must not notice
            _ => random.random_range(2..100),
        };
        let (dwords, key) =
            ([dword(), dword(), dword(), dword()], if dword() < 50 { endpoint.key } else { 9 });
        // no long waits
        let dwords = if code == opcode::RECEIVE { [dwords[0], dwords[1] | 1 << 20, 0, 0] } else { dwords };
        let is_to_host = code & 3 == 2;
        let bytes = random.random_range(0..200_u32);
        let data: Vec<u8> = (0..bytes).map(|_| random.random()).collect();
        let data = if is_to_host || code & 3 == 0 { &[][..] } else { &data };
        let completed = give(&mut host, code, key, dwords, data, if is_to_host { bytes } else { 0 });
        failed += u32::from(completed.code != 0);
        assert_ne!(
            completed.code,
            Failure::INTERNAL.code(),
            "seed {seed}, round {round}: {code:#x} {dwords:x?}"
        );
    }
    assert!(failed > 300, "{failed} of 400 failed");
    assert_eq!(send(&mut host, endpoint, 3, (hits, 0), &7_u32.to_le_bytes()), 1, "seed {seed}");
}
