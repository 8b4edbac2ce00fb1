//! Bytes as they come from the network, to a new connection: nothing panics, nothing is held beyond the budget, and it makes
//! no difference in which pieces they come.
#![no_main]

use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use tantalum::{Device, Profile};
use tantalum_drive::{Answers, Drive, Pacing, Queue};
use tantalum_nvme::mailbox::Mailbox;
use tantalum_nvme::session::Session;
use tantalum_nvme::subsystem::{Settings, Subsystem};

static SUBSYSTEM: LazyLock<Arc<Subsystem>> = LazyLock::new(|| {
    let profile = Profile { capacity_bytes: 16 << 20, ..Profile::load("tlc-nvme").unwrap() };
    let drive = Drive::new(Device::in_memory(&profile).unwrap());
    let queue = Queue::new(drive, Answers::new(Pacing::None, 0).unwrap());
    let settings = Settings {
        name: "nqn.2014-08.org.nvmexpress:f".to_owned(),
        serial: "F".to_owned(),
        identity: 1,
        block_bytes: 512,
    };
    Arc::new(Subsystem::new(settings, queue))
});

/// What a session answers to bytes that come in pieces of this size.
fn answer(bytes: &[u8], piece_bytes: usize) -> (Vec<u8>, bool) {
    let mailbox = Arc::new(Mailbox::new(|| ()));
    let mut session = Session::new(Arc::clone(&SUBSYSTEM), mailbox, None);
    let mut sent = Vec::new();
    for piece in bytes.chunks(piece_bytes) {
        session.feed(piece);
        session.take_mail();
        let freed = session.outbox.send(&mut sent).unwrap();
        session.sent(freed);
    }
    let freed = session.outbox.send(&mut sent).unwrap();
    session.sent(freed);
    (sent, session.is_ending())
}

fuzz_target!(|bytes: &[u8]| {
    let whole = answer(bytes, bytes.len().max(1));
    // a Connect is given the next free controller, so the answers of a session that got one differ
    let small = answer(bytes, 3);
    assert_eq!((whole.0.len(), whole.1), (small.0.len(), small.1));
});
