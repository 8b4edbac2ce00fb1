//! The source of requests: a trace, or a synthetic pattern.

use std::path::Path;

use tantalum_image::SplitMix64;
use tantalum_report::InvalidSetting;
use tantalum_workloads::bench::Pattern;

use crate::error::ReplayError;
use crate::trace::{Input, Operation, Request, Source, Trace};

/// Reads in a hundred requests of [`Pattern::Mixed`], as in `tantalum bench`.
const MIXED_READ_PERCENT: u64 = 70;

const WRITE: Operation = Operation::Write { preflush: false, fua: false };

/// The load on a drive.
#[derive(Clone, Debug)]
pub enum Load {
    /// The requests of a trace.
    Trace(Source),
    /// Requests over the whole drive. They have no times.
    Synthetic(Synthetic),
}

impl Load {
    /// The file of a trace; a pattern has none.
    pub(crate) fn path(&self) -> &Path {
        match self {
            Load::Trace(source) => &source.path,
            Load::Synthetic(_) => Path::new(""),
        }
    }
}

/// A pattern over the whole drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Synthetic {
    /// The operations and their places.
    pub pattern: Pattern,
    /// The number of requests.
    pub requests: u64,
    /// Bytes of each request, which begins at a multiple of this.
    pub request_bytes: u64,
    /// The seed of the addresses.
    pub seed: u64,
}

impl Synthetic {
    pub(crate) fn validate(&self, capacity_bytes: u64) -> Result<(), InvalidSetting> {
        if self.requests == 0 {
            return Err(InvalidSetting::new("requests", 0, "it must be at least 1"));
        }
        if self.request_bytes == 0 || self.request_bytes > capacity_bytes {
            let expected = format!("it must be from 1 to the drive's {capacity_bytes}");
            return Err(InvalidSetting::new("request_bytes", self.request_bytes, expected));
        }
        if self.pattern.uses_zones() {
            let expected = "a pattern of zones is for `tantalum bench`";
            return Err(InvalidSetting::new("pattern", self.pattern.name(), expected));
        }
        Ok(())
    }
}

/// The requests of a load, in order.
pub(crate) enum Feed {
    Trace(Box<Trace>),
    Synthetic(Generator),
}

impl Feed {
    /// Begins a load; `input` has the bytes of a trace.
    pub(crate) fn open(load: &Load, input: Option<&Input>, capacity_bytes: u64) -> Result<Feed, ReplayError> {
        Ok(match load {
            Load::Trace(source) => {
                let input = input.expect("a trace was opened before it was surveyed");
                Feed::Trace(Box::new(Trace::open(source, input)?))
            }
            Load::Synthetic(synthetic) => Feed::Synthetic(Generator::new(*synthetic, capacity_bytes)),
        })
    }

    pub(crate) fn next(&mut self) -> Result<Option<Request>, ReplayError> {
        match self {
            Feed::Trace(trace) => Ok(trace.next()?),
            Feed::Synthetic(generator) => Ok(generator.next()),
        }
    }
}

/// Generates the requests of a pattern.
pub(crate) struct Generator {
    synthetic: Synthetic,
    random: SplitMix64,
    /// Number of places for a request on the drive.
    places: u64,
    made: u64,
}

impl Generator {
    fn new(synthetic: Synthetic, capacity_bytes: u64) -> Generator {
        let places = (capacity_bytes / synthetic.request_bytes).max(1);
        Generator { synthetic, random: SplitMix64(synthetic.seed), places, made: 0 }
    }

    fn next(&mut self) -> Option<Request> {
        let Synthetic { pattern, requests, request_bytes, .. } = self.synthetic;
        if self.made == requests {
            return None;
        }
        let place = match pattern {
            Pattern::SeqWrite => self.made % self.places,
            _ => self.random.below(self.places),
        };
        let operation = match pattern {
            Pattern::SeqWrite | Pattern::RandWrite => WRITE,
            Pattern::RandRead => Operation::Read,
            Pattern::Mixed if self.random.below(100) < MIXED_READ_PERCENT => Operation::Read,
            Pattern::Mixed => WRITE,
            Pattern::ZoneWrite | Pattern::ZoneAppend | Pattern::ZoneMixed => {
                unreachable!("the settings were checked")
            }
        };
        self.made += 1;
        let (line, offset) = (self.made, place * request_bytes);
        Some(Request { at_ns: 0, line, volume: 0, operation, offset, bytes: request_bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(pattern: Pattern, seed: u64) -> Vec<(Operation, u64)> {
        let synthetic = Synthetic { pattern, requests: 1000, request_bytes: 8192, seed };
        let mut generator = Generator::new(synthetic, 1 << 20);
        std::iter::from_fn(|| generator.next()).map(|request| (request.operation, request.offset)).collect()
    }

    #[test]
    fn patterns_are_what_they_are_called() {
        let in_order = made(Pattern::SeqWrite, 1);
        assert!(
            in_order
                .iter()
                .enumerate()
                .all(|(index, request)| *request == (WRITE, index as u64 % 128 * 8192))
        );
        let mixed = made(Pattern::Mixed, 1);
        let reads = mixed.iter().filter(|(operation, _)| *operation == Operation::Read).count();
        assert!((650..750).contains(&reads), "{reads}");
        assert!(mixed.iter().all(|(_, offset)| offset % 8192 == 0 && *offset < 1 << 20));
        assert!(made(Pattern::RandRead, 1).iter().all(|(operation, _)| *operation == Operation::Read));
        assert_eq!(made(Pattern::RandWrite, 1), made(Pattern::RandWrite, 1));
        assert_ne!(made(Pattern::RandWrite, 1), made(Pattern::RandWrite, 2));
    }
}
