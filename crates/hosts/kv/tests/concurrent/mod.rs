//! Threads on one store with an ordered namespace: a seed determines what each does; what it saw is recorded, and
//! checked against a map in memory, in the order in which the transactions held all their locks.

#![allow(dead_code, reason = "each test uses a part of it")]

pub mod check;
pub mod plan;
pub mod run;
pub mod shrink;
