//! Badly behaved hosts of hinted logs. They use several logs at once, whose pages and homes are the units of all other
//! commands. Pages are overwritten before they are home, homes are written while pages that claim them wait,
//! transactions are rolled back, logs are left half written, and some pages do not follow.

use rand::RngExt;
use tantalum::{Command, Generation, Hint, Lpn, Status};

use super::draw::{Generator, lpn};
use super::drive::DIRECT;
use super::hints::Frame;
use super::history::Order;
use super::host::{metadata_of, unit_of};
use super::run::Run;
use super::stop::Stop;

/// Logs in use.
const LOGS: usize = 4;

impl Run {
    /// Continues a log, or begins one.
    pub fn hinted(&mut self, rng: &mut Generator) -> Result<(), Stop> {
        if self.logs.is_empty() || rng.random_ratio(1, 16) {
            return self.begin_log();
        }
        let place = rng.random_range(0..self.logs.len());
        let generation = self.logs[place];
        match rng.random_range(0..30) {
            0 => self.write_out_of_order(generation, rng),
            1 => self.write_to_unknown_log(rng),
            _ => self.write_page(generation, rng),
        }
    }

    fn begin_log(&mut self) -> Result<(), Stop> {
        let mut generation = Generation::default();
        match self.host.submit(Command::BeginLog { generation: &mut generation }) {
            Ok(begun) => {
                self.oracle.hints.begin(generation, begun.done_ns);
                self.logs.push(generation);
                if self.logs.len() > LOGS {
                    // it is left unfinished
                    self.logs.remove(0);
                }
                Ok(())
            }
            Err(status) => self.may_refuse(&status, false),
        }
    }

    fn write_page(&mut self, generation: Generation, rng: &mut Generator) -> Result<(), Stop> {
        let lpn = self.place_for_page(rng);
        let home = rng.random_ratio(9, 10).then(|| self.home(rng, lpn));
        let end = rng.random_ratio(2, 5);
        let stamp = self.stamp() | 1;
        let before = self.oracle.hints.log(generation).clone();
        let log = self.oracle.hints.log(generation);
        if rng.random_ratio(1, 8) {
            // what was written since the last end is rolled back
            (log.attempt, log.start, log.next_slot) = (log.attempt + 1, log.first, log.first);
        }
        let (attempt, start, slot, first) = (log.attempt, log.start, log.next_slot, log.first);
        let hint = Hint { generation, attempt, start, first, slot, end, home };
        let new = [(lpn, stamp)].into();
        let order = self.oracle.issue(&new, false);
        let log = self.oracle.hints.log(generation);
        log.frames.push(Frame::new(order, hint, lpn, stamp));
        log.next_slot = slot + 1;
        if end {
            log.first = slot + 1;
        }
        if self.submit_page(order, lpn, hint, stamp)? {
            return Ok(());
        }
        // the identical page is taken when there is room
        *self.oracle.hints.log(generation) = before;
        Ok(())
    }

    /// The home of a page. On a drive that becomes full it may be an unmapped unit, which takes space.
    fn home(&self, rng: &mut Generator, page: Lpn) -> Lpn {
        if !self.bulk.is_empty() && rng.random_ratio(1, 3) {
            return Lpn(rng.random_range(self.bulk.clone()));
        }
        loop {
            let home = lpn(rng);
            if home != page {
                return home;
            }
        }
    }

    /// Whether the drive accepted it.
    fn submit_page(&mut self, order: Order, lpn: Lpn, hint: Hint, stamp: u64) -> Result<bool, Stop> {
        let (data, metadata) = (unit_of(stamp), metadata_of(stamp));
        let answer = self.host.submit(Command::WriteHinted { lpn, data: &data, metadata: &metadata, hint });
        let new = [(lpn, stamp)].into();
        Ok(self.answered(order, &new, answer, self.durable_writes)?.is_some())
    }

    /// A page that does not follow, which the drive refuses.
    fn write_out_of_order(&mut self, generation: Generation, rng: &mut Generator) -> Result<(), Stop> {
        let (lpn, stamp) = (lpn(rng), self.stamp() | 1);
        let home = Some(self.home(rng, lpn));
        let log = self.oracle.hints.log(generation);
        let (attempt, start, slot, first) = (log.attempt, log.start, log.next_slot, log.first);
        let mut hint = Hint { generation, attempt, start, first, slot, end: true, home };
        match rng.random_range(0..4) {
            0 => hint.slot += rng.random_range(1..3),
            1 => hint.first = if slot > first { slot } else { first.saturating_sub(1).max(start - 1) },
            2 => hint.start += 1,
            _ => (hint.attempt, hint.start, hint.first) = (attempt + 1, first + 1, first + 1),
        }
        self.refused_page(lpn, hint, stamp, |status| matches!(status, Status::SlotOutOfOrder(_)))
    }

    /// A page of an earlier log, or of no log.
    fn write_to_unknown_log(&mut self, rng: &mut Generator) -> Result<(), Stop> {
        let (lpn, stamp) = (lpn(rng), self.stamp() | 1);
        let generation = self.old_log.unwrap_or(Generation(1 << 40));
        let home = Some(self.home(rng, lpn));
        let hint = Hint { generation, attempt: 0, start: 1, first: 1, slot: 1, end: true, home };
        self.refused_page(lpn, hint, stamp, |status| matches!(status, Status::UnknownLog(_)))
    }

    fn refused_page(
        &mut self,
        lpn: Lpn,
        hint: Hint,
        stamp: u64,
        is_right: impl Fn(&Status) -> bool,
    ) -> Result<(), Stop> {
        let (data, metadata) = (unit_of(stamp), metadata_of(stamp));
        match self.host.submit(Command::WriteHinted { lpn, data: &data, metadata: &metadata, hint }) {
            Ok(_) => {
                let detail = format!("the drive took a page of a log that it should refuse: {hint:?}");
                Err(Stop::broken("running drive", detail))
            }
            Err(status) if is_right(&status) => self.check_running(lpn),
            Err(status) => self.may_refuse(&status, false),
        }
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

    /// Homes with pages that claim them, mostly of whole transactions and the newest of their log: (dst, src).
    pub fn pages_to_bring_home(&self, rng: &mut Generator, count: usize) -> Vec<(Lpn, Lpn)> {
        let pages: Vec<(Lpn, Lpn)> =
            self.oracle.hints.pages().filter_map(|page| Some((page.home?, page.lpn))).collect();
        let mut pairs: Vec<(Lpn, Lpn)> = Vec::new();
        for _ in 0..count.min(pages.len()) {
            let (home, page) = pages[rng.random_range(0..pages.len())];
            let apart = pairs.iter().all(|(dst, src)| *dst != home && *src != home && *dst != page);
            if apart {
                pairs.push((home, page));
            }
        }
        pairs
    }
}
