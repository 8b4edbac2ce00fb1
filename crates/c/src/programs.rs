//! Programs in the drive: a drive with its storage processors in this process, in virtual time. `docs/programs.md` tells what
//! programs are. Programs in the drive of `tantalum serve` are reached by `crates/nvme/clients/tantalum_programs.h`.
//!
//! A drive can be shared by threads. Everything happens in virtual time, while a function waits; so results and times are the
//! same in every run.

use std::ffi::{c_char, c_void};
use std::path::Path;
use std::ptr;

use parking_lot::Mutex;
use tantalum::{Device, DeviceError, PowerLoss, Profile, Status};
use tantalum_drive::Drive;
use tantalum_spu::{
    BlockClient, EndpointId, Event, InstallError, InstallOptions, IoError, ProcessId, ProgramId, Rights,
    SpuError, SpuId, Ssd, shipped,
};

use crate::call::{
    Refusal, TANTALUM_INVALID, TANTALUM_NOT_FOUND, TANTALUM_POWER_LOST, TANTALUM_REFUSED, bytes_of, copy_out,
    null, run, store, text_of,
};

/// The process of the host's kernel, which has all rights.
pub const TANTALUM_SSD_KERNEL: u32 = 0;
/// A right to read a range.
pub const TANTALUM_SSD_READ: u32 = 1;
/// A right to write it.
pub const TANTALUM_SSD_WRITE: u32 = 2;
/// Counters of a program.
pub const TANTALUM_SSD_COUNTERS: usize = 8;

/// Nothing is under way any more.
pub const TANTALUM_SSD_NOTHING: u32 = 0;
/// A program sends a request.
pub const TANTALUM_SSD_REQUEST: u32 = 1;
/// The driver decided about a permission that was missing. If it was granted, the request that failed can be sent again.
pub const TANTALUM_SSD_PERMISSION: u32 = 2;
/// A program of the endpoint's process was ended; the body says why, and in which function.
pub const TANTALUM_SSD_ENDED: u32 = 3;
/// The answer to what `tantalum_ssd_send` sent.
pub const TANTALUM_SSD_ANSWER: u32 = 4;
/// The drive lost power: nothing is installed, and nothing under way is answered.
pub const TANTALUM_SSD_POWER_LOST: u32 = 5;

/// A drive with storage processors.
#[allow(non_camel_case_types)]
pub struct tantalum_ssd {
    ssd: Mutex<Ssd>,
    /// An event whose body was longer than the room for it.
    kept: Mutex<Vec<(EndpointId, Event)>>,
}

/// What an endpoint is told.
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
    /// When the host is told, in the drive's time.
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
    /// What is called. It may use the drive.
    pub serve:
        Option<unsafe extern "C" fn(context: *mut c_void, event: *const tantalum_ssd_event, body: *const u8)>,
}

/// What a drive is and has done.
#[repr(C)]
#[allow(non_camel_case_types)]
pub struct tantalum_ssd_facts {
    /// Storage processors.
    pub processors: u32,
    /// Bytes that follow each other at one processor.
    pub stripe_bytes: u32,
    /// The drive's capacity.
    pub capacity_bytes: u64,
    /// The time of what happened last.
    pub now_ns: u64,
    /// Bytes that the link has carried to the drive.
    pub link_bytes_to_drive: u64,
    /// Bytes that it has carried to the host.
    pub link_bytes_to_host: u64,
}

impl From<SpuError> for Refusal {
    fn from(error: SpuError) -> Refusal {
        let number = match &error {
            SpuError::PowerLost => TANTALUM_POWER_LOST,
            SpuError::NoProgram(_) => TANTALUM_NOT_FOUND,
            SpuError::NoQueuePair { .. } => TANTALUM_REFUSED,
            SpuError::NoEndpoint(_)
            | SpuError::NoProcessor { .. }
            | SpuError::BodyTooLong { .. }
            | SpuError::NotGrantable { .. } => TANTALUM_INVALID,
        };
        Refusal(number, error.to_string())
    }
}

impl From<InstallError> for Refusal {
    fn from(error: InstallError) -> Refusal {
        let number = match &error {
            InstallError::PowerLost => TANTALUM_POWER_LOST,
            InstallError::DoesNotFit { .. } | InstallError::TooMany { .. } => TANTALUM_REFUSED,
            _ => TANTALUM_INVALID,
        };
        Refusal(number, error.to_string())
    }
}

impl From<IoError> for Refusal {
    fn from(error: IoError) -> Refusal {
        match error {
            IoError::Sending(error) => error.into(),
            error => Refusal(TANTALUM_REFUSED, error.to_string()),
        }
    }
}

