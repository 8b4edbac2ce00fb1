//! The weight of what each place has, counted while recovery builds the indexes.
//!
//! Entries are in the order of their hashes, so that each names a place at random. A byte for each place keeps many of
//! them in the processor's caches, and as nothing waits for a sum, its misses overlap with whatever is done with entries.

use tantalum_nand::{Array, Ppn};

use super::record::{RecordPlace, weight};
use crate::error::Damage;
use crate::key::NamespaceId;
use crate::map::MOST_WEIGHT;

const _: () = assert!(MOST_WEIGHT <= u8::MAX as u32, "a weight fits in a byte");

/// The weights of a medium's places.
pub(super) struct Weights {
    units: u32,
    /// Empty until something is counted.
    of_places: Array<u8>,
    /// A place that the medium does not have, or that has more than it can.
    damage: Option<Damage>,
}

impl Weights {
    /// Nothing, on a medium of this many units.
    pub fn new(units: u32) -> Weights {
        Weights { units, of_places: Array::default(), damage: None }
    }

    /// Those of records at these places.
    pub fn of(places: impl Iterator<Item = (NamespaceId, RecordPlace)>, units: u32) -> Weights {
        let mut weights = Weights::new(units);
        places.for_each(|(namespace, place)| weights.add(namespace, place));
        weights
    }

    /// A record came to be at a place.
    #[inline]
    pub fn add(&mut self, namespace: NamespaceId, RecordPlace { ppn, chunks, .. }: RecordPlace) {
        if self.of_places.is_empty() {
            self.of_places = Array::to_fill(self.units as usize);
        }
        let Some(sum) = self.of_places.get_mut(ppn.index()) else {
            self.damage = Some(Damage::RecordPlace { namespace, ppn });
            return;
        };
        match u32::from(*sum) + weight(chunks) {
            new if new <= MOST_WEIGHT => *sum = new as u8,
            _ => self.damage = Some(Damage::RecordsTooMany { namespace, ppn }),
        }
    }

    /// One that was counted is no longer there.
    #[inline]
    pub fn remove(&mut self, RecordPlace { ppn, chunks, .. }: RecordPlace) {
        self.of_places[ppn.index()] -= weight(chunks) as u8;
    }

    /// What was counted, if all of it is possible.
    pub fn checked(self) -> Result<Weights, Damage> {
        match self.damage {
            Some(damage) => Err(damage),
            None => Ok(self),
        }
    }

    /// The places with records, and the weight of these.
    pub fn iter(&self) -> impl Iterator<Item = (Ppn, u32)> + '_ {
        let of_places = (0..).map(Ppn).zip(self.of_places.iter().map(|weight| u32::from(*weight)));
        of_places.filter(|(_, weight)| *weight > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(ppn: u32, chunks: u8) -> (NamespaceId, RecordPlace) {
        (NamespaceId(u32::from(chunks)), RecordPlace { ppn: Ppn(ppn), chunk: 0, chunks })
    }

    #[test]
    fn places_weigh_what_their_records_do_until_these_are_gone() {
        let mut weights = Weights::of([place(3, 1), place(1, 33), place(3, 2)].into_iter(), 4);
        assert!(weights.iter().eq([(Ppn(1), 64), (Ppn(3), 3)]));
        weights.remove(place(1, 33).1);
        weights.remove(place(3, 1).1);
        assert!(weights.iter().eq([(Ppn(3), 2)]));
        assert!(weights.checked().is_ok());
        assert_eq!(Weights::of(std::iter::empty(), u32::MAX).iter().count(), 0);
    }

    /// The heaviest unit that a drive fills has a record of 33 chunks, one of 22 and three of 3.
    #[test]
    fn what_no_place_can_have_is_damage() {
        let full = [33, 22, 3, 3, 3].map(|chunks| place(0, chunks));
        assert!(Weights::of(full.into_iter(), 1).iter().eq([(Ppn(0), 108)]));
        let damage = |places: &[(NamespaceId, RecordPlace)]| {
            Weights::of(places.iter().copied(), 1).checked().err().map(|damage| damage.to_string())
        };
        assert_eq!(damage(&full), None);
        let beyond = damage(&[place(0, 1), place(1, 2)]).unwrap();
        assert!(beyond.contains("namespace 2") && beyond.contains("place 1"), "{beyond}");
        let too_many = damage(&[place(0, 33); 2]).unwrap();
        assert!(too_many.contains("namespace 33") && too_many.contains("more than fit"), "{too_many}");
    }
}
