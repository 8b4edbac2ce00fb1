//! Requests of the host to programs.

use tantalum_spu::{EndpointId, ProgramId, SpuId};

use super::drive::{drive_of, tantalum_ssd};
use crate::call::{bytes_of, null, run};

/// Sends a request to a handler at `at_ns` of the drive's time, or now if that is past, and stores its number. Its answer is an
/// event of the endpoint.
///
/// # Safety
/// `ssd` is open; `body` has `body_bytes` bytes; `request` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_ssd_send(
    ssd: *const tantalum_ssd,
    endpoint: u32,
    processor: u32,
    program: u32,
    handler: u32,
    body: *const u8,
    body_bytes: usize,
    at_ns: u64,
    request: *mut u64,
) -> i32 {
    run(|| {
        // SAFETY: the caller's promises are those of this function.
        let (ssd, body, request) = unsafe {
            (
                drive_of(ssd)?,
                bytes_of(body, body_bytes, "body")?.to_vec(),
                request.as_mut().ok_or(null("request"))?,
            )
        };
        let (endpoint, to) = (EndpointId::from_number(endpoint), (ProgramId(program), handler));
        *request = ssd.ssd.lock().send(endpoint, SpuId(processor), to, body, at_ns)?;
        Ok(())
    })
}

/// Sends a request to a handler, waits, and stores the answer. Events of the endpoint wait for `tantalum_ssd_receive`.
///
/// # Safety
/// `ssd` is open; `body` has `body_bytes` bytes; `answer` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_ssd_ask(
    ssd: *const tantalum_ssd,
    endpoint: u32,
    processor: u32,
    program: u32,
    handler: u32,
    body: *const u8,
    body_bytes: usize,
    answer: *mut i32,
) -> i32 {
    run(|| {
        // SAFETY: the caller's promises are those of this function.
        let (ssd, body, answer) = unsafe {
            (
                drive_of(ssd)?,
                bytes_of(body, body_bytes, "body")?.to_vec(),
                answer.as_mut().ok_or(null("answer"))?,
            )
        };
        let (endpoint, to) = (EndpointId::from_number(endpoint), (ProgramId(program), handler));
        *answer = ssd.ssd.lock().ask(endpoint, SpuId(processor), to, body)?;
        Ok(())
    })
}
