//! One connection: its thread reads and sends what there is, and sleeps until the host, another thread or the time has something
//! for it.

use std::io::{self, ErrorKind, Read};
use std::net::Shutdown;
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;

use crate::mailbox::Mailbox;
use crate::outbox::Outbox;
use crate::session::Session;
use crate::subsystem::Subsystem;

use super::stream::Stream;

/// Bytes read at once, unless they go to their place directly.
const BUFFER_BYTES: usize = 64 << 10;

/// Time for a host to read a termination request and close the connection.
const GOODBYE: Duration = Duration::from_secs(1);

/// A thread does not sleep if an answer is due in less than this, because waking up may take that long. So it spins for the
/// last part of each wait, if no other connection does.
const AWAKE: Duration = Duration::from_micros(40);

/// Lets one thread at a time stay awake until its answer is due.
#[derive(Default)]
pub(super) struct Awake(AtomicBool);

impl Awake {
    /// Whether this thread may stay awake for a moment.
    fn begin(&self) -> bool {
        !self.0.swap(true, Ordering::Acquire)
    }

    fn end(&self) {
        let was_awake = self.0.swap(false, Ordering::Release);
        debug_assert!(was_awake, "two threads stay awake at once");
    }
}

/// One connection.
pub(super) struct Connection<'a> {
    awake: &'a Awake,
    stream: Stream<'a>,
    woken: UnixStream,
    mailbox: Arc<Mailbox>,
    session: Session,
    buffer: Vec<u8>,
    /// The part of the buffer that the session has not taken.
    unread: Range<usize>,
}

/// Whether there may be more to read.
#[derive(PartialEq, Eq)]
enum Heard {
    More,
    Nothing,
}

impl<'a> Connection<'a> {
    /// The connection behind a socket, through a port. Whoever posts to the mailbox wakes it through `woken`.
    pub fn new(
        subsystem: &Arc<Subsystem>,
        awake: &'a Awake,
        (stream, port): (Stream<'a>, u16),
        woken: UnixStream,
        mailbox: Arc<Mailbox>,
    ) -> Connection<'a> {
        let address = stream.socket().local_addr().ok();
        let session = Session::new(Arc::clone(subsystem), Arc::clone(&mailbox), address).through(port);
        Connection { awake, stream, woken, mailbox, session, buffer: vec![0; BUFFER_BYTES], unread: 0..0 }
    }

    /// Runs until either side ends the connection. How it broke does not matter.
    pub fn run(mut self) {
        let is_kept = self.go_on().is_ok();
        let outbox = self.session.final_output();
        // the host's queues end now, not when it closes its socket
        drop(self.session);
        if is_kept && let Some(outbox) = outbox {
            let _ = say_goodbye(self.stream, outbox, &mut self.buffer);
        }
    }

    fn go_on(&mut self) -> io::Result<()> {
        // threads usually sleep up to 50 us too long: more than a read of flash takes
        let _ = nix::sys::prctl::set_timerslack(1);
        let mut heard = Heard::More;
        loop {
            if heard == Heard::More && self.session.may_read() {
                heard = self.hear()?;
            }
            self.session.take_mail();
            self.session.answer_in_time();
            self.session.end_if_overdue();
            self.send()?;
            if self.session.is_ending() {
                return Ok(());
            }
            let may_sleep = heard == Heard::Nothing || !self.session.may_read();
            if may_sleep && self.sleep()? {
                heard = Heard::More;
            }
        }
    }

    fn hear(&mut self) -> io::Result<Heard> {
        if !self.stream.is_open() {
            let Some(secured) = available(self.stream.open())? else { return Ok(Heard::Nothing) };
            secured.into_iter().for_each(|secured| self.session.secure(secured));
        }
        if !self.unread.is_empty() {
            return Ok(self.feed());
        }
        if let Some(space) = self.session.direct_space() {
            let wanted = space.len();
            let Some(bytes) = read(&mut self.stream, space)? else { return Ok(Heard::Nothing) };
            assert!(bytes <= wanted, "{bytes} bytes were read into a space of {wanted}");
            self.session.advance(bytes);
            let has_more = bytes == wanted || self.stream.has_pending();
            return Ok(if has_more { Heard::More } else { Heard::Nothing });
        }
        let Some(bytes) = read(&mut self.stream, &mut self.buffer)? else { return Ok(Heard::Nothing) };
        self.unread = 0..bytes;
        Ok(self.feed())
    }

