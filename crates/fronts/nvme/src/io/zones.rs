//! Commands of the Zoned Namespace Command Set (ZNS 1.2, section 3): those on blocks, with the order in which zones are written, Zone
//! Append, Zone Management Send and Receive.

use tantalum::{Command, Nanoseconds, Status, UNIT_BYTES, ZoneAction, ZoneCondition, ZoneId, ZoneState};
use tantalum_drive::{DeviceGuard, When};
use zerocopy::{FromZeros, IntoBytes};

use super::part::Part;
use super::placed::Placed;
use super::transfer::{TRANSFER_BYTES, Transfer};
use super::work::{Force, Worked};
use super::{bit, blocks_of, deallocate, transferred};
use crate::blocks::Blocks;
use crate::failure::Failure;
use crate::mailbox::Answer;
use crate::namespaces::ZoneSpace;
use crate::wire::command::Submission;
use crate::wire::opcode::{nvm, zoned as opcode};
use crate::wire::zones::{
    NO_WRITE_POINTER, REPORT_ZONES, ReportHeader, SEQUENTIAL_WRITE_REQUIRED, ZoneDescriptor, action, state,
};

/// A command of a namespace with zones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ZoneCommand {
    /// Blocks of one zone are read.
    Read(Blocks),
    /// Compares blocks of one zone with what the host sends.
    Compare(Blocks),
    /// Reads blocks of one zone without returning them.
    Verify(Blocks),
    /// Blocks are written at the write pointer.
    Write(Blocks, Force),
    /// Zeros are written at the write pointer.
    WriteZeroes(Blocks, Force),
    /// So many blocks are written wherever the write pointer is.
    Append(ZoneId, u32, Force),
    /// Hints at the use of so many ranges. Nothing of a zone is deallocated before its reset.
    Deallocate(u32),
    /// Changes the state of a zone, or of all.
    Manage(Option<ZoneId>, ZoneAction),
    /// Takes a zone offline, or all: no zone here does that.
    Offline(Option<ZoneId>),
    /// Tells of zones.
    Report(Report),
}

/// Which zones are told of, and how.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Report {
    /// From this zone on.
    from: ZoneId,
    /// Only those in this state ([`state`]).
    state: Option<u8>,
    /// Whether only the zones are counted for which there is room.
    is_partial: bool,
    /// Bytes of the report.
    bytes: u32,
}

impl ZoneCommand {
    /// Reads a command's fields and checks them.
    pub fn decode(command: &Submission, zones: &ZoneSpace) -> Result<ZoneCommand, Failure> {
        let space = zones.space();
        let force = Force(command.bit(12, bit::FORCE));
        let one_zone = |blocks: Blocks| zones.check_one_zone(blocks).map(|()| blocks);
        match command.opcode {
            nvm::READ => Ok(ZoneCommand::Read(one_zone(transferred(command, &space)?)?)),
            nvm::COMPARE => Ok(ZoneCommand::Compare(one_zone(transferred(command, &space)?)?)),
            nvm::VERIFY => Ok(ZoneCommand::Verify(one_zone(blocks_of(command, &space)?)?)),
            nvm::WRITE => {
                check_no_directive(command, 0xf)?;
                Ok(ZoneCommand::Write(transferred(command, &space)?, force))
            }
            nvm::WRITE_ZEROES => {
                check_no_directive(command, 7)?;
                Ok(ZoneCommand::WriteZeroes(blocks_of(command, &space)?, force))
            }
            nvm::DATASET_MANAGEMENT => Ok(ZoneCommand::Deallocate((command.dword(10) & 0xff) + 1)),
            opcode::ZONE_APPEND => {
                check_no_directive(command, 0xf)?;
                let (zone, count) = (zones.beginning(command.first_block())?, blocks_counted(command));
                // `ZASL` is 0: appends have the limit of all commands
                let is_within = space.bytes(count) <= u64::from(TRANSFER_BYTES);
                if is_within {
                    Ok(ZoneCommand::Append(zone, count, force))
                } else {
                    Err(Failure::INVALID_FIELD)
                }
            }
            opcode::ZONE_MANAGEMENT_SEND => decode_send(command, zones),
            opcode::ZONE_MANAGEMENT_RECEIVE => Report::decode(command, zones).map(ZoneCommand::Report),
            _ => Err(Failure::INVALID_OPCODE),
        }
    }

