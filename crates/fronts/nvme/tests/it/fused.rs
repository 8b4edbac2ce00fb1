//! Compare and Write as a fused pair.

use std::thread;

use tantalum::{Device, Profile};
use tantalum_drive::Pacing;
use tantalum_nvme::client::{Client, Options, block_command, command};
use tantalum_nvme::server::Server;
use tantalum_nvme::wire::command::Submission;
use tantalum_nvme::wire::opcode::{admin, nvm};

use crate::common::{attach, names, pattern, serve, small, subsystem, subsystem_on, wait_until};
use crate::namespaces::identify;

const FAILED: u16 = 0x009;
const MISSING: u16 = 0x00a;
const INVALID: u16 = 0x002;

const FIRST: u8 = 1;
const SECOND: u8 = 2;

/// One half of a pair.
fn half(flags: u8, opcode: u8, first: u64, count: u32) -> Submission {
    Submission { flags, ..block_command(opcode, first, count) }
}

fn compare(first: u64, count: u32) -> Submission {
    half(FIRST, nvm::COMPARE, first, count)
}

fn write(first: u64, count: u32) -> Submission {
    half(SECOND, nvm::WRITE, first, count)
}

/// Sends commands one after the other, without waiting, and returns their status codes in the order in which they were sent.
fn codes(io: &mut Client, commands: &[(Submission, &[u8])]) -> Vec<u16> {
    let ids: Vec<u16> = commands
        .iter()
        .map(|(command, data)| match command.opcode {
            nvm::READ => io.submit(*command, Vec::new(), 512).unwrap(),
            _ => io.submit_write(*command, data.to_vec()).unwrap(),
        })
        .collect();
    let done: Vec<(u16, u16)> = ids
        .iter()
        .map(|_| {
            let completed = io.reap().unwrap();
            (completed.id, completed.code)
        })
        .collect();
    ids.iter().map(|id| done.iter().find(|(there, _)| there == id).expect("each is answered").1).collect()
}

fn server(block_bytes: u32) -> Server {
    serve(subsystem(block_bytes))
}

#[test]
fn blocks_are_written_if_they_are_equal() {
    for (block_bytes, count) in [(512, 8), (512, 3), (4096, 1)] {
        for no_capsule_data in [false, true] {
            let server = server(block_bytes as u32);
            let mut host = attach(&server, Options { no_capsule_data, ..Options::default() });
            let told = identify(&mut host.admin, 1, 0).data;
            assert_eq!(told[522] & 1, 1, "FUSES");
            let [old, new] = [1, 2].map(|seed| pattern(seed, count * block_bytes));
            host.write(8, block_bytes, &old);
            let io = &mut host.io;
            let (first, second) = (compare(8, count as u32), write(8, count as u32));
            assert_eq!(codes(io, &[(first, &new), (second, &new)]), [0x285, FAILED], "Compare Failure");
            assert_eq!(host.read(8, block_bytes, count as u32), old);
            let io = &mut host.io;
            assert_eq!(codes(io, &[(first, &old), (second, &new)]), [0, 0]);
            assert_eq!(host.read(8, block_bytes, count as u32), new);
            // several at once, each of which finds what the one before has written
            let three = [
                (first, &new[..]),
                (second, &old),
                (first, &old),
                (second, &new),
                (first, &old),
                (second, &old),
            ];
            assert_eq!(codes(&mut host.io, &three), [0, 0, 0, 0, 0x285, FAILED]);
            assert_eq!(host.read(8, block_bytes, count as u32), new);
        }
    }
}

