//! Blocks that a host has made unreadable (Write Uncorrectable), and reads of deallocated blocks that fail where a host asked for that
//! (Error Recovery).

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum::{Device, Plp, Profile};
use tantalum_drive::Pacing;
use tantalum_nvme::client::{Client, Options, block_command, command};
use tantalum_nvme::server::Server;
use tantalum_nvme::wire::opcode::{admin, nvm, vendor};

use crate::common::witness::number;
use crate::common::{
    Host, UNIT, attach, cut_and_attach, opened_again, pattern, serve, small, subsystem, subsystem_on,
};
use crate::namespaces::{change, create, delete, format, identify, on, sanitize, sanitize_status};

const UNREADABLE: u16 = 0x281;
const DEALLOCATED: u16 = 0x287;
const ALL: u32 = u32::MAX;

/// The status of a read of one block.
fn read(io: &mut Client, namespace: u32, block: u64, bytes: u32) -> u16 {
    io.read_command(on(nvm::READ, namespace, block), bytes).unwrap().code
}

fn mark(io: &mut Client, first: u64, count: u32) -> u16 {
    io.command(block_command(nvm::WRITE_UNCORRECTABLE, first, count)).map_or(5, |done| done.code)
}

#[test]
fn marked_blocks_cannot_be_read_until_they_are_written() {
    for block_bytes in [4096, 512] {
        let server = serve(subsystem(block_bytes));
        let mut host = attach(&server, Options::default());
        let (bytes, size) = (block_bytes as usize, block_bytes);
        let told = identify(&mut host.admin, 1, 0).data;
        assert_eq!(u16::from_le_bytes([told[520], told[521]]) >> 1 & 1, 1, "ONCS");
        host.write(0, bytes, &pattern(1, 64 * bytes));
        assert_eq!(mark(&mut host.io, 10, 20), 0);
        let io = &mut host.io;
        for block in 0..64 {
            let is_marked = (10..30).contains(&block);
            assert_eq!(read(io, 1, block, size), if is_marked { UNREADABLE } else { 0 }, "block {block}");
        }
        let over = |opcode| block_command(opcode, 0, 11);
        assert_eq!(io.read_command(over(nvm::READ), 11 * size).unwrap().code, UNREADABLE);
        assert_eq!(io.command(over(nvm::VERIFY)).unwrap().code, UNREADABLE);
        let same = pattern(1, 64 * bytes);
        assert_eq!(io.write_command(over(nvm::COMPARE), &same[..11 * bytes]).unwrap().code, UNREADABLE);
        // the drive still has them, but no way around the mark
        let copy = |first: u64, count: u16| {
            let mut range = [0; 32];
            range[8..16].copy_from_slice(&first.to_le_bytes());
            range[16..18].copy_from_slice(&(count - 1).to_le_bytes());
            range
        };
        let to = |block| command(nvm::COPY, 1, [block, 0, 0, 0, 0, 0]);
        assert_eq!(io.write_command(to(40), &copy(24, 8)).unwrap().code, UNREADABLE, "whole units");
        assert_eq!(io.write_command(to(41), &copy(24, 8)).unwrap().code, UNREADABLE, "parts of units");
        let units = |words: [u32; 3]| [words[0], words[1], words[2], 0, 0, 0];
        let unit = 24 * bytes as u32 / 4096;
        assert_eq!(io.command(command(vendor::REMAP, 1, units([unit, 9, 1]))).unwrap().code, UNREADABLE);
        assert_eq!(io.command(command(vendor::REMAP, 1, units([0, unit, 1]))).unwrap().code, UNREADABLE);
        // deallocating is not writing
        let mut range = [0; 16];
        (range[4], range[8]) = (20, 10);
        let deallocate = command(nvm::DATASET_MANAGEMENT, 1, [0, 4, 0, 0, 0, 0]);
        assert_eq!(io.write_command(deallocate, &range).unwrap().code, 0);
        assert_eq!(read(io, 1, 15, size), UNREADABLE);
        // each kind of write makes its blocks readable, and no others
        assert_eq!(
            io.write_command(block_command(nvm::WRITE, 10, 3), &pattern(2, 3 * bytes)).unwrap().code,
            0
        );
        assert_eq!(io.command(block_command(nvm::WRITE_ZEROES, 13, 7)).unwrap().code, 0);
        assert_eq!(io.write_command(to(24), &copy(32, 6)).unwrap().code, 0);
        let readable: Vec<u64> = (10..30).filter(|block| read(io, 1, *block, size) == 0).collect();
        assert_eq!(readable, (10..20).chain(24..30).collect::<Vec<_>>());
        assert_eq!(host.read(10, bytes, 3), pattern(2, 3 * bytes));
        assert_eq!(host.read(13, bytes, 7), vec![0; 7 * bytes]);
        assert_eq!(host.read(24, bytes, 6), same[32 * bytes..38 * bytes]);
        host.write(0, bytes, &same);
        assert!(server.subsystem().namespaces.uncorrectable().is_empty());
        assert_eq!(host.read(0, bytes, 64), same);
    }
}

