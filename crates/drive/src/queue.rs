//! A queue of commands: they are executed at their clients' times, and answered when they are done.

use tantalum::{Nanoseconds, Status};

use crate::answers::{Answers, Delivery};
use crate::drive::Drive;
use crate::request::{Reply, Request};

/// One way into a drive, like one of NVMe's queue pairs. A clone is the same queue.
#[derive(Clone)]
pub struct Queue {
    drive: Drive,
    answers: Answers,
}

impl Queue {
    /// A queue whose answers wait with `answers`. Those still waiting when power goes report that.
    pub fn new(drive: Drive, answers: Answers) -> Queue {
        answers.follow(&drive);
        Queue { drive, answers }
    }

    /// The drive.
    pub fn drive(&self) -> &Drive {
        &self.drive
    }

    /// Submits a command at the machine's time, or at `at_ns` in virtual time, without waiting for it. `answer` is
    /// called when it is done, with its completion time, or reports that power went first.
    pub fn submit(
        &self,
        request: Request,
        at_ns: Nanoseconds,
        answer: impl FnOnce(Result<Reply, Status>, Nanoseconds) + Send + 'static,
    ) {
        let ticket = self.answers.ticket();
        let at_ns = self.answers.now_ns().unwrap_or(at_ns);
        let ended = self.drive.perform(request, at_ns);
        let done_ns = ended.as_ref().map_or(at_ns, |reply| reply.completion.done_ns);
        self.answers.at(ticket, done_ns, move |delivery| match delivery {
            Delivery::InTime => answer(ended, done_ns),
            Delivery::PowerLost => answer(ended.and(Err(Status::PowerLost)), done_ns),
        });
    }

    /// In virtual time: lets time pass until every command is answered, including those that answers submit.
    pub fn run(&self) {
        while self.answers.deliver_next().is_some() {}
    }
}
