//! Commands on files' lists, and comparing the lists with what they may be.

use std::collections::BTreeMap;

use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum::{Command, FileId, Lpn, Status};

use super::range;
use crate::device::host::{Host, unit_of};
use crate::device::lists::{ListHost, Lists, What};
use crate::device::run::Run;
use crate::device::stop::Stop;

/// Files that the host writes to: more than may have lists.
const FILES: u32 = 6;

fn read(host: &mut Host) -> Result<Lists, Stop> {
    let (mut files, mut lists) = (Vec::new(), Lists::new());
    host.submit_and_wait(Command::ListFiles { files: &mut files })?;
    for file in files {
        let mut entries = Vec::new();
        host.submit_and_wait(Command::ReadFileList { file, entries: &mut entries })?;
        lists.insert(file, entries);
    }
    Ok(lists)
}

impl Run {
    /// Writes units and appends them to a file's list.
    pub(super) fn fs_write(&mut self, rng: &mut Xoshiro256PlusPlus) -> Result<(), Stop> {
        let units = range(rng, 6);
        let (file, offset) = (FileId(1 + rng.random_range(0..FILES)), rng.random_range(0..1000));
        let new: BTreeMap<Lpn, u64> = units.clone().map(|lpn| (Lpn(lpn), self.stamp())).collect();
        let data: Vec<u8> = new.values().flat_map(|stamp| unit_of(*stamp)).collect();
        let order = self.oracle.issue(&new, false);
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
    pub(super) fn clear_lists(&mut self, rng: &mut Xoshiro256PlusPlus) -> Result<(), Stop> {
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

    /// Without a cut: the lists are what was appended.
    pub(in crate::device) fn check_lists(&mut self) -> Result<(), Stop> {
        if !self.has_lists {
            return Ok(());
        }
        let (found, expected) = (read(&mut self.host)?, self.lists.now());
        self.tally.promises_checked += 1;
        if found != expected {
            let detail = format!("the lists are {found:?}, and should be {expected:?}");
            return Err(Stop::broken("running drive", detail));
        }
        Ok(())
    }

    /// After a cut: the lists are as after all commands that were done, and perhaps more; then these have their data.
    pub(in crate::device) fn compare_lists(&mut self) -> Result<(), Stop> {
        if !self.has_lists {
            return Ok(());
        }
        let found = read(&mut self.host)?;
        self.tally.promises_checked += 1;
        let Some(survived) = self.lists.survived(&found, self.cut_ns) else {
            let detail = format!("the lists are {found:?} after {:?}", self.lists);
            return Err(Stop::broken("D3", detail));
        };
        survived.into_iter().for_each(|order| self.oracle.acknowledge(order, self.cut_ns, true));
        self.lists = ListHost::found(found);
        Ok(())
    }
}
