//! Tests of the tortures by their public interface. They are one program, because a program for each file builds slowly.

mod crash_clients;
mod crash_couch;
mod crash_kv;
mod crash_sqlite;
mod crash_zones;
mod power_loss;
