//! Mapped memory that the host cannot serve: SIGBUS.
//!
//! A load or a store of mapped memory has no way to return an error. If the host cannot read the page, has no space for it,
//! no longer lets anybody write, or if somebody has shortened the file, the kernel sends SIGBUS, which ends a process. The
//! handler here puts a page of zeros in the place of the one that the host cannot serve, so that the instruction goes on, and
//! notes that the mapping is broken. Whoever moves bytes through memory asks afterwards whether it is, and if so moves them
//! again by a system call, whose error says what is wrong.
//!
//! Invariants:
//! - A mapping that is broken stays broken: nothing that is read from it then is believed, nothing that is stored counts.
//! - Signals for other memory go to whoever handled them before, as if this handler were not there.
//! - The handler takes no lock and allocates nothing.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering, fence};
use std::sync::{Mutex, OnceLock, PoisonError};

use memmap2::MmapRaw;

/// Ranges that are watched, or were: a list that only grows, for the handler.
static FIRST: AtomicPtr<Range> = AtomicPtr::new(std::ptr::null_mut());

/// Those of the list that are not in use.
static UNUSED: Mutex<Vec<&'static Range>> = Mutex::new(Vec::new());

/// The handler that was there before, and the bytes of a page; `None` if the handler could not be installed.
static INSTALLED: OnceLock<Option<(libc::sigaction, usize)>> = OnceLock::new();

/// A range of memory.
#[derive(Debug, Default)]
struct Range {
    /// Its first address; 0 if it is not in use.
    start: AtomicUsize,
    bytes: AtomicUsize,
    is_broken: AtomicBool,
    /// The range that was made before it.
    next: AtomicPtr<Range>,
}

/// A mapping that is watched. It must be dropped before its memory is.
#[derive(Debug)]
pub(super) struct Watched(&'static Range);

impl Watched {
    /// `None` if signals cannot be handled.
    pub fn new(memory: &MmapRaw) -> Option<Watched> {
        INSTALLED.get_or_init(install).as_ref()?;
        let unused = UNUSED.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let range = unused.unwrap_or_else(another_range);
        range.is_broken.store(false, Ordering::Relaxed);
        range.bytes.store(memory.len(), Ordering::Relaxed);
        range.start.store(memory.as_ptr() as usize, Ordering::Release);
        Some(Watched(range))
    }

    /// Whether the host could not serve a page so far. Asked after bytes were moved, the answer covers them, also if another
    /// thread's signal replaced their page: on x86 that interrupts every processor that may know the old one.
    #[inline]
    pub fn is_broken(&self) -> bool {
        fence(if cfg!(target_arch = "x86_64") { Ordering::Acquire } else { Ordering::SeqCst });
        self.0.is_broken.load(Ordering::Relaxed)
    }

    /// As if the host could not serve a page.
    pub fn set_broken(&self) {
        self.0.is_broken.store(true, Ordering::SeqCst);
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.0.start.store(0, Ordering::Release);
        UNUSED.lock().unwrap_or_else(PoisonError::into_inner).push(self.0);
    }
}

fn another_range() -> &'static Range {
    let range: &'static Range = Box::leak(Box::default());
    let added = FIRST.fetch_update(Ordering::AcqRel, Ordering::Acquire, |first| {
        range.next.store(first, Ordering::Relaxed);
        Some(std::ptr::from_ref(range).cast_mut())
    });
    added.expect("the closure always names a new first range");
    range
}

/// The range that has an address.
#[allow(unsafe_code)]
fn range_of(address: usize) -> Option<&'static Range> {
    let mut next = FIRST.load(Ordering::Acquire);
    loop {
        // SAFETY: what is in the list was made by `another_range`, and is never freed.
        let range = unsafe { next.as_ref() }?;
        let start = range.start.load(Ordering::Acquire);
        let offset = address.wrapping_sub(start);
        if start != 0 && offset < range.bytes.load(Ordering::Relaxed) {
            return Some(range);
        }
        next = range.next.load(Ordering::Relaxed);
    }
}

#[allow(unsafe_code)]
fn install() -> Option<(libc::sigaction, usize)> {
    // SAFETY: it only returns a number.
    let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).ok()?;
    // SAFETY: zeros are a valid value of both.
    let (mut action, mut before) = unsafe { std::mem::zeroed::<(libc::sigaction, libc::sigaction)>() };
    action.sa_sigaction = handle as *const () as usize;
    // on the stack for signals, if the thread has one
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: the handler keeps to what a handler of signals may do; see there.
    let failed = unsafe { libc::sigaction(libc::SIGBUS, &raw const action, &raw mut before) };
    (failed == 0).then_some((before, page))
}

