//! `cargo xtask failing-folder SOURCE FOLDER`: shows a folder of the host at another one, and fails when it is told to. A step of
//! `cargo xtask e2e` puts an image there.
//!
//! It knows files in one folder, without folders in it. The calls that may fail are counted: reads, writes, growth, reservations
//! and syncs. A write that fails may have been made in part. Lines on standard input tell it what to do, and each is answered
//! by a line on standard output:
//!
//! - `fail AFTER eio|enospc once|on`: after so many more calls the first one that can fail in this way does, or all from then on.
//! - `heal`: no call fails any more. The answer is the call that failed first, or `none`.
//!
//! It unmounts when its standard input ends.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, BufRead};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use clap::Args;
use fuser::{
    BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    LockOwner, MountOption, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyWrite, Request, Session, SessionACL, TimeOrNow, WriteFlags,
};
use nix::fcntl::{FallocateFlags, fallocate};
use nix::sys::stat::{Mode, SFlag, mknod};
use nix::unistd::geteuid;

/// `cargo xtask failing-folder`.
#[derive(Args, Debug)]
pub struct Options {
    /// The folder that is shown
    source: PathBuf,
    /// Where
    folder: PathBuf,
}

impl Options {
    /// Where it is shown.
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

/// How long the kernel may believe what it was told: others do not change the folder.
const BELIEVED: Duration = Duration::from_secs(3600);

/// What fails.
#[derive(Clone, Copy, Debug)]
struct Fault {
    after: u64,
    has_room: bool,
    lasts: bool,
}

#[derive(Debug, Default)]
struct Faults {
    calls: u64,
    armed: Option<Fault>,
    failed: Option<&'static str>,
}

impl Faults {
    /// How a call fails, if it does.
    fn next(&mut self, call: &'static str) -> Option<Errno> {
        self.calls += 1;
        let fault = self.armed?;
        let is_due = self.calls > fault.after && (fault.lasts || self.failed.is_none());
        if !is_due || (!fault.has_room && matches!(call, "read" | "fsync")) {
            return None;
        }
        self.failed.get_or_insert(call);
        Some(if fault.has_room { Errno::EIO } else { Errno::ENOSPC })
    }

    fn obey(&mut self, line: &str) -> Option<String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["fail", after, error @ ("eio" | "enospc"), how @ ("once" | "on")] => {
                let after = self.calls + after.parse::<u64>().ok()?;
                self.armed = Some(Fault { after, has_room: error == "eio", lasts: how == "on" });
                self.failed = None;
                Some("armed".to_owned())
            }
            ["heal"] => {
                self.armed = None;
                Some(self.failed.take().unwrap_or("none").to_owned())
            }
            _ => None,
        }
    }
}

struct Failing {
    source: PathBuf,
    faults: Arc<Mutex<Faults>>,
    nodes: Mutex<Nodes>,
}

