//! Tests of the file systems by their public interface. They are one program, because a program for each file builds
//! slowly.

#[path = "../common/mod.rs"]
mod common;
mod costs;
mod cuts;
mod damage;
mod failing_commands;
mod files;
mod folders;
mod holes;
mod host_faults;
mod in_place;
mod lists;
mod oracle;
mod sparse;
mod unreadable;