#[test]
fn a_half_without_the_other_one_is_aborted() {
    let server = server(512);
    let mut host = attach(&server, Options::default());
    let data = [0; 512];
    let io = &mut host.io;
    let read = block_command(nvm::READ, 0, 1);
    assert_eq!(
        codes(io, &[(compare(0, 1), &data), (read, &[]), (write(0, 1), &data)]),
        [MISSING, 0, MISSING]
    );
    let two = [(compare(0, 1), &data[..]), (compare(0, 1), &data), (write(0, 1), &data)];
    assert_eq!(codes(io, &two), [MISSING, 0, 0]);
    assert_eq!(codes(io, &[(write(0, 1), &data), (read, &[])]), [MISSING, 0]);
    // one whose data have not come yet
    let mut slow = Client::io(
        server.address(),
        Options { no_capsule_data: true, ..Options::default() },
        &names(),
        host.controller,
        2,
    )
    .unwrap();
    assert_eq!(codes(&mut slow, &[(compare(0, 1), &data), (read, &[])]), [MISSING, 0]);
    let three = [(compare(0, 1), &data[..]), (write(0, 1), &data), (read, &[])];
    assert_eq!(codes(&mut slow, &three), [0, 0, 0]);
}

#[test]
fn a_pair_whose_halves_do_not_fit_is_refused() {
    let server = server(512);
    let mut host = attach(&server, Options::default());
    let (data, two) = ([0; 512], [0; 1024]);
    let io = &mut host.io;
    let pair = |io: &mut Client, first: Submission, second: Submission| {
        let bytes = |command: &Submission| &[0; 8192][..(command.dword(12) as usize + 1) * 512];
        codes(io, &[(first, bytes(&first)), (second, bytes(&second))])
    };
    assert_eq!(pair(io, compare(0, 1), write(1, 1)), [INVALID, INVALID], "other blocks");
    assert_eq!(pair(io, compare(0, 1), write(0, 2)), [INVALID, INVALID]);
    let both = half(3, nvm::COMPARE, 0, 1);
    assert_eq!(pair(io, both, write(0, 1)), [INVALID, MISSING]);
    assert_eq!(pair(io, half(FIRST, nvm::WRITE, 0, 1), write(0, 1)), [INVALID, FAILED], "two writes");
    assert_eq!(pair(io, compare(0, 1), half(SECOND, nvm::COMPARE, 0, 1)), [FAILED, INVALID]);
    assert_eq!(pair(io, compare(0, 1), half(SECOND, nvm::WRITE_ZEROES, 0, 1)), [FAILED, INVALID]);
    assert_eq!(pair(io, compare(0, 9), write(0, 9)), [0x014, FAILED], "Atomic Write Unit Exceeded");
    let end = (64 << 20) / 512;
    assert_eq!(pair(io, compare(end, 1), write(end, 1)), [0x080, FAILED]);
    assert_eq!(pair(io, compare(0, 1), write(end, 1)), [FAILED, 0x080]);
    let other = Submission { namespace: 2.into(), ..write(0, 1) };
    assert_eq!(pair(io, compare(0, 1), other), [FAILED, 0x00b]);
    assert_eq!(codes(io, &[(compare(0, 2), &data), (write(0, 2), &two)]), [0x00f, FAILED], "too few data");
    assert_eq!(codes(io, &[(compare(0, 2), &two), (write(0, 2), &data)]), [FAILED, 0x00f]);
    // what cannot be read
    assert_eq!(io.command(block_command(nvm::WRITE_UNCORRECTABLE, 5, 1)).unwrap().code, 0);
    assert_eq!(pair(io, compare(5, 1), write(5, 1)), [0x281, FAILED]);
    assert_eq!(pair(io, compare(4, 1), write(4, 1)), [0, 0], "it is another block");
    // admin commands come in no pairs
    let fused = Submission { flags: FIRST, ..command(admin::KEEP_ALIVE, 0, [0; 6]) };
    assert_eq!(host.admin.command(fused).unwrap().code, INVALID);
}

