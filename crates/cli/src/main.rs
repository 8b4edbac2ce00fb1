//! The `tantalum` command.
//!
//! Its exit code is 0 on success, 1 if a database or an image was damaged, a promise was broken or a program in the
//! drive faulted, 2 if the request cannot be carried out (one line on standard error says why and what would be valid),
//! and 130 if it was interrupted.
//! `tantalum measure` ends with the exit code of the program that it measured.

mod access;
mod ack;
mod arguments;
mod background;
mod baseline;
mod bench;
mod bench_nvme;
mod check;
mod check_files;
mod check_progress;
mod check_store;
mod compare;
mod crash_blocks;
mod crash_clients;
mod crash_couch;
mod crash_device;
mod crash_drive;
mod crash_kv;
mod crash_program;
mod crash_replay;
mod crash_run;
mod crash_sqlite;
mod crash_zones;
mod create;
mod cut;
mod damage;
mod drive;
mod failure;
mod file_system;
mod help;
mod info;
mod info_handles;
mod info_nvm;
mod info_zones;
mod interrupt;
mod interruption;
mod lab;
mod leftovers;
mod life;
mod log;
mod measure;
mod mount;
mod offer;
mod output;
mod program;
mod program_module;
mod program_run;
mod recovery_cost;
mod recovery_info;
mod replay;
mod seeds;
mod serve;
mod shell;
mod snapshot;
mod stat;
mod stat_report;
mod stop;
mod sweep;
mod trace;
mod unmount;
mod watch;

use std::process::ExitCode;

use clap::FromArgMatches;

use crate::arguments::{Arguments, Command, CompareTarget, CrashTarget};
use crate::failure::Failure;

fn main() -> ExitCode {
    let matches = help::command().get_matches();
    let arguments = Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let done = trace::start().map_err(Failure::from).and_then(|()| match arguments.command {
        None => output::print(help::TRY_FIRST),
        Some(command) => run(command),
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Compare { target: CompareTarget::Sqlite(options) } => compare::run(&options),
        Command::Create(options) => create::run(&options),
        Command::Info(options) => info::run(&options),
        Command::Check(options) => check::run(&options),
        Command::Measure(options) => measure::run(&options),
        Command::Replay(options) => replay::run(&options),
        Command::Mount(options) => mount::run(&options),
        Command::Unmount(options) => unmount::run(&options),
        Command::Snapshot { action } => snapshot::run(&action),
        Command::Stat(options) => stat::run(&options),
        Command::Watch(options) => watch::run(&options),
        Command::Cut(options) => cut::run(&options),
        Command::Serve(options) => serve::run(&options),
        Command::Access(options) => access::run(&options),
        Command::Ack(options) => ack::run(&options),
        Command::Stop(options) => stop::run(&options),
        Command::Bench(options) => bench::run(&options),
        Command::RecoveryCost(options) => recovery_cost::run(&options),
        Command::Lab { action } => lab::run(&action),
        Command::Program { action } => program::run(&action),
        Command::Completions(options) => shell::completions(&options, help::command()),
        Command::Man(options) => shell::man(&options, help::command()),
        Command::Crash { target: CrashTarget::Device(options) } => crash_device::run(&options),
        Command::Crash { target: CrashTarget::Blocks(options) } => crash_blocks::run(&options),
        Command::Crash { target: CrashTarget::Clients(options) } => crash_clients::run(&options),
        Command::Crash { target: CrashTarget::Couch(options) } => crash_couch::run(&options),
        Command::Crash { target: CrashTarget::Kv(options) } => crash_kv::run(&options),
        Command::Crash { target: CrashTarget::Zones(options) } => crash_zones::run(&options),
        Command::Crash { target: CrashTarget::Run(options) } => crash_run::run(&options),
        Command::Crash { target: CrashTarget::Replay(options) } => crash_replay::run(&options),
        Command::Crash { target: CrashTarget::Sqlite(options) } => crash_sqlite::run(&options),
    }
}
