//! One drive and the clients that share it.
//!
//! - A [`Drive`] is a device under a mutex. It issues commands at their clients' times, which together never go back, and
//!   tells everybody when power goes.
//! - A [`Client`] is one that waits for each command: it has a clock, in virtual time or the machine's. Volumes are such.
//! - A [`Queue`] takes commands with their data, and hands each answer out when it is due. Servers are such.
//! - [`Answers`] are what waits for its time: what a queue answers, or what a client has to say to somebody.
//! - [`control`] answers who asks after a drive that is in use, and [`report`] is what a drive tells about itself.
//!
//! No kind of client is known here: a volume, a server or a program in the drive are all built on these.

mod answers;
mod client;
mod clock;
pub mod control;
mod drive;
mod queue;
pub mod report;
mod request;

pub use answers::{Answers, Delivery, Pacing, Ticket, UnknownPacing};
pub use client::Client;
pub use clock::Clock;
pub use drive::{Drive, Locked, When};
pub use queue::Queue;
pub use request::{Reply, Request};
