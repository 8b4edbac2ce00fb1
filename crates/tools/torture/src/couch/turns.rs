//! Threads that take turns, in an order that a seed draws: one runs at a time, until it has ended or is about to use storage.
//!
//! A thread that waits for its turn must hold no lock that another one needs, or the one whose turn it is never comes to an end.
//! The store holds two while it uses storage: that of its writer, which [`super::session`] hands out itself, and that of its state,
//! while it shares ranges or reads a document through [`tantalum_couch::Store::get`]. So no turn ends in these
//! ([`without_turns`]).

use std::cell::RefCell;
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use rand::{RngExt, SeedableRng};
use tantalum_couch::{ShareRange, Shared, Storage, StorageFile};

use super::contents::Random;
use crate::program::{Broken, DriveInUse, Life, Stop, live_steps};

/// What a thread tells the one that draws.
enum Event {
    /// The thread waits for its turn.
    Waits,
    /// It has ended, for this reason if it gave one.
    Ended(usize, Option<Stop>),
}

/// A thread's part.
struct Turn {
    events: Sender<Event>,
    /// Its next turn; closed when there is none.
    next: Receiver<()>,
    is_over: bool,
    is_whole: bool,
}

thread_local! {
    static TURN: RefCell<Option<Turn>> = const { RefCell::new(None) };
}

/// Ends the turn, and waits for the next one. It is an error if there is none. Threads without turns go on at once.
pub(super) fn pass() -> io::Result<()> {
    TURN.with_borrow_mut(|turn| {
        let Some(turn) = turn.as_mut().filter(|turn| !turn.is_whole) else { return Ok(()) };
        turn.is_over |= turn.events.send(Event::Waits).is_err() || turn.next.recv().is_err();
        if turn.is_over { Err(io::Error::other("there are no more turns")) } else { Ok(()) }
    })
}

/// Whether there are no more turns.
pub(super) fn are_over() -> bool {
    TURN.with_borrow(|turn| turn.as_ref().is_some_and(|turn| turn.is_over))
}

/// Does something in one turn.
pub(super) fn without_turns<T>(work: impl FnOnce() -> T) -> T {
    let set =
        |is_whole| TURN.with_borrow_mut(|turn| turn.iter_mut().for_each(|turn| turn.is_whole = is_whole));
    set(true);
    let done = work();
    set(false);
    done
}

/// Tells that a thread has ended, also if it panics.
struct Ends {
    events: Sender<Event>,
    number: usize,
    why: Option<Stop>,
}

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.events.send(Event::Ended(self.number, self.why.take()));
    }
}

/// Runs threads in turns until power is lost or the life is over. `done` says how much work has been acknowledged.
pub(super) fn live_in_turns<W: FnOnce() -> Stop + Send>(
    life: &Life,
    place: &impl DriveInUse,
    threads: Vec<W>,
    done: impl Fn() -> u64,
) -> Result<(), Broken> {
    let mut random = Random::seed_from_u64(life.seed);
    thread::scope(|scope| {
        let (events, arrived) = channel();
        let mut turns = Vec::new();
        for (number, work) in threads.into_iter().enumerate() {
            let (turn, next) = channel::<()>();
            turns.push(turn);
            let ends = Ends { events: events.clone(), number, why: None };
            scope.spawn(move || {
                let mut ends = ends;
                if next.recv().is_err() {
                    return;
                }
                let events = ends.events.clone();
                TURN.set(Some(Turn { events, next, is_over: false, is_whole: false }));
                ends.why = Some(work());
                TURN.set(None);
            });
        }
        live_steps(life, place, || {
            let next = random.random_range(0..turns.len());
            turns[next].send(()).expect("a thread that has not ended takes its turn");
            match arrived.recv().expect("a thread tells how its turn ended") {
                Event::Waits => Ok(done()),
                Event::Ended(_, Some(why)) => Err(why),
                Event::Ended(number, None) => {
                    Err(Stop::Broken(Broken::new("nothing panics", format!("thread {number} panicked"))))
                }
            }
        })
    })
}

// -- storage ------------------------------------------------------------------------------------------------------

/// Storage before each use of which a turn ends.
#[derive(Clone, Debug)]
pub(super) struct InTurns<S>(pub S);

impl<S: Storage> Storage for InTurns<S> {
    type File = InTurns<S::File>;
    type Lock = S::Lock;

    fn lock(&self, name: &str) -> io::Result<S::Lock> {
        self.0.lock(name)
    }

    fn open(&self, name: &str) -> io::Result<Option<Self::File>> {
        pass()?;
        Ok(self.0.open(name)?.map(InTurns))
    }

    fn create(&self, name: &str) -> io::Result<Self::File> {
        pass()?;
        self.0.create(name).map(InTurns)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        pass()?;
        self.0.remove(name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        pass()?;
        self.0.rename(from, to)
    }

    fn sync_names(&self) -> io::Result<()> {
        pass()?;
        self.0.sync_names()
    }

    fn refuses_changes(&self) -> Option<String> {
        self.0.refuses_changes()
    }
}

impl<F: StorageFile> StorageFile for InTurns<F> {
    fn size(&self) -> io::Result<u64> {
        self.0.size()
    }

    fn grow(&self, size: u64) -> io::Result<()> {
        pass()?;
        self.0.grow(size)
    }

    fn read(&self, offset: u64, data: &mut [u8]) -> io::Result<()> {
        pass()?;
        self.0.read(offset, data)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        pass()?;
        self.0.write(offset, data)
    }

    fn sync(&self) -> io::Result<()> {
        pass()?;
        self.0.sync()
    }

    fn share_units(&self) -> u32 {
        self.0.share_units()
    }

    fn share(&self, ranges: &[ShareRange]) -> io::Result<Shared> {
        self.0.share(ranges)
    }

    fn copy_from(&self, from: &Self, from_offset: u64, to_offset: u64, bytes: u64) -> io::Result<()> {
        pass()?;
        self.0.copy_from(&from.0, from_offset, to_offset, bytes)
    }
}
