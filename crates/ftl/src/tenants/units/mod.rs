mod fold;

pub(crate) use fold::{Fold, Folded};
