//! The commands of the drive.
//!
//! Names follow NVMe where it has them. Data are whole units of 4 KiB.

use tantalum_ftl::{
    FileEntry, FileId, Generation, Hint, Key, KvRecord, Lpn, Metadata, NamespaceAttributes, NamespaceId,
    ShareRange, TxId,
};
use tantalum_nand::{Fetches, Fills, Nanoseconds};

/// One command. [`crate::Device::submit`] takes it with the time at which the host issues it.
#[derive(Debug)]
pub enum Command<'a> {
    /// Reads `data.len() / 4096` units; unmapped ones read as zeros.
    Read {
        /// The first unit.
        lpn: Lpn,
        /// Where the data go; a whole number of units.
        data: &'a mut [u8],
    },
    /// Reads units as `Read` does, except that units in an image's file are left for the host to fetch, into the same
    /// places of one of its buffers. That may happen while other commands run.
    ReadLater {
        /// The first unit.
        lpn: Lpn,
        /// Where the other data go; a whole number of units.
        data: &'a mut [u8],
        /// Receives the units to fetch.
        fetches: &'a mut Fetches,
    },
    /// Reads one unit with its metadata (zeros if none were written).
    ReadWithMetadata {
        /// The unit.
        lpn: Lpn,
        /// Where the data go: one unit.
        data: &'a mut [u8],
        /// Where the metadata go.
        metadata: &'a mut Metadata,
    },
    /// Writes `data.len() / 4096` units.
    Write {
        /// The first unit.
        lpn: Lpn,
        /// The data; a whole number of units.
        data: &'a [u8],
        /// Force unit access: on flash before the command completes.
        fua: bool,
    },
    /// Writes units as `Write` does, without `fua`, into buffers that already hold them.
    WriteFilled {
        /// The first unit.
        lpn: Lpn,
        /// The data; a whole number of units.
        data: &'a [u8],
        /// Buffers that hold the same data.
        fills: &'a mut Fills,
    },
    /// Writes one unit with metadata and no hint.
    WriteWithMetadata {
        /// The unit.
        lpn: Lpn,
        /// The data: one unit.
        data: &'a [u8],
        /// Metadata stored with it.
        metadata: &'a Metadata,
        /// Force unit access.
        fua: bool,
    },
    /// Makes units read as zeros. The drive deallocates them.
    WriteZeroes {
        /// The first unit.
        lpn: Lpn,
        /// How many.
        units: u32,
    },
    /// Makes everything acknowledged before it durable.
    Flush,
    /// Deallocates units; they read as zeros from now on.
    Trim {
        /// The first unit.
        lpn: Lpn,
        /// How many.
        units: u32,
    },
    /// Maps each `dst` range to what its `src` range maps to, all or nothing (SHARE, section 3.2).
    Share {
        /// The ranges: no overlap, no dst twice, every src mapped.
        ranges: &'a [ShareRange],
        /// Durable only by the next flush, instead of when it returns.
        deferred: bool,
    },
    /// A share, after which src is unmapped; one step (SW-WAL, section III-A).
    Remap {
        /// The first unit that loses its mapping.
        src: Lpn,
        /// The first unit that receives it.
        dst: Lpn,
        /// How many.
        units: u32,
    },
    /// Writes scattered units, all or nothing, durable when it returns.
    WriteAtomic {
        /// The units with their data, one unit each; no unit twice.
        writes: &'a [(Lpn, &'a [u8])],
    },
    /// Writes scattered units, and stores and deletes records of any namespaces, all or nothing, durable when it
    /// returns. It takes what `WriteAtomic` and `KvPut` take, and is one of these if it has no records or no units.
    WriteBatch {
        /// The units with their data, one unit each; no unit twice.
        writes: &'a [(Lpn, &'a [u8])],
        /// The records; no key of a namespace twice. A record without a value deletes its key, if it exists.
        records: &'a [KvRecord<'a>],
    },
    /// Opens a transaction (X-FTL). [`Completion::tx`] names it.
    Begin,
    /// Writes one unit within a transaction; others see the old unit until the commit.
    TxWrite {
        /// The transaction.
        tx: TxId,
        /// The unit.
        lpn: Lpn,
        /// The data: one unit.
        data: &'a [u8],
    },
    /// Reads one unit as a transaction sees it.
    TxRead {
        /// The transaction.
        tx: TxId,
        /// The unit.
        lpn: Lpn,
        /// Where the data go: one unit.
        data: &'a mut [u8],
    },
    /// Makes a transaction's writes visible and durable, all or nothing.
    Commit {
        /// The transaction.
        tx: TxId,
    },
    /// Discards a transaction's writes.
    Abort {
        /// The transaction.
        tx: TxId,
    },
    /// Starts a life of a hinted log. [`Completion::generation`] names it; it is never reused.
    BeginLog,
    /// Writes one page of a hinted log. Within an attempt slots come in order; an attempt begins at its `start`.
    WriteHinted {
        /// The page's own unit.
        lpn: Lpn,
        /// The data: one unit.
        data: &'a [u8],
        /// Metadata stored with it.
        metadata: &'a Metadata,
        /// Its place in the log and its home.
        hint: Hint,
    },
    /// Writes units as `Write` with `fua` does, and appends them to the list of a file (PebbleSSD's `fs_write`; Jin's
    /// thesis, section 4.2.2). When it completes, data and list are durable. After a cut all of the units are in the
    /// list, or none; those in the list hold what was written. A unit that was in another list leaves it.
    ///
    /// An entry stays until its list is cleared, or its unit is written by another `FsWrite`. Writing the unit in any
    /// other way, trimming or remapping it leaves the entry: a list says what `FsWrite` wrote.
    FsWrite {
        /// The first unit.
        lpn: Lpn,
        /// The data; a whole number of units.
        data: &'a [u8],
        /// The file.
        file: FileId,
        /// Where in the file the first unit belongs, in units.
        offset: u32,
    },
    /// Reads a file's list, in the order of appending.
    ReadFileList {
        /// The file.
        file: FileId,
        /// Where the entries go; its old contents are discarded.
        entries: &'a mut Vec<FileEntry>,
    },
    /// Reads the numbers of the files that have lists, in ascending order.
    ListFiles {
        /// Where they go; its old contents are discarded.
        files: &'a mut Vec<FileId>,
    },
    /// Clears a file's list, or all of them; all or nothing, durable when it returns.
    ClearFileLists {
        /// The file; `None` clears all lists.
        file: Option<FileId>,
    },
    /// Creates a key-value namespace. [`Completion::namespace`] names it; the number is never reused.
    CreateNamespace {
        /// Its attributes.
        attributes: NamespaceAttributes,
    },
    /// Deletes a key-value namespace with all its records.
    DeleteNamespace {
        /// The namespace.
        namespace: NamespaceId,
    },
    /// Stores and deletes records of any namespaces, all or nothing (KAML, section 3.1; NVMe's KV Store does the same
    /// for one record). A record without a value deletes its key, if it exists.
    KvPut {
        /// The records; no key of a namespace twice.
        records: &'a [KvRecord<'a>],
    },
    /// Reads a value (NVMe KV Retrieve).
    KvGet {
        /// The namespace.
        namespace: NamespaceId,
        /// The key.
        key: Key,
        /// Where the value goes; its old contents are discarded.
        value: &'a mut Vec<u8>,
    },
    /// Succeeds if a key exists (NVMe KV Exist).
    KvExists {
        /// The namespace.
        namespace: NamespaceId,
        /// The key.
        key: Key,
    },
    /// Deletes a record (NVMe KV Delete).
    KvDelete {
        /// The namespace.
        namespace: NamespaceId,
        /// The key.
        key: Key,
    },
    /// Lists keys in the drive's own order, which is stable while other keys come and go (NVMe KV List).
    KvList {
        /// The namespace.
        namespace: NamespaceId,
        /// The first key, or the one that would follow it if it does not exist. None starts at the beginning.
        from: Option<&'a Key>,
        /// Where the keys go; its old contents are discarded.
        keys: &'a mut Vec<Key>,
        /// Maximum number of keys.
        limit: usize,
    },
}

