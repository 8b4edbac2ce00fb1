//! Transfers of data from the host (R2T).

use super::abort::DRAINED;
use crate::controller::QUEUE_ENTRIES;

/// Maximum number of transfers: of commands under way, and of aborted ones whose data may still come.
const MOST: usize = QUEUE_ENTRIES as usize + DRAINED;

const _: () = assert!(MOST <= u16::MAX as usize, "there is a tag for each transfer");

/// Data that are coming from the host.
#[derive(Debug)]
pub struct Incoming {
    /// The command.
    pub command: u16,
    /// The data that have arrived.
    pub data: Vec<u8>,
    /// How many bytes have arrived.
    pub received: usize,
    /// Whether some did not match their digest.
    pub is_damaged: bool,
    /// Bytes of the budget that are free when the data of an aborted command have come.
    pub drains: Option<usize>,
}

/// Transfers requested from the host, by tag.
#[derive(Debug, Default)]
pub struct Transfers(Vec<Option<Incoming>>);

impl Transfers {
    /// A transfer.
    pub fn get(&self, tag: u16) -> Option<&Incoming> {
        self.0.get(usize::from(tag))?.as_ref()
    }

    /// A transfer, mutable.
    pub fn get_mut(&mut self, tag: u16) -> Option<&mut Incoming> {
        self.0.get_mut(usize::from(tag))?.as_mut()
    }

    /// The data of a transfer, mutable.
    pub fn data(&mut self, tag: u16) -> Option<&mut [u8]> {
        self.get_mut(tag).map(|incoming| &mut incoming.data[..])
    }

    /// The data of a transfer.
    pub fn peek(&self, tag: u16) -> Option<&[u8]> {
        self.get(tag).map(|incoming| &incoming.data[..])
    }

    /// Opens a transfer for data that go into a buffer.
    pub fn open(&mut self, command: u16, data: Vec<u8>) -> u16 {
        let incoming = Incoming { command, data, received: 0, is_damaged: false, drains: None };
        let free = self.0.iter().position(Option::is_none);
        let tag = free.unwrap_or_else(|| {
            self.0.push(None);
            self.0.len() - 1
        });
        assert!(tag < MOST, "{tag} transfers are open, and a queue has at most {MOST}");
        self.0[tag] = Some(incoming);
        tag as u16
    }

    /// Discards the data of this command when they arrive. Returns their number of bytes; `None` if none are expected.
    pub fn drain(&mut self, command: u16) -> Option<usize> {
        let is_its = |incoming: &&mut Incoming| incoming.command == command && incoming.drains.is_none();
        let incoming = self.0.iter_mut().flatten().find(is_its)?;
        incoming.drains = Some(incoming.data.len());
        incoming.drains
    }

    /// Commands that wait for their data.
    pub fn commands(&self) -> impl Iterator<Item = u16> {
        self.0.iter().flatten().filter(|incoming| incoming.drains.is_none()).map(|incoming| incoming.command)
    }

    /// Bytes of the budget that discarded data hold until they have come.
    pub fn discarded_bytes(&self) -> usize {
        self.0.iter().flatten().filter_map(|incoming| incoming.drains).sum()
    }

    /// Transfers whose data are discarded.
    pub fn drained(&self) -> usize {
        self.0.iter().flatten().filter(|incoming| incoming.drains.is_some()).count()
    }

    /// Ends one.
    pub fn close(&mut self, tag: u16) -> Option<Incoming> {
        self.0.get_mut(usize::from(tag))?.take()
    }
}
