//! What the drive, and those in front of it, know about each command: one row each.
//!
//! A variant of [`AnyCommand`] without a row does not compile.

use super::AnyCommand;
use super::data::Data;
use super::vendor_opcode as opcode;
use crate::latency::Kind;

/// What a command does to the contents of the drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// It only reads.
    Reads,
    /// It prepares changes. A read-only drive refuses it.
    Prepares,
    /// It changes what units or records read as. A read-only drive refuses it.
    Changes,
    /// It ends what was begun. A read-only drive takes it, so that this can be ended.
    Ends,
}

/// Firmware's work for a command besides decoding it; a profile gives the times.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    /// None.
    Nothing,
    /// It locks a range of units: `firmware.range_ns`.
    Range,
    /// It looks up a record: `firmware.record_ns`.
    Record,
    /// The same for each record that it puts, and `firmware.insert_ns` if a key is new.
    Puts,
}

/// What is known about a command, whatever its operands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CommandInfo {
    /// The variant's name.
    pub name: &'static str,
    /// The histogram that its latency counts in.
    pub kind: Kind,
    /// What it does to the contents.
    pub effect: Effect,
    /// Firmware's work for it.
    pub work: Work,
    /// Its NVMe opcode, if it has one of those for vendors.
    pub vendor_opcode: Option<u8>,
}

macro_rules! commands {
    ($($variant:ident $kind:ident $effect:ident $work:ident $opcode:expr;)*) => {
        /// All commands, in the order of [`AnyCommand`]'s variants.
        pub static COMMANDS: [CommandInfo; [$(Row::$variant),*].len()] = [$(
            CommandInfo {
                name: stringify!($variant),
                kind: Kind::$kind,
                effect: Effect::$effect,
                work: Work::$work,
                vendor_opcode: $opcode,
            },
        )*];

        /// The rows of [`COMMANDS`].
        enum Row {
            $($variant,)*
        }

        impl<D: Data> AnyCommand<D> {
            /// What is known about it, whatever its operands.
            #[inline]
            pub fn info(&self) -> &'static CommandInfo {
                &COMMANDS[match self {
                    $(AnyCommand::$variant { .. } => Row::$variant as usize,)*
                }]
            }
        }
    };
}

commands! {
    // command         latency  effect    work     vendor opcode
    Read               Read     Reads     Range    None;
    ReadLater          Read     Reads     Range    None;
    ReadWithMetadata   Read     Reads     Range    None;
    Write              Write    Changes   Range    None;
    WriteFilled        Write    Changes   Range    None;
    WriteWithMetadata  Write    Changes   Range    None;
    WriteZeroes        Map      Changes   Nothing  None;
    Flush              Flush    Ends      Nothing  None;
    Trim               Map      Changes   Nothing  None;
    Share              Map      Changes   Nothing  Some(opcode::SHARE);
    Remap              Map      Changes   Nothing  Some(opcode::REMAP);
    WriteAtomic        Map      Changes   Nothing  Some(opcode::WRITE_ATOMIC);
    WriteBatch         Map      Changes   Puts     Some(opcode::WRITE_BATCH);
    Begin              Map      Prepares  Nothing  Some(opcode::BEGIN);
    TxWrite            Write    Changes   Range    Some(opcode::TX_WRITE);
    TxRead             Read     Reads     Range    Some(opcode::TX_READ);
    Commit             Map      Changes   Nothing  Some(opcode::COMMIT);
    Abort              Map      Ends      Nothing  Some(opcode::ABORT);
    BeginLog           Map      Prepares  Nothing  Some(opcode::BEGIN_LOG);
    WriteHinted        Write    Changes   Range    Some(opcode::WRITE_HINTED);
    FsWrite            Write    Changes   Range    None;
    ReadFileList       Read     Reads     Range    None;
    ListFiles          Read     Reads     Range    None;
    ClearFileLists     Map      Ends      Nothing  None;
    CreateNamespace    Map      Changes   Nothing  None;
    DeleteNamespace    Map      Changes   Nothing  None;
    KvPut              Put      Changes   Puts     Some(opcode::PUT);
    KvGet              Get      Reads     Record   None;
    KvExists           Get      Reads     Record   None;
    KvDelete           Put      Changes   Record   None;
    KvList             Get      Reads     Nothing  None;
    ZoneRead           Read     Reads     Range    None;
    ZoneWrite          Write    Changes   Range    None;
    ZoneAppend         Write    Changes   Range    None;
    ZoneManage         Map      Changes   Nothing  None;
}
