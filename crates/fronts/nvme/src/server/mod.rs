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
use crate::ports::PortAccess;
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
    addresses: Vec<SocketAddr>,
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
        Server::start_at(subsystem, &[(listen, PortAccess::Optimized)]).map_err(|(_, error)| error)
    }

    /// Accepts connections at several addresses from now on: the subsystem's ports, in this order, each with the access to namespaces
    /// that hosts have through it.
    ///
    /// # Errors
    /// With the address at fault.
    pub fn start_at(
        subsystem: Arc<Subsystem>,
        listen: &[(SocketAddr, PortAccess)],
    ) -> Result<Server, (SocketAddr, io::Error)> {
        let listeners =
            listen.iter().map(|(address, _)| listener(*address).map_err(|error| (*address, error)));
        let listeners = listeners.collect::<Result<Vec<_>, _>>()?;
        let addresses: Vec<SocketAddr> = listeners.iter().map(|(_, address)| *address).collect();
        let accesses = listen.iter().map(|(_, access)| *access);
        subsystem.ports.open(&addresses.iter().copied().zip(accesses).collect::<Vec<_>>());
        let listeners = listeners.into_iter().map(|(listener, _)| listener).collect();
        Server::start_with(subsystem, listeners, addresses.clone()).map_err(|error| (addresses[0], error))
    }

    fn start_with(
        subsystem: Arc<Subsystem>,
        listeners: Vec<TcpListener>,
        addresses: Vec<SocketAddr>,
    ) -> io::Result<Server> {
        let (stop, stopped) = UnixStream::pair()?;
        subsystem.history.tests.resume(&subsystem);
        let (connections, awake) = (Connections::default(), Awake::default());
        let openings = Openings::of(&subsystem)?;
        let shared = Arc::new(Shared { subsystem, connections, awake, openings });
        let accepting = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("nvme-accept".to_owned())
            .spawn(move || accept(&accepting, &listeners, &stopped))?;
        Ok(Server { shared, addresses, accepting: Mutex::new(Some(Accepting { stop, thread })) })
    }

    /// Where it listens; the first address if there are several.
    pub fn address(&self) -> SocketAddr {
        self.addresses[0]
    }

    /// All addresses at which it listens, by port.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
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

/// A socket that listens, and where it does.
fn listener(address: SocketAddr) -> io::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

fn accept(shared: &Arc<Shared>, listeners: &[TcpListener], stopped: &UnixStream) {
    let mut looked = Instant::now();
    loop {
        if looked.elapsed() >= LOOK {
            shared.subsystem.look();
            looked = Instant::now();
        }
        let sockets = listeners.iter().map(AsFd::as_fd).chain([stopped.as_fd()]);
        let mut waits: Vec<PollFd<'_>> =
            sockets.map(|socket| PollFd::new(socket, PollFlags::POLLIN)).collect();
        let until_look = LOOK.saturating_sub(looked.elapsed()) + Duration::from_millis(1);
        let _ = poll(&mut waits, PollTimeout::try_from(until_look).unwrap_or(PollTimeout::MAX));
        if waits[listeners.len()].any().unwrap_or(false) {
            return;
        }
        for (port, listener) in (1..).zip(listeners) {
            match listener.accept() {
                Ok((stream, _)) => shared.take(stream, port),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // no file descriptor is left until a connection ends
                Err(_) => thread::sleep(Duration::from_millis(10)),
            }
        }
    }
}

impl Shared {
    /// Gives a connection through a port a thread, or closes it if there is none.
    fn take(self: &Arc<Self>, stream: TcpStream, port: u16) {
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
            Connection::new(&shared.subsystem, &shared.awake, (stream, port), woken, mailbox).run();
            shared.connections.remove(number);
        };
        if thread::Builder::new().name("nvme".to_owned()).stack_size(256 << 10).spawn(work).is_err() {
            self.connections.remove(number);
        }
    }
}
