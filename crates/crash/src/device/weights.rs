//! The relative frequency of commands.

use std::fmt;
use std::str::FromStr;

use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;

/// What the host does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Write,
    Fua,
    Bulk,
    Zeroes,
    Trim,
    Share,
    Remap,
    Transaction,
    Atomic,
    Batch,
    Flush,
    Read,
    Hinted,
    Log,
    Lose,
    Reopen,
    Put,
    Delete,
    Namespace,
    FsWrite,
    ClearLists,
}

/// Every kind with its name and its default weight.
const KINDS: [(Kind, &str, u32); 21] = [
    (Kind::Write, "write", 22),
    (Kind::Fua, "fua", 3),
    (Kind::Bulk, "bulk", 2),
    (Kind::Zeroes, "zeroes", 1),
    (Kind::Trim, "trim", 4),
    (Kind::Share, "share", 8),
    (Kind::Remap, "remap", 3),
    (Kind::Transaction, "transaction", 10),
    (Kind::Atomic, "atomic", 5),
    (Kind::Batch, "batch", 6),
    (Kind::Flush, "flush", 5),
    (Kind::Read, "read", 4),
    (Kind::Hinted, "hinted", 24),
    (Kind::Log, "log", 34),
    (Kind::Lose, "lose", 1),
    (Kind::Reopen, "reopen", 1),
    (Kind::Put, "put", 16),
    (Kind::Delete, "delete", 4),
    (Kind::Namespace, "namespace", 1),
    // only on drives that keep lists of files
    (Kind::FsWrite, "fs-write", 0),
    (Kind::ClearLists, "clear-lists", 0),
];

/// The weight of each kind of command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Weights([u32; KINDS.len()]);

/// Why a text is not a list of weights.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum WeightsError {
    /// A part that is not `command=weight`.
    #[error("{0:?} is not of the form command=weight, as in write=24,trim=5")]
    Form(String),
    /// No command has this name.
    #[error("no command named {name:?}; use {}", names())]
    Unknown {
        /// The name.
        name: String,
    },
    /// Nothing would be left to do.
    #[error("all weights are 0; at least one command needs a weight")]
    AllZero,
}

fn names() -> String {
    KINDS.map(|(_, name, _)| name).join(", ")
}

impl Default for Weights {
    fn default() -> Weights {
        Weights(KINDS.map(|(_, _, weight)| weight))
    }
}

/// On drives that keep lists of files, unless others are given.
const LIST_WEIGHTS: [u32; 2] = [18, 3];

impl Weights {
    /// The weights for a drive: commands on lists come on those that keep some.
    pub(super) fn for_drive(&self, has_lists: bool) -> Weights {
        let mut weights = self.clone();
        if let [.., fs_write @ 0, clear @ 0] = &mut weights.0
            && has_lists
        {
            [*fs_write, *clear] = LIST_WEIGHTS;
        }
        weights
    }

    /// Draws a kind.
    pub(super) fn pick(&self, rng: &mut Xoshiro256PlusPlus) -> Kind {
        let total: u64 = self.0.iter().copied().map(u64::from).sum();
        let mut left = rng.random_range(0..total);
        for ((kind, _, _), weight) in KINDS.iter().zip(self.0) {
            match left.checked_sub(weight.into()) {
                Some(rest) => left = rest,
                None => return *kind,
            }
        }
        unreachable!("{left} is left of weights that sum up to {total}")
    }
}

/// Names the weights that differ from the default.
impl fmt::Display for Weights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let changed = KINDS.iter().zip(self.0).filter(|((_, _, usual), weight)| usual != weight);
        let parts: Vec<String> = changed.map(|((_, name, _), weight)| format!("{name}={weight}")).collect();
        f.write_str(&parts.join(","))
    }
}

impl FromStr for Weights {
    type Err = WeightsError;

    fn from_str(text: &str) -> Result<Weights, WeightsError> {
        let mut weights = Weights::default();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let form = || WeightsError::Form(part.to_owned());
            let (name, weight) = part.split_once('=').ok_or_else(form)?;
            let unknown = || WeightsError::Unknown { name: name.to_owned() };
            let place = KINDS.iter().position(|(_, known, _)| *known == name).ok_or_else(unknown)?;
            weights.0[place] = weight.parse().map_err(|_| form())?;
        }
        if weights.0.iter().all(|weight| *weight == 0) {
            return Err(WeightsError::AllZero);
        }
        Ok(weights)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::random::generator;

    #[test]
    fn weights_are_read_and_written() {
        let weights: Weights = "write=0,log=100".parse().unwrap();
        assert_eq!(weights.to_string(), "write=0,log=100");
        assert_eq!(weights.to_string().parse(), Ok(weights));
        assert_eq!("".parse(), Ok(Weights::default()));
        assert!(matches!("write".parse::<Weights>(), Err(WeightsError::Form(_))));
        assert!(matches!("write=-1".parse::<Weights>(), Err(WeightsError::Form(_))));
        assert!(matches!("erase=1".parse::<Weights>(), Err(WeightsError::Unknown { .. })));
        let none = KINDS.map(|(_, name, _)| format!("{name}=0")).join(",");
        assert_eq!(none.parse::<Weights>(), Err(WeightsError::AllZero));
    }

    #[test]
    fn what_has_no_weight_never_comes() {
        let weights: Weights = "write=0,reopen=0".parse().unwrap();
        for index in 0..2000 {
            let kind = weights.pick(&mut generator(&[7, index]));
            assert!(!matches!(kind, Kind::Write | Kind::Reopen), "{kind:?} came as number {index}");
        }
    }
}
