//! A private MariaDB.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use mysql::{Conn, OptsBuilder};
use nix::sys::signal::Signal;

use super::ServerError;
use super::daemon::Daemon;
use super::program::run;
use super::user::ServerUser;

const PROGRAM: &str = "mariadbd";
const PACKAGE: &str = "mariadb-server";
/// InnoDB's log in a folder.
const LOG: &str = "ib_logfile0";

const INSTALLER: &str = "mariadb-install-db";

/// How long a server that lost its drive may take to notice.
const ABANDONED_WITHIN: Duration = Duration::from_secs(1);

/// The smallest buffer pool that MariaDB accepts, with pages of at most 16 KiB.
pub(crate) const LEAST_BUFFER_BYTES: u64 = 6 << 20;

/// The smallest buffer pool that MariaDB accepts, with pages of less than 16 KiB.
const LEAST_BUFFER_OF_SMALL_PAGES: u64 = 5 << 20;

/// What differs between experiments.
#[derive(Clone, Debug)]
pub struct MariaDbOptions {
    /// InnoDB's page: 4, 8 or 16 KiB; the same in the whole life of the data.
    pub page_bytes: u32,
    /// InnoDB's buffer pool.
    pub buffer_bytes: u64,
    /// Whether pages are written to the doublewrite buffer before they go home.
    pub doublewrite: bool,
    /// The folder of the log, if not with the data; it must already hold the log's file.
    pub log_folder: Option<PathBuf>,
    /// Whether each commit is synced. Only loading does not need this.
    pub durable: bool,
    /// Pages that the page cleaner writes in one batch, at most; `None` for a multiple of what small buffers have. It
    /// keeps each of them latched until it is written.
    pub batch_pages: Option<u64>,
}

/// A running server. Dropped, it is killed; its data stay where they are.
#[derive(Debug)]
pub struct MariaDb {
    daemon: Daemon,
    socket: PathBuf,
}

impl MariaDb {
    /// Fails if MariaDB is not installed.
    pub fn require() -> Result<(), ServerError> {
        let known = |program| find(program).is_some();
        match known(PROGRAM) && known(INSTALLER) {
            true => Ok(()),
            false => Err(ServerError::Missing { program: PROGRAM, package: PACKAGE }),
        }
    }

    /// Creates an empty database in `data`.
    pub fn install(data: &Path, options: &MariaDbOptions) -> Result<(), ServerError> {
        MariaDb::require()?;
        let user = ServerUser::named("nobody", PROGRAM)?;
        user.make_folder(data)?;
        let installer = find(INSTALLER).expect("it is installed");
        let mut command = user.command(&installer);
        command.arg("--no-defaults").arg(argument("datadir", data));
        command.arg(format!("--innodb-page-size={}", options.page_bytes));
        command.args(["--auth-root-authentication-method=normal", "--skip-test-db"]);
        // Not in this user's folder for temporary files: the server may not have access there.
        command.env("TMPDIR", data);
        run(INSTALLER, &mut command).map(drop)
    }

    /// Moves a stopped server's log out of its data into another folder, for [`MariaDbOptions::log_folder`].
    pub fn move_log(data: &Path, log_folder: &Path) -> Result<(), ServerError> {
        ServerUser::named("nobody", PROGRAM)?.make_folder(log_folder)?;
        let (from, to) = (data.join(LOG), log_folder.join(LOG));
        fs::copy(&from, &to).map_err(ServerError::file(&to))?;
        ServerUser::named("nobody", PROGRAM)?.own(&to)?;
        fs::remove_file(&from).map_err(ServerError::file(&from))
    }

    /// Starts a server on `data`, with its socket and its log in the folder `beside`, and waits until it answers.
    pub fn start(data: &Path, beside: &Path, options: &MariaDbOptions) -> Result<MariaDb, ServerError> {
        MariaDb::require()?;
        let user = ServerUser::named("nobody", PROGRAM)?;
        let folder = beside.join("mariadb");
        user.make_folder(&folder)?;
        let socket = folder.join("socket");
        let mut command = user.command(&find(PROGRAM).expect("it is installed"));
        command.arg("--no-defaults");
        for (name, path) in [("datadir", data), ("socket", &socket), ("tmpdir", &folder)] {
            command.arg(argument(name, path));
        }
        command.arg(argument("pid-file", &folder.join("pid")));
        if let Some(log_folder) = &options.log_folder {
            command.arg(argument("innodb-log-group-home-dir", log_folder));
        }
        arguments(&mut command, options);
        let mut daemon = Daemon::start(PROGRAM, command, &beside.join("mariadb.log"), Signal::SIGKILL)?;
        daemon.wait_until(|| connect(&socket, None))?;
        Ok(MariaDb { daemon, socket })
    }