#[test]
fn hostile_ranges_are_refused() {
    let server = serve(subsystem(4096));
    let mut host = attach(&server, Options::default());
    let last = (64 << 20) / 4096;
    assert_eq!(mark(&mut host.io, last, 1), 0x080);
    assert_eq!(mark(&mut host.io, last - 1, 2), 0x080);
    assert_eq!(mark(&mut host.io, u64::MAX, 1), 0x080);
    assert_eq!(host.io.command(on(nvm::WRITE_UNCORRECTABLE, 9, 0)).unwrap().code, 0x00b);
    assert!(server.subsystem().namespaces.uncorrectable().is_empty());
    assert_eq!(mark(&mut host.io, 0, last as u32), 0, "all blocks");
    assert_eq!(read(&mut host.io, 1, last - 1, 4096), UNREADABLE);
    assert_eq!(host.io.command(block_command(nvm::WRITE_ZEROES, 0, last as u32)).unwrap().code, 0);
    assert_eq!(read(&mut host.io, 1, last - 1, 4096), 0);
}

/// Marks belong to blocks of a namespace, and go with its contents.
#[test]
fn marks_end_with_what_they_marked() {
    let server = serve(subsystem(4096));
    let mut host = attach(&server, Options::default());
    assert_eq!(delete(&mut host.admin, 1), 0);
    for _ in 0..2 {
        let number = create(&mut host.admin, 100, 0);
        assert_eq!(change(&mut host.admin, 0, number, &[host.controller]), 0);
        assert_eq!(host.io.command(on(nvm::WRITE_UNCORRECTABLE, number, 7)).unwrap().code, 0);
    }
    assert_eq!([1, 2].map(|number| read(&mut host.io, number, 7, 4096)), [UNREADABLE; 2]);
    assert_eq!(format(&mut host.admin, 1, 0), 0);
    assert_eq!([1, 2].map(|number| read(&mut host.io, number, 7, 4096)), [0, UNREADABLE]);
    assert_eq!((delete(&mut host.admin, 2), create(&mut host.admin, 100, 0)), (0, 2));
    assert_eq!(change(&mut host.admin, 0, 2, &[host.controller]), 0);
    assert_eq!(read(&mut host.io, 2, 7, 4096), 0);
    assert_eq!(host.io.command(on(nvm::WRITE_UNCORRECTABLE, 1, 3)).unwrap().code, 0);
    assert_eq!(sanitize(&mut host.admin, 2), 0);
    crate::common::wait_until("it is over", || sanitize_status(&mut host.admin).1 == 1);
    assert_eq!(read(&mut host.io, 1, 3, 4096), 0);
}

/// What a block may be after a power loss.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Is {
    Marked,
    Zero,
    Version(u64),
}

