//! Tests of the server by its public interface. They are one program, because a program for each file builds slowly.

mod attach;
mod authentication;
mod bench;
mod beyond_blocks;
mod broken_network;
mod clients;
#[path = "../common/mod.rs"]
mod common;
mod copies;
mod events;
mod fused;
#[path = "../fuzzed/mod.rs"]
mod fuzzed;
mod history;
mod host_failures;
mod hostile;
mod mixed_commands;
mod namespace_failures;
mod namespaces;
mod placement;
mod ports;
mod power_cuts;
mod programs;
mod recording;
mod reservations;
mod sessions;
mod several_hosts;
mod standard;
mod stops;
mod tap;
#[cfg(feature = "tls")]
mod tls;
mod unreadable_blocks;
mod vendor_commands;
mod zone_cuts;
mod zones;
