//! Vendor-specific NVMe commands about programs in the drive: [`DrivePrograms`] executes them for a
//! [`tantalum_nvme::subsystem::Subsystem`]. docs/nvme.md has their fields, and [`wire`] their data.

mod commands;
mod endpoints;
pub mod wire;

pub use endpoints::{DrivePrograms, ENDPOINTS};
