//! What other threads have to say to the thread of a connection: answers of the drive, and that it is to end.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::failure::Failure;

/// What a command gives back if it goes well.
#[derive(Debug, Default)]
pub struct Answer {
    /// Data for the host.
    pub data: Vec<u8>,
    /// Dwords 0 and 1 of the completion.
    pub result: u64,
}

impl Answer {
    /// Data for the host, and nothing else.
    pub fn data(data: Vec<u8>) -> Answer {
        Answer { data, result: 0 }
    }

    /// A number for the host, and nothing else.
    pub fn result(result: u64) -> Answer {
        Answer { data: Vec::new(), result }
    }
}

/// A message.
#[derive(Debug)]
pub enum Message {
    /// The drive has done a command.
    Done {
        /// The host's name for it.
        id: u16,
        /// How it ended.
        ended: Result<Answer, Failure>,
    },
    /// The connection is to end.
    End,
}

/// Where messages wait.
pub struct Mailbox {
    messages: Mutex<VecDeque<Message>>,
    /// Whether the connection's thread sleeps, or is about to.
    is_asleep: AtomicBool,
    wake: Box<dyn Fn() + Send + Sync>,
}

impl Mailbox {
    /// A mailbox whose owner is woken with `wake`.
    pub fn new(wake: impl Fn() + Send + Sync + 'static) -> Mailbox {
        Mailbox { messages: Mutex::default(), is_asleep: AtomicBool::new(false), wake: Box::new(wake) }
    }

    /// Leaves a message, and wakes the owner if need be.
    pub fn post(&self, message: Message) {
        self.messages.lock().push_back(message);
        if self.is_asleep.swap(false, Ordering::SeqCst) {
            (self.wake)();
        }
    }

    /// The first message.
    pub fn take(&self) -> Option<Message> {
        self.messages.lock().pop_front()
    }

    /// The owner is about to sleep. It must not if this is false: a message has come.
    pub fn may_sleep(&self) -> bool {
        self.is_asleep.store(true, Ordering::SeqCst);
        let is_empty = self.messages.lock().is_empty();
        if !is_empty {
            self.awake();
        }
        is_empty
    }

    /// The owner does not sleep any more.
    pub fn awake(&self) {
        self.is_asleep.store(false, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicU32;

    use super::*;

    #[test]
    fn only_a_sleeper_is_woken_and_nobody_sleeps_over_a_message() {
        let woken = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&woken);
        let mailbox = Mailbox::new(move || {
            count.fetch_add(1, Ordering::Relaxed);
        });
        mailbox.post(Message::End);
        assert_eq!(woken.load(Ordering::Relaxed), 0);
        assert!(!mailbox.may_sleep(), "a message waits");
        assert!(matches!(mailbox.take(), Some(Message::End)));
        assert!(mailbox.may_sleep());
        mailbox.post(Message::End);
        mailbox.post(Message::End);
        assert_eq!(woken.load(Ordering::Relaxed), 1);
    }
}