#[derive(Default)]
struct Nodes {
    numbers: HashMap<OsString, u64>,
    /// By number, from 2 on; none for what is not a regular file.
    nodes: Vec<(OsString, Option<Arc<File>>)>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Failing {
    fn asked(&self, call: &'static str) -> Result<(), Errno> {
        locked(&self.faults).next(call).map_or(Ok(()), Err)
    }

    fn attributes(inode: u64, metadata: &fs::Metadata) -> FileAttr {
        let kind = match metadata.file_type() {
            kind if kind.is_dir() => FileType::Directory,
            kind if kind.is_socket() => FileType::Socket,
            _ => FileType::RegularFile,
        };
        let time = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        FileAttr {
            ino: INodeNo(inode),
            size: metadata.size(),
            blocks: metadata.blocks(),
            atime: time,
            mtime: time,
            ctime: time,
            crtime: time,
            kind,
            perm: (metadata.mode() & 0o7777) as u16,
            nlink: metadata.nlink() as u32,
            uid: metadata.uid(),
            gid: metadata.gid(),
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }

    /// A file that exists.
    fn find(&self, name: &OsStr) -> io::Result<FileAttr> {
        let path = self.source.join(name);
        let metadata = fs::symlink_metadata(&path)?;
        let mut nodes = locked(&self.nodes);
        if let Some(&inode) = nodes.numbers.get(name) {
            return Ok(Self::attributes(inode, &metadata));
        }
        let file = match metadata.is_file() {
            true => Some(Arc::new(File::options().read(true).write(true).open(path)?)),
            false => None,
        };
        let inode = nodes.nodes.len() as u64 + 2;
        nodes.nodes.push((name.to_owned(), file));
        nodes.numbers.insert(name.to_owned(), inode);
        Ok(Self::attributes(inode, &metadata))
    }

    fn file(&self, inode: INodeNo) -> Result<Arc<File>, Errno> {
        let nodes = locked(&self.nodes);
        let node = (inode.0 as usize).checked_sub(2).and_then(|index| nodes.nodes.get(index));
        node.and_then(|(_, file)| file.clone()).ok_or(Errno::ENOENT)
    }

    fn metadata(&self, inode: INodeNo) -> Result<FileAttr, Errno> {
        let metadata = match self.file(inode) {
            Ok(file) => file.metadata(),
            Err(_) if inode.0 < 2 => fs::metadata(&self.source),
            Err(_) => {
                let name = locked(&self.nodes).nodes.get(inode.0 as usize - 2).map(|(name, _)| name.clone());
                fs::symlink_metadata(self.source.join(name.ok_or(Errno::ENOENT)?))
            }
        };
        Ok(Self::attributes(inode.0, &metadata?))
    }

    /// A write; one that fails is made in part.
    fn write_at(&self, inode: INodeNo, data: &[u8], offset: u64) -> Result<(), Errno> {
        let file = self.file(inode)?;
        match self.asked("write") {
            Ok(()) => Ok(file.write_all_at(data, offset)?),
            Err(errno) => {
                let part = (offset as usize / 512 + data.len()) % (data.len() / 512 + 1) * 512;
                file.write_all_at(&data[..part.min(data.len())], offset)?;
                Err(errno)
            }
        }
    }
}

/// Answers a request that returns nothing.
fn answer(reply: ReplyEmpty, result: Result<(), Errno>) {
    match result {
        Ok(()) => reply.ok(),
        Err(errno) => reply.error(errno),
    }
}

impl Filesystem for Failing {
    fn lookup(&self, _request: &Request, _folder: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.find(name) {
            Ok(attributes) => reply.entry(&BELIEVED, &attributes, Generation(0)),
            Err(error) => reply.error(error.into()),
        }
    }

    fn getattr(&self, _request: &Request, inode: INodeNo, _handle: Option<FileHandle>, reply: ReplyAttr) {
        match self.metadata(inode) {
            Ok(attributes) => reply.attr(&BELIEVED, &attributes),
            Err(errno) => reply.error(errno),
        }
    }

    fn setattr(
        &self,
        request: &Request,
        inode: INodeNo,
        _mode: Option<u32>,
        _owner: Option<u32>,
        _group: Option<u32>,
        size: Option<u64>,
        _accessed: Option<TimeOrNow>,
        _modified: Option<TimeOrNow>,
        _changed: Option<SystemTime>,
        handle: Option<FileHandle>,
        _created: Option<SystemTime>,
        _changed_flags: Option<SystemTime>,
        _backed_up: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let grown = size.map_or(Ok(()), |size| {
            self.asked("ftruncate")?;
            Ok(self.file(inode)?.set_len(size)?)
        });
        match grown {
            Ok(()) => self.getattr(request, inode, handle, reply),
            Err(errno) => reply.error(errno),
        }
    }

    fn open(&self, _request: &Request, _inode: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::empty());
    }

    fn create(
        &self,
        _request: &Request,
        _folder: INodeNo,
        name: &OsStr,
        _mode: u32,
        _umask: u32,
        _flags: i32,
        reply: ReplyCreate,
    ) {
        let path = self.source.join(name);
        let made = File::options().write(true).create(true).truncate(false).open(path);
        match made.and_then(|_| self.find(name)) {
            Ok(attributes) => {
                let flags = FopenFlags::empty();
                reply.created(&BELIEVED, &attributes, Generation(0), FileHandle(0), flags);
            }
            Err(error) => reply.error(error.into()),
        }
    }

    /// Sockets, of the command that has the image open.
    fn mknod(
        &self,
        _request: &Request,
        _folder: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        _device: u32,
        reply: ReplyEntry,
    ) {
        let kind = SFlag::from_bits_truncate(mode) & SFlag::S_IFMT;
        let made = mknod(&self.source.join(name), kind, Mode::from_bits_truncate(mode & 0o7777), 0);
        match made.map_err(io::Error::from).and_then(|()| self.find(name)) {
            Ok(attributes) => reply.entry(&BELIEVED, &attributes, Generation(0)),
            Err(error) => reply.error(error.into()),
        }
    }

    fn unlink(&self, _request: &Request, _folder: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        locked(&self.nodes).numbers.remove(name);
        answer(reply, fs::remove_file(self.source.join(name)).map_err(Errno::from));
    }

    fn rename(
        &self,
        _request: &Request,
        _folder: INodeNo,
        name: &OsStr,
        _new_folder: INodeNo,
        new_name: &OsStr,
        _flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let mut nodes = locked(&self.nodes);
        let renamed = fs::rename(self.source.join(name), self.source.join(new_name));
        if renamed.is_ok()
            && let Some(number) = nodes.numbers.remove(name)
        {
            nodes.numbers.insert(new_name.to_owned(), number);
        }
        answer(reply, renamed.map_err(Errno::from));
    }

    fn read(
        &self,
        _request: &Request,
        inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        bytes: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let mut data = vec![0; bytes as usize];
        let read = self.asked("read").and_then(|()| Ok(self.file(inode)?.read_at(&mut data, offset)?));
        match read {
            Ok(bytes) => reply.data(&data[..bytes]),
            Err(errno) => reply.error(errno),
        }
    }

    fn write(
        &self,
        _request: &Request,
        inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.write_at(inode, data, offset) {
            Ok(()) => reply.written(data.len() as u32),
            Err(errno) => reply.error(errno),
        }
    }

    fn fallocate(
        &self,
        _request: &Request,
        inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let reserved = self.asked("fallocate").and_then(|()| {
            let mode = FallocateFlags::from_bits_truncate(mode);
            let done = fallocate(&*self.file(inode)?, mode, offset as i64, length as i64);
            Ok(done.map_err(io::Error::from)?)
        });
        answer(reply, reserved);
    }

    fn fsync(
        &self,
        _request: &Request,
        inode: INodeNo,
        _handle: FileHandle,
        _data_only: bool,
        reply: ReplyEmpty,
    ) {
        answer(reply, self.asked("fsync").and_then(|()| Ok(self.file(inode)?.sync_data()?)));
    }
}

/// Shows the folder until standard input ends.
pub fn run(options: &Options) -> io::Result<()> {
    let faults = Arc::new(Mutex::new(Faults::default()));
    let failing =
        Failing { source: options.source.clone(), faults: Arc::clone(&faults), nodes: Mutex::default() };
    let mut config = Config::default();
    config.mount_options = vec![MountOption::FSName("failing".to_owned()), MountOption::DefaultPermissions];
    if geteuid().is_root() {
        config.acl = SessionACL::All;
    }
    config.n_threads = Some(2);
    let session = Session::new(failing, &options.folder, &config)?.spawn()?;
    println!("mounted");
    for line in io::stdin().lock().lines() {
        let answer = locked(&faults).obey(&line?);
        println!("{}", answer.unwrap_or_else(|| "what?".to_owned()));
    }
    drop(session);
    Ok(())
}
