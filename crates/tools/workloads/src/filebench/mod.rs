//! Filebench's personalities fileserver, varmail, webserver and OLTP, as its definitions (version 3.0) describe them:
//! files, threads, and the operations that each thread repeats. Facts are taken from `fileserver.f`, `varmail.f`,
//! `webserver.f` and `oltp.f` of filebench; sizes of files have its default gamma distribution, of shape 1.5.
//!
//! Threads run in virtual time, each with one operation in flight. They take no time themselves, except for OLTP's
//! processes, whose work is given in the definition.

mod file_set;
mod files;
mod oltp;
mod thread;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum::Nanoseconds;
use tantalum_filesystem::{FileId, FileSystem};
use tantalum_report::Bar;

use crate::closed_loop::Turn;
use crate::error::WorkloadError;
use file_set::{FileSet, SetShape};
use oltp::Oltp;
use thread::{Step, Thread};

/// Virtual time between two write-backs, as on a mount.
const WRITE_BACK_NS: Nanoseconds = 5_000_000_000;

/// Operations between two checks for an interruption.
const OPERATIONS_PER_STEP: u64 = 256;

/// One of Filebench's workloads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Personality {
    /// Whole files are written, appended to, read and deleted.
    Fileserver,
    /// Small files are appended to and synced, read, and deleted: a mail server.
    Varmail,
    /// Small files are read, and a log is appended to.
    Webserver,
    /// Database writers and a log writer with synchronous writes, next to readers.
    Oltp,
}

/// The definition of a personality of whole files.
struct Shape {
    files: usize,
    set: SetShape,
    threads: u32,
    steps: &'static [Step],
}

impl Personality {
    /// All personalities.
    pub const ALL: [Personality; 4] =
        [Personality::Fileserver, Personality::Varmail, Personality::Webserver, Personality::Oltp];

    /// Its name in filebench.
    pub fn name(self) -> &'static str {
        match self {
            Personality::Fileserver => "fileserver",
            Personality::Varmail => "varmail",
            Personality::Webserver => "webserver",
            Personality::Oltp => "OLTP",
        }
    }

    fn shape(self) -> Shape {
        match self {
            Personality::Fileserver => Shape {
                files: 10_000,
                set: SetShape { mean_bytes: 128 << 10, width: 20, prealloc_percent: 80 },
                threads: 50,
                steps: thread::FILESERVER,
            },
            Personality::Varmail => Shape {
                files: 1000,
                set: SetShape { mean_bytes: 16 << 10, width: 1_000_000, prealloc_percent: 80 },
                threads: 16,
                steps: thread::VARMAIL,
            },
            Personality::Webserver => Shape {
                files: 1000,
                set: SetShape { mean_bytes: 16 << 10, width: 20, prealloc_percent: 100 },
                threads: 100,
                steps: thread::WEBSERVER,
            },
            Personality::Oltp => Shape {
                files: oltp::FILES,
                set: SetShape { mean_bytes: oltp::FILE_BYTES, width: 1024, prealloc_percent: 100 },
                threads: oltp::THREADS,
                steps: &[],
            },
        }
    }
}

/// A personality at work on a file system.
pub struct Filebench<'a, F> {
    fs: &'a mut F,
    threads: Threads,
    next_write_back_ns: Nanoseconds,
}

enum Threads {
    Files { set: FileSet, log: Option<FileId>, threads: Vec<Thread> },
    Oltp(Oltp),
}

