//! Sockets and threads: one thread accepts connections and checks the drive's health, and each connection has a thread.

use std::io::{self, ErrorKind, Read};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll, ppoll};
use nix::sys::time::TimeSpec;
use parking_lot::{Condvar, Mutex};
use rustc_hash::FxHashMap;

use crate::mailbox::{Mailbox, Message};
use crate::outbox::Outbox;
use crate::session::Session;
use crate::subsystem::Subsystem;

/// Maximum number of connections; further ones are closed.
pub const MOST_CONNECTIONS: usize = 2048;

/// Bytes read at once, unless they go to their place directly.
const BUFFER_BYTES: usize = 64 << 10;

/// Time for a host to read a termination request and close the connection.
const GOODBYE: Duration = Duration::from_secs(1);

/// How often the drive's health is checked.
const LOOK: Duration = Duration::from_secs(1);

/// A thread does not sleep if an answer is due in less than this, because waking up may take that long. So it spins for the
/// last part of each wait, if no other connection does.
const AWAKE: Duration = Duration::from_micros(40);

/// Time for the connections' threads to end.
const MOST_WAIT: Duration = Duration::from_secs(10);

/// Accepts connections to a subsystem until it is ended or dropped.
pub struct Server {
    shared: Arc<Shared>,
    address: SocketAddr,
    /// None once it has ended.
    accepting: Mutex<Option<Accepting>>,
}

/// The thread that accepts connections and has the address.
struct Accepting {
    /// Dropped to end the thread.
    stop: UnixStream,
    thread: JoinHandle<()>,
}

struct Shared {
    subsystem: Arc<Subsystem>,
    /// Whether connections are accepted, or closed at once.
    is_open: AtomicBool,
    connections: Mutex<FxHashMap<u64, Arc<Mailbox>>>,
    ended: Condvar,
    /// The number accepted.
    accepted: AtomicU64,
    /// Whether a thread stays awake until its answer is due.
    is_awake: AtomicBool,
}

