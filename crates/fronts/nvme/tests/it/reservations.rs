//! Reservations of namespaces by several hosts.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tantalum::Device;
use tantalum_drive::Pacing;
use tantalum_nvme::client::{Client, Names, Options, command};
use tantalum_nvme::namespaces::ReservationKind;
use tantalum_nvme::server::Server;
use tantalum_nvme::wire::command::Submission;
use tantalum_nvme::wire::opcode::{admin, nvm, vendor};

use crate::common::{
    EndsWhenDropped, Host, UNIT, cut_and_attach, names, opened_again, pattern, serve, small, subsystem,
    subsystem_on,
};
use crate::namespaces::{change, create, delete, format, identify, on, other_host, sanitize};

const CONFLICT: u16 = 0x083;
const INVALID: u16 = 0x002;
const ALL: u32 = u32::MAX;

/// Reservation Register: 0 a new key, 1 none any more, 2 another one. Bit 3 ignores the present key.
fn register(io: &mut Client, action: u32, current: u64, new: u64) -> u16 {
    let data = [current.to_le_bytes(), new.to_le_bytes()].concat();
    io.write_command(command(nvm::RESERVATION_REGISTER, 1, [action, 0, 0, 0, 0, 0]), &data).unwrap().code
}

/// Reservation Acquire: 0 acquires, 1 preempts, 2 also ends commands.
fn acquire(io: &mut Client, action: u32, kind: u32, current: u64, preempted: u64) -> u16 {
    let data = [current.to_le_bytes(), preempted.to_le_bytes()].concat();
    let dword = action | kind << 8;
    io.write_command(command(nvm::RESERVATION_ACQUIRE, 1, [dword, 0, 0, 0, 0, 0]), &data).unwrap().code
}

/// Reservation Release: 0 releases, 1 clears.
fn release(io: &mut Client, action: u32, kind: u32, current: u64) -> u16 {
    let dword = action | kind << 8;
    let release = command(nvm::RESERVATION_RELEASE, 1, [dword, 0, 0, 0, 0, 0]);
    io.write_command(release, &current.to_le_bytes()).unwrap().code
}

/// Kind, whether it outlives power losses, and the registrants: first byte of the host, key, whether it holds the reservation.
fn report(io: &mut Client) -> (u8, u8, Vec<(u8, u64, bool)>) {
    let report = command(nvm::RESERVATION_REPORT, 1, [1023, 1, 0, 0, 0, 0]);
    let told = io.read_command(report, 4096).unwrap();
    assert_eq!(told.code, 0);
    let count = usize::from(u16::from_le_bytes([told.data[5], told.data[6]]));
    let registrants = told.data[64..].chunks_exact(64).take(count).map(|there| {
        assert_eq!(there[..2], [0xff; 2]);
        (there[16], u64::from_le_bytes(there[8..16].try_into().unwrap()), there[2] & 1 == 1)
    });
    (told.data[4], told.data[9], registrants.collect())
}

/// Three hosts, of which the first two have registered with keys 10 and 20.
fn three() -> (Server, Host, Host, Host) {
    let server = serve(subsystem(4096));
    let [mut a, mut b, c] = [1, 2, 3].map(|number| other_host(&server, number));
    a.write(0, UNIT, &pattern(1, 16 * UNIT));
    assert_eq!((register(&mut a.io, 0, 0, 10), register(&mut b.io, 0, 0, 20)), (0, 0));
    (server, a, b, c)
}

/// The statuses of commands that read, and of such that write.
fn statuses(host: &mut Host) -> (Vec<u16>, Vec<u16>) {
    let io = &mut host.io;
    let one = |opcode| on(opcode, 1, 0);
    let data = pattern(1, 16 * UNIT)[..UNIT].to_vec();
    let reads = vec![
        io.read_command(one(nvm::READ), 4096).unwrap().code,
        io.command(one(nvm::VERIFY)).unwrap().code,
        io.write_command(one(nvm::COMPARE), &data).unwrap().code,
    ];
    let mut range = [0; 16];
    (range[4], range[8]) = (1, 9);
    let mut source = [0; 32];
    source[8] = 3;
    let remap = command(vendor::REMAP, 1, [8, 9, 1, 0, 0, 0]);
    let writes = vec![
        io.write_command(one(nvm::WRITE), &data).unwrap().code,
        io.command(on(nvm::WRITE_ZEROES, 1, 4)).unwrap().code,
        io.command(on(nvm::WRITE_UNCORRECTABLE, 1, 5)).unwrap().code,
        io.write_command(command(nvm::DATASET_MANAGEMENT, 1, [0, 4, 0, 0, 0, 0]), &range).unwrap().code,
        io.write_command(command(nvm::COPY, 1, [10, 0, 0, 0, 0, 0]), &source).unwrap().code,
        io.command(one(nvm::FLUSH)).unwrap().code,
        io.command(remap).unwrap().code,
    ];
    // what Remap moved, and what was marked
    host.io.write_command(command(nvm::WRITE, 1, [5, 0, 4, 0, 0, 0]), &vec![0; 5 * UNIT]).unwrap();
    (reads, writes)
}

