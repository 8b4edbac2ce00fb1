//! Several clients of one drive: their requests are in flight together, answers come when they are due, and a power loss
//! affects everybody.

use std::sync::mpsc;
use std::sync::{Arc, Mutex};

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum::{
    Access, Command, Device, Key, Lpn, NamespaceAttributes, Outcome, PowerLoss, Profile, Status, UNIT_BYTES,
};
use tantalum_drive::{Answers, Drive, InReply, Output, Pacing, Queue, Reply, Request, Units};

const UNIT: usize = UNIT_BYTES;

fn profile() -> Profile {
    Profile { capacity_bytes: 64 << 20, ..Profile::load("tlc-nvme").unwrap() }
}

fn drive() -> Drive {
    Drive::new(Device::in_memory(&profile()).unwrap())
}

fn virtual_queue(drive: &Drive) -> Queue {
    Queue::new(drive.clone(), Answers::in_virtual_time())
}

/// Submits one request, and advances time until it is answered.
fn ask(queue: &Queue, request: Request) -> Result<Reply, Status> {
    let (sender, receiver) = mpsc::channel();
    let at_ns = queue.drive().lock().time_ns();
    queue.submit(request, at_ns, move |ended, _| sender.send(ended).unwrap());
    queue.run();
    receiver.recv().unwrap()
}

fn unit(byte: u8) -> Vec<u8> {
    vec![byte; UNIT]
}

/// Reads units one after the other, each when the previous read is answered.
fn read_on(queue: &Queue, lpn: u32, left: u32, at_ns: u64, ends: &Arc<Mutex<Vec<u64>>>) {
    let (again, told) = (queue.clone(), Arc::clone(ends));
    queue.submit(Request::Read { lpn: Lpn(lpn), data: Units(1) }, at_ns, move |ended, done_ns| {
        assert_eq!(ended.unwrap().into_data(), unit(lpn as u8));
        told.lock().unwrap().push(done_ns);
        if left > 1 {
            read_on(&again, lpn, left - 1, done_ns, &told);
        }
    });
}

/// When the last of `clients` clients is done, each of which reads a unit 20 times.
fn time_of(clients: u32) -> u64 {
    let drive = drive();
    let queue = virtual_queue(&drive);
    for lpn in 0..clients {
        let write = Request::Write { lpn: Lpn(lpn), data: unit(lpn as u8), fua: true, handle: None };
        ask(&queue, write).unwrap();
    }
    ask(&queue, Request::Flush).unwrap();
    let start_ns = drive.lock().time_ns();
    let ends = Arc::default();
    (0..clients).for_each(|lpn| read_on(&queue, lpn, 20, start_ns, &ends));
    queue.run();
    let ends = ends.lock().unwrap();
    assert!(ends.is_sorted(), "answers go out in the order in which they are due");
    assert_eq!(ends.len(), 20 * clients as usize);
    ends.last().unwrap() - start_ns
}

#[test]
fn what_several_clients_ask_is_under_way_together() {
    let (one, four) = (time_of(1), time_of(4));
    assert!(four < 2 * one, "four clients take {four} ns, one takes {one} ns");
}

#[test]
fn a_client_whose_time_is_behind_is_served_after_what_was_issued() {
    let drive = drive();
    let (mut ahead, mut behind) = (drive.client(), drive.client());
    ahead.wait_until(5_000_000_000);
    ahead.submit(Command::Write { lpn: Lpn(1), data: &unit(1), fua: false, handle: None }).unwrap();
    let issued_ns = drive.lock().issued_ns();
    let completion = behind.submit(Command::Flush).unwrap();
    assert!(completion.done_ns > issued_ns);
    assert_eq!(drive.lock().issued_ns(), issued_ns);
    behind.begin_at(0);
    assert_eq!(behind.now_ns(), issued_ns);
}

