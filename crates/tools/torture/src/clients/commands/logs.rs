//! Hinted logs of a client. Their pages and homes are the units of all other commands, of all clients: pages are
//! overwritten before they are home, homes are written while pages that claim them wait, transactions are rolled back, and
//! logs are left half written.

use rand::RngExt;
use tantalum::{Generation, Hint, Lpn};
use tantalum_drive::{InReply, Request};

use crate::clients::kinds::Kind;
use crate::clients::pending::What;
use crate::clients::run::Run;
use crate::device::answers::New;
use crate::device::draw::{Generator, lpn};
use crate::device::drive::DIRECT;
use crate::device::hints::Frame;
use crate::device::host::{metadata_of, unit_of};
use crate::device::stop::Stop;

impl Run {
    /// Continues a log, or begins one.
    pub(super) fn hinted(&mut self, client: usize, rng: &mut Generator) -> Result<(), Stop> {
        let logs = &self.clients[client].logs;
        if logs.is_empty() || rng.random_ratio(1, 16) {
            return self.submit(
                client,
                Kind::Hinted,
                What::BeginLog,
                Request::BeginLog { generation: InReply },
            );
        }
        let generation = logs[rng.random_range(0..logs.len())];
        self.write_page(client, generation, rng)
    }

    fn write_page(&mut self, client: usize, generation: Generation, rng: &mut Generator) -> Result<(), Stop> {
        let lpn = self.place_for_page(rng);
        let home = rng.random_ratio(9, 10).then(|| home(rng, lpn));
        let (end, stamp) = (rng.random_ratio(2, 5), self.stamp() | 1);
        let before = Box::new(self.oracle.hints.log(generation).clone());
        let log = self.oracle.hints.log(generation);
        if rng.random_ratio(1, 8) {
            // what was written since the last end is rolled back
            (log.attempt, log.start, log.next_slot) = (log.attempt + 1, log.first, log.first);
        }
        let (attempt, start, slot, first) = (log.attempt, log.start, log.next_slot, log.first);
        let hint = Hint { generation, attempt, start, first, slot, end, home };
        let new = New::from([(lpn, stamp)]);
        let order = self.oracle.issue(&new, false);
        let log = self.oracle.hints.log(generation);
        log.frames.push(Frame::new(order, hint, lpn, stamp));
        log.next_slot = slot + 1;
        if end {
            log.first = slot + 1;
        }
        let request = Request::WriteHinted { lpn, data: unit_of(stamp), metadata: metadata_of(stamp), hint };
        let what = What::Page { order, new, durable: self.durable_writes, generation, before };
        self.submit(client, Kind::Hinted, what, request)
    }

    /// The unit of the next page: mostly one without another page that may still be needed.
    fn place_for_page(&self, rng: &mut Generator) -> Lpn {
        let any = lpn(rng);
        if rng.random_ratio(1, 6) {
            return any;
        }
        let is_page = |lpn: &Lpn| self.oracle.hints.pages().any(|page| page.lpn == *lpn);
        let count = DIRECT.end - DIRECT.start;
        let mut from_there = (0..count).map(|step| Lpn(DIRECT.start + (any.0 - DIRECT.start + step) % count));
        from_there.find(|lpn| !is_page(lpn)).unwrap_or(any)
    }
}

/// The home of a page.
fn home(rng: &mut Generator, page: Lpn) -> Lpn {
    loop {
        let home = lpn(rng);
        if home != page {
            return home;
        }
    }
}
