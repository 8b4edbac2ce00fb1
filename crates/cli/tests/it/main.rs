//! Tests of the command. They are one program, because a program for each file builds slowly.

mod check_store;
mod command_line;
mod comparison;
mod crash;
mod damaged_images;
mod killed_process;
mod measure;
mod optional_parts;
mod program;
mod serve;
mod sweep;
mod watched_runs;
