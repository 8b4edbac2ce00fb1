//! Creating a file, and finding what one contains.
//!
//! 1. The header in the first unit, which is never overwritten, says which file this is.
//! 2. The last whole header is found by searching backwards from the end of the file. An unfinished commit may follow it.
//! 3. Updates shared since then have left their records in the staging area, numbered consecutively from the header's number.
//!    Such an update was committed if its home has that change or a later one.
//!
//! If the storage has failed, what cannot be read there belongs to the commit that failed, and counts as not written. Nothing is
//! changed then.

use std::ops::Bound;
use std::sync::Arc;

use tantalum_canaries::guard;

use crate::cache::NodeCache;
use crate::data_file::{DataFile, Pointer, seq_key};
use crate::document::{self, Document, whole_units};
use crate::error::Error;
use crate::header::{Header, NoHeader};
use crate::inner::Pending;
use crate::options::{Options, Way};
use crate::storage::{Storage, StorageFile, UNIT_BYTES};
use crate::tree::Tree;

const UNIT: u64 = UNIT_BYTES as u64;

/// Bytes read at once.
const READ_BYTES: u64 = 64 * UNIT;

/// What a file contains.
pub(crate) struct Found<F> {
    pub file: DataFile<F>,
    pub header: Header,
    pub pending: Vec<Pending>,
    pub stage_used: u32,
}

/// Creates an empty file. It must still be synced.
pub(crate) fn create<S: Storage>(storage: &S, name: &str, options: &Options) -> Result<S::File, Error> {
    let file = storage.create(name)?;
    let shares = options.way == Way::Share && file.share_units() > 1;
    let stage_units = if shares { options.stage_units } else { 0 };
    let header = Header { file: new_id(), shares, stage_offset: UNIT, stage_units, ..Header::default() };
    let second = Header { offset: header.stage_end(), covers_from: header.stage_end(), ..header };
    let units = if shares { stage_units } else { 0 };
    let room = second.offset - header.end();
    assert_eq!(
        room,
        u64::from(units) * UNIT,
        "bytes between the two headers, for {units} units of staging area"
    );
    file.grow(second.end())?;
    file.write(0, &header.encode()[..])?;
    if shares {
        file.write(second.offset, &second.encode()[..])?;
    }
    Ok(file)
}

/// A number unique to this file.
fn new_id() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one("a file of a document store")
}

/// Finds what a file contains.
pub(crate) fn recover<F: StorageFile>(
    file: F,
    name: &Arc<str>,
    cache: &NodeCache,
    has_failed: bool,
) -> Result<Found<F>, Error> {
    let mut unit = vec![0; UNIT_BYTES];
    file.read(0, &mut unit)?;
    let first = Header::decode(&unit, 0).map_err(|reason| no_store(name, reason))?;
    let file = DataFile { id: first.file, name: Arc::clone(name), file, has_failed };
    let header = last_header(&file)?;
    let (pending, stage_used) = staged(&file, &header, cache)?;
    let updates = pending.len();
    assert!(updates <= stage_used as usize, "{updates} updates were staged in {stage_used} units");
    Ok(Found { file, header, pending, stage_used })
}

fn no_store(name: &str, reason: NoHeader) -> Error {
    let name = name.to_owned();
    match reason {
        NoHeader::Other => Error::NotAStore { name },
        NoHeader::Version(found) => Error::OtherVersion { name, found, supported: crate::header::VERSION },
    }
}

/// The last whole header of a file.
fn last_header<F: StorageFile>(file: &DataFile<F>) -> Result<Header, Error> {
    let mut end = file.file.size()? / UNIT * UNIT;
    let mut buffer = vec![0; READ_BYTES as usize];
    while end > 0 {
        let start = end.saturating_sub(READ_BYTES);
        let units = &mut buffer[..(end - start) as usize];
        file.read_unfinished(start, units)?;
        for (index, unit) in units.chunks(UNIT_BYTES).enumerate().rev() {
            let offset = start + index as u64 * UNIT;
            let Ok(header) = Header::decode(unit, offset) else { continue };
            if header.file != file.id {
                continue;
            }
            if is_whole(file, &header)? {
                return Ok(header);
            }
            // if anything was shared after it, the commit had returned: what is missing is damage, not an unfinished
            // commit
            if is_covered(file, &header)? && !staged(file, &header, &NodeCache::new(0))?.0.is_empty() {
                return Err(file.damaged(offset, "a document of the last header's commit is damaged"));
            }
        }
        end = start;
    }
    Err(Error::NotAStore { name: file.name.to_string() })
}