impl<'a, F: FileSystem> Filebench<'a, F> {
    /// Creates the files of a personality, `scale` times as many as in its definition but enough for its threads, and
    /// makes them durable.
    pub fn prepare(
        fs: &'a mut F,
        personality: Personality,
        scale: f64,
        seed: u64,
        bar: &Bar,
    ) -> Result<Filebench<'a, F>, WorkloadError> {
        let shape = personality.shape();
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let threads = if personality == Personality::Oltp {
            Threads::Oltp(Oltp::prepare(fs, scale, &mut random)?)
        } else {
            let files = ((shape.files as f64 * scale) as usize).max(10 * shape.threads as usize);
            let set = FileSet::prepare(fs, &shape.set, files, &mut random, bar)?;
            let log = match personality {
                Personality::Webserver => Some(files::create(fs, b"log")?),
                _ => None,
            };
            let thread = |number| Thread::new(shape.steps, random.random::<u64>() ^ number);
            Threads::Files { set, log, threads: (0..u64::from(shape.threads)).map(thread).collect() }
        };
        fs.write_back()?;
        let next_write_back_ns = fs.client().now_ns() + WRITE_BACK_NS;
        Ok(Filebench { fs, threads, next_write_back_ns })
    }

    /// The file system.
    pub fn file_system(&self) -> &F {
        self.fs
    }

    /// Executes `operations` operations, as filebench counts them. Returns the rate per second.
    pub fn run(&mut self, operations: u64, bar: &Bar) -> Result<f64, WorkloadError> {
        let start_ns = self.fs.client().now_ns();
        let clients = match &self.threads {
            Threads::Files { threads, .. } => threads.len(),
            Threads::Oltp(_) => oltp::THREADS as usize,
        };
        let mut queue: BinaryHeap<_> = (0..clients).map(|client| Reverse((start_ns, client))).collect();
        let (mut done, mut end_ns) = (0, start_ns);
        // Threads may wait for others, so all of them continue until the last operation is done.
        while done < operations {
            let Reverse((at_ns, client)) = queue.pop().expect("there are threads");
            let next_ns = match self.turn(client, at_ns)? {
                Turn::Next(next_ns) => next_ns,
                Turn::Done(next_ns) => {
                    done += 1;
                    end_ns = end_ns.max(self.fs.client().now_ns());
                    if done.is_multiple_of(OPERATIONS_PER_STEP) {
                        bar.advance(OPERATIONS_PER_STEP)?;
                    }
                    next_ns
                }
            };
            queue.push(Reverse((next_ns, client)));
        }
        Ok(operations as f64 * 1e9 / (end_ns - start_ns).max(1) as f64)
    }

    fn turn(&mut self, client: usize, at_ns: Nanoseconds) -> Result<Turn, WorkloadError> {
        self.fs.client_mut().begin_at(at_ns);
        if at_ns >= self.next_write_back_ns {
            self.fs.write_back()?;
            self.next_write_back_ns = at_ns + WRITE_BACK_NS;
        }
        let result = match &mut self.threads {
            Threads::Files { set, log, threads } => threads[client].step(self.fs, set, *log),
            Threads::Oltp(oltp) => oltp.turn(self.fs, client),
        };
        let turn = result?;
        let now_ns = self.fs.client().now_ns().max(at_ns);
        Ok(match turn {
            Turn::Next(later_ns) => Turn::Next(now_ns + later_ns),
            Turn::Done(later_ns) => Turn::Done(now_ns + later_ns),
        })
    }
}

#[cfg(test)]
mod tests {
    use tantalum::{Device, Profile};
    use tantalum_report::Monitor;
    use tantalum_volume::Volume;

    use super::*;

    fn run(personality: Personality, operations: u64) -> (f64, u64) {
        let mut profile = Profile::load("tlc-nvme").unwrap();
        profile.capacity_bytes = 512 << 20;
        let mut volume = Volume::format(Device::in_memory(&profile).unwrap(), 64 << 20).unwrap();
        let bar = Monitor::silent().bar("", 1);
        let mut bench = Filebench::prepare(&mut volume, personality, 0.05, 7, &bar).unwrap();
        let per_second = bench.run(operations, &bar).unwrap();
        let written = volume.client().device().smart().counters.host_units_written;
        (per_second, written)
    }

    #[test]
    fn every_personality_runs_and_repeats_exactly() {
        for personality in Personality::ALL {
            let (per_second, written) = run(personality, 2000);
            assert!(per_second > 0.0 && written > 0, "{personality:?}: {per_second}");
            assert_eq!((per_second, written), run(personality, 2000), "{personality:?}");
        }
    }
}
