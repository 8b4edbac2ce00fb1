//! What the fuzz targets in `fuzz/` do with their bytes, and the tests with the stored ones.

use std::sync::{Arc, LazyLock};

use tantalum::{Device, Profile};
use tantalum_drive::{Answers, Drive, Pacing, Queue};
use tantalum_nvme::authentication::hosts::Secrets;
use tantalum_nvme::authentication::{Hosts, Secret};
use tantalum_nvme::controller::ENABLED;
use tantalum_nvme::failure::Failure;
use tantalum_nvme::mailbox::Mailbox;
use tantalum_nvme::session::Session;
use tantalum_nvme::subsystem::{Settings, Subsystem};
use tantalum_nvme::wire::authentication::Transport;
use tantalum_nvme::wire::command::{Completion, IN_CAPSULE, Pointer, Submission, TRANSPORT};
use tantalum_nvme::wire::fabrics::{ANY_CONTROLLER, Connect, ConnectData, Property, property};
use tantalum_nvme::wire::opcode::{FABRICS, fabrics};
use tantalum_nvme::wire::pdu::{CommandCapsule, Common, Data, Initialize, flag, kind};
use tantalum_nvme_programs::DrivePrograms;
use zerocopy::{FromBytes, IntoBytes};

const NAME: &str = "nqn.2014-08.org.nvmexpress:f";
const HOST: &str = "nqn.2014-08.org.example:host";

/// Bytes of a step of [`session`].
const STEP_BYTES: usize = 20;

pub fn subsystem(capacity_bytes: u64) -> Subsystem {
    let profile = Profile { capacity_bytes, ..Profile::load("tlc-nvme").unwrap() };
    let drive = Drive::new(Device::in_memory(&profile).unwrap());
    let queue = Queue::new(drive, Answers::new(Pacing::None, 0).unwrap());
    let (name, serial) = (NAME.to_owned(), "F".to_owned());
    let settings = Settings { name, serial, identity: 1, block_bytes: 512, advertised: None };
    Subsystem::new(settings, queue).unwrap().with_programs(Arc::new(DrivePrograms::default()))
}

static SHARED: LazyLock<Arc<Subsystem>> = LazyLock::new(|| Arc::new(subsystem(16 << 20)));

/// A session whose host must prove its identity.
static GUARDED: LazyLock<Arc<Subsystem>> = LazyLock::new(|| {
    let secret = || Secret::new(vec![7; 32], None).unwrap();
    let secrets = Secrets { host: secret(), controller: Some(secret()) };
    Arc::new(subsystem(16 << 20).for_hosts(Hosts::with_secrets([(HOST.to_owned(), Some(secrets))])))
});

/// Passes all of these bytes to a session.
fn feed(session: &mut Session, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        bytes = &bytes[session.feed(bytes)..];
    }
}

/// What a session answers to bytes that come in pieces of this size.
fn answer(bytes: &[u8], piece_bytes: usize) -> (Vec<u8>, bool) {
    let mailbox = Arc::new(Mailbox::new(|| ()));
    let mut session = Session::new(Arc::clone(&SHARED), mailbox, None);
    let mut sent = Vec::new();
    for piece in bytes.chunks(piece_bytes) {
        feed(&mut session, piece);
        session.take_mail();
        session.send(&mut sent).unwrap();
    }
    session.send(&mut sent).unwrap();
    (sent, session.is_ending())
}

/// Bytes as they come from the network, to a new connection: nothing panics, and it makes no difference in which pieces they
/// come.
pub fn pdu(bytes: &[u8]) {
    let whole = answer(bytes, bytes.len().max(1));
    // a Connect is given the next free controller, so the answers of a session that got one differ
    let small = answer(bytes, 3);
    assert_eq!((whole.0.len(), whole.1), (small.0.len(), small.1));
}

pub struct Side {
    pub session: Session,
    pub sent: Vec<u8>,
}

impl Side {
    /// What a correct host sends first.
    pub fn opening() -> Vec<u8> {
        Initialize::new(kind::IC_REQ, 0, 0, 0).as_bytes().to_vec()
    }