impl Command<'_> {
    /// Whether it only reads.
    pub fn reads(&self) -> bool {
        matches!(
            self,
            Command::Read { .. }
                | Command::ReadLater { .. }
                | Command::ReadWithMetadata { .. }
                | Command::TxRead { .. }
                | Command::KvGet { .. }
                | Command::KvExists { .. }
                | Command::KvList { .. }
                | Command::ReadFileList { .. }
                | Command::ListFiles { .. }
        )
    }

    /// Whether it changes what units read as, or prepares to; a read-only drive refuses it.
    pub(crate) fn changes_units(&self) -> bool {
        !self.reads()
            && !matches!(self, Command::Flush | Command::Abort { .. } | Command::ClearFileLists { .. })
    }
}

/// The result of a successful command.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Completion {
    /// When the host learns of it.
    pub done_ns: Nanoseconds,
    /// The transaction that `Begin` opened.
    pub tx: Option<TxId>,
    /// The generation that `BeginLog` drew.
    pub generation: Option<Generation>,
    /// The namespace that `CreateNamespace` created.
    pub namespace: Option<NamespaceId>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A read-only drive refuses only what changes units: its contents can still be read, and what was begun can be ended.
    #[test]
    fn what_changes_units_is_refused_by_a_read_only_drive() {
        let (lpn, tx, file, mut data) = (Lpn(0), TxId(1), None, [0; 1]);
        assert!(Command::Write { lpn, data: &data, fua: false }.changes_units());
        assert!(Command::TxWrite { tx, lpn, data: &data }.changes_units());
        assert!(Command::BeginLog.changes_units());
        assert!(!Command::TxRead { tx, lpn, data: &mut data }.changes_units());
        assert!(!Command::Flush.changes_units() && !Command::Abort { tx }.changes_units());
        assert!(!Command::ClearFileLists { file }.changes_units());
    }
}