/// Power is lost at random flash operations while blocks are marked, written, flushed and deallocated. A mark that was acknowledged is
/// there until something newer is, and what was under a mark never comes back.
fn marks_under_cuts(server: &Server, seed: u64, cuts: u64) -> [u64; 3] {
    const BLOCKS: u64 = 96;
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut host = attach(server, Options::default());
    let version_of = |block: u64, version: u64| pattern(block << 24 | version, 512);
    // of each block, what it may be after a power loss: the last durable state, and all since
    let mut possible: Vec<Vec<Is>> = vec![vec![Is::Zero]; BLOCKS as usize];
    let (mut version, mut counts) = (0, [0; 3]);
    for cut in 0..cuts {
        let operations = rng.random_range(1..12);
        server.subsystem().queue.drive().lock().cut_after(Some(operations));
        loop {
            let first = rng.random_range(0..BLOCKS - 20);
            let count = rng.random_range(1..20);
            version += 1;
            let range = first as usize..(first + count) as usize;
            let (code, is, is_durable) = match rng.random_range(0..5) {
                0 => (mark(&mut host.io, first, count as u32), Is::Marked, true),
                2 => {
                    let zeroes = block_command(nvm::WRITE_ZEROES, first, count as u32);
                    (host.io.command(zeroes).map_or(5, |done| done.code), Is::Zero, false)
                }
                1 => {
                    let code = host.io.command(command(nvm::FLUSH, 1, [0; 6])).map_or(5, |done| done.code);
                    if code == 0 {
                        possible.iter_mut().for_each(|possible| drop(possible.drain(..possible.len() - 1)));
                        continue;
                    }
                    break;
                }
                _ => {
                    let data: Vec<u8> =
                        (first..first + count).flat_map(|block| version_of(block, version)).collect();
                    let write = block_command(nvm::WRITE, first, count as u32);
                    let written = host.io.write_command(write, &data);
                    (written.map_or(5, |done| done.code), Is::Version(version), false)
                }
            };
            for possible in &mut possible[range.clone()] {
                possible.push(is);
                if code == 0 && is_durable {
                    possible.drain(..possible.len() - 1);
                }
            }
            if code != 0 {
                break;
            }
        }
        host = cut_and_attach(server);
        for (block, possible) in (0..).zip(&mut possible) {
            let read = host.io.read_command(on(nvm::READ, 1, block), 512).unwrap();
            let is_it = |is: &Is| match is {
                Is::Marked => read.code == UNREADABLE,
                Is::Zero => read.code == 0 && read.data == [0; 512],
                Is::Version(version) => read.code == 0 && read.data == version_of(block, *version),
            };
            let found = possible.iter().copied().find(is_it);
            let found = found.unwrap_or_else(|| {
                panic!("cut {cut} of seed {seed}, block {block}: status {:#x}, of {possible:?}", read.code)
            });
            counts[0] += u64::from(found == Is::Marked);
            counts[1] += u64::from(possible.len() > 1 && found != possible[0]);
            counts[2] += u64::from(possible.len() > 1 && found == possible[0]);
            *possible = vec![found];
        }
    }
    counts
}

#[test]
fn marks_survive_power_cuts_and_what_was_under_them_does_not() {
    let (seed, cuts) = (number("SEED", 1), number("CUTS", 60));
    println!("SEED={seed} CUTS={cuts}");
    for plp in [Plp::None, Plp::Capacitor] {
        let name = if plp == Plp::None { "tlc-nvme" } else { "tlc-nvme-plp" };
        let capacity_bytes = if plp == Plp::None { 64 << 20 } else { 1 << 30 };
        let profile = Profile { capacity_bytes, ..Profile::load(name).unwrap() };
        let server = serve(subsystem_on(Device::in_memory(&profile).unwrap(), 512, Pacing::None));
        let counts = marks_under_cuts(&server, seed, cuts);
        println!("{name}: marked, newer and older than the last durable state: {counts:?}");
        assert!(counts[0] > 0 && counts[1] > 0, "{counts:?}");
    }
}

/// The server is started again.
#[test]
fn marks_are_kept_in_the_image() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("drive.tant");
    let mut device = Device::create(&image, &small()).unwrap();
    for round in 0..2 {
        let server = serve(subsystem_on(device, 4096, Pacing::None));
        let Host { mut io, admin, .. } = attach(&server, Options::default());
        if round == 0 {
            assert_eq!(mark(&mut io, 5, 1), 0);
        }
        assert_eq!((read(&mut io, 1, 5, 4096), read(&mut io, 1, 6, 4096)), (UNREADABLE, 0));
        drop((io, admin));
        device = opened_again(server, &image);
    }
}

