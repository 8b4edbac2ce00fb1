//! Threads on one store with an ordered namespace: what each is to do follows from a seed, what it saw is written down,
//! and checked against a map in memory, in the order in which the transactions held all their locks.

#![allow(dead_code, reason = "each test uses a part of it")]

pub mod check;
pub mod plan;
pub mod run;
pub mod shrink;
