//! Mounting a file system, and how a mount ends: unmounting, signals, a drive that lost power.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use fuser::{Config, MountOption, Notifier, Session, SessionACL};
use nix::unistd::geteuid;
use parking_lot::Mutex;
use tantalum::{PowerLoss, Status};
use tantalum_control::{self as control, End, Ended, Socket};
use tantalum_drive::Answers;
use tantalum_filesystem::FileSystem;
use tantalum_record::{Recorder, Tape};

use crate::control::Mount;
use crate::error::MountError;
use crate::front::{Changed, Front, OnStop};
use crate::host::Host;
use crate::mount_point;
use crate::options::Options;
use crate::requests::Requests;

/// How a mount ended without an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// Everything is durable and the drive is shut down.
    Closed,
    /// Programs had files open when the mount was ended. What the kernel had passed on is durable, and the drive is shut down.
    CutOff,
    /// The drive had lost power: the next mount recovers.
    PowerLost,
    /// The drive could only be read: nothing was changed.
    OnlyRead,
}

/// Messages to the waiting thread.
enum Event {
    Ended,
    Stop,
    DriveStopped(Status),
}

/// An event that the user who mounted the volume should know about.
#[derive(Debug)]
pub enum Notice<'a> {
    /// The drive stopped for good, with this error: from now on changes fail, and without power every request.
    DriveStopped(&'a Status),
    /// The volume is unmounted, and its image closed or not.
    Ended(&'a Result<Ending, MountError>),
}

/// A mounted volume.
pub struct Mounted {
    subject: Arc<Mount>,
    events: Receiver<Event>,
    sender: Sender<Event>,
    /// Dropped to end the thread that syncs.
    syncing: Sender<()>,
    socket: Socket,
}

/// Ends a mount, from any thread.
#[derive(Clone)]
pub struct Stopper(Sender<Event>);

impl Stopper {
    /// Unmounts; programs with open files are cut off.
    pub fn stop(&self) {
        // Nothing listens on a mount that has ended.
        let _ = self.0.send(Event::Stop);
    }
}

impl Mounted {
    /// Mounts a file system. If that fails, the file system is closed and the drive shut down; the error is why it could not be
    /// mounted, also if that fails too.
    pub fn mount(file_system: Box<dyn FileSystem>, options: &Options) -> Result<Mounted, MountError> {
        let from_ns = file_system.client().device().time_ns();
        let is_possible = !options.atomic_writes || file_system.has_whole_writes();
        let system = |error| MountError::System { folder: options.folder.clone(), error };
        let answers = Answers::new(options.pacing, from_ns).map_err(system)?;
        let Options { atomic_writes, sync_writes, write_back, .. } = *options;
        let tape = Tape::default();
        let recorder = Box::new(Recorder::new(file_system, tape.clone()));
        let host = Host { atomic_writes, sync_writes, write_back, ..Host::new(recorder) };
        let front = Arc::new(Front::new(host, answers));
        let mounted = if is_possible { mount(&front, tape, options) } else { Err(MountError::NoWholeWrites) };
        if mounted.is_err()
            && let Some(host) = front.take()
        {
            let _ = close(host, 0, Ending::Closed);
        }
        mounted
    }

    /// A handle that can end the mount from another thread.
    pub fn stopper(&self) -> Stopper {
        Stopper(self.sender.clone())
    }

    /// Records what is done to the file system.
    pub fn tape(&self) -> &Tape {
        &self.subject.tape
    }

    /// Waits until anyone unmounts the volume, and closes its image. `notice` is called if the drive stopped, and with
    /// how the mount ended, before clients of the control socket learn of it.
    pub fn wait(self, mut notice: impl FnMut(Notice<'_>)) -> Result<Ending, MountError> {
        let (host, ending) = self.wait_for_unmount(&mut notice);
        // before the image: who opens that next has a socket at the same place
        drop(self.socket);
        drop(self.syncing);
        let seed = self.subject.seed.load(Ordering::Relaxed);
        let ending = host.map_or(Ok(ending), |host| close(host, seed, ending));
        drop(self.subject.tried.lock().take());
        notice(Notice::Ended(&ending));
        self.subject.end.come(ended(&ending));
        ending
    }

    /// Returns the file system, which answers nobody any more, and how the mount ends, if its image can be closed.
    fn wait_for_unmount(&self, notice: &mut impl FnMut(Notice<'_>)) -> (Option<Host>, Ending) {
        while let Ok(event) = self.events.recv() {
            match event {
                Event::DriveStopped(status) => notice(Notice::DriveStopped(&status)),
                Event::Ended => break,
                Event::Stop => {
                    if mount_point::unmount(&self.subject.folder).is_err() {
                        // Programs that still have files open get errors from now on, before the names are gone: one that
                        // found no log would take its data for whole, and change them.
                        let host = self.subject.front.take();
                        mount_point::detach(&self.subject.folder);
                        return (host, Ending::CutOff);
                    }
                }
            }
        }
        (self.subject.front.take(), Ending::Closed)
    }
}

/// How a mount ended, for clients that asked.
fn ended(ending: &Result<Ending, MountError>) -> Ended {
    match ending {
        Ok(Ending::Closed | Ending::CutOff | Ending::OnlyRead) => Ended::Closed,
        Ok(Ending::PowerLost) => Ended::PowerLost,
        Err(error) => Ended::Failed(error.to_string()),
    }
}

fn mount(front: &Arc<Front>, tape: Tape, options: &Options) -> Result<Mounted, MountError> {
    let folder = mount_point::check(&options.folder)?;
    let system = |error| MountError::System { folder: folder.clone(), error };
    let image = options.image.canonicalize().map_err(system)?;
    let observed =
        front.look(|host| (host.file_system.client().drive().downgrade(), is_only_read(&*host.file_system)));
    let (drive, only_read) = observed.expect("the file system was not taken out yet");
    let requests = Requests { front: Arc::clone(front), tape: tape.clone() };
    let session = Session::new(requests, &folder, &config(&image, options, only_read));
    let session = session.map_err(system)?;
    let (changed, changes) = mpsc::channel();
    *front.changed.lock() = Some(changed);
    let notifier = session.notifier();
    let (sender, events) = mpsc::channel();
    *front.on_stop.lock() = Some(tell_of_stop(sender.clone()));
    let (syncing, end_of_syncing) = mpsc::channel();
    let subject = Arc::new(Mount {
        front: Arc::clone(front),
        image: image.clone(),
        folder: folder.clone(),
        options: options.clone(),
        tape,
        drive,
        tried: Mutex::new(None),
        seed: AtomicU64::new(0),
        end: End::default(),
    });
    let socket = control::serve(Arc::clone(&subject)).map_err(|error| MountError::Socket { image, error })?;
    let ended = sender.clone();
    let serve = move || {
        // How the kernel disconnected does not matter: the volume is closed in any case.
        let _ = session.run();
        let _ = ended.send(Event::Ended);
    };
    start("requests", serve).map_err(system)?;
    start("changes", move || drop_cached(&changes, &notifier)).map_err(system)?;
    let (synced, interval) = (Arc::clone(front), options.sync_interval);
    if !only_read {
        start("sync", move || sync_now_and_then(&synced, &end_of_syncing, interval)).map_err(system)?;
    }
    Ok(Mounted { subject, events, sender, syncing, socket })
}

/// Whether the drive could only be opened to be read. The kernel then refuses changes, with `EROFS`.
fn is_only_read(file_system: &dyn FileSystem) -> bool {
    matches!(file_system.client().device().refuses_changes(), Some(Status::WriteProtected(_)))
}

fn tell_of_stop(sender: Sender<Event>) -> OnStop {
    // Nothing listens on a mount that has ended.
    Box::new(move |status| drop(sender.send(Event::DriveStopped(status))))
}

fn start(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().name(name.to_owned()).spawn(work).map(drop)
}

/// The kernel checks permissions. As root the mount is for everybody. An ordinary user may need permission for that in
/// `/etc/fuse.conf`; without it, the mount is for that user only.
fn config(image: &Path, options: &Options, only_read: bool) -> Config {
    let is_root = geteuid().is_root();
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName(mount_point::source_of(image, !is_root)),
        MountOption::DefaultPermissions,
        MountOption::NoAtime,
    ];
    if only_read {
        config.mount_options.push(MountOption::RO);
    }
    if is_root {
        config.mount_options.extend([MountOption::Dev, MountOption::Suid]);
        config.acl = SessionACL::All;
    }
    config.n_threads = Some(options.threads.max(1));
    config.clone_fd = is_root && options.threads > 1;
    config
}

/// See [`Changed`].
fn drop_cached(changes: &Receiver<Changed>, notifier: &Notifier) {
    for change in changes {
        for file in change.files {
            // What the kernel does not know it has not cached.
            let _ = notifier.inval_inode(file, 0, 0);
        }
        change.reply.ioctl(0, &change.out);
    }
}

fn sync_now_and_then(front: &Front, end: &Receiver<()>, interval: Duration) {
    while end.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
        // An error here occurs again in a program's own sync, which reports it.
        let _ = front.with(|host| Ok(host.file_system.write_back()?));
    }
}

/// Closes the file system. Returns `ending`, unless the drive has no power.
fn close(host: Host, seed: u64, ending: Ending) -> Result<Ending, MountError> {
    let file_system = host.file_system;
    if !file_system.client().device().has_power() {
        // if others still have the drive, the last of them settles it
        if let Ok(mut device) = file_system.into_client_without_sync().into_device() {
            device.settle_power_loss(&mut PowerLoss::seeded(seed)).map_err(MountError::PowerLoss)?;
        }
        return Ok(Ending::PowerLost);
    }
    if is_only_read(&*file_system) {
        drop(file_system.into_client_without_sync());
        return Ok(Ending::OnlyRead);
    }
    if let Some(status) = file_system.client().end() {
        return Err(MountError::Volume(status.into()));
    }
    let client = file_system.unmount().map_err(MountError::Volume)?;
    if let Ok(device) = client.into_device() {
        let now_ns = device.time_ns();
        device.shutdown(now_ns).map_err(MountError::Shutdown)?;
    }
    Ok(ending)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use tantalum::{Command, CommandFailure};
    use tantalum_drive::Pacing;

    use super::*;
    use crate::host::tests::memory;
    use crate::options::SYNC_INTERVAL;

    #[test]
    fn atomic_writes_are_refused_on_a_file_system_without_them() {
        let options = Options {
            image: PathBuf::from("/nowhere/drive.tant"),
            folder: PathBuf::from("/nowhere/mnt"),
            pacing: Pacing::None,
            threads: 1,
            atomic_writes: true,
            sync_writes: false,
            write_back: false,
            sync_interval: SYNC_INTERVAL,
        };
        let refused = Mounted::mount(Box::new(memory()), &options).err().expect("it is refused");
        assert!(matches!(refused, MountError::NoWholeWrites), "{refused}");
        // that it cannot be closed either was all that was said
        let failing = memory();
        failing.client().device().fail_command(Some((1, CommandFailure::HostBefore)));
        let at_ns = failing.client().device().time_ns();
        failing.client().device().submit(Command::Flush, at_ns).unwrap_err();
        let refused = Mounted::mount(Box::new(failing), &options).err().expect("it is refused");
        assert!(matches!(refused, MountError::NoWholeWrites), "{refused}");
    }
}