impl Server {
    /// Accepts connections at an address from now on.
    pub fn start(subsystem: Arc<Subsystem>, listen: SocketAddr) -> io::Result<Server> {
        let listener = TcpListener::bind(listen)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let (stop, stopped) = UnixStream::pair()?;
        let shared = Arc::new(Shared {
            subsystem,
            is_open: AtomicBool::new(true),
            connections: Mutex::default(),
            ended: Condvar::new(),
            accepted: AtomicU64::new(0),
            is_awake: AtomicBool::new(false),
        });
        let accepting = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("nvme-accept".to_owned())
            .spawn(move || accept(&accepting, &listener, &stopped))?;
        Ok(Server { shared, address, accepting: Mutex::new(Some(Accepting { stop, thread })) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The subsystem.
    pub fn subsystem(&self) -> &Arc<Subsystem> {
        &self.shared.subsystem
    }

    /// Connections now.
    pub fn connections(&self) -> usize {
        self.shared.connections.lock().len()
    }

    /// Connections accepted so far.
    pub fn accepted(&self) -> u64 {
        self.shared.accepted.load(Ordering::Relaxed)
    }

    /// Accepts no more connections, ends the existing ones, and returns when no thread submits commands to the drive any
    /// more, so that nothing a host sent earlier is executed later. False if some did not end in time.
    pub fn close(&self) -> bool {
        self.shared.is_open.store(false, Ordering::SeqCst);
        let mut connections = self.shared.connections.lock();
        for mailbox in connections.values() {
            mailbox.post(Message::End);
        }
        let has_some = |connections: &mut FxHashMap<u64, Arc<Mailbox>>| !connections.is_empty();
        let is_idle = !self.shared.ended.wait_while_for(&mut connections, has_some, MOST_WAIT).timed_out();
        if is_idle {
            let (controllers, held) = (self.subsystem().controllers(), self.subsystem().budget.held());
            assert_eq!((controllers, held), (0, 0), "controllers and bytes are left without connections");
        }
        is_idle
    }

    /// Accepts connections again.
    pub fn open(&self) {
        self.shared.is_open.store(true, Ordering::SeqCst);
    }

    /// Closes it for good as [`Server::close`] does. Another server can then listen at its address.
    pub fn end(&self) -> bool {
        let is_idle = self.close();
        if let Some(Accepting { stop, thread }) = self.accepting.lock().take() {
            drop(stop);
            // if it has panicked, it has let go of the address as well
            let _ = thread.join();
        }
        is_idle
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

fn accept(shared: &Arc<Shared>, listener: &TcpListener, stopped: &UnixStream) {
    let mut last_number = 0;
    let mut looked = Instant::now();
    loop {
        if looked.elapsed() >= LOOK {
            shared.subsystem.look();
            looked = Instant::now();
        }
        let mut waits = [
            PollFd::new(listener.as_fd(), PollFlags::POLLIN),
            PollFd::new(stopped.as_fd(), PollFlags::POLLIN),
        ];
        let until_look = LOOK.saturating_sub(looked.elapsed()) + Duration::from_millis(1);
        let _ = poll(&mut waits, PollTimeout::try_from(until_look).unwrap_or(PollTimeout::MAX));
        if waits[1].any().unwrap_or(false) {
            return;
        }
        match listener.accept() {
            Ok((stream, _)) => {
                last_number += 1;
                shared.take(last_number, stream);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            // no file descriptor is left until a connection ends
            Err(_) => thread::sleep(Duration::from_millis(10)),
        }
    }
}

impl Shared {
    /// Gives a connection a thread, or closes it if there is none.
    fn take(self: &Arc<Self>, number: u64, stream: TcpStream) {
        let Ok((waker, woken)) = UnixStream::pair() else { return };
        let is_ready =
            [waker.set_nonblocking(true), woken.set_nonblocking(true), stream.set_nonblocking(true)];
        if is_ready.iter().any(Result::is_err) || stream.set_nodelay(true).is_err() {
            return;
        }
        // a full pipe wakes as well
        let wake = move || drop(io::Write::write(&mut &waker, &[0]));
        let mailbox = Arc::new(Mailbox::new(wake));
        {
            let mut connections = self.connections.lock();
            // checked under the lock: either `close` sees this connection, or the connection sees that the server is closed
            if !self.is_open.load(Ordering::SeqCst) || connections.len() >= MOST_CONNECTIONS {
                return;
            }
            let other = connections.insert(number, Arc::clone(&mailbox));
            assert!(other.is_none(), "two connections have the number {number}");
        }
        self.accepted.fetch_add(1, Ordering::Relaxed);
        let shared = Arc::clone(self);
        let work = move || {
            let address = stream.local_addr().ok();
            let session = Session::new(Arc::clone(&shared.subsystem), mailbox.clone(), address);
            let buffer = vec![0; BUFFER_BYTES];
            Connection { shared: &shared, stream, woken, mailbox, session, buffer, unread: 0..0 }.run();
            shared.forget(number);
        };
        if thread::Builder::new().name("nvme".to_owned()).stack_size(256 << 10).spawn(work).is_err() {
            self.forget(number);
        }
    }

    /// Whether this thread may stay awake for a moment: one at a time.
    fn may_stay_awake(&self) -> bool {
        !self.is_awake.swap(true, Ordering::Acquire)
    }

    fn forget(&self, number: u64) {
        let removed = self.connections.lock().remove(&number);
        self.ended.notify_all();
        assert!(removed.is_some(), "connection {number} has ended, but was not among those accepted");
    }
}

/// One connection.
struct Connection<'a> {
    shared: &'a Shared,
    stream: TcpStream,
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

impl Connection<'_> {
    /// Runs until either side ends the connection. How it broke does not matter.
    fn run(mut self) {
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
        if !self.unread.is_empty() {
            return Ok(self.feed());
        }
        if let Some(space) = self.session.direct_space() {
            let wanted = space.len();
            let Some(bytes) = read(&mut self.stream, space)? else { return Ok(Heard::Nothing) };
            assert!(bytes <= wanted, "{bytes} bytes were read into a space of {wanted}");
            self.session.advance(bytes);
            return Ok(if bytes == wanted { Heard::More } else { Heard::Nothing });
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
        let is_all = self.unread.is_empty() && self.unread.end < self.buffer.len();
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
        let mut waits =
            [PollFd::new(self.stream.as_fd(), wanted), PollFd::new(self.woken.as_fd(), PollFlags::POLLIN)];
        let polled = match self.session.due_in() {
            Some(due) if due < AWAKE && self.shared.may_stay_awake() => {
                thread::yield_now();
                let polled = ppoll(&mut waits, Some(TimeSpec::from(Duration::ZERO)), None);
                let was_awake = self.shared.is_awake.swap(false, Ordering::Release);
                debug_assert!(was_awake, "two threads stay awake at once");
                polled
            }
            due => {
                let due = due.map(|due| if due < AWAKE { due } else { due - AWAKE });
                // the timeout is rounded up, so that it has passed when this returns
                let idle_timeout =
                    self.session.idle_timeout().map(|idle_timeout| idle_timeout + Duration::from_millis(1));
                let least = due.into_iter().chain(idle_timeout).min();
                ppoll(&mut waits, least.map(TimeSpec::from), None)
            }
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
}

/// Sends what waits, and lets the host close the connection: closing a socket with unread bytes would discard what the host has
/// not read yet.
fn say_goodbye(mut stream: TcpStream, mut outbox: Outbox, buffer: &mut [u8]) -> io::Result<()> {
    let until = Instant::now() + GOODBYE;
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(GOODBYE))?;
    outbox.send(&mut stream)?;
    stream.shutdown(Shutdown::Write)?;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        stream.set_read_timeout(Some(left))?;
        if stream.read(buffer)? == 0 {
            return Ok(());
        }
    }
}

/// Reads what is available; `None` if there is nothing now.
fn read(stream: &mut TcpStream, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    loop {
        match stream.read(buffer) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(bytes) => return Ok(Some(bytes)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
