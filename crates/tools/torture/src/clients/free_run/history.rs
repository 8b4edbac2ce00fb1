//! What threads saw of their commands, and what that allows a drive to hold.

use std::collections::BTreeMap;

use tantalum::Lpn;

use crate::device::history::Stamp;
use crate::device::stop::Stop;

/// What a command does.
#[derive(Clone, Debug)]
pub(super) enum What {
    /// Gives units new values, in one step or not; whether that is durable when it is answered.
    Write {
        new: BTreeMap<Lpn, Stamp>,
        step: bool,
        durable: bool,
    },
    Flush,
    /// What was read.
    Read {
        found: Vec<(Lpn, Stamp)>,
    },
}

/// A command, as its thread saw it.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub submitted: u64,
    /// None if power went first.
    pub answered: Option<u64>,
    pub what: What,
}

impl Seen {
    /// Whether it was answered before another one was submitted.
    fn comes_before(&self, submitted: u64) -> bool {
        self.answered.is_some_and(|answered| answered < submitted)
    }
}

/// What all threads saw since the contents were last certain.
pub(super) struct History {
    base: BTreeMap<Lpn, Stamp>,
    pub seen: Vec<Seen>,
    /// The commands that wrote each unit.
    writers: BTreeMap<Lpn, Vec<usize>>,
    /// The last submission of a flush that was answered.
    flushed: Option<u64>,
    /// Whether everything is durable when it is answered.
    protected: bool,
}

/// A version of a unit: its value, and the command that wrote it; none for what was there before.
type Version<'a> = (Stamp, Option<&'a Seen>);

impl History {
    pub fn new(base: BTreeMap<Lpn, Stamp>, seen: Vec<Seen>, protected: bool) -> History {
        let mut writers: BTreeMap<Lpn, Vec<usize>> = BTreeMap::new();
        let mut flushed = None;
        for (place, command) in seen.iter().enumerate() {
            match &command.what {
                What::Write { new, .. } => {
                    new.keys().for_each(|lpn| writers.entry(*lpn).or_default().push(place));
                }
                What::Flush if command.answered.is_some() => flushed = flushed.max(Some(command.submitted)),
                _ => {}
            }
        }
        History { base, seen, writers, flushed, protected }
    }

