//! Private database servers from the system's packages, on a folder or on a mounted drive; and a guest with its own kernel,
//! on served drives.
//!
//! - No system service, configuration file or port is touched: each server has its own data, its own Unix socket and
//!   only options from its command line.
//! - A server never runs as root: started by root it runs as `nobody` or `postgres`.
//! - A value of this module owns what it stands for. Dropping it stops a server, unmounts a mount or removes a folder,
//!   even if the owner fails or panics. If this process is killed, the system kills the servers.
//!
//! Database servers are in builds with the feature `servers`, which adds their clients.

#[cfg(feature = "servers")]
mod daemon;
mod error;
mod guest;
mod images_in_use;
#[cfg(feature = "servers")]
mod mariadb;
mod mount;
#[cfg(feature = "servers")]
mod postgresql;
mod program;
mod served_drive;
mod server_folder;
#[cfg(feature = "servers")]
mod user;

pub use error::ServerError;
pub use guest::{Guest, GuestMessage};
pub use images_in_use::newest_image;
#[cfg(feature = "servers")]
pub(crate) use mariadb::LEAST_BUFFER_BYTES;
#[cfg(feature = "servers")]
pub use mariadb::{MariaDb, MariaDbOptions};
pub use mount::{Mount, MountOptions};
#[cfg(feature = "servers")]
pub use postgresql::{Postgresql, PostgresqlOptions};
pub use served_drive::Served;
pub use server_folder::{PlainFolder, ServerFolder, copy_tree};

/// The clients' libraries: connections are values of theirs.
#[cfg(feature = "servers")]
pub use {mysql, postgres};