impl From<DeviceError> for Refusal {
    fn from(error: DeviceError) -> Refusal {
        Refusal(TANTALUM_REFUSED, error.to_string())
    }
}

/// A process of this number.
fn process_of(number: u32) -> Result<ProcessId, Refusal> {
    let refusal = || Refusal(TANTALUM_INVALID, format!("{number:#x} is not a process"));
    ProcessId::from_number(number).ok_or_else(refusal)
}

/// The caller's drive.
///
/// # Safety
/// If `ssd` is not null, it is open.
unsafe fn drive_of<'a>(ssd: *const tantalum_ssd) -> Result<&'a tantalum_ssd, Refusal> {
    // SAFETY: by the caller's promise.
    unsafe { ssd.as_ref() }.ok_or(null("ssd"))
}

fn device(profile: &str, path: Option<&Path>, capacity_bytes: u64) -> Result<Device, Refusal> {
    if let Some(path) = path.filter(|path| path.exists()) {
        return Ok(Device::open(path)?);
    }
    let invalid = |error: &dyn std::fmt::Display| Refusal(TANTALUM_INVALID, error.to_string());
    let mut profile = Profile::load(profile).map_err(|error| invalid(&error))?;
    if capacity_bytes > 0 {
        profile.capacity_bytes = capacity_bytes;
    }
    Ok(match path {
        Some(path) => Device::create(path, &profile)?,
        None => Device::in_memory(&profile)?,
    })
}

/// Makes a drive of a profile (a name, or the path of a file) in memory, or, with a `path`, in an image: one that exists is
/// opened, with the profile that it has. `capacity_bytes`: 0 for the profile's.
///
/// # Safety
/// `profile` ends with a zero, and so does `path` unless it is null; `ssd` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_ssd_open(
    profile: *const c_char,
    path: *const c_char,
    capacity_bytes: u64,
    ssd: *mut *mut tantalum_ssd,
) -> i32 {
    run(|| {
        // SAFETY: the caller's promises are those of this function.
        let (profile, ssd) = unsafe { (text_of(profile, "profile")?, ssd.as_mut().ok_or(null("ssd"))?) };
        *ssd = ptr::null_mut();
        let path = match path.is_null() {
            true => None,
            // SAFETY: as above.
            false => Some(Path::new(unsafe { text_of(path, "path")? })),
        };
        let made = Ssd::new(Drive::new(device(profile, path, capacity_bytes)?));
        *ssd = Box::into_raw(Box::new(tantalum_ssd { ssd: Mutex::new(made), kept: Mutex::default() }));
        Ok(())
    })
}

/// Shuts a drive down; null is allowed. What was written is in its image, if it has one.
///
/// # Safety
/// `ssd` is from `tantalum_ssd_open`, and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_ssd_close(ssd: *mut tantalum_ssd) -> i32 {
    run(|| {
        if ssd.is_null() {
            return Ok(());
        }
        // SAFETY: it was made by a Box, and nobody uses it again.
        let ssd = unsafe { Box::from_raw(ssd) }.ssd.into_inner();
        let mut device = ssd.drive().lock();
        let now_ns = device.time_ns();
        match device.put_away(now_ns) {
            // a drive without power is left as the loss left it
            Ok(()) | Err(Status::PowerLost) => Ok(()),
            Err(status) => Err(Refusal(TANTALUM_REFUSED, status.to_string())),
        }
    })
}

/// Reads what a drive is and has done.
///
/// # Safety
/// `ssd` is open; `facts` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_ssd_read_facts(
    ssd: *const tantalum_ssd,
    facts: *mut tantalum_ssd_facts,
) -> i32 {
    run(|| {
        // SAFETY: the caller's promises are those of this function.
        let (ssd, facts) = unsafe { (drive_of(ssd)?.ssd.lock(), facts.as_mut().ok_or(null("facts"))?) };
        let (to_drive, to_host) = ssd.link_bytes();
        *facts = tantalum_ssd_facts {
            processors: ssd.processors(),
            stripe_bytes: tantalum_spu::STRIPE_BYTES as u32,
            capacity_bytes: ssd.stripes().capacity_bytes(),
            now_ns: ssd.now_ns(),
            link_bytes_to_drive: to_drive,
            link_bytes_to_host: to_host,
        };
        Ok(())
    })
}

