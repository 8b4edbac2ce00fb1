//! What hosts do to the blocks of a served drive, recorded and performed again.

use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::sync::Arc;

use crate::common::{Host, NQN, UNIT, attach, cut_and_attach, pattern, serve, serving, settings, small};
use tantalum::{Command, Device, Lpn};
use tantalum_control::Control;
use tantalum_drive::{Answers, Drive, Pacing, Queue};
use tantalum_nvme::client::{Options, block_command, command};
use tantalum_nvme::serve::{ServeError, Served};
use tantalum_nvme::server::Server;
use tantalum_nvme::subsystem::Subsystem;
use tantalum_nvme::wire::opcode::{admin, nvm};
use tantalum_record::blocks::{BlockEvent, BlockEvents, BlockTape, perform};

/// Units that hosts write here.
const UNITS: u32 = 64;

/// A server whose drive is recorded, and the recording.
fn recorded(block_bytes: u32) -> (Server, Arc<BlockTape>, File) {
    let device = Device::in_memory(&small()).unwrap();
    let file = tempfile::tempfile().unwrap();
    let tape = Arc::new(BlockTape::new(file.try_clone().unwrap(), device.profile()));
    let queue = Queue::new(Drive::new(device), Answers::new(Pacing::None, 0).unwrap());
    let mut subsystem = Subsystem::new(settings(block_bytes), queue).unwrap();
    subsystem.tape = Some(Arc::clone(&tape));
    (serve(Arc::new(subsystem)), tape, file)
}

fn events(tape: &BlockTape, mut file: File) -> BlockEvents {
    tape.flush().unwrap();
    file.seek(SeekFrom::Start(0)).unwrap();
    BlockEvents::read(file).unwrap()
}

/// What a drive holds after a recording.
fn performed(mut events: BlockEvents) -> Vec<u8> {
    let mut device = Device::in_memory(&events.profile).unwrap();
    let mut submit = |command: Command<'_>| {
        let at_ns = device.time_ns();
        device.submit(command, at_ns).map(drop)
    };
    while let Some(event) = events.next().unwrap() {
        perform(&event, &mut submit).unwrap();
    }
    let mut data = vec![0; UNITS as usize * UNIT];
    submit(Command::Read { lpn: Lpn(0), data: &mut data }).unwrap();
    data
}

/// All commands that change blocks, with blocks of both sizes.
#[test]
fn another_drive_holds_the_same_after_the_recording() {
    for block_bytes in [4096, 512] {
        let (server, tape, file) = recorded(block_bytes);
        let mut host = attach(&server, Options::default());
        let (block, blocks) = (block_bytes as usize, UNITS * UNIT as u32 / block_bytes);
        let done = |host: &mut Host, command, data: &[u8]| {
            assert_eq!(host.io.write_command(command, data).unwrap().code, 0);
        };
        for (seed, (first, count)) in [(0, blocks), (3, 5), (9, 1), (17, 20)].into_iter().enumerate() {
            host.write(first, block, &pattern(seed as u64 + 1, count as usize * block));
        }
        assert_eq!(host.io.command(block_command(nvm::WRITE_ZEROES, 5, 9)).unwrap().code, 0);
        let mut ranges = [0; 32];
        ranges[4..8].copy_from_slice(&7_u32.to_le_bytes());
        ranges[8..16].copy_from_slice(&11_u64.to_le_bytes());
        ranges[20..24].copy_from_slice(&16_u32.to_le_bytes());
        ranges[24..32].copy_from_slice(&24_u64.to_le_bytes());
        done(&mut host, command(nvm::DATASET_MANAGEMENT, 1, [1, 1 << 2, 0, 0, 0, 0]), &ranges);
        assert_eq!(host.io.command(command(nvm::FLUSH, 1, [0; 6])).unwrap().code, 0);
        let expected: Vec<u8> = (0..u64::from(blocks)).flat_map(|at| host.read(at, block, 1)).collect();
        assert!(performed(events(&tape, file)) == expected, "blocks of {block_bytes} bytes");
    }
}

