//! `tantalum program`: the shipped programs, and descriptions of modules.

use clap::{Args, Subcommand};
use serde::Serialize;
use tantalum_report::table::{Align, Table, grouped};
use tantalum_spu::shipped;

use crate::drive::ProfileOptions;
use crate::failure::Failure;
use crate::output;
use crate::program_module::{description, load};
use crate::program_run::{self, RunProgramOptions};

/// What to do.
#[derive(Subcommand, Debug)]
pub enum ProgramAction {
    /// List the programs that come with the drive
    List(ListProgramsOptions),
    /// Check a module, and show its handlers and the memory that it needs
    Describe(DescribeOptions),
    /// Install a program on the drive of an image, send it messages, and show the answers
    ///
    /// Each message is sent when the previous one was answered. When the command ends, the program is removed from the drive;
    /// the data that it stored remain. Time is virtual. The exit code is 1 if the program faulted.
    Run(RunProgramOptions),
}

/// `tantalum program list`.
#[derive(Args, Debug)]
pub struct ListProgramsOptions {
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// `tantalum program describe`.
#[derive(Args, Debug)]
pub struct DescribeOptions {
    /// The module: a file, or a name of `tantalum program list`
    pub module: String,

    #[command(flatten)]
    pub drive: ProfileOptions,

    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Runs one of them.
pub fn run(action: &ProgramAction) -> Result<(), Failure> {
    match action {
        ProgramAction::List(options) => list(options),
        ProgramAction::Describe(options) => show(options),
        ProgramAction::Run(options) => program_run::run(options),
    }
}

#[derive(Serialize)]
struct Programs {
    command: &'static str,
    programs: Vec<Shipped>,
}

#[derive(Serialize)]
struct Shipped {
    name: &'static str,
    handlers: usize,
    instruction_bytes: u64,
    data_bytes: u64,
    about: &'static str,
}

fn list(options: &ListProgramsOptions) -> Result<(), Failure> {
    let shipped = |&(name, bytes, about): &(&'static str, &[u8], &'static str)| {
        let described = description(name, bytes)?;
        Ok(Shipped {
            name,
            handlers: described.handlers.len(),
            instruction_bytes: described.code_bytes,
            data_bytes: described.data_bytes,
            about,
        })
    };
    let programs = shipped::ALL.iter().map(shipped).collect::<Result<Vec<_>, Failure>>()?;
    let programs = Programs { command: "program list", programs };
    output::report(&programs, options.json, |programs| {
        let mut table = Table::new(&[
            ("name", Align::Left),
            ("handlers", Align::Right),
            ("instruction bytes", Align::Right),
            ("data bytes", Align::Right),
            ("what it does", Align::Left),
        ]);
        for program in &programs.programs {
            table.push(vec![
                program.name.to_owned(),
                program.handlers.to_string(),
                grouped(program.instruction_bytes),
                grouped(program.data_bytes),
                program.about.to_owned(),
            ]);
        }
        table.render()
    })
}

#[derive(Serialize)]
struct Described {
    command: &'static str,
    module: String,
    module_bytes: usize,
    profile: String,
    instruction: Memory,
    data: Memory,
    fits: bool,
    threads: usize,
    handlers: Vec<HandlerOfModule>,
    functions: Vec<String>,
}

/// How much of a memory of each processor it takes, and how much is free there when nothing else is installed.
#[derive(Serialize)]
struct Memory {
    needed: u64,
    free: u64,
}

impl Memory {
    fn text(&self) -> String {
        let verdict = if self.needed <= self.free { "" } else { ": it does not fit" };
        format!("{} of {} bytes{verdict}", grouped(self.needed), grouped(self.free))
    }
}

#[derive(Serialize)]
struct HandlerOfModule {
    number: u32,
    name: Option<String>,
}

fn show(options: &DescribeOptions) -> Result<(), Failure> {
    let profile = options.drive.load(None, None)?;
    let bytes = load(&options.module)?;
    let of = description(&options.module, &bytes)?;
    let instruction = Memory { needed: of.code_bytes, free: profile.spu.instruction_bytes.into() };
    let free = profile.spu.data_bytes.saturating_sub(profile.spu.table_bytes());
    let data = Memory { needed: of.data_bytes, free: free.into() };
    let described = Described {
        command: "program describe",
        module: options.module.clone(),
        module_bytes: bytes.len(),
        profile: profile.name,
        fits: instruction.needed <= instruction.free && data.needed <= data.free,
        instruction,
        data,
        threads: of.threads,
        handlers: of
            .handlers
            .into_iter()
            .map(|handler| HandlerOfModule { number: handler.number, name: handler.name })
            .collect(),
        functions: of.functions,
    };
    output::report(&described, options.json, Described::text)
}

impl Described {
    fn text(&self) -> String {
        let lines = [
            ("module", format!("{}, {} bytes", self.module, grouped(self.module_bytes as u64))),
            ("processors of", self.profile.clone()),
            ("instruction memory", self.instruction.text()),
            ("data memory", self.data.text()),
            ("at once", format!("{} requests on each processor", self.threads)),
            ("uses", self.functions.join(", ")),
        ];
        let mut text: String = lines.iter().map(|(name, value)| format!("{name:<20}{value}\n")).collect();
        for handler in &self.handlers {
            let name = handler.name.as_deref().unwrap_or("(no name)");
            text.push_str(&format!("{:<20}{:>2} {name}\n", "handler", handler.number));
        }
        text
    }
}
