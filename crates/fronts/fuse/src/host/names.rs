//! Requests that look up, create, move and remove names.

use fuser::{Errno, FileAttr, FopenFlags, INodeNo, OpenFlags, RenameFlags};
use nix::libc;
use tantalum_filesystem::{FileId, FileKind, NewFile, RenameMode};

use super::{Caller, Host, Outcome};
use crate::answer::Created;
use crate::convert::{attributes, file_of, now};

impl Host {
    pub fn lookup(&mut self, folder: INodeNo, name: &[u8]) -> Outcome<FileAttr> {
        let file = self.file_system.lookup(file_of(folder)?, name)?;
        self.tell(file)
    }

    /// The kernel learns of a file, and holds a reference to it from now on.
    pub fn tell(&mut self, file: FileId) -> Outcome<FileAttr> {
        let metadata = self.file_system.metadata(file)?;
        if file != FileId::ROOT && self.known.add(file) {
            self.file_system.open(file)?;
        }
        Ok(attributes(file, &metadata))
    }

    pub fn forget(&mut self, inode: INodeNo, references: u64) {
        let Ok(file) = file_of(inode) else { return };
        if self.known.forget(file, references) {
            // A drive without power cannot free a file without a name: the next mount does.
            let _ = self.file_system.close(file);
        }
    }

    pub fn make(
        &mut self,
        caller: Caller,
        folder: INodeNo,
        name: &[u8],
        kind: FileKind,
        permissions: u16,
        device_number: u32,
    ) -> Outcome<FileAttr> {
        let folder = file_of(folder)?;
        let new = self.new_file(caller, folder, kind, permissions, device_number)?;
        let file = self.file_system.create_in(folder, name, &new)?;
        self.tell(file)
    }

    pub fn make_and_open(
        &mut self,
        caller: Caller,
        folder: INodeNo,
        name: &[u8],
        permissions: u16,
        flags: OpenFlags,
    ) -> Outcome<Created> {
        let attributes = self.make(caller, folder, name, FileKind::File, permissions, 0)?;
        let (handle, flags) = self.open(attributes.ino, flags)?;
        Ok(Created { attributes, handle, flags })
    }

    pub fn make_symbolic_link(
        &mut self,
        caller: Caller,
        folder: INodeNo,
        name: &[u8],
        target: &[u8],
    ) -> Outcome<FileAttr> {
        let folder = file_of(folder)?;
        let new = self.new_file(caller, folder, FileKind::SymbolicLink, 0o777, 0)?;
        let file = self.file_system.create_symbolic_link(folder, name, target, &new)?;
        self.tell(file)
    }

    pub fn read_link(&mut self, inode: INodeNo) -> Outcome<Vec<u8>> {
        Ok(self.file_system.read_symbolic_link(file_of(inode)?)?)
    }

    /// Anything created in a folder with the set-group-ID bit gets that folder's group, and folders pass the bit on.
    fn new_file(
        &mut self,
        caller: Caller,
        folder: FileId,
        kind: FileKind,
        permissions: u16,
        device_number: u32,
    ) -> Outcome<NewFile> {
        let above = self.file_system.metadata(folder)?;
        let inherits = u32::from(above.permissions) & libc::S_ISGID != 0;
        let passed_on = if inherits && kind == FileKind::Folder { libc::S_ISGID as u16 } else { 0 };
        Ok(NewFile {
            kind,
            permissions: permissions | passed_on,
            owner: caller.user,
            group: if inherits { above.group } else { caller.group },
            device_number,
            now: now(),
        })
    }

    pub fn link(&mut self, inode: INodeNo, folder: INodeNo, name: &[u8]) -> Outcome<FileAttr> {
        let file = file_of(inode)?;
        self.file_system.link(file, file_of(folder)?, name, now())?;
        self.tell(file)
    }

    pub fn unlink(&mut self, folder: INodeNo, name: &[u8]) -> Outcome<()> {
        Ok(self.file_system.unlink(file_of(folder)?, name, now())?)
    }

    pub fn remove_folder(&mut self, folder: INodeNo, name: &[u8]) -> Outcome<()> {
        Ok(self.file_system.remove_folder(file_of(folder)?, name, now())?)
    }

    pub fn sync_folder(&mut self, inode: INodeNo) -> Outcome<()> {
        Ok(self.file_system.sync_folder(file_of(inode)?)?)
    }

    pub fn rename(
        &mut self,
        caller: Caller,
        (folder, name): (INodeNo, &[u8]),
        (new_folder, new_name): (INodeNo, &[u8]),
        flags: RenameFlags,
    ) -> Outcome<()> {
        if flags == RenameFlags::RENAME_WHITEOUT {
            let (folder, new_folder) = (file_of(folder)?, file_of(new_folder)?);
            let whiteout = self.new_file(caller, folder, FileKind::CharDevice, 0, 0)?;
            let to = (new_folder, new_name);
            return Ok(self.file_system.rename_leaving_whiteout(folder, name, to.0, to.1, &whiteout)?);
        }
        let mode = if flags == RenameFlags::empty() {
            RenameMode::Replace
        } else if flags == RenameFlags::RENAME_NOREPLACE {
            RenameMode::NoReplace
        } else if flags == RenameFlags::RENAME_EXCHANGE {
            RenameMode::Exchange
        } else {
            return Err(Errno::EINVAL.into());
        };
        let (folder, new_folder) = (file_of(folder)?, file_of(new_folder)?);
        Ok(self.file_system.rename_in(folder, name, new_folder, new_name, mode, now())?)
    }

    /// `O_DIRECT` bypasses the kernel's cache, and then writes of several threads run in parallel. The same is used for
    /// all files if a write must be all or nothing, because the kernel would split the write-back of its cache in its
    /// own way. Otherwise the kernel's cached data stay valid: nobody else changes the file.
    pub fn open(&mut self, inode: INodeNo, flags: OpenFlags) -> Outcome<(fuser::FileHandle, FopenFlags)> {
        let handle = self.handles.open(file_of(inode)?, flags);
        let is_direct = self.atomic_writes || self.sync_writes || flags.0 & libc::O_DIRECT != 0;
        let how = match is_direct {
            true => FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES,
            false => FopenFlags::FOPEN_KEEP_CACHE,
        };
        Ok((handle, how | FopenFlags::FOPEN_NOFLUSH))
    }
}
