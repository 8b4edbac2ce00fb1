//! The files' lists, compared with their allowed contents.

use tantalum::Command;

use super::host::Host;
use super::lists::{ListHost, Lists};
use super::run::Run;
use super::stop::Stop;

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
    /// Without a cut: the lists are what was appended.
    pub fn check_lists(&mut self) -> Result<(), Stop> {
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

    /// After a cut: the lists are as after all completed commands and perhaps some more; these must have their data.
    pub fn compare_lists(&mut self) -> Result<(), Stop> {
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
