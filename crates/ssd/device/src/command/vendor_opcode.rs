//! Opcodes of NVMe's I/O commands for vendors, from 80h. The two lowest bits give the direction of data: 00b none, 01b to the
//! drive, 10b to the host.

/// `Remap`.
pub const REMAP: u8 = 0x80;
/// `Share`.
pub const SHARE: u8 = 0x81;
/// `Begin`.
pub const BEGIN: u8 = 0x84;
/// `WriteAtomic`.
pub const WRITE_ATOMIC: u8 = 0x85;
/// `Commit`.
pub const COMMIT: u8 = 0x88;
/// `TxWrite`.
pub const TX_WRITE: u8 = 0x89;
/// `TxRead`.
pub const TX_READ: u8 = 0x8a;
/// `Abort`.
pub const ABORT: u8 = 0x8c;
/// `BeginLog`.
pub const BEGIN_LOG: u8 = 0x90;
/// `WriteHinted`.
pub const WRITE_HINTED: u8 = 0x91;
/// `KvPut`, on a key-value namespace.
pub const PUT: u8 = 0xa1;
/// `WriteBatch`.
pub const WRITE_BATCH: u8 = 0xa5;
