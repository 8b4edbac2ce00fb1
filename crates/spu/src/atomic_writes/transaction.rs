//! Transactions of Atomic-Writes: writes to the logs, then the commit.
//!
//! Invariants: a slot's transactions have numbers that only grow; a transaction goes on to its commit only when every write
//! of it was acknowledged; what was not acknowledged is sent again, which changes nothing if it had arrived.

use std::collections::BTreeMap;

use tantalum::Nanoseconds;

use super::{AtomicWrites, AtomicWritesError, RECORDS, SLOTS, handler};
use crate::answer;
use crate::error::SpuError;
use crate::host::Event;
use crate::names::{EndpointId, ProgramId, SpuId};
use crate::system::Ssd;

const ABORTED: i32 = 1;
const BUSY: i32 = 2;
const LATER: i32 = 6;

/// How often the library sends what finds no room, or a slot at work, before it gives up.
const ATTEMPTS: u32 = 1000;
/// How long the library waits before it sends again what found no room.
const AGAIN_NS: Nanoseconds = 20_000;

/// How a transaction ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// All its writes are in place, and durable.
    Committed,
    /// None of them is. The answer that caused it, if it was a refusal.
    Aborted(i32),
    /// All or none, and which is known after recovery: the answer that left it open.
    InDoubt(i32),
}

/// One piece of a transaction: within one stripe.
#[derive(Clone, Debug)]
struct Piece {
    spu: SpuId,
    record: u32,
    home: u64,
    data: Vec<u8>,
    is_logged: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Logging,
    Committing,
    Aborting(i32),
    Ended(Outcome),
}

/// A transaction under way. It is driven by events: each goes to [`Transaction::take`] until that returns an outcome. Several
/// transactions, in slots of their own, may be under way at once.
#[derive(Debug)]
pub struct Transaction {
    endpoint: EndpointId,
    program: ProgramId,
    number: u64,
    pieces: Vec<Piece>,
    participants: u64,
    /// Requests under way: the piece that each is about, if it is a write.
    under_way: BTreeMap<u64, Option<usize>>,
    /// Pieces whose permission the driver is being asked for.
    missing: Vec<usize>,
    phase: Phase,
    attempts: u32,
}

impl Transaction {
    /// Begins a transaction of these writes at `at_ns`, and sends them to the logs. A transaction of one write that lies in one
    /// stripe is one request in all.
    pub fn begin(
        ssd: &mut Ssd,
        atomic: AtomicWrites,
        endpoint: EndpointId,
        number: u64,
        writes: &[(u64, Vec<u8>)],
        at_ns: Nanoseconds,
    ) -> Result<Transaction, AtomicWritesError> {
        let mut pieces: Vec<Piece> = Vec::new();
        let mut records: BTreeMap<SpuId, usize> = BTreeMap::new();
        for (home, data) in writes {
            for (spu, range) in ssd.stripes().pieces(*home..home.saturating_add(data.len() as u64)) {
                let record = records.entry(spu).or_default();
                let part = (range.start - home) as usize..(range.end - home) as usize;
                let data = data[part].to_vec();
                pieces.push(Piece { spu, record: *record as u32, home: range.start, data, is_logged: false });
                *record += 1;
            }
        }
        if let Some((&spu, &writes)) = records.iter().find(|(_, records)| **records > RECORDS) {
            return Err(AtomicWritesError::TooManyWrites { spu, writes });
        }
        let participants = records.keys().fold(0, |mask, spu| mask | 1 << spu.0);
        let mut begun = Transaction {
            endpoint,
            program: atomic.program,
            number,
            pieces,
            participants,
            under_way: BTreeMap::new(),
            missing: Vec::new(),
            phase: Phase::Logging,
            attempts: 0,
        };
        for piece in 0..begun.pieces.len() {
            begun.send_piece(ssd, piece, at_ns)?;
        }
        Ok(begun)
    }

    /// The processors that have writes of it, a bit for each.
    pub fn participants(&self) -> u64 {
        self.participants
    }

    fn send_piece(&mut self, ssd: &mut Ssd, index: usize, at_ns: Nanoseconds) -> Result<(), SpuError> {
        let handler = if self.pieces.len() == 1 { handler::LOGWRITECOMMIT } else { handler::LOGWRITE };
        let piece = &self.pieces[index];
        let mut body = Vec::with_capacity(24 + piece.data.len());
        body.extend(self.number.to_le_bytes());
        body.extend(piece.home.to_le_bytes());
        body.extend((piece.data.len() as u32).to_le_bytes());
        body.extend(piece.record.to_le_bytes());
        body.extend(&piece.data);
        let request = ssd.send(self.endpoint, piece.spu, (self.program, handler), body, at_ns)?;
        self.under_way.insert(request, Some(index));
        Ok(())
    }

    fn send_decision(
        &mut self,
        ssd: &mut Ssd,
        handler: u32,
        spu: SpuId,
        at_ns: Nanoseconds,
    ) -> Result<(), SpuError> {
        let body = [self.number.to_le_bytes(), self.participants.to_le_bytes()].concat();
        let request = ssd.send(self.endpoint, spu, (self.program, handler), body, at_ns)?;
        self.under_way.insert(request, None);
        Ok(())
    }

