//! The node address table as an [`Index`].

use std::ops::Range;

use tantalum::Lpn;
use tantalum_filesystem::FileId;

use super::Nat;
use super::filling::{LEAST_FREE, is_short};
use super::heads::{COLD_DATA, COLD_NODES, FILE_DATA, FOLDER_DATA};
use super::node::{Level, Node, decode_pointer, encode_pointer, pointer_to};
use super::nodes::NEW;
use super::summary::NODE;
use crate::bytes::Page;
use crate::check::Finding;
use crate::error::{LfsError, Result};
use crate::index::{BlockPointer, Index, MovedPlace, Owner, Purpose, Resident, Synced};
use crate::inode::Inode;
use crate::segments::{Log, Run};

/// Segments of changed nodes that wait in memory at most.
const MOST_WAITING: u32 = 16;

impl Index for Nat {
    fn inode(&mut self, log: &mut Log, file: FileId) -> Result<Option<Inode>> {
        if file.0 == 0 || file.0 >= self.layout.nodes {
            return Ok(None);
        }
        let [place, owner] = self.entry(log, file.0)?;
        if place == 0 || owner != file.0 {
            return Ok(None);
        }
        let node = self.node(log, file.0)?;
        if node.level() != Level::Inode {
            return Ok(None);
        }
        let inode = Inode::read_from(&node.page[..]);
        inode.map(Some).map_err(|damage| LfsError::Damaged { lpn: Lpn(place), damage })
    }

    fn set_inode(&mut self, log: &mut Log, file: FileId, inode: &Inode) -> Result<()> {
        inode.write_to(&mut self.node_mut(log, file.0)?.page[..]);
        Ok(())
    }

    fn new_file(&mut self, log: &mut Log, inode: &Inode) -> Result<FileId> {
        let file = FileId(self.new_node(log, None, 0, Level::Inode, inode.is_folder())?);
        debug_assert_eq!(
            self.nodes.get(file.0).file(),
            file,
            "the inode of a new file belongs to another one"
        );
        self.files += 1;
        self.set_inode(log, file, inode)?;
        Ok(file)
    }

    fn remove_file(&mut self, log: &mut Log, file: FileId) -> Result<()> {
        self.free_node(log, file.0)?;
        self.files -= 1;
        Ok(())
    }

    fn pointer(&mut self, log: &mut Log, file: FileId, unit: u32) -> Result<BlockPointer> {
        let Some((number, index)) = self.find(log, file, unit, false)? else { return Ok(BlockPointer::Hole) };
        Ok(decode_pointer(self.node(log, number)?.pointer(index)))
    }

    fn run(&mut self, log: &mut Log, file: FileId, unit: u32, most: u32) -> Result<(BlockPointer, u32)> {
        self.adjacent(log, file, unit, most, |first, other, units| other == first.behind(units))
    }

    fn used_run(&mut self, log: &mut Log, file: FileId, unit: u32, most: u32) -> Result<(bool, u32)> {
        let is_used = |pointer| pointer != BlockPointer::Hole;
        let (pointer, units) =
            self.adjacent(log, file, unit, most, |first, other, _| is_used(first) == is_used(other))?;
        Ok((is_used(pointer), units))
    }

    fn reserve(&mut self, log: &mut Log, file: FileId, unit: u32) -> Result<()> {
        self.set_pointer(log, file, unit, BlockPointer::Reserved)
    }

    fn promise(&mut self, _log: &mut Log, _file: FileId, _unit: u32) -> Result<()> {
        Ok(()) // the old place is free as soon as the new one lives
    }

    fn append(
        &mut self,
        log: &mut Log,
        purpose: Purpose,
        file: FileId,
        unit: u32,
        page: &Page,
    ) -> Result<()> {
        let head = match purpose {
            Purpose::Folder => FOLDER_DATA,
            Purpose::Content => FILE_DATA,
            Purpose::MovedContent => COLD_DATA,
        };
        let lpn = self.place_for_contents(log, head)?;
        log.fill(head, lpn, page)?;
        log.written.contents += 1;
        log.note_contents(file);
        self.set_pointer(log, file, unit, BlockPointer::At(lpn))
    }

    fn append_run(&mut self, log: &mut Log, run: &mut Run<'_>) -> Result<()> {
        log.send_buffer(FILE_DATA)?;
        let placed = self.place_run(log, run);
        run.send(log, FILE_DATA).and(placed)
    }

    fn clear(&mut self, log: &mut Log, file: FileId, units: Range<u64>) -> Result<u64> {
        self.clear_range(log, file, units)
    }

    fn next_used(&mut self, log: &mut Log, file: FileId, from: u32) -> Result<Option<u32>> {
        Ok(self.next_used_unit(log, file, u64::from(from))?.map(|unit| unit as u32))
    }

    fn sync_file(&mut self, log: &mut Log, file: FileId) -> Result<Synced> {
        self.chain(log, &[file])
    }

    fn sync_new_files(&mut self, log: &mut Log, files: &[FileId]) -> Result<Synced> {
        self.chain(log, files)
    }

    fn checkpoints(&self) -> u64 {
        self.version
    }

