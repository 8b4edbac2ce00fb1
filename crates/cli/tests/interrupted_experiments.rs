//! An experiment with a server that is interrupted, or whose server dies, ends within seconds and leaves nothing: no
//! mount, no process, no file.
//!
//! Needs mariadb-server, postgresql and /dev/fuse, and is ignored otherwise:
//! `cargo test --release -p tantalum-cli --features servers --test interrupted_experiments -- --ignored`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// How long an experiment may take to end on a machine whose disk others use too: a statement that loads is waited for.
const ENDS_WITHIN: Duration = Duration::from_secs(30);

/// How long it may take until it is where it is to be interrupted.
const COMES_THERE_WITHIN: Duration = Duration::from_secs(300);

/// Long enough for clients to wait for so slow a drive.
const CLIENTS_AT_WORK: Duration = Duration::from_secs(4);
const SLOWER: &str = "16";

/// An experiment with its own folder for everything temporary.
struct Experiment {
    folder: TempDir,
    child: Child,
}

impl Experiment {
    fn start(name: &str, scale: &str) -> Experiment {
        let folder = TempDir::new().unwrap();
        // Servers run as other users.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_tantalum"))
            .args(["lab", "run", name, "--scale", scale, "--slower", SLOWER])
            .env("TMPDIR", folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Experiment { folder, child }
    }

    /// Processes that name the folder, but for the experiment itself, which does not.
    fn processes(&self) -> Vec<(i32, String)> {
        let folder = self.folder.path().to_str().unwrap();
        let commands = fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let command = fs::read_to_string(entry.path().join("cmdline")).ok()?;
            Some((pid, command.replace('\0', " ")))
        });
        commands.filter(|(_, command)| command.contains(folder)).collect()
    }

    /// The server whose data are on the mounted drive.
    fn server(&self) -> Option<i32> {
        let is_server = |command: &str| {
            ["mariadbd", "postgres"].iter().any(|name| command.split(' ').next().unwrap().ends_with(name))
                && (command.contains("/drive/data") || command.contains("/mount/data"))
        };
        self.processes().into_iter().find(|(_, command)| is_server(command)).map(|(pid, _)| pid)
    }

    fn wait_until<T>(&mut self, mut comes: impl FnMut(&Experiment) -> Option<T>) -> T {
        let start = Instant::now();
        loop {
            if let Some(what) = comes(self) {
                return what;
            }
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none() && start.elapsed() < COMES_THERE_WITHIN, "{ended:?}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits for its end, which must come soon and leave nothing.
    fn ends_with(mut self, code: i32) {
        let start = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(start.elapsed() < ENDS_WITHIN, "still there: {:?}", self.processes());
            thread::sleep(Duration::from_millis(20));
        };
        assert_eq!(status.code(), Some(code));
        assert_eq!(self.processes(), []);
        let mounts = fs::read_to_string("/proc/mounts").unwrap();
        assert!(!mounts.contains(self.folder.path().to_str().unwrap()), "{mounts}");
        let left: Vec<PathBuf> = entries(self.folder.path());
        assert_eq!(left, Vec::<PathBuf>::new());
    }
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
}

fn signal(name: &str, pid: i32) {
    assert!(Command::new("kill").args([name, &pid.to_string()]).status().unwrap().success());
}

fn interrupt(experiment: &Experiment) {
    signal("-INT", experiment.child.id() as i32);
}

#[test]
#[ignore = "needs mariadb-server, postgresql and /dev/fuse: run by cargo xtask e2e"]
fn ctrl_c_while_clients_wait_for_the_drive() {
    for (name, scale) in
        [("durassd-table4", "0.0003"), ("durassd-table3", "0.0003"), ("share-pgbench", "0.01")]
    {
        let mut experiment = Experiment::start(name, scale);
        experiment.wait_until(Experiment::server);
        thread::sleep(CLIENTS_AT_WORK);
        interrupt(&experiment);
        experiment.ends_with(130);
    }
}

#[test]
#[ignore = "needs mariadb-server, postgresql and /dev/fuse: run by cargo xtask e2e"]
fn ctrl_c_at_any_time_before() {
    for milliseconds in [300, 2000, 5000, 9000] {
        let mut experiment = Experiment::start("durassd-table4", "0.001");
        experiment.wait_until(|experiment| entries(experiment.folder.path()).pop());
        thread::sleep(Duration::from_millis(milliseconds));
        interrupt(&experiment);
        experiment.ends_with(130);
    }
}

#[test]
#[ignore = "needs mariadb-server, postgresql and /dev/fuse: run by cargo xtask e2e"]
fn a_server_that_dies() {
    let mut experiment = Experiment::start("durassd-table4", "0.0003");
    let server = experiment.wait_until(Experiment::server);
    thread::sleep(CLIENTS_AT_WORK);
    signal("-KILL", server);
    experiment.ends_with(2);
}
