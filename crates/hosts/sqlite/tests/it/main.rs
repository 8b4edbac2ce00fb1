//! Tests of the VFS by its public interface. They are one program, because a program for each file builds slowly.

#[path = "../common/mod.rs"]
mod common;
mod connections;
mod economy;
mod every_command_fails;
mod modes;
mod power_cut;
