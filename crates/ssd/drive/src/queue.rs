//! A queue of commands: they are executed at their clients' times, and answered when they are done.

use tantalum::{Nanoseconds, Reply, Request, Status};

use crate::answers::{Answers, Delivery};
use crate::drive::Drive;
use crate::when::When;

/// One way into a drive, like one of NVMe's queue pairs. A clone is the same queue.
#[derive(Clone)]
pub struct Queue {
    drive: Drive,
    answers: Answers,
}

impl Queue {
    /// A queue whose answers wait with `answers`. Those still waiting when power fails report that.
    pub fn new(drive: Drive, answers: Answers) -> Queue {
        answers.follow(&drive);
        Queue { drive, answers }
    }

    /// The drive.
    pub fn drive(&self) -> &Drive {
        &self.drive
    }

    /// Where its answers wait.
    pub fn answers(&self) -> &Answers {
        &self.answers
    }

    /// Submits a command at the machine's time, or at `at_ns` in virtual time, without waiting for it. `answer` is
    /// called when it is done, with its completion time, or reports that power failed first.
    pub fn submit(
        &self,
        request: Request,
        at_ns: Nanoseconds,
        answer: impl FnOnce(Result<Reply, Status>, Nanoseconds) + Send + 'static,
    ) {
        let ticket = self.answers.ticket();
        let when = self.answers.when(at_ns);
        let ended = self.drive.perform(request, when);
        // what is refused is answered at once
        let done_ns = match (&ended, when) {
            (Ok(reply), _) => reply.done_ns,
            (Err(_), When::At(at_ns)) => at_ns,
            (Err(_), When::AfterAll) => 0,
        };
        if let (Ok(_), When::At(at_ns)) = (&ended, when) {
            debug_assert!(done_ns >= at_ns, "a request of {at_ns} ns was done at {done_ns} ns");
        }
        self.answers.at(ticket, done_ns, move |delivery| match delivery {
            Delivery::InTime => answer(ended, done_ns),
            Delivery::PowerLost => answer(ended.and(Err(Status::PowerLost)), done_ns),
        });
    }

    /// In virtual time: lets time pass until every command is answered, including those submitted by answers.
    pub fn run(&self) {
        while self.answers.deliver_next().is_some() {}
    }
}
