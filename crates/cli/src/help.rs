//! The command line with examples in every `--help`, and suggestions for a start.

use clap::{Command, CommandFactory};

use crate::arguments::Arguments;

/// Examples in the top-level help.
const FIRST_EXAMPLES: &[&str] = &[
    "tantalum compare sqlite",
    "tantalum mount drive.tant mnt --create --capacity 8G --background",
    "tantalum crash run --check ./verify.sh -- ./my-program --data {}",
    "tantalum replay trace.log --aged",
];

/// Examples of each command, by the words that call it. A group of commands shows the first of each.
const EXAMPLES: &[(&str, &[&str])] = &[
    (
        "compare sqlite",
        &[
            "tantalum compare sqlite --report compare.html",
            "tantalum compare sqlite --modes wal,share --profile durassd --value-bytes 1000",
            "tantalum compare sqlite --database app.db --sql work.sql",
        ],
    ),
    ("create", &["tantalum create drive.tant --capacity 8G", "tantalum create drive.tant --profile durassd"]),
    ("info", &["tantalum info drive.tant"]),
    ("check", &["tantalum check drive.tant", "tantalum check drive.tant --repair"]),
    (
        "measure",
        &[
            "tantalum measure -- ./my-program --data {}",
            "tantalum measure --aged --report measure.html -- ./my-program --data {}",
            "tantalum measure --attach mnt --seconds 60 --json",
        ],
    ),
    (
        "replay",
        &[
            "tantalum replay trace.log --aged",
            "tantalum replay web_2.csv --volume web,2 --speed 10 --report replay.html",
            "tantalum replay blkparse.txt --queue-depth 32 --capacity 8G --json",
            "tantalum replay trace.log --aged --watch run",
        ],
    ),
    (
        "mount",
        &[
            "tantalum mount drive.tant mnt --create --capacity 8G",
            "tantalum mount drive.tant mnt --background --time none",
            "tantalum mount drive.tant mnt --create --file-system lfs-tree",
        ],
    ),
    ("snapshot list", &["tantalum snapshot list drive.tant"]),
    ("snapshot create", &["tantalum snapshot create drive.tant"]),
    ("snapshot delete", &["tantalum snapshot delete drive.tant 3"]),
    ("unmount", &["tantalum unmount mnt"]),
    (
        "stat",
        &[
            "tantalum stat mnt --watch",
            "tantalum stat drive.tant --json > before.json",
            "tantalum stat drive.tant --since before.json",
        ],
    ),
    (
        "watch",
        &[
            "tantalum watch mnt",
            "tantalum watch drive.tant --control --listen 127.0.0.1:7733",
            "tantalum watch run",
        ],
    ),
    ("cut", &["tantalum cut mnt", "tantalum cut mnt --after-flash-ops 100 --seed 7"]),
    (
        "serve",
        &[
            "tantalum serve drive.tant --create --capacity 8G",
            "tantalum serve drive.tant --remap-duplicates --key-value 2 --background",
            "tantalum serve drive.tant --listen 192.0.2.7:4420 --tls-keys keys",
            "tantalum serve drive.tant --listen 127.0.0.1:4420,127.0.0.1:4421 --access optimized,non-optimized",
        ],
    ),
    ("access", &["tantalum access drive.tant 1 inaccessible"]),
    ("ack", &["tantalum ack drive.tant"]),
    ("stop", &["tantalum stop drive.tant"]),
    (
        "bench",
        &[
            "tantalum bench --pattern randwrite --over-provisioning-percent 7",
            "tantalum bench --nvme --image bench.tant",
        ],
    ),
    ("recovery-cost", &["tantalum recovery-cost"]),
    ("lab list", &["tantalum lab list"]),
    (
        "lab run",
        &[
            "tantalum lab run share-fig7 kaml-fig5 --report figures.html",
            "tantalum lab run pebble-fig8 --watch run",
        ],
    ),
    (
        "lab sweep",
        &["tantalum lab sweep grid.toml", "tantalum lab sweep grid.toml --output results --threads 4"],
    ),
    ("program list", &["tantalum program list"]),
    ("program describe", &["tantalum program describe base_io"]),
    ("program run", &["tantalum program run --help"]),
    (
        "crash device",
        &[
            "tantalum crash device --seeds 10 --second-cut",
            "tantalum crash device --minutes 30 --cuts 200 --flash loses",
        ],
    ),
    (
        "crash clients",
        &[
            "tantalum crash clients --second-cut",
            "tantalum crash clients --minutes 30 --clients 6 --medium image",
        ],
    ),
    ("crash sqlite", &["tantalum crash sqlite --mode sw-wal --minutes 10"]),
    ("crash couch", &["tantalum crash couch --minutes 10"]),
    ("crash kv", &["tantalum crash kv --minutes 10"]),
    ("crash zones", &["tantalum crash zones --minutes 10"]),
    ("crash run", &["tantalum crash run --check ./verify.sh -- ./my-program --data {}"]),
    (
        "crash blocks",
        &[
            "tantalum crash blocks run.blocks --check ./verify.sh --save findings",
            "tantalum crash blocks run.blocks --check ./verify.sh --atomic-write 4KiB --cuts 1000",
        ],
    ),
    (
        "crash replay",
        &[
            "tantalum crash run --save findings --check ./verify.sh -- ./my-program --data {}",
            "tantalum crash replay findings/finding-1 look",
        ],
    ),
    ("completions", &["tantalum completions bash > tantalum.bash"]),
    ("man", &["tantalum man ~/.local/share/man/man1"]),
];

