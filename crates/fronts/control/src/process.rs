//! The process at the other end of a socket.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use rustix::process::{Pid, PidfdFlags, getpid, pidfd_open};

/// A process, by a descriptor that can be read once it has ended and all of its files are closed.
#[derive(Debug)]
pub(crate) struct Process(OwnedFd);

impl Process {
    /// The process that listens at the other end. None if that is this one, if it is not seen from here (another container), or
    /// if the kernel has no such descriptors (before Linux 5.3).
    pub fn at(stream: &UnixStream) -> Option<Process> {
        let listener = getsockopt(stream, PeerCredentials).ok()?;
        let listener = Pid::from_raw(listener.pid()).filter(|listener| *listener != getpid())?;
        pidfd_open(listener, PidfdFlags::empty()).ok().map(Process)
    }

    /// Waits until it has ended, at most this long.
    pub fn wait(&self, limit: Duration) {
        let limit = PollTimeout::try_from(limit).unwrap_or(PollTimeout::MAX);
        let mut ended = [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
        while poll(&mut ended, limit) == Err(Errno::EINTR) {}
    }
}
