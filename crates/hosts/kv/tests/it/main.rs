//! Tests of the store by its public interface. They are one program, because a program for each file builds slowly.

mod backup;
#[path = "../concurrent/mod.rs"]
mod concurrent;
mod concurrent_torture;
mod damage;
mod documentation;
mod every_command_fails;
mod full_host;
mod full_store;
mod history;
mod killed_process;
mod large_transactions;
mod large_values;
#[cfg(target_os = "linux")]
mod lost_machine;
mod ordered;
mod read_only;
mod serializability;
mod snapshots;
mod space;
mod store;
mod transfers;
