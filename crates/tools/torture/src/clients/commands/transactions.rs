//! Transactions of a client: begun, written, read, committed or aborted, while those of other clients are open.

use rand::RngExt;
use tantalum_drive::{InReply, Request};

use crate::clients::kinds::Kind;
use crate::clients::pending::What;
use crate::clients::run::Run;
use crate::device::answers::New;
use crate::device::draw::{Generator, lpn};
use crate::device::host::unit_of;
use crate::device::stop::Stop;

/// Transactions that a client wants open.
const OPEN: usize = 2;

impl Run {
    /// Begins, continues, or ends a transaction.
    pub(super) fn transaction(&mut self, client: usize, rng: &mut Generator) -> Result<(), Stop> {
        let place = rng.random_range(0..OPEN);
        let Some((tx, writes)) = self.clients[client].transactions.get(place) else {
            return self.submit(client, Kind::Transaction, What::Begin, Request::Begin { tx: InReply });
        };
        let (tx, ends) = (*tx, writes.len() >= 5 || rng.random_ratio(1, 6));
        match (ends, rng.random_ratio(1, 5)) {
            (false, true) => {
                let lpn = lpn(rng);
                let known = writes.get(&lpn).copied();
                let what = What::TxRead { expected: known.unwrap_or(self.oracle.now(lpn)) };
                self.submit(client, Kind::Transaction, what, Request::TxRead { tx, lpn, data: InReply })
            }
            (false, false) => {
                let (lpn, stamp) = (lpn(rng), self.stamp());
                let before = self.clients[client].transactions[place].1.insert(lpn, stamp);
                let request = Request::TxWrite { tx, lpn, data: unit_of(stamp) };
                self.submit(client, Kind::Transaction, What::TxWrite { tx, lpn, before }, request)
            }
            (true, true) => {
                self.clients[client].transactions.remove(place);
                self.submit(client, Kind::Transaction, What::Abort, Request::Abort { tx })
            }
            (true, false) => {
                let (_, new): (_, New) = self.clients[client].transactions.remove(place);
                let order = self.oracle.issue(&new, true);
                let what = What::Commit { order, new, tx };
                self.submit(client, Kind::Transaction, what, Request::Commit { tx })
            }
        }
    }
}
