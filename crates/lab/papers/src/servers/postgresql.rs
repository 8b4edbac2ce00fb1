//! A private PostgreSQL.

use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::signal::Signal;
use postgres::{Client, Config, NoTls};

use super::ServerError;
use super::daemon::Daemon;
use super::program::run;
use super::user::ServerUser;

const PROGRAM: &str = "postgres";
const PACKAGE: &str = "postgresql";

/// Where Debian keeps its versions.
const VERSIONS: &str = "/usr/lib/postgresql";

/// How long a server that lost its drive may take to end.
const ABANDONED_WITHIN: Duration = Duration::from_secs(10);

/// What differs between experiments.
#[derive(Clone, Debug)]
pub struct PostgresqlOptions {
    /// `shared_buffers`.
    pub buffer_bytes: u64,
    /// Whether the log takes a whole page when it is first changed after a checkpoint.
    pub full_page_writes: bool,
    /// Seconds between checkpoints.
    pub checkpoint_seconds: u32,
}

/// A running server. Dropped, it is killed; its data stay where they are.
#[derive(Debug)]
pub struct Postgresql {
    daemon: Daemon,
    sockets: PathBuf,
}

impl Postgresql {
    /// Fails if PostgreSQL is not installed.
    pub fn require() -> Result<(), ServerError> {
        programs().map(drop)
    }

    /// Creates an empty cluster in `data`.
    pub fn install(data: &Path) -> Result<(), ServerError> {
        let user = ServerUser::named("postgres", PROGRAM)?;
        user.make_folder(data)?;
        let mut command = user.command(&programs()?.join("initdb"));
        command.arg("-D").arg(data).args(["-U", "postgres", "--auth=trust", "-E", "UTF8", "--no-locale"]);
        command.arg("--data-checksums").current_dir("/");
        run("initdb", &mut command).map(drop)
    }

    /// Starts a server on `data`, with its socket and its log in the folder `beside`, and waits until it answers.
    pub fn start(data: &Path, beside: &Path, options: &PostgresqlOptions) -> Result<Postgresql, ServerError> {
        let user = ServerUser::named("postgres", PROGRAM)?;
        let sockets = beside.join("postgresql");
        user.make_folder(&sockets)?;
        let mut command = user.command(&programs()?.join(PROGRAM));
        command.arg("-D").arg(data).arg("-k").arg(&sockets).current_dir("/");
        let settings = [
            "listen_addresses=".to_owned(),
            "max_connections=100".to_owned(),
            format!("shared_buffers={}kB", options.buffer_bytes >> 10),
            format!("full_page_writes={}", if options.full_page_writes { "on" } else { "off" }),
            format!("checkpoint_timeout={}s", options.checkpoint_seconds),
            "max_wal_size=256MB".to_owned(),
            "min_wal_size=80MB".to_owned(),
            "autovacuum=off".to_owned(),
        ];
        for setting in settings {
            command.args(["-c", &setting]);
        }
        // SIGKILL would leave its children running.
        let log = beside.join("postgresql.log");
        let mut daemon = Daemon::start(PROGRAM, command, &log, Signal::SIGQUIT)?;
        daemon.wait_until(|| connect(&sockets, "postgres"))?;
        Ok(Postgresql { daemon, sockets })
    }

    /// A new connection to a database.
    pub fn connect(&self, database: &str) -> Result<Client, ServerError> {
        Ok(connect(&self.sockets, database)?)
    }

    /// Stops it properly.
    pub fn stop(mut self) {
        self.daemon.stop(Signal::SIGINT, None);
    }

    /// Ends it at once, under its clients.
    pub fn kill(&self) {
        self.daemon.kill();
    }

    /// Ends it when its drive has lost power: at once, its children included.
    pub fn abandon(mut self) {
        self.daemon.stop(Signal::SIGQUIT, Some(ABANDONED_WITHIN));
    }
}

fn connect(sockets: &Path, database: &str) -> Result<Client, postgres::Error> {
    Config::new().host_path(sockets).user("postgres").dbname(database).connect(NoTls)
}

/// The folder of the newest version's programs.
fn programs() -> Result<PathBuf, ServerError> {
    let folders = std::fs::read_dir(VERSIONS).into_iter().flatten().flatten();
    let version = |path: &PathBuf| path.file_name()?.to_str()?.parse::<u32>().ok();
    let newest = folders.map(|entry| entry.path()).max_by_key(version);
    let programs = newest.map(|folder| folder.join("bin")).filter(|folder| folder.join(PROGRAM).is_file());
    programs.ok_or(ServerError::Missing { program: PROGRAM, package: PACKAGE })
}
