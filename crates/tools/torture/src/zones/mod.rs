//! `tantalum crash zones`: power is cut while a host fills, finishes and resets zones, and what is left of each is compared with what was
//! promised: the write pointer is not before what was durable, what is before it is what was written there, in order, and nothing of
//! before an acknowledged reset comes back.
//!
//! Beside the zones the host overwrites units, so that garbage is collected and blocks pass from one side to the other. Turn `i` of a
//! seed depends only on the seed and on `i`, so turns can be left out to minimise a failure.

mod case;
mod drive;
mod kinds;
mod oracle;
mod run;

pub use case::{Plan, Settings, ZonesCrash, torture};
pub use drive::ZoneDrives;
pub use kinds::{Kind, Weights};
