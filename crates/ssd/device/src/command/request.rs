//! Commands that own their data, and their replies: for clients that continue while a command is in flight.

use std::convert::Infallible;

use tantalum_ftl::{
    FileEntry, FileId, Generation, Key, KvRecord, Lpn, METADATA_BYTES, Metadata, NamespaceId, ShareRange,
    TxId,
};
use tantalum_nand::{Nanoseconds, UNIT_BYTES};

use super::{AnyCommand, Command, Completion, Data};

/// A command with its data. Its results are in the [`Reply`].
pub type Request = AnyCommand<Owned>;

/// Data that a command owns: [`Request`]. Commands whose bytes move without the drive have no such form.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Owned;

/// How many units are read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Units(pub u32);

/// A result that is in the [`Reply`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InReply;

/// A record that owns its value; one without a value is deleted.
pub type OwnedRecord = (NamespaceId, Key, Option<Vec<u8>>);

impl Data for Owned {
    type Bytes = Vec<u8>;
    type Ranges = Vec<ShareRange>;
    type Writes = Vec<(Lpn, Vec<u8>)>;
    type Records = Vec<OwnedRecord>;
    type Metadata = Metadata;
    type Units = Units;
    type Place<T: ?Sized + 'static> = InReply;
    type Fetches = Infallible;
    type Fills = Infallible;
}

/// The answer to a [`Request`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reply {
    /// When its client learns of it.
    pub done_ns: Nanoseconds,
    /// Its result.
    pub output: Output,
}

/// What a command reads or names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Output {
    /// Nothing.
    Nothing,
    /// The units of `Read`, `ZoneRead` and `TxRead`, or the value of `KvGet`.
    Data(Vec<u8>),
    /// The unit of `ReadWithMetadata`, with its metadata.
    Unit(Vec<u8>, Metadata),
    /// The keys of `KvList`.
    Keys(Vec<Key>),
    /// The entries of `ReadFileList`.
    FileEntries(Vec<FileEntry>),
    /// The files of `ListFiles`.
    Files(Vec<FileId>),
    /// What `Begin` opened.
    Transaction(TxId),
    /// What `BeginLog` began.
    Log(Generation),
    /// What `CreateNamespace` created.
    Namespace(NamespaceId),
    /// Where `ZoneAppend` wrote.
    Offset(u32),
}

impl Reply {
    /// The units or the value that were read. Empty for a command that reads neither.
    pub fn into_data(self) -> Vec<u8> {
        match self.output {
            Output::Data(data) | Output::Unit(data, _) => data,
            Output::Nothing
            | Output::Keys(_)
            | Output::FileEntries(_)
            | Output::Files(_)
            | Output::Transaction(_)
            | Output::Log(_)
            | Output::Namespace(_)
            | Output::Offset(_) => Vec::new(),
        }
    }
}

