//! Tests of programs in the drive. They are one program, because a program for each file builds slowly.

mod atomic_writes;
mod block_io;
mod close_to_the_data;
mod common;
mod direct_files;
mod faults;
mod hostile;
mod hostile_modules;
mod io_power;
mod native;
mod protection;
mod rust_program;
mod sqlite;
mod stack;
mod traps;
mod tutorial;