#[test]
fn a_loss_of_power_is_told_to_everybody_once_and_answers_that_wait_say_so() {
    let drive = drive();
    let (sender, told) = mpsc::channel();
    drive.on_power_loss(move || sender.send(()).is_ok());
    let queue = virtual_queue(&drive);
    let mut client = drive.client();
    let at_ns = client.now_ns();
    let (sender, answers) = mpsc::channel();
    let write = Request::Write { lpn: Lpn(3), data: unit(3), fua: true, handle: None };
    queue.submit(write, at_ns, move |ended, _| sender.send(ended).unwrap());
    drive.lock().cut_power(at_ns + 10);
    queue.run();
    assert_eq!(answers.recv().unwrap(), Err(Status::PowerLost));
    assert_eq!(client.submit(Command::Flush), Err(Status::PowerLost));
    assert_eq!(client.end(), Some(Status::PowerLost));
    assert_eq!(told.try_iter().count(), 1);

    drive.lock().power_on(&mut PowerLoss::all(Outcome::NotStarted)).unwrap();
    assert_eq!(ask(&queue, Request::Read { lpn: Lpn(3), data: Units(1) }).unwrap().into_data(), unit(0));
    drive.lock().cut_power(u64::MAX / 2);
    assert_eq!(told.try_iter().count(), 1);
}

#[test]
fn in_real_time_threads_get_their_answers_when_they_are_due() {
    let mut profile = profile();
    profile.flash.program_ns = 20_000_000;
    let drive = Drive::new(Device::in_memory(&profile).unwrap());
    let from_ns = drive.lock().time_ns();
    let queue = Queue::new(drive.clone(), Answers::new(Pacing::Real, from_ns).unwrap());
    let start = std::time::Instant::now();
    std::thread::scope(|scope| {
        for lpn in 0..4 {
            let queue = queue.clone();
            scope.spawn(move || {
                let (sender, receiver) = mpsc::channel();
                let write = Request::Write { lpn: Lpn(lpn), data: unit(lpn as u8), fua: true, handle: None };
                queue.submit(write, 0, move |ended, _| sender.send(ended).unwrap());
                receiver.recv().unwrap().unwrap();
                assert!(start.elapsed().as_millis() >= 20);
            });
        }
    });
}

/// A queue in real time, and when its answers come.
fn real_queue(drive: &Drive) -> Queue {
    let from_ns = drive.lock().time_ns();
    Queue::new(drive.clone(), Answers::new(Pacing::Real, from_ns).unwrap())
}

/// A thread looked at the clock and was held up. Meanwhile another client was answered. Power fails during the first
/// one's command, but not before that answer.
#[test]
fn in_real_time_power_never_goes_before_an_answer_that_was_given() {
    let mut profile = profile();
    profile.flash.program_ns = 5_000_000;
    let drive = Drive::new(Device::in_memory(&profile).unwrap());
    let queue = real_queue(&drive);
    let looked_ns = drive.lock().time_ns();
    let (sender, receiver) = mpsc::channel();
    let write = Request::Write { lpn: Lpn(3), data: unit(3), fua: true, handle: None };
    queue.submit(write, 0, move |ended, _| sender.send(ended).unwrap());
    receiver.recv().unwrap().unwrap();
    drive.lock().cut_after(Some(1));
    let late = drive
        .lock()
        .issue(Command::Write { lpn: Lpn(4), data: &unit(4), fua: true, handle: None }, looked_ns);
    assert_eq!(late, Err(Status::PowerLost));
    let queue = {
        drive.lock().power_on(&mut PowerLoss::all(Outcome::NotStarted)).unwrap();
        virtual_queue(&drive)
    };
    let found = ask(&queue, Request::Read { lpn: Lpn(3), data: Units(1) }).unwrap().into_data();
    assert!(found == unit(3), "a write was answered, and power went before it was done");
}

