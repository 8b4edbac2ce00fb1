//! Numbers for the nodes and values of a namespace, and in the first one for large values. A record says which were issued; it is written once for many, with
//! the change that uses the first of them, so that after a loss some are skipped but none is used twice.

use tantalum::NamespaceId;
use tantalum_canaries::guard;

use super::{Kind, ROOT, name};
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
        let (next, end) = (u64::from_le_bytes(*next), u64::from_le_bytes(*end));
        (ROOT < next && next <= end).then_some((Numbers { next, end }, rest))
    }

    /// The next number.
    pub fn take(&mut self) -> u64 {
        let number = self.next;
        self.next += 1;
        if self.next > self.end {
            self.end += AT_ONCE;
        }
        assert!(number > ROOT && self.next <= self.end, "number {number} is given, of {self:?}");
        number
    }

    /// Whether a record of this number, other than the root, was there before a change that has these.
    pub fn has_given(self, number: u64) -> bool {
        ROOT < number && number < self.next
    }

    /// Whether these can come after others: none is given again.
    pub fn follow(self, before: Numbers) -> bool {
        before.next <= self.next && before.end <= self.end
    }

    /// Adds the record, if more numbers are issued than `before`.
    pub fn store(self, before: Numbers, namespace: NamespaceId, records: &mut Records) {
        assert!(self.follow(before), "numbers of {namespace:?} are {before:?} and then {self:?}");
        if guard!(NumbersTwice, self.end != before.end) {
            records.push(self.record(namespace));
        }
    }

    /// The record that says which are issued.
    pub fn record(self, namespace: NamespaceId) -> (Name, Option<Value>) {
        (name(namespace, Kind::Numbers, 0), Some(self.end.to_le_bytes()[..].into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A log that is read has anything in it, and what is taken from such numbers would be given twice.
    #[test]
    fn numbers_that_no_store_has_are_not_read() {
        let read =
            |next, end| Numbers::from_bytes(&Numbers { next, end }.to_bytes()).map(|(numbers, _)| numbers);
        for (next, end) in [(1, 1), (1, 1025), (1025, 1025)] {
            assert_eq!(read(next, end), Some(Numbers { next, end }));
        }
        for (next, end) in [(0, 1025), (2, 1), (u64::MAX, 1025)] {
            assert_eq!(read(next, end), None, "{next}, {end}");
        }
    }
}
