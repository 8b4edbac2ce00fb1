//! Installed programs: their modules, whom they may call, and their counters and output.

use std::ffi::c_char;

use tantalum_spu::{InstallOptions, ProgramId, SpuError, shipped};

use super::drive::{drive_of, tantalum_ssd};
use super::processes::process_of;
use crate::call::{Refusal, TANTALUM_NOT_FOUND, bytes_of, copy_out, null, run, store, text_of};

/// Counters of a program.
pub const TANTALUM_SSD_COUNTERS: usize = 8;

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

/// Installs a module for a process, on all processors. With `is_open` every process may send it requests. It owns the
/// region from `region_start` to `region_end`; only the kernel can give one, and 0 and 0 mean none.
///
/// # Safety
/// `ssd` is open; `module` has `module_bytes` bytes; `program` can be written.
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

/// Reads a program's counters (`TANTALUM_SSD_COUNTERS`), over all processors, and what it wrote to the serial port of one:
/// at most 4096 bytes. They can also be read for the program that faulted last.
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
