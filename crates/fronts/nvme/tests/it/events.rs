//! Asynchronous events, and aborts.

use std::time::{Duration, Instant};

use crate::common::{Host, UNIT, attach, names, pattern, serve, small, subsystem, subsystem_on};
use tantalum::{Command, Device, Faults, Lpn, Status, UNIT_BYTES};
use tantalum_drive::Pacing;
use tantalum_nvme::client::{Client, Completed, Options, block_command, command};
use tantalum_nvme::failure::Failure;
use tantalum_nvme::server::Server;
use tantalum_nvme::wire::command::{Pointer, Submission, TRANSPORT};
use tantalum_nvme::wire::identify::cns;
use tantalum_nvme::wire::opcode::{admin, nvm};
use tantalum_nvme::wire::pdu::{Data, ResponseCapsule, flag, kind};
use zerocopy::{FromBytes, IntoBytes};

const READ_ONLY: u64 = 0x02_0001;
const SPARE_LOW: u64 = 0x02_0201;
const NAMESPACES: u64 = 0x04_0002;

/// Writes to the drive until this is so.
fn wear(server: &Server, mut until: impl FnMut(&Device) -> bool) {
    let mut device = server.subsystem().queue.drive().lock();
    let units = device.limits().capacity_units as u32;
    for round in 0..4_000_000_u32 {
        if round.is_multiple_of(64) && until(&device) {
            return;
        }
        let lpn = Lpn(round.wrapping_mul(2_654_435_761) % units);
        let now_ns = device.time_ns();
        match device.submit(
            Command::Write { lpn, data: &[round as u8; UNIT_BYTES], fua: false, handle: None },
            now_ns,
        ) {
            Ok(_) | Err(Status::ReadOnly) => {}
            Err(status) => panic!("{status}"),
        }
    }
    panic!("{:?}", device.smart());
}

fn set_events(admin: &mut Client, value: u32) -> u16 {
    admin.command(command(admin::SET_FEATURES, 0, [0x0b, value, 0, 0, 0, 0])).unwrap().code
}

fn wait_for_event(admin: &mut Client) -> u16 {
    admin.submit(command(admin::ASYNC_EVENT, 0, [0; 6]), Vec::new(), 0).unwrap()
}

/// Reads a log page and collects the completions that arrive before it.
fn read_log(admin: &mut Client, page: u32, retain: bool) -> (Vec<u8>, Vec<Completed>) {
    let dword10 = 127 << 16 | u32::from(retain) << 15 | page;
    let read = command(admin::GET_LOG_PAGE, 0, [dword10, 0, 0, 0, 0, 0]);
    let id = admin.submit(read, Vec::new(), 512).unwrap();
    let mut before = Vec::new();
    loop {
        let completed = admin.reap().unwrap();
        if completed.id == id {
            assert_eq!(completed.code, 0);
            return (completed.data, before);
        }
        before.push(completed);
    }
}

