//! Commits of more records or bytes than one `put` of the drive takes.
//!
//! The records are first written in groups that each fit in a `put`, as records of the first namespace that nobody else
//! reads. A marker commits them. Then the groups are put in place one after the other, each together with the deletion
//! of the records that held it, and the last with the deletion of the marker. When a store is opened and finds a
//! marker, it does the rest; groups without a marker are deleted. The marker is put only once there is room for
//! everything that follows.

use std::collections::BTreeSet;

use tantalum::{Command, Device, Key, NamespaceId, Nanoseconds, Status};

use crate::canary::{Guard, out};
use crate::drive::{Drive, Records, kv_records};
use crate::error::Error;
use crate::failure::{Cause, Failure};
use crate::record::{Name, Value};

/// The maximum number of records, and of bytes of values, in one `put`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PutLimits {
    pub records: usize,
    pub bytes: usize,
}

impl PutLimits {
    /// Whether all of these fit in one `put`.
    pub fn hold(self, records: &Records) -> bool {
        let bytes: usize =
            records.iter().map(|(_, value)| value.as_ref().map_or(0, |value| value.len())).sum();
        records.len() <= self.records && bytes <= self.bytes
    }
}

/// A group is written to records of at most this size.
const PIECE_BYTES: usize = 1 << 20;

/// A group has this many fewer records than fit in a `put`, because the records that held it are deleted with it.
const SPARE_RECORDS: usize = 8;

/// Room that must be left beside the records: the marker and the deletions that go with each group take some, and records
/// may lie less densely than they are counted. Without it a commit that counts could stop half way.
const SPARE_BYTES: usize = 1 << 20;

const MARKER: &[u8] = b"redo";

/// A record that is put so that others get programmed, with more bytes than a unit of the drive.
const FILLER: &[u8] = b"redo filler";
const FILLER_BYTES: usize = 5000;

const FORMAT: u8 = 2;

/// A group begins with the number of bytes that follow.
const LENGTH_BYTES: usize = 4;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Redo {
    namespace: NamespaceId,
}

fn key(bytes: &[u8]) -> Key {
    Key::new(bytes).expect("it has at most 16 bytes")
}

/// Where a piece of a group is written.
fn piece_key(group: u32, piece: u32) -> Key {
    key(&[MARKER, &group.to_be_bytes()[..], &piece.to_be_bytes()[..]].concat())
}

impl Redo {
    /// The first namespace of a store.
    pub fn new(namespace: NamespaceId) -> Redo {
        Redo { namespace }
    }

    /// Puts all of these records or none.
    pub fn put(&self, drive: &Drive, limits: PutLimits, records: &Records) -> Result<Nanoseconds, Failure> {
        let namespaces: BTreeSet<NamespaceId> =
            records.iter().map(|((namespace, _), _)| *namespace).collect();
        let present = drive.device().lock().namespaces();
        let is_there = |namespace| present.iter().any(|info| info.namespace == namespace);
        if let Some(namespace) = namespaces.into_iter().find(|namespace| !is_there(*namespace)) {
            return Err(Failure::Drive(Status::NoSuchNamespace { namespace }));
        }
        let groups: Vec<Group> = groups_of(records, limits).map(Group::of).collect();
        let marker = [&[FORMAT][..], &(groups.len() as u32).to_le_bytes()].concat();
        let marker = vec![((self.namespace, key(MARKER)), Some(marker.into()))];
        if out(Guard::MarkerBeforeGroups) {
            drive.put_unseen(&marker)?;
        }
        let written = self.write(drive, &groups, records).and_then(|()| drive.put_unseen(&marker));
        if let Err(failure) = written {
            match failure.stops() {
                // the marker may be there
                Some(cause) => drive.doubt(records.iter().map(|(name, _)| *name), cause),
                None => self.delete_pieces(drive, &groups),
            }
            return Err(failure);
        }
        // it is committed
        let last = groups.len() - 1;
        let parts = groups_of(records, limits).zip(&groups).enumerate();
        let parts: Vec<Records> = parts
            .map(|(number, (group, written))| {
                let deletes = self.deletes(number as u32, written.pieces(), number == last);
                group.iter().cloned().chain(deletes).collect()
            })
            .collect();
        drive.put_parts(&parts, None).map_err(|(done, failure)| {
            let all = parts.len();
            let reason = format!("{done} of {all} parts of a commit are in place, and then: {failure}");
            Failure::Stops(Cause { reason, is_host: failure.stops().is_some_and(|cause| cause.is_host) })
        })
    }