    fn append_listed(&mut self, log: &mut Log, file: FileId, unit: u32, page: &Page) -> Result<()> {
        let lpn = self.place_for_contents(log, FILE_DATA)?;
        log.fill_listed(FILE_DATA, lpn, page, (file, unit))?;
        log.written.contents += 1;
        self.set_pointer(log, file, unit, BlockPointer::At(lpn))
    }

    fn follow(&mut self, log: &mut Log, file: FileId, unit: u32, lpn: Lpn) -> Result<()> {
        self.set_pointer(log, file, unit, BlockPointer::At(lpn))
    }

    fn changed_units(&self) -> u64 {
        self.nodes.changed().len() as u64
    }

    fn is_checkpoint_due(&self, log: &Log) -> bool {
        self.changed_units() > log.segments.may_wait(LEAST_FREE, MOST_WAITING) || self.is_chain_long(log)
    }

    fn least_free_segments(&self) -> u32 {
        LEAST_FREE
    }

    fn fills_holes(&self, log: &Log) -> bool {
        is_short(log)
    }

    fn checkpoint(&mut self, log: &mut Log, orphans: &[FileId], is_last: bool) -> Result<()> {
        self.take_checkpoint(log, orphans, is_last)
    }

    fn residents(&mut self, log: &mut Log, segment: u32) -> Result<Vec<Resident>> {
        let first = log.segments.first_lpn(segment).0;
        let mut residents = Vec::new();
        let entries = self.summaries.entries(log, segment)?;
        assert_eq!(
            entries.len() as u32,
            log.segments.units(),
            "the summary of segment {segment} has an entry for each of its units"
        );
        for ((number, slot), lpn) in entries.into_iter().zip((first..).map(Lpn)) {
            if number == 0 || number >= self.layout.nodes || self.entry(log, number)?[0] == 0 {
                continue;
            }
            if slot == NODE {
                residents.push(Resident { lpn, owner: Owner::Index(number) });
                continue;
            }
            let node = self.node(log, number)?;
            let index = usize::from(slot);
            if node.unit_pointers().contains(&index) && node.pointer(index) == lpn.0 {
                let owner = Owner::Content { file: node.file(), unit: node.unit_of(index) };
                residents.push(Resident { lpn, owner });
            }
        }
        Ok(residents)
    }

    fn lives_at(&mut self, log: &mut Log, resident: &Resident) -> Result<bool> {
        match resident.owner {
            Owner::Index(number) => Ok(self.entry(log, number)?[0] == resident.lpn.0),
            Owner::Content { file, unit } => {
                let is_file = self.entry(log, file.0)?[1] == file.0;
                Ok(is_file && self.pointer(log, file, unit)? == BlockPointer::At(resident.lpn))
            }
        }
    }

    fn is_changed(&self, unit: u32) -> bool {
        self.nodes.is_changed(unit)
    }

    fn rewrite(&mut self, log: &mut Log, unit: u32) -> Result<()> {
        self.node_mut(log, unit).map(drop)
    }

    fn moves_at_once(&mut self, _log: &mut Log) -> Result<usize> {
        Ok(usize::MAX)
    }

    fn place_for(&mut self, log: &mut Log, owner: Owner) -> Result<MovedPlace> {
        let head = match owner {
            Owner::Content { .. } => COLD_DATA,
            // not at the head whose nodes are chained: a moved node names another next place
            Owner::Index(_) => COLD_NODES,
        };
        Ok(MovedPlace { head, lpn: log.place(head)? })
    }

    fn moved(&mut self, log: &mut Log, owner: Owner, to: Lpn) -> Result<()> {
        match owner {
            Owner::Content { file, unit } => {
                log.note_contents(file);
                self.set_pointer(log, file, unit, BlockPointer::At(to))
            }
            Owner::Index(number) => {
                let file = FileId(self.entry(log, number)?[1]);
                self.summaries.begin(log, to);
                self.summaries.set(log, to, (number, NODE))?;
                self.move_node(log, number, file, to)
            }
        }
    }

    fn files(&mut self, log: &mut Log) -> Result<Vec<FileId>> {
        let mut files = Vec::new();
        for number in 1..self.layout.nodes {
            if self.entry(log, number)?[1] == number {
                files.push(FileId(number));
            }
        }
        Ok(files)
    }

    fn free_files(&self) -> u64 {
        u64::from(self.layout.nodes - 1 - self.nodes_in_use)
    }

    fn file_count(&self) -> u64 {
        u64::from(self.files)
    }

    fn audit_file(
        &mut self,
        log: &mut Log,
        file: FileId,
        visit: &mut dyn FnMut(Owner, Option<Lpn>),
        findings: &mut Vec<Finding>,
    ) -> Result<()> {
        self.audit_node(log, file, (file.0, Level::Inode, 0), visit, findings)
    }

    fn audit(
        &mut self,
        log: &mut Log,
        nodes: u64,
        _visit: &mut dyn FnMut(Option<Lpn>),
        findings: &mut Vec<Finding>,
    ) -> Result<()> {
        let mut in_table = 0;
        for number in 1..self.layout.nodes {
            in_table += u64::from(self.entry(log, number)? != [0, 0]);
        }
        for (what, counted) in
            [("the node address table", in_table), ("the checkpoint", self.nodes_in_use.into())]
        {
            if counted != nodes {
                findings.push(Finding::NodeCount { what, counted, reachable: nodes });
            }
        }
        Ok(())
    }
}

