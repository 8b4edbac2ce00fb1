//! A tap on the wire between hosts and a drive: it forwards everything, records what the drive acknowledges, and says after a
//! power cut whether the drive has kept it. It need not know anything about the hosts or the contents of their blocks.
//!
//! It judges what any number of hosts do at once: all commands on blocks and records, and all vendor commands on them. With
//! [`Tap::judge_reads`] it also judges what Read and Retrieve return while the drive has power. Limits:
//!
//! - The drive's units are whole: with blocks of 512 bytes, only ranges of whole units are judged rightly.
//! - What Copy, Share and Remap carry from blocks that nobody changed since the tap began is unknown.
//! - Whether the home of a page of a hinted log takes what the log holds depends on the log as a whole. Both are allowed,
//!   until the home is changed otherwise.
//! - Programs in the drive may change blocks. [`Checked::unjudged`] counts the commands to them.
//! - A drive that promises more than the standard's volatile cache is held to that only.

mod changes;
mod connection;
pub mod promises;
pub mod spot;
mod versions;

use std::io::{self, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tantalum::{Key, NamespaceId};
use zerocopy::IntoBytes;

use crate::blocks::BlockSpace;
use crate::client::{Client, Names, Options, block_command, command};
use crate::failure::Failure;
use crate::io::TRANSFER_BYTES;
use crate::namespaces::number_of;
use crate::wire::opcode::{key_value, nvm};
use connection::{Connection, Rules, read_pdu};
use promises::{Broken, Counts, Promises};
use spot::{ABSENT, Spot, Sum, sum_of};

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
    drive: Mutex<SocketAddr>,
    subsystem: String,
    block_bytes: u32,
    judges_reads: AtomicBool,
    promises: Mutex<Promises>,
    /// I/O queues that the drive has not closed.
    queues: AtomicUsize,
}

/// The result of a check of a drive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Checked {
    /// Blocks and records changed since the tap was created, and examined now.
    pub spots: usize,
    /// Flushes that the drive acknowledged.
    pub flushes: u64,
    /// Commands that are all or nothing, and that the drive acknowledged.
    pub steps: u64,
    /// Commands that may have changed something when their connection broke or power went.
    pub broken_off: u64,
    /// Blocks and records that were read and judged while the drive had power.
    pub read: u64,
    /// Commands that may have changed blocks, but cannot be judged.
    pub unjudged: u64,
    /// Broken promises.
    pub broken: Vec<Broken>,
}

impl Tap {
    /// Listens on a free port of the loopback interface, for hosts of the subsystem with that name at `drive`.
    pub fn start(drive: SocketAddr, subsystem: &str, block_bytes: usize) -> io::Result<Tap> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            drive: Mutex::new(drive),
            subsystem: subsystem.to_owned(),
            block_bytes: block_bytes as u32,
            judges_reads: AtomicBool::new(false),
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

    /// The drive is served at another address from now on.
    pub fn move_drive(&self, to: SocketAddr) {
        *self.shared.drive.lock() = to;
    }

    /// Judges what is read from now on while the drive has power. Then no host may attach between a power loss and
    /// [`Tap::check`].
    pub fn judge_reads(&self) {
        self.shared.judges_reads.store(true, Ordering::SeqCst);
    }

    /// Reads everything that was changed, once the drive can be reached again. Call this after a power cut, while no host is
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
        let changed = promises.changed();
        let found = self.shared.read(&mut io, &changed)?;
        let mut broken = promises.take_misread();
        broken.extend(promises.judge(&found));
        let Counts { flushes, unjudged, steps, broken_off, read } = promises.counts();
        Ok(Checked { spots: found.len(), flushes, steps, broken_off, read, unjudged, broken })
    }
}

impl Shared {
    fn rules(&self) -> Rules {
        let mut space = BlockSpace::new(self.block_bytes, 0);
        // the drive knows what exists
        space.blocks = u64::MAX;
        Rules { space, judges_reads: self.judges_reads.load(Ordering::SeqCst) }
    }

    /// What blocks and records hold.
    fn read(&self, io: &mut Client, spots: &[Spot]) -> io::Result<Vec<(Spot, Sum)>> {
        let (mut found, mut left) = (Vec::new(), spots);
        while let Some(&first) = left.first() {
            let run = match first {
                Spot::Block(first) => {
                    let follows = |(spot, next): &(&Spot, u64)| **spot == Spot::Block(*next);
                    let run = left.iter().zip(first..).take(TOGETHER).take_while(follows).count();
                    found.extend(self.read_blocks(io, first, run)?);
                    run
                }
                Spot::Record(namespace, key) => {
                    found.push((first, read_record(io, namespace, key)?));
                    1
                }
            };
            assert!(run > 0, "nothing is read at {first:?}");
            left = &left[run..];
        }
        assert_eq!(found.len(), spots.len(), "other blocks and records were read than changed");
        Ok(found)
    }

