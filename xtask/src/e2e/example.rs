//! An example of `crates/fronts/fuse` that mounts something, and that is stopped however the step ends.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::context::Context;
use super::failure::{Failure, ensure};
use super::shell::Shell;

/// How long it may take to mount.
const LIMIT: Duration = Duration::from_secs(10);

/// An example that runs.
pub struct Example {
    process: Child,
    pub folder: PathBuf,
}

impl Example {
    /// Creates `folder`, and has the example mount its view of `source` there.
    pub fn start(context: &Context, name: &str, source: &Path, folder: PathBuf) -> Result<Example, Failure> {
        fs::create_dir(&folder)?;
        let program = context.target.join("release/examples").join(name);
        let process = Command::new(program).args([source, &folder]).stdin(Stdio::null()).spawn()?;
        let started = Example { process, folder };
        let limit = Instant::now() + LIMIT;
        while !fs::read_to_string("/proc/self/mounts")?.contains(&*started.folder.to_string_lossy()) {
            ensure(Instant::now() < limit, || format!("the example {name} does not mount"))?;
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(started)
    }
}

impl Drop for Example {
    fn drop(&mut self) {
        let _ = Shell::new("umount").args(["--lazy"]).args([&self.folder]).output();
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
