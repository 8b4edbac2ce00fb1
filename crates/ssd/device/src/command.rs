//! The commands of the drive.
//!
//! This is the one list of them. A command is a variant of [`AnyCommand`], a row of [`COMMANDS`] (`command/info.rs`), and the
//! units that it names (`command/operands.rs`); `command/display.rs` shows it in traces, and `command/request.rs` lends the
//! form that owns its data. Latencies, firmware's time, checks, the form for queues, NVMe's vendor commands, traces and the
//! table in docs/commands.md follow from these, or are checked against them.
//!
//! Names follow NVMe where it has them. Data are whole units of 4 KiB.

mod data;
mod display;
mod info;
mod operands;
mod request;
pub mod vendor_opcode;

use tantalum_ftl::{
    FileEntry, FileId, Generation, Handle, Hint, Key, Lpn, Metadata, NamespaceAttributes, NamespaceId, TxId,
    ZoneAction, ZoneId,
};
use tantalum_nand::Nanoseconds;

pub use data::{Borrowed, Data};
pub use info::{COMMANDS, CommandInfo, Effect, Work};
pub(crate) use operands::Operands;
pub use request::{InReply, Output, Owned, OwnedRecord, Reply, Request, Units};

/// A command that borrows its data, and the places for its results, from whoever issues it.
/// [`crate::Device::submit`] takes it with the time at which the host issues it.
pub type Command<'a> = AnyCommand<Borrowed<'a>>;

/// One command, with borrowed data ([`Command`]) or data of its own ([`Request`]).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AnyCommand<D: Data> {
    /// Reads `data.len() / 4096` units; unmapped ones read as zeros.
    Read {
        /// The first unit.
        lpn: Lpn,
        /// Where the data go; a whole number of units.
        data: D::Units,
    },
    /// Reads units as `Read` does, except that units in an image's file are left for the host to fetch, into the same
    /// places of one of its buffers. That may happen while other commands run.
    ReadLater {
        /// The first unit.
        lpn: Lpn,
        /// Where the other data go; a whole number of units.
        data: D::Units,
        /// Receives the units to fetch.
        fetches: D::Fetches,
    },
    /// Reads one unit with its metadata (zeros if none were written).
    ReadWithMetadata {
        /// The unit.
        lpn: Lpn,
        /// Where the data go: one unit.
        data: D::Place<[u8]>,
        /// Where the metadata go.
        metadata: D::Place<Metadata>,
    },
    /// Writes `data.len() / 4096` units.
    Write {
        /// The first unit.
        lpn: Lpn,
        /// The data; a whole number of units.
        data: D::Bytes,
        /// Force unit access: on flash before the command completes.
        fua: bool,
        /// The reclaim unit handle that places them; `None` for the first, or on a drive without placement.
        handle: Option<Handle>,
    },
    /// Writes units as `Write` does, without `fua`, into buffers that already hold them.
    WriteFilled {
        /// The first unit.
        lpn: Lpn,
        /// The data; a whole number of units.
        data: D::Bytes,
        /// Buffers that hold the same data.
        fills: D::Fills,
        /// As of `Write`.
        handle: Option<Handle>,
    },
    /// Writes one unit with metadata and no hint.
    WriteWithMetadata {
        /// The unit.
        lpn: Lpn,
        /// The data: one unit.
        data: D::Bytes,
        /// Metadata stored with it.
        metadata: D::Metadata,
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
        ranges: D::Ranges,
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
        writes: D::Writes,
    },
    /// Writes scattered units, and stores and deletes records of any namespaces, all or nothing, durable when it
    /// returns. It takes what `WriteAtomic` and `KvPut` take, and is one of these if it has no records or no units.
    WriteBatch {
        /// The units with their data, one unit each; no unit twice.
        writes: D::Writes,
        /// The records; no key of a namespace twice. A record without a value deletes its key, if it exists.
        records: D::Records,
    },
    /// Opens a transaction (X-FTL).
    Begin {
        /// Receives its number.
        tx: D::Place<TxId>,
    },
    /// Writes one unit within a transaction; others see the old unit until the commit.
    TxWrite {
        /// The transaction.
        tx: TxId,
        /// The unit.
        lpn: Lpn,
        /// The data: one unit.
        data: D::Bytes,
    },
    /// Reads one unit as a transaction sees it.
    TxRead {
        /// The transaction.
        tx: TxId,
        /// The unit.
        lpn: Lpn,
        /// Where the data go: one unit.
        data: D::Place<[u8]>,
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
    /// Starts a life of a hinted log.
    BeginLog {
        /// Receives its generation, which is never reused.
        generation: D::Place<Generation>,
    },
    /// Writes one page of a hinted log. Within an attempt slots come in order; an attempt begins at its `start`.
    WriteHinted {
        /// The page's own unit.
        lpn: Lpn,
        /// The data: one unit.
        data: D::Bytes,
        /// Metadata stored with it.
        metadata: D::Metadata,
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
        data: D::Bytes,
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
        entries: D::Place<Vec<FileEntry>>,
    },
    /// Reads the numbers of the files that have lists, in ascending order.
    ListFiles {
        /// Where they go; its old contents are discarded.
        files: D::Place<Vec<FileId>>,
    },
    /// Clears a file's list, or all of them; all or nothing, durable when it returns.
    ClearFileLists {
        /// The file; `None` clears all lists.
        file: Option<FileId>,
    },
    /// Creates a key-value namespace.
    CreateNamespace {
        /// Its attributes.
        attributes: NamespaceAttributes,
        /// Receives its number, which is never reused.
        namespace: D::Place<NamespaceId>,
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
        records: D::Records,
    },
    /// Reads a value (NVMe KV Retrieve).
    KvGet {
        /// The namespace.
        namespace: NamespaceId,
        /// The key.
        key: Key,
        /// Where the value goes; its old contents are discarded.
        value: D::Place<Vec<u8>>,
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
        from: Option<Key>,
        /// Where the keys go; its old contents are discarded.
        keys: D::Place<Vec<Key>>,
        /// Maximum number of keys.
        limit: usize,
    },
    /// Reads units of a zone; those that were not written read as zeros.
    ZoneRead {
        /// The zone.
        zone: ZoneId,
        /// The first unit, from the beginning of the zone.
        offset: u32,
        /// Where the data go; a whole number of units, within the zone's size.
        data: D::Units,
    },
    /// Writes `data.len() / 4096` units at the write pointer of a zone.
    ZoneWrite {
        /// The zone.
        zone: ZoneId,
        /// The first unit, from the beginning of the zone: its write pointer.
        offset: u32,
        /// The data; a whole number of units, within the zone's capacity.
        data: D::Bytes,
        /// Force unit access: on flash, with all of the zone before it, before the command completes.
        fua: bool,
    },
    /// As `ZoneWrite`, wherever the write pointer is (NVMe Zone Append).
    ZoneAppend {
        /// The zone.
        zone: ZoneId,
        /// The data; a whole number of units, within the zone's capacity.
        data: D::Bytes,
        /// As of `ZoneWrite`.
        fua: bool,
        /// Receives the first unit, from the beginning of the zone.
        offset: D::Place<u32>,
    },
    /// Changes the state of a zone (NVMe Zone Management Send).
    ZoneManage {
        /// The zone; `None` for all to which the action applies.
        zone: Option<ZoneId>,
        /// What to do.
        action: ZoneAction,
    },
}