/// Whether everything that the header's commit appended is there.
fn is_whole<F: StorageFile>(file: &DataFile<F>, header: &Header) -> Result<bool, Error> {
    let all = || Ok(is_covered(file, header)? && (!header.shares || has_documents(file, header)?));
    guard!(HeaderAlone, all())
}

/// Whether the documents of the header's commit, or later ones shared over them, are there.
fn has_documents<F: StorageFile>(file: &DataFile<F>, header: &Header) -> Result<bool, Error> {
    // nodes of an incomplete commit must not stay in the cache
    let cache = NodeCache::new(0);
    let by_seq = Tree { file, cache: &cache, root: header.by_seq };
    let mut cursor = by_seq.cursor(Bound::Excluded(&seq_key(header.seq_before)))?;
    while let Some(place) = cursor.next(&by_seq, |_, value| Pointer::decode_place(value, 0))? {
        match place.map(|place| file.read_document(place)) {
            Some(Ok(document)) if document.seq() > header.seq_before => {}
            // one that was to be shared over, when that failed
            Some(Err(Error::Io(_))) if file.has_failed => {}
            Some(Err(Error::Io(error))) => return Err(error.into()),
            _ => return Ok(false),
        }
    }
    Ok(true)
}

/// Overwrites with zeros what an unfinished commit left behind the last header. Otherwise its nodes and header might count
/// once later commits have written documents in the place of those that it lacked, or its documents might be taken
/// for those that a later unfinished commit lacks.
pub(crate) fn clear_unfinished<F: StorageFile>(file: &F, header: &Header) -> Result<(), Error> {
    let (mut offset, end) = (header.end(), file.size()? / UNIT * UNIT);
    let mut buffer = vec![0; READ_BYTES as usize];
    let mut cleared = false;
    while offset < end {
        let part = &mut buffer[..(end - offset).min(READ_BYTES) as usize];
        file.read(offset, part)?;
        if part.iter().any(|byte| *byte != 0) {
            part.fill(0);
            file.write(offset, part)?;
            cleared = true;
        }
        offset += part.len() as u64;
    }
    if cleared {
        file.sync()?;
    }
    Ok(())
}

fn is_covered<F: StorageFile>(file: &DataFile<F>, header: &Header) -> Result<bool, Error> {
    let mut crc = 0;
    let mut buffer = vec![0; READ_BYTES as usize];
    let mut offset = header.covers_from;
    while offset < header.offset {
        let part = &mut buffer[..(header.offset - offset).min(READ_BYTES) as usize];
        file.file.read(offset, part)?;
        crc = tantalum_image::checksum_with(crc, part);
        offset += part.len() as u64;
    }
    Ok(crc == header.covers_crc)
}

/// The updates shared since the header, and the units of the staging area that they take.
fn staged<F: StorageFile>(
    file: &DataFile<F>,
    header: &Header,
    cache: &NodeCache,
) -> Result<(Vec<Pending>, u32), Error> {
    let by_key = Tree { file, cache, root: header.by_key };
    let (mut pending, mut at) = (Vec::new(), header.stage_offset);
    while let Some(record) = staged_record(file, header, at)? {
        if record.seq() != header.seq + 1 + pending.len() as u64 {
            break;
        }
        let Some(Some(place)) = by_key.get(record.key(), Pointer::decode)? else { break };
        if place.offset != record.home() || place.deleted {
            break;
        }
        let document = match file.read_document(place) {
            Err(Error::Io(_)) if file.has_failed => break,
            document => document?,
        };
        if document.seq() < record.seq() {
            break;
        }
        pending.push(Pending { seq: record.seq(), place });
        at += whole_units(record.record_bytes() as u64);
    }
    Ok((pending, ((at - header.stage_offset) / UNIT) as u32))
}

/// The record that begins at a unit of the staging area, if it is whole.
fn staged_record<F: StorageFile>(
    file: &DataFile<F>,
    header: &Header,
    at: u64,
) -> Result<Option<Document>, Error> {
    let end = header.stage_end();
    if at >= end {
        return Ok(None);
    }
    let mut units = vec![0; UNIT_BYTES];
    file.read_unfinished(at, &mut units)?;
    let Some(bytes) = document::record_bytes(&units).map(|bytes| whole_units(bytes as u64)) else {
        return Ok(None);
    };
    if bytes > end - at {
        return Ok(None);
    }
    units.resize(bytes as usize, 0);
    file.read_unfinished(at, &mut units)?;
    Ok(Document::decode(&units).ok())
}
