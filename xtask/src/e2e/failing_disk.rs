//! An image on a file system that fails: each call on the image fails once, or from then on, while files are written and synced
//! through a mount. Then the volume is unmounted or its process is killed, and it is mounted without room, after a second failure,
//! and with room. What was synced is there, nothing else, and nothing hangs. Until it is unmounted, the mount whose image
//! failed goes on reading.
//!
//! About five calls fail for each kind of file system; with `FAILING_CALLS=all` every one does.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::libc::O_DIRECT;

use super::context::{Context, Done, Outcome};
use super::failure::{Failure, ensure, unless_refused};
use super::shell::{self, Shell};

const FILE_SYSTEMS: [&str; 3] = ["volume", "lfs-nat", "lfs-tree"];

/// How long one life may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Files that a life writes, each several times.
const FILES: u32 = 6;

/// A folder that fails, shown by a process of its own.
pub struct FailingFolder {
    folder: PathBuf,
    process: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl FailingFolder {
    pub fn show(source: &Path, folder: &Path) -> Result<FailingFolder, Failure> {
        let mut process = Command::new(std::env::current_exe()?)
            .arg("failing-folder")
            .args([source, folder])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = process.stdin.take();
        let output = BufReader::new(process.stdout.take().expect("a pipe was asked for"));
        let mut shown = FailingFolder { folder: folder.to_owned(), process, input, output };
        shown.answer("mounted")?;
        Ok(shown)
    }

    fn answer(&mut self, wanted: &str) -> Result<String, Failure> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        let said = line.trim_end().to_owned();
        ensure(wanted.is_empty() || said == wanted, || format!("the failing folder said {said:?}"))?;
        Ok(said)
    }

    fn tell(&mut self, line: &str, wanted: &str) -> Result<String, Failure> {
        writeln!(self.input.as_mut().expect("it is open"), "{line}")?;
        self.answer(wanted)
    }

    pub fn fail(&mut self, after: u64, how: &str) -> Result<(), Failure> {
        self.tell(&format!("fail {after} {how}"), "armed").map(drop)
    }

    /// The call that failed, if one did.
    pub fn heal(&mut self) -> Result<Option<String>, Failure> {
        let call = self.tell("heal", "")?;
        Ok((call != "none").then_some(call))
    }
}

impl Drop for FailingFolder {
    fn drop(&mut self) {
        // it unmounts when its input ends
        drop(self.input.take());
        if self.process.wait().is_err() {
            let _ = Shell::new("umount").args(["--lazy"]).args([&self.folder]).output();
        }
    }
}

/// What each file was since it was last synced, which comes first; none if it may not be there.
#[derive(Default)]
struct Model(BTreeMap<String, Vec<Option<Vec<u8>>>>);

impl Model {
    fn may_be(&mut self, name: &str, content: Vec<u8>) {
        self.0.entry(name.to_owned()).or_insert_with(|| vec![None]).push(Some(content));
    }

    fn last(&self, name: &str) -> Vec<u8> {
        self.0.get(name).and_then(|since| since.last().cloned().flatten()).unwrap_or_default()
    }

    fn synced(&mut self, name: &str) {
        let last = self.last(name);
        self.0.insert(name.to_owned(), vec![Some(last)]);
    }

    /// Whether a file may have this content, or may not be there.
    fn allows(&self, name: &str, data: Option<&Vec<u8>>) -> bool {
        let byte = |was: &Vec<u8>, at: usize| was.get(at).copied().unwrap_or(0);
        let versions = || self.0.get(name).into_iter().flatten().flatten();
        match data {
            None => self.0.get(name).is_none_or(|since| since.contains(&None)),
            Some(data) => {
                versions().any(|was| was.len() == data.len())
                    && (0..data.len()).all(|at| versions().any(|was| byte(was, at) == data[at]))
            }
        }
    }

