//! Makes the outcomes of all cuts, and hands over those that are new.

use std::collections::{BTreeSet, HashSet};
use std::sync::mpsc::SyncSender;
use std::thread;
use std::time::Instant;

use tantalum::Profile;
use tantalum_report::table::count;
use tantalum_report::{Bar, Monitor};

use crate::choices::{Kept, choices, in_order};
use crate::drive;
use crate::error::RunError;
use crate::operation::Recording;
use crate::posix::Posix;
use crate::sector::Sector;
use crate::settings::{Losses, Settings};
use crate::tree::Tree;

/// With a time limit, every 64th cut is made first, then every 16th, and so on.
const PASSES: [usize; 4] = [64, 16, 4, 1];

/// An outcome to be checked.
pub(crate) struct Job {
    /// Its number, in the order in which different outcomes were made, which is the same in each run.
    pub number: u64,
    /// How many operations were done before the cut.
    pub operations: usize,
    /// Which pieces survived, in terms of POSIX; none if a drive decided and [`Job::find_loss`] does not know.
    pub kept: Option<Kept>,
    /// The operations that were lost in whole or in part.
    pub lost: BTreeSet<usize>,
    pub tree: Tree,
}

impl Job {
    fn new(operations: usize, kept: Option<Kept>, lost: BTreeSet<usize>, tree: Tree) -> Job {
        Job { number: 0, operations, kept, lost, tree }
    }

    /// Finds out in terms of POSIX what a drive lost, if one of the outcomes that are tried there left the same files. What
    /// cannot be seen, because the file has no name, is lost.
    pub fn find_loss(&mut self, recording: &Recording, sector: Sector) {
        let posix = Posix::after(recording, self.operations, sector, &[]);
        let digest = self.tree.digest();
        let is_same = |kept: &Kept| posix.tree(|index| kept[index]).digest() == digest;
        if let Some(mut kept) = choices(&posix, 0).into_iter().chain(in_order(&posix)).find(is_same) {
            posix.unseen(&kept).into_iter().for_each(|index| kept[index] = false);
            self.lost = posix.lost_operations(&kept);
            self.kept = Some(kept);
        }
    }
}

/// How much was tried.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Tried {
    /// Places where power could be cut.
    pub places: u64,
    /// Places where it should be cut.
    pub planned: u64,
    /// Places where it was cut.
    pub cuts: u64,
    /// Outcomes made.
    pub outcomes: u64,
    /// Different outcomes, which are handed over to be checked.
    pub different: u64,
    /// Those of them that were not checked, because the time was up or the run interrupted.
    pub skipped: u64,
}

/// Makes all outcomes. `makers` threads do so where each cut is a separate run. Returns how much was tried even if that
/// failed or was interrupted.
pub(crate) fn make(
    recording: &Recording,
    settings: &Settings,
    makers: usize,
    jobs: SyncSender<Job>,
    monitor: &Monitor,
) -> (Tried, Result<(), RunError>) {
    let mut tried = Tried::default();
    let making = Making { recording, settings, jobs: &jobs, monitor };
    let made = match &settings.losses {
        Losses::Posix(sector) => making.of_posix(*sector, &mut tried),
        Losses::Drive(profile) => making.of_drive(profile, makers, &mut tried),
    };
    (tried, made)
}

/// What outcomes are made from, and where they go.
#[derive(Clone, Copy)]
struct Making<'a> {
    recording: &'a Recording,
    settings: &'a Settings,
    jobs: &'a SyncSender<Job>,
    monitor: &'a Monitor,
}

