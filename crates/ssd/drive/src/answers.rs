//! Answers are delivered when the drive would have given them: in the machine's time, at once, or in the order of
//! virtual time.
//!
//! Nobody holds the drive while an answer waits, so requests of several clients are in flight together, as in a drive's
//! queue. In the machine's time an answer goes out only while no command is executing: power may turn out to have failed
//! during a command that has begun, at a time before the answer was due.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};
use tantalum::Nanoseconds;
use tantalum_canaries::guard;

use crate::clock::Clock;
use crate::drive::Drive;
use crate::guard::WeakDrive;
use crate::pacing::Pacing;
use crate::when::When;

/// How the wait of an answer ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Delivery {
    /// Its time came.
    InTime,
    /// Power failed first: the drive never gave the answer.
    PowerLost,
}

type Answer = Box<dyn FnOnce(Delivery) + Send>;

/// Taken before a command is submitted: its answer is never delivered if power fails afterwards.
#[derive(Clone, Copy, Debug)]
pub struct Ticket {
    losses: u64,
}

/// Answers that are not due yet. Clones share them. Answers still waiting when the last clone is dropped are delivered.
#[derive(Clone)]
pub struct Answers(Arc<Owners>);

/// All clones of some answers, not counting the thread that delivers them.
struct Owners(Arc<Shared>);

struct Shared {
    pace: Pace,
    /// The drive that gives the answers.
    drive: OnceLock<WeakDrive>,
    waiting: Mutex<Waiting>,
    changed: Condvar,
    /// How often power has failed: requests made before a loss are never answered.
    losses: AtomicU64,
}

/// What decides that an answer's time has come.
enum Pace {
    /// Nothing is needed.
    AtOnce,
    /// The machine's clock, and a thread.
    Machine(Clock),
    /// The caller of [`Answers::deliver_next`].
    Virtual,
}

#[derive(Default)]
struct Waiting {
    answers: BinaryHeap<Reverse<Entry>>,
    next_number: u64,
    is_closed: bool,
}

struct Entry {
    due_ns: Nanoseconds,
    /// Of two answers due at the same time, the earlier one goes first.
    number: u64,
    ticket: Ticket,
    answer: Answer,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Entry) -> bool {
        (self.due_ns, self.number) == (other.due_ns, other.number)
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Entry) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Entry) -> std::cmp::Ordering {
        (self.due_ns, self.number).cmp(&(other.due_ns, other.number))
    }
}

impl Answers {
    /// `from_ns` is the drive's time now. In real time a thread is started that delivers answers.
    pub fn new(pacing: Pacing, from_ns: Nanoseconds) -> io::Result<Answers> {
        if pacing == Pacing::None {
            return Ok(Answers::with_pace(Pace::AtOnce));
        }
        let answers = Answers::with_pace(Pace::Machine(Clock::real_from(from_ns)));
        let shared = Arc::clone(&answers.0.0);
        thread::Builder::new().name("answers".to_owned()).spawn(move || shared.give_in_time())?;
        Ok(answers)
    }

    /// Answers in virtual time: each waits until [`Answers::deliver_next`] reaches it.
    pub fn in_virtual_time() -> Answers {
        Answers::with_pace(Pace::Virtual)
    }

    fn with_pace(pace: Pace) -> Answers {
        let waiting = Mutex::default();
        let (drive, changed, losses) = (OnceLock::new(), Condvar::new(), AtomicU64::new(0));
        let shared = Shared { pace, drive, waiting, changed, losses };
        Answers(Arc::new(Owners(Arc::new(shared))))
    }

    /// The machine's time, if answers follow it.
    pub fn now_ns(&self) -> Option<Nanoseconds> {
        match &self.0.0.pace {
            Pace::Machine(clock) => Some(clock.now_ns()),
            Pace::AtOnce | Pace::Virtual => None,
        }
    }

    /// When to issue a command of a client; in virtual time, the client's own time is `at_ns`.
    pub fn when(&self, at_ns: Nanoseconds) -> When {
        match &self.0.0.pace {
            Pace::AtOnce => When::AfterAll,
            Pace::Machine(clock) => When::At(clock.now_ns()),
            Pace::Virtual => When::At(at_ns),
        }
    }

    /// A ticket for a command that is about to be submitted.
    pub fn ticket(&self) -> Ticket {
        Ticket { losses: self.0.0.losses.load(Ordering::Acquire) }
    }

