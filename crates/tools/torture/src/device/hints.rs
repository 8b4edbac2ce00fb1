//! The promises of hinted logs, without reference to how the drive keeps them.
//!
//! A page of a hinted log is an ordinary unit. In addition it claims its home: when power is lost, a page in the whole run
//! of its log comes home, unless its home received something newer, or the page's own unit changed. So a claim is a
//! version of its home, given when the page was written, that a running drive does not show.
//!
//! - The *whole run* is defined in `docs/commands.md`: transactions, from the first slot of the log on, without a gap,
//!   attempt after attempt, each attempt directly after the last whole transaction.
//! - A claim is certain when all pages of the run up to the end of its transaction are durable, and its own unit has not
//!   changed. A page whose unit has changed may or may not be found; but if its transaction was durable before, the drive
//!   remembers that it was whole, and what follows it in the log still counts.

use std::collections::BTreeMap;

use tantalum::{Generation, Hint, Lpn};

use super::history::{Candidate, NEVER, Order, Stamp};

/// A page of a log.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    order: Order,
    attempt: u32,
    end: bool,
    pub lpn: Lpn,
    pub home: Option<Lpn>,
    stamp: Stamp,
    known_ns: u64,
    durable_ns: u64,
    given_up: Option<GivenUp>,
    /// Whether its home has changed, or got the page by a share: until that is durable the page may claim its home,
    /// whatever happens to its own unit afterwards.
    home_given: bool,
}

/// The unit of a page has changed.
#[derive(Clone, Copy, Debug)]
struct GivenUp {
    by: Order,
    known_ns: u64,
    /// From then on no cut brings the page back.
    flushed_ns: u64,
    /// The page's transaction was on flash before, so that the drive remembers it as whole.
    after_whole: bool,
}

/// A log that was begun since power came on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log {
    begun_ns: u64,
    pub frames: Vec<Frame>,
    /// The current attempt, and where it starts.
    pub attempt: u32,
    pub start: u32,
    pub next_slot: u32,
    /// Where the transaction being written begins.
    pub first: u32,
}

/// All logs that were begun since power came on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hints {
    logs: BTreeMap<Generation, Log>,
    /// The next command is not submitted before this.
    now_ns: u64,
}

/// A transaction of a whole run, by the positions of its frames in the log.
type Transaction = Vec<usize>;

/// How certain it is that a claim holds when power is lost.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Presence {
    Never,
    Perhaps,
    Certain,
}

impl Log {
    /// The transactions of its whole run if everything written were there; what was rolled back is not part of it.
    fn run(&self) -> Vec<Transaction> {
        let (mut run, mut transaction, mut attempt) = (Vec::new(), Transaction::new(), 0);
        for (place, frame) in self.frames.iter().enumerate() {
            if std::mem::replace(&mut attempt, frame.attempt) != frame.attempt {
                transaction.clear();
            }
            transaction.push(place);
            if frame.end {
                run.push(std::mem::take(&mut transaction));
            }
        }
        run
    }

    /// Each transaction of the run, and whether it is certain to be whole when power is lost.
    fn certainty(&self, cut_ns: u64) -> Vec<(Transaction, bool)> {
        let mut certain = true;
        let mut run = self.run();
        run.drain(..)
            .map(|transaction| {
                let mut frames = transaction.iter().map(|place| &self.frames[*place]);
                let is_there = |frame: &Frame| frame.given_up.is_none_or(|given_up| given_up.after_whole);
                certain &= frames.all(|frame| frame.durable_ns <= cut_ns && is_there(frame));
                (transaction, certain)
            })
            .collect()
    }
}

impl Frame {
    /// A page given to the drive.
    pub fn new(order: Order, hint: Hint, lpn: Lpn, stamp: Stamp) -> Frame {
        let Hint { attempt, end, home, .. } = hint;
        let (known_ns, durable_ns) = (NEVER, NEVER);
        Frame {
            order,
            attempt,
            end,
            lpn,
            home,
            stamp,
            known_ns,
            durable_ns,
            given_up: None,
            home_given: false,
        }
    }

    fn presence(&self, certain: bool, cut_ns: u64) -> Presence {
        match self.given_up {
            Some(given_up) if given_up.flushed_ns <= cut_ns && !self.home_given => Presence::Never,
            None if certain => Presence::Certain,
            _ => Presence::Perhaps,
        }
    }
}

impl Hints {
    /// A log was begun: its number is unique from then on; before that, it may be reused after a cut.
    pub fn begin(&mut self, generation: Generation, begun_ns: u64) {
        self.logs.insert(generation, Log { begun_ns, next_slot: 1, first: 1, start: 1, ..Log::default() });
    }

    /// Whether a log had begun at a time.
    pub fn has_begun(&self, generation: Generation, at_ns: u64) -> bool {
        self.logs.get(&generation).is_some_and(|log| log.begun_ns <= at_ns)
    }

    /// The logs of that time have ended: power was lost, or came back.
    pub fn clear(&mut self) {
        self.logs.clear();
    }

    /// What is submitted from now on is submitted at this time or later.
    pub fn pass(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
    }