#[test]
fn each_kind_keeps_commands_of_other_hosts_away() {
    for kind in 1..=6 {
        let (server, mut a, mut b, mut c) = three();
        let told = identify(&mut a.admin, 0, 1).data;
        assert_eq!((told[31], identify(&mut a.admin, 8, 1).data[2]), (0xff, 0xff), "RESCAP");
        assert_eq!(acquire(&mut a.io, 0, kind, 10, 0), 0);
        let of_all = kind > 4;
        assert_eq!(report(&mut c.io), (kind as u8, 0, vec![(1, 10, true), (2, 20, of_all)]));
        let expect = |host: &mut Host, reads: bool, writes: bool| {
            let codes = |denied: bool, count: usize| vec![if denied { CONFLICT } else { 0 }; count];
            assert_eq!(statuses(host), (codes(reads, 3), codes(writes, 7)), "kind {kind}");
        };
        expect(&mut a, false, false);
        expect(&mut b, kind == 2, kind < 3);
        expect(&mut c, kind % 2 == 0, true);
        for number in [1, ALL] {
            assert_eq!((format(&mut c.admin, number, 0), delete(&mut c.admin, number)), (CONFLICT, CONFLICT));
        }
        assert_eq!(sanitize(&mut c.admin, 2), CONFLICT);
        assert_eq!(release(&mut a.io, 0, kind, 10), 0);
        expect(&mut c, false, false);
        drop(server);
    }
}

#[test]
fn a_copy_does_not_read_what_another_host_has_reserved() {
    let (_server, mut a, _b, mut c) = three();
    let mut format_2 = [0; 512];
    format_2[4] = 1 << 2;
    let enable = command(admin::SET_FEATURES, 0, [0x16, 0, 0, 0, 0, 0]);
    assert_eq!(c.admin.write_command(enable, &format_2).unwrap().code, 0);
    assert_eq!(
        (delete(&mut a.admin, 1), create(&mut a.admin, 100, 0), create(&mut a.admin, 100, 0)),
        (0, 1, 2)
    );
    for number in [1, 2] {
        let mut both = [a.controller, c.controller];
        both.sort_unstable();
        assert_eq!(change(&mut a.admin, 0, number, &both), 0);
    }
    assert_eq!((register(&mut a.io, 0, 0, 10), acquire(&mut a.io, 0, 2, 10, 0)), (0, 0));
    let mut source = [0; 32];
    source[0] = 1;
    let copy = command(nvm::COPY, 2, [10, 0, 2 << 8, 0, 0, 0]);
    assert_eq!(c.io.write_command(copy, &source).unwrap().code, CONFLICT);
    assert_eq!(release(&mut a.io, 0, 2, 10), 0);
    assert_eq!(c.io.write_command(copy, &source).unwrap().code, 0);
}

