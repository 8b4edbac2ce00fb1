//! Programs in Rust instead of WebAssembly, for measuring what the runtime costs.
//!
//! Such a handler takes the same way as a module's: queue, thread, the processor's time, answer. But nothing protects the drive
//! from it, so only a host in the same process can install one. It answers each request at once.

use crate::install::{InstallError, InstallOptions};
use crate::module::{self, Program};
use crate::names::{ProcessId, ProgramId, SpuId};
use crate::system::Ssd;

/// Handler 0 of a program in Rust: it gets a request's body, and returns the answer.
pub type NativeHandler = Box<dyn FnMut(&[u8]) -> i32 + Send>;

/// A program's copy in Rust.
pub(crate) struct Native {
    handler: NativeHandler,
    /// Instructions that a request takes in virtual time.
    pub instructions: u64,
}

impl Native {
    pub fn handle(&mut self, body: &[u8]) -> i32 {
        (self.handler)(body)
    }
}

impl Ssd {
    /// Installs a handler in Rust on all processors: `make` makes each its copy. In virtual time a request takes it as many
    /// instructions as are stated, and it takes no memory of the processors.
    ///
    /// # Errors
    /// As [`Ssd::install`].
    pub fn install_native(
        &mut self,
        owner: ProcessId,
        options: InstallOptions,
        instructions: u64,
        mut make: impl FnMut(SpuId) -> NativeHandler,
    ) -> Result<ProgramId, InstallError> {
        self.install_program(owner, Program::empty(&module::engine()), 0, options, |spu, instance| {
            instance.set_native(Native { handler: make(spu), instructions });
        })
    }
}
