//! The worst that POSIX allows: any part of what was not synced may survive a power cut, in any order.
//!
//! Each operation is one or several *pieces*, each of which survives or not. Bytes are pieces of a sector, since disks write
//! whole sectors. A file's growth is a piece of its own, or one for each page if a write grew it: the kernel takes a write page
//! by page, and may store the size between two of them. A change of names is one piece even if it changes two: a rename is never
//! half done.
//!
//! | what | is durable with |
//! |---|---|
//! | bytes, a size | `fsync` or `fdatasync` of the file |
//! | permissions, owners, extended attributes | `fsync` of the file or folder |
//! | names | `fsync` of the folder; of a rename between folders, of either of them |
//!
//! Syncing a file does not make its name durable, as the manual page of `fsync` says. Synced pieces are part of
//! [`Posix::durable`], the others of [`Posix::waiting`].
//!
//! One order remains: a sector is stored as a whole, as the program last saw it. So of two writes to one sector the later does
//! not survive without the earlier ([`Posix::earlier`]).

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use tantalum_filesystem::RenameMode;

use crate::operation::{Attribute, FileNumber, FolderName, Operation, ROOT, Recording};
use crate::sector::Sector;
use crate::tree::{File, PAGE_BYTES, Tree};

/// What may survive.
#[derive(Clone, Debug)]
pub(crate) enum What {
    /// Bytes of what was written.
    Bytes { file: FileNumber, offset: u64, data: Arc<[u8]>, from: usize, bytes: usize },
    /// The file has at least this size.
    Grown(FileNumber, u64),
    /// The file has this size.
    Resized(FileNumber, u64),
    /// Zeros.
    Zeros { file: FileNumber, offset: u64, bytes: u64 },
    /// An attribute.
    Changed(FileNumber, Attribute),
    /// Names, and the files that they belong to.
    Names(Vec<(FolderName, Option<FileNumber>)>),
}

impl What {
    /// The file whose contents or attributes it changes.
    pub fn file(&self) -> Option<FileNumber> {
        match self {
            What::Bytes { file, .. }
            | What::Grown(file, _)
            | What::Resized(file, _)
            | What::Zeros { file, .. }
            | What::Changed(file, _) => Some(*file),
            What::Names(_) => None,
        }
    }

    /// The least size of the file with it.
    pub fn grown_to(&self) -> Option<u64> {
        match self {
            What::Grown(_, size) => Some(*size),
            _ => None,
        }
    }

    /// Its end in the file; 0 if it has none.
    pub fn end(&self) -> u64 {
        match self {
            What::Bytes { offset, from, bytes, .. } => offset + (from + bytes) as u64,
            What::Grown(_, size) => *size,
            _ => 0,
        }
    }

    fn apply(&self, tree: &mut Tree) {
        match self {
            What::Names(names) => {
                for (entry, file) in names {
                    match file {
                        Some(file) => tree.names.insert(entry.clone(), *file),
                        None => tree.names.remove(entry),
                    };
                }
            }
            other => {
                let Some(file) = other.file().and_then(|file| tree.file(file)) else { return };
                other.apply_to(file);
            }
        }
    }

    fn apply_to(&self, file: &mut File) {
        let contents = &mut file.contents;
        match self {
            What::Bytes { offset, data, from, bytes, .. } => {
                contents.put(offset + *from as u64, &data[*from..from + bytes]);
            }
            What::Grown(_, size) => contents.size = contents.size.max(*size),
            What::Resized(_, size) => contents.resize(*size),
            What::Zeros { offset, bytes, .. } => contents.clear(*offset, *bytes),
            What::Changed(_, attribute) => file.change(attribute),
            What::Names(_) => {}
        }
    }
}

/// A part of an operation that may survive or not.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    /// Which operation.
    pub operation: usize,
    pub what: What,
}

/// What is durable and what is not, after some operations.
#[derive(Clone, Debug)]
pub(crate) struct Posix {
    sector: Sector,
    /// What survives for certain.
    pub durable: Tree,
    /// What may survive, in the order of the operations.
    pub waiting: Vec<Piece>,
    /// Everything, as the program sees it.
    live: Tree,
}

