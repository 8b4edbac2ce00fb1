//! A file system in memory: the minimum for a mount. It shows that the mount needs nothing of a volume beyond
//! [`FileSystem`].
//!
//! The drive gets nothing but flushes: an unmount or a crash loses all files.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use tantalum::{Command, Fetches, Fills, UNIT_BYTES};
use tantalum_drive::Client;
use tantalum_filesystem::{
    Attributes, Content, Errno, FileId, FileKind, FileSystem, FolderEntry, Metadata, MetadataChange,
    NAME_BYTES, Names, NewFile, Outcome, Ranges, RenameMode, Statistics, Timestamp, UnmountFailure,
};

#[path = "node.rs"]
mod node;

use node::{Entry, Node};

/// The capacity for all files together.
const MOST_UNITS: u64 = (256 << 20) / UNIT_BYTES as u64;

/// The longest target of a symbolic link.
const MOST_TARGET_BYTES: usize = 4095;

/// Folders and files in memory, and a drive to go with them.
pub struct MemoryFileSystem {
    client: Client,
    nodes: BTreeMap<FileId, Node>,
    last: u32,
}

impl MemoryFileSystem {
    pub fn new(client: Client) -> MemoryFileSystem {
        let new = NewFile { kind: FileKind::Folder, permissions: 0o755, ..NewFile::default() };
        let mut root = Node::new(&new, FileId::ROOT);
        root.metadata.links = 2;
        MemoryFileSystem { client, nodes: BTreeMap::from([(FileId::ROOT, root)]), last: FileId::ROOT.0 }
    }

    fn node(&mut self, file: FileId) -> Outcome<&mut Node> {
        self.nodes.get_mut(&file).ok_or(Errno::ESTALE)
    }

    fn folder(&mut self, folder: FileId) -> Outcome<&mut Node> {
        let node = self.node(folder)?;
        if node.is_folder() { Ok(node) } else { Err(Errno::ENOTDIR) }
    }

    /// A regular file.
    fn content(&mut self, file: FileId) -> Outcome<&mut Node> {
        let node = self.node(file)?;
        match node.metadata.kind {
            FileKind::File => Ok(node),
            FileKind::Folder => Err(Errno::EISDIR),
            _ => Err(Errno::EINVAL),
        }
    }

    /// The cookie of a name, and its file.
    fn find(&mut self, folder: FileId, name: &[u8]) -> Outcome<(u64, FileId)> {
        if name.len() > NAME_BYTES {
            return Err(Errno::ENAMETOOLONG);
        }
        let entries = &self.folder(folder)?.entries;
        let found = entries.iter().find(|(_, entry)| entry.name == name);
        found.map(|(cookie, entry)| (*cookie, entry.file)).ok_or(Errno::ENOENT)
    }

