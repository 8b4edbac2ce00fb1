//! Reads of places in use: a place that cannot be read is a loss, and the next checkpoint must say where it is.

use tantalum_nand::{Nand, NandError, Nanoseconds, Ppn};

use crate::counters::Counters;
use crate::error::FtlError;
use crate::space::Space;

/// The medium, and who is told what is lost.
pub(crate) struct Reads<'a> {
    pub nand: &'a mut Nand,
    pub space: &'a mut Space,
    pub counters: &'a mut Counters,
}

impl Reads<'_> {
    /// Reads a place; `None` if it is lost.
    pub fn read(
        &mut self,
        ppn: Ppn,
        data: &mut [u8],
        at_ns: Nanoseconds,
    ) -> Result<Option<Nanoseconds>, FtlError> {
        let read = self.nand.read(ppn, data, at_ns);
        self.unless_lost(ppn, read)
    }

    /// The result of a read; `None` if the place is lost.
    pub fn unless_lost(
        &mut self,
        ppn: Ppn,
        read: Result<Nanoseconds, NandError>,
    ) -> Result<Option<Nanoseconds>, FtlError> {
        match read {
            Err(NandError::Uncorrectable { .. }) => {
                self.counters.uncorrectable_reads += 1;
                self.note_loss(ppn);
                Ok(None)
            }
            read => Ok(Some(read?)),
        }
    }

    /// Reads a place for the drive itself, as often as this helps; `None` if it is lost. For use in the middle of a step: the
    /// checkpoint for the loss is taken at the end of the command.
    pub fn read_retrying(
        &mut self,
        ppn: Ppn,
        data: &mut [u8],
        at_ns: Nanoseconds,
    ) -> Result<Option<Nanoseconds>, FtlError> {
        let read = self.nand.read_retrying(ppn, data, at_ns);
        self.unless_lost_unasked(ppn, read)
    }

    /// Reads a place for garbage collection; `None` if it is lost.
    pub fn read_in_background(
        &mut self,
        ppn: Ppn,
        data: &mut [u8],
        at_ns: Nanoseconds,
    ) -> Result<Option<Nanoseconds>, FtlError> {
        let read = self.nand.read_in_background(ppn, data, at_ns);
        self.unless_lost_unasked(ppn, read)
    }

    /// The result of a read that no host asked for.
    fn unless_lost_unasked(
        &mut self,
        ppn: Ppn,
        read: Result<Nanoseconds, NandError>,
    ) -> Result<Option<Nanoseconds>, FtlError> {
        match read {
            Err(NandError::Uncorrectable { .. }) => {
                self.note_loss(ppn);
                Ok(None)
            }
            read => Ok(Some(read?)),
        }
    }

    fn note_loss(&mut self, ppn: Ppn) {
        self.space.note_loss_in(self.nand.geometry().block_of_unit(ppn));
    }
}
