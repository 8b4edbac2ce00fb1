//! A network that splits bytes, delays them, and breaks connections in the middle of anything. What it does to a
//! connection depends only on the seed and on the connection's number.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Events so far.
#[derive(Default)]
pub struct Happened {
    pub connections: AtomicU64,
    pub broken: AtomicU64,
    /// Connections over which nothing more came for a while before they broke.
    pub silenced: AtomicU64,
}

pub struct Proxy {
    pub address: SocketAddr,
    pub happened: Arc<Happened>,
    is_over: Arc<AtomicBool>,
}

/// One direction of a connection.
struct Direction {
    from: TcpStream,
    to: TcpStream,
    rng: Xoshiro256PlusPlus,
    /// Bytes until it breaks.
    left: u64,
    happened: Arc<Happened>,
}

impl Proxy {
    /// A network between its clients and `server`. Connections break after `bytes` on average.
    pub fn start(server: SocketAddr, seed: u64, bytes: u64) -> Proxy {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let (happened, is_over) = (Arc::new(Happened::default()), Arc::new(AtomicBool::new(false)));
        let (counts, ends) = (Arc::clone(&happened), Arc::clone(&is_over));
        thread::spawn(move || {
            for host in listener.incoming() {
                if ends.load(Ordering::Relaxed) {
                    return;
                }
                let number = counts.connections.fetch_add(1, Ordering::Relaxed);
                let (Ok(host), Ok(drive)) = (host, TcpStream::connect(server)) else { continue };
                connect(host, drive, seed << 20 | number << 1, bytes, &counts);
            }
        });
        Proxy { address, happened, is_over }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address);
    }
}

fn connect(host: TcpStream, drive: TcpStream, seed: u64, bytes: u64, happened: &Arc<Happened>) {
    let pairs = [(&host, &drive), (&drive, &host)];
    for (index, (from, to)) in pairs.into_iter().enumerate() {
        let _ = to.set_nodelay(true);
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed | index as u64);
        let left = rng.random_range(1..2 * bytes);
        let (Ok(from), Ok(to)) = (from.try_clone(), to.try_clone()) else { return };
        let direction = Direction { from, to, rng, left, happened: Arc::clone(happened) };
        thread::spawn(move || direction.run());
    }
}

impl Direction {
    fn run(mut self) {
        let mut buffer = vec![0; 64 << 10];
        while let Ok(read @ 1..) = self.from.read(&mut buffer) {
            if !self.pass(&buffer[..read]) {
                break;
            }
        }
        // both ways, whatever is on its way
        let _ = self.from.shutdown(Shutdown::Both);
        let _ = self.to.shutdown(Shutdown::Both);
    }

    /// Forwards bytes in pieces. False if the connection broke, or either side is gone.
    fn pass(&mut self, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() {
            let most = [1, 7, 100, 5000, 65536][self.rng.random_range(0..5)];
            let piece = self.rng.random_range(1..=most).min(bytes.len()).min(self.left as usize);
            if self.to.write_all(&bytes[..piece]).is_err() {
                return false;
            }
            self.left -= piece as u64;
            bytes = &bytes[piece..];
            if self.left == 0 {
                self.happened.broken.fetch_add(1, Ordering::Relaxed);
                if self.rng.random_ratio(1, 4) {
                    // nothing comes through any more, and nobody is notified
                    self.happened.silenced.fetch_add(1, Ordering::Relaxed);
                    thread::sleep(Duration::from_millis(self.rng.random_range(1..100)));
                }
                return false;
            }
            if self.rng.random_ratio(1, 50) {
                thread::sleep(Duration::from_micros(self.rng.random_range(1..3000)));
            }
        }
        true
    }
}
