//! `tantalum serve`.

use std::fs::File;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use tantalum::{Access, Command, Device, NamespaceAttributes, NamespaceId, Status};
use tantalum_fuse::Pacing;
use tantalum_nvme::addresses::Advertised;
use tantalum_nvme::authentication::{Hosts, Tls};
use tantalum_nvme::ports::PortAccess;
use tantalum_nvme::serve::{Ending, Notice, Options, ServeError, Served};
use tantalum_nvme_programs::DrivePrograms;
use tantalum_record::blocks::BlockTape;
use tantalum_report::table::count;

use crate::background;
use crate::drive::{ImageOptions, only_read};
use crate::failure::Failure;
use crate::log::{Log, log_path};
use crate::output;

/// What the background process prints once the drive is served; the rest of the line says where, or warns.
const SERVED: &str = "served";

fn parse_listen(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        "use an IP address and a port, such as 127.0.0.1:4420, 0.0.0.0:4420 or [::1]:4420".to_owned()
    })
}

/// `tantalum serve`.
#[derive(Args, Debug)]
pub struct ServeOptions {
    /// The image file of the drive
    pub image: PathBuf,

    /// Addresses and ports to listen on: the first is port 1 of the subsystem, and so on. An address that other machines can reach requires --allow-host and --host-secrets, or
    /// --tls-keys
    #[arg(long, value_name = "ADDRESS:PORT,...", value_delimiter = ',', default_value = "127.0.0.1:4420", value_parser = parse_listen)]
    pub listen: Vec<SocketAddr>,

    /// How well hosts reach the drive through each port: optimized, non-optimized, inaccessible or change [default: optimized]
    #[arg(long, value_name = "ACCESS,...", value_delimiter = ',')]
    pub access: Vec<PortAccess>,

    /// The address that hosts are told to connect to, in the discovery log and by this command, where they reach this machine
    /// by another one than it knows (port forwarding, address translation) [default: the one that they have reached]
    #[arg(long, value_name = "ADDRESS[:PORT]")]
    pub advertise: Option<Advertised>,

    /// Let only hosts with these names (NQNs) connect [default: any]
    #[arg(long, value_name = "NQN,...", value_delimiter = ',')]
    pub allow_host: Vec<String>,

    /// File with the secrets (DH-HMAC-CHAP) of the hosts that --allow-host names. Each line has a host's NQN, its secret as `nvme gen-dhchap-key` prints
    /// it, and optionally the subsystem's secret. The file must not be readable by others
    #[arg(long, value_name = "FILE", requires = "allow_host")]
    pub host_secrets: Option<PathBuf>,

    /// File with keys for TLS 1.3. Each line has a host's NQN, and its key as `nvme gen-tls-key` prints it, with the word `compatible` if the
    /// host's nvme-cli is older than 2.16. The file must not be readable by others
    #[arg(long, value_name = "FILE")]
    pub tls_keys: Option<PathBuf>,

    /// Whether hosts must use TLS, or may
    #[arg(long, value_enum, default_value = "required", requires = "tls_keys")]
    pub tls: TlsUse,

    /// Let hosts with these names open kernel endpoints, which may grant rights to processes and give regions to programs
    #[arg(long, value_name = "NQN,...", value_delimiter = ',')]
    pub kernel_host: Vec<String>,

    /// Whether hosts see the drive's latencies: real, or none to answer as fast as this machine can
    #[arg(long, value_name = "real|none", default_value = "real")]
    pub time: Pacing,

    /// Bytes of a logical block: 4096 or 512. Writes of less than 4096 bytes are read-modify-writes
    #[arg(long, value_name = "N", default_value = "4096", value_parser = block_bytes)]
    pub block_size: u32,

