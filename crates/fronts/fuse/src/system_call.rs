//! How much a thread has asked the kernel to write with the system call that it is in.
//!
//! Linux 6.18 passes on what goes to the end of a file's first page apart from the rest of a write, and a request does not say whether
//! it is all of its call. `/proc/THREAD/syscall` does, to whoever may trace the thread: root, and the same user for processes that it
//! has started.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::thread;
use std::time::{Duration, Instant};

use nix::libc;

/// A thread whose request has arrived will soon wait for its answer.
const MOST_TIME: Duration = Duration::from_millis(50);

/// The most buffers of one call.
const MOST_BUFFERS: usize = libc::UIO_MAXIOV as usize;

/// Bytes of `struct iovec`: an address and a length.
const BUFFER_BYTES: usize = 2 * size_of::<usize>();

/// The bytes that the call of a waiting thread is to write. None if that cannot be told: who calls is not the thread that wrote, or may
/// not be traced, or copies from another file.
pub(crate) fn asked_bytes(thread: u32) -> Option<u64> {
    let begun = Instant::now();
    loop {
        let line = fs::read_to_string(format!("/proc/{thread}/syscall")).ok()?;
        if line.trim_end() != "running" {
            return asked(thread, &line);
        }
        if begun.elapsed() > MOST_TIME {
            return None;
        }
        thread::yield_now();
    }
}

/// `line` has the call's number, and its arguments in hexadecimal.
fn asked(thread: u32, line: &str) -> Option<u64> {
    let mut words = line.split_ascii_whitespace();
    let call: libc::c_long = words.next()?.parse().ok()?;
    let mut arguments = words.map(|word| u64::from_str_radix(word.trim_start_matches("0x"), 16).ok());
    let (buffers, count) = (arguments.nth(1)??, arguments.next()??);
    match call {
        libc::SYS_write | libc::SYS_pwrite64 => Some(count),
        libc::SYS_writev | libc::SYS_pwritev | libc::SYS_pwritev2 => {
            all_buffers(thread, buffers, count as usize)
        }
        _ => None,
    }
}

/// The sum of the lengths of a call's buffers.
fn all_buffers(thread: u32, address: u64, count: usize) -> Option<u64> {
    let mut buffers = vec![0; count.min(MOST_BUFFERS) * BUFFER_BYTES];
    File::open(format!("/proc/{thread}/mem")).ok()?.read_exact_at(&mut buffers, address).ok()?;
    let lengths = buffers.as_chunks::<BUFFER_BYTES>().0.iter().map(|buffer| {
        let (_, length) = buffer.split_at(BUFFER_BYTES / 2);
        usize::from_ne_bytes(length.try_into().expect("half of it")) as u64
    });
    Some(lengths.sum())
}

#[cfg(test)]
mod tests {
    use std::io::{self, IoSlice, Read, Write};
    use std::sync::mpsc;

    use super::*;

    /// A thread that waits in a call: the pipe is full.
    fn asked_by(
        write: impl FnOnce(&mut io::PipeWriter) -> io::Result<usize> + Send + 'static,
    ) -> Option<u64> {
        let (mut reader, mut writer) = io::pipe().unwrap();
        let (sender, threads) = mpsc::channel();
        let waiting = thread::spawn(move || {
            sender.send(nix::unistd::gettid()).unwrap();
            write(&mut writer).unwrap()
        });
        let id = threads.recv().unwrap().as_raw() as u32;
        thread::sleep(Duration::from_millis(100));
        let asked = asked_bytes(id);
        io::copy(&mut reader.by_ref(), &mut io::sink()).unwrap();
        waiting.join().unwrap();
        asked
    }

    #[test]
    fn a_call_says_how_much_it_writes() {
        assert_eq!(asked_by(|pipe| pipe.write(&vec![1; 1_000_001])), Some(1_000_001));
        assert_eq!(
            asked_by(|pipe| pipe
                .write_vectored(&[IoSlice::new(&vec![1; 300_000]), IoSlice::new(&vec![2; 300_007])])),
            Some(600_007)
        );
        assert_eq!(asked_bytes(u32::MAX), None);
    }

    #[test]
    fn other_calls_say_nothing() {
        assert_eq!(
            asked(1, "0 0x3 0x7ff6bdd25000 0x20000 0x0 0x0 0x0 0x7fffe7333418 0x7ff6bdea12ad\n"),
            None
        );
        assert_eq!(asked(1, "-1 0x7fffe7333418 0x7ff6bdea12ad\n"), None);
        assert_eq!(asked(1, "running"), None);
        assert_eq!(asked(1, ""), None);
    }
}
