//! What a program inside a Tantalum drive can ask of the drive, for programs in Rust without the standard library: the same
//! functions as `tantalum_spu.h`, which is the reference. Put `mod tantalum_spu;` or `include!` into the program, and build it
//! with `programs/build-rust`. It needs Rust 1.63 or later with the target `wasm32-unknown-unknown`.
//!
//! A handler is `#[export_name = "rpc_0"] extern "C" fn name(source: u32, length: u32)`, with its number, 0 to 63. Every
//! processor has its own copy of the program with its own static variables. Handlers of one copy change only where one of them
//! waits, and a program without `tl_stack` has one handler in progress; so an atomic with relaxed order is a plain variable.

#![allow(dead_code)]

/// What functions and requests answer. Handlers answer what they like; 0 and above is for their own meanings.
pub mod answer {
    pub const OK: i32 = 0;
    pub const NOT_DELIVERED: i32 = -1;
    pub const NO_PROGRAM: i32 = -2;
    pub const NO_HANDLER: i32 = -3;
    pub const NOT_ALLOWED: i32 = -4;
    pub const NO_PERMISSION: i32 = -5;
    pub const NOT_LOCAL: i32 = -6;
    pub const NO_ROOM: i32 = -7;
    pub const ENDED: i32 = -8;
    pub const TIMEOUT: i32 = -9;
    pub const BAD_ARGUMENT: i32 = -10;
    pub const DRIVE: i32 = -11;
    pub const NO_ANSWER: i32 = -12;
    pub const SHORT: i32 = -13;
}

/// Rights to a range.
pub const READ: u32 = 1;
pub const WRITE: u32 = 2;
pub const STRIPE: u32 = 8192;
pub const UNIT: u32 = 4096;

/// How stores reach non-volatile memory.
#[derive(Clone, Copy)]
#[repr(u32)]
pub enum How {
    /// As a write does: durable with the next flush, each unit of 4 KiB whole.
    Cached = 0,
    /// Durable when it returns, each unit whole.
    Flushed = 1,
    /// Durable when it returns, all or nothing.
    Atomic = 2,
}

mod drive {
    #[link(wasm_import_module = "tantalum")]
    extern "C" {
        pub fn receive(to: *mut u8, length: u32) -> i32;
        pub fn receive_nvm(address: u64, length: u32) -> i32;
        pub fn remaining() -> u32;
        pub fn respond(status: i32) -> i32;
        pub fn reply(from: *const u8, length: u32) -> i32;
        pub fn origin() -> u32;
        pub fn caller() -> u32;
        pub fn request_start(destination: u32, program: u32, handler: u32) -> i32;
        pub fn request_append(from: *const u8, length: u32) -> i32;
        pub fn request_append_nvm(address: u64, length: u32) -> i32;
        pub fn request_finish() -> i32;
        pub fn wait(ticket: i32) -> i32;
        pub fn call(
            program: u32,
            handler: u32,
            input: *const u8,
            length: u32,
            out: *mut u8,
            room: u32,
            replied: *mut u32,
        ) -> i32;
        pub fn nvm_read(to: *mut u8, address: u64, length: u32) -> i32;
        pub fn nvm_write(address: u64, from: *const u8, length: u32) -> i32;
        pub fn nvm_copy(to: u64, from: u64, length: u32) -> i32;
        pub fn nvm_commit(how: u32) -> i32;
        pub fn nvm_discard();
        pub fn nvm_flush() -> i32;
        pub fn nvm_check(address: u64, length: u32, rights: u32) -> i32;
        pub fn region(index: u32) -> u64;
        pub fn kv_get(name_space: u32, key: *const u8, key_length: u32, to: *mut u8, room: u32) -> i32;
        pub fn kv_next(name_space: u32, key: *const u8, key_length: u32, next: *mut u8) -> i32;
        pub fn kv_scan(
            name_space: u32,
            key: *const u8,
            key_length: u32,
            to: *mut u8,
            room: u32,
            most: u32,
        ) -> i32;
        pub fn processor() -> u32;
        pub fn processors() -> u32;
        pub fn print(text: *const u8, length: u32);
        pub fn count(counter: u32, by: u32);
    }
}

/// The status as a result: a negative one is an error.
fn checked(status: i32) -> Result<u32, i32> {
    if status < 0 {
        Err(status)
    } else {
        Ok(status as u32)
    }
}

// SAFETY, for all functions below: the drive checks every pointer and length against the program's memory, and writes only to
// what is borrowed for it.

/// Moves the next bytes of the body to local memory.
pub fn receive(to: &mut [u8]) -> Result<(), i32> {
    checked(unsafe { drive::receive(to.as_mut_ptr(), to.len() as u32) }).map(drop)
}

/// Moves the next bytes of the body to non-volatile memory.
pub fn receive_nvm(address: u64, length: u32) -> Result<(), i32> {
    checked(unsafe { drive::receive_nvm(address, length) }).map(drop)
}

/// Bytes of the body that are left.
pub fn remaining() -> u32 {
    unsafe { drive::remaining() }
}

/// Answers the request, once. The stores made so far take effect first.
pub fn respond(status: i32) {
    unsafe { drive::respond(status) };
}

/// Adds bytes to what a call of another program gets back.
pub fn reply(from: &[u8]) -> Result<(), i32> {
    checked(unsafe { drive::reply(from.as_ptr(), from.len() as u32) }).map(drop)
}

