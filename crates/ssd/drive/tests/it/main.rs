//! Tests of drives by their public interface. They are one program, because a program for each file builds slowly.

mod common;
mod duplicates;
mod duplicates_under_cuts;
mod several_clients;
mod transfers;
