//! Tests of the device by its public interface. They are one program, because a program for each file builds slowly.

mod batches;
mod batches_with_records;
mod capacity;
mod check;
mod collection;
mod counters;
mod damage;
mod damaged_images;
mod doubt;
mod ended_claims;
mod full_drive;
mod homes;
mod host;
mod inside;
mod key_value;
mod killed_process;
mod lifecycle;
mod many_logs;
mod media_faults;
mod media_host;
mod nvm;
mod queued_commands;
mod refusals;
mod small_drive;
mod transactions;
mod trim;