/// Opens an endpoint of a process: of the kernel (`TANTALUM_SSD_KERNEL`), or of the one whose number `process` points to; if
/// that is `UINT32_MAX`, of a new process, whose number is stored there.
///
/// # Safety
/// `ssd` is open; `process` and `endpoint` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_ssd_open_endpoint(
    ssd: *const tantalum_ssd,
    process: *mut u32,
    endpoint: *mut u32,
) -> i32 {
    run(|| {
        // SAFETY: the caller's promises are those of this function.
        let (ssd, process, endpoint) = unsafe {
            (
                drive_of(ssd)?,
                process.as_mut().ok_or(null("process"))?,
                endpoint.as_mut().ok_or(null("endpoint"))?,
            )
        };
        let mut ssd = ssd.ssd.lock();
        let owner = if *process == u32::MAX { ssd.process() } else { process_of(*process)? };
        let opened = ssd.endpoint(owner)?;
        (*process, *endpoint) = (owner.number(), opened.number());
        Ok(())
    })
}

/// Closes an endpoint.
///
/// # Safety
/// `ssd` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_ssd_close_endpoint(ssd: *const tantalum_ssd, endpoint: u32) -> i32 {
    run(|| {
        // SAFETY: the caller's promises are those of this function.
        let ssd = unsafe { drive_of(ssd)? };
        let endpoint = EndpointId::from_number(endpoint);
        ssd.ssd.lock().close(endpoint);
        ssd.kept.lock().retain(|(whose, _)| *whose != endpoint);
        Ok(())
    })
}

/// Ends a process: its endpoints are closed, its programs removed, its rights taken away.
///
/// # Safety
/// `ssd` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_ssd_end_process(ssd: *const tantalum_ssd, process: u32) -> i32 {
    run(|| {
        // SAFETY: the caller's promises are those of this function.
        let ssd = unsafe { drive_of(ssd)? };
        let process = process_of(process)?;
        ssd.ssd.lock().end_process(process);
        ssd.kept.lock().retain(|(whose, _)| whose.process() != process);
        Ok(())
    })
}

/// The module of a shipped program, such as "base_io"; its bytes stay valid. `TANTALUM_NOT_FOUND` if there is none.
///
/// # Safety
/// `name` ends with a zero; `module` and `module_bytes` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_ssd_shipped(
    name: *const c_char,
    module: *mut *const u8,
    module_bytes: *mut usize,
) -> i32 {
    run(|| {
        // SAFETY: the caller's promises are those of this function.
        let name = unsafe { text_of(name, "name")? };
        let missing = || Refusal(TANTALUM_NOT_FOUND, format!("no program named {name} is shipped"));
        let found = shipped::named(name).ok_or_else(missing)?;
        // SAFETY: as above.
        unsafe {
            store(module, found.as_ptr());
            store(module_bytes, found.len());
        }
        Ok(())
    })
}

/// Installs a module for a process, on all processors. With `is_open` every process may send it requests. A region from
/// `region_start` to `region_end` is its own; only the kernel gives one, and 0 and 0 is none.
///
/// # Safety
/// `ssd` is open; `module` has `module_bytes` bytes; `program` can be written.
#[expect(clippy::too_many_arguments, reason = "as C programs call it")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_ssd_install(
    ssd: *const tantalum_ssd,
    process: u32,
    module: *const u8,
    module_bytes: usize,
    is_open: bool,
    region_start: u64,
    region_end: u64,
    program: *mut u32,
) -> i32 {
    run(|| {
        // SAFETY: the caller's promises are those of this function.
        let (ssd, module, program) = unsafe {
            (
                drive_of(ssd)?,
                bytes_of(module, module_bytes, "module")?,
                program.as_mut().ok_or(null("program"))?,
            )
        };
        let region = (region_start, region_end) != (0, 0);
        let options = InstallOptions { is_open, region: region.then_some(region_start..region_end) };
        *program = ssd.ssd.lock().install(process_of(process)?, module, options)?.0;
        Ok(())
    })
}

/// Removes a program.
///
/// # Safety
/// `ssd` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_ssd_uninstall(ssd: *const tantalum_ssd, program: u32) -> i32 {
    run(|| {
        // SAFETY: the caller's promises are those of this function.
        let ssd = unsafe { drive_of(ssd)? };
        Ok(ssd.ssd.lock().uninstall(ProgramId(program))?)
    })
}

/// Lets a program call handlers of another; bit 0 of `handlers` stands for handler 0.
///
/// # Safety
/// `ssd` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_ssd_allow_calls(
    ssd: *const tantalum_ssd,
    from: u32,
    to: u32,
    handlers: u64,
) -> i32 {
    run(|| {
        // SAFETY: the caller's promises are those of this function.
        let ssd = unsafe { drive_of(ssd)? };
        let handlers: Vec<u32> = (0..64).filter(|number| handlers >> number & 1 == 1).collect();
        Ok(ssd.ssd.lock().allow_calls(ProgramId(from), ProgramId(to), &handlers)?)
    })
}