#[test]
fn keys_and_fields_that_do_not_fit_are_refused() {
    let (_server, mut a, mut b, mut c) = three();
    let io = &mut a.io;
    assert_eq!(
        (register(io, 0, 0, 11), register(io, 0, 0, 10), register(io, 0, 0, 0)),
        (CONFLICT, 0, INVALID)
    );
    assert_eq!((register(io, 3, 10, 10), register(io, 2 | 1 << 30, 10, 10)), (INVALID, INVALID));
    assert_eq!(
        (register(io, 2, 11, 12), register(io, 2, 10, 12), register(io, 2 | 8, 0, 10)),
        (CONFLICT, 0, 0)
    );
    for kind in [0, 7, 0xff] {
        assert_eq!((acquire(io, 0, kind, 10, 0), acquire(io, 1, kind, 10, 20)), (INVALID, INVALID));
    }
    assert_eq!((acquire(io, 3, 1, 10, 0), acquire(io, 8, 1, 10, 0)), (INVALID, INVALID));
    assert_eq!((acquire(io, 0, 1, 11, 0), acquire(&mut c.io, 0, 1, 0, 0)), (CONFLICT, CONFLICT));
    assert_eq!((release(io, 2, 1, 10), release(io, 8, 1, 10)), (INVALID, INVALID));
    assert_eq!((release(io, 0, 1, 10), release(&mut c.io, 0, 1, 0)), (0, CONFLICT), "nothing to release");
    assert_eq!((acquire(io, 0, 1, 10, 0), acquire(&mut b.io, 0, 1, 20, 0)), (0, CONFLICT));
    assert_eq!((release(io, 0, 2, 10), release(&mut b.io, 0, 1, 20)), (INVALID, 0), "it is not that of b");
    assert_eq!(report(io).0, 1);
    // hosts have identifiers of 128 bits
    let short = command(nvm::RESERVATION_REPORT, 1, [15, 0, 0, 0, 0, 0]);
    assert_eq!(io.read_command(short, 64).unwrap().code, 0x018);
    let long = command(nvm::RESERVATION_REPORT, 1, [u32::MAX, 1, 0, 0, 0, 0]);
    assert_eq!(io.read_command(long, 4096).unwrap().code, INVALID);
    let head = command(nvm::RESERVATION_REPORT, 1, [2, 1, 0, 0, 0, 0]);
    assert_eq!(io.read_command(head, 12).unwrap().data.len(), 12);
    let other = Submission { namespace: 2.into(), ..head };
    assert_eq!(io.read_command(other, 12).unwrap().code, 0x00b);
    assert_eq!(register(&mut c.io, 1, 0, 0), CONFLICT);
}

/// A host is known by its identifier, through whichever controller.
#[test]
fn a_reservation_is_that_of_a_host_and_stays_when_it_leaves() {
    let (server, mut a, _b, mut c) = three();
    assert_eq!(acquire(&mut a.io, 0, 1, 10, 0), 0);
    drop(a);
    let write = |host: &mut Host| host.io.write_command(on(nvm::WRITE, 1, 0), &[0; UNIT]).unwrap().code;
    assert_eq!(write(&mut c), CONFLICT);
    let mut again = other_host(&server, 1);
    assert_eq!((write(&mut again), register(&mut again.io, 1, 10, 0)), (0, 0));
    assert_eq!((write(&mut c), report(&mut c.io)), (0, (0, 0, vec![(2, 20, false)])));
}

/// What is told: kind, namespace, and how many wait.
fn notices(host: &mut Host) -> Vec<(u8, u8, u8)> {
    let mut told = Vec::new();
    loop {
        let event = command(admin::GET_LOG_PAGE, ALL, [0x80 | 15 << 16, 0, 0, 0, 0, 0]);
        let log = host.admin.read_command(event, 64).unwrap().data;
        if log[8] == 0 {
            return told;
        }
        told.push((log[8], log[12], log[9]));
    }
}

