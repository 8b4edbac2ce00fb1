//! A host that fills zones: it has as many open as the drive allows, writes to them in turn, and once all zones are full resets the one
//! that it filled first. So nearly all zones are always full.

use std::collections::VecDeque;

use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum::{Command, Device, Lpn, Status, ZoneAction, ZoneId, ZoneShape};

use crate::queue::CommandQueue;

/// A unit of a zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    pub zone: ZoneId,
    pub offset: u32,
}

/// Where the host writes, and what it has written.
pub(super) struct ZoneLog {
    shape: ZoneShape,
    /// The zones that are open, with their write pointers.
    open: VecDeque<Place>,
    /// Zones that can be opened next, those that were filled first at the front.
    others: VecDeque<ZoneId>,
    /// Zones that are full.
    full: Vec<ZoneId>,
}

impl ZoneLog {
    pub fn new(shape: ZoneShape) -> ZoneLog {
        let mut others: VecDeque<ZoneId> = (0..shape.count).map(ZoneId).collect();
        // one is left to be opened when another one is full
        let open = others.drain(..shape.max_open.min(shape.count - 1).max(1) as usize);
        let open = open.map(|zone| Place { zone, offset: 0 }).collect();
        ZoneLog { shape, open, others, full: Vec::new() }
    }

    /// The number of a unit among those of all zones.
    pub fn number(&self, place: Place) -> Lpn {
        Lpn(place.zone.0 * self.shape.capacity_units + place.offset)
    }

    /// Units that all zones have room for.
    pub fn units(&self) -> u64 {
        u64::from(self.shape.count) * u64::from(self.shape.capacity_units)
    }

    /// A unit of a full zone, if there is one.
    pub fn any_written(&self, random: &mut Xoshiro256PlusPlus) -> Option<Place> {
        let zone = *self.full.get(random.random_range(0..self.full.len().max(1)))?;
        Some(Place { zone, offset: random.random_range(0..self.shape.capacity_units) })
    }

    /// Where the next unit goes.
    pub fn next(&mut self) -> Place {
        let place = self.open.pop_front().expect("a zone is open");
        self.open.push_back(Place { offset: place.offset + 1, ..place });
        place
    }

    /// A unit was written. A zone that it filled gives its turn to the next, which is reset if it is full.
    pub fn written(
        &mut self,
        place: Place,
        device: &mut Device,
        queue: &mut CommandQueue,
    ) -> Result<(), Status> {
        if place.offset + 1 < self.shape.capacity_units {
            return Ok(());
        }
        self.full.push(place.zone);
        self.others.push_back(place.zone);
        let zone = self.others.pop_front().expect("one was just added");
        if let Some(at) = self.full.iter().position(|full| *full == zone) {
            self.full.swap_remove(at);
            let reset = Command::ZoneManage { zone: Some(zone), action: ZoneAction::Reset };
            let completion = device.submit(reset, queue.issue_ns())?;
            queue.completes(completion.done_ns);
        }
        let filled = self.open.iter_mut().find(|open| open.zone == place.zone);
        *filled.expect("it was open") = Place { zone, offset: 0 };
        Ok(())
    }
}