    /// Writes the groups, and ensures that there is room for the records in addition.
    fn write(&self, drive: &Drive, groups: &[Group], records: &Records) -> Result<(), Failure> {
        for (number, group) in groups.iter().enumerate() {
            for (piece, bytes) in group.bytes.chunks(PIECE_BYTES).enumerate() {
                let name = (self.namespace, piece_key(number as u32, piece as u32));
                drive.put_unseen(&vec![(name, Some(bytes.into()))])?;
            }
        }
        let sizes = records.iter().filter_map(|(_, value)| value.as_ref()).map(|value| value.len());
        let sizes = sizes.chain([SPARE_BYTES]);
        if !drive.has_room(sizes.clone()) {
            self.settle(drive)?;
            if !drive.has_room(sizes) {
                return Err(Failure::Drive(Status::CapacityExceeded));
            }
        }
        Ok(())
    }

    /// Lets the drive program the records that wait for a full page: until then what they replace takes room. It does so
    /// when one of them is replaced by a record that does not wait.
    pub fn settle(&self, drive: &Drive) -> Result<(), Failure> {
        let filler = |bytes: Option<usize>| bytes.map(|bytes| vec![0; bytes].into());
        [Some(1), Some(FILLER_BYTES), None]
            .into_iter()
            .try_for_each(|bytes| drive.put_unseen(&vec![((self.namespace, key(FILLER)), filler(bytes))]))
    }

    /// Deletes what a failed commit has written. What cannot be deleted now is deleted when the store is opened.
    fn delete_pieces(&self, drive: &Drive, groups: &[Group]) {
        for (number, group) in groups.iter().enumerate() {
            let _ = drive.put_unseen(&self.deletes(number as u32, group.pieces(), false));
        }
        let _ = self.settle(drive);
    }

    /// Deletes of a group's pieces, and of the marker.
    fn deletes(&self, group: u32, pieces: u32, with_marker: bool) -> Records {
        let marker = with_marker.then(|| key(MARKER));
        let keys = (0..pieces).map(|piece| piece_key(group, piece)).chain(marker);
        keys.map(|key| ((self.namespace, key), None)).collect()
    }

    /// Finishes a commit that is committed but not in place, or deletes the parts of one that is not committed.
    pub fn recover(&self, device: &mut Device) -> Result<(), Error> {
        if let Some(marker) = get(device, self.namespace, key(MARKER))? {
            let [FORMAT, groups @ ..] = &marker[..] else { return Err(Error::Redo) };
            let groups = u32::from_le_bytes(groups.try_into().map_err(|_| Error::Redo)?);
            for group in 0..groups {
                self.recover_group(device, group, group + 1 == groups)?;
            }
        }
        let mut keys = Vec::new();
        let (namespace, limit) = (self.namespace, usize::MAX);
        submit(device, Command::KvList { namespace, from: None, keys: &mut keys, limit })?;
        let pieces = keys.into_iter().filter(|key| key.as_bytes().starts_with(MARKER));
        for key in pieces {
            put(device, &vec![((namespace, key), None)])?;
        }
        Ok(())
    }

    /// A group whose first piece is missing is in place.
    fn recover_group(&self, device: &mut Device, group: u32, is_last: bool) -> Result<(), Error> {
        let mut bytes = Vec::new();
        let mut pieces = 0;
        while !is_whole(&bytes) {
            match get(device, self.namespace, piece_key(group, pieces))? {
                Some(piece) => bytes.extend_from_slice(&piece),
                None if pieces == 0 => break,
                None => return Err(Error::Redo),
            }
            pieces += 1;
        }
        let records = if pieces == 0 { &[][..] } else { &bytes[LENGTH_BYTES..] };
        let mut records = decode(records).ok_or(Error::Redo)?;
        records.extend(self.deletes(group, pieces, is_last));
        put(device, &records)
    }
}

fn submit(device: &mut Device, command: Command<'_>) -> Result<(), Status> {
    let at_ns = device.time_ns();
    device.submit(command, at_ns).map(drop)
}

fn put(device: &mut Device, records: &Records) -> Result<(), Error> {
    Ok(submit(device, Command::KvPut { records: &kv_records(records) })?)
}

