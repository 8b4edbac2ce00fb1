//! A served drive from the command line: serve, stat, cut, stop, and what is refused.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

const IMAGE: &str = "drive.tant";
const SERVE: [&str; 7] = ["serve", IMAGE, "--listen", "127.0.0.1:0", "--time", "none", "--background"];

fn tantalum(dir: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tantalum")).args(arguments).current_dir(dir).output().unwrap()
}

fn printed(dir: &Path, arguments: &[&str]) -> String {
    let output = tantalum(dir, arguments);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {message}");
    String::from_utf8(output.stdout).unwrap()
}

fn refused(dir: &Path, arguments: &[&str]) -> String {
    let output = tantalum(dir, arguments);
    let said = String::from_utf8(output.stderr).unwrap();
    let message: String = said.split_inclusive('\n').filter(|line| !line.starts_with("note: ")).collect();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {message}");
    assert!(message.starts_with("error: ") && message.lines().count() == 1, "{arguments:?}: {message}");
    message
}

/// A drive served in the background, stopped at the end whatever a test finds.
struct Served(TempDir);

impl Served {
    fn start() -> Served {
        let dir = TempDir::new().unwrap();
        printed(dir.path(), &["create", IMAGE, "--capacity", "64M"]);
        let served = Served(dir);
        let line = printed(served.dir(), &SERVE);
        assert!(line.contains("is served by process") && line.contains("nvme connect"), "{line}");
        served
    }

    fn dir(&self) -> &Path {
        self.0.path()
    }

    fn stat(&self) -> Value {
        serde_json::from_str(&printed(self.dir(), &["stat", IMAGE, "--json"])).unwrap()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // Most tests have stopped it.
        let _ = tantalum(self.dir(), &["stop", IMAGE]);
    }
}

#[test]
fn a_served_drive_is_counted_cut_and_stopped() {
    let served = Served::start();
    let report = served.stat();
    assert_eq!(report["has_power"], true, "{report}");
    assert_eq!(report["served"]["power_losses"], 0, "{report}");
    let address = report["served"]["address"].as_str().unwrap();
    assert!(address.starts_with("127.0.0.1:") && !address.ends_with(":0"), "{address}");
    let table = printed(served.dir(), &["stat", IMAGE]);
    assert!(table.contains(&format!("served at {address}\n")), "{table}");

    let line = printed(served.dir(), &["cut", IMAGE, "--seed", "1"]);
    assert!(line.contains("it recovers, and hosts may attach again (seed 1)"), "{line}");
    let started = Instant::now();
    while served.stat()["served"]["power_losses"] != 1 || served.stat()["has_power"] != true {
        assert!(started.elapsed() < Duration::from_secs(60), "it has not recovered: {}", served.stat());
        std::thread::sleep(Duration::from_millis(20));
    }

    assert_eq!(printed(served.dir(), &["stop", IMAGE]), "");
    assert!(!served.dir().join("drive.tant.sock").exists());
    let log = std::fs::read_to_string(served.dir().join("drive.tant.log")).unwrap();
    let order = ["served at", "lost power", "has recovered", "stopped: everything is durable"];
    let places: Vec<_> = order.iter().map(|text| log.find(text)).collect();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{log}");
    printed(served.dir(), &["info", IMAGE]);
    let message = refused(served.dir(), &["stop", IMAGE]);
    assert!(message.contains("nothing answers at") && message.contains("drive.tant.sock"), "{message}");
    let message = refused(served.dir(), &["stat", IMAGE]);
    assert!(message.contains("not being served; `tantalum info drive.tant` shows its drive"), "{message}");
    let message = refused(served.dir(), &["cut", IMAGE]);
    assert!(
        message.contains("drive.tant is neither a folder with a mounted volume nor an image that is served"),
        "{message}"
    );
}

/// Its log is beside the image, whose disk may be unmounted next.
#[test]
fn who_served_an_image_is_gone_when_it_is_stopped() {
    let dir = TempDir::new().unwrap();
    printed(dir.path(), &["create", IMAGE, "--capacity", "64M"]);
    for _ in 0..5 {
        let served = printed(dir.path(), &SERVE);
        let process = served.split(" by process ").nth(1).unwrap().split_whitespace().next().unwrap();
        printed(dir.path(), &["stop", IMAGE]);
        // without a parent that asks how it ended it may stay, with nothing open
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        let is_gone = stat.rsplit(')').next().is_none_or(|rest| rest.is_empty() || rest.starts_with(" Z"));
        assert!(is_gone, "{stat}");
    }
}

