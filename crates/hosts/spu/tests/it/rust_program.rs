//! A program in Rust without the standard library: the checksum of a range, which comes to the host instead of the data.

use crate::common;

use common::{KERNEL, OPEN, ask, profile, rest, ssd_of};
use tantalum_spu::{BlockClient, Event, Fault, answer, describe, shipped};

/// CRC-32C as its polynomial says, bit by bit.
fn crc_32c(data: &[u8]) -> u32 {
    !data.iter().fold(u32::MAX, |sum, &byte| {
        (0..8).fold(sum ^ u32::from(byte), |sum, _| sum >> 1 ^ if sum & 1 == 1 { 0x82F6_3B78 } else { 0 })
    })
}

fn request(address: u64, length: u32, tag: u32) -> Vec<u8> {
    [&address.to_le_bytes()[..], &length.to_le_bytes(), &tag.to_le_bytes()].concat()
}

#[test]
fn the_host_gets_the_checksum_and_not_the_data() {
    let mut ssd = ssd_of(&profile("tlc-nvme"));
    let endpoint = ssd.endpoint(KERNEL).unwrap();
    let base_io = BlockClient::new(endpoint, ssd.install(KERNEL, shipped::BASE_IO, OPEN).unwrap());
    let checksum = ssd.install(KERNEL, shipped::CHECKSUM, OPEN).unwrap();
    let data: Vec<u8> = (0..8192_u32).map(|at| ((at * at) >> 5) as u8).collect();
    base_io.write(&mut ssd, 8192 * 3, &data).unwrap();
    rest(&mut ssd);
    for (tag, (start, length)) in [(0, 8192), (0, 0), (1, 1), (100, 511), (511, 1025)].into_iter().enumerate()
    {
        let body = request(8192 * 3 + start, length, tag as u32);
        let before = ssd.link_bytes().1;
        let (status, events) = ask(&mut ssd, endpoint, 3, (checksum, 0), &body);
        let events = [events, rest(&mut ssd)].concat();
        assert_eq!(status, answer::OK);
        let part = &data[start as usize..][..length as usize];
        let expected = [&body[..], &crc_32c(part).to_le_bytes()].concat();
        let came =
            |event: &Event| matches!(event, Event::Request { body, handler: 0, .. } if *body == expected);
        assert!(events.iter().any(came), "{start} and {length}: {events:?}");
        assert!(ssd.link_bytes().1 - before < 100);
    }
    assert_eq!(crc_32c(b"123456789"), 0xE306_9283);
}

#[test]
fn what_it_may_not_read_and_what_is_elsewhere_is_answered() {
    let mut ssd = ssd_of(&profile("tlc-nvme"));
    let process = ssd.process();
    let endpoint = ssd.endpoint(process).unwrap();
    let checksum = ssd.install(process, shipped::CHECKSUM, OPEN).unwrap();
    let mut status = |spu, body: &[u8]| ask(&mut ssd, endpoint, spu, (checksum, 0), body).0;
    assert_eq!(status(3, &request(8192 * 3, 8, 1)), answer::NO_PERMISSION);
    assert_eq!(status(2, &request(8192 * 3, 8, 1)), answer::NOT_LOCAL);
    assert_eq!(status(3, &request(8192 * 3, 8193, 1)), answer::NOT_LOCAL);
    assert_eq!(status(3, &[0; 15]), answer::SHORT);
}

#[test]
fn its_functions_have_names() {
    assert_eq!(describe(shipped::CHECKSUM).unwrap().handlers.len(), 1);
    let mut profile = profile("tlc-nvme");
    profile.spu.handler_instructions = 20_000;
    let mut ssd = ssd_of(&profile);
    let endpoint = ssd.endpoint(KERNEL).unwrap();
    let checksum = ssd.install(KERNEL, shipped::CHECKSUM, OPEN).unwrap();
    let (status, events) = ask(&mut ssd, endpoint, 0, (checksum, 0), &request(0, 8192, 1));
    let events = [events, rest(&mut ssd)].concat();
    let ended = events.iter().find(|event| matches!(event, Event::Ended { .. })).expect("it is ended");
    assert!(matches!(ended, Event::Ended { fault: Fault::Endless { limit: 20_000 }, .. }));
    assert_eq!(status, answer::ENDED);
    let why = ended.why_ended().unwrap();
    assert!(why.contains("rpc_0") || why.contains("checksum"), "{why}");
}
