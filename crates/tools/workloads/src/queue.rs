//! A host that keeps a fixed number of commands in flight.

use tantalum::Nanoseconds;

/// Commands in flight in ageing and in `tantalum bench`.
pub const QUEUE_DEPTH: usize = 32;

/// When the next command may be issued: when the one [`QUEUE_DEPTH`] before it is done.
#[derive(Debug)]
pub struct CommandQueue {
    done_ns: [Nanoseconds; QUEUE_DEPTH],
    next: usize,
    now_ns: Nanoseconds,
}

impl CommandQueue {
    /// An empty queue.
    pub fn new(now_ns: Nanoseconds) -> CommandQueue {
        CommandQueue { done_ns: [now_ns; QUEUE_DEPTH], next: 0, now_ns }
    }

    /// When the next command is issued.
    #[inline]
    pub fn issue_ns(&mut self) -> Nanoseconds {
        self.now_ns = self.now_ns.max(self.done_ns[self.next]);
        self.now_ns
    }

    /// The command just issued will be done then.
    #[inline]
    pub fn completes(&mut self, done_ns: Nanoseconds) {
        self.done_ns[self.next] = done_ns;
        self.next = (self.next + 1) % QUEUE_DEPTH;
    }

    /// When all commands are done.
    pub fn drained_ns(&self) -> Nanoseconds {
        self.done_ns.iter().fold(self.now_ns, |latest, &done| latest.max(done))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_queue_waits_for_its_oldest_command() {
        let mut queue = CommandQueue::new(5);
        for command in 0..QUEUE_DEPTH as u64 {
            assert_eq!(queue.issue_ns(), 5);
            queue.completes(100 + command);
        }
        assert_eq!(queue.issue_ns(), 100);
        queue.completes(90);
        assert_eq!(queue.issue_ns(), 101);
        assert_eq!(queue.drained_ns(), 131);
    }
}
