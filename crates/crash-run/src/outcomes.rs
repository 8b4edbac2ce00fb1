//! Makes the outcomes of all cuts, and hands over those that are new.

use std::collections::{BTreeSet, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::SyncSender;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tantalum::Profile;
use tantalum_report::{Bar, Monitor};

use crate::campaign::{Campaign, Job, Losses, workers};
use crate::choices::choices;
use crate::drive;
use crate::error::RunError;
use crate::posix::Posix;
use crate::sector::Sector;

/// With a limit of time, every so manieth cut is made first, then those between.
const PASSES: [usize; 4] = [64, 16, 4, 1];

/// How much was tried.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Tried {
    /// Places where power could be cut.
    pub places: u64,
    /// Those where it should be.
    pub of: u64,
    /// Those where it was.
    pub cuts: u64,
    /// Outcomes made.
    pub outcomes: u64,
    /// Different ones, which are checked.
    pub checked: u64,
}

/// Makes all outcomes. What was tried is told also if that fails or is interrupted.
pub(crate) fn make(
    campaign: &Campaign<'_>,
    jobs: SyncSender<Job>,
    monitor: &Monitor,
) -> (Tried, Result<(), RunError>) {
    let mut tried = Tried::default();
    let made = match &campaign.settings.losses {
        Losses::Posix(sector) => of_posix(campaign, *sector, &jobs, &mut tried, monitor),
        Losses::Drive(profile) => of_drive(campaign, profile, &jobs, &mut tried, monitor),
    };
    (tried, made)
}

fn of_posix(
    campaign: &Campaign<'_>,
    sector: Sector,
    jobs: &SyncSender<Job>,
    tried: &mut Tried,
    monitor: &Monitor,
) -> Result<(), RunError> {
    let recording = campaign.recording;
    let begin = Posix::after(recording, recording.begins, sector, None);
    let last = recording.operations.len() - recording.begins;
    let places = campaign.places(last + 1, tried);
    let bar = monitor.bar("cuts", places.len() as u64);
    let mut sent = Sent::new(campaign, jobs, &bar, tried);
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
        for kept in choices(&posix, campaign.settings.seed ^ operations as u64) {
            let tree = posix.tree(|index| kept[index]);
            let lost = posix.lost_operations(&kept);
            sent.send(Job { operations, kept: Some(kept), lost, tree })?;
        }
        if sent.ends_cut()? {
            break;
        }
    }
    Ok(())
}

/// Each cut is a run of its own, so several are made at a time.
fn of_drive(
    campaign: &Campaign<'_>,
    profile: &Profile,
    jobs: &SyncSender<Job>,
    tried: &mut Tried,
    monitor: &Monitor,
) -> Result<(), RunError> {
    let (recording, seed) = (campaign.recording, campaign.settings.seed);
    let at_end = drive::cut_at(recording, profile, None, seed)?;
    let all = at_end.map_or(0, |left| left.flash_operations);
    let places = campaign.places(all as usize + 1, tried);
    let bar = monitor.bar("cuts", places.len() as u64);
    let sent = Mutex::new(Sent::new(campaign, jobs, &bar, tried));
    let next = AtomicUsize::new(0);
    let make = || -> Result<(), RunError> {
        while let Some(place) = places.get(next.fetch_add(1, Ordering::Relaxed)) {
            // the last place is after the last command
            let at = (*place < all as usize).then_some(*place as u64 + 1);
            let left = drive::cut_at(recording, profile, at, seed ^ at.unwrap_or_default())?;
            let mut sent = sent.lock();
            if let Some(left) = left {
                let (operations, lost) = (left.operations, BTreeSet::new());
                sent.send(Job { operations, kept: None, lost, tree: left.tree })?;
            }
            if sent.ends_cut()? {
                break;
            }
        }
        Ok(())
    };
    thread::scope(|scope| {
        let makers: Vec<_> = (0..workers()).map(|_| scope.spawn(make)).collect();
        makers.into_iter().try_for_each(|maker| maker.join().expect("it does not panic"))
    })
}

impl Campaign<'_> {
    /// Which of so many places are cut, in the order in which that is done.
    fn places(&self, all: usize, tried: &mut Tried) -> Vec<usize> {
        let every = self.settings.cuts.map_or(1, |cuts| all.div_ceil(cuts.max(1) as usize));
        let mut places: Vec<usize> = (0..all).rev().step_by(every).collect();
        places.reverse();
        (tried.places, tried.of) = (all as u64, places.len() as u64);
        if self.settings.minutes.is_none() {
            return places;
        }
        let pass_of = |index: usize| PASSES.iter().position(|pass| index.is_multiple_of(*pass));
        let mut ordered: Vec<(usize, usize)> = places.into_iter().enumerate().collect();
        ordered.sort_by_key(|(index, _)| pass_of(*index));
        ordered.into_iter().map(|(_, place)| place).collect()
    }
}

/// Hands over outcomes that are new.
struct Sent<'a> {
    campaign: &'a Campaign<'a>,
    jobs: &'a SyncSender<Job>,
    bar: &'a Bar,
    seen: HashSet<(u64, usize)>,
    begun: Instant,
    tried: &'a mut Tried,
}

impl<'a> Sent<'a> {
    fn new(
        campaign: &'a Campaign<'a>,
        jobs: &'a SyncSender<Job>,
        bar: &'a Bar,
        tried: &'a mut Tried,
    ) -> Sent<'a> {
        Sent { campaign, jobs, bar, seen: HashSet::new(), begun: Instant::now(), tried }
    }

    fn send(&mut self, job: Job) -> Result<(), RunError> {
        self.tried.outcomes += 1;
        let said = self.campaign.recording.said_by(job.operations).len();
        if self.seen.insert((job.tree.digest(), said)) {
            self.tried.checked += 1;
            // nobody takes it if a check could not be run; that is told at the end
            let _ = self.jobs.send(job);
        }
        self.bar.say(format!("{} outcomes, {} different", self.tried.outcomes, self.tried.checked));
        Ok(self.bar.check()?)
    }

    /// All outcomes of a cut were handed over. Returns whether it was the last for which there is time.
    fn ends_cut(&mut self) -> Result<bool, RunError> {
        self.tried.cuts += 1;
        self.bar.reach(self.tried.cuts)?;
        let minutes = self.campaign.settings.minutes;
        Ok(minutes.is_some_and(|minutes| self.begun.elapsed() >= Duration::from_secs(60 * minutes)))
    }
}
