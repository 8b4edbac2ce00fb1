//! Sanitize: nothing that hosts have ever written is left on the drive (Base, section 8.21).
//!
//! The table says that it is under way before anything is done, so a power cut only interrupts it, and says that it is complete when it
//! is. Meanwhile no command of a host reaches the drive. The namespaces stay, with their numbers and formats, and without contents.

use tantalum::{Key, NamespaceId, UNIT_BYTES, ZoneAction};
use tantalum_drive::{Delivery, InReply, Output, Queue, Request};

use super::changes::{Change, deallocate, purge};
use super::table::{Sanitize, SanitizeState};
use super::{Namespaces, PARTS};
use crate::blocks::SECTOR_BYTES;
use crate::failure::Failure;

/// Records deleted at a time.
const TOGETHER_RECORDS: usize = 512;

impl Namespaces {
    /// The last Sanitize.
    pub fn sanitize(&self) -> Sanitize {
        self.with_table(|table| table.sanitize)
    }

    /// Begins one; no other command reaches the drive from now on. `dword` is dword 10 of the command. [`Namespaces::run_sanitize`] does
    /// the rest.
    pub fn begin_sanitize(&self, queue: &Queue, dword: u32) -> Result<Change<()>, Failure> {
        // after one that failed, another one may succeed
        let is_failed = self.sanitize().state == SanitizeState::Failed;
        let mut state = if is_failed { self.change() } else { self.ready(queue)? };
        if state.table.sanitize.state == SanitizeState::Running {
            return Err(Failure::SANITIZE_IN_PROGRESS);
        }
        // what would be refused at its end must not have deleted anything
        queue.drive().lock().check_purge()?;
        let mut next = state.table.clone();
        next.sanitize = Sanitize { state: SanitizeState::Running, dword };
        let done_ns = self.replace(queue, &mut state, next)?;
        // it goes on whether or not all transactions could be ended
        let _ = self.withdraw(queue, &(0..PARTS).collect::<Vec<_>>());
        Ok(Change { result: (), done_ns })
    }

    /// Leaves the state after one that failed, if that one allowed it.
    pub fn end_failed_sanitize(
        &self,
        queue: &Queue,
        is_allowed: impl Fn(u32) -> bool,
    ) -> Result<Change<()>, Failure> {
        let mut state = self.change();
        let Sanitize { state: last, dword } = state.table.sanitize;
        match last {
            SanitizeState::Running => return Err(Failure::SANITIZE_IN_PROGRESS),
            SanitizeState::Failed if !is_allowed(dword) => return Err(Failure::SANITIZE_FAILED),
            SanitizeState::Failed => {}
            SanitizeState::Never | SanitizeState::Done => return Ok(Change { result: (), done_ns: 0 }),
        }
        let mut next = state.table.clone();
        next.sanitize.state = SanitizeState::Never;
        let done_ns = self.replace(queue, &mut state, next)?;
        Ok(Change { result: (), done_ns })
    }

    /// Does what has begun, if one has. Returns whether it has ended: not if the drive has lost power, which interrupts it.
    pub fn run_sanitize(&self, queue: &Queue) -> bool {
        let _only = self.sanitizer.lock();
        if self.sanitize().state != SanitizeState::Running {
            return false;
        }
        let ticket = queue.answers().ticket();
        let erased = self.erase_everything(queue);
        if queue.answers().delivery(ticket, 0) == Delivery::PowerLost {
            // power is back, perhaps, and what was deallocated before is not; it is done again
            return false;
        }
        let state = match erased {
            Ok(()) => SanitizeState::Done,
            Err(Failure::POWER_LOSS) => return false,
            Err(_) => SanitizeState::Failed,
        };
        let mut now = self.change();
        let mut next = now.table.clone();
        next.sanitize.state = state;
        match self.replace(queue, &mut now, next) {
            Ok(_) => true,
            Err(Failure::POWER_LOSS) => false,
            Err(_) => {
                // as stored it is still under way, and is done again when the drive is served again
                now.table.sanitize.state = SanitizeState::Failed;
                self.outdate_views();
                true
            }
        }
    }

    fn erase_everything(&self, queue: &Queue) -> Result<(), Failure> {
        let units = self.with_table(|table| table.drive_units);
        for namespace in &self.key_value {
            delete_records(queue, *namespace)?;
        }
        deallocate(queue, 0, units)?;
        if queue.drive().lock().limits().files > 0 {
            queue.drive().perform(Request::ClearFileLists { file: None }, queue.answers().when(0))?;
        }
        if queue.drive().lock().zone_shape().is_some() {
            let reset = Request::ZoneManage { zone: None, action: ZoneAction::Reset };
            queue.drive().perform(reset, queue.answers().when(0))?;
        }
        queue.drive().perform(Request::Flush, queue.answers().when(0))?;
        let sectors = 0..u64::from(units) * (UNIT_BYTES / SECTOR_BYTES) as u64;
        self.uncorrectable().clear(&mut queue.drive().lock(), queue.answers().when(0), sectors)?;
        purge(queue)
    }
}

/// Deletes every record of a namespace, which stays.
fn delete_records(queue: &Queue, namespace: NamespaceId) -> Result<(), Failure> {
    loop {
        let list = Request::KvList { namespace, from: None, keys: InReply, limit: TOGETHER_RECORDS };
        let keys: Vec<Key> = match queue.drive().perform(list, queue.answers().when(0))?.output {
            Output::Keys(keys) => keys,
            _ => Vec::new(),
        };
        if keys.is_empty() {
            return Ok(());
        }
        let records = keys.into_iter().map(|key| (namespace, key, None)).collect();
        queue.drive().perform(Request::KvPut { records }, queue.answers().when(0))?;
    }
}