    /// Delivers an answer at `due_ns`, or reports that power has failed since its ticket was taken.
    pub fn at(&self, ticket: Ticket, due_ns: Nanoseconds, answer: impl FnOnce(Delivery) + Send + 'static) {
        let due_ns = guard!(AnsweredEarly(due_ns), due_ns);
        let is_due = match &self.0.0.pace {
            Pace::AtOnce => true,
            Pace::Machine(clock) => clock.now_ns() >= due_ns,
            Pace::Virtual => false,
        };
        if is_due {
            return answer(self.0.0.delivery(ticket, due_ns));
        }
        let mut waiting = self.0.0.waiting.lock();
        let losses = self.0.0.losses.load(Ordering::Acquire);
        debug_assert!(
            ticket.losses <= losses,
            "a ticket of loss {}, of which there were {losses}",
            ticket.losses
        );
        let number = waiting.next_number;
        waiting.next_number += 1;
        let is_first = waiting.answers.peek().is_none_or(|Reverse(first)| due_ns < first.due_ns);
        waiting.answers.push(Reverse(Entry { due_ns, number, ticket, answer: Box::new(answer) }));
        if is_first {
            self.0.0.changed.notify_one();
        }
    }

    /// How long to hold back an answer that is due at `due_ns`, for callers that do not use [`Answers::at`]; zero if it goes
    /// out now. Not in virtual time.
    pub fn wait(&self, due_ns: Nanoseconds) -> Duration {
        match &self.0.0.pace {
            Pace::Machine(clock) => Duration::from_nanos(due_ns.saturating_sub(clock.now_ns())),
            Pace::AtOnce | Pace::Virtual => Duration::ZERO,
        }
    }

    /// Whether an answer that was held back until it was due may be sent now. If so, it must be sent: a later power loss
    /// undoes nothing that happened before `due_ns`.
    pub fn delivery(&self, ticket: Ticket, due_ns: Nanoseconds) -> Delivery {
        self.0.0.delivery(ticket, due_ns)
    }

    /// From now on a power loss of this drive, which must be the one that gives these answers, also affects them, for as
    /// long as a clone of them exists.
    pub fn follow(&self, drive: &Drive) {
        self.0.0.drive.get_or_init(|| drive.downgrade());
        let owners = Arc::downgrade(&self.0);
        drive.on_power_loss(move || owners.upgrade().map(|owners| owners.lose_power()).is_some());
    }

    /// When the next waiting answer is due; none if no answer waits.
    pub fn next_due_ns(&self) -> Option<Nanoseconds> {
        self.0.0.waiting.lock().answers.peek().map(|Reverse(first)| first.due_ns)
    }

    /// In virtual time: delivers the answer that is due first, and returns its time; none if no answer waits.
    pub fn deliver_next(&self) -> Option<Nanoseconds> {
        debug_assert!(
            matches!(self.0.0.pace, Pace::Virtual),
            "answers that follow a clock are given by their thread"
        );
        let mut waiting = self.0.0.waiting.lock();
        let due_ns = waiting.answers.peek()?.0.due_ns;
        self.0.0.give_first(&mut waiting);
        Some(due_ns)
    }
}

impl Owners {
    /// Power has failed: waiting answers are never delivered.
    fn lose_power(&self) {
        self.0.losses.fetch_add(1, Ordering::Release);
    }
}

impl Drop for Owners {
    fn drop(&mut self) {
        self.0.waiting.lock().is_closed = true;
        self.0.changed.notify_one();
    }
}

impl Shared {
    /// Whether an answer that is due now is given.
    fn delivery(&self, ticket: Ticket, due_ns: Nanoseconds) -> Delivery {
        let drive = self.drive.get().filter(|_| matches!(self.pace, Pace::Machine(_)));
        let with_drive = drive.and_then(|drive| {
            drive.with(|device| {
                let delivery = self.without_drive(ticket);
                if delivery == Delivery::InTime {
                    device.note_answer(due_ns);
                }
                delivery
            })
        });
        with_drive.unwrap_or_else(|| self.without_drive(ticket))
    }

    fn without_drive(&self, ticket: Ticket) -> Delivery {
        let is_lost = ticket.losses != self.losses.load(Ordering::Acquire);
        if guard!(AnsweredWithoutPower, is_lost) { Delivery::PowerLost } else { Delivery::InTime }
    }