/// Handles SIGBUS. It only loads and stores atomics and calls the kernel, and leaves the thread's error number as it was.
#[allow(unsafe_code)]
extern "C" fn handle(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let Some(Some((before, page))) = INSTALLED.get() else {
        // nothing is mapped before the handler is installed
        return end_by(signal);
    };
    // SAFETY: the kernel passes a description of the signal.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr() as usize) };
    let is_access = matches!(code, libc::BUS_ADRERR | libc::BUS_OBJERR | libc::BUS_MCEERR_AR);
    match range_of(address).filter(|_| is_access) {
        Some(range) => {
            range.is_broken.store(true, Ordering::SeqCst);
            if put_zeros(address - address % page, *page).is_err() {
                end_by(signal);
            }
        }
        None => pass_on(before, signal, info, context),
    }
}

/// Replaces a page of a mapping by zeros.
#[allow(unsafe_code)]
fn put_zeros(at: usize, page: usize) -> io::Result<()> {
    // SAFETY: errno belongs to this thread.
    let error = unsafe { libc::__errno_location() };
    // SAFETY: as above; the page belongs to a mapping that lives, as the instruction that failed works on it, and that safe
    // code has no reference to.
    unsafe {
        let number = *error;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        let mapped = libc::mmap(at as *mut libc::c_void, page, protection, kind, -1, 0);
        *error = number;
        if mapped == libc::MAP_FAILED { Err(io::ErrorKind::OutOfMemory.into()) } else { Ok(()) }
    }
}

/// Lets the signal end the process once its instruction is tried again.
#[allow(unsafe_code)]
fn end_by(signal: libc::c_int) {
    // SAFETY: the default action is a valid one.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
}

/// Passes a signal on to the handler that was there before.
#[allow(unsafe_code)]
fn pass_on(
    before: &libc::sigaction,
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    type WithInfo = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);
    match before.sa_sigaction {
        libc::SIG_DFL | libc::SIG_IGN => end_by(signal),
        handler if before.sa_flags & libc::SA_SIGINFO != 0 => {
            // SAFETY: whoever installed it with this flag gave a function of this type.
            let handler = unsafe { std::mem::transmute::<usize, WithInfo>(handler) };
            handler(signal, info, context);
        }
        handler => {
            // SAFETY: as above, without the flag.
            let handler = unsafe { std::mem::transmute::<usize, extern "C" fn(libc::c_int)>(handler) };
            handler(signal);
        }
    }
}

#[cfg(test)]
mod tests {
    use memmap2::MmapOptions;

    use super::*;

    fn load(memory: &MmapRaw, at: usize) -> u8 {
        assert!(at < memory.len());
        #[allow(unsafe_code)]
        // SAFETY: the byte lies in the mapping, and nobody writes it.
        unsafe {
            memory.as_ptr().add(at).read_volatile()
        }
    }

    /// A file of two pages whose mapping has four.
    fn shortened() -> (std::fs::File, MmapRaw) {
        let file = tempfile::tempfile().unwrap();
        file.set_len(4 * 4096).unwrap();
        let memory = MmapOptions::new().len(4 * 4096).map_raw(&file).unwrap();
        file.set_len(2 * 4096).unwrap();
        (file, memory)
    }

    #[test]
    fn a_page_that_the_host_cannot_serve_breaks_its_mapping_and_no_other() {
        let mapped: Vec<_> = (0..3).map(|_| shortened()).collect();
        let watched: Vec<Watched> =
            mapped.iter().map(|(_, memory)| Watched::new(memory).expect("Linux has signals")).collect();
        assert_eq!(load(&mapped[1].1, 4096), 0);
        assert!(!watched.iter().any(Watched::is_broken));
        for at in [2 * 4096, 4 * 4096 - 1] {
            assert_eq!(load(&mapped[1].1, at), 0);
        }
        assert_eq!(watched.iter().map(Watched::is_broken).collect::<Vec<_>>(), [false, true, false]);
        drop(watched);
        let again = Watched::new(&mapped[1].1).unwrap();
        assert!(!again.is_broken(), "a range that is used again is not broken");
    }

    /// Many threads at once, each with a mapping of its own that breaks.
    #[test]
    fn mappings_break_in_many_threads_at_once() {
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let (_file, memory) = shortened();
                        let watched = Watched::new(&memory).unwrap();
                        load(&memory, 100);
                        assert!(!watched.is_broken());
                        load(&memory, 3 * 4096);
                        assert!(watched.is_broken());
                    }
                });
            }
        });
    }

    /// Memory that nobody watches: the process ends, as it would without the handler. Run in a process of its own.
    #[test]
    fn a_signal_for_other_memory_ends_the_process() {
        const CHILD: &str = "TANTALUM_TEST_BUS_ERROR";
        if std::env::var_os(CHILD).is_some() {
            let ((_file, memory), (_other, unwatched)) = (shortened(), shortened());
            let _watched = Watched::new(&memory).unwrap();
            load(&memory, 3 * 4096);
            load(&unwatched, 3 * 4096);
            unreachable!("the signal ends the process");
        }
        use std::os::unix::process::ExitStatusExt as _;
        let ended = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["a_signal_for_other_memory_ends_the_process", "--test-threads=1"])
            .env(CHILD, "1")
            .output()
            .unwrap();
        assert_eq!(ended.status.signal(), Some(libc::SIGBUS), "{ended:?}");
    }
}
