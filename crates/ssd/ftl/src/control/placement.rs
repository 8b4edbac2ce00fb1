//! Placement by the host: what is counted and told of each reclaim unit handle, and the end of a reclaim unit.

use tantalum_nand::Nanoseconds;

use super::parts::Parts;
use crate::host_unit::HostUnit;
use crate::placement::{Handle, HandleState, PlacementEvent, PlacementEventKind};
use crate::space::{Layout, Target};

impl Parts {
    /// The handles with which the host places data; none without placement.
    pub fn handles(&self) -> impl Iterator<Item = HandleState> + '_ {
        let counters = self.placement.iter().flat_map(|placement| placement.counters());
        (0..).map(Handle).zip(counters).map(|(handle, counters)| HandleState {
            handle,
            writable_units: self.space.writable_units(Target::of(handle), &self.nand),
            counters: *counters,
        })
    }

    /// Units of a whole reclaim unit while no block is bad; 0 without placement.
    pub fn reclaim_unit_units(&self) -> u64 {
        let sound = Layout::with_good_blocks(&self.geometry, &self.config, self.geometry.blocks());
        match self.placement {
            None => 0,
            Some(_) => u64::from(sound.host_width) * u64::from(self.geometry.units_per_block()),
        }
    }

    /// What happened to reclaim units since power came on, or was taken, oldest first; the oldest events are forgotten.
    pub fn placement_events(&self) -> Vec<PlacementEvent> {
        self.placement.as_ref().map_or_else(Vec::new, |placement| placement.events())
    }

    /// The same, which is then forgotten.
    pub fn take_placement_events(&mut self) -> Vec<PlacementEvent> {
        self.placement.as_mut().map_or_else(Vec::new, |placement| placement.take_events())
    }

    /// The host wrote units with a handle.
    #[inline]
    pub fn count_written(&mut self, handle: Handle, units: u64) {
        self.counters.host_units_written += units;
        if let Some(placement) = &mut self.placement {
            placement.host_wrote(handle, units);
        }
    }

    /// A handle begins its next reclaim unit. What is in the one before it stays; what does not fit in it any more is collected
    /// later. Nothing happens if the reclaim unit is empty.
    pub fn begin_reclaim_unit(&mut self, handle: Handle, at_ns: Nanoseconds) {
        let Parts { space, map, nand, placement, .. } = self;
        let Some(placement) = placement else { return };
        if let Some(units) = space.begin_reclaim_unit(Target::of(handle), map, nand) {
            let kind = PlacementEventKind::NotFullyWritten { units };
            placement.tell(PlacementEvent { at_ns, handle, kind });
        }
    }

    /// Tells of a reclaim unit that a page has filled.
    #[cold]
    pub(super) fn tell_filled(&mut self, target: Target, at_ns: Nanoseconds) {
        if let Some(placement) = &mut self.placement
            && self.space.take_filled(target)
        {
            let handle = target.handle();
            placement.tell(PlacementEvent { at_ns, handle, kind: PlacementEventKind::Filled });
        }
    }

    /// Units of the host with one handle were programmed.
    #[inline]
    pub(super) fn count_host_units(&mut self, units: &[HostUnit]) {
        self.counters.flash_units.host += units.len() as u64;
        if self.placement.is_some() {
            self.count_placed(units);
        }
        if self.zones.is_some() {
            self.count_tails(units);
        }
    }

    #[cold]
    fn count_placed(&mut self, units: &[HostUnit]) {
        if let Some(placement) = &mut self.placement
            && let Some(unit) = units.first()
        {
            placement.programmed(unit.handle, units.len() as u64);
        }
    }
}