#[test]
fn a_half_that_waits_can_be_aborted_and_takes_the_other_one_with_it() {
    let server = server(512);
    let mut host = attach(&server, Options::default());
    // until it has come, there is nothing to abort
    let mut abort = |queue: u32, id: u16| {
        let abort = command(admin::ABORT, 0, [u32::from(id) << 16 | queue, 0, 0, 0, 0, 0]);
        wait_until("it is aborted", || host.admin.command(abort).unwrap().result == 0);
    };
    let first = host.io.submit_write(compare(0, 1), vec![0; 512]).unwrap();
    abort(1, first);
    let done = host.io.reap().unwrap();
    assert_eq!((done.id, done.code), (first, 0x007));
    assert_eq!(codes(&mut host.io, &[(write(0, 1), &[0; 512])]), [FAILED]);
    // the data of the second half never come
    let slow = Options { no_capsule_data: true, ..Options::default() };
    let mut io = Client::io(server.address(), slow, &names(), host.controller, 2).unwrap();
    let first = io.submit_write(compare(0, 1), vec![0; 512]).unwrap();
    let second = io.submit_write(write(0, 1), vec![1; 512]).unwrap();
    abort(2, second);
    let mut ended: Vec<(u16, u16)> =
        (0..2).map(|_| io.reap().unwrap()).map(|done| (done.id, done.code)).collect();
    ended.sort_unstable();
    assert_eq!(ended, [(first, FAILED), (second, 0x007)]);
    assert_eq!(host.read(0, 512, 1), [0; 512]);
}

/// Hosts count in one block, each by comparing with what it has read and writing one more.
#[test]
fn no_other_host_writes_between_the_comparison_and_the_write() {
    const HOSTS: u64 = 3;
    const EACH: u64 = 150;
    let server = server(512);
    let mut refused = 0;
    thread::scope(|scope| {
        let hosts: Vec<_> = (0..HOSTS)
            .map(|_| {
                scope.spawn(|| {
                    let mut host = attach(&server, Options::default());
                    let (mut done, mut refused) = (0, 0_u64);
                    while done < EACH {
                        let old = host.read(3, 512, 1);
                        let count = u64::from_le_bytes(old[..8].try_into().unwrap());
                        let mut new = old.clone();
                        new[..8].copy_from_slice(&(count + 1).to_le_bytes());
                        match codes(&mut host.io, &[(compare(3, 1), &old), (write(3, 1), &new)])[..] {
                            [0, 0] => done += 1,
                            [0x285, FAILED] => refused += 1,
                            ref codes => panic!("{codes:x?}"),
                        }
                    }
                    refused
                })
            })
            .collect();
        refused = hosts.into_iter().map(|host| host.join().unwrap()).sum::<u64>();
    });
    println!("{refused} refused");
    assert!(refused > 0, "hosts never met");
    let mut host = attach(&server, Options::default());
    let count = u64::from_le_bytes(host.read(3, 512, 1)[..8].try_into().unwrap());
    assert_eq!(count, HOSTS * EACH);
}

#[test]
fn as_many_blocks_are_compared_and_written_as_are_written_as_a_whole() {
    let told = |units: u32, block_bytes: u32| {
        let mut profile = Profile { ..small() };
        profile.limits.atomic_write_units = units;
        let server = serve(subsystem_on(Device::in_memory(&profile).unwrap(), block_bytes, Pacing::None));
        let mut host = attach(&server, Options::default());
        let (controller, namespace) =
            (identify(&mut host.admin, 1, 0).data, identify(&mut host.admin, 0, 1).data);
        let word = |bytes: &[u8], at: usize| u32::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]));
        let blocks = word(&namespace, 38) + 1;
        assert_eq!(word(&namespace, 36) + 1, blocks, "NAWUPF");
        let data = vec![0; (blocks + 1) as usize * block_bytes as usize];
        let fitting = &data[block_bytes as usize..];
        let io = &mut host.io;
        assert_eq!(codes(io, &[(compare(0, blocks), fitting), (write(0, blocks), fitting)]), [0, 0]);
        let more = blocks + 1;
        assert_eq!(codes(io, &[(compare(0, more), &data), (write(0, more), &data)]), [0x014, FAILED]);
        (word(&controller, 532), blocks)
    };
    assert_eq!(told(1, 4096), (0, 1), "ACWU, NACWU");
    assert_eq!(told(1, 512), (0, 8));
    assert_eq!(told(4, 4096), (3, 4));
    assert_eq!(told(4, 512), (24, 25));
}
