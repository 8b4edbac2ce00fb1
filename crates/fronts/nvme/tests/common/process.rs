//! A server in a separate process, to be killed. The process is the test binary, with a test that calls [`serve_image`].

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tantalum::Device;
use tantalum_drive::Pacing;
use tantalum_nvme::serve::Served;

use super::serving;

/// The image that the child process serves.
const IMAGE: &str = "TANTALUM_TEST_SERVES";
/// What it prints before its address.
const SERVES: &str = "serves at ";
/// The test that calls [`serve_image`], ignored unless requested.
const TEST: &str = "broken_network::serves_until_it_is_killed";

/// Serves the image that the environment names, if it names one.
pub fn serve_image() {
    let Some(image) = std::env::var_os(IMAGE) else { return };
    let options = serving(Path::new(&image), Pacing::None);
    let served = Served::start(Device::open(Path::new(&image)).unwrap(), &options).unwrap();
    println!("\n{SERVES}{}", served.address());
    served.wait(|_| ()).unwrap();
}

/// The process.
pub struct Process(Child);

impl Process {
    pub fn start(image: &Path) -> (Process, SocketAddr) {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([TEST, "--exact", "--ignored", "--nocapture"])
            .env(IMAGE, image)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let process = Process(child);
        for line in output.lines() {
            if let Some(address) = line.unwrap().strip_prefix(SERVES) {
                return (process, address.parse().unwrap());
            }
        }
        panic!("the server did not start");
    }

    /// Kills the process, as `kill -9` does.
    pub fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
