//! Placement by the host: the state of the reclaim unit handles, and the end of a reclaim unit.

use tantalum_ftl::{Handle, HandleState, PlacementEvent};
use tantalum_nand::Nanoseconds;

use crate::command::{Command, Completion};
use crate::controller::Device;
use crate::status::Status;

impl Device {
    /// The reclaim unit handles as they are now, in order; none without power, and on a drive without placement. It is not a
    /// command: it takes no time and counts nowhere.
    pub fn handles(&self) -> Vec<HandleState> {
        self.ftl().map_or_else(Vec::new, |ftl| ftl.handles().collect())
    }

    /// Units of 4 KiB of a whole reclaim unit while no block is bad; 0 without power, and on a drive without placement.
    pub fn reclaim_unit_units(&self) -> u64 {
        self.ftl().map_or(0, |ftl| ftl.reclaim_unit_units())
    }

    /// Units that wait in the cache with a handle: they are programmed into its reclaim unit before what is written later.
    pub fn waiting_units(&self, handle: Handle) -> u64 {
        self.engine().map_or(0, |engine| engine.waiting_with(handle))
    }

    /// Counts units that a host's commands changed without data ([`crate::Counters::host_units_without_data`]). It is not a command;
    /// nothing happens without power.
    pub fn count_without_data(&mut self, units: u64) {
        if let Ok(engine) = self.engine_mut() {
            engine.count_without_data(units);
        }
    }

    /// What happened to reclaim units since power came on, or since it was taken, oldest first; of each kind and handle only the
    /// last events are remembered.
    pub fn placement_events(&self) -> Vec<PlacementEvent> {
        self.ftl().map_or_else(Vec::new, |ftl| ftl.placement_events())
    }

    /// The same, which is then forgotten: for the one that keeps a log of them.
    pub fn take_placement_events(&mut self) -> Vec<PlacementEvent> {
        self.engine_mut().map_or_else(|_| Vec::new(), |engine| engine.take_placement_events())
    }

    /// A handle begins its next reclaim unit: what the host has written with it so far goes into the one before, and what it
    /// writes from now on does not. Nothing happens if its reclaim unit is empty.
    ///
    /// # Errors
    /// [`Status::InvalidField`] if the drive has no such handle, or as of a write.
    pub fn update_handle(&mut self, handle: Handle, at_ns: Nanoseconds) -> Result<Completion, Status> {
        self.shape.check_handle(Some(handle))?;
        if self.is_read_only() {
            return Err(Status::ReadOnly);
        }
        self.check_doubt()?;
        self.note_issue(at_ns)?;
        let at_ns = at_ns.max(self.ready_ns);
        match self.engine_mut()?.update_handle(handle, at_ns) {
            Ok(done_ns) => {
                self.done_ns = self.done_ns.max(done_ns);
                Ok(Completion { done_ns })
            }
            Err(status) => {
                // what was written stays as it was
                self.note_failure(&status, &Command::Flush, &[]);
                Err(status)
            }
        }
    }
}
