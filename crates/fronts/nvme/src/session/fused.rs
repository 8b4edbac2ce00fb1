//! Fused commands (Base, section 3.4.2): a Compare and a Write of the same blocks that follow each other in the queue and are executed as
//! one, while nobody else has the drive.
//!
//! A half waits for the other one, and both for their data. Whatever ends one of them ends the other as well; one whose data are still
//! coming ends when they have come.

use super::Session;
use super::receiver::Capsule;
use super::request::{Request, Work};
use crate::blocks::Blocks;
use crate::failure::Failure;
use crate::io::{Force, IoCommand, Placed};
use crate::mailbox::Answer;
use crate::namespaces::Target;
use crate::wire::command::Submission;

/// Which half of a pair a command is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Half {
    /// The Compare.
    First,
    /// The Write that follows it.
    Second,
}

impl Half {
    /// Bits 1:0 of the flags.
    pub fn of(command: &Submission) -> Result<Option<Half>, Failure> {
        match command.flags & 3 {
            0 => Ok(None),
            1 => Ok(Some(Half::First)),
            2 => Ok(Some(Half::Second)),
            _ => Err(Failure::INVALID_FIELD),
        }
    }
}

/// A half that is under way.
#[derive(Debug)]
struct Waiting {
    id: u16,
    target: Target,
    blocks: Blocks,
    force: Force,
    placed: Placed,
    /// Its data, once they have come.
    data: Option<Vec<u8>>,
}

/// A first half whose second one comes next, if at all.
#[derive(Debug)]
enum Open {
    /// It is under way.
    Waits(Waiting),
    /// It has failed.
    Failed,
}

#[derive(Debug)]
struct Pair {
    first: Waiting,
    second: Waiting,
    is_in_drive: bool,
}

/// The pairs of a connection.
#[derive(Debug, Default)]
pub struct Fused {
    open: Option<Open>,
    pairs: Vec<Pair>,
    /// Halves that fail when their data have come, and how.
    doomed: Vec<(u16, Failure)>,
}

impl Waiting {
    fn of(request: &Request) -> Option<Waiting> {
        let Work::Io(target, io) = request.work else { return None };
        let (blocks, force, placed) = match io {
            IoCommand::Compare(blocks) => (blocks, Force(false), Placed::default()),
            IoCommand::Write(blocks, force, placed) => (blocks, force, placed),
            _ => return None,
        };
        Some(Waiting { id: request.id(), target, blocks, force, placed, data: None })
    }
}

impl Fused {
    /// The next command is no second half. Returns the first one that was left alone.
    fn leave_open(&mut self) -> Option<Waiting> {
        match self.open.take() {
            Some(Open::Waits(first)) => Some(first),
            Some(Open::Failed) | None => None,
        }
    }

    /// A command has failed. Returns the other half of its pair, if it is one that has not reached the drive.
    fn fail(&mut self, id: u16) -> Option<Waiting> {
        if self.open.as_ref().is_some_and(|open| matches!(open, Open::Waits(first) if first.id == id)) {
            self.open = Some(Open::Failed);
            return None;
        }
        let is_its = |pair: &Pair| !pair.is_in_drive && (pair.first.id == id || pair.second.id == id);
        let at = self.pairs.iter().position(is_its)?;
        let Pair { first, second, .. } = self.pairs.swap_remove(at);
        Some(if first.id == id { second } else { first })
    }

    /// The data of a half have come. Returns how it ends, if it does.
    fn take(&mut self, id: u16, target: Target, data: Vec<u8>) -> Option<Failure> {
        if let Some(at) = self.doomed.iter().position(|(doomed, _)| *doomed == id) {
            return Some(self.doomed.swap_remove(at).1);
        }
        let open = self.open.iter_mut().filter_map(|open| match open {
            Open::Waits(first) => Some(first),
            Open::Failed => None,
        });
        let halves = self.pairs.iter_mut().flat_map(|pair| [&mut pair.first, &mut pair.second]);
        let half = open.chain(halves).find(|half| half.id == id);
        let half = half.expect("a half is open or one of a pair, until it fails");
        (half.target, half.data) = (target, Some(data));
        None
    }

    /// A pair all of whose data have come: what the drive is to do, under the identifier of its second half.
    fn next_whole(&mut self) -> Option<(u16, Target, IoCommand, Vec<u8>)> {
        let is_whole = |pair: &&mut Pair| pair.first.data.is_some() && pair.second.data.is_some();
        let Pair { first, second, is_in_drive } = self.pairs.iter_mut().find(is_whole)?;
        *is_in_drive = true;
        let data = [first.data.take()?, second.data.take()?].concat();
        let command = IoCommand::CompareAndWrite(second.blocks, second.force, second.placed);
        Some((second.id, second.target, command, data))
    }

    /// The drive is done with a command. Returns the first half, if it is the second one of a pair.
    fn end(&mut self, id: u16) -> Option<u16> {
        let at = self.pairs.iter().position(|pair| pair.second.id == id)?;
        Some(self.pairs.swap_remove(at).first.id)
    }

