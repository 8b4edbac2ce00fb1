//! Transactions (X-FTL): begin, tx_write, tx_read, commit, abort.

use tantalum_ftl::{Handle, Lpn, TxId};
use tantalum_nand::{Nanoseconds, Slot};

use super::read::read_buffer;
use super::{Engine, Port};
use crate::status::Status;

impl Engine {
    pub(super) fn begin(&mut self, tx: &mut TxId, at_ns: Nanoseconds) -> Result<Nanoseconds, Status> {
        self.maintain(at_ns)?;
        let limit = u64::from(self.open_transactions);
        let ftl = &mut self.ftl;
        let open = ftl.transactions().count() as u64;
        if open >= limit {
            return Err(Status::OverLimit { what: "open transactions", asked: open + 1, limit });
        }
        let (begun, done_ns) = ftl.begin_transaction(at_ns)?;
        *tx = begun;
        Ok(done_ns)
    }

    /// What a transaction has written so far.
    pub fn transaction_lpns(&self, tx: TxId) -> Vec<Lpn> {
        let waiting = self.transaction_units.iter().filter(|unit| unit.0 == tx).map(|unit| unit.1);
        self.ftl.transactions().lpns(tx).chain(waiting).collect()
    }

    fn check_open(&mut self, tx: TxId) -> Result<(), Status> {
        match self.ftl.transactions().is_open(tx) {
            true => Ok(()),
            false => Err(Status::UnknownTransaction(tx)),
        }
    }

    /// Pages may be written at any time (steal): they wait for a full page, or for the commit.
    pub(super) fn tx_write(
        &mut self,
        tx: TxId,
        lpn: Lpn,
        data: &[u8],
        port: &mut impl Port,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, Status> {
        self.check_open(tx)?;
        self.maintain(at_ns)?;
        self.check_transaction_units()?;
        let waiting = self.transaction_units.len();
        debug_assert!(waiting < self.units_per_page, "{waiting} units wait, although they fill a page");
        let slot = self.ftl.nand_mut().stage(data)?;
        let arrived_ns = port.transfer(at_ns, data.len());
        let replaced = match self.transaction_units.iter_mut().find(|unit| unit.0 == tx && unit.1 == lpn) {
            Some(unit) => Some(std::mem::replace(&mut unit.2, slot)),
            None => {
                self.transaction_units.push((tx, lpn, slot));
                None
            }
        };
        if self.transaction_units.len() == self.units_per_page {
            let drained = self.drain_transactions(arrived_ns);
            if matches!(&drained, Err(status) if *status != Status::PowerLost) {
                self.take_back(tx, lpn, replaced)?;
            }
            drained?;
        }
        if let Some(replaced) = replaced {
            self.ftl.nand_mut().release(replaced);
        }
        self.ftl.count_written(Handle::DEFAULT, 1);
        Ok(arrived_ns)
    }

    /// Refuses a unit of a transaction beyond the number that the drive keeps.
    fn check_transaction_units(&self) -> Result<(), Status> {
        let waiting = self.transaction_units.len() as u64;
        let asked = u64::from(self.ftl.transactions().units()) + waiting + 1;
        let limit = u64::from(self.ftl.layout().transaction_units_limit);
        if asked > limit {
            return Err(Status::OverLimit { what: "units of open transactions", asked, limit });
        }
        Ok(())
    }

    /// A unit was refused: restores the one that waited in its place before.
    fn take_back(&mut self, tx: TxId, lpn: Lpn, replaced: Option<Slot>) -> Result<(), Status> {
        let is_it = |unit: &(TxId, Lpn, Slot)| unit.0 == tx && unit.1 == lpn;
        let index = self.transaction_units.iter().position(is_it).expect("what was not programmed waits");
        let refused = match replaced {
            Some(slot) => std::mem::replace(&mut self.transaction_units[index].2, slot),
            None => self.transaction_units.remove(index).2,
        };
        self.ftl.nand_mut().release(refused);
        Ok(())
    }

    fn drain_transactions(&mut self, at_ns: Nanoseconds) -> Result<(), Status> {
        if self.transaction_units.is_empty() {
            return Ok(());
        }
        let units = std::mem::take(&mut self.transaction_units);
        let written = self.ftl.write_transaction_page(&units, at_ns);
        if let Err(error) = written {
            self.transaction_units = units;
            return Err(error.into());
        }
        Ok(())
    }

    pub(super) fn tx_read(
        &mut self,
        tx: TxId,
        lpn: Lpn,
        data: &mut [u8],
        port: &mut impl Port,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, Status> {
        self.check_open(tx)?;
        let waiting =
            self.transaction_units.iter().find(|unit| unit.0 == tx && unit.1 == lpn).map(|unit| unit.2);
        let ftl = &mut self.ftl;
        let read = match waiting {
            Some(slot) => {
                read_buffer(ftl, lpn, slot, data)?;
                Some(at_ns)
            }
            None => ftl.read_transaction(tx, lpn, data, at_ns)?,
        };
        let ready_ns = match read {
            Some(ready_ns) => ready_ns,
            None => self.read_unit(lpn, data, at_ns)?,
        };
        self.ftl.counters_mut().host_units_read += 1;
        Ok(port.transfer(ready_ns, data.len()))
    }

    pub(super) fn commit(&mut self, tx: TxId, at_ns: Nanoseconds) -> Result<Nanoseconds, Status> {
        self.check_open(tx)?;
        self.drain_transactions(at_ns)?;
        let lpns: Vec<Lpn> = self.ftl.transactions().lpns(tx).collect();
        let at_ns = self.admit(lpns.iter().copied(), at_ns)?;
        self.settle_replaced(lpns.iter().copied(), at_ns)?;
        for lpn in self.ftl.commit(tx, at_ns)? {
            self.forget_cached(lpn)?;
        }
        let done_ns = self.make_change_durable(at_ns)?;
        self.maintain_after(at_ns)?;
        Ok(done_ns)
    }

    pub(super) fn abort(&mut self, tx: TxId, at_ns: Nanoseconds) -> Result<Nanoseconds, Status> {
        self.check_open(tx)?;
        let (dropped, kept) =
            std::mem::take(&mut self.transaction_units).into_iter().partition(|unit| unit.0 == tx);
        self.transaction_units = kept;
        let dropped: Vec<_> = dropped;
        let ftl = &mut self.ftl;
        for (_, _, slot) in dropped {
            ftl.nand_mut().release(slot);
        }
        ftl.abort(tx);
        Ok(at_ns)
    }
}
