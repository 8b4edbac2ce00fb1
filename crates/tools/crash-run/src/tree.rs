//! Files and folders as they are after a power cut.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::sync::{Arc, OnceLock};

use nix::sys::stat::{Mode, SFlag};
use tantalum_filesystem::FileKind;

use crate::operation::{Attribute, FileNumber, FolderName, Made, ROOT};

/// The page size of the kernel's page cache.
pub(crate) const PAGE_BYTES: u64 = 4096;

/// A page of a file with its hash. Outcomes share equal pages.
#[derive(Clone, Debug)]
struct Page {
    bytes: [u8; PAGE_BYTES as usize],
    hash: OnceLock<u64>,
}

impl Page {
    fn zeros() -> Page {
        Page { bytes: [0; PAGE_BYTES as usize], hash: OnceLock::new() }
    }

    fn change(&mut self) -> &mut [u8] {
        self.hash = OnceLock::new();
        &mut self.bytes
    }
}

/// The hash of some bytes of a page; 0 for zeros, which need not be stored.
fn hash_of(bytes: &[u8]) -> u64 {
    if bytes.iter().all(|byte| *byte == 0) {
        return 0;
    }
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish().max(1)
}

/// The contents of a file; missing pages are zeros.
#[derive(Clone, Default, Debug)]
pub struct Contents {
    /// Bytes.
    pub size: u64,
    pages: BTreeMap<u64, Arc<Page>>,
}

impl Contents {
    /// Writes bytes at an offset. The size does not change, and bytes beyond it are not visible.
    pub fn put(&mut self, mut offset: u64, mut data: &[u8]) {
        while !data.is_empty() {
            let (page, within) = (offset / PAGE_BYTES, (offset % PAGE_BYTES) as usize);
            let bytes = data.len().min(PAGE_BYTES as usize - within);
            let page = self.pages.entry(page).or_insert_with(|| Arc::new(Page::zeros()));
            Arc::make_mut(page).change()[within..within + bytes].copy_from_slice(&data[..bytes]);
            (offset, data) = (offset + bytes as u64, &data[bytes..]);
        }
    }

    /// Zeroes a range.
    pub fn clear(&mut self, offset: u64, bytes: u64) {
        let end = offset.saturating_add(bytes);
        let pages: Vec<u64> =
            self.pages.range(offset / PAGE_BYTES..=end / PAGE_BYTES).map(|(page, _)| *page).collect();
        for page in pages {
            let (start, page_end) = (page * PAGE_BYTES, (page + 1) * PAGE_BYTES);
            let (from, to) = (offset.max(start) - start, end.min(page_end).saturating_sub(start));
            if (from, to) == (0, PAGE_BYTES) {
                self.pages.remove(&page);
            } else if from < to
                && let Some(bytes) = self.pages.get_mut(&page)
            {
                Arc::make_mut(bytes).change()[from as usize..to as usize].fill(0);
            }
        }
    }

    /// Truncates the file, or extends it with zeros.
    pub fn resize(&mut self, size: u64) {
        let least = size.min(self.size);
        self.clear(least, u64::MAX - least);
        self.size = size;
    }

    /// The visible pages, each with its offset and its bytes before the end of the file.
    fn seen(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let pages = self.pages.range(..self.size.div_ceil(PAGE_BYTES));
        pages.map(|(page, contents)| (page * PAGE_BYTES, self.seen_of(*page, contents)))
    }

    fn seen_of<'a>(&self, page: u64, contents: &'a Page) -> &'a [u8] {
        &contents.bytes[..(self.size - page * PAGE_BYTES).min(PAGE_BYTES) as usize]
    }

    /// The visible pages that are not all zeros, with their hashes.
    fn hashes(&self) -> impl Iterator<Item = (u64, u64)> {
        let pages = self.pages.range(..self.size.div_ceil(PAGE_BYTES));
        let hashes = pages.map(|(page, contents)| {
            let seen = self.seen_of(*page, contents);
            match seen.len() == contents.bytes.len() {
                true => (*page, *contents.hash.get_or_init(|| hash_of(seen))),
                false => (*page, hash_of(seen)),
            }
        });
        hashes.filter(|(_, hash)| *hash != 0)
    }
}