#[test]
fn reads_of_deallocated_blocks_fail_where_a_host_asked_for_that() {
    let server = serve(subsystem(4096));
    let (mut host, mut other) = (attach(&server, Options::default()), attach(&server, Options::default()));
    assert_eq!(identify(&mut host.admin, 0, 1).data[24] >> 2 & 1, 1, "NSFEAT");
    host.write(0, UNIT, &pattern(1, 4 * UNIT));
    let set = |admin: &mut Client, namespace: u32, value: u32| {
        admin.command(command(admin::SET_FEATURES, namespace, [5, value, 0, 0, 0, 0])).unwrap().code
    };
    let get = |admin: &mut Client, namespace: u32, selection: u32| {
        let get = command(admin::GET_FEATURES, namespace, [5 | selection << 8, 0, 0, 0, 0, 0]);
        let got = admin.command(get).unwrap();
        (got.code, got.result)
    };
    assert_eq!((read(&mut host.io, 1, 9, 4096), get(&mut host.admin, 1, 0)), (0, (0, 0)));
    assert_eq!(set(&mut host.admin, 1, 1 << 16 | 7), 0);
    assert_eq!((get(&mut other.admin, 1, 0), get(&mut host.admin, 1, 1)), ((0, 1 << 16 | 7), (0, 0)));
    for host in [&mut host, &mut other] {
        let over = |opcode| block_command(opcode, 3, 2);
        assert_eq!(read(&mut host.io, 1, 3, 4096), 0);
        assert_eq!(read(&mut host.io, 1, 4, 4096), DEALLOCATED);
        assert_eq!(host.io.read_command(over(nvm::READ), 8192).unwrap().code, DEALLOCATED);
        assert_eq!(host.io.command(over(nvm::VERIFY)).unwrap().code, DEALLOCATED);
        assert_eq!(host.io.write_command(over(nvm::COMPARE), &[0; 8192]).unwrap().code, DEALLOCATED);
        let mut range = [0; 32];
        (range[8], range[16]) = (3, 1);
        let copy = command(nvm::COPY, 1, [20, 0, 0, 0, 0, 0]);
        assert_eq!(host.io.write_command(copy, &range).unwrap().code, DEALLOCATED);
    }
    // in the cache, on flash, and deallocated again
    assert_eq!(host.io.command(on(nvm::FLUSH, 1, 0)).unwrap().code, 0);
    assert_eq!(read(&mut other.io, 1, 3, 4096), 0);
    assert_eq!(host.io.command(block_command(nvm::WRITE_ZEROES, 3, 1)).unwrap().code, 0);
    assert_eq!(read(&mut other.io, 1, 3, 4096), DEALLOCATED);
    assert_eq!(mark(&mut host.io, 3, 1), 0);
    assert_eq!(read(&mut other.io, 1, 3, 4096), UNREADABLE, "what a host has marked comes first");
    assert_eq!(set(&mut other.admin, ALL, 0), 0);
    assert_eq!((read(&mut host.io, 1, 4, 4096), get(&mut host.admin, 1, 0)), (0, (0, 0)));
    // it is that of a namespace
    assert_eq!((set(&mut host.admin, 0, 0), set(&mut host.admin, 9, 0)), (0x00b, 0x00b));
    assert_eq!((get(&mut host.admin, 0, 0).0, get(&mut host.admin, ALL, 0).0), (0x00b, 0x00b));
    assert_eq!(set(&mut host.admin, 1, 1 << 17), 0x002);
    // and ends with it
    assert_eq!(set(&mut host.admin, 1, 1 << 16), 0);
    assert_eq!((delete(&mut host.admin, 1), create(&mut host.admin, 100, 0)), (0, 1));
    assert_eq!(change(&mut host.admin, 0, 1, &[host.controller]), 0);
    assert_eq!((read(&mut host.io, 1, 4, 4096), get(&mut host.admin, 1, 0)), (0, (0, 0)));
    // as with power
    assert_eq!(set(&mut host.admin, 1, 1 << 16), 0);
    let mut host = cut_and_attach(&server);
    assert_eq!((read(&mut host.io, 1, 4, 4096), get(&mut host.admin, 1, 0)), (0, (0, 0)));
}
