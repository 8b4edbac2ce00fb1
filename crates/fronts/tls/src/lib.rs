//! TLS 1.3 by pre-shared keys on a socket: external PSKs with an ephemeral key exchange, AES-GCM, no certificates, no early data, no
//! tickets (RFC 8446). The protocol and its cryptography are s2n-tls' and AWS-LC's.
//!
//! A `Stream` reads and writes like its socket: on one that does not block, `ErrorKind::WouldBlock` means that the socket has to be
//! readable or writable first. After any other error the connection is of no more use.
//!
//! Without the feature `s2n` the crate is empty.
#![cfg(feature = "s2n")]

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsRawFd, RawFd};
use std::task::Poll;

use libc::{c_int, c_void};
use s2n_tls::config::Config;
use s2n_tls::connection::Connection;
use s2n_tls::enums::{Blinding, PskHmac};
use s2n_tls::error::Error;
use s2n_tls::psk::Psk;
use s2n_tls::security::DEFAULT_TLS13;

/// The hash of a key, and with it the cipher.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hash {
    /// TLS_AES_128_GCM_SHA256.
    Sha256,
    /// TLS_AES_256_GCM_SHA384.
    Sha384,
}

/// A pre-shared key. Its `Debug` does not show the secret.
#[derive(Clone, PartialEq, Eq)]
pub struct PresharedKey {
    /// The name by which the client offers it.
    pub identity: Vec<u8>,
    /// At least 16 bytes.
    pub secret: Vec<u8>,
    /// The hash that it is used with.
    pub hash: Hash,
}

impl fmt::Debug for PresharedKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let identity = String::from_utf8_lossy(&self.identity);
        write!(formatter, "PresharedKey({identity:?}, {:?}, {} bytes)", self.hash, self.secret.len())
    }
}

impl PresharedKey {
    fn psk(&self) -> Result<Psk, Error> {
        let mut psk = Psk::builder()?;
        psk.set_identity(&self.identity)?;
        psk.set_secret(&self.secret)?;
        psk.set_hmac(match self.hash {
            Hash::Sha256 => PskHmac::SHA256,
            Hash::Sha384 => PskHmac::SHA384,
        })?;
        psk.build()
    }
}

/// A connection with TLS. Dropping it closes the socket without telling the other side ([`Stream::close`] does).
pub struct Stream {
    // before the socket, which it uses
    connection: Connection,
    socket: TcpStream,
}

impl Stream {
    /// The server's side of a socket on which nothing was read yet. A client must offer one of these keys.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] for keys that cannot be used: two with one identity, an empty identity, a short secret.
    pub fn server(socket: TcpStream, keys: &[PresharedKey]) -> io::Result<Stream> {
        Stream::new(Connection::new_server(), socket, keys)
    }

    /// The client's side of a socket on which nothing was written yet.
    ///
    /// # Errors
    /// As above.
    pub fn client(socket: TcpStream, keys: &[PresharedKey]) -> io::Result<Stream> {
        Stream::new(Connection::new_client(), socket, keys)
    }

    fn new(mut connection: Connection, socket: TcpStream, keys: &[PresharedKey]) -> io::Result<Stream> {
        if keys.is_empty() {
            return Err(io::Error::new(ErrorKind::InvalidInput, "there is no key"));
        }
        set_up(&mut connection, socket.as_raw_fd(), keys)
            .map_err(|error| io::Error::new(ErrorKind::InvalidInput, error))?;
        Ok(Stream { connection, socket })
    }

    /// The socket.
    pub fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Goes on with the handshake. When it is done, both sides know that the other one has the key.
    pub fn handshake(&mut self) -> io::Result<()> {
        waited(self.connection.poll_negotiate()).map(drop)
    }

