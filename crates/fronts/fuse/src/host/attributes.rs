//! Requests for metadata and extended attributes.

use std::time::SystemTime;

use fuser::{FileAttr, INodeNo, TimeOrNow};
use nix::libc;
use tantalum_filesystem::{Errno, FileId, FileKind, MetadataChange, SetMode};

use super::{Caller, Host, Outcome};
use crate::answer::AttributeBytes;
use crate::convert::{attributes, file_of, given_time, now, permissions_of_mode, timestamp};

/// The longest name and value of an extended attribute that the kernel passes on.
const NAME_BYTES: usize = 255;

/// The extended attribute in which the kernel stores a program's capabilities.
const CAPABILITY: &[u8] = b"security.capability";

/// The changes of `setattr`; `None` leaves a field unchanged.
#[derive(Default)]
pub(crate) struct Change {
    pub mode: Option<u32>,
    pub owner: Option<u32>,
    pub group: Option<u32>,
    pub size: Option<u64>,
    pub accessed: Option<TimeOrNow>,
    pub modified: Option<TimeOrNow>,
    /// Given by a kernel that gathers writes, which knows when they were made.
    pub changed: Option<SystemTime>,
}

impl Host {
    pub fn attributes(&mut self, inode: INodeNo) -> Outcome<FileAttr> {
        let file = file_of(inode)?;
        Ok(attributes(file, &self.file_system.metadata(file)?))
    }

    pub fn change(&mut self, caller: Caller, inode: INodeNo, change: Change) -> Outcome<FileAttr> {
        let file = file_of(inode)?;
        let now = now();
        let modified = change.modified.map(given_time).or(change.size.map(|_| now));
        let change_of_owner = change.owner.is_some() || change.group.is_some();
        let privileges_end = change_of_owner || (change.size.is_some() && !caller.is_root());
        if change.mode.is_none() && privileges_end {
            self.end_privileges(file)?;
        }
        let change = MetadataChange {
            permissions: change.mode.map(permissions_of_mode),
            owner: change.owner,
            group: change.group,
            size: change.size,
            accessed: change.accessed.map(given_time),
            modified,
            changed: Some(change.changed.map_or(now, timestamp)),
        };
        self.file_system.change_metadata(file, &change)?;
        self.attributes(inode)
    }

    /// A program file that was changed no longer runs with its owner's rights. The kernel leaves this to the file
    /// system (`FUSE_HANDLE_KILLPRIV_V2`), and so need not ask for the file's capabilities before each write.
    pub fn end_privileges(&mut self, file: FileId) -> Outcome<()> {
        let metadata = self.file_system.metadata(file)?;
        if metadata.kind != FileKind::File {
            return Ok(());
        }
        let mode = u32::from(metadata.permissions);
        let group_runs = mode & libc::S_IXGRP != 0;
        let ended = libc::S_ISUID | if group_runs { libc::S_ISGID } else { 0 };
        if mode & ended != 0 {
            let permissions = Some((mode & !ended) as u16);
            self.file_system
                .change_metadata(file, &MetadataChange { permissions, ..MetadataChange::default() })?;
        }
        match self.file_system.remove_extended_attribute(file, CAPABILITY) {
            Ok(()) | Err(Errno::ENODATA | Errno::EOPNOTSUPP) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    pub fn extended_attribute(&mut self, inode: INodeNo, name: &[u8], room: u32) -> Outcome<AttributeBytes> {
        check_name(name)?;
        let bytes = self.file_system.extended_attribute(file_of(inode)?, name)?;
        Ok(AttributeBytes { bytes, room })
    }

    pub fn extended_attributes(&mut self, inode: INodeNo, room: u32) -> Outcome<AttributeBytes> {
        let mut bytes = Vec::new();
        for name in self.file_system.extended_attributes(file_of(inode)?)? {
            bytes.extend_from_slice(&name);
            bytes.push(0);
        }
        Ok(AttributeBytes { bytes, room })
    }

    pub fn set_extended_attribute(
        &mut self,
        inode: INodeNo,
        name: &[u8],
        value: &[u8],
        flags: i32,
    ) -> Outcome<()> {
        check_name(name)?;
        let mode = match flags {
            0 => SetMode::Any,
            libc::XATTR_CREATE => SetMode::Create,
            libc::XATTR_REPLACE => SetMode::Replace,
            _ => return Err(Errno::EINVAL.into()),
        };
        let file = file_of(inode)?;
        self.file_system.set_extended_attribute(file, name, value, mode)?;
        self.note_change(file)
    }

    pub fn remove_extended_attribute(&mut self, inode: INodeNo, name: &[u8]) -> Outcome<()> {
        check_name(name)?;
        let file = file_of(inode)?;
        self.file_system.remove_extended_attribute(file, name)?;
        self.note_change(file)
    }

    fn note_change(&mut self, file: FileId) -> Outcome<()> {
        let changed = Some(now());
        Ok(self
            .file_system
            .change_metadata(file, &MetadataChange { changed, ..MetadataChange::default() })?)
    }
}

/// Access control lists would have to be enforced, not just stored, so they are refused.
fn check_name(name: &[u8]) -> Outcome<()> {
    if name.starts_with(b"system.") {
        return Err(Errno::EOPNOTSUPP.into());
    }
    if name.len() > NAME_BYTES {
        return Err(Errno::ERANGE.into());
    }
    Ok(())
}