    /// The data that it moves.
    pub fn transfer(&self) -> Transfer {
        let bytes = |count: u32| count * UNIT_BYTES as u32;
        match *self {
            ZoneCommand::Read(blocks) => Transfer::ToHost(bytes(blocks.count)),
            ZoneCommand::Compare(blocks) | ZoneCommand::Write(blocks, _) => {
                Transfer::FromHost(bytes(blocks.count))
            }
            ZoneCommand::Append(_, count, _) => Transfer::FromHost(bytes(count)),
            ZoneCommand::Deallocate(ranges) => Transfer::FromHost(ranges * deallocate::RANGE_BYTES),
            ZoneCommand::Report(report) => Transfer::ToHost(report.bytes),
            ZoneCommand::Verify(_)
            | ZoneCommand::WriteZeroes(..)
            | ZoneCommand::Manage(..)
            | ZoneCommand::Offline(_) => Transfer::None,
        }
    }

    /// Whether it changes what zones have, or their states.
    pub fn changes(&self) -> bool {
        match self {
            ZoneCommand::Write(..)
            | ZoneCommand::WriteZeroes(..)
            | ZoneCommand::Append(..)
            | ZoneCommand::Manage(..) => true,
            ZoneCommand::Read(_)
            | ZoneCommand::Compare(_)
            | ZoneCommand::Verify(_)
            | ZoneCommand::Deallocate(_)
            | ZoneCommand::Offline(_)
            | ZoneCommand::Report(_) => false,
        }
    }

    /// Executes it on the drive, with the data that came from the host. `force` says whether every write is on flash before it is done.
    pub fn work(self, part: Part<'_>, zones: &ZoneSpace, when: When, force: bool, data: Vec<u8>) -> Worked {
        let mut device = part.lock()?;
        let on = OnZones { device: &mut device, zones, when };
        match self {
            ZoneCommand::Read(blocks) => on.read(blocks, data),
            ZoneCommand::Compare(blocks) => on.compare(blocks, &data),
            ZoneCommand::Verify(blocks) => on.verify(blocks),
            ZoneCommand::Write(blocks, fua) => on.write(blocks, data, fua.0 || force),
            ZoneCommand::WriteZeroes(blocks, fua) => on.write_zeroes(blocks, fua.0 || force),
            ZoneCommand::Append(zone, _, fua) => on.append(zone, data, fua.0 || force),
            ZoneCommand::Deallocate(_) => {
                for (first, count) in deallocate::ranges_of(&data).ok_or(Failure::INVALID_FIELD)? {
                    zones.space().blocks(first, u32::try_from(count).map_err(|_| Failure::OUT_OF_RANGE)?)?;
                }
                Ok((Answer::spare(data), 0))
            }
            ZoneCommand::Manage(zone, action) => on.manage(zone, action),
            ZoneCommand::Offline(zone) => on.take_offline(zone),
            ZoneCommand::Report(report) => on.report(report),
        }
    }
}

/// The number of blocks in dword 12.
fn blocks_counted(command: &Submission) -> u32 {
    (command.dword(12) & 0xffff) + 1
}

/// Zones have no reclaim unit handles.
fn check_no_directive(command: &Submission, mask: u32) -> Result<(), Failure> {
    Placed::of(command, mask)?.within(&[]).map(drop)
}

/// Zone Management Send: the action is in bits 7:0 of dword 13, bit 8 selects all zones, bit 9 asks for a random write area, which no
/// zone has, and neither has one a descriptor extension.
fn decode_send(command: &Submission, zones: &ZoneSpace) -> Result<ZoneCommand, Failure> {
    let zone = match command.bit(13, 8) {
        true => None,
        false => Some(zones.beginning(command.first_block())?),
    };
    let manage = |action| Ok(ZoneCommand::Manage(zone, action));
    match command.dword(13) as u8 {
        action::OPEN if command.bit(13, 9) => Err(Failure::INVALID_FIELD),
        action::OPEN => manage(ZoneAction::Open),
        action::CLOSE => manage(ZoneAction::Close),
        action::FINISH => manage(ZoneAction::Finish),
        action::RESET => manage(ZoneAction::Reset),
        action::OFFLINE => Ok(ZoneCommand::Offline(zone)),
        _ => Err(Failure::INVALID_FIELD),
    }
}

