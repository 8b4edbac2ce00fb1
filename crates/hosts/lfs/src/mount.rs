//! Making, mounting and unmounting a file system.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;
use tantalum::{Device, Lpn};
use tantalum_drive::Client;
use tantalum_filesystem::{FileId, FileKind, NewFile, PageCache};

use crate::checkpoint_delta::CheckpointDelta;
use crate::error::{LfsError, Result};
use crate::fs::{LogFs, host_units};
use crate::index::Opened;
use crate::inode::Inode;
use crate::nat::Nat;
use crate::superblock::{Cleaning, Indexing, LfsKind, PLACES, Superblock};
use crate::tree::Tree;

impl LogFs {
    /// Creates an empty file system; everything on the drive is lost. Reads and writes go through a page cache of
    /// `cache_bytes`.
    pub fn format(
        drive: impl Into<Client>,
        kind: LfsKind,
        cleaning: Cleaning,
        cache_bytes: u64,
    ) -> Result<LogFs> {
        LogFs::format_indexed(drive, kind, cleaning, Indexing::Conventional, cache_bytes)
    }

    /// Creates an empty file system as [`LogFs::format`] does, whose syncs write what `indexing` says.
    ///
    /// # Errors
    /// Also if `indexing` is [`Indexing::Nvm`] and the drive has no lists of files.
    pub fn format_indexed(
        drive: impl Into<Client>,
        kind: LfsKind,
        cleaning: Cleaning,
        indexing: Indexing,
        cache_bytes: u64,
    ) -> Result<LogFs> {
        let client: Client = drive.into();
        let capacity_units = client.device().limits().capacity_units;
        let superblock = Superblock { capacity_units, kind, cleaning, indexing };
        let root = NewFile { kind: FileKind::Folder, permissions: 0o755, ..NewFile::default() };
        // Refuse a drive of the wrong size before anything is lost.
        let inode = Inode::new(&root, FileId::ROOT, b"");
        let mut opened = match kind {
            LfsKind::Nat => Nat::format(client, &inode)?,
            LfsKind::Tree => Tree::format(client, &inode)?,
        };
        if indexing == Indexing::Nvm {
            opened.log.format_lists()?;
        }
        opened.log.trim(Lpn(0), capacity_units as u32)?;
        let mut fs = LogFs::new(superblock, opened, cache_bytes);
        fs.write_checkpoint(false)?;
        for lpn in PLACES {
            fs.log.write(lpn, &superblock.encode()[..], true)?;
            fs.log.written.roots += 1;
        }
        fs.log.flush()?;
        Ok(fs)
    }

    /// Whether the drive claims to have a log-structured file system, whole or damaged.
    pub fn is_formatted(device: &mut Device) -> Result<bool> {
        Superblock::is_there(device)
    }

    /// How the log-structured file system of a drive indexes its files; `None` if the drive does not claim to have one.
    pub fn kind_on(device: &mut Device) -> Result<Option<LfsKind>> {
        Superblock::kind_on(device)
    }

    /// Mounts the file system of a drive, and recovers it if it was not unmounted.
    pub fn mount(drive: impl Into<Client>, cache_bytes: u64) -> Result<LogFs> {
        let client: Client = drive.into();
        let superblock = Superblock::read(&mut client.device())?;
        let opened = match superblock.kind {
            LfsKind::Nat => Nat::open(client)?,
            LfsKind::Tree => Tree::open(client)?,
        };
        let (orphans, nameless) = (opened.orphans.clone(), opened.nameless.clone());
        let mut fs = LogFs::new(superblock, opened, cache_bytes);
        fs.recover_lists()?;
        for file in nameless {
            fs.name_again(file)?;
        }
        for file in orphans {
            if fs.index.inode(&mut fs.log, file)?.is_some() {
                fs.forget(file)?;
            }
        }
        let written = fs.log.written;
        assert_eq!(
            (written.contents, written.nodes, written.tables, written.roots),
            (0, 0, 0, 0),
            "a mount has written units before its checkpoint, and a second one could not recover (L5)"
        );
        // What recovery read may be overwritten only after this checkpoint.
        fs.write_checkpoint(false)?;
        fs.finish_deletions()?;
        assert!(!fs.is_dirty(), "a mount ends with changes that its checkpoint does not have: {fs:?}");
        Ok(fs)
    }

    fn new(superblock: Superblock, mut opened: Opened, cache_bytes: u64) -> LogFs {
        if superblock.indexing == Indexing::Nvm {
            opened.log.use_lists();
        }
        let units_before = host_units(&opened.log.client);
        LogFs {
            superblock,
            log: opened.log,
            index: opened.index,
            pages: PageCache::new(cache_bytes),
            files: FxHashMap::default(),
            folders: FxHashMap::default(),
            orphans: BTreeSet::new(),
            since: CheckpointDelta::default(),
            job: None,
            cleaned: Default::default(),
            most_files: 0,
            content_units: 0,
            synced: Default::default(),
            units_before,
            written_back: FileId(0),
            is_snapshot: false,
            stopped: None,
        }
    }

    /// Mounts a snapshot: everything that would change it is refused with `EROFS`, and nothing is written to the drive.
    /// Fails if there is no such snapshot.
    pub fn mount_snapshot(drive: impl Into<Client>, number: u32, cache_bytes: u64) -> Result<LogFs> {
        let client: Client = drive.into();
        let superblock = Superblock::read(&mut client.device())?;
        if superblock.kind != LfsKind::Tree {
            return Err(LfsError::KeepsNoSnapshots);
        }
        let opened = Tree::open_snapshot(client, number)?;
        Ok(LogFs { is_snapshot: true, ..LogFs::new(superblock, opened, cache_bytes) })
    }

    /// Gives a file that recovery found the name under which it was created. Its folder is in the checkpoint and the
    /// name is free; otherwise its sync would have taken a checkpoint.
    fn name_again(&mut self, id: FileId) -> Result<()> {
        let inode = self.file(id)?.inode.clone();
        let is_free = match self.folder(inode.parent) {
            Ok(folder) => folder.get(&inode.name).is_none(),
            Err(LfsError::Refused(_)) => false,
            Err(error) => return Err(error),
        };
        if !is_free || inode.metadata.links != 1 {
            return self.forget(id);
        }
        self.add_entry(inode.parent, &inode.name, id, inode.metadata.kind)?;
        let created = inode.metadata.created;
        if created > self.file(inode.parent)?.inode.metadata.modified {
            self.modified(inode.parent, created)?;
        }
        Ok(())
    }

    /// Makes everything durable and returns the drive. If that fails, what was not synced is lost.
    pub fn unmount(mut self) -> std::result::Result<Client, Box<(Client, LfsError)>> {
        if self.is_snapshot {
            let (written, dirty) = (self.log.written.total(), self.pages.dirty_pages());
            assert_eq!((written, dirty), (0, 0), "a snapshot was changed: units written, dirty pages");
            return Ok(self.log.client);
        }
        match self.change(|fs| fs.sync_all(true)) {
            Ok(()) => Ok(self.log.client),
            Err(error) => Err(Box::new((self.log.client, error))),
        }
    }

    /// Returns the drive as after a crash of the host: what was not synced is lost.
    pub fn into_client_without_sync(self) -> Client {
        self.log.client
    }
}