    fn versions(&self, lpn: Lpn) -> impl Iterator<Item = Version<'_>> {
        let writers = self.writers.get(&lpn).map_or(&[][..], Vec::as_slice);
        let written = writers.iter().filter_map(move |place| match &self.seen[*place] {
            seen @ Seen { what: What::Write { new, .. }, .. } => Some((new[&lpn], Some(seen))),
            _ => None,
        });
        std::iter::once((self.base.get(&lpn).copied().unwrap_or(0), None)).chain(written)
    }

    /// Whether what a command wrote must be there after a cut.
    fn is_certain(&self, seen: &Seen) -> bool {
        let What::Write { durable, .. } = seen.what else { return false };
        let is_flushed = self.flushed.is_some_and(|flushed| seen.comes_before(flushed));
        is_flushed || seen.answered.is_some() && (durable || self.protected)
    }

    /// Whether a version of a unit comes before something that `hides` it.
    fn is_hidden(&self, lpn: Lpn, version: Version<'_>, hides: impl Fn(&Seen) -> bool) -> bool {
        let is_after = |later: &Seen| version.1.is_none_or(|seen| seen.comes_before(later.submitted));
        self.versions(lpn).filter_map(|(_, seen)| seen).any(|later| is_after(later) && hides(later))
    }

    /// Checks a read of the running drive.
    pub fn check_read(&self, read: &Seen) -> Result<u64, Stop> {
        let (What::Read { found }, Some(answered)) = (&read.what, read.answered) else { return Ok(0) };
        for (lpn, found) in found {
            let may = |version: &Version<'_>| {
                let is_submitted = version.1.is_none_or(|seen| seen.submitted < answered);
                version.0 == *found
                    && is_submitted
                    && !self.is_hidden(*lpn, *version, |later| later.comes_before(read.submitted))
            };
            if !self.versions(*lpn).any(|version| may(&version)) {
                let detail = format!("unit {lpn} was read as {found}, which is too old, or was never there");
                return Err(Stop::broken("running drive", detail));
            }
        }
        Ok(found.len() as u64)
    }

    /// After a cut: what a unit holds may be there.
    pub fn check_unit(&self, lpn: Lpn, found: Stamp) -> Result<(), Stop> {
        let may = |version: &Version<'_>| {
            version.0 == found && !self.is_hidden(lpn, *version, |later| self.is_certain(later))
        };
        if self.versions(lpn).any(|version| may(&version)) {
            return Ok(());
        }
        let known: Vec<Version<'_>> = self.versions(lpn).collect();
        Err(Stop::broken("D1", format!("unit {lpn} reads {found}; it was given {known:?}")))
    }

    /// After a cut: a step happened completely or not at all.
    pub fn check_step(&self, step: &Seen, found: &BTreeMap<Lpn, Stamp>) -> Result<(), Stop> {
        let What::Write { new, step: true, .. } = &step.what else { return Ok(()) };
        let (mut done, mut undone) = (true, true);
        for lpn in new.keys() {
            let shown: Vec<Version<'_>> =
                self.versions(*lpn).filter(|version| version.0 == found[lpn]).collect();
            let is_it = |seen: Option<&Seen>| seen.is_some_and(|seen| std::ptr::eq(seen, step));
            let is_older = |seen: Option<&Seen>| seen.is_none_or(|seen| seen.comes_before(step.submitted));
            done &= shown.iter().any(|(_, seen)| is_it(*seen) || !is_older(*seen));
            undone &= shown.iter().any(|(_, seen)| !is_it(*seen));
        }
        match done || undone {
            true => Ok(()),
            false => Err(Stop::broken("D3", format!("some of {step:?} was done; found are {found:?}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(submitted: u64, answered: Option<u64>, stamp: Stamp, step: bool) -> Seen {
        let new = [1, 2].map(|lpn| (Lpn(lpn), stamp)).into();
        Seen { submitted, answered, what: What::Write { new, step, durable: step } }
    }

    fn flush(submitted: u64, answered: Option<u64>) -> Seen {
        Seen { submitted, answered, what: What::Flush }
    }

    fn is_allowed(seen: &[Seen], stamp: Stamp) -> bool {
        let history = History::new(BTreeMap::new(), seen.to_vec(), false);
        history.check_unit(Lpn(1), stamp).is_ok()
    }

    #[test]
    fn of_two_writes_in_flight_together_either_may_be_the_last() {
        let writes = [write(1, Some(4), 10, false), write(2, Some(3), 20, false)];
        assert!([0, 10, 20].iter().all(|stamp| is_allowed(&writes, *stamp)));
        let flushed = [&writes[..], &[flush(5, Some(6))]].concat();
        assert!(!is_allowed(&flushed, 0) && is_allowed(&flushed, 10) && is_allowed(&flushed, 20));
        let early = [&writes[..], &[flush(3, Some(6))]].concat();
        assert!(is_allowed(&early, 0), "the flush was submitted before an answer");
    }

    #[test]
    fn what_follows_a_durable_write_hides_what_was_before() {
        let steps = [write(1, Some(2), 10, true), write(3, None, 20, true)];
        assert!(!is_allowed(&steps, 0) && is_allowed(&steps, 10) && is_allowed(&steps, 20));
        assert!(!is_allowed(&[steps[0].clone(), write(3, Some(4), 20, true)], 10));
    }

    #[test]
    fn half_of_a_step_is_told() {
        let history = History::new(BTreeMap::new(), vec![write(3, None, 20, true)], false);
        let shows = |one, two| {
            let found = BTreeMap::from([(Lpn(1), one), (Lpn(2), two)]);
            history.check_step(&history.seen[0], &found).is_ok()
        };
        assert!(shows(0, 0) && shows(20, 20) && !shows(20, 0) && !shows(0, 20));
    }

    #[test]
    fn a_read_is_neither_too_old_nor_from_the_future() {
        let seen = vec![write(1, Some(2), 10, false), write(5, None, 20, false)];
        let history = History::new(BTreeMap::new(), seen, false);
        let may_read = |(submitted, answered), stamp| {
            let what = What::Read { found: vec![(Lpn(1), stamp)] };
            history.check_read(&Seen { submitted, answered: Some(answered), what }).is_ok()
        };
        assert!(may_read((3, 4), 10) && !may_read((3, 4), 0) && !may_read((3, 4), 20));
        assert!(may_read((3, 6), 20) && may_read((6, 7), 10), "the second write is in flight");
    }
}