    fn feed(&mut self) -> Heard {
        let taken = self.session.feed(&self.buffer[self.unread.clone()]);
        assert!(taken <= self.unread.len(), "{taken} bytes were taken of {}", self.unread.len());
        self.unread.start += taken;
        // wait for the socket to have more instead of a read that finds nothing
        let is_read = self.unread.end < self.buffer.len() && !self.stream.has_pending();
        let is_all = self.unread.is_empty() && is_read;
        if is_all { Heard::Nothing } else { Heard::More }
    }

    fn send(&mut self) -> io::Result<()> {
        loop {
            let has_more = self.session.send(&mut self.stream)?;
            self.session.take_mail();
            if !has_more {
                return Ok(());
            }
        }
    }

    /// Waits for the host, for a message, or for a timeout. Returns whether the host may have sent something.
    fn sleep(&mut self) -> io::Result<bool> {
        self.session.rest();
        if !self.mailbox.may_sleep() {
            return Ok(false);
        }
        let mut wanted = PollFlags::empty();
        wanted.set(PollFlags::POLLIN, self.session.may_read());
        wanted.set(PollFlags::POLLOUT, self.session.has_unsent());
        let mut waits = [
            PollFd::new(self.stream.socket().as_fd(), wanted),
            PollFd::new(self.woken.as_fd(), PollFlags::POLLIN),
        ];
        let polled = match self.session.due_in() {
            Some(due) if due < AWAKE && self.awake.begin() => {
                thread::yield_now();
                let polled = ppoll(&mut waits, Some(TimeSpec::from(Duration::ZERO)), None);
                self.awake.end();
                polled
            }
            due => ppoll(&mut waits, self.longest_sleep(due).map(TimeSpec::from), None),
        };
        self.mailbox.awake();
        let events = waits[0].revents().unwrap_or(PollFlags::empty());
        if waits[1].any().unwrap_or(false) {
            let _ = self.woken.read(&mut [0; 64]);
        }
        match polled {
            Err(nix::errno::Errno::EINTR) | Ok(_) => {}
            Err(errno) => return Err(errno.into()),
        }
        if !self.session.may_read() && events.intersects(PollFlags::POLLHUP | PollFlags::POLLERR) {
            return Err(ErrorKind::ConnectionReset.into());
        }
        Ok(events.intersects(PollFlags::POLLIN | PollFlags::POLLHUP | PollFlags::POLLERR))
    }

    /// How long it may sleep if the next answer is due then; `None` if unlimited.
    fn longest_sleep(&self, due: Option<Duration>) -> Option<Duration> {
        let due = due.map(|due| if due < AWAKE { due } else { due - AWAKE });
        // the timeout is rounded up, so that it has passed when the thread wakes up
        let idle_timeout = self.session.idle_timeout().map(|timeout| timeout + Duration::from_millis(1));
        due.into_iter().chain(idle_timeout).min()
    }
}

/// Sends what waits, and lets the host close the connection: closing a socket with unread bytes would discard what the host has
/// not read yet.
fn say_goodbye(mut stream: Stream<'_>, mut outbox: Outbox, buffer: &mut [u8]) -> io::Result<()> {
    let until = Instant::now() + GOODBYE;
    stream.socket().set_nonblocking(false)?;
    stream.socket().set_write_timeout(Some(GOODBYE))?;
    outbox.send(&mut stream)?;
    stream.end()?;
    let mut socket = stream.socket();
    socket.shutdown(Shutdown::Write)?;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        socket.set_read_timeout(Some(left))?;
        if socket.read(buffer)? == 0 {
            return Ok(());
        }
    }
}

/// Reads what is available; `None` if there is nothing now.
fn read(stream: &mut Stream<'_>, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    loop {
        match available(stream.read(buffer)) {
            Ok(Some(0)) => return Err(ErrorKind::UnexpectedEof.into()),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// `None` for what is not there yet.
fn available<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(there) => Ok(Some(there)),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}
