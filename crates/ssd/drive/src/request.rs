//! Commands that own their data, and their answers: for clients that continue while a command is in flight.

use tantalum::{
    Command, Completion, Hint, Key, KvRecord, Lpn, METADATA_BYTES, Metadata, NamespaceAttributes,
    NamespaceId, ShareRange, Status, TxId, UNIT_BYTES,
};

use crate::drive::Drive;
use crate::when::When;

/// A record that owns its value; one without a value is deleted.
pub type OwnedRecord = (NamespaceId, Key, Option<Vec<u8>>);

/// A command with its data. [`Command`] describes each.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Request {
    /// [`Command::Read`] of this many units.
    Read {
        /// The first unit.
        lpn: Lpn,
        /// How many.
        units: u32,
    },
    /// [`Command::ReadWithMetadata`].
    ReadWithMetadata {
        /// The unit.
        lpn: Lpn,
    },
    /// [`Command::Write`].
    Write {
        /// The first unit.
        lpn: Lpn,
        /// A whole number of units.
        data: Vec<u8>,
        /// Whether they must be on flash before it completes.
        fua: bool,
    },
    /// [`Command::WriteWithMetadata`].
    WriteWithMetadata {
        /// The unit.
        lpn: Lpn,
        /// One unit.
        data: Vec<u8>,
        /// Metadata stored with it.
        metadata: Metadata,
        /// Whether it must be on flash before it completes.
        fua: bool,
    },
    /// [`Command::WriteHinted`].
    WriteHinted {
        /// The page of the log.
        lpn: Lpn,
        /// One unit.
        data: Vec<u8>,
        /// Metadata stored with it.
        metadata: Metadata,
        /// Its log and its home.
        hint: Hint,
    },
    /// [`Command::WriteZeroes`].
    WriteZeroes {
        /// The first unit.
        lpn: Lpn,
        /// How many.
        units: u32,
    },
    /// [`Command::Flush`].
    Flush,
    /// [`Command::Trim`].
    Trim {
        /// The first unit.
        lpn: Lpn,
        /// How many.
        units: u32,
    },
    /// [`Command::Share`].
    Share {
        /// The ranges.
        ranges: Vec<ShareRange>,
        /// Whether it becomes durable only by the next flush.
        deferred: bool,
    },
    /// [`Command::Remap`].
    Remap {
        /// The first unit that loses its mapping.
        src: Lpn,
        /// The first unit that receives it.
        dst: Lpn,
        /// How many.
        units: u32,
    },
    /// [`Command::WriteAtomic`].
    WriteAtomic {
        /// The units with their data.
        writes: Vec<(Lpn, Vec<u8>)>,
    },
    /// [`Command::WriteBatch`].
    WriteBatch {
        /// The units with their data.
        writes: Vec<(Lpn, Vec<u8>)>,
        /// The records; those without a value are deleted.
        records: Vec<OwnedRecord>,
    },
    /// [`Command::Begin`].
    Begin,
    /// [`Command::TxWrite`].
    TxWrite {
        /// The transaction.
        tx: TxId,
        /// The unit.
        lpn: Lpn,
        /// One unit.
        data: Vec<u8>,
    },
    /// [`Command::TxRead`].
    TxRead {
        /// The transaction.
        tx: TxId,
        /// The unit.
        lpn: Lpn,
    },
    /// [`Command::Commit`].
    Commit {
        /// The transaction.
        tx: TxId,
    },
    /// [`Command::Abort`].
    Abort {
        /// The transaction.
        tx: TxId,
    },
    /// [`Command::BeginLog`].
    BeginLog,
    /// [`Command::CreateNamespace`].
    CreateNamespace {
        /// The attributes.
        attributes: NamespaceAttributes,
    },
    /// [`Command::DeleteNamespace`].
    DeleteNamespace {
        /// The namespace.
        namespace: NamespaceId,
    },
    /// [`Command::KvPut`].
    KvPut {
        /// The records; those without a value are deleted.
        records: Vec<OwnedRecord>,
    },
    /// [`Command::KvGet`].
    KvGet {
        /// The namespace.
        namespace: NamespaceId,
        /// The key.
        key: Key,
    },
    /// [`Command::KvExists`].
    KvExists {
        /// The namespace.
        namespace: NamespaceId,
        /// The key.
        key: Key,
    },
    /// [`Command::KvDelete`].
    KvDelete {
        /// The namespace.
        namespace: NamespaceId,
        /// The key.
        key: Key,
    },
    /// [`Command::KvList`].
    KvList {
        /// The namespace.
        namespace: NamespaceId,
        /// The first key; `None` starts at the beginning.
        from: Option<Key>,
        /// Maximum number of keys.
        limit: usize,
    },
}