    /// Delivers the first answer; others may add answers meanwhile.
    fn give_first(&self, waiting: &mut MutexGuard<'_, Waiting>) {
        let Reverse(entry) = waiting.answers.pop().expect("there is a first");
        let (number, next) = (entry.number, waiting.next_number);
        debug_assert!(number < next, "answer {number} waits, but the next one is {next}");
        debug_assert!(
            waiting.answers.peek().is_none_or(|Reverse(later)| *later > entry),
            "answer {number}, due at {} ns, is given before one that is due earlier",
            entry.due_ns
        );
        MutexGuard::unlocked(waiting, || (entry.answer)(self.delivery(entry.ticket, entry.due_ns)));
    }

    fn give_in_time(&self) {
        let Pace::Machine(clock) = &self.pace else { return };
        // Threads usually sleep up to 50 us too long: more than a read of flash takes.
        let _ = nix::sys::prctl::set_timerslack(1);
        let mut waiting = self.waiting.lock();
        loop {
            let now_ns = clock.now_ns();
            match waiting.answers.peek().map(|Reverse(first)| first.due_ns) {
                None if waiting.is_closed => return,
                None => self.changed.wait(&mut waiting),
                Some(due_ns) if due_ns > now_ns => {
                    self.changed.wait_for(&mut waiting, Duration::from_nanos(due_ns - now_ns));
                }
                Some(_) => self.give_first(&mut waiting),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Instant;

    use super::*;

    #[test]
    fn answers_go_out_in_the_order_of_their_times() {
        // the drive's time begins later than this
        let start = Instant::now();
        let answers = Answers::new(Pacing::Real, 0).unwrap();
        let (sender, receiver) = mpsc::channel();
        for (name, due_ns) in [("late", 30_000_000), ("early", 10_000_000), ("past", 0)] {
            let sender = sender.clone();
            answers.at(answers.ticket(), due_ns, move |delivery| {
                assert_eq!(delivery, Delivery::InTime);
                sender.send((name, start.elapsed())).unwrap();
            });
        }
        // waiting answers are still delivered
        drop((answers, sender));
        let given: Vec<_> = receiver.iter().collect();
        assert_eq!(given.iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["past", "early", "late"]);
        assert!(given[1].1 >= Duration::from_millis(9), "{given:?}");
        assert!(given[2].1 >= Duration::from_millis(29), "{given:?}");
    }

    #[test]
    fn without_pacing_nothing_waits() {
        let answers = Answers::new(Pacing::None, 0).unwrap();
        let (sender, receiver) = mpsc::channel();
        answers.at(answers.ticket(), u64::MAX, move |delivery| sender.send(delivery).unwrap());
        assert_eq!(receiver.try_recv(), Ok(Delivery::InTime));
    }

    #[test]
    fn what_waits_when_power_goes_is_never_given_and_what_comes_later_is() {
        let answers = Answers::new(Pacing::Real, 0).unwrap();
        let (sender, receiver) = mpsc::channel();
        let before = sender.clone();
        let (waits, late) = (answers.ticket(), answers.ticket());
        answers.at(waits, 20_000_000, move |delivery| before.send((1, delivery)).unwrap());
        answers.0.lose_power();
        // its command was submitted before power failed, and is handed over only now
        let handed_over = sender.clone();
        answers.at(late, 0, move |delivery| handed_over.send((2, delivery)).unwrap());
        answers.at(answers.ticket(), 30_000_000, move |delivery| sender.send((3, delivery)).unwrap());
        let given: Vec<_> = receiver.iter().collect();
        assert_eq!(given, [(2, Delivery::PowerLost), (1, Delivery::PowerLost), (3, Delivery::InTime)]);
    }

    #[test]
    fn in_virtual_time_an_answer_may_bring_another_that_is_due_before_the_rest() {
        let answers = Answers::in_virtual_time();
        let (sender, receiver) = mpsc::channel();
        let (again, next) = (answers.clone(), sender.clone());
        let ticket = answers.ticket();
        answers.at(ticket, 50, move |_| sender.send(50).unwrap());
        answers.at(ticket, 10, move |_| {
            next.send(10).unwrap();
            again.at(ticket, 20, move |_| next.send(20).unwrap());
        });
        let mut times = Vec::new();
        while let Some(due_ns) = answers.next_due_ns() {
            assert_eq!(answers.deliver_next(), Some(due_ns));
            times.push(due_ns);
        }
        assert_eq!((times, receiver.try_iter().collect::<Vec<_>>()), (vec![10, 20, 50], vec![10, 20, 50]));
    }
}
