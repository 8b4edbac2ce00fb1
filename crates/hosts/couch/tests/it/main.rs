//! Tests of the store by its public interface. They are one program, because a program for each file builds slowly.

mod every_command_fails;
mod faults;
mod model;
mod store;