/// The endpoint for which all this is done.
pub fn origin() -> u32 {
    unsafe { drive::origin() }
}

/// The program that sent the request, or 0 if an endpoint did.
pub fn caller() -> u32 {
    unsafe { drive::caller() }
}

/// Whether the host's kernel is the origin.
pub fn is_from_kernel() -> bool {
    origin() >> 31 == 0
}

/// The number of a processor, as a destination.
pub fn spu(processor: u32) -> u32 {
    0x4000_0000 | processor
}

/// Begins a request. `program` is 0 for this program; endpoints ignore it.
pub fn request_start(destination: u32, program: u32, handler: u32) -> Result<(), i32> {
    checked(unsafe { drive::request_start(destination, program, handler) }).map(drop)
}

/// Adds bytes of local memory to its body.
pub fn request_append(from: &[u8]) -> Result<(), i32> {
    checked(unsafe { drive::request_append(from.as_ptr(), from.len() as u32) }).map(drop)
}

/// Adds bytes of non-volatile memory to its body.
pub fn request_append_nvm(address: u64, length: u32) -> Result<(), i32> {
    checked(unsafe { drive::request_append_nvm(address, length) }).map(drop)
}

/// Sends it, and goes on at once. Returns a ticket for [`wait`].
pub fn request_finish() -> Result<u32, i32> {
    checked(unsafe { drive::request_finish() })
}

/// Waits for the answer to a request, at most 50 ms.
pub fn wait(ticket: u32) -> i32 {
    unsafe { drive::wait(ticket as i32) }
}

/// Calls a handler of another program on this processor. Returns its answer, and the bytes that it replied.
pub fn call(program: u32, handler: u32, input: &[u8], out: &mut [u8]) -> (i32, u32) {
    let mut replied = 0;
    let (from, to) = (input.as_ptr(), out.as_mut_ptr());
    let (length, room) = (input.len() as u32, out.len() as u32);
    let status = unsafe { drive::call(program, handler, from, length, to, room, &mut replied) };
    (status, replied)
}

/// Moves bytes of non-volatile memory to local memory: within one stripe of this processor.
pub fn nvm_read(to: &mut [u8], address: u64) -> Result<(), i32> {
    checked(unsafe { drive::nvm_read(to.as_mut_ptr(), address, to.len() as u32) }).map(drop)
}

/// Stores bytes. Stores take effect together: when the handler commits, responds, sends a request or returns.
pub fn nvm_write(address: u64, from: &[u8]) -> Result<(), i32> {
    checked(unsafe { drive::nvm_write(address, from.as_ptr(), from.len() as u32) }).map(drop)
}

/// Stores what non-volatile memory holds elsewhere.
pub fn nvm_copy(to: u64, from: u64, length: u32) -> Result<(), i32> {
    checked(unsafe { drive::nvm_copy(to, from, length) }).map(drop)
}

/// Makes the stores take effect.
pub fn nvm_commit(how: How) -> Result<(), i32> {
    checked(unsafe { drive::nvm_commit(how as u32) }).map(drop)
}

/// Gives up the stores that have not taken effect.
pub fn nvm_discard() {
    unsafe { drive::nvm_discard() }
}

/// Makes durable what has taken effect in the whole drive.
pub fn nvm_flush() -> Result<(), i32> {
    checked(unsafe { drive::nvm_flush() }).map(drop)
}

/// Whether the origin has these rights to a range.
pub fn nvm_check(address: u64, length: u32, rights: u32) -> Result<(), i32> {
    checked(unsafe { drive::nvm_check(address, length, rights) }).map(drop)
}

/// The address of a stripe of this processor's part of the program's own region; 0 if it has none there.
pub fn region(index: u32) -> u64 {
    unsafe { drive::region(index) }
}

/// Moves a record's value to local memory. Returns its length.
pub fn kv_get(name_space: u32, key: &[u8], to: &mut [u8]) -> Result<u32, i32> {
    let (length, room) = (key.len() as u32, to.len() as u32);
    checked(unsafe { drive::kv_get(name_space, key.as_ptr(), length, to.as_mut_ptr(), room) })
}

/// Moves the key after `key` in the drive's order, or the first, to `next`. Returns its length, 0 after the last.
pub fn kv_next(name_space: u32, key: &[u8], next: &mut [u8; 16]) -> Result<u32, i32> {
    checked(unsafe { drive::kv_next(name_space, key.as_ptr(), key.len() as u32, next.as_mut_ptr()) })
}

/// Moves the records after `key` to `to`, as `struct tl_record` of `tantalum_spu.h`. Returns their number, 0 after the last.
pub fn kv_scan(name_space: u32, key: &[u8], to: &mut [u8], most: u32) -> Result<u32, i32> {
    let (length, room) = (key.len() as u32, to.len() as u32);
    checked(unsafe { drive::kv_scan(name_space, key.as_ptr(), length, to.as_mut_ptr(), room, most) })
}

/// This processor's number.
pub fn processor() -> u32 {
    unsafe { drive::processor() }
}

/// How many processors there are.
pub fn processors() -> u32 {
    unsafe { drive::processors() }
}

/// Writes to the program's serial port, which the host reads.
pub fn print(text: &[u8]) {
    unsafe { drive::print(text.as_ptr(), text.len() as u32) }
}

/// Adds to one of the program's eight counters, which the host reads.
pub fn count(counter: u32, by: u32) {
    unsafe { drive::count(counter, by) }
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    core::arch::wasm32::unreachable()
}
