//! Events of endpoints, and the host's handlers for requests of programs.

use std::ffi::c_void;

use tantalum_spu::{EndpointId, Event};

use super::drive::{drive_of, tantalum_ssd};
use crate::call::{copy_out, null, run};

/// Nothing is in flight any more.
pub const TANTALUM_SSD_NOTHING: u32 = 0;
/// A program sends a request.
pub const TANTALUM_SSD_REQUEST: u32 = 1;
/// The driver decided about a missing permission. If it was granted, the failed request can be sent again.
pub const TANTALUM_SSD_PERMISSION: u32 = 2;
/// A program of the endpoint's process was ended; the body says why, and in which function.
pub const TANTALUM_SSD_ENDED: u32 = 3;
/// The answer to a request of `tantalum_ssd_send`.
pub const TANTALUM_SSD_ANSWER: u32 = 4;
/// The drive lost power: no program is installed, and requests in flight get no answer.
pub const TANTALUM_SSD_POWER_LOST: u32 = 5;

/// An event of an endpoint.
#[repr(C)]
#[derive(Default)]
#[allow(non_camel_case_types)]
pub struct tantalum_ssd_event {
    /// One of `TANTALUM_SSD_NOTHING` to `TANTALUM_SSD_POWER_LOST`.
    pub kind: u32,
    /// The processor.
    pub processor: u32,
    /// The program.
    pub program: u32,
    /// Of a request of a program, the host's handler that it is for; of a program that was ended, the program's.
    pub handler: u32,
    /// Of an answer, the request.
    pub request: u64,
    /// Of an answer, the handler's status, or a negative one of the drive (`tantalum_spu.h`).
    pub status: i32,
    /// Of a permission, whether it was granted.
    pub is_granted: bool,
    /// Of a permission, the first byte of its range.
    pub start: u64,
    /// The byte after its last.
    pub end: u64,
    /// When the host learns of it, in the drive's time.
    pub at_ns: u64,
    /// Bytes of the body.
    pub body_bytes: usize,
}

/// A handler of the host, for requests of programs to one number.
#[repr(C)]
#[allow(non_camel_case_types)]
pub struct tantalum_ssd_handler {
    /// The number.
    pub number: u32,
    /// The function to call. It may use the drive.
    pub serve:
        Option<unsafe extern "C" fn(context: *mut c_void, event: *const tantalum_ssd_event, body: *const u8)>,
}

/// Waits for the next event of an endpoint. Its body is stored in `body`, which has room for `capacity` bytes; if that is too
/// little, the result is `TANTALUM_SHORT_BUFFER`, `event->body_bytes` what it needs, and the event stays. If nothing is in
/// flight any more, the event's kind is `TANTALUM_SSD_NOTHING`.
///
/// # Safety
/// `ssd` is open; `event` can be written; `body` has room for `capacity` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_ssd_receive(
    ssd: *const tantalum_ssd,
    endpoint: u32,
    event: *mut tantalum_ssd_event,
    body: *mut u8,
    capacity: usize,
) -> i32 {
    run(|| {
        // SAFETY: the caller's promises are those of this function.
        let (ssd, event) = unsafe { (drive_of(ssd)?, event.as_mut().ok_or(null("event"))?) };
        *event = tantalum_ssd_event::default();
        let endpoint = EndpointId::from_number(endpoint);
        let Some(next) = ssd.next(endpoint) else { return Ok(()) };
        let (told, data) = told(&next);
        *event = told;
        // SAFETY: as above.
        let copied = unsafe { copy_out(&data, body, capacity, &mut event.body_bytes) };
        if copied.is_err() {
            ssd.keep(endpoint, next);
        }
        copied
    })
}

/// Waits for the next event as `tantalum_ssd_receive` does, and if it is a request, calls the handler of its number. A request
/// for which there is no handler is dropped.
///
/// # Safety
/// As `tantalum_ssd_receive`; `handlers` has `count` handlers, and `context` is what they expect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_ssd_serve(
    ssd: *const tantalum_ssd,
    endpoint: u32,
    handlers: *const tantalum_ssd_handler,
    count: usize,
    context: *mut c_void,
    event: *mut tantalum_ssd_event,
    body: *mut u8,
    capacity: usize,
) -> i32 {
    // SAFETY: the caller's promises are those of this function.
    let status = unsafe { tantalum_ssd_receive(ssd, endpoint, event, body, capacity) };
    // SAFETY: as above; receiving an event has written it.
    let Some(told) = (unsafe { event.as_ref() }) else { return status };
    if status != 0 || told.kind != TANTALUM_SSD_REQUEST {
        return status;
    }
    run(|| {
        let handlers = match (handlers.is_null(), count) {
            (true, 0) => &[],
            (true, _) => return Err(null("handlers")),
            // SAFETY: as above.
            (false, count) => unsafe { std::slice::from_raw_parts(handlers, count) },
        };
        let found = handlers.iter().find(|handler| handler.number == told.handler);
        if let Some(serve) = found.and_then(|handler| handler.serve) {
            // SAFETY: as above. Nothing is locked, so the handler may use the drive.
            unsafe { serve(context, told, body) };
        }
        Ok(())
    })
}

/// An event as C has it, with its body.
fn told(event: &Event) -> (tantalum_ssd_event, Vec<u8>) {
    let mut told = tantalum_ssd_event { at_ns: event.at_ns(), ..tantalum_ssd_event::default() };
    let mut data = Vec::new();
    match event {
        Event::Answer { request, status, .. } => {
            (told.kind, told.request, told.status) = (TANTALUM_SSD_ANSWER, *request, *status);
        }
        Event::Request { spu, program, handler, body, .. } => {
            (told.kind, told.processor) = (TANTALUM_SSD_REQUEST, spu.0);
            (told.program, told.handler) = (program.0, *handler);
            data.clone_from(body);
        }
        Event::Permission { spu, range, granted, .. } => {
            (told.kind, told.processor, told.is_granted) = (TANTALUM_SSD_PERMISSION, spu.0, *granted);
            (told.start, told.end) = (range.start, range.end);
        }
        Event::Ended { program, spu, handler, .. } => {
            (told.kind, told.processor) = (TANTALUM_SSD_ENDED, spu.0);
            (told.program, told.handler) = (program.0, *handler);
            data = event.why_ended().unwrap_or_default().into_bytes();
        }
        Event::PowerLost { .. } => told.kind = TANTALUM_SSD_POWER_LOST,
    }
    told.body_bytes = data.len();
    (told, data)
}
