//! Replays the stored inputs of the fuzz targets, and tests what needs no sockets or threads.

use std::path::Path;
use std::sync::Arc;

use crate::fuzzed::{Side, capsule, fabrics_command};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum_nvme::controller::ENABLED;
use tantalum_nvme::failure::Failure;
use tantalum_nvme::limits::ABORTS;
use tantalum_nvme::wire::command::{Completion, Pointer, Submission, TRANSPORT};
use tantalum_nvme::wire::fabrics::{ANY_CONTROLLER, Property, property};
use tantalum_nvme::wire::opcode::{admin, fabrics, nvm};
use tantalum_nvme::wire::pdu::kind;
use zerocopy::{FromBytes, IntoBytes};

fn replay(target: &str, run: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/corpus").join(target);
    let mut inputs: Vec<_> = std::fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.unwrap().path())
        .collect();
    inputs.sort();
    assert!(inputs.len() > 10, "{} inputs in {}", inputs.len(), folder.display());
    for input in inputs {
        println!("{}", input.display());
        run(&std::fs::read(&input).unwrap());
    }
}

#[test]
fn stored_bytes_of_connections_harm_nobody() {
    replay("nvme_pdu", crate::fuzzed::pdu);
}

#[test]
fn stored_sessions_harm_nobody() {
    replay("nvme_session", crate::fuzzed::session);
}

/// Without a fuzzer's guidance, but in every run. The seed is printed; `SEED` chooses.
#[test]
fn random_sessions_harm_nobody() {
    let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    println!("SEED={seed}");
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    for _ in 0..20 {
        let steps: Vec<u8> = (0..600).map(|_| rng.random()).collect();
        crate::fuzzed::session(&steps);
        let mut bytes = Side::opening();
        bytes.extend((0..rng.random_range(1..2000)).map(|_| rng.random::<u8>()));
        let at = rng.random_range(0..bytes.len());
        bytes[at] = rng.random();
        crate::fuzzed::pdu(&bytes);
    }
}

fn completions(bytes: &[u8]) -> Vec<(u16, u16, u64)> {
    bytes
        .chunks_exact(24)
        .map(|pdu| {
            let completion = Completion::read_from_bytes(&pdu[8..]).unwrap();
            (completion.id.get(), Failure::code_of(completion.status.get()), completion.result.get())
        })
        .collect()
}

#[test]
fn more_aborts_than_there_may_be_are_refused() {
    let subsystem = Arc::new(crate::fuzzed::subsystem(4 << 20));
    let mut host = Side::new(&subsystem);
    let controller = host.connect(0, ANY_CONTROLLER);
    let enable = Property::new(false, property::CONFIGURATION, ENABLED.into());
    host.give(&capsule(fabrics_command(fabrics::PROPERTY_SET, enable.as_bytes()), &[]));
    let mut io = Side::new(&subsystem);
    io.connect(1, controller);
    // the other connection's thread does not get to answer
    let mut sent = Vec::new();
    for id in 0..ABORTS as u16 + 1 {
        let abort = Submission {
            opcode: admin::ABORT,
            flags: 0x40,
            id: id.into(),
            dword10: [5 << 16 | 1, 0, 0, 0, 0, 0].map(Into::into),
            ..Submission::default()
        };
        host.give(&capsule(abort, &[]));
        sent.extend_from_slice(&host.sent);
    }
    assert_eq!(completions(&sent), [(ABORTS as u16, Failure::ABORT_LIMIT.code(), 0)]);
    // now it does; a write that waits for its data takes the name that the first Abort gave
    let write = Submission {
        opcode: nvm::WRITE,
        flags: 0x40,
        id: 5.into(),
        namespace: 1.into(),
        data: Pointer::new(512, TRANSPORT),
        ..Submission::default()
    };
    io.give(&capsule(write, &[]));
    host.give(&[]);
    let answers = completions(&host.sent);
    assert_eq!(answers.len(), ABORTS, "each is answered");
    assert_eq!(
        answers.iter().filter(|answer| answer.2 == 0).count(),
        1,
        "one of them aborted it: {answers:?}"
    );
}

/// What a session that has connected to an I/O queue of its own makes of some bytes: what it sends, and whether it
/// continues.
fn io_session(subsystem: &Arc<tantalum_nvme::subsystem::Subsystem>, controller: u16) -> Side {
    let mut io = Side::new(subsystem);
    io.connect(1, controller);
    io
}

/// Every byte of a header and of a command takes every value. Either there is one completion, or data, or an R2T, or a
/// termination request with its reason and the end, or the session waits for the rest of a longer PDU.
#[test]
fn every_value_of_every_byte_of_a_command_is_answered_or_ends_the_connection() {
    let subsystem = Arc::new(crate::fuzzed::subsystem(4 << 20));
    let mut host = Side::new(&subsystem);
    let controller = host.connect(0, ANY_CONTROLLER);
    let enable = Property::new(false, property::CONFIGURATION, ENABLED.into());
    host.give(&capsule(fabrics_command(fabrics::PROPERTY_SET, enable.as_bytes()), &[]));
    let read = Submission {
        opcode: nvm::READ,
        flags: 0x40,
        id: 3.into(),
        namespace: 1.into(),
        data: Pointer::new(512, TRANSPORT),
        ..Submission::default()
    };
    let write = Submission { opcode: nvm::WRITE, ..read };
    let in_capsule =
        Submission { data: Pointer::new(512, tantalum_nvme::wire::command::IN_CAPSULE), ..write };
    let (mut answered, mut ended, mut waited) = (0, 0, 0);
    for pdu in [capsule(read, &[]), capsule(write, &[]), capsule(in_capsule, &[7; 512])] {
        for at in 0..72 {
            for value in 0..=255_u8 {
                let mut changed = pdu.clone();
                changed[at] = value;
                let mut io = io_session(&subsystem, controller);
                io.give(&changed);
                let first = io.sent.first().copied();
                match first {
                    None => {
                        assert!(io.session.is_ending() == (at == 0 && value == kind::H2C_TERM_REQ));
                        waited += 1;
                    }
                    Some(kind::C2H_TERM_REQ) => {
                        assert!(io.session.is_ending() && (1..=6).contains(&io.sent[8]), "{at} {value}");
                        ended += 1;
                    }
                    Some(kind::CAPSULE_RESP) => {
                        // what a shorter PDU leaves is taken for the next one
                        let is_cut = (4..8).contains(&at) && io.session.is_ending();
                        assert!(io.sent.len() == 24 || is_cut, "byte {at} is {value}: more than one answer");
                        answered += 1;
                    }
                    Some(kind::R2T) => {
                        assert_eq!(io.sent.len(), 24, "byte {at} is {value}");
                        answered += 1;
                    }
                    Some(kind::C2H_DATA) => {
                        let data_bytes = u32::from_le_bytes(io.sent[4..8].try_into().unwrap()) as usize;
                        assert_eq!(io.sent.len(), data_bytes + 24, "byte {at} is {value}");
                        answered += 1;
                    }
                    Some(other) => panic!("byte {at} is {value}: a PDU of type {other}"),
                }
            }
        }
    }
    println!("{answered} answered, {ended} ended, {waited} waited");
    assert!(answered > 30_000 && ended > 5_000, "{answered} answered, {ended} ended");
}