impl Report {
    /// Zone Management Receive: what is told is in bits 7:0 of dword 13, of which zones in bits 15:8, bit 16 asks for a partial report.
    fn decode(command: &Submission, zones: &ZoneSpace) -> Result<Report, Failure> {
        let (from, _) = zones.zone(command.first_block())?;
        let bytes = (u64::from(command.dword(12)) + 1) * 4;
        if !(size_of::<ReportHeader>() as u64..=TRANSFER_BYTES.into()).contains(&bytes) {
            return Err(Failure::INVALID_FIELD);
        }
        // an extended report has descriptor extensions, which no zone has
        if command.dword(13) as u8 != REPORT_ZONES {
            return Err(Failure::INVALID_FIELD);
        }
        let state = match command.dword(13) >> 8 & 0xff {
            0 => None,
            1 => Some(state::EMPTY),
            2 => Some(state::IMPLICITLY_OPEN),
            3 => Some(state::EXPLICITLY_OPEN),
            4 => Some(state::CLOSED),
            5 => Some(state::FULL),
            6 => Some(state::READ_ONLY),
            7 => Some(state::OFFLINE),
            _ => return Err(Failure::INVALID_FIELD),
        };
        Ok(Report { from, state, is_partial: command.bit(13, 16), bytes: bytes as u32 })
    }

    /// The header, and the descriptors for which there is room.
    fn of(&self, zones: &ZoneSpace, states: &[ZoneState], is_read_only: bool) -> Vec<u8> {
        let room = (self.bytes as usize - size_of::<ReportHeader>()) / size_of::<ZoneDescriptor>();
        let told = states.iter().filter(|zone| zone.zone >= self.from);
        let told = told.map(|zone| descriptor(zones, zone, is_read_only));
        let matching = told.filter(|told| self.state.is_none_or(|state| told.state == state << 4));
        let (mut count, mut listed) = (0, Vec::new());
        for descriptor in matching {
            count += 1;
            if listed.len() < room {
                listed.push(descriptor);
            } else if self.is_partial {
                break;
            }
        }
        let mut header = ReportHeader::new_zeroed();
        header.zones = if self.is_partial { listed.len() as u64 } else { count }.into();
        let mut report = header.as_bytes().to_vec();
        report.extend(listed.as_bytes());
        report.resize(self.bytes as usize, 0);
        report
    }
}

/// A zone as a report has it. On a drive that accepts no writes all are read-only.
fn descriptor(zones: &ZoneSpace, zone: &ZoneState, is_read_only: bool) -> ZoneDescriptor {
    let state = match zone.condition {
        _ if is_read_only => state::READ_ONLY,
        ZoneCondition::Empty => state::EMPTY,
        ZoneCondition::ImplicitlyOpen => state::IMPLICITLY_OPEN,
        ZoneCondition::ExplicitlyOpen => state::EXPLICITLY_OPEN,
        ZoneCondition::Closed => state::CLOSED,
        ZoneCondition::Full => state::FULL,
        ZoneCondition::ReadOnly => state::READ_ONLY,
    };
    let has_pointer = !matches!(state, state::FULL | state::READ_ONLY);
    let mut told = ZoneDescriptor::new_zeroed();
    told.kind = SEQUENTIAL_WRITE_REQUIRED;
    told.state = state << 4;
    told.capacity = u64::from(zones.shape.capacity_units).into();
    told.first = zones.block(zone.zone, 0).into();
    let pointer = if has_pointer { zones.block(zone.zone, zone.written) } else { NO_WRITE_POINTER };
    told.pointer = pointer.into();
    told
}

/// The drive, locked for a command.
struct OnZones<'a, 'b> {
    device: &'a mut DeviceGuard<'b>,
    zones: &'a ZoneSpace,
    when: When,
}

impl OnZones<'_, '_> {
    fn issue(&mut self, command: Command<'_>) -> Result<Nanoseconds, Failure> {
        let issued = self.device.issue(command, self.when);
        issued.map(|completion| completion.done_ns).map_err(refusal)
    }

    fn read(mut self, blocks: Blocks, mut buffer: Vec<u8>) -> Worked {
        let (zone, offset) = self.zones.place(blocks.first);
        buffer.resize(blocks.count as usize * UNIT_BYTES, 0);
        let done_ns = self.issue(Command::ZoneRead { zone, offset, data: &mut buffer })?;
        Ok((Answer::data(buffer), done_ns))
    }

    fn compare(self, blocks: Blocks, data: &[u8]) -> Worked {
        let (answer, done_ns) = self.read(blocks, Vec::new())?;
        if answer.data == data { Ok((Answer::default(), done_ns)) } else { Err(Failure::COMPARE) }
    }

