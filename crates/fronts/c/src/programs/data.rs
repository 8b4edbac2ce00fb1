//! Data of the drive, through Base-IO or Direct-IO.

use std::ptr;

use tantalum_spu::{BlockClient, EndpointId, ProgramId};

use super::drive::{drive_of, tantalum_ssd};
use crate::call::{bytes_of, null, run};

/// Reads a range through Base-IO or Direct-IO, which is installed as `program`.
///
/// # Safety
/// `ssd` is open; `to` has room for `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_ssd_read(
    ssd: *const tantalum_ssd,
    endpoint: u32,
    program: u32,
    address: u64,
    to: *mut u8,
    bytes: usize,
) -> i32 {
    run(|| {
        // SAFETY: the caller's promises are those of this function.
        let ssd = unsafe { drive_of(ssd)? };
        let to = match (to.is_null(), bytes) {
            (_, 0) => &mut [],
            (true, _) => return Err(null("to")),
            // SAFETY: as above. The caller's buffer may be uninitialised, so it is initialised first.
            (false, bytes) => unsafe {
                ptr::write_bytes(to, 0, bytes);
                std::slice::from_raw_parts_mut(to, bytes)
            },
        };
        let client = BlockClient::new(EndpointId::from_number(endpoint), ProgramId(program));
        Ok(client.read(&mut ssd.ssd.lock(), address, to)?)
    })
}

/// Writes a range in the same way. It is durable with the next `tantalum_ssd_flush`.
///
/// # Safety
/// `ssd` is open; `from` has `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_ssd_write(
    ssd: *const tantalum_ssd,
    endpoint: u32,
    program: u32,
    address: u64,
    from: *const u8,
    bytes: usize,
) -> i32 {
    run(|| {
        // SAFETY: the caller's promises are those of this function.
        let (ssd, from) = unsafe { (drive_of(ssd)?, bytes_of(from, bytes, "from")?) };
        let client = BlockClient::new(EndpointId::from_number(endpoint), ProgramId(program));
        Ok(client.write(&mut ssd.ssd.lock(), address, from)?)
    })
}

/// Makes everything written durable.
///
/// # Safety
/// `ssd` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_ssd_flush(ssd: *const tantalum_ssd, endpoint: u32, program: u32) -> i32 {
    run(|| {
        // SAFETY: the caller's promises are those of this function.
        let ssd = unsafe { drive_of(ssd)? };
        let client = BlockClient::new(EndpointId::from_number(endpoint), ProgramId(program));
        Ok(client.flush(&mut ssd.ssd.lock())?)
    })
}