#[test]
fn an_image_may_have_any_name() {
    use std::os::unix::ffi::OsStrExt;
    let dir = TempDir::new().unwrap();
    for name in [&b"k\xff.tant"[..], b"-x.tant"] {
        let image = std::ffi::OsStr::from_bytes(name);
        let run = |arguments: &[&str]| {
            let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_tantalum"));
            let output =
                command.args(arguments).arg("--").arg(image).current_dir(dir.path()).output().unwrap();
            let message = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "{arguments:?} of {image:?}: {message}");
            output.stdout
        };
        run(&["create", "--capacity", "64M"]);
        run(&["serve", "--background", "--time", "none", "--listen", "127.0.0.1:0"]);
        let stat: serde_json::Value = serde_json::from_slice(&run(&["stat", "--json"])).unwrap();
        match image.to_str() {
            Some(text) => assert!(stat["image"].as_str().unwrap().ends_with(text), "{stat}"),
            None => {
                let bytes: Vec<u8> = serde_json::from_value(stat["image"]["bytes"].clone()).unwrap();
                assert!(bytes.ends_with(name), "{stat}");
            }
        }
        run(&["stat", "--reset"]);
        run(&["cut"]);
        run(&["stop"]);
        run(&["info", "--json"]);
    }
}

#[test]
fn an_image_that_is_served_is_in_use() {
    let served = Served::start();
    for arguments in [&SERVE[..], &SERVE[..6], &["check", IMAGE, "--repair"]] {
        let message = refused(served.dir(), arguments);
        assert!(message.contains("drive.tant") && message.contains("in use"), "{arguments:?}: {message}");
    }
    assert_eq!(served.stat()["has_power"], true, "who was refused has changed nothing");
}

/// The addresses and ports in the commands that a line of `serve` gives for attaching.
fn attached_at(line: &str) -> Vec<String> {
    let word = |text: &str| text.split([' ', ',', ';', '\n']).next().unwrap().to_owned();
    line.split(" -a ")
        .skip(1)
        .map(|rest| format!("{} {}", word(rest), word(rest.split(" -s ").nth(1).unwrap())))
        .collect()
}

#[test]
fn the_hint_says_where_hosts_reach_the_drive() {
    let dir = TempDir::new().unwrap();
    printed(dir.path(), &["create", IMAGE, "--capacity", "64M"]);
    let served = Served(dir);
    let serve = |options: &[&str]| {
        let line =
            printed(served.dir(), &[&["serve", IMAGE, "--time", "none", "--background"], options].concat());
        let stat = served.stat();
        // programs take the name from this line
        let named = line.split(" -n ").nth(1).unwrap().split_whitespace().next();
        assert_eq!(named, stat["served"]["name"].as_str());
        let port = stat["served"]["address"].as_str().unwrap().rsplit(':').next().unwrap().to_owned();
        printed(served.dir(), &["stop", IMAGE]);
        (line, port)
    };
    let here = ["--listen", "127.0.0.1:0"];
    let (line, port) = serve(&here);
    assert_eq!(attached_at(&line), [format!("127.0.0.1 {port}")], "{line}");
    let (_, uuid) = line.split_once("(its blocks are then at /dev/disk/by-id/nvme-uuid.").unwrap();
    assert_eq!(uuid.find(')'), Some(36), "{line}");
    let (line, _) = serve(&[&here[..], &["--advertise", "192.0.2.7:1234"]].concat());
    assert_eq!(attached_at(&line), ["192.0.2.7 1234"], "{line}");
    let (line, port) = serve(&[&here[..], &["--advertise", "2001:db8::7"]].concat());
    assert_eq!(attached_at(&line), [format!("2001:db8::7 {port}")], "{line}");
    // nobody can connect to the address that stands for all
    let secret = tantalum_nvme::authentication::Secret::new(vec![1; 32], None).unwrap().text();
    let (host, secrets) = ("nqn.2014-08.org.example:a", served.dir().join("secrets"));
    std::fs::write(&secrets, format!("{host} {secret}\n")).unwrap();
    std::fs::set_permissions(&secrets, std::fs::Permissions::from_mode(0o600)).unwrap();
    let (line, port) = serve(&["--listen", "0.0.0.0:0", "--allow-host", host, "--host-secrets", "secrets"]);
    let addresses = attached_at(&line);
    assert!(!addresses.is_empty(), "{line}");
    for address in addresses {
        let (ip, at) = address.split_once(' ').unwrap();
        let ip: std::net::Ipv4Addr = ip.parse().unwrap();
        assert!(!ip.is_unspecified() && at == port, "{line}");
        // each address is one of this machine
        std::net::TcpListener::bind((ip, 0)).unwrap();
    }
    for address in ["0.0.0.0", "host:4420", "192.0.2.7:0"] {
        let refused = tantalum(served.dir(), &["serve", IMAGE, "--advertise", address]);
        assert_eq!(refused.status.code(), Some(2));
        let message = String::from_utf8(refused.stderr).unwrap();
        assert!(message.contains("is not an address that hosts can connect to"), "{message}");
    }
}

