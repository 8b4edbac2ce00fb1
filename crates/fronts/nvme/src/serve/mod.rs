//! Serving an image: from a device to a server, through power losses, to a clean stop.
//!
//! When power fails, every connection ends. Once no thread issues commands any more, the drive recovers, and hosts can
//! attach again.

mod control;
mod ends;
mod error;
mod report;
mod stopper;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tantalum::{Device, PowerLoss, RecoveryReport, Status};
use tantalum_control::{Ended, Socket, Subject};
use tantalum_drive::{Answers, Drive, Pacing, Queue};
use tantalum_record::blocks::BlockTape;

use crate::addresses::{Advertised, reachable};
use crate::authentication::Hosts;
use crate::identity::{identity_of, name_of, text_of_uuid, uuid_of_namespace};
use crate::namespaces::TableError;
use crate::ports::{MOST_PORTS, PortAccess};
use crate::programs::Programs;
use crate::qualified_name::is_qualified_name;
use crate::server::Server;
use crate::subsystem::{Settings, Subsystem};
use control::{ControlContext, PowerLosses};
use ends::Ends;
use stopper::Event;

pub use ends::ENDS;
pub use error::ServeError;
pub use report::{BlockNamespace, Report, ServedReport};
pub use stopper::Stopper;

/// Options for serving an image.
#[derive(Clone, Debug)]
pub struct Options {
    /// The image of the drive.
    pub image: PathBuf,
    /// The addresses to listen on: the ports of the subsystem, with the access to namespaces that hosts have through each.
    pub listen: Vec<(SocketAddr, PortAccess)>,
    /// The address that hosts are told instead.
    pub advertise: Option<Advertised>,
    /// Whether hosts see the drive's latencies.
    pub pacing: Pacing,
    /// Bytes of a logical block: 4096 or 512.
    pub block_bytes: u32,
    /// The subsystem's name; derived from the image's path if none is given.
    pub name: Option<String>,
    /// Whether writes that repeat a recent one become shares.
    pub remap_duplicates: bool,
    /// Who may connect.
    pub hosts: Hosts,
    /// Who executes commands about programs in the drive; without, they are refused.
    pub programs: Option<Arc<dyn Programs>>,
    /// Takes what hosts do to blocks, if that is recorded.
    pub tape: Option<Arc<BlockTape>>,
}

