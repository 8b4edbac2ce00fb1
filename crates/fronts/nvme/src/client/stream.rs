//! The bytes of a host's connection, with and without TLS.

use std::io::{self, Read, Write};
use std::net::TcpStream;

use crate::authentication::tls_key::Derived;

#[derive(Debug)]
pub(super) enum Stream {
    Plain(TcpStream),
    #[cfg(feature = "tls")]
    Secure(Box<tantalum_tls::Stream>),
}

impl Stream {
    pub fn socket(&self) -> &TcpStream {
        match self {
            Stream::Plain(socket) => socket,
            #[cfg(feature = "tls")]
            Stream::Secure(stream) => stream.socket(),
        }
    }

    /// Begins TLS, with any of these keys.
    #[cfg(feature = "tls")]
    pub fn secure(&mut self, keys: Vec<Derived>) -> io::Result<()> {
        let keys: Vec<_> = keys.into_iter().map(Derived::preshared).collect();
        let mut stream = tantalum_tls::Stream::client(self.socket().try_clone()?, &keys)?;
        stream.handshake()?;
        *self = Stream::Secure(Box::new(stream));
        Ok(())
    }

    #[cfg(not(feature = "tls"))]
    pub fn secure(&mut self, _: Vec<Derived>) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(socket) => socket.read(buffer),
            #[cfg(feature = "tls")]
            Stream::Secure(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(socket) => socket.write(bytes),
            #[cfg(feature = "tls")]
            Stream::Secure(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
