//! The server's side of TLS, in a program without it.

use std::convert::Infallible;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;

use crate::authentication::{Secured, Tls};

/// No connection has TLS.
pub(super) struct Secure(Infallible);

/// There are no keys.
pub(super) struct Keys(Infallible);

impl Keys {
    pub fn new(_: &Tls, _: &str) -> io::Result<Keys> {
        Err(ErrorKind::Unsupported.into())
    }

    pub fn accept(&self, _: TcpStream) -> io::Result<Secure> {
        match self.0 {}
    }

    pub fn secured(&self, _: &[u8]) -> io::Result<Secured> {
        match self.0 {}
    }
}

impl Secure {
    pub fn socket(&self) -> &TcpStream {
        match self.0 {}
    }

    pub fn handshake(&mut self) -> io::Result<()> {
        match self.0 {}
    }

    pub fn identity(&self) -> Vec<u8> {
        match self.0 {}
    }

    pub fn has_pending(&self) -> bool {
        match self.0 {}
    }

    pub fn close(&mut self) -> io::Result<()> {
        match self.0 {}
    }
}

impl Read for Secure {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        match self.0 {}
    }
}

impl Write for Secure {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        match self.0 {}
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.0 {}
    }
}