    pub fn new(subsystem: &Arc<Subsystem>) -> Side {
        let mailbox = Arc::new(Mailbox::new(|| ()));
        let mut side = Side { session: Session::new(Arc::clone(subsystem), mailbox, None), sent: Vec::new() };
        side.give(&Side::opening());
        side
    }

    /// The number in the last completion.
    pub fn give(&mut self, bytes: &[u8]) -> u16 {
        self.sent.clear();
        feed(&mut self.session, bytes);
        self.session.take_mail();
        self.session.send(&mut self.sent).unwrap();
        let at = self.sent.len().saturating_sub(16);
        self.sent.get(at..at + 2).map_or(0, |bytes| u16::from_le_bytes([bytes[0], bytes[1]]))
    }

    pub fn connect(&mut self, queue: u16, controller: u16) -> u16 {
        let data = ConnectData::new([1; 16], controller, NAME, HOST);
        let mut command = fabrics_command(fabrics::CONNECT, Connect::new(queue, 31, 0, 0).as_bytes());
        command.data = Pointer::new(1024, IN_CAPSULE);
        self.give(&capsule(command, data.as_bytes()))
    }
}

pub fn fabrics_command(kind: u8, fields: &[u8]) -> Submission {
    let mut command = Submission {
        opcode: FABRICS,
        flags: 0x40,
        namespace: u32::from(kind).into(),
        ..Submission::default()
    };
    command.dword10.as_mut_bytes().copy_from_slice(fields);
    command
}

pub fn capsule(command: Submission, data: &[u8]) -> Vec<u8> {
    let mut capsule = CommandCapsule::new(command);
    if !data.is_empty() {
        capsule.common.data_offset = 72;
        capsule.common.pdu_bytes = (72 + data.len() as u32).into();
    }
    [capsule.as_bytes(), data].concat()
}

/// A message of an authentication, or the room for one, and what a host that only claims to be one may do then: nothing.
fn claim(stranger: &mut Side, step: &[u8]) {
    let message = [&step[4..10], &step[10..], &[step[2]; 200]].concat();
    let bytes = usize::from(step[1]).clamp(1, message.len());
    let (kind, data) = match step[0] & 1 {
        0 => (fabrics::AUTHENTICATION_SEND, &message[..bytes]),
        _ => (fabrics::AUTHENTICATION_RECEIVE, &[][..]),
    };
    let room = if data.is_empty() { 4096 } else { bytes as u32 };
    let mut command = fabrics_command(kind, Transport::new(room).as_bytes());
    command.data = Pointer::new(room, if data.is_empty() { TRANSPORT } else { IN_CAPSULE });
    stranger.give(&capsule(command, data));
    let get = Property::new(true, property::CAPABILITIES, 0);
    stranger.give(&capsule(fabrics_command(fabrics::PROPERTY_GET, get.as_bytes()), &[]));
    let answer = stranger.sent.last_chunk::<16>().map(|bytes| Completion::read_from_bytes(bytes).unwrap());
    let code = answer.map(|completion| Failure::code_of(completion.status.get()));
    assert!(code.is_none_or(|code| code == Failure::AUTHENTICATION_REQUIRED.code()), "{code:?}");
}

/// Commands with any fields and any data, to the admin queue and an I/O queue of a controller that is ready, and to a queue
/// that is not authenticated: nothing panics, every command is answered, or its connection is over, or it waits for data or
/// an event; and nothing but an authentication is let through to the latter.
pub fn session(bytes: &[u8]) {
    let subsystem = Arc::new(subsystem(4 << 20));
    let mut admin = Side::new(&subsystem);
    let controller = admin.connect(0, ANY_CONTROLLER);
    let enable = Property::new(false, property::CONFIGURATION, ENABLED.into());
    admin.give(&capsule(fabrics_command(fabrics::PROPERTY_SET, enable.as_bytes()), &[]));
    let mut io = Side::new(&subsystem);
    io.connect(1, controller);
    let mut stranger = Side::new(&GUARDED);
    stranger.connect(0, ANY_CONTROLLER);
    // each step: which side and how, the command's fields that matter, a seed of data
    for step in bytes.chunks_exact(STEP_BYTES) {
        if step[0] & 0x30 == 0x30 {
            claim(&mut stranger, step);
            continue;
        }
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
}
