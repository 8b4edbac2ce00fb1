//! Commands with any fields and any data, to the admin queue and an I/O queue of a controller that is ready: nothing panics,
//! and every command is answered, or its connection is over, or it waits for data or an event.
#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use tantalum::{Device, Profile};
use tantalum_drive::{Answers, Drive, Pacing, Queue};
use tantalum_nvme::mailbox::Mailbox;
use tantalum_nvme::session::Session;
use tantalum_nvme::subsystem::{Settings, Subsystem};
use tantalum_nvme::wire::command::{IN_CAPSULE, Pointer, Submission, TRANSPORT};
use tantalum_nvme::wire::fabrics::{ANY_CONTROLLER, Connect, ConnectData, Property, property};
use tantalum_nvme::wire::opcode::{FABRICS, fabrics};
use tantalum_nvme::wire::pdu::{CommandCapsule, Common, Data, Initialize, flag, kind};
use zerocopy::{FromBytes, IntoBytes};

const NAME: &str = "nqn.2014-08.org.nvmexpress:f";

struct Side {
    session: Session,
    sent: Vec<u8>,
}

impl Side {
    fn new(subsystem: &Arc<Subsystem>) -> Side {
        let mailbox = Arc::new(Mailbox::new(|| ()));
        let mut side = Side { session: Session::new(Arc::clone(subsystem), mailbox, None), sent: Vec::new() };
        side.give(Initialize::new(kind::IC_REQ, 0, 0, 0).as_bytes());
        side
    }

    /// The number in the last completion.
    fn give(&mut self, bytes: &[u8]) -> u16 {
        self.sent.clear();
        self.session.feed(bytes);
        self.session.take_mail();
        let freed = self.session.outbox.send(&mut self.sent).unwrap();
        self.session.sent(freed);
        let at = self.sent.len().saturating_sub(16);
        self.sent.get(at..at + 2).map_or(0, |bytes| u16::from_le_bytes([bytes[0], bytes[1]]))
    }

    fn connect(&mut self, queue: u16, controller: u16) -> u16 {
        let data = ConnectData::new([1; 16], controller, NAME, "nqn.host");
        let mut command = fabrics_command(fabrics::CONNECT, Connect::new(queue, 31, 0, 0).as_bytes());
        command.data = Pointer::new(1024, IN_CAPSULE);
        self.give(&capsule(command, data.as_bytes()))
    }
}

fn fabrics_command(kind: u8, fields: &[u8]) -> Submission {
    let mut command =
        Submission { opcode: FABRICS, flags: 0x40, namespace: u32::from(kind).into(), ..Submission::default() };
    command.dword10.as_mut_bytes().copy_from_slice(fields);
    command
}

fn capsule(command: Submission, data: &[u8]) -> Vec<u8> {
    let mut capsule = CommandCapsule::new(command);
    if !data.is_empty() {
        capsule.common.data_offset = 72;
        capsule.common.pdu_bytes = (72 + data.len() as u32).into();
    }
    [capsule.as_bytes(), data].concat()
}

fuzz_target!(|bytes: &[u8]| {
    let profile = Profile { capacity_bytes: 4 << 20, ..Profile::load("tlc-nvme").unwrap() };
    let drive = Drive::new(Device::in_memory(&profile).unwrap());
    let queue = Queue::new(drive, Answers::new(Pacing::None, 0).unwrap());
    let settings =
        Settings { name: NAME.to_owned(), serial: "F".to_owned(), identity: 1, block_bytes: 512 };
    let subsystem = Arc::new(Subsystem::new(settings, queue));
    let mut admin = Side::new(&subsystem);
    let controller = admin.connect(0, ANY_CONTROLLER);
    let enable = Property::new(false, property::CONFIGURATION, 1);
    admin.give(&capsule(fabrics_command(fabrics::PROPERTY_SET, enable.as_bytes()), &[]));
    let mut io = Side::new(&subsystem);
    io.connect(1, controller);
    // each step: which side and how, the command's fields that matter, a seed of data
    for step in bytes.chunks_exact(20) {
        let side = if step[0] & 1 == 0 { &mut io } else { &mut admin };
        let mut command = Submission { opcode: step[1], flags: 0x40, ..Submission::default() };
        command.id = u16::from(step[2] & 15).into();
        command.namespace = u32::from(step[3] & 3).into();
        for (dword, &byte) in command.dword10.iter_mut().zip(&step[4..10]) {
            *dword = u32::from(byte).into();
        }
        command.dword10[2] = u32::from_le_bytes([step[6], step[10], 0, step[11]]).into();
        let data_bytes = u32::from(u16::from_le_bytes([step[12], step[13]])) * 4;
        let pointer = if step[0] & 2 == 0 { IN_CAPSULE } else { TRANSPORT };
        command.data = Pointer::new(data_bytes, pointer);
        let data = vec![step[14]; if step[0] & 4 == 0 { data_bytes.min(8192) as usize } else { 0 }];
        side.give(&capsule(command, &data));
        // an R2T is answered, or not
        let Ok((common, _)) = Common::read_from_prefix(&side.sent) else { continue };
        if common.kind == kind::R2T && step[0] & 8 == 0 {
            let ready = Data::read_from_prefix(&side.sent).unwrap().0;
            let bytes = ready.bytes.get().min(128 << 10);
            let flags = if bytes == ready.bytes.get() { flag::LAST } else { 0 };
            let mut header =
                Data::new(kind::H2C_DATA, flags, ready.command.get(), ready.transfer.get(), 0, bytes);
            header.common.data_offset = 24;
            header.common.pdu_bytes = (24 + bytes).into();
            side.give(&[header.as_bytes(), &vec![step[15]; bytes as usize]].concat());
        }
    }
    subsystem.queue.drive().lock().audit();
});
