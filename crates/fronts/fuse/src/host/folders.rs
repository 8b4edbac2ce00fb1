//! Requests for the contents of folders.

use std::ffi::OsStr;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;

use fuser::{FileType, INodeNo, ReplyDirectory, ReplyDirectoryPlus};
use tantalum_filesystem::FileId;

use super::{Host, Outcome};
use crate::answer::{BELIEVED, GENERATION};
use crate::convert::{attributes, file_of, file_type, inode_number};

/// A folder begins with `.` and `..`; the file system's own cookies follow.
const OWN_COOKIES: u64 = 2;

/// Entries read in one batch: nothing changes in between.
const ENTRIES: usize = 256;

/// An entry in the kernel's form.
struct KernelEntry {
    offset: u64,
    name: Vec<u8>,
    file: FileId,
    kind: FileType,
}

impl Host {
    pub fn read_folder(&mut self, inode: INodeNo, offset: u64, reply: &mut ReplyDirectory) -> Outcome<()> {
        self.each_entry(inode, offset, |_, entry| {
            let name = OsStr::from_bytes(&entry.name);
            Ok(reply.add(inode_number(entry.file), entry.offset, entry.kind, name))
        })
    }

    /// As [`Host::read_folder`], with the metadata that the kernel would ask for next. It holds a reference to each
    /// file except the first two.
    pub fn read_folder_plus(
        &mut self,
        inode: INodeNo,
        offset: u64,
        reply: &mut ReplyDirectoryPlus,
    ) -> Outcome<()> {
        self.each_entry(inode, offset, |host, entry| {
            let attributes = attributes(entry.file, &host.file_system.metadata(entry.file)?);
            let (number, name) = (inode_number(entry.file), OsStr::from_bytes(&entry.name));
            let is_full = reply.add(number, entry.offset, name, &BELIEVED, &attributes, GENERATION);
            if !is_full && entry.offset > OWN_COOKIES {
                host.tell(entry.file)?;
            }
            Ok(is_full)
        })
    }

    /// Passes entries after `offset` to `take`, until it reports that it has no more room.
    fn each_entry(
        &mut self,
        inode: INodeNo,
        mut offset: u64,
        mut take: impl FnMut(&mut Host, KernelEntry) -> Outcome<bool>,
    ) -> Outcome<()> {
        let folder = file_of(inode)?;
        loop {
            let entries = self.entries(folder, offset)?;
            let Some(last) = entries.last() else { return Ok(()) };
            offset = last.offset;
            for entry in entries {
                if take(self, entry)? {
                    return Ok(());
                }
            }
        }
    }

    fn entries(&mut self, folder: FileId, offset: u64) -> Outcome<Vec<KernelEntry>> {
        let own = [(folder, &b"."[..]), (self.file_system.parent(folder)?, &b".."[..])];
        let own = (1..).zip(own).filter(|(own_offset, _)| *own_offset > offset);
        let own = own.map(|(offset, (file, name))| KernelEntry {
            offset,
            name: name.to_vec(),
            file,
            kind: FileType::Directory,
        });
        let mut entries: Vec<KernelEntry> = own.collect();
        self.file_system.read_folder(folder, offset.saturating_sub(OWN_COOKIES), &mut |entry| {
            entries.push(KernelEntry {
                offset: entry.cookie + OWN_COOKIES,
                name: entry.name.to_vec(),
                file: entry.file,
                kind: file_type(entry.kind),
            });
            if entries.len() < ENTRIES { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        Ok(entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::tests::host;
    use tantalum_filesystem::{FileKind, NewFile};

    #[test]
    fn a_folder_is_read_in_parts_from_wherever_the_kernel_goes_on() {
        let mut host = host();
        let names: Vec<String> = (0..3 * ENTRIES).map(|number| format!("file {number:04}")).collect();
        for name in &names {
            let new = NewFile { permissions: 0o644, ..NewFile::default() };
            let file = host.file_system.create_in(FileId::ROOT, name.as_bytes(), &new).unwrap();
            assert_eq!(host.file_system.metadata(file).unwrap().kind, FileKind::File);
        }
        for most in [1, 7, ENTRIES, 2 * ENTRIES + 3] {
            let (mut seen, mut offset) = (Vec::new(), 0);
            loop {
                let before = seen.len();
                host.each_entry(INodeNo::ROOT, offset, |_, entry| {
                    let is_full = seen.len() - before == most;
                    if !is_full {
                        offset = entry.offset;
                        seen.push(String::from_utf8(entry.name).unwrap());
                    }
                    Ok(is_full)
                })
                .unwrap();
                if seen.len() == before {
                    break;
                }
            }
            assert_eq!(seen[..2], [".", ".."]);
            assert_eq!(seen[2..], names, "{most} at once");
        }
    }
}
