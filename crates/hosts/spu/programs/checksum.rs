//! Checksum: the CRC-32C of a range, which the host gets instead of the data. A program in Rust without the standard library.
//!
//! A request has the range's address (8 bytes), its length (4), and a number that the host chooses (4). What it gets back is a
//! request with these 16 bytes and the checksum (4). The range lies within one stripe of the processor.

#![no_std]
#![no_main]

#[path = "../include/tantalum_spu.rs"]
mod tantalum_spu;

use tantalum_spu::{answer, nvm_read, receive, request_append, request_finish, request_start, respond, STRIPE};

/// Bytes that are looked at together.
const PIECE: usize = 512;

static TABLE: [u32; 16] = table();

/// What four bits of the checksum turn into. Sixteen entries take 64 bytes of the 12,800 that a processor has.
const fn table() -> [u32; 16] {
    let (mut table, mut index) = ([0; 16], 0);
    while index < 16 {
        let (mut value, mut bit) = (index as u32, 0);
        while bit < 4 {
            value = if value & 1 == 1 { value >> 1 ^ 0x82F6_3B78 } else { value >> 1 };
            bit += 1;
        }
        table[index] = value;
        index += 1;
    }
    table
}

fn update(mut sum: u32, bytes: &[u8]) -> u32 {
    for &byte in bytes {
        sum ^= u32::from(byte);
        sum = sum >> 4 ^ TABLE[(sum & 15) as usize];
        sum = sum >> 4 ^ TABLE[(sum & 15) as usize];
    }
    sum
}

fn checksum(mut address: u64, mut left: u32) -> Result<u32, i32> {
    if left > STRIPE {
        return Err(answer::NOT_LOCAL);
    }
    let (mut sum, mut piece) = (u32::MAX, [0; PIECE]);
    while left > 0 {
        let length = left.min(PIECE as u32);
        let piece = &mut piece[..length as usize];
        nvm_read(piece, address)?;
        sum = update(sum, piece);
        address += u64::from(length);
        left -= length;
    }
    Ok(!sum)
}

fn answer_to(source: u32) -> Result<(), i32> {
    let mut head = [0; 16];
    receive(&mut head)?;
    let [a, b, c, d, e, f, g, h, i, j, k, l, ..] = head;
    let sum = checksum(u64::from_le_bytes([a, b, c, d, e, f, g, h]), u32::from_le_bytes([i, j, k, l]))?;
    request_start(source, 0, 0)?;
    request_append(&head)?;
    request_append(&sum.to_le_bytes())?;
    request_finish().map(drop)
}

#[export_name = "rpc_0"]
extern "C" fn checksum_range(source: u32, _length: u32) {
    respond(match answer_to(source) {
        Ok(()) => answer::OK,
        Err(status) => status,
    });
}
