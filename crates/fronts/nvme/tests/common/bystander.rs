//! A host that does verified I/O on its own connections while others misbehave. It must not be affected.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tantalum_nvme::client::{Options, block_command};
use tantalum_nvme::server::Server;
use tantalum_nvme::wire::opcode::nvm;

use super::{UNIT, attach, pattern};

/// Where its units begin, on the small drive.
const FIRST: u64 = 8000;
/// Its units.
const UNITS: u64 = 64;
/// An answer that takes longer than this was held up by another host. The machine may be busy, but a server that waits
/// for a host that does not answer would take for ever.
const PATIENCE: Duration = Duration::from_secs(10);

/// A host in the background.
pub struct Bystander {
    thread: Option<JoinHandle<()>>,
    is_over: Arc<AtomicBool>,
    rounds: Arc<AtomicU64>,
}

impl Bystander {
    /// Attaches a host, and has it write and read until [`Bystander::finish`].
    pub fn start(server: &Server) -> Bystander {
        let blocks = (UNIT as u32) / server.subsystem().settings.block_bytes;
        let mut host = attach(server, Options { data_digest: true, ..Options::default() });
        host.io.stream().set_read_timeout(Some(PATIENCE)).unwrap();
        let (is_over, rounds) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (ends, counts) = (Arc::clone(&is_over), Arc::clone(&rounds));
        let work = move || {
            // the whole host: without its admin queue there is no controller
            let host = &mut host;
            let mut last = vec![None; UNITS as usize];
            let mut round = 0;
            while !ends.load(Ordering::Relaxed) {
                round += 1;
                let at = round % UNITS;
                let command = |opcode| block_command(opcode, (FIRST + at) * u64::from(blocks), blocks);
                let began = Instant::now();
                let read = host.io.read_command(command(nvm::READ), UNIT as u32);
                let read = read.expect("its connection is its own");
                assert_eq!(read.code, 0);
                if let Some(seed) = last[at as usize] {
                    assert!(read.data == pattern(seed, UNIT), "somebody changed unit {}", FIRST + at);
                }
                let data = pattern(1 << 20 | round, UNIT);
                let wrote = host.io.write_command(command(nvm::WRITE), &data);
                assert_eq!(wrote.expect("its connection is its own").code, 0);
                last[at as usize] = Some(1 << 20 | round);
                assert!(began.elapsed() < PATIENCE, "it was held up");
                counts.store(round, Ordering::Relaxed);
                thread::sleep(Duration::from_micros(300));
            }
        };
        Bystander { thread: Some(thread::spawn(work)), is_over, rounds }
    }

    /// Waits until it has done something since the last call, or since it began, to show that it is not stalled.
    pub fn goes_on(&self) {
        let before = self.rounds.load(Ordering::Relaxed);
        let until = Instant::now() + PATIENCE;
        while self.rounds.load(Ordering::Relaxed) < before + 3 {
            let has_failed = self.thread.as_ref().is_none_or(JoinHandle::is_finished);
            assert!(!has_failed && Instant::now() < until, "the bystander was disturbed");
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Checks that it was not affected.
    pub fn finish(mut self) {
        self.goes_on();
        self.is_over.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(matches!(ended, Some(Ok(()))), "the bystander was disturbed");
    }
}

impl Drop for Bystander {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}