/// A command is executed that will turn out to be the one during which power fails. Answers that become due meanwhile wait
/// for it.
#[test]
fn in_real_time_no_answer_is_given_while_a_command_is_executed() {
    let drive = Drive::new(Device::in_memory(&profile()).unwrap());
    let queue = real_queue(&drive);
    let (sender, receiver) = mpsc::channel();
    let write = Request::Write { lpn: Lpn(3), data: unit(3), fua: true, handle: None };
    let (others, issued_ns) = {
        let issued_ns = drive.lock().issued_ns();
        let sender = sender.clone();
        queue.submit(write, 0, move |ended, _| sender.send(ended.map(drop)).unwrap());
        (receiver, issued_ns)
    };
    let mut device = drive.lock();
    std::thread::sleep(std::time::Duration::from_millis(50));
    assert!(others.try_recv().is_err(), "it was answered while somebody had the device");
    let before_ns = device.issued_ns();
    assert!(before_ns > issued_ns, "the write was issued");
    device.cut_power(before_ns + 1);
    drop(device);
    assert_eq!(others.recv().unwrap(), Err(Status::PowerLost));
}

/// Every request has the same effect as its command, on a drive whose bytes move without its lock and on one in memory.
#[test]
fn requests_do_what_commands_do() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("drive.tant");
    let in_file = Device::create(&path, &profile()).unwrap();
    for device in [Device::in_memory(&profile()).unwrap(), in_file] {
        let queue = virtual_queue(&Drive::new(device));
        let ask = |request| ask(&queue, request);
        let (lpn, two) = (Lpn(7), [unit(1), unit(2)].concat());
        ask(Request::Write { lpn, data: two.clone(), fua: false, handle: None }).unwrap();
        assert_eq!(ask(Request::Read { lpn, data: Units(2) }).unwrap().into_data(), two);
        ask(Request::Flush).unwrap();
        assert_eq!(ask(Request::Read { lpn, data: Units(2) }).unwrap().into_data(), two);
        let write = Request::WriteWithMetadata { lpn, data: unit(3), metadata: [9; 24], fua: true };
        ask(write).unwrap();
        let reply = ask(Request::ReadWithMetadata { lpn, data: InReply, metadata: InReply }).unwrap();
        assert_eq!(reply.output, Output::Unit(unit(3), [9; 24]));
        ask(Request::Remap { src: lpn, dst: Lpn(20), units: 1 }).unwrap();
        ask(Request::WriteAtomic { writes: vec![(Lpn(30), unit(4)), (Lpn(40), unit(5))] }).unwrap();
        let begun = ask(Request::Begin { tx: InReply }).unwrap().output;
        let Output::Transaction(tx) = begun else { panic!("{begun:?}") };
        ask(Request::TxWrite { tx, lpn: Lpn(30), data: unit(6) }).unwrap();
        assert_eq!(ask(Request::TxRead { tx, lpn: Lpn(30), data: InReply }).unwrap().into_data(), unit(6));
        ask(Request::Commit { tx }).unwrap();
        let found = [7, 8, 20, 30, 40]
            .map(|lpn| ask(Request::Read { lpn: Lpn(lpn), data: Units(1) }).unwrap().into_data()[0]);
        assert_eq!(found, [0, 2, 3, 6, 5]);

        let attributes = NamespaceAttributes::default();
        let made = ask(Request::CreateNamespace { attributes, namespace: InReply }).unwrap();
        let Output::Namespace(namespace) = made.output else { panic!("{made:?}") };
        let key = Key::new(b"key").unwrap();
        ask(Request::KvPut { records: vec![(namespace, key, Some(b"value".to_vec()))] }).unwrap();
        assert_eq!(ask(Request::KvGet { namespace, key, value: InReply }).unwrap().into_data(), b"value");
        assert_eq!(
            ask(Request::KvList { namespace, from: None, keys: InReply, limit: 9 }).unwrap().output,
            Output::Keys(vec![key])
        );
        ask(Request::KvDelete { namespace, key }).unwrap();
        assert_eq!(ask(Request::KvExists { namespace, key }), Err(Status::NoSuchKey { namespace, key }));
        let units = queue.drive().lock().limits().capacity_units as u32;
        let beyond = ask(Request::Read { lpn: Lpn(5), data: Units(u32::MAX) });
        assert!(matches!(beyond, Err(Status::OutOfRange { .. })), "{beyond:?}");
        let beyond = ask(Request::Write { lpn: Lpn(units), data: unit(1), fua: false, handle: None });
        assert!(matches!(beyond, Err(Status::OutOfRange { .. })), "{beyond:?}");
        let odd = ask(Request::Write { lpn, data: vec![1; 5], fua: false, handle: None });
        assert!(matches!(odd, Err(Status::DataLength { .. })), "{odd:?}");
    }
}