#[test]
fn other_addresses_and_bad_names_are_refused_before_an_image_is_created() {
    let dir = TempDir::new().unwrap();
    let create = ["serve", IMAGE, "--create", "--capacity", "64M"];
    for address in ["0.0.0.0:4420", "192.0.2.1:4420", "[::]:4420"] {
        for background in [&[][..], &["--background"]] {
            let message = refused(dir.path(), &[&create[..], &["--listen", address], background].concat());
            assert!(
                message.contains(address) && message.contains("listen on 127.0.0.1 or [::1]"),
                "{message}"
            );
        }
    }
    let open =
        [&create[..], &["--listen", "0.0.0.0:4420", "--allow-host", "nqn.2014-08.org.example:a"]].concat();
    let message = refused(dir.path(), &open);
    assert!(message.contains("nqn.2014-08.org.example:a may connect without a secret"), "{message}");
    let secrets = dir.path().join("secrets");
    std::fs::write(&secrets, "nqn.2014-08.org.example:a DHHC-1:00:AAAA:\n").unwrap();
    let with_file = [&open[..], &["--host-secrets", "secrets"]].concat();
    for (mode, expected) in [(0o640, "chmod 600 secrets"), (0o600, "secrets, line 1: the secret has 0 bytes")]
    {
        std::fs::set_permissions(&secrets, std::fs::Permissions::from_mode(mode)).unwrap();
        let message = refused(dir.path(), &with_file);
        assert!(message.contains(expected), "{message}");
    }
    let message = refused(dir.path(), &[&create[..], &["--allow-host", "drive"]].concat());
    assert!(message.contains("\"drive\" is not an NVMe qualified name"), "{message}");
    let message = refused(dir.path(), &[&create[..], &["--nqn", "drive"]].concat());
    assert!(message.contains("\"drive\" is not an NVMe qualified name"), "{message}");
    assert!(!dir.path().join(IMAGE).exists());
}

/// Which is told before an image is created, also by a build without TLS.
#[test]
fn keys_for_tls_let_other_machines_in_and_must_be_good() {
    let dir = TempDir::new().unwrap();
    let listen = ["serve", IMAGE, "--create", "--capacity", "64M", "--listen", "0.0.0.0:0"];
    let with_keys = [&listen[..], &["--tls-keys", "keys"]].concat();
    let keys = dir.path().join("keys");
    let key = tantalum_nvme::authentication::TlsKey::new(&[1; 32], true).unwrap().text();
    for (mode, line, expected) in [
        (0o640, "nqn.2014-08.org.example:a x".to_owned(), "chmod 600 keys"),
        (
            0o600,
            "nqn.2014-08.org.example:a x".to_owned(),
            "keys, line 1: not of the form NVMeTLSkey-1:HH:BASE64:",
        ),
        (
            0o600,
            format!("nqn.2014-08.org.example:a {key} old"),
            "keys, line 1: a line is a host's NQN, its key",
        ),
        (0o600, format!("drive {key}"), "\"drive\" is not an NVMe qualified name"),
    ] {
        std::fs::write(&keys, line).unwrap();
        std::fs::set_permissions(&keys, std::fs::Permissions::from_mode(mode)).unwrap();
        let message = refused(dir.path(), &with_keys);
        assert!(message.contains(expected), "{message}");
    }
    std::fs::write(&keys, format!("nqn.2014-08.org.example:a {key}\n")).unwrap();
    let message = refused(dir.path(), &[&with_keys[..], &["--tls", "allowed"]].concat());
    assert!(message.contains("any host may connect without a secret"), "{message}");
    if cfg!(not(feature = "tls")) {
        let message = refused(dir.path(), &with_keys);
        assert!(message.contains("this build has no TLS: build with `cargo install"), "{message}");
    }
    assert!(!dir.path().join(IMAGE).exists());
}

