//! A tap on the wire between hosts and a drive: it forwards everything, records what the drive acknowledges, and says after a
//! power cut whether the drive has kept it. It need not know anything about the hosts or the contents of their blocks.
//!
//! It judges the commands Write, Write Zeroes, Dataset Management and Flush, in whole units of the drive, without digests
//! and with the drive's cache on; [`Checked::unjudged`] counts others that may change blocks.

mod connection;
pub mod promises;

use std::io::{self, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::client::{Client, Names, Options, block_command};
use crate::wire::opcode::nvm;
use connection::{Connection, read_pdu};
use promises::{Broken, Promises, sum_of};

/// Blocks read at once.
const TOGETHER: usize = 64;

/// Time for connections to end, and for a drive to come back.
const PATIENCE: Duration = Duration::from_secs(60);

/// A tap.
pub struct Tap {
    shared: Arc<Shared>,
    address: SocketAddr,
}

struct Shared {
    drive: SocketAddr,
    subsystem: String,
    block_bytes: usize,
    promises: Mutex<Promises>,
    /// I/O queues that are connected.
    queues: AtomicUsize,
}

/// The result of a check of a drive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Checked {
    /// Blocks changed since the tap was created, and examined now.
    pub blocks: usize,
    /// Flushes that the drive acknowledged.
    pub flushes: u64,
    /// Commands that may have changed blocks, but cannot be judged.
    pub unjudged: u64,
    /// Blocks with forbidden contents.
    pub broken: Vec<Broken>,
}

impl Tap {
    /// Listens on a free port of the loopback interface, for hosts of the subsystem with that name at `drive`.
    pub fn start(drive: SocketAddr, subsystem: &str, block_bytes: usize) -> io::Result<Tap> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            drive,
            subsystem: subsystem.to_owned(),
            block_bytes,
            promises: Mutex::default(),
            queues: AtomicUsize::new(0),
        });
        let taking = Arc::clone(&shared);
        thread::Builder::new().name("tap".to_owned()).spawn(move || {
            for host in listener.incoming().map_while(Result::ok) {
                // a connection that cannot be forwarded is closed
                let _ = connect(&taking, host);
            }
        })?;
        Ok(Tap { shared, address })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Reads every block that was changed, once the drive can be reached again. Call this after a power cut, while no host is
    /// attached.
    pub fn check(&self) -> io::Result<Checked> {
        let until = Instant::now() + PATIENCE;
        while self.shared.queues.load(Ordering::SeqCst) > 0 {
            if Instant::now() > until {
                return Err(io::Error::new(io::ErrorKind::WouldBlock, "a host is attached"));
            }
            thread::sleep(Duration::from_millis(5));
        }
        let (_admin, mut io) = self.shared.attach(until)?;
        let mut promises = self.shared.promises.lock();
        let blocks = promises.blocks();
        let mut broken = Vec::new();
        let mut left = &blocks[..];
        while let Some(&first) = left.first() {
            let run =
                left.iter().zip(first..).take(TOGETHER).take_while(|(block, next)| *block == next).count();
            let bytes = run * self.shared.block_bytes;
            let read = io.read_command(block_command(nvm::READ, first, run as u32), bytes as u32)?;
            if read.code != 0 || read.data.len() != bytes {
                return Err(io::Error::other(format!(
                    "block {first} cannot be read: status {:#x}",
                    read.code
                )));
            }
            for (block, data) in (first..).zip(read.data.chunks_exact(self.shared.block_bytes)) {
                broken.extend(promises.judge(block, sum_of(data)).err());
            }
            left = &left[run..];
        }
        let Promises { flushes, unjudged, .. } = *promises;
        Ok(Checked { blocks: blocks.len(), flushes, unjudged, broken })
    }
}

impl Shared {
    fn attach(&self, until: Instant) -> io::Result<(Client, Client)> {
        let names = Names {
            subsystem: self.subsystem.clone(),
            host: "nqn.2014-08.org.nvmexpress:tap".to_owned(),
            host_id: [0x7a; 16],
        };
        let options = Options::default();
        loop {
            let attached = Client::admin(self.drive, options, &names, 0)
                .and_then(|(admin, id)| Ok((admin, Client::io(self.drive, options, &names, id, 1)?)));
            match attached {
                Err(_) if Instant::now() < until => thread::sleep(Duration::from_millis(20)),
                attached => return attached,
            }
        }
    }
}

/// Two threads forward what comes on a connection, one for each direction.
fn connect(shared: &Arc<Shared>, host: TcpStream) -> io::Result<()> {
    let drive = TcpStream::connect(shared.drive)?;
    host.set_nodelay(true)?;
    drive.set_nodelay(true)?;
    let connection = Arc::new(Mutex::new(Connection::default()));
    let (to_drive, to_host) = (drive.try_clone()?, host.try_clone()?);
    let (here, there) = (Arc::clone(shared), Arc::clone(&connection));
    spawn(move || {
        let mut was_io = false;
        let sent = |pdu: &[u8]| {
            let mut connection = there.lock();
            connection.sent(pdu, here.block_bytes, &here.promises);
            if connection.is_io && !was_io {
                was_io = true;
                here.queues.fetch_add(1, Ordering::SeqCst);
            }
        };
        pass(host, to_drive, sent);
        if was_io {
            here.queues.fetch_sub(1, Ordering::SeqCst);
        }
    })?;
    let shared = Arc::clone(shared);
    spawn(move || pass(drive, to_host, |pdu| connection.lock().answered(pdu, &shared.promises)))
}

fn spawn(work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().name("tap".to_owned()).spawn(work).map(drop)
}

/// Forwards PDUs until either side ends the connection.
fn pass(mut from: TcpStream, mut to: TcpStream, mut look: impl FnMut(&[u8])) {
    let mut pdu = Vec::new();
    while read_pdu(&mut from, &mut pdu).is_ok() {
        look(&pdu);
        if to.write_all(&pdu).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