/// Threads read and write their own units at random: bytes move outside the lock, while garbage is collected below.
#[test]
fn bytes_that_move_outside_the_lock_are_right() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("drive.tant");
    let small = Profile { capacity_bytes: 16 << 20, ..Profile::load("tlc-nvme").unwrap() };
    drop(Device::create(&path, &small).unwrap());
    let drive = Drive::new(Device::open_as(&path, Access::Write).unwrap());
    let queue = Queue::new(drive.clone(), Answers::new(Pacing::None, 0).unwrap());
    std::thread::scope(|scope| {
        for thread in 0..4_u32 {
            let queue = queue.clone();
            scope.spawn(move || {
                let mut rng = Xoshiro256PlusPlus::seed_from_u64(thread.into());
                let mut held = [0_u8; 800];
                for _ in 0..6000 {
                    let index = rng.random_range(0..held.len());
                    let lpn = Lpn(4 * index as u32 + thread);
                    if rng.random_ratio(1, 2) {
                        held[index] = rng.random();
                        let write = Request::Write { lpn, data: unit(held[index]), fua: false, handle: None };
                        queue.drive().perform(write, 0).unwrap();
                    } else {
                        let read = queue.drive().perform(Request::Read { lpn, data: Units(1) }, 0).unwrap();
                        assert!(read.into_data() == unit(held[index]), "unit {lpn}");
                    }
                }
            });
        }
    });
    assert!(drive.lock().smart().counters.blocks_erased > 0, "nothing was collected");
}

/// Where answers go out at once, a client learns of what the drive does later in its own time. Another client's command at
/// an earlier time, at which power fails, must not undo that.
#[test]
fn what_was_told_at_once_is_not_undone_by_another_clients_power_cut() {
    for seed in 0..20 {
        let drive = drive();
        let queue = |_| Queue::new(drive.clone(), Answers::new(Pacing::None, 0).unwrap());
        let [first, second] = [0, 1].map(queue);
        let write = |queue: &Queue, lpn| {
            let (sender, receiver) = mpsc::channel();
            let write = Request::Write { lpn: Lpn(lpn), data: unit(7), fua: true, handle: None };
            queue.submit(write, 0, move |ended, _| sender.send(ended).unwrap());
            receiver.recv().unwrap()
        };
        write(&first, 1).unwrap();
        drive.lock().cut_after(Some(1));
        assert_eq!(write(&second, 2), Err(Status::PowerLost));
        drive.lock().power_on(&mut PowerLoss::seeded(seed)).unwrap();
        let now_ns = drive.lock().time_ns();
        let read = drive.perform(Request::Read { lpn: Lpn(1), data: Units(1) }, now_ns);
        assert!(read.unwrap().into_data() == unit(7), "seed {seed}");
    }
}

#[test]
#[should_panic(expected = "this thread already holds the device")]
fn a_thread_that_would_wait_for_itself_is_told() {
    let drive = drive();
    let _device = drive.lock();
    drive.lock();
}

#[test]
fn a_drive_is_given_back_when_nobody_shares_it() {
    let drive = drive();
    let (first, second) = (drive.client(), drive.client());
    drop(drive);
    let second = second.into_device().unwrap_err();
    drop(first);
    assert!(second.into_device().is_ok());
}
