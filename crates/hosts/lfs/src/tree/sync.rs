//! Syncs of files: the end of a partial segment that has a file's data, with its inode and no nodes. A mount rebuilds these.

use tantalum_filesystem::FileId;

use super::Tree;
use super::summary::What;
use crate::bytes::zeros;
use crate::error::Result;
use crate::inode::INODE_BYTES;
use crate::segments::Log;

impl Tree {
    /// Whether what a sync appends records all changes of a file.
    pub(super) fn can_tell(&self, file: FileId) -> bool {
        let reserved = (file, 0)..=(file, u32::MAX);
        !self.since.untold.contains(&file) && self.since.reserved.range(reserved).next().is_none()
    }

    /// Appends a file's inode, if it was set, and the summary that ends its sync.
    pub(super) fn append_sync(&mut self, log: &mut Log, file: FileId) -> Result<()> {
        assert!(
            self.can_tell(file),
            "the sync of file {file} cannot record which units it gave up or reserved"
        );
        self.since.appended.remove(&file);
        if self.since.inodes.remove(&file)
            && let Some(root) = self.root_of(log, file)?
        {
            let mut page = zeros();
            page[..INODE_BYTES].copy_from_slice(&self.node(log, root)?.page[..INODE_BYTES]);
            self.partial.append(log, What::Inode(file), &page)?;
        }
        self.partial.seal(log, Some(file))?;
        Ok(())
    }
}