#[test]
fn a_host_hears_that_spare_is_low_and_that_the_drive_is_read_only() {
    let mut device = Device::in_memory(&small()).unwrap();
    device.set_faults(Faults { seed: 1, endurance_cycles: Some(6), ..Faults::default() }).unwrap();
    let server = serve(subsystem_on(device, 4096, Pacing::None));
    let mut deaf = Client::admin(server.address(), Options::default(), &names(), 0).unwrap().0;
    let unheard = wait_for_event(&mut deaf);
    let mut client = Client::admin(server.address(), Options::default(), &names(), 0).unwrap().0;
    assert_eq!(set_events(&mut client, 0x1ff), 0);
    let events: Vec<u16> = (0..4).map(|_| wait_for_event(&mut client)).collect();

    wear(&server, |device| {
        let smart = device.smart();
        smart.available_spare_percent < smart.available_spare_threshold_percent
    });
    assert!(!server.subsystem().queue.drive().lock().is_read_only(), "the drive died all at once");
    // the server checks by itself
    let event = client.reap().unwrap();
    assert_eq!((event.id, event.code, event.result), (events[0], 0, SPARE_LOW));

    let mut are_protected = || {
        [(cns::NAMESPACE, 99), (cns::NAMESPACE_OF_ALL_SETS, 8)].map(|(structure, attributes)| {
            let identify = command(admin::IDENTIFY, 1, [structure.into(), 0, 0, 0, 0, 0]);
            client.read_command(identify, 4096).unwrap().data[attributes]
        })
    };
    assert_eq!(are_protected(), [0, 0]);
    wear(&server, Device::is_read_only);
    assert_eq!(are_protected(), [1, 1]);
    server.subsystem().look();
    let event = client.reap().unwrap();
    assert_eq!((event.id, event.result), (events[1], NAMESPACES), "the other one is masked");
    // reading while retaining the event changes nothing
    let (smart, before) = read_log(&mut client, 2, true);
    assert_eq!((smart[0], before.len()), (1 | 1 << 3, 0));
    let (_, before) = read_log(&mut client, 2, true);
    assert_eq!(before.len(), 0);
    let (_, mut before) = read_log(&mut client, 2, false);
    let event = before.pop().unwrap_or_else(|| client.reap().unwrap());
    assert_eq!((event.id, event.result), (events[2], READ_ONLY));
    let (changed, _) = read_log(&mut client, 4, false);
    assert_eq!(changed[..8], [1, 0, 0, 0, 0, 0, 0, 0]);
    let (changed, _) = read_log(&mut client, 4, false);
    assert_eq!(changed[0], 0, "it was read");

    // a host that has not enabled events gets none until it does
    let smart_of_deaf = read_log(&mut deaf, 2, true);
    assert_eq!(smart_of_deaf.1.len(), 0);
    let asked = command(admin::SET_FEATURES, 0, [0x0b, 1 << 3, 0, 0, 0, 0]);
    deaf.submit(asked, Vec::new(), 0).unwrap();
    let (first, second) = (deaf.reap().unwrap(), deaf.reap().unwrap());
    let event = if first.id == unheard { first } else { second };
    assert_eq!((event.id, event.result), (unheard, READ_ONLY));
}

#[test]
fn what_is_never_sent_cannot_be_asked_for() {
    let server = serve(subsystem(4096));
    let mut client = Client::admin(server.address(), Options::default(), &names(), 0).unwrap().0;
    let identify = client.read_command(command(admin::IDENTIFY, 0, [1, 0, 0, 0, 0, 0]), 4096).unwrap().data;
    let told = u32::from_le_bytes(identify[92..96].try_into().unwrap());
    assert_eq!(told, 1 << 8 | 1 << 10);
    assert_eq!(identify[259], 3, "AERL");
    assert_eq!(set_events(&mut client, told), 0);
    for bit in (8..32).filter(|bit| told >> bit & 1 == 0) {
        assert_eq!(set_events(&mut client, 1 << bit), Failure::INVALID_FIELD.code(), "{bit}");
    }
    let value = client.command(command(admin::GET_FEATURES, 0, [0x0b, 0, 0, 0, 0, 0])).unwrap().result;
    assert_eq!(value, u64::from(told));
}

#[test]
fn more_event_requests_than_may_wait_are_refused() {
    let server = serve(subsystem(4096));
    let mut admin = Client::admin(server.address(), Options::default(), &names(), 0).unwrap().0;
    admin.stream().set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let waiting: Vec<u16> = (0..4).map(|_| wait_for_event(&mut admin)).collect();
    for _ in 0..20 {
        let more = wait_for_event(&mut admin);
        let refused = admin.reap().expect("it waits as well");
        assert_eq!((refused.id, refused.code), (more, Failure::EVENT_LIMIT.code()));
    }
    // one that is aborted makes room for one more, and no other
    let aborts = command(admin::ABORT, 0, [u32::from(waiting[2]) << 16, 0, 0, 0, 0, 0]);
    let abort = admin.submit(aborts, Vec::new(), 0).unwrap();
    let (victim, done) = (admin.reap().unwrap(), admin.reap().unwrap());
    assert_eq!((victim.id, victim.code), (waiting[2], Failure::ABORTED.code()));
    assert_eq!((done.id, done.code, done.result), (abort, 0, 0));
    let (_fits, more) = (wait_for_event(&mut admin), wait_for_event(&mut admin));
    let refused = admin.reap().unwrap();
    assert_eq!((refused.id, refused.code), (more, Failure::EVENT_LIMIT.code()));
}