    /// The identity of the key that both sides have; empty before the handshake is done.
    pub fn identity(&self) -> Vec<u8> {
        let bytes = self.connection.negotiated_psk_identity_length().unwrap_or(0);
        let mut identity = vec![0; bytes];
        match bytes > 0 && self.connection.negotiated_psk_identity(&mut identity).is_err() {
            true => Vec::new(),
            false => identity,
        }
    }

    /// The cipher, by its name in the standard; none before the handshake.
    pub fn cipher(&self) -> Option<&str> {
        self.connection.cipher_suite().ok()
    }

    /// Whether bytes have been read from the socket and not from here: more may come before the socket is readable again.
    pub fn has_pending(&self) -> bool {
        self.connection.peek_len() > 0 || self.connection.peek_buffered_len() > 0
    }

    /// Tells the other side that nothing follows.
    pub fn close(&mut self) -> io::Result<()> {
        waited(self.connection.poll_shutdown_send()).map(drop)
    }
}

fn set_up(connection: &mut Connection, socket: RawFd, keys: &[PresharedKey]) -> Result<(), Error> {
    let mut config = Config::builder();
    config.set_security_policy(&DEFAULT_TLS13)?;
    connection.set_config(config.build()?)?;
    // the caller closes the connection after an error; waiting would not help against anything with AES-GCM
    connection.set_blinding(Blinding::SelfService)?;
    connection.set_receive_buffering(true)?;
    connection.prefer_throughput()?;
    for key in keys {
        connection.append_psk(&key.psk()?)?;
    }
    connection.set_receive_callback(Some(receive))?.set_send_callback(Some(send))?;
    let context = socket as usize as *mut c_void;
    #[allow(unsafe_code)]
    // SAFETY: the context is not a pointer but the number of the socket, which the callbacks make of it again. `Stream` has the socket
    // for as long as the connection.
    unsafe {
        connection.set_receive_context(context)?;
        connection.set_send_context(context)?;
    }
    Ok(())
}

/// Receives bytes for a connection, whose context is the number of its socket.
#[allow(unsafe_code)]
unsafe extern "C" fn receive(context: *mut c_void, buffer: *mut u8, bytes: u32) -> c_int {
    // SAFETY: s2n-tls calls this with a buffer of so many bytes, which it has for itself
    unsafe { libc::recv(context as usize as RawFd, buffer.cast(), bytes as usize, 0) as c_int }
}

/// Sends bytes of a connection.
#[allow(unsafe_code)]
unsafe extern "C" fn send(context: *mut c_void, buffer: *const u8, bytes: u32) -> c_int {
    // SAFETY: s2n-tls calls this with so many bytes
    unsafe {
        libc::send(context as usize as RawFd, buffer.cast(), bytes as usize, libc::MSG_NOSIGNAL) as c_int
    }
}

fn waited<T>(polled: Poll<Result<T, Error>>) -> io::Result<T> {
    match polled {
        Poll::Ready(ready) => Ok(ready?),
        Poll::Pending => Err(ErrorKind::WouldBlock.into()),
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        waited(self.connection.poll_recv(buffer))
    }
}

