//! Checking the trees: every number in a tree is used once, and everything that counts as live is reached.

use std::collections::BTreeSet;

use tantalum::Lpn;
use tantalum_filesystem::FileId;

use super::Tree;
use super::files::FILES;
use super::node::RESERVED;
use super::translation::{Number, Translation};
use crate::check::Finding;
use crate::error::{LfsError, Result};
use crate::index::Owner;
use crate::segments::{Log, State};

/// What a walk of a tree visits.
enum Met {
    Node(Number),
    /// What a key of a leaf stands for.
    Value(u32, u32),
}

impl Tree {
    pub(super) fn audit_tree_of(
        &mut self,
        log: &mut Log,
        file: FileId,
        visit: &mut dyn FnMut(Owner, Option<Lpn>),
        findings: &mut Vec<Finding>,
    ) -> Result<()> {
        let Some(root) = self.root_of(log, file)? else { return Ok(()) };
        for met in self.walk(log, file, root, findings)? {
            let (owner, number) = match met {
                Met::Node(number) => (Owner::Index(number.0), number),
                Met::Value(unit, RESERVED) => {
                    visit(Owner::Content { file, unit }, None);
                    continue;
                }
                Met::Value(unit, value) => (Owner::Content { file, unit }, Number(value)),
            };
            match self.find_translation(log, number)? {
                Some(unit) if self.has(&unit) => visit(owner, unit.place),
                _ => findings.push(Finding::BadNode {
                    file,
                    number: number.0,
                    why: "the table does not have it".to_owned(),
                }),
            }
        }
        Ok(())
    }

    /// Whether a unit is of the present, or of the snapshot that is mounted.
    fn has(&self, unit: &Translation) -> bool {
        self.mounted_snapshot.map_or(unit.death.is_none(), |snapshot| unit.is_seen_by(snapshot))
    }

    /// Everything in a tree, as far as it can be read.
    fn walk(
        &mut self,
        log: &mut Log,
        file: FileId,
        root: Number,
        findings: &mut Vec<Finding>,
    ) -> Result<Vec<Met>> {
        let (mut met, mut nodes) = (Vec::new(), vec![root]);
        while let Some(number) = nodes.pop() {
            let node = match self.node(log, number) {
                Ok(node) => node.clone(),
                Err(error @ LfsError::Damaged { .. }) => {
                    let why = error.to_string();
                    findings.push(Finding::BadNode { file, number: number.0, why });
                    continue;
                }
                Err(error) => return Err(error),
            };
            if node.file() != file {
                let why = format!("it is one of file {}", node.file());
                findings.push(Finding::BadNode { file, number: number.0, why });
                continue;
            }
            met.push(Met::Node(number));
            for index in 0..node.len() {
                match node.level() {
                    0 => met.push(Met::Value(node.key(index), node.value(index))),
                    _ => nodes.push(self.child(log, number, index).unwrap_or(Number(node.value(index)))),
                }
            }
        }
        Ok(met)
    }

    pub(super) fn audit_all(
        &mut self,
        log: &mut Log,
        reachable: u64,
        visit: &mut dyn FnMut(Option<Lpn>),
        findings: &mut Vec<Finding>,
    ) -> Result<()> {
        let mut own_nodes = 0;
        for met in self.walk(log, FILES, self.files_root, findings)? {
            if let Met::Node(number) = met {
                own_nodes += 1;
                visit(self.find_translation(log, number)?.and_then(|unit| unit.place));
            }
        }
        self.table.places().for_each(|lpn| visit(Some(lpn)));
        (0..self.promised.len() + self.shared_nodes as usize).for_each(|_| visit(None));
        let (nodes, shared) = self.count_nodes(log, visit)?;
        let counts = [
            ("the table", nodes, reachable + own_nodes),
            ("the super root", self.node_count.into(), reachable + own_nodes),
            ("the promise of copies", self.shared_nodes.into(), shared),
        ];
        for (what, counted, reachable) in counts {
            if counted != reachable {
                findings.push(Finding::NodeCount { what, counted, reachable });
            }
        }
        self.audit_summaries(log, findings)?;
        for one in self.snapshots.clone().iter().filter(|one| !one.is_going) {
            self.audit_snapshot(log, one.snapshot.number, one.root, findings)?;
        }
        Ok(())
    }

    /// Visits what only snapshots see. Returns the number of nodes in the present, and how many of them a snapshot
    /// shares.
    fn count_nodes(&mut self, log: &mut Log, visit: &mut dyn FnMut(Option<Lpn>)) -> Result<(u64, u64)> {
        let (mut nodes, mut shared) = (0, 0);
        for number in (1..self.layout.numbers).map(Number) {
            let Some(unit) = self.find_translation(log, number)? else { continue };
            match unit.death {
                None if unit.is_node => {
                    nodes += 1;
                    shared += u64::from(self.is_seen(&unit));
                }
                Some(_) if self.is_seen(&unit) => visit(unit.place),
                _ => {}
            }
        }
        Ok((nodes, shared))
    }

    /// The cleaner must find what lives in a full segment.
    fn audit_summaries(&mut self, log: &mut Log, findings: &mut Vec<Finding>) -> Result<()> {
        for segment in 0..log.segments.count() {
            let entry = log.segments.get(segment);
            if entry.state != State::Full {
                continue;
            }
            let found = self.find_residents(log, segment)?.len() as u32;
            if found != entry.live {
                findings.push(Finding::Summaries { segment, counted: entry.live, found });
            }
        }
        Ok(())
    }

    /// Everything in a snapshot must live.
    fn audit_snapshot(
        &mut self,
        log: &mut Log,
        snapshot: u32,
        root: Number,
        findings: &mut Vec<Finding>,
    ) -> Result<()> {
        let mut trees = vec![(FILES, root)];
        let mut seen = BTreeSet::new();
        while let Some((file, root)) = trees.pop() {
            for met in self.walk(log, file, root, findings)? {
                let number = match met {
                    Met::Value(_, RESERVED) => continue,
                    Met::Value(key, value) if file == FILES => {
                        trees.push((FileId(key), Number(value)));
                        continue;
                    }
                    Met::Node(number) => number,
                    Met::Value(_, value) => Number(value),
                };
                let unit = self.find_translation(log, number)?;
                let is_there = unit.is_some_and(|unit| unit.is_seen_by(snapshot) && unit.place.is_some());
                if !is_there || !seen.insert(number) {
                    findings.push(Finding::BadSnapshot { snapshot, file, number: number.0 });
                }
            }
        }
        Ok(())
    }
}