impl Posix {
    /// Before the first operation.
    pub fn new(sector: Sector) -> Posix {
        Posix { sector, durable: Tree::default(), waiting: Vec::new(), live: Tree::default() }
    }

    /// After this many operations of a recording; those before the program began are durable. `added` are more syncs, each
    /// right after an operation.
    pub fn after(
        recording: &Recording,
        operations: usize,
        sector: Sector,
        added: &[(usize, Operation)],
    ) -> Posix {
        let mut posix = Posix::new(sector);
        for (number, operation) in recording.operations[..operations].iter().enumerate() {
            posix.then(number, operation);
            if number + 1 == recording.begins {
                posix.settle(|_| true);
            }
            for (_, sync) in added.iter().filter(|(after, _)| *after == number) {
                posix.then(number, sync);
            }
        }
        posix
    }

    /// The disk's sectors.
    pub fn sector(&self) -> Sector {
        self.sector
    }

    /// Adds the next operation.
    pub fn then(&mut self, number: usize, operation: &Operation) {
        match operation {
            Operation::Sync(file) => self.settle(|what| what.file() == Some(*file)),
            Operation::SyncData(file) => {
                self.settle(|what| what.file() == Some(*file) && !matches!(what, What::Changed(..)))
            }
            Operation::SyncFolder(folder) => self.settle_folder(*folder),
            other => {
                if let Operation::Create(_, file, made) = other {
                    let file_of = || Arc::new(File::new(made.clone()));
                    self.live.files.insert(*file, file_of());
                    self.durable.files.insert(*file, file_of());
                }
                for what in self.pieces(other) {
                    what.apply(&mut self.live);
                    self.waiting.push(Piece { operation: number, what });
                }
            }
        }
    }

    /// The files if these waiting pieces survive.
    pub fn tree(&self, is_there: impl Fn(usize) -> bool) -> Tree {
        let mut tree = self.durable.clone();
        for (index, piece) in self.waiting.iter().enumerate() {
            if is_there(index) {
                piece.what.apply(&mut tree);
            }
        }
        tree
    }

    /// The operations that are lost in whole or in part if these pieces survive.
    pub fn lost_operations(&self, kept: &[bool]) -> BTreeSet<usize> {
        let lost = self.waiting.iter().zip(kept).filter(|(_, kept)| !**kept);
        lost.map(|(piece, _)| piece.operation).collect()
    }

    /// For each waiting piece, the one before it in the same sector.
    pub fn earlier(&self) -> Vec<Option<usize>> {
        let mut last: HashMap<(FileNumber, u64), usize> = HashMap::new();
        let place = |what: &What| match what {
            What::Bytes { file, offset, from, .. } => Some((*file, self.sector.of(offset + *from as u64))),
            _ => None,
        };
        let pieces = self.waiting.iter().enumerate();
        pieces.map(|(index, piece)| last.insert(place(&piece.what)?, index)).collect()
    }

    /// The pieces that nobody can see if these survive: of files whose names did not, although the program has not removed them.
    pub fn unseen(&self, kept: &[bool]) -> BTreeSet<usize> {
        let named = |tree: &Tree| tree.names.values().copied().collect::<BTreeSet<FileNumber>>();
        let (found, all) = (named(&self.tree(|index| kept[index])), named(&self.live));
        let is_unseen = |file: &FileNumber| *file != ROOT && all.contains(file) && !found.contains(file);
        let pieces = self.waiting.iter().enumerate();
        pieces
            .filter(|(_, piece)| piece.what.file().as_ref().is_some_and(is_unseen))
            .map(|(index, _)| index)
            .collect()
    }

    fn settle(&mut self, is_synced: impl Fn(&What) -> bool) {
        let (synced, waiting) =
            std::mem::take(&mut self.waiting).into_iter().partition(|piece| is_synced(&piece.what));
        self.waiting = waiting;
        let synced: Vec<Piece> = synced;
        synced.iter().for_each(|piece| piece.what.apply(&mut self.durable));
    }