#[test]
fn commands_on_an_io_queue_keep_the_controller_alive_and_the_timer_can_be_changed() {
    let server = serve(subsystem(4096));
    let (mut silent, id) = Client::admin(server.address(), Options::default(), &names(), 2000).unwrap();
    let mut io = Client::io(server.address(), Options::default(), &names(), id, 1).unwrap();
    for _ in 0..8 {
        std::thread::sleep(Duration::from_millis(300));
        assert_eq!(io.command(block_command(nvm::FLUSH, 0, 1)).unwrap().code, 0);
    }
    assert_eq!(server.subsystem().controllers(), 1, "the admin queue was silent, the host was not");
    let off = command(admin::SET_FEATURES, 0, [0x0f, 0, 0, 0, 0, 0]);
    assert_eq!(silent.command(off).unwrap().code, 0);
    std::thread::sleep(Duration::from_millis(2300));
    assert_eq!(server.subsystem().controllers(), 1, "the timer is off");
    let soon = command(admin::SET_FEATURES, 0, [0x0f, 200, 0, 0, 0, 0]);
    assert_eq!(silent.command(soon).unwrap().code, 0);
    let began = Instant::now();
    while server.subsystem().controllers() > 0 {
        assert!(began.elapsed() < Duration::from_secs(10), "a silent host is kept");
        std::thread::sleep(Duration::from_millis(10));
    }
    // each in its own thread, which may not have run yet
    while io.command(block_command(nvm::FLUSH, 0, 1)).is_ok() {
        assert!(began.elapsed() < Duration::from_secs(20), "all its connections end");
        std::thread::sleep(Duration::from_millis(10));
    }
}

// -- Abort --------------------------------------------------------------------------------------------------------

fn abort(host: &mut Host, queue: u16, id: u16) -> Completed {
    let dword10 = u32::from(id) << 16 | u32::from(queue);
    host.admin.command(command(admin::ABORT, 0, [dword10, 0, 0, 0, 0, 0])).unwrap()
}

const BIG: u32 = 512 << 10;

/// Writes of half a MiB each, whose data are not sent: the data of eight are requested, the others wait.
fn writes(host: &mut Host, count: u64) -> (Vec<u16>, Vec<Data>) {
    let write = |index: u64| Submission {
        data: Pointer::new(BIG, TRANSPORT),
        ..block_command(nvm::WRITE, index * 128, 128)
    };
    let ids = (0..count).map(|index| host.io.submit(write(index), Vec::new(), 0).unwrap()).collect();
    let ready = |_| {
        let pdu = host.io.receive().unwrap();
        assert_eq!(pdu.header[0], kind::R2T);
        Data::read_from_bytes(&pdu.header).unwrap()
    };
    (ids, (0..count.min(8)).map(ready).collect())
}

/// The identifier and the status of the next completion.
fn next_response(client: &mut Client) -> (u16, u16) {
    let pdu = client.receive().unwrap();
    let response = ResponseCapsule::read_from_bytes(&pdu.header).unwrap().completion;
    (response.id.get(), Failure::code_of(response.status.get()))
}

fn send_data(host: &mut Host, ready: &Data, data: &[u8]) {
    for (index, piece) in data.chunks(128 << 10).enumerate() {
        let offset = index * (128 << 10);
        let flags = if offset + piece.len() == data.len() { flag::LAST } else { 0 };
        let (command, transfer) = (ready.command.get(), ready.transfer.get());
        let header = Data::new(kind::H2C_DATA, flags, command, transfer, offset as u32, piece.len() as u32);
        let pdu = host.io.encode(header.as_bytes(), piece);
        host.io.send(&pdu).unwrap();
    }
}