/// An event that the user who serves the image should know about.
#[derive(Debug)]
pub enum Notice<'a> {
    /// Power has failed.
    PowerLost,
    /// The drive has power again.
    Recovered(&'a RecoveryReport),
    /// A program in the drive was ended: which, where and why. At most [`ENDS`] are reported.
    ProgramEnded(&'a str),
    /// The image was closed, or could not be.
    Ended(&'a Result<Ending, ServeError>),
}

/// How serving an image ended without an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// Everything is durable and the drive is shut down.
    Closed,
    /// The drive had lost power: the next start recovers.
    PowerLost,
}

/// An image that is served.
pub struct Served {
    server: Arc<Server>,
    losses: Arc<PowerLosses>,
    context: Arc<ControlContext>,
    stopper: Stopper,
    events: Receiver<Event>,
    socket: Socket,
}

impl Options {
    /// Checks whether an image can be served with these options, before it is opened.
    pub fn check(&self) -> Result<(), ServeError> {
        let reachable = self.listen.iter().find(|(address, _)| !address.ip().is_loopback());
        if let (Some((address, _)), Some(host)) = (reachable, self.hosts.first_without_proof()) {
            return Err(ServeError::NotLoopback { address: *address, host: host.to_owned() });
        }
        let ports = self.listen.len();
        if !(1..=MOST_PORTS).contains(&ports) {
            return Err(ServeError::Ports { ports });
        }
        if ports > 1 && self.advertise.is_some_and(Advertised::has_port) {
            return Err(ServeError::AdvertisedPort { ports });
        }
        if self.hosts.tls().is_some() && !cfg!(feature = "tls") {
            return Err(ServeError::WithoutTls);
        }
        match &self.name {
            Some(name) if !is_qualified_name(name) => Err(ServeError::Name(name.clone())),
            _ => Ok(()),
        }
    }
}

impl Served {
    /// Serves a drive. If that fails, the drive is shut down; the error is why it could not be served, also if that fails too.
    pub fn start(device: Device, options: &Options) -> Result<Served, ServeError> {
        options.check()?;
        let system = |error| ServeError::System { image: options.image.clone(), error };
        let image = options.image.canonicalize().map_err(system)?;
        let answers = Answers::new(options.pacing, device.time_ns()).map_err(system)?;
        let drive = Drive::new(device);
        drive.set_remap_duplicates(options.remap_duplicates);
        match serve(&drive, image, answers, options) {
            Ok(served) => Ok(served),
            Err(error) => {
                let _ = shut_down(&drive, 0);
                Err(error)
            }
        }
    }

    /// The address it listens on; the first one if there are several.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// All addresses it listens on, by port.
    pub fn addresses(&self) -> &[SocketAddr] {
        self.server.addresses()
    }

    /// The addresses at which hosts reach it.
    pub fn reachable(&self) -> Vec<SocketAddr> {
        let of = |address: &SocketAddr| match self.settings().advertised {
            Some(advertised) => vec![advertised.with_port(address.port())],
            None => reachable(*address),
        };
        self.server.addresses().iter().flat_map(of).collect()
    }

    /// The subsystem's name.
    pub fn name(&self) -> &str {
        &self.settings().name
    }

    /// The links to its block namespaces on a Linux host that has udev, in the order of their numbers.
    pub fn devices(&self) -> Vec<String> {
        let table = self.server.subsystem().namespaces.table();
        let mut entries: Vec<_> =
            table.entries().map(|(_, entry)| (entry.number, entry.identity())).collect();
        entries.sort_unstable();
        let link = |identity| text_of_uuid(uuid_of_namespace(self.settings().identity, identity));
        entries.iter().map(|(_, identity)| format!("/dev/disk/by-id/nvme-uuid.{}", link(*identity))).collect()
    }

    fn settings(&self) -> &Settings {
        &self.server.subsystem().settings
    }

    /// A handle that can stop it from another thread.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Serves until it is stopped, and then shuts the drive down, or leaves it as an earlier power loss left it.
    /// `notice` is called with events before clients of the control socket learn of them. When they learn of the end, the image
    /// can be opened again and the address is free, unless connections did not end.
    pub fn wait(self, mut notice: impl FnMut(Notice<'_>)) -> Result<Ending, ServeError> {
        let mut ends = Ends::default();
        let ended = self.serve(&mut ends, &mut notice);
        // before the image: who opens that next has a socket at the same place
        drop(self.socket);
        let drive = self.server.subsystem().queue.drive();
        let is_idle = self.server.end();
        if let Some(programs) = &self.server.subsystem().programs {
            programs.stop();
        }
        // a program may have ended before the stop, and be reported after it
        for event in self.events.try_iter() {
            if let Event::ProgramEnded(text) = event {
                ends.report(&text, |text| notice(Notice::ProgramEnded(text)));
            }
        }
        let ended = match is_idle {
            true => ended.and_then(|()| shut_down(drive, self.losses.next_seed())),
            false => ended.and(Err(ServeError::Stuck)),
        };
        if ended.is_err() && is_idle {
            drive.lock().let_go();
        }
        let kept = self.server.subsystem().tape.as_ref().map_or(Ok(()), |tape| tape.flush());
        let ended = ended.and_then(|ending| kept.map(|()| ending).map_err(ServeError::Recording));
        notice(Notice::Ended(&ended));
        self.context.end().come(match &ended {
            Ok(Ending::Closed) => Ended::Closed,
            Ok(Ending::PowerLost) => Ended::PowerLost,
            Err(error) => Ended::Failed(error.to_string()),
        });
        ended
    }

    fn serve(&self, ends: &mut Ends, notice: &mut impl FnMut(Notice<'_>)) -> Result<(), ServeError> {
        while let Ok(event) = self.events.recv() {
            match event {
                Event::Stop => return Ok(()),
                Event::ProgramEnded(text) => ends.report(&text, |text| notice(Notice::ProgramEnded(text))),
                Event::PowerLost => {
                    notice(Notice::PowerLost);
                    let report = self.recover()?;
                    notice(Notice::Recovered(&report));
                }
            }
        }
        Ok(())
    }

    /// Ends every connection, and then gives the drive power again.
    fn recover(&self) -> Result<RecoveryReport, ServeError> {
        if !self.server.close() {
            return Err(ServeError::Stuck);
        }
        let seed = self.losses.next_seed();
        self.losses.add();
        let subsystem = self.server.subsystem();
        if let Some(programs) = &subsystem.programs {
            programs.stop();
        }
        let report = subsystem.queue.drive().lock().power_on(&mut PowerLoss::seeded(seed));
        let report = report.map_err(ServeError::Recovery)?;
        let accepted = self.server.connections();
        assert_eq!(accepted, 0, "{accepted} connections were accepted while the drive recovered");
        match subsystem.power_on() {
            // power has gone again, and another event says so
            Err(TableError::Read(Status::PowerLost)) => return Ok(report),
            known => known.map_err(ServeError::Namespaces)?,
        }
        if let Some(programs) = &subsystem.programs {
            programs.power_on();
        }
        self.server.open();
        Ok(report)
    }
}

fn serve(drive: &Drive, image: PathBuf, answers: Answers, options: &Options) -> Result<Served, ServeError> {
    raise_file_limit();
    let identity = identity_of(&image);
    let settings = Settings {
        name: options.name.clone().unwrap_or_else(|| name_of(identity)),
        serial: format!("{identity:016X}"),
        identity,
        block_bytes: options.block_bytes,
        advertised: options.advertise,
    };
    let queue = Queue::new(drive.clone(), answers.clone());
    let subsystem = Subsystem::new(settings, queue).map_err(ServeError::Namespaces)?;
    let mut subsystem = subsystem.for_hosts(options.hosts.clone());
    subsystem.programs = options.programs.clone();
    subsystem.tape = options.tape.clone();
    let server = Server::start_at(Arc::new(subsystem), &options.listen);
    let server = server.map_err(|(address, error)| ServeError::Listen { address, error })?;
    let server = Arc::new(server);
    let (sender, events) = mpsc::channel();
    let losses = sender.clone();
    drive.on_power_loss(move || losses.send(Event::PowerLost).is_ok());
    let ends = sender.clone();
    // nothing listens on a server that has ended
    let told = move |text: String| drop(ends.send(Event::ProgramEnded(text)));
    if let Some(programs) = &server.subsystem().programs {
        programs.on_end(Box::new(told));
    }
    let (losses, stopper) = (Arc::new(PowerLosses::default()), Stopper(sender));
    let context = ControlContext::new(
        image.clone(),
        Arc::clone(&server),
        answers,
        options.pacing,
        Arc::clone(&losses),
        stopper.clone(),
    );
    let context = Arc::new(context);
    let socket = tantalum_control::serve(Arc::clone(&context));
    let socket = socket.map_err(|error| ServeError::Socket { image, error })?;
    Ok(Served { server, losses, context, stopper, events, socket })
}

/// Each connection has three descriptors, and the usual limit of 1024 exists only for old programs. Where it cannot be
/// raised, fewer connections are accepted.
fn raise_file_limit() {
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}

/// Shuts a drive down. If its power has failed, or fails meanwhile, the image becomes what the power loss leaves.
fn shut_down(drive: &Drive, seed: u64) -> Result<Ending, ServeError> {
    let mut device = drive.lock();
    let now_ns = device.time_ns();
    match device.put_away(now_ns) {
        Ok(()) => Ok(Ending::Closed),
        Err(Status::PowerLost) => {
            let settled = device.settle_power_loss(&mut PowerLoss::seeded(seed));
            settled.map(|()| Ending::PowerLost).map_err(ServeError::PowerLoss)
        }
        Err(status) => Err(ServeError::Shutdown(status)),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;
    use std::time::{Duration, Instant};

    use tantalum::Profile;
    use tantalum_control::{Control, socket_path};

    use super::*;

    fn options(image: &Path, listen: &str, hosts: Hosts) -> Options {
        Options {
            image: image.to_owned(),
            listen: vec![(listen.parse().unwrap(), PortAccess::Optimized)],
            advertise: None,
            pacing: Pacing::None,
            block_bytes: 4096,
            name: None,
            remap_duplicates: false,
            hosts,
            programs: None,
            tape: None,
        }
    }

    /// A process that had closed its image removed the socket of the next one, which had opened the image in between, or
    /// that one was told that another process answers there.
    #[test]
    fn the_control_socket_is_gone_before_others_can_open_the_image() {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("drive.tant");
        let profile = Profile { capacity_bytes: 64 << 20, ..Profile::load("tlc-nvme").unwrap() };
        let device = Device::create(&image, &profile).unwrap();
        let served = Served::start(device, &options(&image, "127.0.0.1:0", Hosts::default())).unwrap();
        let (stopper, drive) = (served.stopper(), served.server.subsystem().queue.drive().clone());
        let end = Control::connect(&image).unwrap().watch_end().unwrap();
        let serving = std::thread::spawn(move || served.wait(|_| {}));
        // it cannot be closed
        let device = drive.lock();
        stopper.stop();
        let until = Instant::now() + Duration::from_secs(20);
        while socket_path(&image).exists() {
            assert!(Instant::now() < until, "the socket is still there");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(device.has_power());
        drop(device);
        assert_eq!(end.wait().unwrap(), Ended::Closed);
        serving.join().unwrap().unwrap();
    }

    #[test]
    fn other_machines_are_kept_out() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("secrets");
        let secret = crate::authentication::Secret::new(vec![1; 32], None).unwrap();
        std::fs::write(&file, format!("nqn.2014-08.org.example:a {}\n", secret.text())).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        let listen = |address: &str, hosts: &[&str]| {
            let names: Vec<String> = hosts.iter().map(|&host| host.to_owned()).collect();
            let hosts = Hosts::named(&names, Some(&file)).unwrap();
            let hosts = if names.is_empty() { Hosts::default() } else { hosts };
            options("drive.tant".as_ref(), address, hosts).check()
        };
        assert!(listen("127.0.0.1:4420", &[]).is_ok());
        assert!(listen("[::1]:4420", &["nqn.2014-08.org.example:b"]).is_ok());
        for hosts in [
            &[][..],
            &["nqn.2014-08.org.example:b"],
            &["nqn.2014-08.org.example:a", "nqn.2014-08.org.example:b"],
        ] {
            assert!(
                matches!(listen("0.0.0.0:4420", hosts), Err(ServeError::NotLoopback { .. })),
                "{hosts:?}"
            );
        }
        assert!(listen("0.0.0.0:4420", &["nqn.2014-08.org.example:a"]).is_ok());
    }
}
