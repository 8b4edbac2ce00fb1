//! The lowest cost of FUSE: passes every request for data on to a file of another folder. `cargo xtask e2e` compares a
//! mounted volume with it. It stays mounted until it is killed or unmounted.
//!
//!     passthrough SOURCE FOLDER
//!
//! It knows regular files in one folder, and takes requests with as many threads and the same options as
//! `tantalum mount`.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use fuser::{
    BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    InitFlags, KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request, Session, SessionACL, TimeOrNow, WriteFlags,
};
use nix::libc::O_DIRECT;
use parking_lot::{Mutex, RwLock};

const BELIEVED: Duration = Duration::from_secs(3600);
const TRANSFER_BYTES: u32 = 1 << 20;

thread_local! {
    static BUFFER: std::cell::RefCell<Vec<u8>> = const { std::cell::RefCell::new(Vec::new()) };
}

struct Passthrough {
    source: PathBuf,
    numbers: Mutex<HashMap<OsString, INodeNo>>,
    files: RwLock<Vec<Arc<File>>>,
}

impl Passthrough {
    fn attributes(inode: INodeNo, metadata: &fs::Metadata) -> FileAttr {
        let kind = if metadata.is_dir() { FileType::Directory } else { FileType::RegularFile };
        let time = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        FileAttr {
            ino: inode,
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

    fn find(&self, name: &OsStr, create: bool) -> io::Result<FileAttr> {
        let mut numbers = self.numbers.lock();
        let path = self.source.join(name);
        if let Some(&inode) = numbers.get(name) {
            return Ok(Self::attributes(inode, &fs::metadata(path)?));
        }
        let file = File::options().read(true).write(true).create(create).truncate(false).open(path)?;
        let mut files = self.files.write();
        let inode = INodeNo(files.len() as u64 + 2);
        let attributes = Self::attributes(inode, &file.metadata()?);
        files.push(Arc::new(file));
        numbers.insert(name.to_owned(), inode);
        Ok(attributes)
    }

    fn file(&self, inode: INodeNo) -> Option<Arc<File>> {
        self.files.read().get((inode.0 as usize).checked_sub(2)?).cloned()
    }

    fn how(flags: i32) -> FopenFlags {
        match flags & O_DIRECT != 0 {
            true => FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES,
            false => FopenFlags::FOPEN_KEEP_CACHE,
        }
    }
}

impl Filesystem for Passthrough {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        for wish in
            [InitFlags::FUSE_ASYNC_DIO, InitFlags::FUSE_PARALLEL_DIROPS, InitFlags::FUSE_HANDLE_KILLPRIV_V2]
        {
            let _ = config.add_capabilities(wish);
        }
        let _ = config.set_max_write(TRANSFER_BYTES);
        let _ = config.set_max_readahead(TRANSFER_BYTES);
        let _ = config.set_max_background(64);
        Ok(())
    }

    fn lookup(&self, _request: &Request, _folder: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.find(name, false) {
            Ok(attributes) => reply.entry(&BELIEVED, &attributes, Generation(0)),
            Err(error) => reply.error(error.into()),
        }
    }

    fn getattr(&self, _request: &Request, inode: INodeNo, _handle: Option<FileHandle>, reply: ReplyAttr) {
        let metadata = match self.file(inode) {
            Some(file) => file.metadata(),
            None => fs::metadata(&self.source),
        };
        match metadata {
            Ok(metadata) => reply.attr(&BELIEVED, &Self::attributes(inode, &metadata)),
            Err(error) => reply.error(error.into()),
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
        if let (Some(file), Some(size)) = (self.file(inode), size)
            && let Err(error) = file.set_len(size)
        {
            return reply.error(error.into());
        }
        self.getattr(request, inode, handle, reply);
    }

    fn open(&self, _request: &Request, _inode: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), Self::how(flags.0));
    }

    fn create(
        &self,
        _request: &Request,
        _folder: INodeNo,
        name: &OsStr,
        _mode: u32,
        _umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        match self.find(name, true) {
            Ok(attributes) => {
                reply.created(&BELIEVED, &attributes, Generation(0), FileHandle(0), Self::how(flags));
            }
            Err(error) => reply.error(error.into()),
        }
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
        let Some(file) = self.file(inode) else { return reply.error(Errno::ENOENT) };
        BUFFER.with_borrow_mut(|buffer| {
            if buffer.len() < bytes as usize {
                buffer.resize(bytes as usize, 0);
            }
            match file.read_at(&mut buffer[..bytes as usize], offset) {
                Ok(bytes) => reply.data(&buffer[..bytes]),
                Err(error) => reply.error(error.into()),
            }
        });
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
        let Some(file) = self.file(inode) else { return reply.error(Errno::ENOENT) };
        match file.write_all_at(data, offset) {
            Ok(()) => reply.written(data.len() as u32),
            Err(error) => reply.error(error.into()),
        }
    }

    fn fsync(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _handle: FileHandle,
        _data_only: bool,
        reply: ReplyEmpty,
    ) {
        reply.ok();
    }
}

fn main() -> io::Result<()> {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let [source, folder] = &arguments[..] else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "usage: passthrough SOURCE FOLDER"));
    };
    let filesystem =
        Passthrough { source: source.into(), numbers: Mutex::default(), files: RwLock::default() };
    let threads = std::thread::available_parallelism().map_or(2, usize::from).clamp(2, 8);
    let mut config = Config::default();
    config.mount_options =
        vec![MountOption::FSName("passthrough".to_owned()), MountOption::DefaultPermissions];
    config.acl = SessionACL::All;
    config.n_threads = Some(threads);
    config.clone_fd = true;
    Session::new(filesystem, folder, &config)?.run()
}