/// Force Unit Access, and a cache that is switched off, are promises of durability.
#[test]
fn what_is_durable_when_it_is_done_is_recorded_so() {
    let (server, tape, file) = recorded(4096);
    let mut host = attach(&server, Options::default());
    let data = pattern(1, UNIT);
    host.write(0, UNIT, &data);
    let mut forced = block_command(nvm::WRITE, 1, 1);
    forced.dword10[2] = (1 << 30).into();
    assert_eq!(host.io.write_command(forced, &data).unwrap().code, 0);
    let off = command(admin::SET_FEATURES, 0, [6, 0, 0, 0, 0, 0]);
    assert_eq!(host.admin.command(off).unwrap().code, 0);
    host.write(2, UNIT, &data);
    let mut events = events(&tape, file);
    let mut durable = Vec::new();
    while let Some(event) = events.next().unwrap() {
        if let BlockEvent::Write { fua, .. } = event {
            durable.push(fua);
        }
    }
    assert_eq!(durable, [false, true, true]);
}

/// It would be performed as if it had never happened.
#[test]
fn a_power_loss_cannot_be_performed_again() {
    let (server, tape, file) = recorded(4096);
    drop(attach(&server, Options::default()));
    cut_and_attach(&server);
    let mut events = events(&tape, file);
    let event = events.next().unwrap().unwrap();
    assert!(perform(&event, |_| Ok(())).is_err(), "{event:?}");
}

/// Also to a drive that is not recorded, with a reason.
#[test]
fn acknowledgements_come_through_the_control_socket() {
    let folder = tempfile::tempdir().unwrap();
    for is_recorded in [true, false] {
        let image = folder.path().join(format!("{is_recorded}.tant"));
        let device = Device::create(&image, &small()).unwrap();
        let file = tempfile::tempfile().unwrap();
        let tape = Arc::new(BlockTape::new(file.try_clone().unwrap(), device.profile()));
        let mut options = serving(&image, Pacing::None);
        options.name = Some(NQN.to_owned());
        options.tape = is_recorded.then(|| Arc::clone(&tape));
        let served = Served::start(device, &options).unwrap();
        let stopper = served.stopper();
        let serving = std::thread::spawn(move || served.wait(|_| {}));
        let acknowledged = Control::connect(&image).unwrap().acknowledge("client 7");
        stopper.stop();
        serving.join().unwrap().unwrap();
        match acknowledged {
            Ok(()) => {
                assert!(is_recorded);
                assert_eq!(events(&tape, file).next().unwrap(), Some(BlockEvent::Ack("client 7")));
            }
            Err(error) => assert!(!is_recorded && error.to_string().contains("--record"), "{error}"),
        }
    }
}

/// More than fits: what is acknowledged from then on is refused, and so is the end, and the drive is shut down all the same.
#[test]
fn a_recording_that_is_not_whole_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("drive.tant");
    let device = Device::create(&image, &small()).unwrap();
    let full = File::options().write(true).open("/dev/full").unwrap();
    let tape = Arc::new(BlockTape::new(full, device.profile()));
    let mut options = serving(&image, Pacing::None);
    options.tape = Some(Arc::clone(&tape));
    let served = Served::start(device, &options).unwrap();
    let stopper = served.stopper();
    let serving = std::thread::spawn(move || served.wait(|_| {}));
    let mut control = Control::connect(&image).unwrap();
    control.acknowledge("in memory").unwrap();
    tape.take(&BlockEvent::Write { offset: 0, data: &vec![0; 2 << 20], fua: false });
    let refused = control.acknowledge("lost").unwrap_err().to_string();
    assert!(refused.contains("not whole"), "{refused}");
    stopper.stop();
    assert!(matches!(serving.join().unwrap(), Err(ServeError::Recording(_))));
    Device::open(&image).unwrap().shutdown(0).unwrap();
}
