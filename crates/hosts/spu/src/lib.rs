//! Programs inside the drive (Willow; Jin's thesis, chapter 5).
//!
//! A drive has storage processors, each with its own instruction and data memory and a share of the drive's stripes. Ordinary
//! users install programs: handlers for requests from the host's endpoints and from other processors. They run close to the
//! data, and cannot harm other users' data. `docs/programs.md` is for authors of programs.
//!
//! - [`Ssd`] is a drive with its processors in virtual time: endpoints, requests, answers and events.
//! - Programs are WebAssembly, run by an interpreter that counts instructions, so time is the same on every machine.
//! - Programs use the drive below as a client inside it: its cache, its FTL and its promises, without the link.
//!
//! | file | holds |
//! |---|---|
//! | `system.rs` | the drive with its processors |
//! | `events.rs`, `agenda.rs` | the host's requests, and the order of events |
//! | `network.rs`, `packet.rs`, `wire.rs` | ring and link, and the packets on them |
//! | `arrivals.rs` | what happens when a packet arrives |
//! | `schedule.rs`, `step.rs` | which handler a processor works on; how its run ended |
//! | `perform.rs`, `done.rs` | what the system does for a handler, and the result: `nvm.rs`, `records.rs`, `sending.rs` |
//! | `rights.rs` | all checks of what a handler may access |
//! | `install.rs`, `program.rs`, `output.rs` | installing and ending programs; an installed program; its serial ports and counters |
//! | `module.rs`, `instance.rs`, `abi/` | checking a module, its copies, its functions |
//! | `describe.rs`, `functions.rs` | describing a module; the names of its functions |
//! | `marks.rs` | noting which function runs |
//! | `fault.rs` | why a program was ended |
//! | `native.rs` | a handler in Rust, to measure what the runtime costs |
//! | `permission.rs`, `stripes.rs`, `stage.rs` | permissions; owners of stripes; stores that take effect together |
//! | `backing.rs`, `memory/` | what holds their non-volatile memory: flash, or memory of the processors' own |
//! | `host.rs`, `blocking_calls.rs`, `grants.rs`, `driver.rs` | endpoints, events, the driver's book; blocking calls; rights; the driver's decisions |
//! | `block_client.rs`, `base_io_way.rs`, `atomic_writes.rs` | host libraries of shipped programs |
//! | `shared_ssd.rs` | a drive whose clients are on several threads, in real time or virtual time |
//!
//! # Example
//!
//! ```
//! use tantalum::{Device, Profile};
//! use tantalum_drive::Drive;
//! use tantalum_spu::{Event, InstallOptions, SpuId, Ssd, shipped};
//!
//! let profile = Profile { capacity_bytes: 64 << 20, ..Profile::load("tlc-nvme")? };
//! let mut ssd = Ssd::new(Drive::new(Device::in_memory(&profile)?));
//! let process = ssd.process();
//! let endpoint = ssd.endpoint(process)?;
//! let hits = ssd.install(process, shipped::HITS, InstallOptions::default())?;
//! for count in 1..=3 {
//!     let body = 7_u32.to_le_bytes().to_vec();
//!     ssd.send(endpoint, SpuId(3), (hits, 0), body, ssd.now_ns())?;
//!     assert!(matches!(ssd.next_event(), Some(Event::Answer { status, .. }) if status == count));
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod abi;
mod activation;
mod agenda;
pub mod answer;
mod arrivals;
pub mod atomic_writes;
mod backing;
mod base_io_way;
mod block_client;
mod blocking_calls;
mod describe;
mod done;
mod driver;
mod error;
mod events;
mod fault;
mod functions;
mod grants;
mod host;
mod install;
mod instance;
mod marks;
mod memory;
mod message;
mod module;
mod names;
mod native;
mod network;
mod nvm;
mod output;
mod packet;
mod perform;
mod permission;
mod program;
mod records;
mod rights;
mod schedule;
mod sending;
pub mod shared_ssd;
pub mod shipped;
mod stage;
mod step;
mod stripes;
mod system;
mod wire;

pub use abi::COUNTERS;
pub use base_io_way::BaseIoWay;
pub use block_client::{BlockClient, IoError};
pub use describe::{Description, Handler, describe};
pub use error::SpuError;
pub use fault::Fault;
pub use functions::Function;
pub use host::{ENDPOINT_QUEUE, ENDPOINT_QUEUE_BYTES, Event};
pub use install::{InstallError, InstallOptions, PROGRAMS};
pub use instance::THREADS;
pub use memory::MemoryCounters;
pub use message::BODY_BYTES;
pub use module::ModuleError;
pub use names::{EndpointId, ProcessId, ProgramId, SpuId};
pub use native::NativeHandler;
pub use output::Output;
pub use permission::Rights;
pub use stage::STAGE_UNITS;
pub use stripes::{STRIPE_BYTES, Stripes};
pub use system::{Ssd, WAIT_NS};
