//! The process that opened something, so that one that is forked from it leaves it alone.
//!
//! Asking the host for the process's number is a system call, which takes as long as reading a record from memory. So a
//! page is mapped that the kernel clears in a forked process (`MADV_WIPEONFORK`, Linux 4.14). Where there is no such
//! page, the host is asked.

/// A process.
#[derive(Debug)]
pub struct Process {
    number: u32,
    mark: Option<Mark>,
}

impl Process {
    /// The process that calls this.
    pub fn current() -> Process {
        Process { number: std::process::id(), mark: Mark::new() }
    }

    /// The process number (PID).
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Whether it is the process that calls this.
    #[inline]
    pub fn is_current(&self) -> bool {
        match &self.mark {
            Some(mark) => mark.is_there(),
            None => std::process::id() == self.number,
        }
    }
}

#[cfg(target_os = "linux")]
use self::linux::Mark;
#[cfg(not(target_os = "linux"))]
use self::unmarked::Mark;

#[cfg(target_os = "linux")]
mod linux {
    use memmap2::MmapMut;

    /// A byte that is not zero, except in a forked process.
    #[derive(Debug)]
    pub(super) struct Mark(MmapMut);

    impl Mark {
        /// `None` if the kernel knows nothing of such pages.
        #[allow(unsafe_code)]
        pub fn new() -> Option<Mark> {
            let mut page = MmapMut::map_anon(1).ok()?;
            // SAFETY: the page was just mapped, and belongs to this mapping alone; its contents stay as they are in
            // this process.
            let refused =
                unsafe { libc::madvise(page.as_mut_ptr().cast(), page.len(), libc::MADV_WIPEONFORK) };
            page[0] = 1;
            (refused == 0).then_some(Mark(page))
        }

        #[inline]
        #[allow(unsafe_code)]
        pub fn is_there(&self) -> bool {
            // SAFETY: the byte is mapped as long as `self` is there, and no thread writes it. The read is volatile
            // because the compiler does not know that a fork clears it.
            unsafe { self.0.as_ptr().read_volatile() != 0 }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod unmarked {
    #[derive(Debug)]
    pub(super) enum Mark {}

    impl Mark {
        pub fn new() -> Option<Mark> {
            None
        }

        pub fn is_there(&self) -> bool {
            match *self {}
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// What a forked process finds.
    #[allow(unsafe_code)]
    fn forked(is_true: impl Fn() -> bool) -> bool {
        // SAFETY: the child allocates nothing, takes no lock, and ends without returning.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: it ends the child.
            unsafe { libc::_exit(i32::from(!is_true())) }
        }
        assert!(child > 0, "the host can fork");
        let mut status = 0;
        // SAFETY: the child is this process's own, and there is room for its status.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
    }

    #[test]
    fn a_forked_process_is_another_one_and_its_parent_stays_what_it_was() {
        let marked = Process::current();
        let asked = Process { mark: None, ..Process::current() };
        for process in [&marked, &asked] {
            assert!(process.is_current());
            assert!(forked(|| !process.is_current()));
            assert!(process.is_current());
            assert_eq!(process.number(), std::process::id());
        }
    }

    #[test]
    fn the_kernel_clears_the_mark() {
        assert!(Process::current().mark.is_some(), "or each check is a system call");
    }
}
