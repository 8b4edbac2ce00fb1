//! The check itself: from the root folder to every unit that anything names.

use std::collections::{BTreeMap, BTreeSet};

use tantalum::Lpn;
use tantalum_filesystem::{FileId, FileKind};

use super::Finding;
use crate::content::units_of;
use crate::error::{LfsError, Result};
use crate::fs::LogFs;
use crate::index::Owner;
use crate::names::{entries_of, is_whole};

/// What folders say about a file.
#[derive(Default)]
struct Seen {
    /// Its names.
    names: u32,
    /// For a folder: the folders in it.
    subfolders: u32,
}

/// The walk's state.
#[derive(Default)]
struct Walk {
    files: BTreeMap<FileId, Seen>,
    places: BTreeSet<Lpn>,
    live: Vec<u32>,
    promised: u64,
    nodes: u64,
    findings: Vec<Finding>,
}

impl LogFs {
    /// Checks that folders, files, index and segments agree, including what is in memory. Empty if they do.
    pub fn check(&mut self) -> Result<Vec<Finding>> {
        let mut walk = Walk { live: vec![0; self.log.segments.count() as usize], ..Walk::default() };
        self.check_folders(&mut walk)?;
        for id in self.orphans.clone() {
            walk.files.entry(id).or_default();
        }
        for id in walk.files.keys().copied().collect::<Vec<_>>() {
            self.check_file(id, &mut walk)?;
        }
        for file in self.index.files(&mut self.log)? {
            if !walk.files.contains_key(&file) && !self.is_snapshot {
                walk.findings.push(Finding::Nameless { file });
            }
        }
        if self.is_snapshot {
            return Ok(walk.findings); // the use of space concerns only the present
        }
        let Walk { mut places, mut live, mut promised, nodes, mut findings, .. } = walk;
        let segments = self.log.segments.clone();
        let mut visit = |place: Option<Lpn>| match place {
            None => promised += 1,
            Some(lpn) => {
                if let Some(segment) = segments.find(lpn).filter(|_| places.insert(lpn)) {
                    live[segment as usize] += 1;
                }
            }
        };
        self.index.audit(&mut self.log, nodes, &mut visit, &mut findings)?;
        if let Some((segment, counted, owned)) = self.log.segments.differs_from(&live) {
            findings.push(Finding::LiveUnits { segment, counted, owned });
        }
        let counted = self.log.segments.reserved();
        if counted != promised {
            findings.push(Finding::Promised { counted, owned: promised });
        }
        Ok(findings)
    }

    fn check_folders(&mut self, walk: &mut Walk) -> Result<()> {
        walk.files.insert(FileId::ROOT, Seen::default());
        let mut folders = vec![FileId::ROOT];
        while let Some(folder) = folders.pop() {
            for (name, file, kind) in self.check_blocks(folder, walk)? {
                let wrong = |why: String| Finding::BadFolder { folder, why };
                let shown = String::from_utf8_lossy(&name).into_owned();
                let is_known = walk.files.contains_key(&file);
                walk.files.entry(file).or_default().names += 1;
                let inode = match self.file(file) {
                    Ok(file) => file.inode.clone(),
                    Err(error) => {
                        walk.files.remove(&file);
                        walk.findings.push(wrong(format!("{shown:?} names file {file}: {error}")));
                        continue;
                    }
                };
                if inode.metadata.kind != kind {
                    walk.findings.push(wrong(format!(
                        "{shown:?} is said to be a {kind:?}, but is a {:?}",
                        inode.metadata.kind
                    )));
                }
                if kind != FileKind::Folder {
                    continue;
                }
                walk.files.entry(folder).or_default().subfolders += 1;
                if is_known {
                    walk.findings.push(wrong(format!("{shown:?} is a second name of folder {file}")));
                } else {
                    folders.push(file);
                }
                if inode.parent != folder {
                    walk.findings
                        .push(wrong(format!("{shown:?} says that it is in folder {}", inode.parent)));
                }
            }
        }
        Ok(())
    }

    /// The entries of a folder as stored in its blocks.
    fn check_blocks(&mut self, folder: FileId, walk: &mut Walk) -> Result<Vec<(Vec<u8>, FileId, FileKind)>> {
        let units = units_of(self.file(folder)?.inode.metadata.size);
        let (mut entries, mut names) = (Vec::new(), BTreeSet::new());
        for unit in 0..units {
            let page = match self.page(folder, unit as u32) {
                Ok(Some(page)) => page,
                Ok(None) => continue,
                Err(error @ LfsError::Device(_)) => return Err(error),
                Err(error) => {
                    walk.findings.push(Finding::BadFolder { folder, why: error.to_string() });
                    continue;
                }
            };
            if !is_whole(page) {
                let why = format!("block {unit} is damaged");
                walk.findings.push(Finding::BadFolder { folder, why });
                continue;
            }
            for entry in entries_of(page) {
                if !names.insert(entry.name.to_vec()) {
                    let why = format!("{:?} is there twice", String::from_utf8_lossy(entry.name));
                    walk.findings.push(Finding::BadFolder { folder, why });
                }
                entries.push((entry.name.to_vec(), entry.file, entry.kind));
            }
        }
        Ok(entries)
    }

    fn check_file(&mut self, id: FileId, walk: &mut Walk) -> Result<()> {
        let inode = match self.file(id) {
            Ok(file) => file.inode.clone(),
            Err(error) => {
                walk.findings.push(Finding::BadInode { file: id, why: error.to_string() });
                return Ok(());
            }
        };
        let Walk { files, places, live, promised, nodes, findings } = walk;
        let segments = self.log.segments.clone();
        let mut units = 0;
        let mut outside = Vec::new();
        let mut visit = |owner: Owner, place: Option<Lpn>| {
            match owner {
                Owner::Content { .. } => units += 1,
                Owner::Index(_) => *nodes += 1,
            }
            let Some(lpn) = place else {
                *promised += 1;
                return;
            };
            match segments.find(lpn) {
                None => outside.push(Finding::OutsideLog { lpn, file: id }),
                Some(_) if !places.insert(lpn) => outside.push(Finding::SharedUnit { lpn, file: id }),
                Some(segment) => live[segment as usize] += 1,
            }
        };
        self.index.audit_file(&mut self.log, id, &mut visit, findings)?;
        findings.extend(outside);
        let mut wrong = |why: String| findings.push(Finding::BadInode { file: id, why });
        if units != inode.metadata.units {
            wrong(format!("it counts {} units, but has {units}", inode.metadata.units));
        }
        let seen = &files[&id];
        let links = if inode.is_folder() { 2 + seen.subfolders } else { seen.names };
        if links != inode.metadata.links && !(self.orphans.contains(&id) && inode.metadata.links == 0) {
            wrong(format!("it counts {} names, but has {links}", inode.metadata.links));
        }
        Ok(())
    }
}
