//! Connections to a port of this machine through another one, all of which can be broken.

use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// A way to a port, which is gone when this is dropped.
pub struct Proxy {
    /// Where it listens.
    pub port: String,
    /// Both ends of its connections; none once it is gone.
    ends: Arc<Mutex<Option<Vec<TcpStream>>>>,
}

impl Proxy {
    /// A way to this port.
    pub fn start(to: &str) -> io::Result<Proxy> {
        let (listener, to) = (TcpListener::bind("127.0.0.1:0")?, format!("127.0.0.1:{to}"));
        let port = listener.local_addr()?.port().to_string();
        let ends = Arc::new(Mutex::new(Some(Vec::new())));
        let open = Arc::clone(&ends);
        thread::spawn(move || {
            for host in listener.incoming().map_while(Result::ok) {
                // it is gone: this connection ends with the thread, and so does the port
                let Some(ends) = &mut *open.lock().expect("nobody panics with it") else { return };
                let Ok(drive) = TcpStream::connect(&to) else { continue };
                let _ = [host.set_nodelay(true), drive.set_nodelay(true)];
                for (from, onto) in [(&host, &drive), (&drive, &host)] {
                    if let (Ok(mut from), Ok(mut onto)) = (from.try_clone(), onto.try_clone()) {
                        thread::spawn(move || {
                            let _ = io::copy(&mut from, &mut onto);
                            let _ = [from.shutdown(Shutdown::Both), onto.shutdown(Shutdown::Both)];
                        });
                    }
                }
                ends.extend([host, drive]);
            }
        });
        Ok(Proxy { port, ends })
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let ends = self.ends.lock().expect("nobody panics with it").take();
        for end in ends.into_iter().flatten() {
            let _ = end.shutdown(Shutdown::Both);
        }
        // the thread that accepts learns of it
        let _ = TcpStream::connect(format!("127.0.0.1:{}", self.port));
    }
}
