//! Numbers for the nodes and values of a namespace, and in the first one for large values. A record says which were issued; it is written once for many, with
//! the change that uses the first of them, so that after a loss some are skipped but none is used twice.

use tantalum::NamespaceId;

use super::{Kind, ROOT, name};
use crate::canary::{Guard, out};
use crate::failure::Failure;
use crate::record::{Name, Value};
use crate::record_store::{Records, Source};

/// Numbers issued by one write of the record.
const AT_ONCE: u64 = 1024;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Numbers {
    next: u64,
    /// All numbers below this are issued, according to the record.
    end: u64,
}

impl Numbers {
    /// The numbers of a namespace when its store is opened.
    pub fn read(source: &impl Source, namespace: NamespaceId) -> Result<Numbers, Failure> {
        let Some(value) = source.record(name(namespace, Kind::Numbers, 0))? else {
            return Ok(Numbers { next: ROOT + 1, end: ROOT + 1 });
        };
        match <[u8; 8]>::try_from(&value[..]).map(u64::from_le_bytes) {
            Ok(end) if end > ROOT => Ok(Numbers { next: end, end }),
            _ => Err(Failure::Node { namespace }),
        }
    }

    /// The numbers after one that is in use.
    pub fn after(last: u64) -> Numbers {
        Numbers { next: last + 1, end: last + 1 }
    }

    /// As a commit's log has them.
    pub fn to_bytes(self) -> [u8; 16] {
        (u128::from(self.next) | u128::from(self.end) << 64).to_le_bytes()
    }

    /// From the beginning of these bytes; and the rest.
    pub fn from_bytes(bytes: &[u8]) -> Option<(Numbers, &[u8])> {
        let (next, rest) = bytes.split_first_chunk()?;
        let (end, rest) = rest.split_first_chunk()?;
        Some((Numbers { next: u64::from_le_bytes(*next), end: u64::from_le_bytes(*end) }, rest))
    }

    /// The next number.
    pub fn take(&mut self) -> u64 {
        let number = self.next;
        self.next += 1;
        if self.next > self.end {
            self.end += AT_ONCE;
        }
        number
    }

    /// Adds the record, if more numbers are issued than `before`.
    pub fn store(self, before: Numbers, namespace: NamespaceId, records: &mut Records) {
        if self.end != before.end && !out(Guard::NumbersTwice) {
            records.push(self.record(namespace));
        }
    }

    /// The record that says which are issued.
    pub fn record(self, namespace: NamespaceId) -> (Name, Option<Value>) {
        (name(namespace, Kind::Numbers, 0), Some(self.end.to_le_bytes()[..].into()))
    }
}