/// What `tantalum` alone prints.
pub const TRY_FIRST: &str = "\
Tantalum is a solid-state drive that runs as a program. Try first:

  tantalum compare sqlite
      the cost of SQLite's transactions, down to the flash, in six modes (about 15 s)
  tantalum mount drive.tant mnt --create --capacity 8G --background
      a folder on a drive, for any program; `tantalum stat mnt` shows what was written, and
      `tantalum cut mnt` cuts the power while programs run
  tantalum crash run --check ./verify.sh -- ./my-program
      does your own program survive power loss?
  tantalum serve drive.tant --create --capacity 8G
      an NVMe device that Linux attaches with `nvme connect`
  tantalum lab list
      experiments from papers

`tantalum --help` lists all commands; `tantalum COMMAND --help` explains one, with examples.
";

/// The whole command line.
pub fn command() -> Command {
    let mut command = Arguments::command().after_help(in_help(FIRST_EXAMPLES));
    for (words, examples) in EXAMPLES {
        command = with_examples(command, words, examples);
    }
    let mut groups: Vec<&str> = EXAMPLES.iter().filter_map(|(words, _)| group_of(words)).collect();
    groups.dedup();
    for group in groups {
        let of_group = EXAMPLES.iter().filter(|(words, _)| group_of(words) == Some(group));
        let first: Vec<&str> = of_group.map(|(_, examples)| examples[0]).collect();
        command = with_examples(command, group, &first);
    }
    command
}

/// The group that a command belongs to; `None` if it has none.
fn group_of(words: &'static str) -> Option<&'static str> {
    words.split_once(' ').map(|(group, _)| group)
}

fn in_help(examples: &[&str]) -> String {
    format!("Examples:\n  {}", examples.join("\n  "))
}

fn with_examples(command: Command, words: &str, examples: &[&str]) -> Command {
    let (first, rest) = words.split_once(' ').unwrap_or((words, ""));
    command.mut_subcommand(first, |subcommand| match rest {
        "" => subcommand.after_help(in_help(examples)),
        rest => with_examples(subcommand, rest, examples),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaves(command: &Command, words: &str, found: &mut Vec<String>) {
        for subcommand in command.get_subcommands() {
            let words = format!("{words} {}", subcommand.get_name());
            match subcommand.has_subcommands() {
                true => leaves(subcommand, &words, found),
                false => found.push(words.trim().to_owned()),
            }
        }
    }

    #[test]
    fn every_command_has_examples_that_it_takes() {
        let mut found = Vec::new();
        leaves(&Arguments::command(), "", &mut found);
        let known: Vec<&str> = EXAMPLES.iter().map(|(words, _)| *words).collect();
        assert_eq!(found, known);
        for (words, examples) in EXAMPLES {
            for example in *examples {
                assert!(
                    example.starts_with(&format!("tantalum {}", words.split(' ').next().unwrap())),
                    "{example}"
                );
                let typed = example.split(" > ").next().unwrap().split(' ');
                if let Err(error) = command().try_get_matches_from(typed) {
                    assert_eq!(error.kind(), clap::error::ErrorKind::DisplayHelp, "{example}: {error}");
                }
            }
        }
    }

    #[test]
    fn every_help_shows_examples() {
        fn check(mut command: Command) {
            let help = command.render_long_help().to_string();
            assert!(help.contains("Examples:\n  tantalum "), "{}: {help}", command.get_name());
            // clap adds `help`
            command.get_subcommands().filter(|inner| inner.get_name() != "help").cloned().for_each(check);
        }
        check(command());
        for example in FIRST_EXAMPLES {
            command()
                .try_get_matches_from(example.split(' '))
                .unwrap_or_else(|error| panic!("{example}: {error}"));
        }
    }

    #[test]
    fn what_to_try_first_is_taken() {
        let lines = TRY_FIRST.lines().filter_map(|line| line.strip_prefix("  tantalum "));
        let lines: Vec<&str> = lines.collect();
        assert_eq!(lines.len(), 5);
        for line in lines {
            let typed = std::iter::once("tantalum").chain(line.split(' '));
            command().try_get_matches_from(typed).unwrap_or_else(|error| panic!("{line}: {error}"));
        }
    }
}
