//! How often each kind of command comes, for any torture that draws its commands.

use std::fmt;
use std::str::FromStr;

use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;

/// The kinds of commands of a torture.
pub trait Kinds: Copy + PartialEq + fmt::Debug + 'static {
    /// Every kind with its name on the command line and its usual weight.
    const ALL: &'static [(Self, &'static str, u32)];
}

/// The weight of each kind, in the order of [`Kinds::ALL`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Weights<K> {
    pub(crate) weights: Vec<u32>,
    kinds: std::marker::PhantomData<K>,
}

/// Why a text is not a list of weights.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WeightsError {
    /// A part that is not `command=weight`.
    #[error("{0:?} is not of the form command=weight, as in write=24,trim=5")]
    Form(String),
    /// No command has this name.
    #[error("no command named {name:?}; use {names}")]
    Unknown {
        /// The name.
        name: String,
        /// The known names.
        names: String,
    },
    /// Nothing would be left to do.
    #[error("all weights are 0; at least one command needs a weight")]
    AllZero,
}

fn names<K: Kinds>() -> String {
    K::ALL.iter().map(|(_, name, _)| *name).collect::<Vec<_>>().join(", ")
}

impl<K: Kinds> Default for Weights<K> {
    fn default() -> Weights<K> {
        let weights = K::ALL.iter().map(|(_, _, weight)| *weight).collect();
        Weights { weights, kinds: std::marker::PhantomData }
    }
}

impl<K: Kinds> Weights<K> {
    /// Draws a kind.
    pub(crate) fn pick(&self, rng: &mut Xoshiro256PlusPlus) -> K {
        let total: u64 = self.weights.iter().copied().map(u64::from).sum();
        let mut left = rng.random_range(0..total);
        for ((kind, _, _), weight) in K::ALL.iter().zip(&self.weights) {
            match left.checked_sub((*weight).into()) {
                Some(rest) => left = rest,
                None => return *kind,
            }
        }
        unreachable!("{left} is left of weights that sum up to {total}")
    }
}

/// Names the weights that differ from the usual ones.
impl<K: Kinds> fmt::Display for Weights<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let changed = K::ALL.iter().zip(&self.weights).filter(|((_, _, usual), weight)| usual != *weight);
        let parts: Vec<String> = changed.map(|((_, name, _), weight)| format!("{name}={weight}")).collect();
        f.write_str(&parts.join(","))
    }
}

impl<K: Kinds> FromStr for Weights<K> {
    type Err = WeightsError;

    fn from_str(text: &str) -> Result<Weights<K>, WeightsError> {
        let mut weights = Weights::default();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let form = || WeightsError::Form(part.to_owned());
            let (name, weight) = part.split_once('=').ok_or_else(form)?;
            let unknown = || WeightsError::Unknown { name: name.to_owned(), names: names::<K>() };
            let place = K::ALL.iter().position(|(_, known, _)| *known == name).ok_or_else(unknown)?;
            weights.weights[place] = weight.parse().map_err(|_| form())?;
        }
        if weights.weights.iter().all(|weight| *weight == 0) {
            return Err(WeightsError::AllZero);
        }
        Ok(weights)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::random::generator;

    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    enum Kind {
        Write,
        Log,
        Reopen,
    }

    impl Kinds for Kind {
        const ALL: &'static [(Kind, &'static str, u32)] =
            &[(Kind::Write, "write", 3), (Kind::Log, "log", 2), (Kind::Reopen, "reopen", 1)];
    }

    #[test]
    fn weights_are_read_and_written() {
        let weights: Weights<Kind> = "write=0,log=100".parse().unwrap();
        assert_eq!(weights.to_string(), "write=0,log=100");
        assert_eq!(weights.to_string().parse(), Ok(weights));
        assert_eq!("".parse(), Ok(Weights::<Kind>::default()));
        assert!(matches!("write".parse::<Weights<Kind>>(), Err(WeightsError::Form(_))));
        assert!(matches!("write=-1".parse::<Weights<Kind>>(), Err(WeightsError::Form(_))));
        let unknown = "erase=1".parse::<Weights<Kind>>().unwrap_err().to_string();
        assert!(unknown.contains("no command named \"erase\"; use write, log, reopen"), "{unknown}");
        assert_eq!("write=0,log=0,reopen=0".parse::<Weights<Kind>>(), Err(WeightsError::AllZero));
    }

    #[test]
    fn what_has_no_weight_never_comes() {
        let weights: Weights<Kind> = "write=0,reopen=0".parse().unwrap();
        for index in 0..2000 {
            assert_eq!(weights.pick(&mut generator(&[7, index])), Kind::Log);
        }
    }
}