/// A file of any kind.
#[derive(Clone, Debug)]
pub struct File {
    /// Its kind, permissions and so on, as changed since it was created.
    pub made: Made,
    /// Its contents, if it is a file.
    pub contents: Contents,
    /// Extended attributes.
    pub attributes: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl File {
    /// A new file.
    pub fn new(made: Made) -> File {
        File { made, contents: Contents::default(), attributes: BTreeMap::new() }
    }

    /// Changes an attribute.
    pub fn change(&mut self, attribute: &Attribute) {
        match attribute {
            Attribute::Permissions(permissions) => self.made.permissions = *permissions,
            Attribute::Owner(owner, group) => {
                self.made.owner = owner.unwrap_or(self.made.owner);
                self.made.group = group.unwrap_or(self.made.group);
            }
            Attribute::Extended(name, Some(value)) => {
                self.attributes.insert(name.clone(), value.clone());
            }
            Attribute::Extended(name, None) => {
                self.attributes.remove(name);
            }
        }
    }
}

/// Files and their names. Files without names are not visible.
#[derive(Clone, Debug)]
pub struct Tree {
    /// All files.
    pub files: BTreeMap<FileNumber, Arc<File>>,
    /// All names.
    pub names: BTreeMap<FolderName, FileNumber>,
}

impl Default for Tree {
    fn default() -> Tree {
        let made =
            Made { kind: FileKind::Folder, permissions: 0o755, owner: 0, group: 0, target: Vec::new() };
        Tree { files: BTreeMap::from([(ROOT, Arc::new(File::new(made)))]), names: BTreeMap::new() }
    }
}

impl Tree {
    /// A file, mutable.
    pub fn file(&mut self, file: FileNumber) -> Option<&mut File> {
        self.files.get_mut(&file).map(Arc::make_mut)
    }

    /// The names in a folder.
    pub fn entries(&self, folder: FileNumber) -> impl Iterator<Item = (&[u8], FileNumber)> {
        let first = FolderName { folder, name: Vec::new() };
        let entries = self.names.range(first..).take_while(move |(entry, _)| entry.folder == folder);
        entries.map(|(entry, file)| (&entry.name[..], *file))
    }

    /// Calls `visit` with the path of each visible name, folders before their contents.
    pub fn walk<E>(&self, visit: &mut dyn FnMut(&Path, FileNumber, &File) -> Result<(), E>) -> Result<(), E> {
        // a folder has one name; a cut during a move may leave two, of which the second is skipped
        let mut seen = std::collections::BTreeSet::from([ROOT]);
        let mut folders = vec![(ROOT, std::path::PathBuf::new())];
        while let Some((folder, path)) = folders.pop() {
            for (name, number) in self.entries(folder) {
                let Some(file) = self.files.get(&number) else { continue };
                let path = path.join(OsStr::from_bytes(name));
                if file.made.kind == FileKind::Folder {
                    if !seen.insert(number) {
                        continue;
                    }
                    folders.push((number, path.clone()));
                }
                visit(&path, number, file)?;
            }
        }
        Ok(())
    }

    /// A hash of everything that a program can see.
    pub fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        let mut links: BTreeMap<FileNumber, usize> = BTreeMap::new();
        let visit = &mut |path: &Path, number: FileNumber, file: &File| {
            let names = links.len();
            path.hash(&mut hasher);
            // hard links are distinguished from copies
            let first = *links.entry(number).or_insert(names);
            (first, file.made.kind as u8, file.made.permissions).hash(&mut hasher);
            (&file.made.target, file.contents.size, &file.attributes).hash(&mut hasher);
            if first == names {
                file.contents.hashes().for_each(|page| page.hash(&mut hasher));
            }
            Ok::<(), std::convert::Infallible>(())
        };
        let Ok(()) = self.walk(visit);
        hasher.finish()
    }

    /// Creates these files and folders in an empty folder of the host.
    pub fn write_to(&self, folder: &Path) -> io::Result<()> {
        let mut made: BTreeMap<FileNumber, std::path::PathBuf> = BTreeMap::new();
        let mut folders = Vec::new();
        self.walk(&mut |path, number, file| {
            let path = folder.join(path);
            if let Some(first) = made.get(&number) {
                return fs::hard_link(first, &path);
            }
            make(&path, file)?;
            if file.made.kind == FileKind::Folder {
                folders.push((path.clone(), file.made.permissions));
            } else if file.made.kind != FileKind::SymbolicLink {
                fs::set_permissions(&path, fs::Permissions::from_mode(file.made.permissions.into()))?;
            }
            made.insert(number, path);
            Ok(())
        })?;
        // last, because nothing can be created in a read-only folder
        for (path, permissions) in folders.iter().rev() {
            fs::set_permissions(path, fs::Permissions::from_mode((*permissions).into()))?;
        }
        Ok(())
    }
}

fn make(path: &Path, file: &File) -> io::Result<()> {
    let node = |kind| Ok(nix::sys::stat::mknod(path, kind, Mode::S_IRWXU, 0)?);
    match file.made.kind {
        FileKind::Folder => fs::create_dir(path),
        FileKind::SymbolicLink => symlink(OsStr::from_bytes(&file.made.target), path),
        FileKind::Fifo => node(SFlag::S_IFIFO),
        FileKind::Socket => node(SFlag::S_IFSOCK),
        // creating devices needs root
        FileKind::CharDevice | FileKind::BlockDevice => Ok(()),
        FileKind::File => {
            let mut to = fs::File::create_new(path)?;
            to.set_len(file.contents.size)?;
            for (place, bytes) in file.contents.seen() {
                to.seek(SeekFrom::Start(place))?;
                to.write_all(bytes)?;
            }
            Ok(())
        }
    }
}
