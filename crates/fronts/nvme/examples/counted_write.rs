//! One write of a server, from the bytes of its capsule to those of its completion, for counting the files that it executes:
//! `cargo build --profile profiling -p tantalum-nvme --example counted_write`, then `valgrind --tool=callgrind --dump-line=yes
//! --toggle-collect='*one_write*' target/profiling/examples/counted_write`. The session is the server's, without its socket.

use std::sync::Arc;

use tantalum::{Device, Profile};
use tantalum_drive::{Answers, Drive, Pacing, Queue};
use tantalum_nvme::controller::ENABLED;
use tantalum_nvme::mailbox::Mailbox;
use tantalum_nvme::session::Session;
use tantalum_nvme::subsystem::{Settings, Subsystem};
use tantalum_nvme::wire::command::{Completion, IN_CAPSULE, Pointer, Submission};
use tantalum_nvme::wire::fabrics::{ANY_CONTROLLER, Connect, ConnectData, Property, property};
use tantalum_nvme::wire::opcode::{FABRICS, fabrics, nvm};
use tantalum_nvme::wire::pdu::{CommandCapsule, Initialize, kind};
use zerocopy::{FromBytes, IntoBytes};

const NAME: &str = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-0000-0000-000000000001";
const HOST: &str = "nqn.2014-08.org.nvmexpress:counted";

/// Dword 12 of a write: Force Unit Access.
const FORCE: u32 = 1 << 30;

/// What the thread of a connection does with bytes from its host: returns what it sends.
#[inline(never)]
fn give(session: &mut Session, mut bytes: &[u8]) -> Vec<u8> {
    while !bytes.is_empty() {
        bytes = &bytes[session.feed(bytes)..];
    }
    session.take_mail();
    let mut sent = Vec::new();
    session.send(&mut sent).unwrap();
    sent
}

#[inline(never)]
fn one_write(session: &mut Session, capsule: &[u8]) -> Vec<u8> {
    give(session, capsule)
}

fn capsule(command: Submission, data: &[u8]) -> Vec<u8> {
    let mut capsule = CommandCapsule::new(command);
    if !data.is_empty() {
        capsule.common.data_offset = 72;
        capsule.common.pdu_bytes = (72 + data.len() as u32).into();
    }
    [capsule.as_bytes(), data].concat()
}

fn fabrics_command(kind: u8, fields: &[u8], data: &[u8]) -> Vec<u8> {
    let mut command = Submission {
        opcode: FABRICS,
        flags: 0x40,
        namespace: u32::from(kind).into(),
        data: Pointer::new(data.len() as u32, IN_CAPSULE),
        ..Submission::default()
    };
    command.dword10.as_mut_bytes().copy_from_slice(fields);
    capsule(command, data)
}

fn completion(sent: &[u8]) -> Completion {
    Completion::read_from_bytes(&sent[sent.len() - 16..]).unwrap()
}

/// A connection that has become a queue, and its controller.
fn connected(subsystem: &Arc<Subsystem>, queue: u16, controller: u16) -> (Session, u16) {
    let mut session = Session::new(Arc::clone(subsystem), Arc::new(Mailbox::new(|| ())), None);
    give(&mut session, Initialize::new(kind::IC_REQ, 0, 0, 0).as_bytes());
    let data = ConnectData::new([1; 16], controller, NAME, HOST);
    let fields = Connect::new(queue, 31, 0, 0);
    let sent = give(&mut session, &fabrics_command(fabrics::CONNECT, fields.as_bytes(), data.as_bytes()));
    (session, completion(&sent).result.get() as u16)
}

fn main() {
    let profile = Profile { capacity_bytes: 64 << 20, ..Profile::load("femu-2021").unwrap() };
    let drive = Drive::new(Device::in_memory(&profile).unwrap());
    let queue = Queue::new(drive, Answers::new(Pacing::None, 0).unwrap());
    let (name, serial) = (NAME.to_owned(), "COUNTED".to_owned());
    let settings = Settings { name, serial, identity: 1, block_bytes: 4096, advertised: None };
    let subsystem = Arc::new(Subsystem::new(settings, queue).expect("a new drive has no table"));
    let (mut admin, controller) = connected(&subsystem, 0, ANY_CONTROLLER);
    let enable = Property::new(false, property::CONFIGURATION, ENABLED.into());
    give(&mut admin, &fabrics_command(fabrics::PROPERTY_SET, enable.as_bytes(), &[]));
    let (mut io, _) = connected(&subsystem, 1, controller);
    let write = |block: u32| {
        let command = Submission {
            opcode: nvm::WRITE,
            flags: 0x40,
            namespace: 1.into(),
            data: Pointer::new(4096, IN_CAPSULE),
            dword10: [block, 0, FORCE, 0, 0, 0].map(Into::into),
            ..Submission::default()
        };
        capsule(command, &[7; 4096])
    };
    for block in 0..1000 {
        assert_eq!(completion(&give(&mut io, &write(block))).status.get(), 0);
    }
    let sent = one_write(&mut io, &write(5));
    assert_eq!(completion(&sent).status.get(), 0);
}
