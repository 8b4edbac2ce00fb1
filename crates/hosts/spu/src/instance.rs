//! A program's copy on one processor: its memory, and the threads that run its handlers.
//!
//! Invariants: at most one thread runs at a time, and threads switch only where a handler requests something from the system;
//! each thread has its own stack; memory does not grow after the copy was created.

use wasmi::{Extern, Global, Linker, Memory, Store, TrapCode, TypedFunc, TypedResumableCall, Val};

use crate::abi::Context;
use crate::activation::{Activation, Location, Op, OutBuffer};
use crate::answer;
use crate::fault::Fault;
use crate::marks::{MARK, MARK_BYTES, MEMORY, NOWHERE};
use crate::module::{HANDLERS, Program, handler_number};
use crate::native::Native;

/// The maximum number of threads of a program on a processor.
pub const THREADS: u32 = 16;
/// The most instructions for asking a program for its stacks.
const INSTALL_FUEL: u64 = 100_000;

type Handler = TypedFunc<(u32, u32), ()>;
type Stopped = wasmi::TypedResumableCallHostTrap<()>;

/// How a thread's run ended.
#[derive(Debug)]
pub(crate) enum Run {
    /// It requests something from the system, and waits.
    Asks(Op),
    /// Its handler returned.
    Returns,
    /// The program must be ended.
    Faults(Fault),
}

pub(crate) struct Instance {
    store: Store<Context>,
    memory: Option<Memory>,
    /// Holds the number of the running function.
    mark: Option<Memory>,
    stack_pointer: Option<Global>,
    handlers: Vec<Option<Handler>>,
    /// A handler in Rust, number 0, instead of the module's.
    native: Option<Native>,
    threads: Vec<Thread>,
    handler_instructions: u64,
}

/// A thread, which may have stopped in the middle of a handler.
struct Thread {
    /// The start of its stack; none for a program with one thread, which uses the linker's stack.
    stack_top: Option<i32>,
    stack_now: i32,
    /// Where it continues, unless its handler is in Rust.
    stopped: Option<(Option<Stopped>, Activation)>,
}

impl Instance {
    pub fn new(
        program: &Program,
        linker: &Linker<Context>,
        place: Location,
        handler_instructions: u64,
    ) -> Result<Instance, Fault> {
        let failed = |error: wasmi::Error| Fault::Install(error.to_string());
        Instance::instantiate(program, linker, place, handler_instructions).map_err(failed)
    }

    fn instantiate(
        program: &Program,
        linker: &Linker<Context>,
        place: Location,
        handler_instructions: u64,
    ) -> Result<Instance, wasmi::Error> {
        let mut store = Store::new(program.module.engine(), Context::new(place));
        store.set_fuel(INSTALL_FUEL)?;
        let instance = linker.instantiate_and_start(&mut store, &program.module)?;
        let memory = instance.get_memory(&store, MEMORY);
        store.data_mut().memory = memory;
        let mut made = Instance {
            memory,
            mark: instance.get_memory(&store, MARK),
            stack_pointer: stack_pointer(&store, &instance),
            handlers: handlers(program, &store, &instance)?,
            native: None,
            threads: Vec::new(),
            handler_instructions,
            store,
        };
        made.find_stacks(&instance)?;
        Ok(made)
    }

    /// Replaces handler 0 by one in Rust.
    pub fn set_native(&mut self, native: Native) {
        self.native = Some(native);
    }

    fn find_stacks(&mut self, instance: &wasmi::Instance) -> Result<(), wasmi::Error> {
        let stack_now = self.stack_now();
        if let Ok(stack) = instance.get_typed_func::<u32, i32>(&self.store, "tl_stack") {
            for thread in 0..THREADS {
                let top = stack.call(&mut self.store, thread)?;
                if top == 0 {
                    break;
                }
                self.threads.push(Thread { stack_top: Some(top), stack_now: top, stopped: None });
            }
        }
        if self.threads.is_empty() || self.stack_pointer.is_none() {
            self.threads = vec![Thread { stack_top: None, stack_now, stopped: None }];
        }
        Ok(())
    }

    fn stack_now(&self) -> i32 {
        match self.stack_pointer.map(|global| global.get(&self.store)) {
            Some(Val::I32(value)) => value,
            _ => 0,
        }
    }

    pub fn threads(&self) -> usize {
        self.threads.len()
    }

    pub fn has_handler(&self, number: u32) -> bool {
        match self.native {
            Some(_) => number == 0,
            None => self.handlers.get(number as usize).is_some_and(Option::is_some),
        }
    }

    /// Calls an existing handler. Returns what it did, and the instructions it took.
    pub fn start(&mut self, thread: usize, activation: Activation) -> (Run, Option<Activation>, u64) {
        if let Some(native) = &mut self.native {
            let status = native.handle(&activation.message.body);
            self.threads[thread].stopped = Some((None, activation));
            return (Run::Asks(Op::Respond(status)), None, native.instructions);
        }
        let message = &activation.message;
        let arguments = (message.source.number(), message.body.len() as u32);
        let handler = self.handlers[message.handler as usize].expect("the system asked whether it exists");
        if let Some(top) = self.threads[thread].stack_top {
            self.threads[thread].stack_now = top;
        }
        self.enter(thread, activation);
        let result = handler.call_resumable(&mut self.store, arguments);
        self.leave(thread, result)
    }