#[test]
#[cfg(feature = "tls")]
fn a_host_attaches_with_tls() {
    use tantalum_nvme::client::{Client, Names, Options};
    let served = Served::start();
    printed(served.dir(), &["stop", IMAGE]);
    let key = tantalum_nvme::authentication::TlsKey::new(&[1; 32], true).unwrap();
    let (host, keys) = ("nqn.2014-08.org.example:a", served.dir().join("keys"));
    std::fs::write(&keys, format!("{host} {}\n", key.text())).unwrap();
    std::fs::set_permissions(&keys, std::fs::Permissions::from_mode(0o600)).unwrap();
    let serve = ["serve", IMAGE, "--background", "--listen", "0.0.0.0:0", "--tls-keys", "keys"];
    let line = printed(served.dir(), &serve);
    assert!(line.contains(" --tls "), "{line}");
    let stat = served.stat();
    let port = stat["served"]["address"].as_str().unwrap().rsplit_once(':').unwrap().1.to_owned();
    let names = Names {
        subsystem: stat["served"]["name"].as_str().unwrap().to_owned(),
        host: host.to_owned(),
        host_id: [1; 16],
    };
    let address = format!("127.0.0.1:{port}").parse().unwrap();
    for (tls, is_let_in) in [(Some(key), true), (None, false)] {
        let attached = Client::admin(address, Options { tls, ..Options::default() }, &names, 0);
        assert_eq!(attached.is_ok(), is_let_in, "{attached:?}");
    }
}

#[test]
fn a_drive_is_served_at_several_ports_whose_access_changes() {
    let served = Served::start();
    printed(served.dir(), &["stop", IMAGE]);
    let two = ["serve", IMAGE, "--background", "--listen", "127.0.0.1:0,127.0.0.1:0"];
    let line = printed(served.dir(), &[&two[..], &["--access", "non-optimized"]].concat());
    assert_eq!(line.matches("nvme connect -t tcp").count(), 2, "{line}");
    let accesses = || -> Vec<String> {
        let stat = served.stat();
        let ports = stat["served"]["ports"].as_array().unwrap();
        ports.iter().map(|port| port["access"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(accesses(), ["non-optimized", "optimized"]);
    let line = printed(served.dir(), &["access", IMAGE, "2", "inaccessible"]);
    assert_eq!(line, "drive.tant is inaccessible through port 2\n");
    assert_eq!(accesses(), ["non-optimized", "inaccessible"]);
    let table = printed(served.dir(), &["stat", IMAGE]);
    assert!(table.contains("port 2 at 127.0.0.1:") && table.contains(": inaccessible\n"), "{table}");
    let message = refused(served.dir(), &["access", IMAGE, "3", "optimized"]);
    assert!(message.contains("there is no port 3: the drive is served at ports 1 to 2"), "{message}");
    printed(served.dir(), &["stop", IMAGE]);
    let message = refused(served.dir(), &["access", IMAGE, "1", "optimized"]);
    assert!(message.contains(IMAGE), "{message}");
    let message = refused(served.dir(), &[&two[..], &["--advertise", "192.0.2.7:1"]].concat());
    assert!(message.contains("leave out the port of --advertise"), "{message}");
    let message = refused(served.dir(), &["serve", IMAGE, "--access", "optimized,change"]);
    assert!(message.contains("--access names 2 accesses, and --listen 1 addresses"), "{message}");
}

#[test]
fn a_port_in_use_is_refused_and_leaves_the_image_closed() {
    let served = Served::start();
    let address = served.stat()["served"]["address"].as_str().unwrap().to_owned();
    let dir = TempDir::new().unwrap();
    let create = ["serve", IMAGE, "--create", "--capacity", "64M", "--listen", &address];
    let message = refused(dir.path(), &create);
    assert!(message.contains(&address) && message.contains("in use"), "{message}");
    printed(dir.path(), &["check", IMAGE]);
}

/// The drive was served on although the command had said that it failed, and nobody knew by which process.
#[test]
fn a_background_process_of_which_nobody_can_be_told_ends() {
    let dir = TempDir::new().unwrap();
    printed(dir.path(), &["create", IMAGE, "--capacity", "64M"]);
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_tantalum"))
        .args(SERVE)
        .current_dir(dir.path())
        .stdout(full)
        .output()
        .unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains("No space left on device"), "{message}");
    let log = std::fs::read_to_string(dir.path().join("drive.tant.log")).unwrap();
    assert!(log.contains("stopped: everything is durable"), "{log}");
    printed(dir.path(), &["check", IMAGE]);
}
