//! The drive itself: opening, shutdown, power loss.

use std::ffi::c_char;
use std::path::Path;
use std::ptr;

use parking_lot::Mutex;
use tantalum::{Access, Device, PowerLoss, Profile, Status};
use tantalum_drive::Drive;
use tantalum_spu::{EndpointId, Event, Ssd};

use crate::call::{Refusal, TANTALUM_INVALID, TANTALUM_REFUSED, null, run, text_of};

/// A drive with storage processors.
#[allow(non_camel_case_types)]
pub struct tantalum_ssd {
    pub(super) ssd: Mutex<Ssd>,
    /// Events whose bodies did not fit the caller's buffer.
    kept: Mutex<Vec<(EndpointId, Event)>>,
}

impl tantalum_ssd {
    /// The next event of an endpoint.
    pub(super) fn next(&self, endpoint: EndpointId) -> Option<Event> {
        let mut kept = self.kept.lock();
        match kept.iter().position(|(whose, _)| *whose == endpoint) {
            Some(at) => Some(kept.remove(at).1),
            None => {
                drop(kept);
                self.ssd.lock().receive(endpoint)
            }
        }
    }

    /// Keeps an event for the next time.
    pub(super) fn keep(&self, endpoint: EndpointId, event: Event) {
        self.kept.lock().push((endpoint, event));
    }

    /// Forgets the events of endpoints that are closed.
    pub(super) fn forget(&self, is_closed: impl Fn(EndpointId) -> bool) {
        self.kept.lock().retain(|(whose, _)| !is_closed(*whose));
    }
}

/// Facts about a drive, and its counters.
#[repr(C)]
#[allow(non_camel_case_types)]
pub struct tantalum_ssd_facts {
    /// Storage processors.
    pub processors: u32,
    /// Bytes that follow each other at one processor.
    pub stripe_bytes: u32,
    /// The drive's capacity.
    pub capacity_bytes: u64,
    /// The time of the last event.
    pub now_ns: u64,
    /// Bytes that the link has carried to the drive.
    pub link_bytes_to_drive: u64,
    /// Bytes that it has carried to the host.
    pub link_bytes_to_host: u64,
}

/// The caller's drive.
///
/// # Safety
/// If `ssd` is not null, it is open.
pub(super) unsafe fn drive_of<'a>(ssd: *const tantalum_ssd) -> Result<&'a tantalum_ssd, Refusal> {
    // SAFETY: by the caller's promise.
    unsafe { ssd.as_ref() }.ok_or(null("ssd"))
}

fn device(profile: &str, path: Option<&Path>, capacity_bytes: u64) -> Result<Device, Refusal> {
    if let Some(path) = path.filter(|path| path.exists()) {
        let (mut device, why) = Device::open_or_read(path, Access::Write)?;
        why.into_iter().for_each(|why| device.refuse_changes(why));
        return Ok(device);
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

/// Creates a drive of a profile (a name, or the path of a file) in memory, or, with a `path`, in an image; an existing
/// image is opened with its own profile. If the disk has no room for what opening it changes, its drive can only be read, and
/// refuses changes. `capacity_bytes`: 0 for the profile's.
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

/// Shuts a drive down; null is allowed. Written data are in its image, if it has one.
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

/// Reads the facts about a drive, and its counters.
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

/// Cuts the drive's power now. All programs are removed, and data that are not durable may be lost.
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

/// Turns the power on again, and recovers. `seed` decides the outcome of operations that were in flight.
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
