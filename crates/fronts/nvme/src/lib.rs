//! A drive as an NVMe over TCP subsystem: what `nvme connect` attaches to.
//!
//! Invariants:
//!
//! - **No completion leaves before what it promises holds.** Answers of the drive go out when they are due; if power fails
//!   before that, the answer is an error, and every connection ends.
//! - **A command is checked as a whole before it moves data or changes anything.** What is not supported is refused with the
//!   standard's status, never ignored.
//! - **Nothing a host sends harms another one**, unless it may do that: a host may delete and format namespaces. A connection has a thread, a bounded budget of memory and a bounded number
//!   of commands. Any misbehaviour leads to an error for its command or to the end of its own connection.
//! - **A broken connection leaves whole units.** The data of a command are given to the drive when all of them have
//!   arrived.
//!
//! A [`session::Session`] is the protocol of one connection, without sockets: bytes go in, bytes come out. [`server::Server`]
//! gives it a socket and a thread. [`wire`] has what goes over the wire.

pub mod addresses;
pub mod admin;
pub mod authentication;
pub mod bench;
pub mod blocks;
pub mod budget;
pub mod client;
pub mod controller;
pub mod errors;
pub mod events;
pub mod failure;
pub mod history;
pub mod identity;
pub mod io;
pub mod limits;
pub mod mailbox;
pub mod namespaces;
pub mod outbox;
pub mod ports;
pub mod programs;
pub mod qualified_name;
mod recording;
pub mod reservations;
pub mod serve;
pub mod server;
pub mod session;
pub mod subsystem;
pub mod tap;
pub mod wire;
