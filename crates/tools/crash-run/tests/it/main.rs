//! Tests of `tantalum crash run` and `crash blocks` by the public interface. They are one program, because a program for each file builds
//! slowly.

mod adversary;
mod blocks;
mod common;
mod findings;
mod programs;