/// What was not taken because the socket would block must be offered again, at the beginning of the next write: a part of it may be
/// encrypted already.
impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        waited(self.connection.poll_send(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        waited(self.connection.poll_flush()).map(drop)
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Stream")
            .field("socket", &self.socket)
            .field("cipher", &self.cipher())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    fn key(identity: &str, byte: u8, hash: Hash) -> PresharedKey {
        let bytes = if hash == Hash::Sha256 { 32 } else { 48 };
        PresharedKey { identity: identity.into(), secret: vec![byte; bytes], hash }
    }

    fn sockets() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (client, listener.accept().unwrap().0)
    }

    /// The handshakes of a client and a server with these keys.
    fn shake(client: &[PresharedKey], server: &[PresharedKey]) -> (io::Result<Stream>, io::Result<Stream>) {
        let (to_server, to_client) = sockets();
        let done = |mut stream: Stream| stream.handshake().map(|()| stream);
        thread::scope(|scope| {
            let server = scope.spawn(move || Stream::server(to_client, server).and_then(done));
            let client = Stream::client(to_server, client).and_then(done);
            // a server that waits for a client that has given up
            (client, server.join().unwrap())
        })
    }

    #[test]
    fn both_sides_have_the_key_that_was_offered() {
        for (hash, cipher) in
            [(Hash::Sha256, "TLS_AES_128_GCM_SHA256"), (Hash::Sha384, "TLS_AES_256_GCM_SHA384")]
        {
            let keys = [key("a", 1, Hash::Sha256), key("b", 2, Hash::Sha384), key("c", 3, hash)];
            let (client, server) = shake(&keys[2..], &keys);
            let (mut client, mut server) = (client.unwrap(), server.unwrap());
            assert_eq!((client.identity(), server.identity()), (b"c".to_vec(), b"c".to_vec()));
            assert_eq!((client.cipher(), server.cipher()), (Some(cipher), Some(cipher)));
            client.write_all(b"here it is").unwrap();
            let mut read = [0; 10];
            server.read_exact(&mut read).unwrap();
            assert_eq!(&read, b"here it is");
            client.close().unwrap();
            assert_eq!(server.read(&mut read).unwrap(), 0, "nothing follows");
        }
    }

    #[test]
    fn another_secret_or_identity_or_hash_is_no_key() {
        let right = key("a", 1, Hash::Sha256);
        for wrong in [key("a", 2, Hash::Sha256), key("b", 1, Hash::Sha256), key("a", 1, Hash::Sha384)] {
            let (client, server) = shake(&[wrong], std::slice::from_ref(&right));
            let server = server.map(|stream| stream.identity());
            assert!(server.is_err(), "{server:?}");
            // a client is done when it has sent its last message, and learns of the refusal when it reads
            let refused = client.and_then(|mut client| client.read(&mut [0]));
            assert!(refused.as_ref().map_or(true, |read| *read == 0), "{refused:?}");
        }
        for wrong in [vec![], vec![right.clone(), right]] {
            let refused = Stream::server(sockets().1, &wrong).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::InvalidInput);
        }
    }

    /// Megabytes in both directions at once on sockets that do not block.
    #[test]
    fn bytes_come_as_they_were_sent_when_sockets_do_not_block() {
        let keys = [key("a", 1, Hash::Sha384)];
        let (client, server) = shake(&keys, &keys);
        let (mut client, mut server) = (client.unwrap(), server.unwrap());
        let mut blocked = 0;
        let sent: Vec<u8> =
            (0..30_000_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        for stream in [&client, &server] {
            stream.socket().set_nonblocking(true).unwrap();
        }
        let (mut written, mut read) = ([0; 2], [const { Vec::<u8>::new() }; 2]);
        while read.iter().any(|read| read.len() < sent.len()) {
            for (side, stream) in [&mut client, &mut server].into_iter().enumerate() {
                while written[side] < sent.len() {
                    // what follows may be more each time
                    let end = sent.len().min(written[side] + 100_000 + blocked);
                    match stream.write(&sent[written[side]..end]) {
                        Ok(bytes) => written[side] += bytes,
                        Err(error) => {
                            assert_eq!(error.kind(), ErrorKind::WouldBlock);
                            blocked += 1;
                            break;
                        }
                    }
                }
            }
            for (side, stream) in [&mut client, &mut server].into_iter().enumerate() {
                let mut buffer = [0; 40_000];
                loop {
                    match stream.read(&mut buffer) {
                        Ok(bytes) => read[side].extend(&buffer[..bytes]),
                        Err(error) => {
                            assert_eq!(error.kind(), ErrorKind::WouldBlock);
                            assert!(!stream.has_pending() || stream.connection.peek_len() == 0);
                            break;
                        }
                    }
                }
            }
        }
        assert!(read.iter().all(|read| *read == sent), "{blocked} times blocked");
        assert!(blocked > 0);
    }
}
