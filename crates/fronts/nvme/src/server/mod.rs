//! Sockets and threads: one thread accepts connections and checks the drive's health, and each connection has a thread.

mod connection;
mod connections;
mod stream;
#[cfg_attr(not(feature = "tls"), path = "no_tls.rs")]
mod tls;

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use parking_lot::Mutex;

use crate::mailbox::Mailbox;
use crate::subsystem::Subsystem;
use connection::{Awake, Connection};
use connections::Connections;
pub use connections::MOST_CONNECTIONS;
use stream::Openings;

/// How often the drive's health is checked.
const LOOK: Duration = Duration::from_secs(1);

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

/// What the threads share.
struct Shared {
    subsystem: Arc<Subsystem>,
    connections: Connections,
    awake: Awake,
    openings: Openings,
}

impl Server {
    /// Accepts connections at an address from now on.
    pub fn start(subsystem: Arc<Subsystem>, listen: SocketAddr) -> io::Result<Server> {
        let listener = TcpListener::bind(listen)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let (stop, stopped) = UnixStream::pair()?;
        subsystem.history.tests.resume(&subsystem);
        let (connections, awake) = (Connections::default(), Awake::default());
        let openings = Openings::of(&subsystem)?;
        let shared = Arc::new(Shared { subsystem, connections, awake, openings });
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
        self.shared.connections.count()
    }

    /// Connections accepted so far.
    pub fn accepted(&self) -> u64 {
        self.shared.connections.accepted()
    }

    /// Accepts no more connections, ends the existing ones, and returns when no thread submits commands to the drive any
    /// more, so that nothing a host sent earlier is executed later. False if some did not end in time.
    pub fn close(&self) -> bool {
        let is_idle = self.shared.connections.close();
        if is_idle {
            let (controllers, held) = (self.subsystem().controllers(), self.subsystem().budget.held());
            assert_eq!((controllers, held), (0, 0), "controllers and bytes are left without connections");
        }
        is_idle
    }

    /// Accepts connections again.
    pub fn open(&self) {
        self.shared.connections.open();
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
            Ok((stream, _)) => shared.take(stream),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            // no file descriptor is left until a connection ends
            Err(_) => thread::sleep(Duration::from_millis(10)),
        }
    }
}

impl Shared {
    /// Gives a connection a thread, or closes it if there is none.
    fn take(self: &Arc<Self>, stream: TcpStream) {
        let Ok((waker, woken)) = UnixStream::pair() else { return };
        let is_ready =
            [waker.set_nonblocking(true), woken.set_nonblocking(true), stream.set_nonblocking(true)];
        if is_ready.iter().any(Result::is_err) || stream.set_nodelay(true).is_err() {
            return;
        }
        // a full pipe wakes as well
        let wake = move || drop(io::Write::write(&mut &waker, &[0]));
        let mailbox = Arc::new(Mailbox::new(wake));
        let Some(number) = self.connections.add(Arc::clone(&mailbox)) else { return };
        let shared = Arc::clone(self);
        let work = move || {
            let stream = shared.openings.stream(stream);
            Connection::new(&shared.subsystem, &shared.awake, stream, woken, mailbox).run();
            shared.connections.remove(number);
        };
        if thread::Builder::new().name("nvme".to_owned()).stack_size(256 << 10).spawn(work).is_err() {
            self.connections.remove(number);
        }
    }
}