impl Making<'_> {
    fn of_posix(self, sector: Sector, tried: &mut Tried) -> Result<(), RunError> {
        let recording = self.recording;
        let begin = Posix::after(recording, recording.begins, sector, &[]);
        let last = recording.operations.len() - recording.begins;
        let places = self.places(last + 1, tried);
        let bar = self.monitor.bar("cuts", places.len() as u64);
        let mut sent = Sent::new(self, &bar, tried);
        let (mut posix, mut done) = (begin.clone(), 0);
        for place in places {
            if place < done {
                (posix, done) = (begin.clone(), 0);
            }
            for number in recording.begins + done..recording.begins + place {
                posix.then(number, &recording.operations[number]);
            }
            done = place;
            let operations = recording.begins + done;
            for kept in choices(&posix, self.settings.seed ^ operations as u64) {
                let tree = posix.tree(|index| kept[index]);
                let lost = posix.lost_operations(&kept);
                sent.send(Job::new(operations, Some(kept), lost, tree))?;
                // a cut has many outcomes, and each may take long to check
                if sent.is_late() {
                    return Ok(());
                }
            }
            sent.ends_cut()?;
        }
        Ok(())
    }

    /// Each cut is a separate run, so several are made at a time, and handed over in their order.
    fn of_drive(self, profile: &Profile, makers: usize, tried: &mut Tried) -> Result<(), RunError> {
        let (recording, seed) = (self.recording, self.settings.seed);
        let at_end = drive::cut_at(recording, profile, None, seed)?;
        let all = at_end.map_or(0, |left| left.flash_operations);
        let places = self.places(all as usize + 1, tried);
        let bar = self.monitor.bar("cuts", places.len() as u64);
        let mut sent = Sent::new(self, &bar, tried);
        let make = |place: usize| {
            // the last place is after the last command
            let at = (place < all as usize).then_some(place as u64 + 1);
            drive::cut_at(recording, profile, at, seed ^ at.unwrap_or_default())
        };
        for places in places.chunks(makers) {
            let left: Vec<_> = thread::scope(|scope| {
                let made: Vec<_> = places.iter().map(|place| scope.spawn(|| make(*place))).collect();
                made.into_iter().map(|left| left.join().expect("it does not panic")).collect()
            });
            for left in left {
                if let Some(left) = left? {
                    sent.send(Job::new(left.operations, None, BTreeSet::new(), left.tree))?;
                }
                sent.ends_cut()?;
            }
            if sent.is_late() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// The places to cut power at, out of `all`, in the order in which they are tried.
    fn places(self, all: usize, tried: &mut Tried) -> Vec<usize> {
        let cuts = self.settings.cuts.map_or(all, |cuts| all.min(cuts.max(1) as usize));
        // even gaps, and the last place is among them
        let places: Vec<usize> = (1..=cuts).map(|cut| cut * all / cuts - 1).collect();
        (tried.places, tried.planned) = (all as u64, places.len() as u64);
        if self.settings.minutes.is_none() {
            return places;
        }
        let pass_of = |index: usize| PASSES.iter().position(|pass| index.is_multiple_of(*pass));
        let mut ordered: Vec<(usize, usize)> = places.into_iter().enumerate().collect();
        ordered.sort_by_key(|(index, _)| pass_of(*index));
        ordered.into_iter().map(|(_, place)| place).collect()
    }
}

/// Hands over outcomes that are new, and counts.
struct Sent<'a> {
    making: Making<'a>,
    bar: &'a Bar,
    seen: HashSet<(u64, usize)>,
    begun: Instant,
    tried: &'a mut Tried,
}

impl<'a> Sent<'a> {
    fn new(making: Making<'a>, bar: &'a Bar, tried: &'a mut Tried) -> Sent<'a> {
        Sent { making, bar, seen: HashSet::new(), begun: Instant::now(), tried }
    }

    fn send(&mut self, mut job: Job) -> Result<(), RunError> {
        self.tried.outcomes += 1;
        let acks = self.making.recording.acks_by(job.operations).len();
        if self.seen.insert((job.tree.digest(), acks)) {
            job.number = self.tried.different;
            self.tried.different += 1;
            // fails if a check could not be run, which is reported at the end
            let _ = self.making.jobs.send(job);
        }
        self.bar.say(format!(
            "{}, {} different",
            count(self.tried.outcomes, "outcome"),
            self.tried.different
        ));
        Ok(self.bar.check()?)
    }

    /// All outcomes of a cut were handed over.
    fn ends_cut(&mut self) -> Result<(), RunError> {
        self.tried.cuts += 1;
        Ok(self.bar.reach(self.tried.cuts)?)
    }

    fn is_late(&self) -> bool {
        self.making.settings.time().is_some_and(|time| self.begun.elapsed() >= time)
    }
}