impl Request {
    /// Lends the command to `issue`, with places for its results. A `Read` allocates memory for its units first.
    pub fn issue_with<E>(self, issue: impl FnOnce(Command<'_>) -> Result<Completion, E>) -> Result<Reply, E> {
        let mut done_ns = 0;
        let issue = |command: Command<'_>| -> Result<Output, E> {
            done_ns = issue(command)?.done_ns;
            Ok(Output::Nothing)
        };
        let output = match self {
            Request::Read { lpn, data: Units(units) } => {
                let mut data = vec![0; units as usize * UNIT_BYTES];
                issue(Command::Read { lpn, data: &mut data })?;
                Output::Data(data)
            }
            Request::ReadWithMetadata { lpn, data: InReply, metadata: InReply } => {
                let (mut data, mut metadata) = (vec![0; UNIT_BYTES], [0; METADATA_BYTES]);
                issue(Command::ReadWithMetadata { lpn, data: &mut data, metadata: &mut metadata })?;
                Output::Unit(data, metadata)
            }
            Request::TxRead { tx, lpn, data: InReply } => {
                let mut data = vec![0; UNIT_BYTES];
                issue(Command::TxRead { tx, lpn, data: &mut data })?;
                Output::Data(data)
            }
            Request::KvGet { namespace, key, value: InReply } => {
                let mut value = Vec::new();
                issue(Command::KvGet { namespace, key, value: &mut value })?;
                Output::Data(value)
            }
            Request::KvList { namespace, from, keys: InReply, limit } => {
                let mut keys = Vec::new();
                issue(Command::KvList { namespace, from, keys: &mut keys, limit })?;
                Output::Keys(keys)
            }
            Request::ReadFileList { file, entries: InReply } => {
                let mut entries = Vec::new();
                issue(Command::ReadFileList { file, entries: &mut entries })?;
                Output::FileEntries(entries)
            }
            Request::ListFiles { files: InReply } => {
                let mut files = Vec::new();
                issue(Command::ListFiles { files: &mut files })?;
                Output::Files(files)
            }
            Request::Begin { tx: InReply } => {
                let mut tx = TxId::default();
                issue(Command::Begin { tx: &mut tx })?;
                Output::Transaction(tx)
            }
            Request::BeginLog { generation: InReply } => {
                let mut generation = Generation::default();
                issue(Command::BeginLog { generation: &mut generation })?;
                Output::Log(generation)
            }
            Request::CreateNamespace { attributes, namespace: InReply } => {
                let mut namespace = NamespaceId::default();
                issue(Command::CreateNamespace { attributes, namespace: &mut namespace })?;
                Output::Namespace(namespace)
            }
            Request::ZoneRead { zone, offset, data: Units(units) } => {
                let mut data = vec![0; units as usize * UNIT_BYTES];
                issue(Command::ZoneRead { zone, offset, data: &mut data })?;
                Output::Data(data)
            }
            Request::ZoneAppend { zone, data, fua, offset: InReply } => {
                let mut offset = 0;
                issue(Command::ZoneAppend { zone, data: &data, fua, offset: &mut offset })?;
                Output::Offset(offset)
            }
            Request::ZoneWrite { zone, offset, data, fua } => {
                issue(Command::ZoneWrite { zone, offset, data: &data, fua })?
            }
            Request::ZoneManage { zone, action } => issue(Command::ZoneManage { zone, action })?,
            Request::Write { lpn, data, fua, handle } => {
                issue(Command::Write { lpn, data: &data, fua, handle })?
            }
            Request::WriteWithMetadata { lpn, data, metadata, fua } => {
                issue(Command::WriteWithMetadata { lpn, data: &data, metadata: &metadata, fua })?
            }
            Request::WriteHinted { lpn, data, metadata, hint } => {
                issue(Command::WriteHinted { lpn, data: &data, metadata: &metadata, hint })?
            }
            Request::FsWrite { lpn, data, file, offset } => {
                issue(Command::FsWrite { lpn, data: &data, file, offset })?
            }
            Request::WriteZeroes { lpn, units } => issue(Command::WriteZeroes { lpn, units })?,
            Request::Flush => issue(Command::Flush)?,
            Request::Trim { lpn, units } => issue(Command::Trim { lpn, units })?,
            Request::Share { ranges, deferred } => issue(Command::Share { ranges: &ranges, deferred })?,
            Request::Remap { src, dst, units } => issue(Command::Remap { src, dst, units })?,
            Request::WriteAtomic { writes } => {
                issue(Command::WriteAtomic { writes: &borrowed_units(&writes) })?
            }
            Request::WriteBatch { writes, records } => {
                let (writes, records) = (borrowed_units(&writes), borrowed_records(&records));
                issue(Command::WriteBatch { writes: &writes, records: &records })?
            }
            Request::TxWrite { tx, lpn, data } => issue(Command::TxWrite { tx, lpn, data: &data })?,
            Request::Commit { tx } => issue(Command::Commit { tx })?,
            Request::Abort { tx } => issue(Command::Abort { tx })?,
            Request::ClearFileLists { file } => issue(Command::ClearFileLists { file })?,
            Request::DeleteNamespace { namespace } => issue(Command::DeleteNamespace { namespace })?,
            Request::KvPut { records } => issue(Command::KvPut { records: &borrowed_records(&records) })?,
            Request::KvExists { namespace, key } => issue(Command::KvExists { namespace, key })?,
            Request::KvDelete { namespace, key } => issue(Command::KvDelete { namespace, key })?,
        };
        Ok(Reply { done_ns, output })
    }
}

fn borrowed_units(writes: &[(Lpn, Vec<u8>)]) -> Vec<(Lpn, &[u8])> {
    writes.iter().map(|(lpn, data)| (*lpn, &data[..])).collect()
}

fn borrowed_records(records: &[OwnedRecord]) -> Vec<KvRecord<'_>> {
    records
        .iter()
        .map(|(namespace, key, value)| KvRecord { namespace: *namespace, key: *key, value: value.as_deref() })
        .collect()
}
