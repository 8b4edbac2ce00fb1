//! A web page that shows a drive at work: `tantalum watch`.
//!
//! A thread (`sampler`) asks the process that uses the image for a look several times a second; the page shows the
//! difference of two looks (`point`, `words`, `blocks`). A small server (`server`, `http`) sends that to browsers. Invariants:
//!
//! - **Only this machine, and only those who know the address.** The server listens only on loopback addresses; every path
//!   begins with a random `token`; requests under another host's name are refused (`guard`).
//! - **Watching is read-only**, unless power may be cut ([`Options::control`]).
//! - **It costs little.** While no page is open, nobody looks at the drive. Looks that take long are taken rarely.
//! - **Nothing is loaded from elsewhere**: the page, its script and its plots are in this program.

mod blocks;
mod feed;
mod guard;
mod http;
mod names;
mod point;
mod sampler;
mod server;
mod token;
mod words;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use tantalum_control::ControlError;

use feed::Feed;
use guard::Guard;
use sampler::Sampler;
use server::Site;
use token::Token;

/// What is watched, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// The image, whose control socket is beside it.
    pub image: PathBuf,
    /// Where the page is served: a loopback address. Port 0 is any free port.
    pub listen: SocketAddr,
    /// Whether the page has a button that cuts power.
    pub control: bool,
}

/// Why a drive cannot be watched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WatchError {
    /// Other machines could see the page.
    #[error("{address} can be reached from other machines: listen on 127.0.0.1 or [::1]")]
    NotLoopback {
        /// The address.
        address: SocketAddr,
    },
    /// Listening on the address failed.
    #[error("{address}: {error}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        error: io::Error,
    },
    /// Nothing uses the image, or it does not answer.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The system has no random bytes, no thread, or no memory for them.
    #[error("the page cannot be served: {0}")]
    System(io::Error),
}

/// A drive that is being watched.
#[derive(Debug)]
pub struct Watching {
    address: SocketAddr,
    token: Token,
}

impl Watching {
    /// Looks at the drive for the first time, and serves the page from now on, in separate threads.
    pub fn start(options: &Options) -> Result<Watching, WatchError> {
        if !options.listen.ip().is_loopback() {
            return Err(WatchError::NotLoopback { address: options.listen });
        }
        let token = Token::random().map_err(WatchError::System)?;
        let feed = Arc::new(Feed::new(options.control));
        let mut sampler = Sampler::new(options.image.clone(), Arc::clone(&feed));
        sampler.first_look()?;
        let listen = |error| WatchError::Listen { address: options.listen, error };
        let listener = std::net::TcpListener::bind(options.listen).map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        let guard = Guard::new(token.clone(), address, options.control);
        let site = Site { guard, feed, image: options.image.clone() };
        server::start(listener, site).map_err(WatchError::System)?;
        sampler.start().map_err(WatchError::System)?;
        Ok(Watching { address, token })
    }

    /// The page's address. Anyone who has it may look, and with [`Options::control`] cut power.
    pub fn url(&self) -> String {
        format!("http://{}/{}/", self.address, self.token.text())
    }
}
