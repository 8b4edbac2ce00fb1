//! What can go wrong with a server.

use std::io;
use std::path::PathBuf;

/// Why a server, or the place for its files, is not available.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// A program is not installed.
    #[error("{program} is not installed; as root: apt-get install {package}")]
    Missing {
        /// The program.
        program: &'static str,
        /// The Debian package that has it.
        package: &'static str,
    },
    /// A program could not be run.
    #[error("cannot run {program}: {error}")]
    Run {
        /// The program.
        program: String,
        /// The system's error.
        error: io::Error,
    },
    /// A program failed.
    #[error("{program} failed ({status}): {message}")]
    Failed {
        /// The program.
        program: String,
        /// How it ended.
        status: String,
        /// The end of its output.
        message: String,
    },
    /// A server did not answer in time.
    #[error("{program} did not answer within {seconds} s; its log ends with: {log}")]
    Silent {
        /// The program.
        program: &'static str,
        /// How long it was waited for.
        seconds: u64,
        /// The end of its log.
        log: String,
    },
    /// A file cannot be read or written.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// A user whom the server should run as does not exist.
    #[error("{program} refuses to run as root, and there is no user {name} to run it as")]
    NoUser {
        /// The user.
        name: &'static str,
        /// The server.
        program: &'static str,
    },
    /// The mount's counters do not read as expected.
    #[error("`tantalum stat --json` did not report {field}")]
    Counters {
        /// What is missing.
        field: &'static str,
    },
    /// MariaDB refused something.
    #[cfg(feature = "servers")]
    #[error("MariaDB: {0}")]
    MariaDb(#[from] mysql::Error),
    /// PostgreSQL refused something.
    #[cfg(feature = "servers")]
    #[error("PostgreSQL: {0}")]
    Postgresql(#[from] postgres::Error),
}

impl ServerError {
    /// Makes the error of a file.
    pub(crate) fn file(path: &std::path::Path) -> impl FnOnce(io::Error) -> ServerError {
        let path = path.to_owned();
        move |error| ServerError::File { path, error }
    }
}
