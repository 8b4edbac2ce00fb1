//! What a host may ask of the drive.
//!
//! Names follow NVMe where it has them. Data are whole units of 4 KiB.

use tantalum_ftl::{
    Generation, Hint, Key, KvRecord, Lpn, Metadata, NamespaceAttributes, NamespaceId, ShareRange, TxId,
};
use tantalum_nand::{Fetches, Fills, Nanoseconds};

/// One command. [`crate::Device::submit`] takes it with the time at which the host issues it.
#[derive(Debug)]
pub enum Command<'a> {
    /// Reads `data.len() / 4096` units; those that are not mapped read as zeros.
    Read {
        /// The first unit.
        lpn: Lpn,
        /// Where the data go; a whole number of units.
        data: &'a mut [u8],
    },
    /// Reads units as `Read` does; but those that lie in the file of an image are to be fetched from there, into the same
    /// places of a buffer of the host, which may be done while other commands are.
    ReadLater {
        /// The first unit.
        lpn: Lpn,
        /// Where the other data go; a whole number of units.
        data: &'a mut [u8],
        /// What is to be fetched is added.
        fetches: &'a mut Fetches,
    },
    /// Reads one unit with the metadata that were written with it (zeros if none were).
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
    /// Writes units as `Write` does, without `fua`, to buffers that were filled with them.
    WriteFilled {
        /// The first unit.
        lpn: Lpn,
        /// The data; a whole number of units.
        data: &'a [u8],
        /// Buffers with the same data.
        fills: &'a mut Fills,
    },
    /// Writes one unit with metadata and no hint.
    WriteWithMetadata {
        /// The unit.
        lpn: Lpn,
        /// The data: one unit.
        data: &'a [u8],
        /// What travels with it.
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
        /// The ranges. No overlap, no dst twice, every src mapped.
        ranges: &'a [ShareRange],
        /// Durable by the next flush only, instead of when it returns.
        deferred: bool,
    },
    /// Share, then src is unmapped; one step (SW-WAL, section III-A).
    Remap {
        /// The first unit that loses its mapping.
        src: Lpn,
        /// The first unit that takes it.
        dst: Lpn,
        /// How many.
        units: u32,
    },
    /// Writes scattered units, all or nothing, durable when it returns.
    WriteAtomic {
        /// The units with their data, one unit each; no unit twice.
        writes: &'a [(Lpn, &'a [u8])],
    },
    /// Opens a transaction (X-FTL). [`Completion::tx`] names it.
    Begin,
    /// Writes one unit within a transaction; others see the old one until the commit.
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
    /// Forgets a transaction's writes.
    Abort {
        /// The transaction.
        tx: TxId,
    },
    /// Starts a life of a hinted log. [`Completion::generation`] names it; it is never given twice.
    BeginLog,
    /// Writes one page of a hinted log. Within an attempt slots come in order; an attempt begins at its `start`.
    WriteHinted {
        /// The page's own unit.
        lpn: Lpn,
        /// The data: one unit.
        data: &'a [u8],
        /// What travels with it.
        metadata: &'a Metadata,
        /// Its place in the log and its home.
        hint: Hint,
    },
    /// Makes a key-value namespace. [`Completion::namespace`] names it; the number is never used again.
    CreateNamespace {
        /// What it is made with.
        attributes: NamespaceAttributes,
    },
    /// Deletes a key-value namespace with all that it holds.
    DeleteNamespace {
        /// The namespace.
        namespace: NamespaceId,
    },
    /// Stores and deletes records, of any namespaces, all or nothing (KAML, section 3.1; NVMe KV Store is the same with
    /// one). A record without a value deletes its key, if it is there.
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
        /// Where the value goes; what was in it is gone.
        value: &'a mut Vec<u8>,
    },
    /// Ends well if a key is there (NVMe KV Exist).
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
    /// Lists keys, in the drive's own order, which stays while others come and go (NVMe KV List).
    KvList {
        /// The namespace.
        namespace: NamespaceId,
        /// The first key; if it is not there, the one that would come after it. None for the beginning.
        from: Option<&'a Key>,
        /// Where the keys go; what was in it is gone.
        keys: &'a mut Vec<Key>,
        /// How many at most.
        limit: usize,
    },
}

impl Command<'_> {
    /// Whether it only reads.
    pub(crate) fn reads(&self) -> bool {
        matches!(
            self,
            Command::Read { .. }
                | Command::ReadLater { .. }
                | Command::ReadWithMetadata { .. }
                | Command::TxRead { .. }
                | Command::KvGet { .. }
                | Command::KvExists { .. }
                | Command::KvList { .. }
        )
    }

    /// Whether it would change what units read as, or prepares for that: a read-only drive refuses it.
    pub(crate) fn changes_units(&self) -> bool {
        !self.reads() && !matches!(self, Command::Flush | Command::Abort { .. })
    }
}

/// How a command ended well.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Completion {
    /// When the host learns of it.
    pub done_ns: Nanoseconds,
    /// The transaction that `Begin` opened.
    pub tx: Option<TxId>,
    /// The generation that `BeginLog` drew.
    pub generation: Option<Generation>,
    /// The namespace that `CreateNamespace` made.
    pub namespace: Option<NamespaceId>,
}
