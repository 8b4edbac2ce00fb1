//! A set of files, some of which exist: filebench's fileset.

use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum_filesystem::{FileId, FileKind, FileSystem, Outcome};
use tantalum_report::Bar;

use super::files::{NOW, new, write};
use crate::error::WorkloadError;

/// Shape of the gamma distribution of sizes: filebench's default.
const GAMMA_SHAPE: f64 = 1.5;

/// Folders within a folder of folders.
const FOLDERS: usize = 20;

/// The shape of a set.
pub(super) struct SetShape {
    pub mean_bytes: u64,
    /// Files of a folder.
    pub width: usize,
    /// Files that exist at the beginning.
    pub prealloc_percent: usize,
}

/// One file of the set.
struct SetFile {
    folder: FileId,
    file: Option<FileId>,
    bytes: u64,
    users: u32,
}

/// The set.
pub(super) struct FileSet {
    entries: Vec<SetFile>,
    existing: Vec<usize>,
    absent: Vec<usize>,
}

impl FileSet {
    /// Creates the folders, and the files that exist at the beginning.
    pub fn prepare(
        fs: &mut dyn FileSystem,
        shape: &SetShape,
        files: usize,
        random: &mut Xoshiro256PlusPlus,
        bar: &Bar,
    ) -> Result<FileSet, WorkloadError> {
        let folders = make_folders(fs, files.div_ceil(shape.width))?;
        let entry = |number: usize, bytes| SetFile {
            folder: folders[number / shape.width],
            file: None,
            bytes,
            users: 0,
        };
        let entries = (0..files).map(|number| entry(number, gamma(random, shape.mean_bytes))).collect();
        let mut set = FileSet { entries, existing: Vec::new(), absent: (0..files).rev().collect() };
        for number in 0..files * shape.prealloc_percent / 100 {
            let entry = set.create(fs, random)?.expect("there are files left");
            let bytes = set.entries[entry].bytes;
            write(fs, set.file(entry), 0, bytes)?;
            set.release(entry);
            if number % 256 == 0 {
                bar.check()?;
            }
        }
        Ok(set)
    }

    /// The file of an entry that exists.
    pub fn file(&self, entry: usize) -> FileId {
        self.entries[entry].file.expect("the file exists")
    }

    /// The size of a new file.
    pub fn bytes(&self, entry: usize) -> u64 {
        self.entries[entry].bytes
    }

    /// Creates a file that does not exist, and takes it; `None` if all exist.
    pub fn create(
        &mut self,
        fs: &mut dyn FileSystem,
        random: &mut Xoshiro256PlusPlus,
    ) -> Outcome<Option<usize>> {
        let Some(entry) = take_any(&mut self.absent, random, |_| true) else { return Ok(None) };
        let file = fs.create_in(self.entries[entry].folder, &name(entry), &new(FileKind::File))?;
        self.entries[entry].file = Some(file);
        self.entries[entry].users = 1;
        self.existing.push(entry);
        Ok(Some(entry))
    }

    /// Takes a file that exists.
    pub fn pick(&mut self, random: &mut Xoshiro256PlusPlus) -> Option<usize> {
        let place = (!self.existing.is_empty()).then(|| random.random_range(0..self.existing.len()))?;
        let entry = self.existing[place];
        self.entries[entry].users += 1;
        Some(entry)
    }

    /// A thread is done with a file.
    pub fn release(&mut self, entry: usize) {
        self.entries[entry].users -= 1;
    }

    /// Deletes a file that nobody uses; false if there is none.
    pub fn delete(&mut self, fs: &mut dyn FileSystem, random: &mut Xoshiro256PlusPlus) -> Outcome<bool> {
        let entries = &self.entries;
        let Some(entry) = take_any(&mut self.existing, random, |entry| entries[entry].users == 0) else {
            return Ok(false);
        };
        fs.unlink(self.entries[entry].folder, &name(entry), NOW)?;
        self.entries[entry].file = None;
        self.absent.push(entry);
        Ok(true)
    }
}

/// Takes an accepted entry of a list, searching from a random place.
fn take_any(
    list: &mut Vec<usize>,
    random: &mut Xoshiro256PlusPlus,
    accept: impl Fn(usize) -> bool,
) -> Option<usize> {
    let length = list.len();
    let start = (length > 0).then(|| random.random_range(0..length))?;
    let place = (0..length).map(|step| (start + step) % length).find(|place| accept(list[*place]))?;
    Some(list.swap_remove(place))
}

fn name(entry: usize) -> Vec<u8> {
    format!("{entry:08}").into_bytes()
}

/// `count` folders for files, in folders of [`FOLDERS`] each; one is the root folder itself.
fn make_folders(fs: &mut dyn FileSystem, count: usize) -> Outcome<Vec<FileId>> {
    let mut level = vec![FileId::ROOT];
    while level.len() < count {
        let below = (level.len() * FOLDERS).min(count);
        let mut next = Vec::with_capacity(below);
        for number in 0..below {
            let name = format!("folder{number:05}").into_bytes();
            next.push(fs.create_in(level[number / FOLDERS], &name, &new(FileKind::Folder))?);
        }
        level = next;
    }
    Ok(level)
}

/// A size with the gamma distribution of shape 1.5: an exponential one, and half the square of a normal one.
fn gamma(random: &mut Xoshiro256PlusPlus, mean: u64) -> u64 {
    let uniform = |random: &mut Xoshiro256PlusPlus| 1.0 - random.random::<f64>();
    let exponential = -uniform(random).ln();
    let angle = std::f64::consts::TAU * random.random::<f64>();
    let normal = (-2.0 * uniform(random).ln()).sqrt() * angle.cos();
    let drawn = exponential + normal * normal / 2.0;
    ((drawn / GAMMA_SHAPE * mean as f64) as u64).max(1)
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    #[test]
    fn sizes_have_the_mean_and_the_variance_of_the_gamma_distribution() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        let sizes: Vec<f64> = (0..100_000).map(|_| gamma(&mut random, 16_384) as f64 / 16_384.0).collect();
        let mean = sizes.iter().sum::<f64>() / sizes.len() as f64;
        let variance = sizes.iter().map(|size| (size - mean).powi(2)).sum::<f64>() / sizes.len() as f64;
        assert!((0.98..1.02).contains(&mean), "{mean}");
        assert!((0.63..0.70).contains(&variance), "1 / shape: {variance}");
    }
}