    /// Create key-value namespaces until the drive has N. Hosts see them as namespaces 2 to N + 1
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=64))]
    pub key_value: u16,

    /// Share a block that repeats one written shortly before instead of writing it, for file systems and databases that
    /// write blocks twice
    #[arg(long)]
    pub remap_duplicates: bool,

    /// Record what hosts do to the blocks of a new drive in this file, which must not exist, for `tantalum crash blocks`
    #[arg(long, value_name = "FILE", requires = "create")]
    pub record: Option<PathBuf>,

    /// The name of the NVMe subsystem [default: derived from the image's path]
    #[arg(long, value_name = "NQN")]
    pub nqn: Option<String>,

    #[command(flatten)]
    pub made: ImageOptions,

    /// Return once hosts can attach, and continue in the background
    #[arg(long)]
    pub background: bool,

    /// Passed to the background process
    #[arg(long, hide = true)]
    pub detached: bool,
}

/// Whether hosts use TLS.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum TlsUse {
    /// Connections without it are closed
    Required,
    /// Hosts choose, also those that have a key
    Allowed,
}

fn block_bytes(text: &str) -> Result<u32, String> {
    match text {
        "4096" => Ok(4096),
        "512" => Ok(512),
        _ => Err("a block has 4096 or 512 bytes".to_owned()),
    }
}

/// Serves the drive until it is stopped.
pub fn run(options: &ServeOptions) -> Result<(), Failure> {
    if options.background {
        return background::start(SERVED)?.announce(&format!("{} is served", options.image.display()));
    }
    if options.detached {
        background::detach();
    }
    let mut serve_options = Options {
        image: options.image.clone(),
        listen: listen(options)?,
        advertise: options.advertise,
        pacing: options.time,
        block_bytes: options.block_size,
        name: options.nqn.clone(),
        remap_duplicates: options.remap_duplicates,
        hosts: hosts(options)?,
        programs: Some(Arc::new(DrivePrograms::default())),
        tape: None,
    };
    // Refuse whatever can be refused before a drive is created or recovered.
    serve_options.check()?;
    let (device, only_read) = device(options)?;
    serve_options.tape = tape(options, &device)?;
    let served = Served::start(device, &serve_options)?;
    let stopper = served.stopper();
    // Without a handler a signal ends the process, and the next one recovers.
    let _ = ctrlc::set_handler(move || stopper.stop());
    let mut log = announce(options, &served, only_read)?;
    served.wait(|notice| {
        let line = line_of(&notice);
        match &mut log {
            Some(log) => log.add(&line),
            // This command reports how it ended when it ends.
            None if !matches!(notice, Notice::Ended(Ok(Ending::Closed) | Err(_))) => output::complain(&line),
            None => {}
        }
    })?;
    Ok(())
}

/// Begins the recording, if one is wanted. An image that was created for one that cannot be begun goes too.
fn tape(options: &ServeOptions, device: &Device) -> Result<Option<Arc<BlockTape>>, Failure> {
    let Some(path) = &options.record else { return Ok(None) };
    let file = File::create_new(path).map_err(|error| {
        options.made.forget(&options.image);
        Failure::Recording { path: path.clone(), error }
    })?;
    Ok(Some(Arc::new(BlockTape::new(file, device.profile()))))
}

/// The ports, each with its access.
fn listen(options: &ServeOptions) -> Result<Vec<(SocketAddr, PortAccess)>, Failure> {
    let (ports, accesses) = (options.listen.len(), options.access.len());
    if accesses > ports {
        return Err(Failure::Accesses { accesses, ports });
    }
    let accesses = options.access.iter().copied().chain(std::iter::repeat(PortAccess::Optimized));
    Ok(options.listen.iter().copied().zip(accesses).collect())
}

fn hosts(options: &ServeOptions) -> Result<Hosts, Failure> {
    let hosts = match options.allow_host.is_empty() {
        true => Ok(Hosts::default()),
        false => Hosts::named(&options.allow_host, options.host_secrets.as_deref()),
    };
    let hosts = hosts.and_then(|hosts| hosts.with_kernels(&options.kernel_host));
    let Some(keys) = &options.tls_keys else { return hosts.map_err(Failure::Hosts) };
    let tls = Tls::read(keys, options.tls == TlsUse::Required);
    hosts.and_then(|hosts| Ok(hosts.with_tls(tls?))).map_err(Failure::Hosts)
}

