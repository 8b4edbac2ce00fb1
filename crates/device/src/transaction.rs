//! Transactions (X-FTL): begin, tx_write, tx_read, commit, abort.

use tantalum_ftl::{FtlError, Lpn, TxId};
use tantalum_nand::Nanoseconds;

use crate::device::Device;
use crate::status::Status;

impl Device {
    pub(crate) fn begin(&mut self, at_ns: Nanoseconds) -> Result<TxId, Status> {
        self.maintain(at_ns)?;
        let limit = u64::from(self.profile.limits.open_transactions);
        let ftl = self.ftl_mut()?;
        let open = ftl.transactions().count() as u64;
        if open >= limit {
            return Err(Status::OverLimit { what: "open transactions", asked: open + 1, limit });
        }
        let tx = TxId(ftl.next_seq().0);
        ftl.begin_transaction(tx);
        Ok(tx)
    }

    fn check_open(&mut self, tx: TxId) -> Result<(), Status> {
        match self.ftl_mut()?.transactions().is_open(tx) {
            true => Ok(()),
            false => Err(Status::UnknownTransaction(tx)),
        }
    }

    /// Pages may be written at any time (steal): they wait for a full page, or for the commit.
    pub(crate) fn tx_write(
        &mut self,
        tx: TxId,
        lpn: Lpn,
        data: &[u8],
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, Status> {
        self.check_one(lpn, data.len())?;
        self.check_open(tx)?;
        self.maintain(at_ns)?;
        let waiting = self.transaction_units.len() as u64;
        let ftl = self.ftl_mut()?;
        let (asked, limit) = (
            u64::from(ftl.transactions().units()) + waiting + 1,
            u64::from(ftl.layout().transaction_units_limit),
        );
        if asked > limit {
            return Err(Status::OverLimit { what: "units of open transactions", asked, limit });
        }
        let staged = ftl.nand_mut().stage(data);
        let slot = staged.map_err(FtlError::from)?;
        let arrived_ns = self.link.transfer(at_ns, data.len());
        self.host.units_written += 1;
        match self.transaction_units.iter_mut().find(|unit| unit.0 == tx && unit.1 == lpn) {
            Some(unit) => {
                let old = std::mem::replace(&mut unit.2, slot);
                self.ftl_mut()?.nand_mut().release(old);
            }
            None => self.transaction_units.push((tx, lpn, slot)),
        }
        if self.transaction_units.len() == self.units_per_page() {
            self.drain_transactions(arrived_ns)?;
        }
        Ok(arrived_ns)
    }

    fn drain_transactions(&mut self, at_ns: Nanoseconds) -> Result<(), Status> {
        if self.transaction_units.is_empty() {
            return Ok(());
        }
        let units = std::mem::take(&mut self.transaction_units);
        let written = self.ftl_mut()?.write_transaction_page(&units, at_ns);
        if let Err(error) = written {
            self.transaction_units = units;
            return Err(error.into());
        }
        Ok(())
    }

    pub(crate) fn tx_read(
        &mut self,
        tx: TxId,
        lpn: Lpn,
        data: &mut [u8],
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, Status> {
        self.check_one(lpn, data.len())?;
        self.check_open(tx)?;
        let waiting =
            self.transaction_units.iter().find(|unit| unit.0 == tx && unit.1 == lpn).map(|unit| unit.2);
        let ftl = self.ftl_mut()?;
        let read = match waiting {
            Some(slot) => ftl.nand().read_slot(slot, data).map(|()| Some(at_ns)).map_err(FtlError::from),
            None => ftl.read_transaction(tx, lpn, data, at_ns),
        };
        let ready_ns = match read? {
            Some(ready_ns) => ready_ns,
            None => self.read_unit(lpn, data, at_ns)?,
        };
        self.host.units_read += 1;
        Ok(self.link.transfer(ready_ns, data.len()))
    }

    pub(crate) fn commit(&mut self, tx: TxId, at_ns: Nanoseconds) -> Result<Nanoseconds, Status> {
        self.check_open(tx)?;
        self.drain_transactions(at_ns)?;
        let lpns: Vec<u32> = self.ftl_mut()?.transactions().lpns(tx).map(|lpn| lpn.0).collect();
        self.settle_replaced(lpns.into_iter(), at_ns)?;
        let ftl = self.ftl_mut()?;
        ftl.ensure_journal_block(at_ns)?;
        let committed = ftl.commit(tx, at_ns);
        for lpn in committed? {
            self.forget_cached(lpn)?;
        }
        let done_ns = self.make_durable(at_ns)?;
        self.maintain(at_ns)?;
        Ok(done_ns)
    }

    pub(crate) fn abort(&mut self, tx: TxId, at_ns: Nanoseconds) -> Result<Nanoseconds, Status> {
        self.check_open(tx)?;
        let (dropped, kept) =
            std::mem::take(&mut self.transaction_units).into_iter().partition(|unit| unit.0 == tx);
        self.transaction_units = kept;
        let dropped: Vec<_> = dropped;
        let ftl = self.ftl_mut()?;
        for (_, _, slot) in dropped {
            ftl.nand_mut().release(slot);
        }
        ftl.abort(tx);
        Ok(at_ns)
    }
}
