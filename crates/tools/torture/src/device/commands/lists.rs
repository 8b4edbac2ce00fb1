//! Commands of the random host on files' lists.

use std::collections::BTreeMap;

use rand::RngExt;
use tantalum::{Command, FileId, Lpn, Status};

use crate::device::draw::Generator;
use crate::device::host::unit_of;
use crate::device::lists::What;
use crate::device::run::Run;
use crate::device::stop::Stop;

/// Files that the host writes to: more than can have lists.
const FILES: u32 = 6;

impl Run {
    /// Writes units and appends them to a file's list.
    pub(super) fn fs_write(&mut self, rng: &mut Generator) -> Result<(), Stop> {
        let units = self.range_to_write(rng);
        let (file, offset) = (FileId(1 + rng.random_range(0..FILES)), rng.random_range(0..1000));
        let new: BTreeMap<Lpn, u64> = units.clone().map(|lpn| (Lpn(lpn), self.stamp())).collect();
        let data: Vec<u8> = new.values().flat_map(|stamp| unit_of(*stamp)).collect();
        let order = self.issue_write(&new);
        let lpn = Lpn(units.start);
        self.lists.issue(order, What::Append { file, units, offset });
        let answer = self.host.submit(Command::FsWrite { lpn, data: &data, file, offset });
        match self.answered(order, &new, answer, true)? {
            Some(written) => self.lists.acknowledge(order, written.done_ns),
            None => {
                self.lists.refuse(order);
                self.check_lists()?;
            }
        }
        Ok(())
    }

    /// Clears a list, or all of them.
    pub(super) fn clear_lists(&mut self, rng: &mut Generator) -> Result<(), Stop> {
        let file = rng.random_ratio(2, 3).then(|| FileId(1 + rng.random_range(0..FILES)));
        let order = self.oracle.next_order();
        self.lists.issue(order, What::Clear(file));
        match self.host.submit(Command::ClearFileLists { file }) {
            Ok(cleared) => self.lists.acknowledge(order, cleared.done_ns),
            Err(Status::PowerLost) => return Err(Stop::PowerLost),
            Err(status) => {
                self.lists.refuse(order);
                self.may_refuse(&status, true)?;
            }
        }
        Ok(())
    }
}