    fn check_free(&mut self, folder: FileId, name: &[u8]) -> Outcome<()> {
        match self.find(folder, name) {
            Ok(_) => Err(Errno::EEXIST),
            Err(Errno::ENOENT) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn check_empty(&mut self, folder: FileId) -> Outcome<()> {
        if self.folder(folder)?.entries.is_empty() { Ok(()) } else { Err(Errno::ENOTEMPTY) }
    }

    fn is_within(&mut self, mut folder: FileId, outer: FileId) -> Outcome<bool> {
        while folder != outer && folder != FileId::ROOT {
            folder = self.folder(folder)?.parent;
        }
        Ok(folder == outer)
    }

    fn add_name(&mut self, folder: FileId, name: &[u8], file: FileId, now: Timestamp) {
        let node = self.nodes.get_mut(&file).expect("what gets a name is there");
        node.metadata.changed = now;
        node.parent = folder;
        let is_folder = node.is_folder();
        node.metadata.links += if is_folder { 2 } else { 1 };
        let above = self.nodes.get_mut(&folder).expect("the folder was found");
        let cookie = above.entries.last_key_value().map_or(1, |(last, _)| last + 1);
        above.entries.insert(cookie, Entry { name: name.to_vec(), file });
        above.metadata.links += u32::from(is_folder);
        (above.metadata.modified, above.metadata.changed) = (now, now);
    }

    fn take_name(&mut self, folder: FileId, cookie: u64, now: Timestamp) -> FileId {
        let above = self.nodes.get_mut(&folder).expect("the folder was found");
        let file = above.entries.remove(&cookie).expect("the name was found").file;
        (above.metadata.modified, above.metadata.changed) = (now, now);
        let node = self.nodes.get_mut(&file).expect("what has a name is there");
        node.metadata.changed = now;
        let is_folder = node.is_folder();
        node.metadata.links -= if is_folder { 2 } else { 1 };
        self.nodes.get_mut(&folder).expect("the folder was found").metadata.links -= u32::from(is_folder);
        file
    }

    /// Removes a file without names that nobody has open.
    fn forget(&mut self, file: FileId) {
        let is_over = |node: &Node| node.metadata.links == 0 && node.opens == 0;
        if self.nodes.get(&file).is_some_and(is_over) {
            self.nodes.remove(&file);
        }
    }

    fn exchange(&mut self, a: (FileId, u64), b: (FileId, u64), now: Timestamp) {
        let (name_a, name_b) = (self.name_of(a), self.name_of(b));
        let (file_a, file_b) = (self.take_name(a.0, a.1, now), self.take_name(b.0, b.1, now));
        self.add_name(b.0, &name_b, file_a, now);
        self.add_name(a.0, &name_a, file_b, now);
    }

    fn name_of(&self, (folder, cookie): (FileId, u64)) -> Vec<u8> {
        self.nodes[&folder].entries[&cookie].name.clone()
    }

    /// Whether a renamed file may replace the one that has the name.
    fn check_replaces(&mut self, file: FileId, old: FileId) -> Outcome<()> {
        match (self.node(file)?.is_folder(), self.node(old)?.is_folder()) {
            (true, true) => self.check_empty(old),
            (true, false) => Err(Errno::ENOTDIR),
            (false, true) => Err(Errno::EISDIR),
            (false, false) => Ok(()),
        }
    }

    fn free_units(&self) -> u64 {
        MOST_UNITS.saturating_sub(self.nodes.values().map(|node| node.units.len() as u64).sum())
    }
}

impl FileSystem for MemoryFileSystem {
    fn client(&self) -> &Client {
        &self.client
    }

    fn client_mut(&mut self) -> &mut Client {
        &mut self.client
    }

    fn statistics(&self) -> Statistics {
        let (free_units, files) = (self.free_units(), self.nodes.len() as u64);
        Statistics { units: MOST_UNITS, free_units, files, free_files: free_units, ..Statistics::default() }
    }

    fn write_back(&mut self) -> Outcome<()> {
        Ok(())
    }

    fn unmount(self: Box<Self>) -> Result<Client, UnmountFailure> {
        let mut client = self.client;
        client.submit(Command::Flush)?;
        Ok(client)
    }

    fn into_client_without_sync(self: Box<Self>) -> Client {
        self.client
    }
}

impl Names for MemoryFileSystem {
    fn lookup(&mut self, folder: FileId, name: &[u8]) -> Outcome<FileId> {
        Ok(self.find(folder, name)?.1)
    }

    fn parent(&mut self, folder: FileId) -> Outcome<FileId> {
        Ok(self.folder(folder)?.parent)
    }

    fn read_folder(
        &mut self,
        folder: FileId,
        after: u64,
        take: &mut dyn FnMut(FolderEntry<'_>) -> ControlFlow<()>,
    ) -> Outcome<()> {
        self.folder(folder)?;
        let mut entries = self.nodes[&folder].entries.range(after + 1..);
        let _ = entries.try_for_each(|(&cookie, Entry { name, file })| {
            take(FolderEntry { cookie, name, file: *file, kind: self.nodes[file].metadata.kind })
        });
        Ok(())
    }

    fn create_in(&mut self, folder: FileId, name: &[u8], new: &NewFile) -> Outcome<FileId> {
        self.check_free(folder, name)?;
        self.last += 1;
        let file = FileId(self.last);
        self.nodes.insert(file, Node::new(new, folder));
        self.add_name(folder, name, file, new.now);
        Ok(file)
    }

    fn create_symbolic_link(
        &mut self,
        folder: FileId,
        name: &[u8],
        target: &[u8],
        new: &NewFile,
    ) -> Outcome<FileId> {
        if target.len() > MOST_TARGET_BYTES {
            return Err(Errno::ENAMETOOLONG);
        }
        let file = self.create_in(folder, name, new)?;
        let node = self.node(file)?;
        node.target = target.to_vec();
        node.metadata.size = target.len() as u64;
        Ok(file)
    }

    fn read_symbolic_link(&mut self, file: FileId) -> Outcome<Vec<u8>> {
        let node = self.node(file)?;
        match node.metadata.kind {
            FileKind::SymbolicLink => Ok(node.target.clone()),
            _ => Err(Errno::EINVAL),
        }
    }

    fn link(&mut self, file: FileId, folder: FileId, name: &[u8], now: Timestamp) -> Outcome<()> {
        if self.node(file)?.is_folder() {
            return Err(Errno::EISDIR);
        }
        self.check_free(folder, name)?;
        self.add_name(folder, name, file, now);
        Ok(())
    }

    fn unlink(&mut self, folder: FileId, name: &[u8], now: Timestamp) -> Outcome<()> {
        let (cookie, file) = self.find(folder, name)?;
        if self.node(file)?.is_folder() {
            return Err(Errno::EISDIR);
        }
        self.take_name(folder, cookie, now);
        self.forget(file);
        Ok(())
    }

    fn remove_folder(&mut self, folder: FileId, name: &[u8], now: Timestamp) -> Outcome<()> {
        let (cookie, file) = self.find(folder, name)?;
        self.check_empty(file)?;
        self.take_name(folder, cookie, now);
        self.forget(file);
        Ok(())
    }

    fn rename_in(
        &mut self,
        folder: FileId,
        name: &[u8],
        new_folder: FileId,
        new_name: &[u8],
        mode: RenameMode,
        now: Timestamp,
    ) -> Outcome<()> {
        let (cookie, file) = self.find(folder, name)?;
        let old = match self.find(new_folder, new_name) {
            Err(Errno::ENOENT) => None,
            found => Some(found?),
        };
        if self.node(file)?.is_folder() && self.is_within(new_folder, file)? {
            return Err(Errno::EINVAL);
        }
        match (mode, old) {
            (RenameMode::NoReplace, Some(_)) => return Err(Errno::EEXIST),
            (RenameMode::Exchange, None) => return Err(Errno::ENOENT),
            (RenameMode::Exchange, Some((new_cookie, other))) => {
                if self.node(other)?.is_folder() && self.is_within(folder, other)? {
                    return Err(Errno::EINVAL);
                }
                self.exchange((folder, cookie), (new_folder, new_cookie), now);
                return Ok(());
            }
            (_, Some((_, same))) if same == file => return Ok(()),
            (_, Some((old_cookie, old))) => {
                self.check_replaces(file, old)?;
                self.take_name(new_folder, old_cookie, now);
                self.forget(old);
            }
            (_, None) => {}
        }
        self.take_name(folder, cookie, now);
        self.add_name(new_folder, new_name, file, now);
        Ok(())
    }

    fn open(&mut self, file: FileId) -> Outcome<()> {
        self.node(file)?.opens += 1;
        Ok(())
    }

    fn close(&mut self, file: FileId) -> Outcome<()> {
        let node = self.node(file)?;
        node.opens = node.opens.checked_sub(1).ok_or(Errno::EBADF)?;
        self.forget(file);
        Ok(())
    }

    fn sync_folder(&mut self, folder: FileId) -> Outcome<()> {
        self.sync(folder)
    }
}

impl Attributes for MemoryFileSystem {
    fn metadata(&mut self, file: FileId) -> Outcome<Metadata> {
        Ok(self.node(file)?.metadata)
    }

    fn change_metadata(&mut self, file: FileId, change: &MetadataChange) -> Outcome<()> {
        if let Some(size) = change.size {
            self.content(file)?.resize(size)?;
        }
        let metadata = &mut self.node(file)?.metadata;
        metadata.permissions = change.permissions.unwrap_or(metadata.permissions);
        metadata.owner = change.owner.unwrap_or(metadata.owner);
        metadata.group = change.group.unwrap_or(metadata.group);
        metadata.accessed = change.accessed.unwrap_or(metadata.accessed);
        metadata.modified = change.modified.unwrap_or(metadata.modified);
        metadata.changed = change.changed.unwrap_or(metadata.changed);
        Ok(())
    }
}

impl Content for MemoryFileSystem {
    fn read(
        &mut self,
        file: FileId,
        offset: u64,
        data: &mut [u8],
        _later: Option<&mut Fetches>,
    ) -> Outcome<usize> {
        Ok(self.content(file)?.read(offset, data))
    }

    fn write(&mut self, file: FileId, offset: u64, data: &[u8]) -> Outcome<()> {
        let free_units = self.free_units();
        self.content(file)?.write(offset, data, free_units)
    }

    fn write_direct(
        &mut self,
        file: FileId,
        offset: u64,
        data: &[u8],
        _fills: Option<&mut Fills>,
    ) -> Outcome<()> {
        self.write(file, offset, data)
    }

    fn sync(&mut self, file: FileId) -> Outcome<()> {
        self.node(file)?;
        self.client.submit(Command::Flush).map_err(|_| Errno::EIO)?;
        Ok(())
    }

    fn sync_data(&mut self, file: FileId) -> Outcome<()> {
        self.sync(file)
    }
}

/// It has no optional features.
impl Ranges for MemoryFileSystem {}
