//! What the system does for a handler that reads a key-value namespace.

use tantalum::{Command, Key, NamespaceId, Nanoseconds, Status};

use crate::activation::OutBuffer;
use crate::answer;
use crate::backing::submit;
use crate::done::Done;
use crate::message::ThreadRef;
use crate::rights::CHECK_INSTRUCTIONS;
use crate::system::Ssd;

/// Bytes before a record's value in a scan: the lengths of key and value, and the key.
const RECORD_HEAD_BYTES: usize = 24;
/// The most records of one scan.
const SCANNED: usize = 64;
/// Instructions for each record of a scan.
const SCAN_INSTRUCTIONS: u64 = 12;

impl Ssd {
    /// The key that a handler names, `None` if it is empty; or the refusal to let it read the namespace.
    fn readable(
        &mut self,
        thread: ThreadRef,
        namespace: NamespaceId,
        key: &[u8],
    ) -> Result<Option<Key>, Done> {
        let process = self.call_of(thread).message.origin.process();
        if !process.is_kernel() && !self.host.namespaces.contains(&(process, namespace)) {
            return Err(Done::Now(answer::NO_PERMISSION, CHECK_INSTRUCTIONS));
        }
        match key {
            [] => Ok(None),
            bytes => Key::new(bytes).map(Some).map_err(|_| Done::Now(answer::BAD_ARGUMENT, 0)),
        }
    }

    pub(crate) fn kv_get(
        &mut self,
        thread: ThreadRef,
        namespace: NamespaceId,
        key: &[u8],
        to: OutBuffer,
    ) -> Result<Done, Status> {
        let key = match self.readable(thread, namespace, key) {
            Ok(Some(key)) => key,
            Ok(None) => return Ok(Done::Now(answer::BAD_ARGUMENT, 0)),
            Err(refused) => return Ok(refused),
        };
        let mut value = Vec::new();
        let at_ns = self.now_ns;
        let got = submit(&mut self.drive.lock(), Command::KvGet { namespace, key, value: &mut value }, at_ns);
        match got {
            Err(Status::NoSuchKey { .. } | Status::NoSuchNamespace { .. }) => {
                Ok(Done::Now(answer::NO_PROGRAM, CHECK_INSTRUCTIONS))
            }
            Err(status) => Err(status),
            Ok(done_ns) => Ok(self.deliver(thread, to, &value, done_ns)),
        }
    }

    pub(crate) fn kv_next(
        &mut self,
        thread: ThreadRef,
        namespace: NamespaceId,
        key: &[u8],
        to: OutBuffer,
    ) -> Result<Done, Status> {
        let from = match self.readable(thread, namespace, key) {
            Ok(from) => from,
            Err(refused) => return Ok(refused),
        };
        let Some((keys, done_ns)) = self.list(namespace, from, 2)? else {
            return Ok(Done::Now(answer::NO_PROGRAM, CHECK_INSTRUCTIONS));
        };
        let next = keys.into_iter().find(|next| Some(*next) != from);
        let bytes = next.as_ref().map_or(&[][..], |next| next.as_bytes());
        Ok(self.deliver(thread, to, bytes, done_ns))
    }

    /// Copies bytes to the handler's memory; the answer is their number.
    fn deliver(&mut self, thread: ThreadRef, to: OutBuffer, bytes: &[u8], done_ns: Nanoseconds) -> Done {
        let copy = self.copy_mut(thread.spu, thread.program).expect("the program asked for something");
        let status = match copy.instance.fill(to, bytes, Some(answer::SHORT)) {
            answer::OK => bytes.len() as i32,
            status => status,
        };
        self.later(status, done_ns, CHECK_INSTRUCTIONS)
    }

    /// Reads several records: their keys and the beginnings of their values. Those on different planes are read in parallel.
    pub(crate) fn kv_scan(
        &mut self,
        thread: ThreadRef,
        namespace: NamespaceId,
        key: &[u8],
        to: OutBuffer,
        most: u32,
    ) -> Result<Done, Status> {
        let from = match self.readable(thread, namespace, key) {
            Ok(from) => from,
            Err(refused) => return Ok(refused),
        };
        let count = (to.bytes as usize / scanned_bytes(most)).min(SCANNED);
        if count == 0 {
            return Ok(Done::Now(answer::BAD_ARGUMENT, CHECK_INSTRUCTIONS));
        }
        let Some((keys, listed_ns)) = self.list(namespace, from, count + 1)? else {
            return Ok(Done::Now(answer::NO_PROGRAM, CHECK_INSTRUCTIONS));
        };
        let mut bytes = Vec::with_capacity(count * scanned_bytes(most));
        let (mut value, mut done_ns, mut records) = (Vec::new(), listed_ns, 0_u32);
        for key in keys.into_iter().filter(|key| Some(*key) != from).take(count) {
            let get = Command::KvGet { namespace, key, value: &mut value };
            match submit(&mut self.drive.lock(), get, listed_ns) {
                // it was deleted meanwhile
                Err(Status::NoSuchKey { .. }) => continue,
                got => done_ns = done_ns.max(got?),
            }
            append_record(&mut bytes, &key, &value, most);
            records += 1;
        }
        let copy = self.copy_mut(thread.spu, thread.program).expect("the program asked for something");
        copy.instance.fill(to, &bytes, None);
        let instructions = CHECK_INSTRUCTIONS + u64::from(records) * SCAN_INSTRUCTIONS;
        Ok(self.later(records as i32, done_ns, instructions))
    }

    /// Keys, starting at `from`; `None` if the namespace does not exist.
    fn list(
        &mut self,
        namespace: NamespaceId,
        from: Option<Key>,
        limit: usize,
    ) -> Result<Option<(Vec<Key>, Nanoseconds)>, Status> {
        let mut keys = Vec::new();
        let list = Command::KvList { namespace, from, keys: &mut keys, limit };
        let at_ns = self.now_ns;
        match submit(&mut self.drive.lock(), list, at_ns) {
            Err(Status::NoSuchNamespace { .. }) => Ok(None),
            listed => listed.map(|done_ns| Some((keys, done_ns))),
        }
    }
}

/// Bytes of a record in a scan that reads up to `most` bytes of each value.
fn scanned_bytes(most: u32) -> usize {
    RECORD_HEAD_BYTES + (most as usize).next_multiple_of(8)
}

/// Appends a record in the format of a scan: lengths and key, then the beginning of its value.
fn append_record(to: &mut Vec<u8>, key: &Key, value: &[u8], most: u32) {
    let begun = to.len();
    to.extend((key.as_bytes().len() as u32).to_le_bytes());
    to.extend((value.len() as u32).to_le_bytes());
    to.extend(key.as_bytes());
    assert!(to.len() <= begun + RECORD_HEAD_BYTES, "a key has at most 16 bytes");
    to.resize(begun + RECORD_HEAD_BYTES, 0);
    to.extend(&value[..value.len().min(most as usize)]);
    to.resize(begun + scanned_bytes(most), 0);
}
