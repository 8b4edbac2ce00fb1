//! Tests of `tantalum crash run` by the public interface. They are one program, because a program for each file builds slowly.

mod adversary;
mod common;
mod findings;
mod programs;