    /// Makes a folder's names durable. Waiting changes of a name that are older than a durable one no longer count.
    fn settle_folder(&mut self, folder: FileNumber) {
        let of_folder = |what: &What| match what {
            What::Names(names) => names.iter().any(|(entry, _)| entry.folder == folder),
            _ => false,
        };
        let mut settled: BTreeSet<FolderName> = BTreeSet::new();
        for piece in self.waiting.iter_mut().rev() {
            let is_synced = of_folder(&piece.what);
            let What::Names(names) = &mut piece.what else { continue };
            if is_synced {
                settled.extend(names.iter().map(|(entry, _)| entry.clone()));
            } else {
                names.retain(|(entry, _)| !settled.contains(entry));
            }
        }
        self.settle(|what| of_folder(what) || what.file() == Some(folder));
        self.waiting.retain(|piece| !matches!(&piece.what, What::Names(names) if names.is_empty()));
    }

    fn pieces(&self, operation: &Operation) -> Vec<What> {
        let named = |entry: &FolderName| self.live.names.get(entry).copied();
        match operation {
            Operation::Create(entry, file, _) | Operation::Link(entry, file) => {
                vec![What::Names(vec![(entry.clone(), Some(*file))])]
            }
            Operation::Unlink(entry) | Operation::RemoveFolder(entry) => {
                vec![What::Names(vec![(entry.clone(), None)])]
            }
            Operation::Rename(from, to, mode) => {
                let other = if *mode == RenameMode::Exchange { named(to) } else { None };
                vec![What::Names(vec![(from.clone(), other), (to.clone(), named(from))])]
            }
            Operation::Write(file, offset, data) => self.written(*file, *offset, data),
            Operation::Zero { file, offset, bytes, keep_size } => {
                let mut pieces = self.grown(*file, offset + bytes, *keep_size);
                pieces.extend(zeros(*file, *offset, *bytes));
                pieces
            }
            Operation::Allocate { file, offset, bytes, keep_size } => {
                self.grown(*file, offset + bytes, *keep_size)
            }
            Operation::Resize(file, size) => vec![What::Resized(*file, *size)],
            Operation::Change(file, attribute) => vec![What::Changed(*file, attribute.clone())],
            Operation::Sync(_) | Operation::SyncData(_) | Operation::SyncFolder(_) => Vec::new(),
        }
    }

    fn grown(&self, file: FileNumber, end: u64, keep_size: bool) -> Vec<What> {
        let size = self.live.files.get(&file).map_or(0, |file| file.contents.size);
        if keep_size || end <= size { Vec::new() } else { vec![What::Grown(file, end)] }
    }

    fn written(&self, file: FileNumber, offset: u64, data: &Arc<[u8]>) -> Vec<What> {
        let end = offset + data.len() as u64;
        let size = self.live.files.get(&file).map_or(0, |file| file.contents.size);
        let first_page = (size.max(offset) / PAGE_BYTES + 1) * PAGE_BYTES;
        let pages = (first_page..end).step_by(PAGE_BYTES as usize);
        let mut pieces: Vec<What> = pages.map(|size| What::Grown(file, size)).collect();
        pieces.extend(self.grown(file, end, false));
        let mut from = 0;
        while from < data.len() {
            let bytes = self.sector.left(offset + from as u64).min(data.len() - from);
            pieces.push(What::Bytes { file, offset, data: Arc::clone(data), from, bytes });
            from += bytes;
        }
        pieces
    }
}

/// The pieces of a zeroed range: the kernel writes zeros to the partial pages at its ends, and deallocates the whole pages in
/// between.
fn zeros(file: FileNumber, offset: u64, bytes: u64) -> impl Iterator<Item = What> {
    let end = offset.saturating_add(bytes);
    let first = offset.next_multiple_of(PAGE_BYTES).min(end);
    let last = (end - end % PAGE_BYTES).max(first);
    let ranges = [(offset, first), (first, last), (last, end)];
    let whole = ranges.into_iter().filter(|(from, to)| from < to);
    whole.map(move |(from, to)| What::Zeros { file, offset: from, bytes: to - from })
}

