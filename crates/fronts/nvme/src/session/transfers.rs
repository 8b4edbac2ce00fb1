//! Transfers of data from the host (R2T).

use std::ops::Range;

use crate::controller::QUEUE_ENTRIES;
use crate::limits::DISCARDED;

/// Maximum number of transfers: of commands under way, and of aborted ones whose data may still come.
const MOST: usize = QUEUE_ENTRIES as usize + DISCARDED;

const _: () = assert!(MOST <= u16::MAX as usize, "there is a tag for each transfer");

/// Data that are coming from the host.
#[derive(Debug)]
struct Incoming {
    command: u16,
    /// A buffer for all of them.
    data: Vec<u8>,
    /// How many bytes have arrived in PDUs that ended.
    received: usize,
    /// Whether some did not match their digest.
    is_damaged: bool,
    /// Whether the command was aborted, so that nobody needs them.
    is_discarded: bool,
}

/// What comes next in a transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Expected {
    /// The command that the data belong to.
    pub command: u16,
    /// Bytes that have arrived.
    pub received: usize,
    /// Bytes of all its data.
    pub bytes: usize,
}

/// A transfer whose data have all arrived.
#[derive(PartialEq, Eq, Debug)]
pub enum Arrived {
    /// The data of a command.
    Whole {
        /// The command.
        command: u16,
        /// Its data.
        data: Vec<u8>,
    },
    /// Those of a command some of which did not match their digest.
    Damaged {
        /// The command.
        command: u16,
    },
    /// Those of an aborted command, which held this many bytes of the budget.
    Discarded(usize),
}

/// Transfers requested from the host, by tag.
#[derive(Debug, Default)]
pub struct Transfers(Vec<Option<Incoming>>);

impl Transfers {
    fn get(&self, tag: u16) -> Option<&Incoming> {
        self.0.get(usize::from(tag))?.as_ref()
    }

    fn get_mut(&mut self, tag: u16) -> Option<&mut Incoming> {
        self.0.get_mut(usize::from(tag))?.as_mut()
    }

    /// Opens a transfer for the data of a command, which go into a buffer of the same size. Returns its tag.
    pub fn open(&mut self, command: u16, data: Vec<u8>) -> u16 {
        assert!(!data.is_empty(), "the data of command {command} never come: there are none");
        let incoming = Incoming { command, data, received: 0, is_damaged: false, is_discarded: false };
        let free = self.0.iter().position(Option::is_none);
        let tag = free.unwrap_or_else(|| {
            self.0.push(None);
            self.0.len() - 1
        });
        assert!(tag < MOST, "{tag} transfers are open, and a queue has at most {MOST}");
        self.0[tag] = Some(incoming);
        tag as u16
    }

    /// What comes next in a transfer; `None` if there is no such transfer.
    pub fn expected(&self, tag: u16) -> Option<Expected> {
        let incoming = self.get(tag)?;
        let (received, bytes) = (incoming.received, incoming.data.len());
        Some(Expected { command: incoming.command, received, bytes })
    }

    /// The place of these bytes of a transfer.
    pub fn place(&mut self, tag: u16, range: Range<usize>) -> Option<&mut [u8]> {
        Some(&mut self.get_mut(tag)?.data[range])
    }

    /// These bytes of a transfer, if they have arrived.
    pub fn peek(&self, tag: u16, range: Range<usize>) -> Option<&[u8]> {
        Some(&self.get(tag)?.data[range])
    }

    /// A PDU with the data up to `end` has ended. Returns them all if these were the last.
    pub fn received(&mut self, tag: u16, end: usize, is_damaged: bool) -> Option<Arrived> {
        let incoming = self.get_mut(tag)?;
        assert!(
            (incoming.received..=incoming.data.len()).contains(&end),
            "command {} has {} of {} bytes, and now {end}",
            incoming.command,
            incoming.received,
            incoming.data.len()
        );
        incoming.received = end;
        incoming.is_damaged |= is_damaged;
        if end < incoming.data.len() {
            return None;
        }
        let Incoming { command, data, is_damaged, is_discarded, .. } =
            self.0.get_mut(usize::from(tag))?.take()?;
        Some(match (is_discarded, is_damaged) {
            (true, _) => Arrived::Discarded(data.len()),
            (false, true) => Arrived::Damaged { command },
            (false, false) => Arrived::Whole { command, data },
        })
    }