fn get(device: &mut Device, namespace: NamespaceId, key: Key) -> Result<Option<Vec<u8>>, Error> {
    let mut value = Vec::new();
    match submit(device, Command::KvGet { namespace, key, value: &mut value }) {
        Ok(()) => Ok(Some(value)),
        Err(Status::NoSuchKey { .. }) => Ok(None),
        Err(status) => Err(status.into()),
    }
}

/// Records that fit in one `put` along with the deletes of their pieces.
fn groups_of(records: &Records, limits: PutLimits) -> impl Iterator<Item = &[(Name, Option<Value>)]> {
    let mut rest = &records[..];
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let mut fits = |(_, value): &(Name, Option<Value>)| {
            bytes += value.as_ref().map_or(0, |value| value.len());
            bytes <= limits.bytes
        };
        let most = rest.len().min(limits.records - SPARE_RECORDS);
        let count = rest[..most].iter().take_while(|record| fits(record)).count();
        let (group, others) = rest.split_at(count.max(1).min(rest.len()));
        rest = others;
        (!group.is_empty()).then_some(group)
    })
}

/// Whether these bytes are a complete group. A piece of a failed commit may follow them.
fn is_whole(bytes: &[u8]) -> bool {
    let Some((length, rest)) = bytes.split_first_chunk::<LENGTH_BYTES>() else { return false };
    rest.len() >= u32::from_le_bytes(*length) as usize
}

/// Records as they are written.
struct Group {
    bytes: Vec<u8>,
}

impl Group {
    /// The number of bytes that follow (4 bytes; all is little-endian). For each record: namespace (4), length of the key
    /// (1), key, 1 if there is a value (1), its length (4), value.
    fn of(records: &[(Name, Option<Value>)]) -> Group {
        let mut bytes = vec![0; LENGTH_BYTES];
        for ((namespace, key), value) in records {
            bytes.extend_from_slice(&namespace.0.to_le_bytes());
            bytes.push(key.as_bytes().len() as u8);
            bytes.extend_from_slice(key.as_bytes());
            bytes.push(u8::from(value.is_some()));
            if let Some(value) = value {
                bytes.extend_from_slice(&(value.len() as u32).to_le_bytes());
                bytes.extend_from_slice(value);
            }
        }
        let length = (bytes.len() - LENGTH_BYTES) as u32;
        bytes[..LENGTH_BYTES].copy_from_slice(&length.to_le_bytes());
        Group { bytes }
    }

    fn pieces(&self) -> u32 {
        self.bytes.len().div_ceil(PIECE_BYTES) as u32
    }
}