    fn verify(mut self, blocks: Blocks) -> Worked {
        let mut done_ns = 0;
        let mut data = vec![0; (blocks.count as usize * UNIT_BYTES).min(TRANSFER_BYTES as usize)];
        for piece in pieces(blocks) {
            let (zone, offset) = self.zones.place(piece.first);
            let data = &mut data[..piece.count as usize * UNIT_BYTES];
            done_ns = self.issue(Command::ZoneRead { zone, offset, data })?.max(done_ns);
        }
        Ok((Answer::default(), done_ns))
    }

    fn write(mut self, blocks: Blocks, data: Vec<u8>, fua: bool) -> Worked {
        let (zone, offset) = self.zones.place(blocks.first);
        let done_ns = self.issue(Command::ZoneWrite { zone, offset, data: &data, fua })?;
        Ok((Answer::spare(data), done_ns))
    }

    fn write_zeroes(mut self, blocks: Blocks, fua: bool) -> Worked {
        let (zone, offset) = self.zones.place(blocks.first);
        // of one that does not fit nothing is written
        let state = self.device.zones().get(zone.index()).copied().ok_or(Failure::POWER_LOSS)?;
        let is_full = state.condition == ZoneCondition::Full;
        if u64::from(offset) + u64::from(blocks.count) > u64::from(self.zones.shape.capacity_units) {
            return Err(if is_full { Failure::ZONE_FULL } else { Failure::ZONE_BOUNDARY });
        }
        let zeros = vec![0; (blocks.count as usize * UNIT_BYTES).min(TRANSFER_BYTES as usize)];
        let mut done_ns = 0;
        for piece in pieces(blocks) {
            let (zone, offset) = self.zones.place(piece.first);
            let data = &zeros[..piece.count as usize * UNIT_BYTES];
            done_ns = self.issue(Command::ZoneWrite { zone, offset, data, fua })?.max(done_ns);
        }
        Ok((Answer::default(), done_ns))
    }

    /// Dwords 0 and 1 of the completion are the first block that was written.
    fn append(mut self, zone: ZoneId, data: Vec<u8>, fua: bool) -> Worked {
        let mut offset = 0;
        let done_ns = self.issue(Command::ZoneAppend { zone, data: &data, fua, offset: &mut offset })?;
        Ok((Answer { result: self.zones.block(zone, offset), ..Answer::spare(data) }, done_ns))
    }

    fn manage(mut self, zone: Option<ZoneId>, action: ZoneAction) -> Worked {
        match self.issue(Command::ZoneManage { zone, action }) {
            Ok(done_ns) => Ok((Answer::default(), done_ns)),
            // no action applies to zones that are read-only
            Err(Failure::ZONE_READ_ONLY) if zone.is_none() => Ok((Answer::default(), 0)),
            Err(Failure::ZONE_READ_ONLY) => Err(Failure::ZONE_TRANSITION),
            Err(failure) => Err(failure),
        }
    }

    /// Only zones that are read-only could go offline, and here these are read, as long as the drive can.
    fn take_offline(self, zone: Option<ZoneId>) -> Worked {
        match zone {
            None if !is_read_only(self.device) => Ok((Answer::default(), 0)),
            _ => Err(Failure::ZONE_TRANSITION),
        }
    }

    fn report(self, report: Report) -> Worked {
        let states = self.device.zones();
        if states.is_empty() {
            return Err(Failure::POWER_LOSS);
        }
        Ok((Answer::data(report.of(self.zones, &states, is_read_only(self.device))), 0))
    }
}

/// Whether the drive refuses every change: it is worn out, or its host failed.
fn is_read_only(device: &DeviceGuard<'_>) -> bool {
    device.is_read_only() || device.refuses_changes().is_some()
}

/// What a host is told of a refusal: if the drive accepts no writes, so do its zones not.
fn refusal(status: Status) -> Failure {
    match Failure::from(status) {
        Failure::WRITE_PROTECTED => Failure::ZONE_READ_ONLY,
        failure => failure,
    }
}

/// Pieces of as many blocks as a command moves.
fn pieces(blocks: Blocks) -> impl Iterator<Item = Blocks> {
    let most = TRANSFER_BYTES / UNIT_BYTES as u32;
    (0..blocks.count).step_by(most as usize).map(move |skipped| Blocks {
        first: blocks.first + u64::from(skipped),
        count: most.min(blocks.count - skipped),
    })
}
