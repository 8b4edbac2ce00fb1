//! A drive that a step serves over NVMe/TCP, and that is stopped however the step ends.

use std::path::Path;

use serde_json::Value;

use super::context::Context;
use super::failure::{Failure, ensure};
use super::shell::{self, Shell};

/// A served drive, which ends with its test.
pub struct Served<'a> {
    context: &'a Context,
    folder: &'a Path,
    image: String,
    options: &'static [&'static str],
    process: String,
    pub port: String,
    pub name: String,
    /// Of its blocks.
    pub uuid: String,
}

impl<'a> Served<'a> {
    /// Creates a drive of 512 MiB in `folder` and serves it, with these options at every start.
    pub fn create(
        context: &'a Context,
        folder: &'a Path,
        image: &'static str,
        profile: &str,
        options: &'static [&'static str],
    ) -> Result<Served<'a>, Failure> {
        Served::create_as(context, folder, image, &["--profile", profile], options)
    }

    /// The same with options of its creation.
    pub fn create_as(
        context: &'a Context,
        folder: &'a Path,
        image: &str,
        creation: &[&str],
        options: &'static [&'static str],
    ) -> Result<Served<'a>, Failure> {
        Served::create_at(context, folder, image, "127.0.0.1:0", creation, options)
    }

    /// The same at these addresses; `port` is that of the first.
    pub fn create_at(
        context: &'a Context,
        folder: &'a Path,
        image: &str,
        listen: &str,
        creation: &[&str],
        options: &'static [&'static str],
    ) -> Result<Served<'a>, Failure> {
        let none = String::new;
        let mut served = Served {
            context,
            folder,
            image: image.to_owned(),
            options,
            process: none(),
            port: none(),
            name: none(),
            uuid: none(),
        };
        served.start(listen, &[&["--create", "--capacity", "512M"], creation].concat())?;
        Ok(served)
    }

    /// Returns whether the image could only be opened to be read.
    fn start(&mut self, listen: &str, more: &[&str]) -> Result<bool, Failure> {
        let said = Shell::new(&self.context.tantalum)
            .args(["serve", &self.image, "--time", "none", "--background", "--listen", listen])
            .args(self.options)
            .args(more)
            .folder(self.folder)
            .run()?;
        let word = |before: &str| said.split(before).nth(1)?.split([' ', ')', ',', ';', '\n']).next();
        let (Some(process), Some(port), Some(name), Some(uuid)) =
            (word(" process "), word(" -s "), word(" -n "), word("/nvme-uuid."))
        else {
            return Err(Failure::Wrong(format!("serve said {said:?}")));
        };
        (self.process, self.port) = (process.to_owned(), port.to_owned());
        (self.name, self.uuid) = (name.to_owned(), uuid.to_owned());
        Ok(said.contains("it can only be read"))
    }

    /// Kills the process, and has another serve the image at the same address.
    pub fn kill(&mut self) -> Result<(), Failure> {
        let name = self.name.clone();
        self.end()?;
        self.again()?;
        ensure(self.name == name, || format!("{name} is {} when it is served again", self.name))
    }

    /// Kills the process, and waits until it has let go of the image.
    pub fn end(&self) -> Result<(), Failure> {
        shell::kill(&self.process)
    }

    /// Has another process serve the image at the same address. Returns whether it could only be opened to be read.
    pub fn again(&mut self) -> Result<bool, Failure> {
        self.start(&format!("127.0.0.1:{}", self.port), &[])
    }

    /// The same at any free port: between two servers, another process of this machine may take the port.
    pub fn anywhere(&mut self) -> Result<bool, Failure> {
        self.start("127.0.0.1:0", &[])
    }

    /// Ends the process by asking it to.
    pub fn stop(&self) -> Result<(), Failure> {
        self.run("stop", &[]).map(drop)
    }

    /// Arms a power cut at a flash operation from now on.
    pub fn cut(&self, operations: u64, seed: u64) -> Result<(), Failure> {
        let (operations, seed) = (operations.to_string(), seed.to_string());
        self.run("cut", &["--after-flash-ops", &operations, "--seed", &seed]).map(drop)
    }

    /// Sets how well hosts reach the drive through a port.
    pub fn set_access(&self, port: &str, access: &str) -> Result<(), Failure> {
        self.run("access", &[port, access]).map(drop)
    }

    /// `tantalum stat --json`.
    pub fn stat(&self) -> Result<Value, Failure> {
        let text = self.run("stat", &["--json"])?;
        serde_json::from_str(&text).map_err(|error| Failure::Wrong(format!("stat: {error}: {text}")))
    }

    fn run(&self, command: &str, arguments: &[&str]) -> Result<String, Failure> {
        let shell = Shell::new(&self.context.tantalum).args([command, &self.image]).args(arguments);
        shell.folder(self.folder).run()
    }

    /// Shuts the drive down properly; its audit must find nothing.
    pub fn close(&self) -> Result<(), Failure> {
        self.stop()?;
        self.run("check", &[]).map(drop)
    }
}

impl Drop for Served<'_> {
    fn drop(&mut self) {
        let _ = self.stop();
    }
}