    /// A new connection, to a database or to none.
    pub fn connect(&self, database: Option<&str>) -> Result<Conn, ServerError> {
        Ok(connect(&self.socket, database)?)
    }

    /// Stops it properly.
    pub fn stop(mut self) {
        self.daemon.stop(Signal::SIGTERM, None);
    }

    /// Stops it properly; kills it as soon as `wanted` returns false.
    pub fn stop_while(mut self, wanted: impl Fn() -> bool) {
        self.daemon.stop_while(Signal::SIGTERM, None, wanted);
    }

    /// Ends it at once, under its clients.
    pub fn kill(&self) {
        self.daemon.kill();
    }

    /// Ends it when its drive has lost power.
    pub fn abandon(mut self) {
        self.daemon.stop(Signal::SIGABRT, Some(ABANDONED_WITHIN));
    }
}

fn arguments(command: &mut Command, options: &MariaDbOptions) {
    let switch = |on| if on { "ON" } else { "OFF" };
    command.args([
        "--skip-networking",
        "--skip-log-bin",
        "--performance-schema=OFF",
        "--max-connections=300",
        "--skip-core-file",
        // It is created by a child that outlives a killed server and keeps its folder in use.
        "--skip-stack-trace",
        "--innodb-flush-method=O_DIRECT",
        "--innodb-use-native-aio=0",
        "--innodb-flush-neighbors=0",
        "--innodb-log-file-size=64M",
        "--innodb-buffer-pool-dump-at-shutdown=OFF",
        "--innodb-buffer-pool-load-at-startup=OFF",
        "--innodb-stats-auto-recalc=OFF",
        "--innodb-lock-wait-timeout=20",
    ]);
    command.arg(format!("--innodb-page-size={}", options.page_bytes));
    let least = if options.page_bytes < 16_384 { LEAST_BUFFER_OF_SMALL_PAGES } else { LEAST_BUFFER_BYTES };
    let buffer_bytes = options.buffer_bytes.max(least);
    command.arg(format!("--innodb-buffer-pool-size={buffer_bytes}"));
    command.arg(format!("--innodb-lru-scan-depth={}", free_pages(buffer_bytes, options.page_bytes)));
    // the default of the most in a batch is twice the capacity
    command.arg(format!("--innodb-io-capacity={}", options.batch_pages.unwrap_or(2000)));
    if let Some(pages) = options.batch_pages {
        command.arg(format!("--innodb-io-capacity-max={pages}"));
    }
    command.arg(format!("--innodb-doublewrite={}", switch(options.doublewrite)));
    command.arg(format!("--innodb-flush-log-at-trx-commit={}", u8::from(options.durable)));
}

/// Pages that the server keeps free. Its default of 1536 is a fifth of its default buffer, and more than all of a small
/// one, which would then be emptied all the time.
fn free_pages(buffer_bytes: u64, page_bytes: u32) -> u64 {
    (buffer_bytes / u64::from(page_bytes) / 8).clamp(100, 1536)
}

fn connect(socket: &Path, database: Option<&str>) -> Result<Conn, mysql::Error> {
    let options = OptsBuilder::new()
        .socket(Some(socket.to_string_lossy()))
        .user(Some("root"))
        .db_name(database)
        .stmt_cache_size(64);
    Conn::new(options)
}

fn argument(name: &str, path: &Path) -> String {
    format!("--{name}={}", path.display())
}

/// Where a program is: on the path, or where servers are kept from ordinary users.
fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin"), PathBuf::from("/usr/bin")]);
    folders.map(|folder| folder.join(program)).find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    // With the default, 843 of 1203 pages of a buffer of 5 MiB were free.
    #[test]
    fn a_small_buffer_is_mostly_in_use() {
        assert_eq!(free_pages(5 << 20, 4096), 160);
        assert_eq!(free_pages(6 << 20, 16_384), 100);
        assert_eq!(free_pages(10 << 30, 4096), 1536);
    }
}