impl<D: Data> AnyCommand<D> {
    /// Whether it only reads.
    #[inline]
    pub fn reads(&self) -> bool {
        self.info().effect == Effect::Reads
    }

    /// Whether it changes what units read as, or prepares to; a read-only drive refuses it.
    #[inline]
    pub(crate) fn changes_units(&self) -> bool {
        match self.info().effect {
            Effect::Prepares | Effect::Changes => true,
            Effect::Reads | Effect::Ends => false,
        }
    }
}

/// The result of a successful command. What it read or named is where the command said.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Completion {
    /// When the host learns of it.
    pub done_ns: Nanoseconds,
}

/// Calls `submit` with a place for a command's result, and returns what the drive put there.
///
/// ```
/// # use tantalum::{Command, Device, Profile, result_of};
/// # let mut device = Device::in_memory(&Profile { capacity_bytes: 64 << 20, ..Profile::load("tlc-nvme")? })?;
/// # let at_ns = device.time_ns();
/// let tx = result_of(|tx| device.submit(Command::Begin { tx }, at_ns))?;
/// device.submit(Command::Abort { tx }, at_ns)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn result_of<T: Default, E>(submit: impl FnOnce(&mut T) -> Result<Completion, E>) -> Result<T, E> {
    let mut place = T::default();
    submit(&mut place)?;
    Ok(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A read-only drive refuses only what changes units: its contents can still be read, and what was begun can be ended.
    #[test]
    fn what_changes_units_is_refused_by_a_read_only_drive() {
        let (lpn, tx, file, mut data) = (Lpn(0), TxId(1), None, [0; 1]);
        assert!(Command::Write { lpn, data: &data, fua: false, handle: None }.changes_units());
        assert!(Command::TxWrite { tx, lpn, data: &data }.changes_units());
        assert!(Command::BeginLog { generation: &mut Generation::default() }.changes_units());
        assert!(!Command::TxRead { tx, lpn, data: &mut data }.changes_units());
        assert!(!Command::Flush.changes_units() && !Command::Abort { tx }.changes_units());
        assert!(!Command::ClearFileLists { file }.changes_units());
    }
}