    /// A log that was begun.
    pub fn log(&mut self, generation: Generation) -> &mut Log {
        self.logs.get_mut(&generation).expect("it was begun")
    }

    /// Pages that are still in their units, with their homes.
    pub fn pages(&self) -> impl Iterator<Item = &Frame> {
        self.logs.values().flat_map(|log| &log.frames).filter(|frame| frame.given_up.is_none())
    }

    fn frames(&mut self) -> impl Iterator<Item = &mut Frame> {
        self.logs.values_mut().flat_map(|log| &mut log.frames)
    }

    /// A command changes a unit; if its order is not given, it may do so.
    pub fn give_up(&mut self, lpn: Lpn, by: Option<Order>) {
        for frame in self.frames().filter(|frame| frame.home == Some(lpn)) {
            frame.home_given |= frame.given_up.is_none();
        }
        let now_ns = self.now_ns;
        for log in self.logs.values_mut() {
            let is_page = |frame: &Frame| frame.lpn == lpn && frame.given_up.is_none();
            if !log.frames.iter().any(is_page) {
                continue;
            }
            let whole: Transaction = log
                .certainty(now_ns)
                .into_iter()
                .filter(|(_, certain)| *certain)
                .flat_map(|(run, _)| run)
                .collect();
            for (place, frame) in log.frames.iter_mut().enumerate().filter(|(_, frame)| is_page(frame)) {
                let after_whole = whole.contains(&place);
                let by = by.unwrap_or(0);
                frame.given_up = Some(GivenUp { by, known_ns: NEVER, flushed_ns: NEVER, after_whole });
            }
        }
    }

    /// A command was refused. `newer` says which newer command still changes a unit, if any.
    pub fn refuse(&mut self, order: Order, newer: impl Fn(Lpn, Order) -> Option<Order>) {
        for log in self.logs.values_mut() {
            log.frames.retain(|frame| frame.order != order);
        }
        for frame in self.frames().filter(|frame| frame.given_up.is_some_and(|given_up| given_up.by == order))
        {
            let by = newer(frame.lpn, frame.order);
            let after_whole = frame.given_up.is_some_and(|given_up| given_up.after_whole);
            frame.given_up = by.map(|by| GivenUp { by, known_ns: NEVER, flushed_ns: NEVER, after_whole });
        }
    }

    /// A command is done at one time, and durable at another.
    pub fn acknowledge(&mut self, order: Order, known_ns: u64, durable_ns: u64) {
        for frame in self.frames() {
            if frame.order == order {
                (frame.known_ns, frame.durable_ns) = (known_ns, durable_ns);
            }
            if let Some(given_up) = &mut frame.given_up
                && given_up.by == order
            {
                given_up.known_ns = known_ns;
                // if it is durable when it is done, so is the end of the claim
                given_up.flushed_ns = given_up.flushed_ns.min(durable_ns);
            }
        }
    }

    /// A flush submitted at one time is done at another.
    pub fn flush(&mut self, given_ns: u64, done_ns: u64) {
        for frame in self.frames() {
            match &mut frame.given_up {
                Some(given_up) if given_up.known_ns <= given_ns => {
                    given_up.flushed_ns = given_up.flushed_ns.min(done_ns);
                }
                None if frame.known_ns <= given_ns => frame.durable_ns = frame.durable_ns.min(done_ns),
                _ => {}
            }
        }
    }

    /// A share that is durable at `done_ns` makes the pages written before it durable with it.
    pub fn share(&mut self, given_ns: u64, done_ns: u64) {
        for frame in self.frames().filter(|frame| frame.given_up.is_none() && frame.known_ns <= given_ns) {
            frame.durable_ns = frame.durable_ns.min(done_ns);
        }
    }

    /// The claims to each home that may hold if power is lost at a given time.
    pub fn claims(&self, cut_ns: u64) -> BTreeMap<Lpn, Vec<Candidate>> {
        let mut claims: BTreeMap<Lpn, Vec<Candidate>> = BTreeMap::new();
        for log in self.logs.values() {
            for (transaction, certain) in log.certainty(cut_ns) {
                for frame in transaction.iter().map(|place| &log.frames[*place]) {
                    let (Some(home), presence) = (frame.home, frame.presence(certain, cut_ns)) else {
                        continue;
                    };
                    if presence > Presence::Never {
                        let certain = presence == Presence::Certain;
                        let claim = Candidate { order: frame.order, stamp: frame.stamp, certain };
                        claims.entry(home).or_default().push(claim);
                    }
                }
            }
        }
        claims
    }

    /// The transactions of each log in order, as the homes to which they bring their pages.
    pub fn transactions(&self) -> impl Iterator<Item = Vec<Vec<(Lpn, Order)>>> + '_ {
        let claims = |log: &Log, transaction: &Transaction| {
            let frames = transaction.iter().map(|place| &log.frames[*place]);
            let standing = frames.filter(|frame| frame.given_up.is_none());
            let newest: BTreeMap<Lpn, Order> =
                standing.filter_map(|frame| Some((frame.home?, frame.order))).collect();
            newest.into_iter().collect()
        };
        self.logs
            .values()
            .map(move |log| log.run().iter().map(|transaction| claims(log, transaction)).collect())
    }
}
