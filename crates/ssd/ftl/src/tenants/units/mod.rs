//! Units of the block namespace: what hosts read and write by logical page number.

mod fold;
mod kept;
pub(crate) mod state;
mod tenant;

pub(crate) use kept::OWNER_BYTES;
#[cfg(test)]
pub(crate) use kept::{KeptChunks, UnitsKept};
pub(crate) use tenant::Units;
