//! The marks that the members of an atomic batch carry in their spare areas.

use crate::spare::BatchMark;
use crate::types::Seq;

/// The marks of a batch's members of one kind.
#[derive(Clone, Copy)]
pub(crate) struct Marks {
    pub id: Seq,
    /// The number of the first member of that kind.
    pub first: u32,
    /// Members of the batch.
    pub count: u32,
    /// Whether members carry marks at all.
    pub are_needed: bool,
}

impl Marks {
    /// The mark of one of them.
    pub fn of(&self, index: usize) -> Option<BatchMark> {
        let Marks { id, first, count, are_needed } = *self;
        are_needed.then_some(BatchMark { id, index: first + index as u32, count })
    }
}
