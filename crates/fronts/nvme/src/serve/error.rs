//! Why an image could not be served, or could not be closed.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use tantalum::{DeviceError, Status};
use tantalum_control::socket_path;

use crate::namespaces::TableError;
use crate::ports::MOST_PORTS;
use crate::qualified_name::not_qualified;

/// Why an image could not be served, or could not be closed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The address is not a loopback address, and a host may connect without a proof.
    #[error(
        "{address} can be reached from other machines, and {host} may connect without a secret: listen on 127.0.0.1 or [::1], or name each host with --allow-host and give its secret with --host-secrets, or require TLS with --tls-keys"
    )]
    NotLoopback {
        /// The address.
        address: SocketAddr,
        /// The host.
        host: String,
    },
    /// Too many addresses, or none.
    #[error("the drive cannot be served at {ports} addresses: at least one, and at most {MOST_PORTS}")]
    Ports {
        /// How many.
        ports: usize,
    },
    /// One advertised port for several addresses.
    #[error("hosts cannot reach {ports} addresses at one advertised port: leave out the port of --advertise")]
    AdvertisedPort {
        /// How many addresses there are.
        ports: usize,
    },
    /// Hosts have keys for TLS, and this program has none.
    #[error("this build has no TLS: build with `cargo install --path crates/cli --features tls`")]
    WithoutTls,
    /// Listening on the address failed.
    #[error("{address}: {error}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        error: io::Error,
    },
    /// The system refused.
    #[error("{}: {error}", image.display())]
    System {
        /// The image.
        image: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The control socket could not be created.
    #[error("{}: {error}", socket_path(image).display())]
    Socket {
        /// The image.
        image: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// An invalid name.
    #[error("{}", not_qualified(.0))]
    Name(String),
    /// The drive could not be shut down.
    #[error("the drive could not be shut down: {0}")]
    Shutdown(Status),
    /// The image of a drive that lost power could not be closed in that state.
    #[error("the image of the drive without power could not be closed: {0}")]
    PowerLoss(DeviceError),
    /// The drive did not recover after a power loss.
    #[error("the drive did not recover: {0}")]
    Recovery(DeviceError),
    /// Its namespaces are not known.
    #[error("{0}")]
    Namespaces(TableError),
    /// The drive is shut down, and what was recorded is not whole.
    #[error("the recording is not whole: {0}; make room and record again")]
    Recording(io::Error),
    /// Connections did not end.
    #[error("connections did not end, so the image was left as if the process had been killed")]
    Stuck,
}