    /// Whether a half waits only for the other one.
    pub fn waits(&self, id: u16) -> bool {
        let is_in_drive = self.pairs.iter().any(|pair| pair.is_in_drive && pair.first.id == id);
        !is_in_drive && self.commands().any(|there| there == id)
    }

    /// Halves that wait here: those whose data have come, and the first ones of pairs in the drive.
    pub fn commands(&self) -> impl Iterator<Item = u16> {
        let open = self.open.iter().filter_map(|open| match open {
            Open::Waits(first) if first.data.is_some() => Some(first.id),
            _ => None,
        });
        let halves = self.pairs.iter().flat_map(|pair| {
            let waits = |half: &Waiting| half.data.is_some();
            let first = Some(pair.first.id).filter(|_| pair.is_in_drive || waits(&pair.first));
            let second = Some(pair.second.id).filter(|_| waits(&pair.second));
            [first, second].into_iter().flatten()
        });
        open.chain(halves)
    }
}

impl Session {
    /// A command comes that is no second half of a pair: an open one has no second half.
    pub(super) fn end_open_pair(&mut self) {
        if let Some(first) = self.fused.leave_open() {
            self.doom(first, Failure::FUSED_MISSING);
        }
    }

    /// Takes a first half.
    pub(super) fn take_first(&mut self, capsule: Capsule) {
        let first = self.check(&capsule).and_then(|checked| {
            let waiting = Waiting::of(&checked.0).filter(|_| checked.0.is_compare());
            let waiting = waiting.ok_or(Failure::INVALID_FIELD)?;
            self.check_fused_size(&waiting)?;
            Ok((checked, waiting))
        });
        match first {
            Ok((checked, waiting)) => {
                self.fused.open = Some(Open::Waits(waiting));
                self.begin(checked, capsule);
            }
            Err(failure) => {
                self.fused.open = Some(Open::Failed);
                self.refuse(&capsule.command, failure);
            }
        }
    }

    /// Takes a second half.
    pub(super) fn take_second(&mut self, capsule: Capsule) {
        let first = match self.fused.open.take() {
            None => return self.refuse(&capsule.command, Failure::FUSED_MISSING),
            Some(Open::Failed) => return self.refuse(&capsule.command, Failure::FUSED_FAILED),
            Some(Open::Waits(first)) => first,
        };
        let second = self.check(&capsule).and_then(|checked| {
            let waiting = Waiting::of(&checked.0).filter(|_| !checked.0.is_compare());
            Ok((checked, waiting.ok_or(Failure::INVALID_FIELD)?))
        });
        match second {
            Ok((checked, second))
                if first.target.is_same(&second.target) && first.blocks == second.blocks =>
            {
                self.fused.pairs.push(Pair { first, second, is_in_drive: false });
                self.begin(checked, capsule);
            }
            Ok(_) => {
                self.doom(first, Failure::INVALID_FIELD);
                self.refuse(&capsule.command, Failure::INVALID_FIELD);
            }
            Err(failure) => {
                self.doom(first, Failure::FUSED_FAILED);
                self.refuse(&capsule.command, failure);
            }
        }
    }

    /// Refuses more blocks than are written all or nothing together with the comparison (`ACWU`).
    fn check_fused_size(&self, half: &Waiting) -> Result<(), Failure> {
        let units = self.subsystem.queue.drive().lock().limits().atomic_write_units;
        let most = half.target.space.written_whole(units).blocks;
        if half.blocks.count <= most { Ok(()) } else { Err(Failure::ATOMIC_UNIT_EXCEEDED) }
    }

    /// A half fails: at once, or when its data have come.
    fn doom(&mut self, half: Waiting, failure: Failure) {
        match half.data {
            Some(_) => self.complete(half.id, Err(failure)),
            None => self.fused.doomed.push((half.id, failure)),
        }
    }

    /// A command has failed before it reached the drive: the other half of its pair fails as well.
    pub(super) fn fail_other_half(&mut self, id: u16) {
        self.fused.doomed.retain(|(doomed, _)| *doomed != id);
        if let Some(other) = self.fused.fail(id) {
            self.doom(other, Failure::FUSED_FAILED);
        }
    }

    /// The data of a half have come, whose namespace is this now.
    pub(super) fn take_half(&mut self, id: u16, target: Target, data: Vec<u8>) {
        if let Some(failure) = self.fused.take(id, target, data) {
            return self.complete(id, Err(failure));
        }
        if let Some((id, target, command, data)) = self.fused.next_whole()
            && self.in_drive.give(id, target, self.attachment.view(), command, data)
        {
            self.issue();
        }
    }

    /// A command is done in the drive, perhaps for two. What concerns the old contents of blocks is how the first half has ended.
    pub(super) fn complete_in_drive(&mut self, id: u16, ended: Result<Answer, Failure>) {
        let Some(first) = self.fused.end(id) else { return self.complete(id, ended) };
        let (of_first, of_second) = match ended {
            Ok(answer) => (Ok(Answer::default()), Ok(answer)),
            Err(failure) if failure.is_of_old_contents() => (Err(failure), Err(Failure::FUSED_FAILED)),
            Err(failure) => (Err(Failure::FUSED_FAILED), Err(failure)),
        };
        self.complete(first, of_first);
        self.complete(id, of_second);
    }
}
