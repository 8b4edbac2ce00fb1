//! The kernel's requests, each passed to the method of [`Host`] that handles it.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use fuser::{
    BsdFileFlags, CopyFileRangeFlags, Errno, FileHandle, Filesystem, FopenFlags, INodeNo, InitFlags,
    IoctlFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLseek, ReplyOpen,
    ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use tantalum::UNIT_BYTES;
use tantalum_filesystem::{FileKind, NAME_BYTES};
use tantalum_record::Tape;

use crate::convert::{kind_of_mode, permissions_of_mode};
use crate::front::Front;
use crate::host::{Caller, Change};
use crate::ioctl;
use crate::system_call::asked_bytes;

/// The largest request of the kernel in bytes.
const TRANSFER_BYTES: u32 = 1 << 20;

/// Background requests that the kernel keeps in flight: readahead, and `O_DIRECT` in pieces.
const BACKGROUND_REQUESTS: u16 = 64;

/// Optional features for speed: cached folders and symbolic links, parallel requests in one folder, metadata along with
/// names, shared mappings of files opened with `O_DIRECT`.
const WISHES: [InitFlags; 7] = [
    InitFlags::FUSE_ASYNC_DIO,
    InitFlags::FUSE_CACHE_SYMLINKS,
    InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP,
    InitFlags::FUSE_DO_READDIRPLUS,
    InitFlags::FUSE_HANDLE_KILLPRIV_V2,
    InitFlags::FUSE_PARALLEL_DIROPS,
    InitFlags::FUSE_READDIRPLUS_AUTO,
];

/// Answers the kernel.
pub(crate) struct Requests {
    pub front: Arc<Front>,
    pub tape: Tape,
}

