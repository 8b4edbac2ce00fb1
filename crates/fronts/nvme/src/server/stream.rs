//! The bytes of a connection: those of its socket, or those that TLS makes of them. The host's first byte says which: the PDU that opens a
//! connection begins with another one than TLS.

use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::TcpStream;

use super::tls::{Keys, Secure};
use crate::authentication::{Secured, Tls};
use crate::subsystem::Subsystem;

/// The first byte of TLS: the type of a record with a handshake (RFC 8446, section 5.1).
const HANDSHAKE: u8 = 22;

/// How connections may begin.
pub(super) struct Openings {
    is_plain_allowed: bool,
    keys: Option<Keys>,
}

/// The bytes of a connection.
pub(super) struct Stream<'a> {
    openings: &'a Openings,
    bytes: Bytes,
}

enum Bytes {
    /// Nothing has come yet.
    Unknown(TcpStream),
    Plain(TcpStream),
    /// Of TLS, and whether the handshake is done.
    Secure(Box<Secure>, bool),
    /// It could not be begun.
    Refused,
}

impl Openings {
    /// Those of connections to a subsystem.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if it has keys for TLS, and this program has none.
    pub fn of(subsystem: &Subsystem) -> io::Result<Openings> {
        let tls = subsystem.hosts.tls();
        let keys = tls.map(|tls| Keys::new(tls, &subsystem.settings.name)).transpose()?;
        Ok(Openings { is_plain_allowed: !tls.is_some_and(Tls::is_required), keys })
    }

    /// The bytes of a new connection.
    pub fn stream(&self, socket: TcpStream) -> Stream<'_> {
        let bytes = if self.keys.is_some() { Bytes::Unknown(socket) } else { Bytes::Plain(socket) };
        Stream { openings: self, bytes }
    }
}

impl Stream<'_> {
    /// Whether bytes can be read and written. Until then, [`Stream::open`] is called.
    pub fn is_open(&self) -> bool {
        matches!(self.bytes, Bytes::Plain(_) | Bytes::Secure(_, true))
    }

    /// Goes on with what precedes the host's bytes, of which none was taken yet. Returns between whom they are secured, if they are.
    ///
    /// # Errors
    /// [`ErrorKind::WouldBlock`] if more has to come first. After any other, the connection is of no use: TLS is required, or the host has
    /// not the right key.
    pub fn open(&mut self) -> io::Result<Option<Secured>> {
        if let Bytes::Unknown(socket) = &self.bytes {
            let mut first = [0];
            match socket.peek(&mut first)? {
                0 => return Err(ErrorKind::UnexpectedEof.into()),
                _ => self.begin(first[0])?,
            }
        }
        let (Bytes::Secure(stream, is_open), Some(keys)) = (&mut self.bytes, &self.openings.keys) else {
            return Ok(None);
        };
        stream.handshake()?;
        *is_open = true;
        keys.secured(&stream.identity()).map(Some)
    }

    fn begin(&mut self, first: u8) -> io::Result<()> {
        let Bytes::Unknown(socket) = std::mem::replace(&mut self.bytes, Bytes::Refused) else {
            return Ok(());
        };
        self.bytes = match &self.openings.keys {
            Some(keys) if first == HANDSHAKE => Bytes::Secure(Box::new(keys.accept(socket)?), false),
            _ if self.openings.is_plain_allowed => Bytes::Plain(socket),
            _ => return Err(ErrorKind::PermissionDenied.into()),
        };
        Ok(())
    }

    /// The socket.
    pub fn socket(&self) -> &TcpStream {
        match &self.bytes {
            Bytes::Unknown(socket) | Bytes::Plain(socket) => socket,
            Bytes::Secure(stream, _) => stream.socket(),
            Bytes::Refused => panic!("a connection goes on that was refused"),
        }
    }

    /// Whether more may be read before the socket is readable again.
    pub fn has_pending(&self) -> bool {
        matches!(&self.bytes, Bytes::Secure(stream, _) if stream.has_pending())
    }

    /// Says that nothing follows, as far as that is not the socket's.
    pub fn end(&mut self) -> io::Result<()> {
        match &mut self.bytes {
            Bytes::Secure(stream, true) => stream.close(),
            _ => Ok(()),
        }
    }
}

impl Read for Stream<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.bytes {
            Bytes::Plain(socket) => socket.read(buffer),
            Bytes::Secure(stream, true) => stream.read(buffer),
            _ => Err(ErrorKind::WouldBlock.into()),
        }
    }
}

/// What TLS has not taken, it must be given again first. So it is: pieces that are not sent stay where they are, and may only grow.
impl Write for Stream<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match &mut self.bytes {
            Bytes::Plain(socket) => socket.write_vectored(slices),
            Bytes::Secure(stream, true) => stream.write_vectored(slices),
            _ => Err(ErrorKind::WouldBlock.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