    /// After the image has failed, the running mount answers reads with what is allowed, or with an error. Returns how many files
    /// were read.
    fn read_on(&self, folder: &Path) -> Result<u32, Failure> {
        let mut read = 0;
        for name in self.0.keys() {
            // past the kernel's cache
            let file = File::options().read(true).custom_flags(O_DIRECT).open(folder.join(name));
            let mut data = Vec::new();
            let found = match file.and_then(|mut file| file.read_to_end(&mut data)) {
                Ok(_) => Some(&data),
                Err(error) if error.kind() == ErrorKind::NotFound => None,
                Err(error) => {
                    let is_said = error.raw_os_error() == Some(Errno::EIO as i32);
                    ensure(is_said, || format!("{name}, after the image has failed: {error}"))?;
                    continue;
                }
            };
            read += u32::from(found.is_some());
            let length = found.map(Vec::len);
            ensure(self.allows(name, found), || format!("{name} with {length:?} bytes was never written"))?;
        }
        Ok(read)
    }

    /// What is found in a folder must be allowed.
    fn check(&self, folder: &Path, when: &str) -> Result<BTreeMap<String, Vec<u8>>, Failure> {
        let mut found = BTreeMap::new();
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            found.insert(entry.file_name().to_string_lossy().into_owned(), fs::read(entry.path())?);
        }
        for name in self.0.keys() {
            let data = found.get(name);
            let (is_allowed, length) = (self.allows(name, data), data.map(Vec::len));
            ensure(is_allowed, || format!("{when}: {name} with {length:?} bytes is not what was synced"))?;
        }
        let new = found.keys().find(|name| !self.0.contains_key(*name));
        ensure(new.is_none(), || format!("{when}: {new:?} was never written"))?;
        Ok(found)
    }
}

/// Creates, writes and syncs files until something fails.
fn work(folder: &Path, model: &mut Model) -> io::Result<()> {
    for step in 0..3 * FILES {
        let name = format!("file{}", step % FILES);
        let file =
            File::options().read(true).write(true).create(true).truncate(false).open(folder.join(&name));
        if model.last(&name).is_empty() {
            model.may_be(&name, Vec::new());
        }
        let (file, mut content) = (file?, model.last(&name));
        let (at, bytes) = ((step as usize * 3571) % 20_000, 1000 + (step as usize * 7919) % 30_000);
        content.resize(content.len().max(at + bytes), 0);
        content[at..at + bytes].fill(step as u8 + 1);
        model.may_be(&name, content.clone());
        file.write_all_at(&content[at..at + bytes], at as u64)?;
        if step % 4 != 3 {
            file.sync_all()?;
            model.synced(&name);
        }
    }
    Ok(())
}

/// An image in a folder that fails, and where it is mounted.
struct Stage<'a> {
    context: &'a Context,
    failing: FailingFolder,
    image: PathBuf,
    mounted_on: PathBuf,
    /// Files that mounts have read after the image had failed.
    read: u32,
}

/// A mount that worked.
struct Mount {
    process: String,
    is_only_read: bool,
}

impl Stage<'_> {
    fn mount(&self, options: &[&str]) -> Result<Mount, Failure> {
        let said = Shell::new(&self.context.tantalum)
            .args(["mount"])
            .args([&self.image, &self.mounted_on])
            .args(["--time", "none", "--background"])
            .args(options)
            .run()?;
        let process =
            said.split(" process ").nth(1).and_then(|rest| rest.split([' ', ',', ';', '\n']).next());
        let is_only_read = said.contains("it can only be read");
        let process = process.ok_or_else(|| Failure::Wrong(format!("mount said {said:?}")))?;
        Ok(Mount { process: process.to_owned(), is_only_read })
    }

    fn unmount(&self) -> Result<(), Failure> {
        Shell::new(&self.context.tantalum).args(["unmount"]).args([&self.mounted_on]).run().map(drop)
    }

    /// One life in which call number `call` fails. False if there were fewer calls.
    fn fail_at(&mut self, call: u64, how: &str) -> Result<bool, Failure> {
        let mut model = Model::default();
        self.failing.fail(call, how)?;
        let worked = match unless_refused(self.mount(&[]))? {
            Some(mount) if mount.is_only_read => {
                self.unmount()?;
                Ok(())
            }
            Some(mount) => {
                let worked = work(&self.mounted_on, &mut model);
                if worked.is_err() {
                    self.read += model.read_on(&self.mounted_on)?;
                }
                if !call.is_multiple_of(2) {
                    shell::kill(&mount.process)?;
                } else if unless_refused(self.unmount())?.is_some() && worked.is_ok() {
                    let names: Vec<String> = model.0.keys().cloned().collect();
                    names.iter().for_each(|name| model.synced(name));
                }
                worked
            }
            None => Ok(()),
        };
        let failed = self.failing.heal()?;
        if let Err(error) = worked {
            let is_said = error.raw_os_error() == Some(Errno::EIO as i32);
            ensure(is_said && failed.is_some(), || format!("a file could not be written: {error}"))?;
        }
        self.find(&model, call)?;
        Ok(failed.is_some())
    }

    fn find(&mut self, model: &Model, call: u64) -> Result<(), Failure> {
        self.failing.fail(0, "enospc on")?;
        let without_room = self.mount(&[])?;
        model.check(&self.mounted_on, "without room")?;
        if without_room.is_only_read {
            let refused = fs::write(self.mounted_on.join("new"), "").expect_err("there is no room");
            ensure(refused.raw_os_error() == Some(Errno::EROFS as i32), || format!("a change: {refused}"))?;
            self.unmount()?;
        } else {
            shell::kill(&without_room.process)?;
        }
        self.failing.fail(call * 7 % 40, "eio once")?;
        if let Some(mount) = unless_refused(self.mount(&[]))? {
            shell::kill(&mount.process)?;
        }
        self.failing.heal()?;
        let mount = self.mount(&[])?;
        ensure(!mount.is_only_read, || "there is room".to_owned())?;
        for name in model.check(&self.mounted_on, "with room")?.keys() {
            fs::remove_file(self.mounted_on.join(name))?;
        }
        self.unmount()
    }
}

