//! Tantalum for C: the key-value store, the document store, and drives with programs. `include/tantalum.h` is generated from this crate.
//!
//! Every function checks its pointers, catches panics, and returns a `TANTALUM_` number; `tantalum_last_error` returns
//! the error text of the calling thread.

pub mod call;
pub mod documents;
pub mod programs;
pub mod scans;
pub mod snapshots;
pub mod store;