impl Filesystem for Requests {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        for wish in WISHES {
            // Features that an older kernel lacks are not used.
            let _ = config.add_capabilities(wish);
        }
        // A kernel without the other feature would not pass on what it holds before another program uses `O_DIRECT`.
        if self.front.look(|host| host.write_back) == Some(true)
            && config.capabilities().contains(InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP)
        {
            let _ = config.add_capabilities(InitFlags::FUSE_WRITEBACK_CACHE);
        }
        let _ = config.set_max_write(TRANSFER_BYTES);
        let _ = config.set_max_readahead(TRANSFER_BYTES);
        let _ = config.set_max_background(BACKGROUND_REQUESTS);
        Ok(())
    }

    fn lookup(&self, _request: &Request, folder: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.front.serve_known(reply, |host| host.lookup(folder, name.as_bytes()));
    }

    fn forget(&self, _request: &Request, inode: INodeNo, references: u64) {
        self.front.look(|host| host.forget(inode, references));
    }

    fn getattr(&self, _request: &Request, inode: INodeNo, _handle: Option<FileHandle>, reply: ReplyAttr) {
        self.front.serve_known(reply, |host| host.attributes(inode));
    }

    fn setattr(
        &self,
        request: &Request,
        inode: INodeNo,
        mode: Option<u32>,
        owner: Option<u32>,
        group: Option<u32>,
        size: Option<u64>,
        accessed: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        changed: Option<SystemTime>,
        _handle: Option<FileHandle>,
        _created: Option<SystemTime>,
        _changed_flags: Option<SystemTime>,
        _backed_up: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let change = Change { mode, owner, group, size, accessed, modified, changed };
        self.front.serve(reply, |host| host.change(request.into(), inode, change));
    }

    fn readlink(&self, _request: &Request, inode: INodeNo, reply: ReplyData) {
        let ended = self.front.with(|host| host.read_link(inode));
        self.front.finish(ended, move |target| match target {
            Ok(target) => reply.data(&target),
            Err(refusal) => reply.error(refusal.0),
        });
    }

    fn mknod(
        &self,
        request: &Request,
        folder: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        device_number: u32,
        reply: ReplyEntry,
    ) {
        let (caller, permissions) = (Caller::from(request), permissions_of_mode(mode));
        self.front.serve(reply, |host| {
            host.make(caller, folder, name.as_bytes(), kind_of_mode(mode)?, permissions, device_number)
        });
    }

    fn mkdir(
        &self,
        request: &Request,
        folder: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        reply: ReplyEntry,
    ) {
        let (caller, permissions) = (Caller::from(request), permissions_of_mode(mode));
        self.front.serve(reply, |host| {
            host.make(caller, folder, name.as_bytes(), FileKind::Folder, permissions, 0)
        });
    }

    fn unlink(&self, _request: &Request, folder: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.front.serve(reply, |host| host.unlink(folder, name.as_bytes()));
    }

    fn rmdir(&self, _request: &Request, folder: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.front.serve(reply, |host| host.remove_folder(folder, name.as_bytes()));
    }

    fn symlink(&self, request: &Request, folder: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let target = target.as_os_str().as_bytes();
        self.front
            .serve(reply, |host| host.make_symbolic_link(request.into(), folder, name.as_bytes(), target));
    }

    fn rename(
        &self,
        request: &Request,
        folder: INodeNo,
        name: &OsStr,
        new_folder: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        self.front.serve(reply, |host| {
            host.rename(request.into(), (folder, name.as_bytes()), (new_folder, new_name.as_bytes()), flags)
        });
    }

    fn link(&self, _request: &Request, inode: INodeNo, folder: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.front.serve(reply, |host| host.link(inode, folder, name.as_bytes()));
    }

    fn open(&self, _request: &Request, inode: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        self.front.serve(reply, |host| host.open(inode, flags));
    }

    fn create(
        &self,
        request: &Request,
        folder: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let (caller, permissions) = (Caller::from(request), permissions_of_mode(mode));
        self.front.serve(reply, |host| {
            host.make_and_open(caller, folder, name.as_bytes(), permissions, OpenFlags(flags))
        });
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
        self.front.read(inode, offset, bytes as usize, reply);
    }

    fn write(
        &self,
        request: &Request,
        inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let ends_privileges = write_flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID);
        let ends_call = self.tape.may_be_first_part(offset, data.len() as u64)
            && asked_bytes(request.pid()) == Some(data.len() as u64);
        self.front.write(offset, data, flags, reply, |host, fills| {
            let written = host.write(inode, offset, data, flags, ends_privileges, fills);
            if ends_call {
                self.tape.call_ends(host.file_system.client().now_ns());
            }
            written
        });
    }

    fn flush(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _handle: FileHandle,
        _lock_owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        // Closing a file needs nothing, and the kernel does not ask again.
        reply.error(Errno::ENOSYS);
    }

    fn release(
        &self,
        _request: &Request,
        _inode: INodeNo,
        handle: FileHandle,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        self.front.look(|host| host.handles.close(handle));
        reply.ok();
    }

    fn fsync(
        &self,
        _request: &Request,
        inode: INodeNo,
        _handle: FileHandle,
        data_only: bool,
        reply: ReplyEmpty,
    ) {
        self.front.serve(reply, |host| host.sync(inode, data_only));
    }

    fn opendir(&self, _request: &Request, _inode: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::FOPEN_CACHE_DIR | FopenFlags::FOPEN_KEEP_CACHE);
    }

    fn readdir(
        &self,
        _request: &Request,
        inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let ended = self.front.with(|host| host.read_folder(inode, offset, &mut reply));
        self.front.finish(ended, move |outcome| match outcome {
            Ok(()) => reply.ok(),
            Err(refusal) => reply.error(refusal.0),
        });
    }

    fn readdirplus(
        &self,
        _request: &Request,
        inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let ended = self.front.with(|host| host.read_folder_plus(inode, offset, &mut reply));
        self.front.finish(ended, move |outcome| match outcome {
            Ok(()) => reply.ok(),
            Err(refusal) => reply.error(refusal.0),
        });
    }

    fn fsyncdir(
        &self,
        _request: &Request,
        inode: INodeNo,
        _handle: FileHandle,
        _data_only: bool,
        reply: ReplyEmpty,
    ) {
        self.front.serve(reply, |host| host.sync_folder(inode));
    }

    fn statfs(&self, _request: &Request, _inode: INodeNo, reply: ReplyStatfs) {
        match self.front.with(|host| Ok(host.file_system.statistics())).outcome {
            Ok(held) => reply.statfs(
                held.units,
                held.free_units,
                held.free_units,
                held.files + held.free_files,
                held.free_files,
                UNIT_BYTES as u32,
                NAME_BYTES as u32,
                UNIT_BYTES as u32,
            ),
            Err(refusal) => reply.error(refusal.0),
        }
    }

    fn setxattr(
        &self,
        _request: &Request,
        inode: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        self.front.serve(reply, |host| host.set_extended_attribute(inode, name.as_bytes(), value, flags));
    }

    fn getxattr(&self, _request: &Request, inode: INodeNo, name: &OsStr, room: u32, reply: ReplyXattr) {
        self.front.serve(reply, |host| host.extended_attribute(inode, name.as_bytes(), room));
    }

    fn listxattr(&self, _request: &Request, inode: INodeNo, room: u32, reply: ReplyXattr) {
        self.front.serve(reply, |host| host.extended_attributes(inode, room));
    }

    fn removexattr(&self, _request: &Request, inode: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.front.serve(reply, |host| host.remove_extended_attribute(inode, name.as_bytes()));
    }

    fn ioctl(
        &self,
        _request: &Request,
        _inode: INodeNo,
        handle: FileHandle,
        _flags: IoctlFlags,
        command: u32,
        argument: &[u8],
        out_bytes: u32,
        reply: ReplyIoctl,
    ) {
        match ioctl::Request::parse(command, argument, out_bytes) {
            Ok(request) => self.front.ioctl(reply, |host| host.ioctl(handle, request)),
            Err(refusal) => reply.error(refusal.0),
        }
    }

    fn fallocate(
        &self,
        _request: &Request,
        inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        bytes: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        self.front.serve(reply, |host| host.allocate(inode, offset, bytes, mode));
    }

    fn lseek(
        &self,
        _request: &Request,
        inode: INodeNo,
        _handle: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        self.front.serve(reply, |host| host.seek(inode, offset, whence));
    }

    fn copy_file_range(
        &self,
        _request: &Request,
        from: INodeNo,
        _from_handle: FileHandle,
        from_offset: u64,
        to: INodeNo,
        _to_handle: FileHandle,
        to_offset: u64,
        bytes: u64,
        _flags: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        self.front.serve(reply, |host| host.copy((from, from_offset), (to, to_offset), bytes));
    }
}