#[test]
fn commands_that_wait_are_aborted_and_never_done() {
    let server = serve(subsystem(4096));
    let mut host = attach(&server, Options::default());
    let before = pattern(1, 3 * BIG as usize);
    for (index, part) in before.chunks(BIG as usize).enumerate() {
        host.write(index as u64 * 128, UNIT, part);
    }
    let (ids, ready) = writes(&mut host, 10);
    // the ninth waits for room, the first and the second for their data
    for id in [ids[8], ids[0], ids[1]] {
        assert_eq!(abort(&mut host, 1, id).result, 0, "{id}");
        assert_eq!(next_response(&mut host.io), (id, Failure::ABORTED.code()));
        let again = abort(&mut host, 1, id);
        assert_eq!((again.code, again.result), (0, 1), "{id} is there no more");
    }
    // data that were on their way go nowhere, and room for the tenth is free only then
    let half = pattern(2, BIG as usize);
    send_data(&mut host, &ready[0], &half);
    let pdu = host.io.receive().unwrap();
    let tenth = Data::read_from_bytes(&pdu.header).unwrap();
    assert_eq!((pdu.header[0], tenth.command.get()), (kind::R2T, ids[9]));
    send_data(&mut host, &ready[1], &half);
    send_data(&mut host, &ready[2], &half);
    assert_eq!(next_response(&mut host.io), (ids[2], 0));
    send_data(&mut host, &tenth, &half);
    assert_eq!(next_response(&mut host.io), (ids[9], 0));
    for ready in &ready[3..] {
        send_data(&mut host, ready, &half);
        assert_eq!(next_response(&mut host.io), (ready.command.get(), 0));
    }
    assert!(host.read(0, UNIT, 128) == before[..BIG as usize], "the first was done");
    assert!(host.read(128, UNIT, 128) == before[BIG as usize..2 * BIG as usize], "the second was done");
    assert!(host.read(256, UNIT, 128) == half, "the third was not");
    assert!(host.read(8 * 128, UNIT, 128).iter().all(|&byte| byte == 0), "the ninth was done");
    assert!(host.read(9 * 128, UNIT, 128) == half, "the tenth was not");
}

#[test]
fn a_name_may_be_used_again_while_data_of_its_aborted_command_come() {
    let server = serve(subsystem(4096));
    let mut host = attach(&server, Options::default());
    let (ids, ready) = writes(&mut host, 1);
    assert_eq!(abort(&mut host, 1, ids[0]).result, 0);
    assert_eq!(next_response(&mut host.io), (ids[0], Failure::ABORTED.code()));
    let mut again = block_command(nvm::WRITE, 0, 4);
    again.id = ids[0].into();
    again.flags = 1 << 6;
    again.data = Pointer::new(4 * UNIT as u32, TRANSPORT);
    let pdu = host.io.encode(tantalum_nvme::wire::pdu::CommandCapsule::new(again).as_bytes(), &[]);
    host.io.send(&pdu).unwrap();
    let second = Data::read_from_bytes(&host.io.receive().unwrap().header).unwrap();
    assert_ne!(second.transfer.get(), ready[0].transfer.get());
    let (old, new) = (pattern(3, BIG as usize), pattern(4, 4 * UNIT));
    send_data(&mut host, &ready[0], &old);
    send_data(&mut host, &second, &new);
    assert_eq!(next_response(&mut host.io), (ids[0], 0));
    assert!(host.read(0, UNIT, 4) == new);
}

#[test]
fn a_command_in_the_drive_is_not_aborted() {
    let device = Device::in_memory(&small()).unwrap();
    let server = serve(subsystem_on(device, 4096, Pacing::Real));
    let mut host = attach(&server, Options::default());
    let mut write = block_command(nvm::WRITE, 7, 64);
    write.dword10[2] = (63 | 1 << 30).into();
    let data = pattern(5, 64 * UNIT);
    let id = host.io.submit_write(write, data.clone()).unwrap();
    let pdu = host.io.receive().unwrap();
    let ready = Data::read_from_bytes(&pdu.header).unwrap();
    send_data(&mut host, &ready, &data);
    // flash takes longer than this to program; if the machine does not let us be in time, it is done already
    std::thread::sleep(Duration::from_micros(200));
    let ended = abort(&mut host, 1, id);
    assert_eq!((ended.code, ended.result), (0, 1));
    assert_eq!(next_response(&mut host.io), (id, 0));
    assert!(host.read(7, UNIT, 64) == data);
}

#[test]
fn what_is_not_there_is_not_aborted() {
    let server = serve(subsystem(4096));
    let mut host = attach(&server, Options::default());
    for (queue, id) in [(1, 999), (2, 1), (64, 1), (0xffff, 0xffff), (0, 999)] {
        let ended = abort(&mut host, queue, id);
        assert_eq!((ended.code, ended.result), (0, 1), "{queue} {id}");
    }
}
