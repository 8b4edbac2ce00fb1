//! A small initiator, which measures and tests the server from the other side of the wire. Tests also use it to send what
//! no correct host would.

mod attach;
mod authenticate;
mod commands;
mod placement;
mod stream;
mod wire;
mod zones;

use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use rustc_hash::FxHashMap;
use zerocopy::{FromBytes, IntoBytes};

use crate::authentication::TlsKey;
use crate::wire::pdu::{Initialize, kind};
use stream::Stream;

pub use authenticate::{Answered, Authenticated, Credentials, refusal};
pub use commands::{block_command, command, fabrics};
pub use placement::{group_log, handle_status, handle_update, placed};
pub use zones::{Zones, zone_append, zone_report, zone_send, zoned};

/// Timeout for an answer.
const PATIENCE: Duration = Duration::from_secs(60);
/// Commands are batched up to this many bytes.
const TOGETHER_BYTES: usize = 64 << 10;
/// Data up to this size go in the capsule rather than through an R2T.
const CAPSULE_BYTES: usize = crate::limits::CAPSULE_BYTES;

/// A received PDU, without its digests.
#[derive(Clone, Debug)]
pub struct Pdu {
    /// Its header.
    pub header: Vec<u8>,
    /// Its data.
    pub data: Vec<u8>,
}

/// How a command ended.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Completed {
    /// The command's identifier.
    pub id: u16,
    /// Type and code; 0 for success.
    pub code: u16,
    /// Dwords 0 and 1.
    pub result: u64,
    /// What was read.
    pub data: Vec<u8>,
    /// How far the queue was read; `None` if there were only data and no response.
    pub queue_head: Option<u16>,
}

/// What a connection requests.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Digests of headers.
    pub header_digest: bool,
    /// Digests of data.
    pub data_digest: bool,
    /// Alignment of data to the host, in dwords less one.
    pub alignment: u8,
    /// Data always go through an R2T.
    pub no_capsule_data: bool,
    /// The queue's head is not requested.
    pub no_flow_control: bool,
    /// Commands are sent together, at the latest before the host waits for an answer.
    pub together: bool,
    /// The connection has TLS, with what is derived of this key.
    pub tls: Option<TlsKey>,
}

/// A connection.
#[derive(Debug)]
pub struct Client {
    stream: Stream,
    options: Options,
    last_id: u16,
    /// Data of write commands, until the controller requests them.
    outgoing: FxHashMap<u16, Vec<u8>>,
    /// Data of read commands, until these are done.
    incoming: FxHashMap<u16, Vec<u8>>,
    done: VecDeque<Completed>,
    /// Maximum size of a data PDU to the controller.
    pub data_bytes: usize,
    input: Vec<u8>,
    input_at: usize,
    /// Commands that have not been sent yet.
    output: Vec<u8>,
}

/// The host and the subsystem that it connects to.
#[derive(Clone, Debug)]
pub struct Names {
    /// The subsystem.
    pub subsystem: String,
    /// The host.
    pub host: String,
    /// The host's identifier.
    pub host_id: [u8; 16],
}

fn broken(message: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message.into())
}

impl Client {
    /// Opens a connection without sending anything.
    pub fn dial(address: SocketAddr, options: Options) -> io::Result<Client> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Client {
            stream: Stream::Plain(stream),
            options,
            last_id: 0,
            outgoing: FxHashMap::default(),
            incoming: FxHashMap::default(),
            done: VecDeque::new(),
            data_bytes: 0,
            input: Vec::new(),
            input_at: 0,
            output: Vec::new(),
        })
    }

    /// Opens a connection without TLS, and agrees on digests.
    pub fn open(address: SocketAddr, options: Options) -> io::Result<Client> {
        let mut client = Client::dial(address, options)?;
        client.initialize()?;
        Ok(client)
    }

    /// Opens a connection for these names, with TLS if that is wanted, and agrees on digests.
    pub fn open_as(address: SocketAddr, options: Options, names: &Names) -> io::Result<Client> {
        let mut client = Client::dial(address, options)?;
        if let Some(key) = options.tls {
            client.stream.secure(key.derive(&names.host, &names.subsystem))?;
        }
        client.initialize()?;
        Ok(client)
    }

    fn initialize(&mut self) -> io::Result<()> {
        let options = self.options;
        let digests = u8::from(options.header_digest) | u8::from(options.data_digest) << 1;
        self.send(Initialize::new(kind::IC_REQ, options.alignment, digests, 0).as_bytes())?;
        let pdu = self.receive()?;
        let response = Initialize::read_from_bytes(&pdu.header).map_err(|_| broken("no ICResp"))?;
        if response.digests != digests {
            return Err(broken(format!("asked for digests {digests}, got {}", response.digests)));
        }
        self.data_bytes = response.limit.get() as usize;
        Ok(())
    }
}