    /// Discards the data of an aborted command when they arrive. They hold as much of the budget as it did, until then. Returns
    /// their number of bytes; `None` if none are expected, or the data of too many commands are discarded already.
    pub fn discard(&mut self, command: u16) -> Option<usize> {
        let discarded = self.0.iter().flatten().filter(|incoming| incoming.is_discarded).count();
        if discarded >= DISCARDED {
            return None;
        }
        let is_its = |incoming: &&mut Incoming| incoming.command == command && !incoming.is_discarded;
        let incoming = self.0.iter_mut().flatten().find(is_its)?;
        incoming.is_discarded = true;
        Some(incoming.data.len())
    }

    /// Commands that wait for their data.
    pub fn commands(&self) -> impl Iterator<Item = u16> {
        self.0.iter().flatten().filter(|incoming| !incoming.is_discarded).map(|incoming| incoming.command)
    }

    /// Bytes of the budget that discarded data hold until they have come.
    pub fn discarded_bytes(&self) -> usize {
        let discarded = self.0.iter().flatten().filter(|incoming| incoming.is_discarded);
        discarded.map(|incoming| incoming.data.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_are_whole_when_the_last_of_them_have_come() {
        let mut transfers = Transfers::default();
        let (first, second) = (transfers.open(5, vec![0; 100]), transfers.open(6, vec![0; 10]));
        transfers.place(first, 0..60).unwrap().fill(1);
        assert_eq!(transfers.peek(first, 0..60), Some(&[1; 60][..]));
        assert_eq!(transfers.received(first, 60, false), None);
        assert_eq!(transfers.expected(first), Some(Expected { command: 5, received: 60, bytes: 100 }));
        assert_eq!(transfers.received(second, 5, true), None);
        assert_eq!(transfers.received(second, 10, false), Some(Arrived::Damaged { command: 6 }));
        let Some(Arrived::Whole { command: 5, data }) = transfers.received(first, 100, false) else {
            panic!("all have come")
        };
        assert_eq!(data, [[1; 60].as_slice(), &[0; 40]].concat());
        assert_eq!((transfers.expected(first), transfers.commands().count()), (None, 0));
    }

    #[test]
    fn data_of_an_aborted_command_hold_their_bytes_until_they_have_come() {
        let mut transfers = Transfers::default();
        let tag = transfers.open(5, vec![0; 100]);
        assert_eq!(transfers.discard(6), None);
        assert_eq!(transfers.discard(5), Some(100));
        assert_eq!(transfers.discard(5), None, "it is not under way any more");
        // the next command may have its identifier
        let other = transfers.open(5, vec![0; 10]);
        assert_eq!((transfers.discarded_bytes(), transfers.commands().collect::<Vec<_>>()), (100, vec![5]));
        assert_eq!(transfers.received(tag, 100, true), Some(Arrived::Discarded(100)));
        assert_eq!(transfers.discarded_bytes(), 0);
        assert_eq!(transfers.discard(5), Some(10));
        assert_eq!(transfers.received(other, 10, false), Some(Arrived::Discarded(10)));
    }

    #[test]
    fn not_even_an_aborted_command_has_more_data_to_come_than_there_are_tags() {
        let mut transfers = Transfers::default();
        for command in 0..DISCARDED as u16 {
            transfers.open(command, vec![0; 8]);
            assert_eq!(transfers.discard(command), Some(8));
        }
        transfers.open(3, vec![0; 8]);
        assert_eq!(transfers.discard(3), None);
    }
}