#[cfg(test)]
mod tests {
    use tantalum_filesystem::FileKind;

    use super::*;
    use crate::operation::Made;

    fn entry(name: &str) -> FolderName {
        FolderName { folder: ROOT, name: name.as_bytes().to_vec() }
    }

    fn made() -> Made {
        Made { kind: FileKind::File, permissions: 0o644, owner: 0, group: 0, target: Vec::new() }
    }

    fn after(operations: &[Operation]) -> Posix {
        let mut posix = Posix::new(Sector::Bytes512);
        operations.iter().enumerate().for_each(|(number, operation)| posix.then(number, operation));
        posix
    }

    fn bytes(tree: &Tree, name: &str) -> Option<(u64, u64)> {
        let file = &tree.files[tree.names.get(&entry(name))?];
        Some((file.contents.size, tree.digest()))
    }

    fn replaced() -> Vec<Operation> {
        vec![
            Operation::Create(entry("a"), 1, made()),
            Operation::Write(1, 0, vec![1; 700].into()),
            Operation::Sync(1),
            Operation::SyncFolder(ROOT),
            Operation::Create(entry("b"), 2, made()),
            Operation::Write(2, 0, vec![2; 600].into()),
            Operation::Rename(entry("b"), entry("a"), RenameMode::Replace),
        ]
    }

    #[test]
    fn a_rename_may_be_there_without_what_was_written_before_it() {
        let posix = after(&replaced());
        let renamed = |index: usize| matches!(posix.waiting[index].what, What::Names(_));
        assert_eq!(bytes(&posix.tree(|_| false), "a").unwrap().0, 700);
        assert_eq!(bytes(&posix.tree(renamed), "a").unwrap().0, 0, "named and empty");
        assert_eq!(bytes(&posix.tree(|_| true), "a").unwrap().0, 600);
        assert!(bytes(&posix.tree(renamed), "b").is_none());
    }

    #[test]
    fn what_is_synced_is_there() {
        let mut operations = replaced();
        operations.insert(6, Operation::SyncData(2));
        let posix = after(&operations);
        let renamed = |index: usize| matches!(posix.waiting[index].what, What::Names(_));
        assert_eq!(bytes(&posix.tree(renamed), "a"), bytes(&posix.tree(|_| true), "a"));
        assert_eq!(bytes(&posix.tree(|_| false), "a").unwrap().0, 700, "its name is not durable");
        operations.push(Operation::SyncFolder(ROOT));
        let posix = after(&operations);
        assert!(posix.waiting.is_empty());
        assert_eq!(bytes(&posix.tree(|_| false), "a").unwrap().0, 600);
    }

    #[test]
    fn a_name_that_was_moved_away_durably_does_not_come_back() {
        let folder = Made { kind: FileKind::Folder, ..made() };
        let inside = FolderName { folder: 2, name: b"x".to_vec() };
        let posix = after(&[
            Operation::Create(entry("a"), 1, made()),
            Operation::Create(entry("d"), 2, folder),
            Operation::Rename(entry("a"), inside.clone(), RenameMode::Replace),
            Operation::SyncFolder(2),
        ]);
        let tree = posix.tree(|_| true);
        assert_eq!(tree.names.get(&inside), Some(&1));
        assert!(!tree.names.contains_key(&entry("a")));
        assert!(!posix.tree(|_| false).names.contains_key(&entry("a")));
    }

    #[test]
    fn writes_are_torn_at_sectors_and_sizes_are_pieces() {
        let posix = after(&[
            Operation::Create(entry("a"), 1, made()),
            Operation::Write(1, 500, vec![7; 1024].into()),
        ]);
        let lengths: Vec<usize> = posix
            .waiting
            .iter()
            .filter_map(|piece| match piece.what {
                What::Bytes { bytes, .. } => Some(bytes),
                _ => None,
            })
            .collect();
        assert_eq!(lengths, [12, 512, 500]);
        let without_size = posix.tree(|index| !matches!(posix.waiting[index].what, What::Grown(..)));
        assert_eq!(bytes(&without_size, "a").unwrap().0, 0);
    }
}