fn decode(mut bytes: &[u8]) -> Option<Records> {
    let mut records = Records::new();
    while !bytes.is_empty() {
        let (namespace, rest) = bytes.split_first_chunk()?;
        let (length, rest) = rest.split_first()?;
        let (key, rest) = rest.split_at_checked(usize::from(*length))?;
        let (has_value, mut rest) = rest.split_first()?;
        let mut value = None;
        if *has_value == 1 {
            let (length, after) = rest.split_first_chunk()?;
            let (found, after) = after.split_at_checked(u32::from_le_bytes(*length) as usize)?;
            (value, rest) = (Some(found.into()), after);
        }
        records.push(((NamespaceId(u32::from_le_bytes(*namespace)), Key::new(key).ok()?), value));
        bytes = rest;
    }
    Some(records)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(number: u32) -> Name {
        (NamespaceId(number % 3), key(&number.to_be_bytes()))
    }

    #[test]
    fn groups_round_trip_and_what_is_cut_off_is_refused() {
        let records: Records = (0..20)
            .map(|number| (name(number), (number % 4 > 0).then(|| vec![7; number as usize].into())))
            .collect();
        let group = Group::of(&records).bytes;
        let bytes = &group[LENGTH_BYTES..];
        assert_eq!(decode(bytes), Some(records));
        assert!(is_whole(&group) && !is_whole(&group[..group.len() - 1]));
        let whole = (0..bytes.len()).filter(|length| decode(&bytes[..*length]).is_some()).count();
        assert_eq!(whole, 20, "only at the end of a record");
    }

    /// A commit that failed could not delete all that it had written, and the next one writes a shorter group over it.
    #[test]
    fn a_piece_of_an_older_commit_is_no_part_of_a_group() {
        let mut profile = tantalum::Profile::load("tlc-nvme").unwrap();
        profile.capacity_bytes = 64 << 20;
        let mut device = Device::in_memory(&profile).unwrap();
        let attributes = tantalum::NamespaceAttributes::default();
        let at_ns = device.time_ns();
        let made = device.submit(Command::CreateNamespace { attributes }, at_ns).unwrap();
        let namespace = made.namespace.unwrap();
        let (redo, name) = (Redo::new(namespace), (namespace, key(b"a")));
        let group = Group::of(&[(name, Some(vec![1].into()))]).bytes;
        let marker = [&[FORMAT][..], &1_u32.to_le_bytes()].concat();
        for (key, bytes) in
            [(piece_key(0, 0), &group[..]), (piece_key(0, 1), b"stale"), (key(MARKER), &marker)]
        {
            put(&mut device, &vec![((namespace, key), Some(bytes.into()))]).unwrap();
        }
        redo.recover(&mut device).unwrap();
        assert_eq!(get(&mut device, namespace, key(b"a")).unwrap(), Some(vec![1]));
        assert_eq!(device.namespaces()[0].records, 1, "the stale piece and the marker are gone");
    }

    /// A drive without room for further records, except for a number of units.
    fn with_room_for(units: usize, profile: &str) -> (Device, [NamespaceId; 2]) {
        let mut profile = tantalum::Profile::load(profile).unwrap();
        profile.capacity_bytes = 8 << 20;
        profile.over_provisioning_percent = 240.0;
        let mut device = Device::in_memory(&profile).unwrap();
        let attributes = tantalum::NamespaceAttributes::default();
        let namespaces = [(); 2].map(|()| {
            let at_ns = device.time_ns();
            device.submit(Command::CreateNamespace { attributes }, at_ns).unwrap().namespace.unwrap()
        });
        for number in 0_u32.. {
            if !device.has_room([4000].into_iter().cycle().take(units + 1)) {
                break;
            }
            let name = (namespaces[1], key(&number.to_be_bytes()));
            put(&mut device, &vec![(name, Some(vec![0; 4000].into()))]).unwrap();
        }
        (device, namespaces)
    }

    /// The marker, and the deletions that go with each group, take a little room as well. Once a commit counts, it must get
    /// in place: the store would stop, and could not be opened again. A tiny group comes before a large one here, so that
    /// putting it in place gives back next to nothing. No test had the room run out within a few chunks.
    #[test]
    fn a_commit_gets_in_place_or_is_refused_before_it_counts_however_little_room_there_is() {
        let limits = PutLimits { records: 1 + SPARE_RECORDS, bytes: 1 << 20 };
        for profile in ["tlc-nvme", "tlc-nvme-plp"] {
            let mut refused = 0;
            for units in 6..10 {
                let (device, [redo, namespace]) = with_room_for(units, profile);
                for bytes in (12_000..16_096).step_by(64) {
                    let drive = Drive::new(device.try_clone().unwrap(), redo, 1 << 20, 0);
                    let value = |bytes| Some(vec![1; bytes].into());
                    let records =
                        vec![((namespace, key(b"a")), value(1)), ((namespace, key(b"b")), value(bytes))];
                    let put = Redo::new(redo).put(&drive, limits, &records);
                    let stopped = put.as_ref().is_err_and(|failure| failure.stops().is_some());
                    assert!(!stopped, "{profile}, {units} units, {bytes} bytes: {:?}", put.err());
                    refused += u32::from(put.is_err());
                }
            }
            assert!(refused > 0, "{profile}: there was always room");
        }
    }

    #[test]
    fn a_group_fits_in_a_put_with_the_deletes_of_its_pieces() {
        let limits = PutLimits { records: 20, bytes: 1000 };
        let sizes = [1000, 1, 999, 1000, 0, 0, 500, 400, 200].into_iter().chain([0; 40]);
        let records: Records = sizes
            .zip(0..)
            .map(|(bytes, number): (usize, u32)| (name(number), Some(vec![0; bytes].into())))
            .collect();
        let groups: Vec<_> = groups_of(&records, limits).collect();
        assert_eq!(groups.concat(), records);
        assert_eq!(groups.iter().map(|group| group.len()).collect::<Vec<_>>()[..3], [1, 2, 3]);
        for group in groups {
            assert!(limits.hold(&group.to_vec()) && group.len() <= 20 - SPARE_RECORDS, "{}", group.len());
        }
    }
}
