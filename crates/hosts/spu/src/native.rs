//! Handlers in Rust instead of WebAssembly, to measure what the runtime costs.
//!
//! Such a handler takes the same path as a module's: queue, thread, the processor's time, answer. But nothing protects the
//! drive from it, so only a host in the same process can install one ([`Ssd::install_native`](crate::Ssd::install_native)).
//! It answers each request at once.

/// Handler 0 of a program in Rust: it gets a request's body, and returns the answer.
pub type NativeHandler = Box<dyn FnMut(&[u8]) -> i32 + Send>;

/// A program's copy in Rust.
pub(crate) struct Native {
    handler: NativeHandler,
    /// Instructions that a request takes in virtual time.
    pub instructions: u64,
}

impl Native {
    pub fn new(handler: NativeHandler, instructions: u64) -> Native {
        Native { handler, instructions }
    }

    pub fn handle(&mut self, body: &[u8]) -> i32 {
        (self.handler)(body)
    }
}
