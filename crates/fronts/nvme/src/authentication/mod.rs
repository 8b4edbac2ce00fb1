//! In-band authentication of hosts: DH-HMAC-CHAP (Base, section 8.13).
//!
//! Host and controller share a secret. Each side proves that it knows the secret by keying an HMAC with it over a random
//! challenge of the other side; the secret itself never goes over the wire. With a Diffie-Hellman group the challenge is
//! also bound to a key that both sides agree on, so that an eavesdropper cannot test guesses of a weak secret.
//!
//! - [`secret`]: secrets as `nvme gen-dhchap-key` writes them.
//! - [`hosts`]: which hosts may connect, and their secrets.
//! - [`hash`], [`group`]: hash functions and Diffie-Hellman groups.
//! - [`proof`]: what the two sides compute.
//! - [`exchange`]: the controller's side of the messages.
//!
//! Only connections are authenticated, and only when they are established: what follows is neither encrypted nor
//! signed, unless the connection has TLS.
//!
//! - [`tls_key`]: keys for TLS as `nvme gen-tls-key` writes them, and what is derived of them.
//! - [`tls`]: which hosts have such keys.

pub mod exchange;
pub mod group;
pub mod hash;
pub mod hosts;
pub mod proof;
pub mod secret;
pub mod tls;
pub mod tls_key;

pub use exchange::Exchange;
pub use hosts::{Admission, Hosts, HostsError};
pub use secret::{Secret, SecretError};
pub use tls::{Secured, Tls};
pub use tls_key::{Derivation, TlsKey};
