//! Tests of the volume by its public interface. They are one program, because a program for each file builds slowly.

mod common;
mod costs;
mod crashes;
mod duplicates;
mod every_command_fails;
mod failing_steps;
mod files;
mod fragments;
mod later;
mod mounting;
mod oracle;
mod ranges;
mod transactions;
mod tree;
mod tree_oracle;
mod whole_writes;
