//! Transactions of the random host: begun, written, read, committed or aborted.

use std::collections::BTreeMap;

use rand::RngExt;
use tantalum::{Command, Lpn, Status, result_of};

use crate::device::draw::{Generator, lpn};
use crate::device::history::LOST;
use crate::device::host::{stamp_of, unit_of};
use crate::device::run::Run;
use crate::device::stop::Stop;

impl Run {
    /// Begins, continues, or ends a transaction. Several are open.
    pub(super) fn transaction(&mut self, rng: &mut Generator) -> Result<(), Stop> {
        let most = 4;
        let place = rng.random_range(0..most);
        if self.transactions.len() <= place {
            return match result_of(|tx| self.host.submit(Command::Begin { tx })) {
                Ok(tx) => {
                    self.transactions.push((tx, BTreeMap::new()));
                    Ok(())
                }
                Err(status) => self.may_refuse(&status, false),
            };
        }
        let ends = self.transactions[place].1.len() >= 5 || rng.random_ratio(1, 8);
        match (ends, rng.random_ratio(1, 5)) {
            (false, _) => self.write_in_transaction(place, rng),
            (true, true) => {
                let (tx, _) = self.transactions.swap_remove(place);
                self.host.submit(Command::Abort { tx })?;
                Ok(())
            }
            (true, false) => self.commit(place),
        }
    }

    fn write_in_transaction(&mut self, place: usize, rng: &mut Generator) -> Result<(), Stop> {
        let (tx, lpn, stamp) = (self.transactions[place].0, lpn(rng), self.stamp());
        match self.host.submit(Command::TxWrite { tx, lpn, data: &unit_of(stamp) }) {
            Ok(_) => drop(self.transactions[place].1.insert(lpn, stamp)),
            Err(status) => self.may_refuse(&status, false)?,
        }
        // after a refusal as well, it reads as before
        let other = rng.random_range(0..self.transactions.len());
        self.check_transaction(place, lpn)?;
        self.check_transaction(other, lpn)
    }

    /// Checks that a unit reads as a transaction has it.
    fn check_transaction(&mut self, place: usize, lpn: Lpn) -> Result<(), Stop> {
        let (tx, writes) = &self.transactions[place];
        let (tx, expected) = (*tx, writes.get(&lpn).copied().unwrap_or(self.oracle.now(lpn)));
        let mut unit = vec![0; tantalum::UNIT_BYTES];
        match self.host.submit(Command::TxRead { tx, lpn, data: &mut unit }) {
            Err(Status::Unreadable { .. }) if self.losses > 0 => return Ok(()),
            read => drop(read?),
        }
        let found = stamp_of(&unit, "a unit as a transaction sees it")?;
        if found != expected && expected != LOST {
            let detail = format!("a transaction reads {found} from unit {lpn}, not {expected}");
            return Err(Stop::broken("running drive", detail));
        }
        Ok(())
    }

    fn commit(&mut self, place: usize) -> Result<(), Stop> {
        let (tx, writes) = self.transactions[place].clone();
        let order = self.oracle.issue(&writes, true);
        let answer = self.host.submit(Command::Commit { tx });
        if self.answered(order, &writes, answer, true)?.is_some() {
            self.transactions.swap_remove(place);
        }
        Ok(())
    }
}
