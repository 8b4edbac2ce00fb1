//! One drive and the clients that share it.
//!
//! - A [`Drive`] is a device under a mutex, and a clone of it is the same drive. [`Drive::lock`] gives a [`DeviceGuard`]: it
//!   issues commands at their clients' times, in an order in which time never goes back, and tells everybody when power
//!   fails.
//! - A [`Client`] waits for each command. It has a clock, in virtual time or the machine's. Volumes are such clients.
//!   Some of its commands may go another [`CommandRoute`], through a program in the drive.
//! - A [`Queue`] takes commands with their data, and delivers each answer when it is due. Servers use queues.
//! - A [`Transfer`] is a read or a write among several that are issued together.
//! - A [`Fence`] keeps out commands whose part of the drive has changed hands since they were checked.
//! - Writes that repeat a recent one become shares, if [`Drive::set_remap_duplicates`] says so: below every client.
//! - [`Answers`] are answers that are not due yet: those of a queue, or those that a client gives to others.
//! - A [`WeakDrive`] is for looking at a drive without keeping it alive; `tantalum-control` does that.
//!
//! This crate knows no kind of client: a volume, a server or a program in the drive can all be built on it.

mod answers;
#[cfg(feature = "canaries")]
pub mod canaries;
mod client;
mod clock;
mod drive;
mod duplicates;
mod fence;
mod guard;
mod issue;
mod made;
mod pacing;
mod perform;
mod queue;
mod recent_writes;
mod remapping;
mod route;
mod transfer;
mod when;

pub use answers::{Answers, Delivery, Ticket};
pub use client::Client;
pub use clock::Clock;
pub use drive::Drive;
pub use duplicates::DuplicateCounts;
pub use fence::{Fence, Fences};
pub use guard::{DeviceGuard, WeakDrive};
pub use made::{NewDrives, new_drives};
pub use pacing::{Pacing, UnknownPacing};
pub use queue::Queue;
pub use route::{CommandRoute, Issued};
pub use tantalum::{InReply, Output, OwnedRecord, Reply, Request, Units};
pub use transfer::Transfer;
pub use when::When;