#[test]
fn hosts_that_are_preempted_are_told_and_lose_what_they_had() {
    let (_server, mut a, mut b, mut c) = three();
    assert_eq!((register(&mut c.io, 0, 0, 30), acquire(&mut a.io, 0, 3, 10, 0)), (0, 0));
    let waits = a.admin.submit(command(admin::ASYNC_EVENT, 0, [0; 6]), Vec::new(), 0).unwrap();
    assert_eq!((acquire(&mut b.io, 1, 1, 20, 99), acquire(&mut b.io, 1, 1, 20, 10)), (CONFLICT, 0));
    let event = a.admin.reap().unwrap();
    assert_eq!((event.id, event.result), (waits, 0x80_0006));
    assert_eq!(
        (notices(&mut a), notices(&mut b), notices(&mut c)),
        (vec![(3, 1, 0)], vec![], vec![(2, 1, 0)])
    );
    assert_eq!(report(&mut c.io), (1, 0, vec![(2, 20, true), (3, 30, false)]));
    assert_eq!(a.io.write_command(on(nvm::WRITE, 1, 0), &[0; UNIT]).unwrap().code, CONFLICT);
    // several wait, and each is an event once the one before was read
    assert_eq!((register(&mut a.io, 0, 0, 10), acquire(&mut b.io, 1, 1, 20, 10)), (0, 0));
    assert_eq!((register(&mut a.io, 0, 0, 10), release(&mut b.io, 1, 1, 20)), (0, 0));
    assert_eq!(notices(&mut a), [(1, 1, 1), (3, 1, 0)]);
    // a host that does not want to know
    let mask = |host: &mut Host, namespace: u32, value: u32| {
        host.admin.command(command(admin::SET_FEATURES, namespace, [0x82, value, 0, 0, 0, 0])).unwrap().code
    };
    assert_eq!((mask(&mut c, 1, 1 << 1), mask(&mut c, 0, 0), mask(&mut c, 9, 0)), (0, 0x00b, 0x00b));
    notices(&mut c);
    assert_eq!((register(&mut b.io, 0, 0, 20), register(&mut c.io, 0, 0, 30)), (0, 0));
    assert_eq!(acquire(&mut b.io, 2, 1, 20, 30), 0);
    assert_eq!(notices(&mut c), []);
    let get = |host: &mut Host, namespace: u32, feature: u32| {
        let got =
            host.admin.command(command(admin::GET_FEATURES, namespace, [feature, 0, 0, 0, 0, 0])).unwrap();
        (got.code, got.result)
    };
    assert_eq!((get(&mut c, 1, 0x82), get(&mut b, 1, 0x82)), ((0, 2), (0, 0)));
    assert_eq!((get(&mut c, ALL, 0x82).0, get(&mut c, ALL, 0x83).0), (INVALID, INVALID));
}

/// Data of a write that was checked before another host reserved the namespace, and arrive afterwards.
#[test]
fn a_write_under_way_ends_with_a_conflict_when_the_namespace_is_reserved() {
    let (server, mut a, _b, mut c) = three();
    let c_names = Names { host: "nqn.2014-08.org.nvmexpress:host3".to_owned(), host_id: [3; 16], ..names() };
    let slow = Options { no_capsule_data: true, ..Options::default() };
    let mut late = Client::io(server.address(), slow, &c_names, c.controller, 2).unwrap();
    let sent = late.submit_write(on(nvm::WRITE, 1, 0), vec![9; UNIT]).unwrap();
    let first = late.submit_write(
        Submission { flags: 1, ..on(nvm::COMPARE, 1, 1) },
        pattern(1, 2 * UNIT)[UNIT..].to_vec(),
    );
    let second = late.submit_write(Submission { flags: 2, ..on(nvm::WRITE, 1, 1) }, vec![9; UNIT]);
    assert_eq!(c.io.read_command(on(nvm::READ, 1, 0), 4096).unwrap().code, 0);
    thread::sleep(Duration::from_millis(50));
    assert_eq!(acquire(&mut a.io, 0, 1, 10, 0), 0);
    let codes: Vec<(u16, u16)> =
        (0..3).map(|_| late.reap().unwrap()).map(|done| (done.id, done.code)).collect();
    let of = |id| codes.iter().find(|(there, _)| *there == id).unwrap().1;
    assert_eq!((of(sent), of(second.unwrap()), of(first.unwrap())), (CONFLICT, CONFLICT, 0x009));
    assert_eq!(a.read(0, UNIT, 2), pattern(1, 2 * UNIT));
}