    /// Continues a stopped handler with the answer to its request.
    pub fn resume(&mut self, thread: usize, value: i32) -> (Run, Option<Activation>, u64) {
        let stopped = self.threads[thread].stopped.take();
        let (stopped, activation) = stopped.expect("the system resumes what has stopped");
        let Some(stopped) = stopped else { return (Run::Returns, Some(activation), 0) };
        self.enter(thread, activation);
        let result = stopped.resume(&mut self.store, &[Val::I32(value)]);
        self.leave(thread, result)
    }

    fn enter(&mut self, thread: usize, activation: Activation) {
        let fuel = activation.fuel;
        self.store.set_fuel(fuel).expect("the runtime counts instructions");
        if let Some(pointer) = self.stack_pointer {
            let value = Val::I32(self.threads[thread].stack_now);
            pointer.set(&mut self.store, value).expect("the stack pointer is a mutable i32");
        }
        self.set_mark(NOWHERE);
        self.store.data_mut().activation = Some(activation);
    }

    fn set_mark(&mut self, function: u32) {
        if let Some(mark) = self.mark
            && let Some(word) = mark.data_mut(&mut self.store).first_chunk_mut::<MARK_BYTES>()
        {
            *word = function.to_le_bytes();
        }
    }

    /// The number of the function in which the last running thread stopped, if it had entered one.
    pub fn function(&self) -> Option<u32> {
        let word = self.mark?.data(&self.store).first_chunk()?;
        Some(u32::from_le_bytes(*word)).filter(|&function| function != NOWHERE)
    }

    fn leave(
        &mut self,
        thread: usize,
        result: Result<TypedResumableCall<()>, wasmi::Error>,
    ) -> (Run, Option<Activation>, u64) {
        let mut activation = self.store.data_mut().activation.take().expect("a thread has a call");
        let left = self.store.get_fuel().expect("the runtime counts instructions");
        let used = activation.fuel - left;
        activation.fuel = left;
        self.threads[thread].stack_now = self.stack_now();
        let run = match result {
            Ok(TypedResumableCall::Finished(())) => Run::Returns,
            Ok(TypedResumableCall::HostTrap(stopped)) => match self.store.data_mut().op.take() {
                Some(op) => {
                    self.threads[thread].stopped = Some((Some(stopped), activation));
                    return (Run::Asks(op), None, used);
                }
                None => Run::Faults(self.fault(stopped.host_error())),
            },
            Ok(TypedResumableCall::OutOfFuel(_)) => Run::Faults(self.endless()),
            Err(error) => Run::Faults(self.fault(&error)),
        };
        (run, Some(activation), used)
    }

    fn endless(&self) -> Fault {
        Fault::Endless { limit: self.handler_instructions }
    }

    fn fault(&self, error: &wasmi::Error) -> Fault {
        match error.as_trap_code() {
            Some(TrapCode::OutOfFuel) => self.endless(),
            _ => Fault::Trap(error.to_string()),
        }
    }

    /// The call of a stopped thread.
    pub fn stopped(&mut self, thread: usize) -> Option<&mut Activation> {
        self.threads.get_mut(thread)?.stopped.as_mut().map(|(_, activation)| activation)
    }

    /// Ends all calls, and returns them.
    pub fn take_stopped(&mut self) -> Vec<Activation> {
        self.threads.iter_mut().filter_map(|thread| Some(thread.stopped.take()?.1)).collect()
    }

    /// Copies bytes to a handler's buffer. If they do not fit, copies nothing and returns `otherwise`; without `otherwise`, copies
    /// what fits.
    pub fn fill(&mut self, buffer: OutBuffer, bytes: &[u8], otherwise: Option<i32>) -> i32 {
        if let (Some(status), true) = (otherwise, bytes.len() > buffer.bytes as usize) {
            return status;
        }
        let bytes = &bytes[..bytes.len().min(buffer.bytes as usize)];
        if let Some(memory) = self.memory {
            let data = memory.data_mut(&mut self.store);
            // the buffer was checked when the handler named it, and memory does not shrink
            data[buffer.at as usize..][..bytes.len()].copy_from_slice(bytes);
            if buffer.length_at != 0 {
                data[buffer.length_at as usize..][..4].copy_from_slice(&(bytes.len() as u32).to_le_bytes());
            }
        }
        answer::OK
    }

    pub fn context(&self) -> &Context {
        self.store.data()
    }
}

fn handlers(
    program: &Program,
    store: &Store<Context>,
    instance: &wasmi::Instance,
) -> Result<Vec<Option<Handler>>, wasmi::Error> {
    let mut handlers = vec![None; HANDLERS as usize];
    for export in program.module.exports() {
        if let Some(number) = handler_number(export.name()) {
            handlers[number as usize] = Some(instance.get_typed_func(store, export.name())?);
        }
    }
    Ok(handlers)
}

/// The stack pointer as the linker exports it.
fn stack_pointer(store: &Store<Context>, instance: &wasmi::Instance) -> Option<Global> {
    let global = instance.get_export(store, "__stack_pointer").and_then(Extern::into_global)?;
    let ty = global.ty(store);
    (ty.content() == wasmi::ValType::I32 && ty.mutability().is_mut()).then_some(global)
}