/// The answer to a command.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Reply {
    /// When it was done, and its results.
    pub completion: Completion,
    /// The data read: units, or a record's value.
    pub data: Vec<u8>,
    /// The metadata of a unit.
    pub metadata: Metadata,
    /// The keys listed.
    pub keys: Vec<Key>,
}

impl Drive {
    /// Executes a command at a client's time, as [`Drive::issue`] does. The answer is returned at once; the caller must
    /// hold it back until it is due. Where the drive allows it, bytes of reads and writes move while others have the
    /// drive. A [`Request::Write`] becomes a share where it repeats a recent one; see
    /// [`Locked::issue_or_share`](crate::Locked::issue_or_share).
    pub fn perform(&self, request: Request, when: impl Into<When>) -> Result<Reply, Status> {
        let when = when.into();
        match request {
            Request::Read { lpn, units } => {
                // so that an oversized request allocates no memory
                self.lock().check_range(lpn, units.into())?;
                let mut data = vec![0; units as usize * UNIT_BYTES];
                let completion = self.read(lpn, &mut data, when)?;
                Ok(Reply { completion, data, ..Reply::default() })
            }
            Request::Write { lpn, data, fua } => {
                let completion = self.write(lpn, &data, fua, when)?;
                Ok(Reply { completion, ..Reply::default() })
            }
            other => self.perform_locked(other, when),
        }
    }

    fn perform_locked(&self, request: Request, when: When) -> Result<Reply, Status> {
        let mut reply = Reply { metadata: [0; METADATA_BYTES], ..Reply::default() };
        let Reply { data: read, metadata: read_metadata, keys, .. } = &mut reply;
        let issue = |command| self.issue(command, when);
        let completion = match request {
            Request::Read { .. } | Request::Write { .. } => unreachable!("they have methods of their own"),
            Request::ReadWithMetadata { lpn } => {
                read.resize(UNIT_BYTES, 0);
                issue(Command::ReadWithMetadata { lpn, data: read, metadata: read_metadata })
            }
            Request::WriteWithMetadata { lpn, data, metadata, fua } => {
                issue(Command::WriteWithMetadata { lpn, data: &data, metadata: &metadata, fua })
            }
            Request::WriteHinted { lpn, data, metadata, hint } => {
                issue(Command::WriteHinted { lpn, data: &data, metadata: &metadata, hint })
            }
            Request::WriteZeroes { lpn, units } => issue(Command::WriteZeroes { lpn, units }),
            Request::Flush => issue(Command::Flush),
            Request::Trim { lpn, units } => issue(Command::Trim { lpn, units }),
            Request::Share { ranges, deferred } => issue(Command::Share { ranges: &ranges, deferred }),
            Request::Remap { src, dst, units } => issue(Command::Remap { src, dst, units }),
            Request::WriteAtomic { writes } => {
                issue(Command::WriteAtomic { writes: &borrowed_units(&writes) })
            }
            Request::WriteBatch { writes, records } => {
                let (writes, records) = (borrowed_units(&writes), borrowed_records(&records));
                issue(Command::WriteBatch { writes: &writes, records: &records })
            }
            Request::Begin => issue(Command::Begin),
            Request::TxWrite { tx, lpn, data } => issue(Command::TxWrite { tx, lpn, data: &data }),
            Request::TxRead { tx, lpn } => {
                read.resize(UNIT_BYTES, 0);
                issue(Command::TxRead { tx, lpn, data: read })
            }
            Request::Commit { tx } => issue(Command::Commit { tx }),
            Request::Abort { tx } => issue(Command::Abort { tx }),
            Request::BeginLog => issue(Command::BeginLog),
            Request::CreateNamespace { attributes } => issue(Command::CreateNamespace { attributes }),
            Request::DeleteNamespace { namespace } => issue(Command::DeleteNamespace { namespace }),
            Request::KvPut { records } => issue(Command::KvPut { records: &borrowed_records(&records) }),
            Request::KvGet { namespace, key } => issue(Command::KvGet { namespace, key, value: read }),
            Request::KvExists { namespace, key } => issue(Command::KvExists { namespace, key }),
            Request::KvDelete { namespace, key } => issue(Command::KvDelete { namespace, key }),
            Request::KvList { namespace, from, limit } => {
                issue(Command::KvList { namespace, from: from.as_ref(), keys, limit })
            }
        }?;
        Ok(Reply { completion, ..reply })
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
