//! What the volume knows about an open transaction of the drive.

use std::collections::BTreeSet;

use tantalum_filesystem::FileId;

/// An open transaction.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpenTransaction {
    /// What it has written.
    pub units: BTreeSet<(FileId, u32)>,
    /// A commit that failed sent inodes, and the drive keeps them as pages of the transaction. They grow old: a later commit
    /// would bring them back over newer ones.
    pub has_inodes: bool,
}

impl OpenTransaction {
    /// Its units of one file, in order.
    pub fn units_of(&self, file: FileId) -> impl DoubleEndedIterator<Item = u32> {
        self.units.range((file, 0)..=(file, u32::MAX)).map(|&(_, unit)| unit)
    }
}
