//! Programs in the drive: a drive with its storage processors in this process, in virtual time. `docs/programs.md` explains
//! programs. Programs in the drive of `tantalum serve` are reached by `crates/fronts/nvme/clients/tantalum_programs.h`.
//!
//! Threads can share a drive. Everything happens in virtual time, while a function waits, so results and times are the same
//! in every run.

pub mod data;
pub mod drive;
pub mod events;
pub mod install;
pub mod processes;
mod refusal;
pub mod requests;