/// Gives a process rights to a range instead of those it had there; 0 takes them away.
///
/// # Safety
/// `ssd` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_ssd_grant(
    ssd: *const tantalum_ssd,
    process: u32,
    start: u64,
    end: u64,
    rights: u32,
) -> i32 {
    run(|| {
        // SAFETY: the caller's promises are those of this function.
        let ssd = unsafe { drive_of(ssd)? };
        let invalid = || Refusal(TANTALUM_INVALID, format!("{rights} are not rights"));
        let rights = Rights::from_bits(rights).ok_or_else(invalid)?;
        Ok(ssd.ssd.lock().grant(process_of(process)?, start..end, rights)?)
    })
}

/// Sends a request to a handler at `at_ns` of the drive's time, or now if that is past, and stores its number. Its answer is an
/// event of the endpoint.
///
/// # Safety
/// `ssd` is open; `body` has `body_bytes` bytes; `request` can be written.
#[expect(clippy::too_many_arguments, reason = "as C programs call it")]
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
#[expect(clippy::too_many_arguments, reason = "as C programs call it")]
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

/// Waits for the next event of an endpoint. Its body is stored in `body`, which has room for `capacity` bytes; if that is too
/// little, the result is `TANTALUM_SHORT_BUFFER`, `event->body_bytes` what it needs, and the event stays. If nothing is under
/// way any more, the event's kind is `TANTALUM_SSD_NOTHING`.
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
            ssd.kept.lock().push((endpoint, next));
        }
        copied
    })
}

/// Waits for the next event as `tantalum_ssd_receive` does, and if it is a request, calls the handler of its number. A request
/// for which there is no handler goes to nobody.
///
/// # Safety
/// As `tantalum_ssd_receive`; `handlers` has `count` handlers, and `context` is what they expect.
#[expect(clippy::too_many_arguments, reason = "as C programs call it")]
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
    // SAFETY: as above; who has received an event has written it.
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

impl tantalum_ssd {
    fn next(&self, endpoint: EndpointId) -> Option<Event> {
        let mut kept = self.kept.lock();
        match kept.iter().position(|(whose, _)| *whose == endpoint) {
            Some(at) => Some(kept.remove(at).1),
            None => {
                drop(kept);
                self.ssd.lock().receive(endpoint)
            }
        }
    }
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

/// Reads a range by way of Base-IO or Direct-IO, which is installed as `program`.
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
            // SAFETY: as above. What the caller has there need not be initialised, so it is first.
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

/// Makes durable what was written.
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

/// Reads a program's counters (`TANTALUM_SSD_COUNTERS`), over all processors, and what it wrote to the serial port of one:
/// at most 4096 bytes. It can also be read of the program that faulted last.
///
/// # Safety
/// `ssd` is open; `counters` has room for them, `serial` for `capacity` bytes; `serial_bytes` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_ssd_output(
    ssd: *const tantalum_ssd,
    program: u32,
    processor: u32,
    counters: *mut u64,
    serial: *mut u8,
    capacity: usize,
    serial_bytes: *mut usize,
) -> i32 {
    run(|| {
        // SAFETY: the caller's promises are those of this function.
        let (ssd, counters, serial_bytes) = unsafe {
            (
                drive_of(ssd)?,
                counters.cast::<[u64; TANTALUM_SSD_COUNTERS]>().as_mut().ok_or(null("counters"))?,
                serial_bytes.as_mut().ok_or(null("serial_bytes"))?,
            )
        };
        let ssd = ssd.ssd.lock();
        let output = ssd.output(ProgramId(program))?;
        *counters = output.counters;
        let missing = SpuError::NoProcessor { spu: processor, processors: ssd.processors() };
        let port = output.serial.get(processor as usize).ok_or(missing)?;
        // SAFETY: as above.
        unsafe { copy_out(port, serial, capacity, serial_bytes) }
    })
}

/// Cuts the drive's power now. Nothing is installed any more, and what was not durable may be lost.
///
/// # Safety
/// `ssd` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_ssd_cut_power(ssd: *const tantalum_ssd) -> i32 {
    run(|| {
        // SAFETY: the caller's promises are those of this function.
        unsafe { drive_of(ssd)? }.ssd.lock().cut_power();
        Ok(())
    })
}

/// Gives the drive power again, and recovers. `seed` decides how operations that were under way ended.
///
/// # Safety
/// `ssd` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_ssd_power_on(ssd: *const tantalum_ssd, seed: u64) -> i32 {
    run(|| {
        // SAFETY: the caller's promises are those of this function.
        let mut ssd = unsafe { drive_of(ssd)? }.ssd.lock();
        if ssd.drive().lock().has_power() {
            return Ok(());
        }
        ssd.drive().lock().power_on(&mut PowerLoss::seeded(seed))?;
        Ok(ssd.power_on()?)
    })
}
