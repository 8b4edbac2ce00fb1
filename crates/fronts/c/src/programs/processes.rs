//! Processes of the host: their endpoints, and their rights.

use tantalum_spu::{EndpointId, ProcessId, Rights};

use super::drive::{drive_of, tantalum_ssd};
use crate::call::{Refusal, TANTALUM_INVALID, null, run};

/// The process of the host's kernel, which has all rights.
pub const TANTALUM_SSD_KERNEL: u32 = 0;
/// A right to read a range.
pub const TANTALUM_SSD_READ: u32 = 1;
/// A right to write it.
pub const TANTALUM_SSD_WRITE: u32 = 2;

/// A process of this number.
pub(super) fn process_of(number: u32) -> Result<ProcessId, Refusal> {
    let refusal = || Refusal(TANTALUM_INVALID, format!("{number:#x} is not a process"));
    ProcessId::from_number(number).ok_or_else(refusal)
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
        ssd.forget(|whose| whose == endpoint);
        Ok(())
    })
}

/// Ends a process: its endpoints are closed, its programs removed, its rights revoked.
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
        ssd.forget(|whose| whose.process() == process);
        Ok(())
    })
}

/// Sets a process's rights to a range, replacing those it had there; 0 revokes them.
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