impl Nat {
    /// The pointer of a unit, and how many from it on are in the same node and alike.
    fn adjacent(
        &mut self,
        log: &mut Log,
        file: FileId,
        unit: u32,
        most: u32,
        alike: impl Fn(BlockPointer, BlockPointer, u32) -> bool,
    ) -> Result<(BlockPointer, u32)> {
        let Some((number, index)) = self.find(log, file, unit, false)? else {
            return Ok((BlockPointer::Hole, 1));
        };
        let node = self.node(log, number)?;
        let pointer = |index| decode_pointer(node.pointer(index));
        let first = pointer(index);
        let others = (index + 1..node.unit_pointers().end).zip(1..most);
        let alike = others.take_while(|(other, units)| alike(first, pointer(*other), *units));
        let units = 1 + alike.count() as u32;
        debug_assert!(
            units <= most.max(1),
            "{units} units from {unit} of file {file}, but at most {most} count"
        );
        Ok((first, units))
    }

    fn place_run(&mut self, log: &mut Log, run: &mut Run<'_>) -> Result<()> {
        if !run.is_listed() {
            log.note_contents(run.file());
        }
        while let Some(unit) = run.next() {
            let lpn = self.place_for_contents(log, FILE_DATA)?;
            run.place(log, FILE_DATA, lpn)?;
            self.set_pointer(log, run.file(), unit, BlockPointer::At(lpn))?;
        }
        Ok(())
    }

    /// Sets where a unit of a file is. `ENOSPC` is possible only if it was a hole.
    pub(super) fn set_pointer(
        &mut self,
        log: &mut Log,
        file: FileId,
        unit: u32,
        pointer: BlockPointer,
    ) -> Result<()> {
        let Some((number, index)) = self.find(log, file, unit, pointer != BlockPointer::Hole)? else {
            return Ok(());
        };
        let old = decode_pointer(self.node(log, number)?.pointer(index));
        if old == pointer {
            return Ok(());
        }
        match pointer {
            BlockPointer::Hole => {}
            // A unit that gives up its place keeps its space.
            BlockPointer::Reserved if self.is_recovering || old != BlockPointer::Hole => {
                log.segments.reserve_anyway()
            }
            BlockPointer::Reserved => log.segments.reserve()?,
            BlockPointer::At(lpn) => {
                log.segments.add(lpn)?;
                if !self.is_recovering {
                    self.summaries.begin(log, lpn);
                }
                self.summaries.set(log, lpn, (number, index as u16))?;
            }
        }
        match old {
            BlockPointer::Hole => {}
            BlockPointer::Reserved => log.segments.unreserve(),
            BlockPointer::At(lpn) => log.segments.release(lpn)?,
        }
        self.node_mut(log, number)?.set_pointer(index, encode_pointer(pointer));
        Ok(())
    }

    fn entry_and_node(&mut self, log: &mut Log, number: u32) -> Result<([u32; 2], Node)> {
        Ok((self.entry(log, number)?, self.node(log, number)?.clone()))
    }

    fn audit_node(
        &mut self,
        log: &mut Log,
        file: FileId,
        (number, level, first): (u32, Level, u64),
        visit: &mut dyn FnMut(Owner, Option<Lpn>),
        findings: &mut Vec<Finding>,
    ) -> Result<()> {
        let ([place, owner], node) = match self.entry_and_node(log, number) {
            Ok(found) => found,
            Err(error @ LfsError::Damaged { .. }) => {
                findings.push(Finding::BadNode { file, number, why: error.to_string() });
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        if (owner, node.file(), node.level(), node.first()) != (file.0, file, level, first) {
            let why = format!("it is one of file {}, at unit {}", node.file(), node.first());
            findings.push(Finding::BadNode { file, number, why });
            return Ok(());
        }
        visit(Owner::Index(number), (place != NEW).then_some(Lpn(place)));
        for index in 0..node.pointers() {
            let value = node.pointer(index);
            let children = node.unit_pointers();
            if value == 0 {
                continue;
            }
            if children.contains(&index) {
                visit(Owner::Content { file, unit: node.unit_of(index) }, decode_pointer(value).place());
                continue;
            }
            let reached = child_of(level, first, index);
            self.audit_node(log, file, (value, reached.0, reached.1), visit, findings)?;
        }
        Ok(())
    }
}

/// The level of the node to which a pointer points, and the first unit that it reaches.
fn child_of(level: Level, first: u64, index: usize) -> (Level, u64) {
    let mut unit = first;
    if level == Level::Inode {
        unit = super::node::INODE_UNITS as u64;
        for _ in 0..index {
            unit += pointer_to(level, first, unit).units;
        }
    } else {
        unit += index as u64 * pointer_to(level, first, first).units;
    }
    let pointer = pointer_to(level, first, unit);
    (pointer.child.expect("a pointer to a node"), pointer.first)
}