/// The drive; with a line about it if it can only be read.
fn device(options: &ServeOptions) -> Result<(Device, Option<String>), Failure> {
    if options.made.create {
        return Ok((device_as(options, Access::Write)?, None));
    }
    let (mut device, why) =
        Device::or_read(Access::Write, |access| device_as(options, access), Failure::host)?;
    let line = why.as_ref().map(|why| only_read(&options.image, why));
    why.into_iter().for_each(|why| device.refuse_changes(why));
    Ok((device, line))
}

/// The drive with the namespaces that it needs.
fn device_as(options: &ServeOptions, access: Access) -> Result<Device, Failure> {
    let mut device = options.made.device(&options.image, access, "serve")?;
    let lacks_namespaces = device.namespaces().len() < usize::from(options.key_value);
    if access == Access::Overlay && lacks_namespaces {
        // none are created that would be gone afterwards
        return Err(Failure::Namespace { path: options.image.clone(), status: Status::ReadOnly });
    }
    while device.namespaces().len() < usize::from(options.key_value) {
        let attributes = NamespaceAttributes::default();
        let now_ns = device.time_ns();
        let namespace = &mut NamespaceId::default();
        let made = device.submit(Command::CreateNamespace { attributes, namespace }, now_ns);
        made.map_err(|status| {
            options.made.forget(&options.image);
            Failure::Namespace { path: options.image.clone(), status }
        })?;
    }
    Ok(device)
}

/// An event of a server, as text.
fn line_of(notice: &Notice<'_>) -> String {
    match notice {
        Notice::PowerLost => "the drive lost power: all connections end".to_owned(),
        Notice::Recovered(report) => {
            format!(
                "the drive has recovered: {} read; hosts may attach again",
                count(report.pages_read, "page")
            )
        }
        Notice::ProgramEnded(text) => (*text).to_owned(),
        Notice::Ended(Ok(Ending::Closed)) => "stopped: everything is durable".to_owned(),
        Notice::Ended(Ok(Ending::PowerLost)) => {
            "stopped: the drive had lost power, so the next start recovers".to_owned()
        }
        Notice::Ended(Err(error @ ServeError::Recording(_))) => format!("stopped: {error}"),
        Notice::Ended(Err(error)) => format!("stopped: {error}; the next start recovers"),
    }
}

/// Announces how to attach. In the background, later events go to the log.
fn announce(
    options: &ServeOptions,
    served: &Served,
    only_read: Option<String>,
) -> Result<Option<Log>, Failure> {
    let (name, devices) = (served.name(), served.devices().join(", "));
    let address = served.addresses().iter().map(SocketAddr::to_string).collect::<Vec<_>>().join(", ");
    let attach = |address: &SocketAddr| {
        let tls = if options.tls_keys.is_some() { " --tls" } else { "" };
        format!("nvme connect -t tcp -a {} -s {} -n {name}{tls}", address.ip(), address.port())
    };
    let attach: Vec<String> = served.reachable().iter().map(attach).collect();
    if !options.detached {
        let image = options.image.display();
        only_read.iter().for_each(|line| output::complain(line));
        output::print(&format!(
            "{image} is served at {address} until Ctrl-C or `tantalum stop {image}`; attach it with\n  {}\n\
             Its blocks are then at {devices}\n",
            attach.join("\n  ")
        ))?;
        return Ok(None);
    }
    let image = options.image.canonicalize().unwrap_or_else(|_| options.image.clone());
    let log = Log::open(&image);
    let without = match &log {
        Ok(_) => String::new(),
        Err(error) => format!(", without a log ({}: {error})", log_path(&image).display()),
    };
    let mut warning = format!(
        " at {address}{without}; attach it with: {} (its blocks are then at {devices})",
        attach.join(" or with: ")
    );
    only_read.iter().for_each(|line| warning += &format!("; {line}"));
    output::print(&format!("{SERVED}{warning}\n"))?;
    let mut log = log.ok();
    if let Some(log) = &mut log {
        log.add(&format!("served at {address} as {name}"));
        only_read.iter().for_each(|line| log.add(line));
    }
    Ok(log)
}