    /// The processor that the host chooses as coordinator: the transactions of different numbers spread over their participants.
    fn coordinator(&self) -> SpuId {
        let count = u64::from(self.participants.count_ones());
        let turn = if count == 0 { 0 } else { self.number / SLOTS % count };
        let nth = (0..64).filter(|spu| self.participants >> spu & 1 == 1).nth(turn as usize);
        SpuId(nth.unwrap_or(0))
    }

    /// Sends the commit a second time, as a host does that lost the answer.
    pub fn repeat_commit(&mut self, ssd: &mut Ssd, at_ns: Nanoseconds) -> Result<u64, SpuError> {
        let spu = self.coordinator();
        let body = [self.number.to_le_bytes(), self.participants.to_le_bytes()].concat();
        ssd.send(self.endpoint, spu, (self.program, handler::COMMIT), body, at_ns)
    }

    /// Sends all its writes a second time, as a network does that delivers late.
    pub fn repeat_writes(&mut self, ssd: &mut Ssd, at_ns: Nanoseconds) -> Result<(), SpuError> {
        for piece in 0..self.pieces.len() {
            self.send_piece(ssd, piece, at_ns)?;
        }
        self.under_way.clear();
        Ok(())
    }

    /// Takes an event. Returns how the transaction ended, if it has.
    pub fn take(&mut self, ssd: &mut Ssd, event: &Event) -> Result<Option<Outcome>, SpuError> {
        match event {
            Event::Answer { request, status, at_ns, .. } => {
                if let Some(piece) = self.under_way.remove(request) {
                    match piece {
                        Some(piece) => self.written(ssd, piece, *status, *at_ns)?,
                        None => self.decided(ssd, *status, *at_ns)?,
                    }
                }
            }
            Event::Permission { endpoint, spu, range, granted, at_ns } if *endpoint == self.endpoint => {
                let is_its = |&index: &usize| {
                    let piece = &self.pieces[index];
                    piece.spu == *spu && piece.home == range.start
                };
                if let Some(at) = self.missing.iter().position(is_its) {
                    let piece = self.missing.remove(at);
                    match granted {
                        true => self.send_piece(ssd, piece, *at_ns)?,
                        false => self.abort(ssd, answer::NO_PERMISSION, *at_ns)?,
                    }
                }
            }
            _ => {}
        }
        self.go_on(ssd, event.at_ns())?;
        Ok(if let Phase::Ended(outcome) = self.phase { Some(outcome) } else { None })
    }

    fn written(
        &mut self,
        ssd: &mut Ssd,
        piece: usize,
        status: i32,
        at_ns: Nanoseconds,
    ) -> Result<(), SpuError> {
        match status {
            answer::OK => self.pieces[piece].is_logged = true,
            answer::NO_PERMISSION => self.missing.push(piece),
            answer::NOT_DELIVERED | answer::TIMEOUT | BUSY
                if self.phase == Phase::Logging && self.attempts < ATTEMPTS =>
            {
                self.attempts += 1;
                self.send_piece(ssd, piece, at_ns + AGAIN_NS)?;
            }
            status => self.abort(ssd, status, at_ns)?,
        }
        Ok(())
    }

    fn abort(&mut self, ssd: &mut Ssd, status: i32, at_ns: Nanoseconds) -> Result<(), SpuError> {
        if self.phase == Phase::Logging {
            self.phase = Phase::Aborting(status);
            self.missing.clear();
            if self.pieces.len() > 1 {
                let participants = self.participants;
                for spu in (0..64).filter(|spu| participants >> spu & 1 == 1) {
                    self.send_decision(ssd, handler::ABORT, SpuId(spu), at_ns)?;
                }
            }
        }
        Ok(())
    }

    fn decided(&mut self, ssd: &mut Ssd, status: i32, at_ns: Nanoseconds) -> Result<(), SpuError> {
        if self.phase != Phase::Committing {
            return Ok(());
        }
        match status {
            answer::OK => self.phase = Phase::Ended(Outcome::Committed),
            ABORTED => self.phase = Phase::Ended(Outcome::Aborted(ABORTED)),
            answer::NOT_DELIVERED | answer::TIMEOUT | BUSY | LATER if self.attempts < ATTEMPTS => {
                self.attempts += 1;
                let spu = self.coordinator();
                self.send_decision(ssd, handler::COMMIT, spu, at_ns + AGAIN_NS)?;
            }
            BUSY | LATER | answer::TIMEOUT | answer::ENDED | answer::NO_ANSWER | answer::DRIVE => {
                self.phase = Phase::Ended(Outcome::InDoubt(status));
            }
            status => self.phase = Phase::Ended(Outcome::Aborted(status)),
        }
        Ok(())
    }

    /// The next phase, when nothing of this one is under way.
    fn go_on(&mut self, ssd: &mut Ssd, at_ns: Nanoseconds) -> Result<(), SpuError> {
        if !self.under_way.is_empty() || !self.missing.is_empty() {
            return Ok(());
        }
        match self.phase {
            Phase::Logging if self.pieces.len() == 1 || self.pieces.is_empty() => {
                self.phase = Phase::Ended(Outcome::Committed);
            }
            Phase::Logging => {
                self.phase = Phase::Committing;
                let spu = self.coordinator();
                self.send_decision(ssd, handler::COMMIT, spu, at_ns)?;
            }
            Phase::Aborting(status) => self.phase = Phase::Ended(Outcome::Aborted(status)),
            Phase::Committing | Phase::Ended(_) => {}
        }
        Ok(())
    }
}