    fn read_blocks(&self, io: &mut Client, first: u64, count: usize) -> io::Result<Vec<(Spot, Sum)>> {
        let (block_bytes, bytes) = (self.block_bytes as usize, count * self.block_bytes as usize);
        let read = io.read_command(block_command(nvm::READ, first, count as u32), bytes as u32)?;
        if read.code != 0 || read.data.len() != bytes {
            let message = format!("block {first} cannot be read: status {:#x}", read.code);
            return Err(io::Error::other(message));
        }
        let blocks = (first..).map(Spot::Block).zip(read.data.chunks_exact(block_bytes).map(sum_of));
        Ok(blocks.collect())
    }

    fn attach(&self, until: Instant) -> io::Result<(Client, Client)> {
        let names = Names {
            subsystem: self.subsystem.clone(),
            host: "nqn.2014-08.org.nvmexpress:tap".to_owned(),
            host_id: [0x7a; 16],
        };
        let options = Options::default();
        let drive = *self.drive.lock();
        loop {
            let attached = Client::admin(drive, options, &names, 0)
                .and_then(|(admin, id)| Ok((admin, Client::io(drive, options, &names, id, 1)?)));
            match attached {
                Err(_) if Instant::now() < until => thread::sleep(Duration::from_millis(20)),
                attached => return attached,
            }
        }
    }
}

fn read_record(io: &mut Client, namespace: NamespaceId, key: Key) -> io::Result<Sum> {
    let (key, mut field) = (key.as_bytes(), [0; 16]);
    field[..key.len()].copy_from_slice(key);
    let dwords = [TRANSFER_BYTES, key.len() as u32, 0, 0, 0, 0];
    let mut retrieve = command(key_value::RETRIEVE, number_of(namespace), dwords);
    retrieve.dword2.as_mut_bytes().copy_from_slice(&field[..8]);
    retrieve.dword10[4..].as_mut_bytes().copy_from_slice(&field[8..]);
    let read = io.read_command(retrieve, TRANSFER_BYTES)?;
    match read.code {
        0 => Ok(sum_of(&read.data)),
        code if code == Failure::NO_SUCH_KEY.code() => Ok(ABSENT),
        code => Err(io::Error::other(format!("a record cannot be read: status {code:#x}"))),
    }
}

/// Two threads forward what comes on a connection, one for each direction.
fn connect(shared: &Arc<Shared>, host: TcpStream) -> io::Result<()> {
    let drive = TcpStream::connect(*shared.drive.lock())?;
    host.set_nodelay(true)?;
    drive.set_nodelay(true)?;
    let connection = Arc::new(Mutex::new(Connection::default()));
    let (to_drive, to_host) = (drive.try_clone()?, host.try_clone()?);
    let (here, there) = (Arc::clone(shared), Arc::clone(&connection));
    spawn(move || {
        let mut was_io = false;
        let sent = |pdu: &[u8]| {
            let mut connection = there.lock();
            connection.sent(pdu, &here.rules(), &here.promises);
            if connection.is_io && !was_io {
                was_io = true;
                here.queues.fetch_add(1, Ordering::SeqCst);
            }
        };
        let mut host = host;
        pass(&mut host, &to_drive, sent);
        let _ = host.shutdown(Shutdown::Both);
    })?;
    let shared = Arc::clone(shared);
    spawn(move || {
        let mut drive = drive;
        pass(&mut drive, &to_host, |pdu| connection.lock().answered(pdu, &shared.rules(), &shared.promises));
        let _ = drive.shutdown(Shutdown::Both);
        let _ = to_host.shutdown(Shutdown::Both);
        let mut connection = connection.lock();
        connection.closed(&shared.promises);
        if connection.is_io {
            let queues = shared.queues.fetch_sub(1, Ordering::SeqCst);
            assert!(queues > 0, "an I/O queue was closed that was not counted");
        }
    })
}

fn spawn(work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().name("tap".to_owned()).spawn(work).map(drop)
}

/// Forwards PDUs, and the beginning of one that breaks off, until `from` ends the connection. If `to` takes no more, what
/// still comes is looked at: whoever sent it has done it.
fn pass(from: &mut TcpStream, mut to: &TcpStream, mut look: impl FnMut(&[u8])) {
    let (mut pdu, mut takes) = (Vec::new(), true);
    loop {
        let is_whole = read_pdu(from, &mut pdu).is_ok();
        if is_whole {
            look(&pdu);
        }
        if takes && to.write_all(&pdu).is_err() {
            takes = false;
        }
        if !is_whole || !takes {
            // the other side ends its part, and with it the connection
            let _ = to.shutdown(Shutdown::Write);
        }
        if !is_whole {
            return;
        }
    }
}
