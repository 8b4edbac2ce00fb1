//! A common form of all answers to the kernel: a value, or an error.

use std::time::Duration;

use fuser::{
    FileAttr, FileHandle, FopenFlags, Generation, ReplyAttr, ReplyCreate, ReplyEmpty, ReplyEntry, ReplyIoctl,
    ReplyLseek, ReplyOpen, ReplyWrite, ReplyXattr,
};

use crate::refusal::Refusal;

/// How long the kernel may cache an answer. Everything that changes goes through the kernel, which then asks again.
pub(crate) const BELIEVED: Duration = Duration::from_secs(3600);

/// Numbers are not reused while the kernel knows them, so they need no generation.
pub(crate) const GENERATION: Generation = Generation(0);

/// An answer that takes a value of one kind.
pub(crate) trait Answer: Send + 'static {
    /// The value that it takes.
    type Value: Send + 'static;

    /// Sends it.
    fn send(self, outcome: Result<Self::Value, Refusal>);
}

/// A file that was created and opened.
pub(crate) struct Created {
    pub attributes: FileAttr,
    pub handle: FileHandle,
    pub flags: FopenFlags,
}

/// An extended attribute's value, or the names of all, for a buffer of `room` bytes; 0 asks for the length.
pub(crate) struct AttributeBytes {
    pub bytes: Vec<u8>,
    pub room: u32,
}

macro_rules! answers {
    ($($reply:ty, $value:ty, $send:expr;)*) => {
        $(impl Answer for $reply {
            type Value = $value;

            fn send(self, outcome: Result<$value, Refusal>) {
                let send: fn($reply, $value) = $send;
                match outcome {
                    Ok(value) => send(self, value),
                    Err(Refusal(errno)) => self.error(errno),
                }
            }
        })*
    };
}

answers! {
    ReplyEmpty, (), |reply, ()| reply.ok();
    ReplyAttr, FileAttr, |reply, attributes| reply.attr(&BELIEVED, &attributes);
    ReplyEntry, FileAttr, |reply, attributes| reply.entry(&BELIEVED, &attributes, GENERATION);
    ReplyOpen, (FileHandle, FopenFlags), |reply, (handle, flags)| reply.opened(handle, flags);
    ReplyCreate, Created, |reply, created| {
        reply.created(&BELIEVED, &created.attributes, GENERATION, created.handle, created.flags);
    };
    ReplyWrite, u32, |reply, bytes| reply.written(bytes);
    ReplyLseek, i64, |reply, offset| reply.offset(offset);
    ReplyIoctl, Vec<u8>, |reply, out| reply.ioctl(0, &out);
    ReplyXattr, AttributeBytes, |reply, value| match (value.bytes.len() as u32, value.room) {
        (bytes, 0) => reply.size(bytes),
        (bytes, room) if bytes > room => reply.error(fuser::Errno::ERANGE),
        _ => reply.data(&value.bytes),
    };
}
