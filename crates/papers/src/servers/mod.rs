//! Private database servers from the system's packages, on a folder or on a mounted drive.
//!
//! - No system service, configuration file or port is touched: each server has its own data, its own Unix socket and
//!   only options from its command line.
//! - A server never runs as root: started by root it runs as `nobody` or `postgres`.
//! - Whoever holds a value of this module holds what it stands for. Dropped, a server is stopped, a mount unmounted
//!   and a folder removed, also when the holder fails or panics. When this process is killed, the system kills the
//!   servers.

mod daemon;
mod error;
mod mariadb;
mod mount;
mod place;
mod postgresql;
mod user;

pub use error::ServerError;
pub(crate) use mariadb::LEAST_BUFFER_BYTES;
pub use mariadb::{MariaDb, MariaDbOptions};
pub use mount::{Mount, MountOptions};
pub use place::{Place, PlainFolder, copy_tree};
pub use postgresql::{Postgresql, PostgresqlOptions};