/// Returns how many calls failed, and how many files were read after that by the mounts whose image had failed.
fn run_on(context: &Context, folder: &Path, file_system: &str) -> Result<(u32, u32), Failure> {
    let [source, shown, mounted_on] = ["source", "shown", "mnt"].map(|name| folder.join(name));
    for made in [&source, &shown, &mounted_on] {
        fs::create_dir_all(made)?;
    }
    let failing = FailingFolder::show(&source, &shown)?;
    let mut stage = Stage { context, failing, image: shown.join("drive.tant"), mounted_on, read: 0 };
    stage.mount(&["--create", "--capacity", "64M", "--file-system", file_system])?;
    stage.unmount()?;
    let mut failures = 0;
    for how in ["eio once", "enospc on"] {
        let mut call = if how == "eio once" { 3 } else { 40 };
        loop {
            let at = format!("{file_system}, call {call} {how}");
            match stage.fail_at(call, how) {
                Ok(true) => failures += 1,
                Ok(false) => break,
                Err(failure) => return Err(Failure::Wrong(format!("{at}: {failure}"))),
            }
            call += if fail_all() { 1 } else { 30 + call };
        }
    }
    ensure(failures > 3, || format!("{file_system}: only {failures} calls failed"))?;
    ensure(stage.read > failures, || format!("{file_system}: only {} files were read", stage.read))?;
    Ok((failures, stage.read))
}

/// Whether every call fails once, instead of some.
pub fn fail_all() -> bool {
    std::env::var("FAILING_CALLS").is_ok_and(|text| text == "all")
}

/// Works on an image in a folder that fails. What hangs must not hang the test.
pub fn unless_it_hangs<T: Send>(
    shown: &Path,
    work: impl FnOnce() -> Result<T, Failure> + Send,
) -> Result<T, Failure> {
    let (sender, ended) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(move || drop(sender.send(work())));
        let patience = if fail_all() { 100 * PATIENCE } else { PATIENCE };
        ended.recv_timeout(patience).unwrap_or_else(|_| {
            let _ = Shell::new("umount").args(["--lazy", "--force"]).args([shown]).output();
            Err(Failure::Wrong(format!("{}: something hangs", shown.display())))
        })
    })
}

pub fn run(context: &Context, folder: &Path) -> Outcome {
    let mut said = Vec::new();
    for file_system in FILE_SYSTEMS {
        let own = folder.join(file_system);
        fs::create_dir(&own)?;
        let (failures, read) = unless_it_hangs(&own.join("shown"), || run_on(context, &own, file_system))?;
        said.push(format!("{file_system} {failures} ({read})"));
    }
    let said = said.join(", ");
    Ok(Done::Said(format!("               calls that failed (and files then read): {said}")))
}
