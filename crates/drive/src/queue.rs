//! A queue of commands: they are done at their clients' times, and answered when they are done.

use tantalum::{Nanoseconds, Status};

use crate::answers::{Answers, Delivery};
use crate::drive::Drive;
use crate::request::{Reply, Request};

/// One way into a drive, as NVMe's queue pairs are. A copy is the same queue.
#[derive(Clone)]
pub struct Queue {
    drive: Drive,
    answers: Answers,
}

impl Queue {
    /// A queue whose answers wait with `answers`. Those that wait when power goes say so.
    pub fn new(drive: Drive, answers: Answers) -> Queue {
        answers.follow(&drive);
        Queue { drive, answers }
    }

    /// The drive.
    pub fn drive(&self) -> &Drive {
        &self.drive
    }

    /// Gives a command at the machine's time, or at `at_ns` where time is virtual, and does not wait for it: `answer` is
    /// called when it is done, with the time at which it was. If power goes before, that is what it says.
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

    /// In virtual time: lets time go on until every command is answered, also those that answers give.
    pub fn run(&self) {
        while self.answers.deliver_next().is_some() {}
    }
}