/// A command that was checked does not reach the drive once a reservation that forbids it is there: one host writes as fast as it can while
/// another one reserves the namespace again and again.
#[test]
fn nobody_writes_to_what_is_reserved_while_it_is() {
    let (server, a, _b, _c) = three();
    let is_over = AtomicBool::new(false);
    let (done, refused) = thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut host = other_host(&server, 9);
            let (mut done, mut refused, mut version) = (0_u64, 0_u64, 0_u8);
            while !is_over.load(Ordering::Relaxed) {
                version = version.wrapping_add(1);
                let ids: Vec<u16> = (0..32)
                    .map(|block| host.io.submit_write(on(nvm::WRITE, 1, block), vec![version; UNIT]).unwrap())
                    .collect();
                for _ in ids {
                    match host.io.reap().unwrap().code {
                        0 => done += 1,
                        // Command Interrupted
                        CONFLICT | 0x021 => refused += 1,
                        code => panic!("{code:x}"),
                    }
                }
            }
            (done, refused)
        });
        let over = EndsWhenDropped(&is_over);
        // without the network, so that nothing comes between the change and the look at the drive
        let (namespaces, queue) = (&server.subsystem().namespaces, &server.subsystem().queue);
        let controller = server.subsystem().controller(a.controller).unwrap();
        let written = || queue.drive().lock().smart().counters.host_units_written;
        for round in 0..400_u32 {
            let target = *namespaces.view(&controller).blocks(1).unwrap();
            let kind = ReservationKind::of(1 + (round % 6) as u8).unwrap();
            namespaces.reserve(queue, &target, |there| there.acquire(&[1; 16], 10, kind)).unwrap();
            let before = written();
            thread::sleep(Duration::from_micros(500));
            assert_eq!(written(), before, "units were written in round {round}");
            namespaces.reserve(queue, &target, |there| there.release(&[1; 16], 10, Some(kind))).unwrap();
            thread::sleep(Duration::from_micros(300));
        }
        drop(over);
        writer.join().unwrap()
    });
    println!("{done} written, {refused} refused");
    assert!(done > 0 && refused > 0);
}

/// Reservations that a host wants to outlive power losses do, with their keys; others end.
#[test]
fn a_reservation_outlives_power_losses_and_the_server_if_a_host_wants_that() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("drive.tant");
    let mut device = Device::create(&image, &small()).unwrap();
    let write = |host: &mut Host| host.io.write_command(on(nvm::WRITE, 1, 0), &[0; UNIT]).unwrap().code;
    for (persists, number) in [(0, 1_u8), (3 << 30, 2), (0, 3), (2 << 30, 4)] {
        let server = serve(subsystem_on(device, 4096, Pacing::None));
        let mut a = other_host(&server, 1);
        if number != 3 {
            assert_eq!(register(&mut a.io, persists, 0, 10), 0);
            assert_eq!(acquire(&mut a.io, 0, 3, 10, 0), 0);
        }
        let outlives = number == 2 || number == 3;
        assert_eq!(report(&mut a.io), (3, u8::from(outlives), vec![(1, 10, true)]));
        drop(a);
        drop(cut_and_attach(&server));
        let (mut a, mut c) = (other_host(&server, 1), other_host(&server, 3));
        let expected = if outlives { (3, 1, vec![(1, 10, true)]) } else { (0, 0, vec![]) };
        assert_eq!(report(&mut c.io), expected, "{number}");
        assert_eq!((write(&mut a), write(&mut c)), (0, if outlives { CONFLICT } else { 0 }));
        if number == 3 {
            // of a namespace that is gone, nothing is left
            assert_eq!((delete(&mut a.admin, 1), create(&mut a.admin, 100, 0)), (0, 1));
            let mut both = [a.controller, c.controller];
            both.sort_unstable();
            assert_eq!(change(&mut a.admin, 0, 1, &both), 0);
            assert_eq!((report(&mut c.io), write(&mut c)), ((0, 0, vec![]), 0));
        }
        drop((a, c));
        device = opened_again(server, &image);
    }
}

/// Power is lost at each flash operation of a change that is to outlive it: it is there as a whole or not at all.
#[test]
fn a_change_that_outlives_power_losses_is_there_or_not() {
    let (mut old, mut new) = (0, 0);
    for operations in 1..25 {
        let server = serve(subsystem(4096));
        let mut a = other_host(&server, 1);
        assert_eq!((register(&mut a.io, 3 << 30, 0, 10), acquire(&mut a.io, 0, 1, 10, 0)), (0, 0));
        server.subsystem().queue.drive().lock().cut_after(Some(operations));
        let mut b = other_host(&server, 2);
        let data = [0_u64.to_le_bytes(), 20_u64.to_le_bytes()].concat();
        let registers = command(nvm::RESERVATION_REGISTER, 1, [0; 6]);
        let answered = b.io.write_command(registers, &data).is_ok_and(|done| done.code == 0);
        drop(cut_and_attach(&server));
        let mut a = other_host(&server, 1);
        match report(&mut a.io) {
            (1, 1, there) if there == [(1, 10, true)] && !answered => old += 1,
            (1, 1, there) if there == [(1, 10, true), (2, 20, false)] => new += 1,
            other => panic!("{operations}: {other:?}, answered {answered}"),
        }
    }
    println!("{old} old, {new} new");
    assert!(new > 0);
}
