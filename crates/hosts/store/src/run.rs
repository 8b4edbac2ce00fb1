//! Clients that make transfers concurrently on a store, and the tasks that help them.
//!
//! Invariant: a line of history is counted for a client only when its transfer is acknowledged.

use std::cell::RefCell;
use std::rc::Rc;

use tantalum_image::SplitMix64;

use crate::checkpoint;
use crate::error::StoreError;
use crate::log::Log;
use crate::measure::{Meter, Ran};
use crate::pool::Pool;
use crate::recovery::Tail;
use crate::store::{CLEANERS, Store, lines_of};
use crate::transfer::{Aries, Mars, Work};
use crate::world::{Host, Task};

/// The work of each client.
#[derive(Clone, Copy)]
struct Load {
    transfers: u64,
    rolled_back_percent: u64,
    seed: u64,
}

/// What executes transfers, shared by all tasks of a run: MARS if present, otherwise ARIES.
struct Managers {
    aries: Rc<Aries>,
    mars: Option<Rc<Mars>>,
}

impl Store {
    /// Each client makes `transfers` transfers and rolls `rolled_back_percent` of them back. Ends early if power is lost. The
    /// host then loses its memory, and the next run begins with recovery.
    pub fn run(&mut self, transfers: u64, rolled_back_percent: u64, seed: u64) -> Result<Ran, StoreError> {
        if self.tail.is_none() {
            self.recover()?;
        }
        let host = Host::new(self.ssd.take().expect("the store does not run"), self.host_times);
        let result = self.run_on(&host, Load { transfers, rolled_back_percent, seed });
        self.ssd = Some(host.into_ssd());
        result
    }

    fn run_on(&mut self, host: &Host, load: Load) -> Result<Ran, StoreError> {
        let tail = self.tail.take().expect("the store was recovered");
        let managers = self.managers(host, tail);
        let acknowledged: Vec<_> =
            self.histories.iter().map(|lines| Rc::new(RefCell::new(lines.clone()))).collect();
        let clients = acknowledged.iter().enumerate();
        let clients =
            clients.map(|(client, lines)| self.client_task(&managers, load, client, Rc::clone(lines)));
        let clients = clients.collect();
        let aries = managers.aries;
        host.run(vec![self.warm(&aries.pool, load.seed)], Vec::new())?;
        let before = Meter::read(host);
        let helpers = if managers.mars.is_none() { self.helpers(&aries) } else { Vec::new() };
        let ran = host.run(clients, helpers);
        self.histories = acknowledged.iter().map(|histories| histories.borrow().clone()).collect();
        let done = lines_of(&self.histories);
        let transfers = done.iter().zip(&self.lines).map(|(now, before)| now - before).collect();
        self.lines = done;
        ran?;
        Ok(Ran::since(&before, host, transfers, &aries))
    }

    fn managers(&self, host: &Host, tail: Tail) -> Managers {
        let (layout, next_transaction) = (self.layout, tail.next_transaction);
        let log = Log::new(host.clone(), layout.size.log_bytes, tail.low, tail.end, tail.begun);
        let log = Rc::new(log);
        let pool = Rc::new(Pool::new(host.clone(), Rc::clone(&log), layout.size.frames));
        let mars = self.programs.atomic.map(|atomic| {
            let (host, pool) = (host.clone(), Rc::clone(&pool));
            Rc::new(Mars { host, pool, locks: Default::default(), layout, atomic })
        });
        let aries = Rc::new(Aries::new(host.clone(), log, pool, layout, next_transaction));
        Managers { aries, mars }
    }

    /// A task that makes a client's transfers, and counts the acknowledged lines of history.
    fn client_task(
        &self,
        managers: &Managers,
        load: Load,
        client: usize,
        histories: Rc<RefCell<Vec<u64>>>,
    ) -> Task {
        let (aries, mars) = (Rc::clone(&managers.aries), managers.mars.clone());
        let mut number = self.lines[client];
        let (path, room) = (self.path(client), self.layout.size.transfers_per_client - number);
        let mut random = SplitMix64(load.seed.wrapping_mul(1000) + client as u64);
        Box::pin(async move {
            for _ in 0..load.transfers.min(room) {
                let transfer = aries.layout.draw(&mut random);
                let is_rolled_back = random.below(100) < load.rolled_back_percent;
                let history = aries.layout.history_of(&transfer);
                let line = aries.layout.line(client, history, histories.borrow()[history]);
                let work = Work { path, client, number, line, transfer, is_rolled_back };
                match &mars {
                    Some(mars) => mars.transfer(work).await?,
                    None => aries.transfer(work).await?,
                }
                number += u64::from(!is_rolled_back);
                histories.borrow_mut()[history] += u64::from(!is_rolled_back);
            }
            Ok(())
        })
    }

    /// A task that fills the pool with pages, so that the measurement does not begin with an empty one.
    fn warm(&self, pool: &Rc<Pool>, seed: u64) -> Task {
        let (pool, path, pages, limit) =
            (Rc::clone(pool), self.path(0), self.layout.pages_of_records(), self.layout.size.frames);
        Box::pin(async move {
            let mut random = SplitMix64(seed);
            for _ in 0..limit {
                pool.fetch(path, pages.start + random.below(pages.end - pages.start)).await?;
            }
            pool.pages_read.set(0);
            Ok(())
        })
    }

    /// Tasks that write ARIES's log and pages, and take its checkpoints.
    fn helpers(&self, aries: &Rc<Aries>) -> Vec<Task> {
        let clients = self.lines.len();
        let (log, path) = (Rc::clone(&aries.log), self.path(clients));
        let checkpoints = checkpoint::take_in_background(
            Rc::clone(aries),
            self.path(clients + 1),
            self.layout.size.log_bytes,
        );
        let mut helpers: Vec<Task> =
            vec![Box::pin(async move { log.write_in_background(path).await }), Box::pin(checkpoints)];
        for cleaner in 0..CLEANERS {
            helpers
                .push(Box::pin(Rc::clone(&aries.pool).clean_in_background(self.path(clients + 2 + cleaner))));
        }
        helpers
    }
}
