//! Messages of other threads to the thread of a connection: answers of the drive, questions and answers of other connections,
//! and the request to end.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::failure::Failure;

/// The result of a command that succeeded.
#[derive(Debug, Default)]
pub struct Answer {
    /// Data for the host.
    pub data: Vec<u8>,
    /// Dwords 0 and 1 of the completion.
    pub result: u64,
    /// The buffer of the host's data, for reuse.
    pub spare: Vec<u8>,
}

impl Answer {
    /// Only data for the host.
    pub fn data(data: Vec<u8>) -> Answer {
        Answer { data, ..Answer::default() }
    }

    /// Nothing for the host; the buffer of its data can be reused.
    pub fn spare(spare: Vec<u8>) -> Answer {
        Answer { spare, ..Answer::default() }
    }

    /// Only a number for the host.
    pub fn result(result: u64) -> Answer {
        Answer { result, ..Answer::default() }
    }
}

/// A message.
#[derive(Debug)]
pub enum Message {
    /// The drive has done a command.
    Done {
        /// Its identifier.
        id: u16,
        /// How it ended.
        ended: Result<Answer, Failure>,
    },
    /// Abort a command of this connection if it is waiting.
    Abort {
        /// Its identifier.
        id: u16,
        /// Where to send the answer.
        question: Question,
    },
    /// Another connection has answered an Abort.
    Aborted {
        /// The identifier of the Abort.
        id: u16,
        /// Whether the command was aborted.
        is_aborted: bool,
    },
    /// There may be an event to report.
    Event,
    /// The connection is to end.
    End,
}

/// A question of another connection. Dropping it answers "no".
pub struct Question {
    asker: Arc<Mailbox>,
    id: u16,
    is_aborted: bool,
}

impl Question {
    /// Asks whether the command that the Abort `id` of this connection names was aborted.
    pub fn new(asker: &Arc<Mailbox>, id: u16) -> Question {
        Question { asker: Arc::clone(asker), id, is_aborted: false }
    }

    /// Answers it.
    pub fn answer(mut self, is_aborted: bool) {
        self.is_aborted = is_aborted;
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        self.asker.post(Message::Aborted { id: self.id, is_aborted: self.is_aborted });
    }
}

impl std::fmt::Debug for Question {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Question({})", self.id)
    }
}

/// Where messages wait.
pub struct Mailbox {
    messages: Mutex<VecDeque<Message>>,
    /// Whether the connection's thread sleeps, or is about to.
    is_asleep: AtomicBool,
    wake: Box<dyn Fn() + Send + Sync>,
}

impl Mailbox {
    /// A mailbox whose owner is woken by `wake`.
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

    /// The owner is about to sleep. It must not if this returns false: a message has arrived.
    pub fn may_sleep(&self) -> bool {
        self.is_asleep.store(true, Ordering::SeqCst);
        let is_empty = self.messages.lock().is_empty();
        if !is_empty {
            self.awake();
        }
        is_empty
    }

    /// The owner is awake.
    pub fn awake(&self) {
        self.is_asleep.store(false, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;

    #[test]
    fn a_question_that_nobody_takes_is_answered_with_no() {
        let (asker, asked) = (Arc::new(Mailbox::new(|| ())), Mailbox::new(|| ()));
        for id in [1, 2] {
            asked.post(Message::Abort { id: 9, question: Question::new(&asker, id) });
        }
        let Some(Message::Abort { question, .. }) = asked.take() else { panic!("it was posted") };
        question.answer(true);
        assert!(matches!(asker.take(), Some(Message::Aborted { id: 1, is_aborted: true })));
        drop(asked);
        assert!(matches!(asker.take(), Some(Message::Aborted { id: 2, is_aborted: false })));
    }

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
