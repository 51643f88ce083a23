//! One command, from start to end.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};
use std::{env, fs, io};

use crate::cache::Cache;
use crate::failure::{self, Failure, lab};
use crate::guest::{Guest, Silence};
use crate::kernel::Kernel;
use crate::machine::Machine;
use crate::matrix::Matrix;
use crate::options::Options;
use crate::output::Stream;
use crate::process::{self, Signals};
use crate::{snapshot, table};

/// The plug-in, which `plugin/` holds.
const PLUGIN: &[u8] = include_bytes!(env!("NUMAMMA_LAB_PLUGIN"));

/// A guest that has not booted by then never will: on a busy machine an emulated boot hangs now and then.
const BOOT: Duration = Duration::from_secs(120);
const BOOTS: u32 = 3;

/// Until the guest has mounted its file systems.
const START: Duration = Duration::from_secs(60);

/// How often output is passed on.
const PASS_ON: Duration = Duration::from_millis(30);

/// Quiet, the same every time, and without what takes time and shows nothing.
const BOOT_LINE: &str = "console=ttyS0 loglevel=4 panic=-1 nokaslr mitigations=off tsc=reliable no_timer_check nowatchdog \
    random.trust_cpu=on audit=0 apparmor=0 rcupdate.rcu_expedited=1 cryptomgr.notests 8250.nr_uarts=1 \
    initcall_blacklist=init_ima,init_evm,load_system_certificate_list";

/// Runs the command and gives its status.
pub fn run(options: &Options) -> Result<u8, Failure> {
    let begin = Instant::now();
    let machine = Machine::of(options)?;
    let share = options.share.as_deref().map(share).transpose()?;
    if let Some(file) = &options.matrix {
        fs::write(file, "").map_err(failure::file("write", file))?;
    }
    let cache = Cache::open()?;
    let kernel = Kernel::get(options.kernel, &cache)?;
    let signals = Signals::catch()?;
    let session = Session { options, machine, share, folder: Folder::make()?, signals };
    session.write_files(&kernel)?;
    let mut guest = session.guest(&kernel, &cache, begin)?;
    if options.prepare {
        return Ok(0);
    }
    let status = session.command(&mut guest);
    let end = Instant::now();
    guest.end();
    if let (Ok(_) | Err(Failure::Timeout(_)), Some(file)) = (&status, &options.matrix) {
        session.write_matrix(file, status.is_ok())?;
    }
    session.say(|| format!("all of it took {:.1} s", (end - begin).as_secs_f64()));
    status
}

struct Session<'a> {
    options: &'a Options,
    machine: Machine,
    share: Option<PathBuf>,
    folder: Folder,
    signals: Signals,
}

impl Session<'_> {
    fn say(&self, text: impl FnOnce() -> String) {
        if self.options.verbose {
            eprintln!("lab/run: {}", text());
        }
    }

    /// All that QEMU and the guest will look for.
    fn write_files(&self, kernel: &Kernel) -> Result<(), Failure> {
        let zero_ended = |parts: &mut dyn Iterator<Item = OsString>| {
            parts.flat_map(|part| [part.as_bytes(), &[0]].concat()).collect::<Vec<u8>>()
        };
        let share = self.share.as_deref().unwrap_or(Path::new("")).as_os_str();
        let place = ("LAB_SHARE", share);
        let variables = env::vars_os().filter(|(name, _)| name != place.0);
        let variables = variables.chain((!share.is_empty()).then(|| (place.0.into(), place.1.to_owned())));
        let mut variables = variables.map(|(name, value)| [&name, OsStr::new("="), &value].into_iter().collect());
        let cwd = env::current_dir().unwrap_or_default();
        self.folder.write("guest/argv", &zero_ended(&mut self.options.command.iter().cloned()))?;
        self.folder.write("guest/environ", &zero_ended(&mut variables))?;
        self.folder.write("guest/cwd", cwd.as_os_str().as_bytes())?;
        self.folder.write("guest/share", share.as_bytes())?;
        self.folder.write("guest/out", &[])?;
        self.folder.write("guest/err", &[])?;
        self.folder.write("files", &kernel.first_files()?)?;
        if self.options.needs_plugin() {
            self.folder.write("plugin.so", PLUGIN)?;
            table::write(&self.folder.path("table"), &self.machine, self.options)?;
        }
        Ok(())
    }

    /// A guest that waits for a command.
    fn guest(&self, kernel: &Kernel, cache: &Cache, begin: Instant) -> Result<Guest, Failure> {
        let took = || begin.elapsed().as_secs_f64();
        let what = self.what_it_is(kernel);
        let plugin = self.plugin();
        if self.options.no_snapshot {
            let guest = self.boot(&[what, plugin].concat())?;
            self.say(|| format!("the guest has booted after {:.1} s", took()));
            return Ok(guest);
        }
        // The plug-in is no part of the machine: a guest that has booted without it goes on with it.
        let place = snapshot::place(cache, &what, [&kernel.program(), &self.folder.path("files")])?;
        if place.exists() {
            match self.resume(&[&what[..], &plugin].concat(), &place) {
                Err(Failure::Lab(why)) => {
                    self.say(|| format!("{}: {why}; booting anew", place.display()));
                    fs::remove_file(&place).map_err(failure::file("remove", &place))?;
                }
                guest => {
                    self.say(|| format!("the guest goes on after {:.1} s", took()));
                    return guest;
                }
            }
        }
        snapshot::take(self.boot(&what)?, &place, cache)?;
        self.say(|| format!("booted and kept as {} after {:.1} s", place.display(), took()));
        self.resume(&[what, plugin].concat(), &place)
    }

    fn resume(&self, arguments: &[OsString], place: &Path) -> Result<Guest, Failure> {
        let mut guest = self.start(&[arguments, &snapshot::resume(place)].concat())?;
        guest.resumed()?;
        Ok(guest)
    }

    fn boot(&self, arguments: &[OsString]) -> Result<Guest, Failure> {
        for _ in 0..BOOTS {
            let mut guest = self.start(arguments)?;
            match guest.expect("READY", Instant::now() + BOOT) {
                Ok(seconds) => {
                    self.say(|| format!("its clock shows {seconds} s"));
                    return Ok(guest);
                }
                Err(Silence::Late) => eprintln!("lab/run: the guest has not booted within {BOOT:?}; trying again"),
                // Emulated CPUs that patch the kernel's code while others execute it stop now and then.
                Err(Silence::Failed(Failure::Lab(why))) if why.contains("Kernel panic") => {
                    eprintln!("lab/run: the guest's kernel has stopped while it booted; trying again");
                }
                Err(Silence::Failed(failure)) => return Err(failure),
            }
        }
        lab("the guest does not boot: this machine may be too busy")
    }

    fn start(&self, what: &[OsString]) -> Result<Guest, Failure> {
        let arguments = [what, &self.where_it_is()].concat();
        Guest::start(&arguments, self.folder.as_ref(), &self.signals)
    }

    /// Arguments that make the guest what it is, snapshot included.
    fn what_it_is(&self, kernel: &Kernel) -> Vec<OsString> {
        let balancing = if self.options.numa_balancing { "enable" } else { "disable" };
        let fixed = [
            ["-accel", "tcg,thread=multi,tb-size=256"],
            ["-cpu", "max,la57=off"],
            ["-device", "virtio-serial-pci"],
            ["-device", "virtserialport,chardev=port,name=lab"],
            ["-device", "virtio-9p-pci,fsdev=host,mount_tag=host"],
            ["-device", "virtio-9p-pci,fsdev=lab,mount_tag=lab"],
            ["-device", "virtio-9p-pci,fsdev=share,mount_tag=share"],
            ["-initrd", "files"],
        ];
        let mut arguments: Vec<OsString> = self.machine.arguments().into_iter().map(OsString::from).collect();
        arguments.extend(["-nodefaults", "-no-user-config", "-no-reboot"].map(OsString::from));
        arguments.extend(["-display", "none"].map(OsString::from));
        arguments.extend(["-append".into(), format!("{BOOT_LINE} numa_balancing={balancing}").into()]);
        arguments.extend(["-kernel".into(), kernel.program().into_os_string()]);
        arguments.extend(fixed.as_flattened().iter().map(OsString::from));
        arguments
    }

    /// Arguments that say where things are for this run; paths are as seen from its folder.
    fn where_it_is(&self) -> Vec<OsString> {
        let lab = self.folder.path("guest");
        let share = self.share.clone().unwrap_or_else(|| self.folder.path("nothing"));
        let folder = |id: &str, path: &Path, more: &str| {
            let path = path.display().to_string().replace(',', ",,");
            format!("local,id={id},path={path},security_model=none{more}")
        };
        let pairs = [
            ("-serial", "file:console".to_owned()),
            ("-chardev", "socket,id=orders,path=orders".to_owned()),
            ("-mon", "chardev=orders,mode=control".to_owned()),
            ("-chardev", "socket,id=port,path=port".to_owned()),
            ("-fsdev", folder("host", Path::new("/"), ",readonly=on,multidevs=remap")),
            ("-fsdev", folder("lab", &lab, "")),
            ("-fsdev", folder("share", &share, ",multidevs=remap")),
        ];
        pairs.into_iter().flat_map(|(name, value)| [OsString::from(name), value.into()]).collect()
    }

    fn plugin(&self) -> Vec<OsString> {
        if !self.options.needs_plugin() {
            return vec![];
        }
        let (plugin, table) = (self.folder.path("plugin.so"), self.folder.path("table"));
        vec!["-plugin".into(), format!("{},table={}", plugin.display(), table.display()).into()]
    }

    /// Has the guest run the command, and waits for its end.
    fn command(&self, guest: &mut Guest) -> Result<u8, Failure> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let check = self.options.needs_plugin();
        guest.tell(&format!("GO {} {}", now.as_secs(), u8::from(check)));
        if check {
            let until = Instant::now() + START;
            self.in_time(guest.expect("CHECKED", until), "has not started")?;
            table::check(&self.folder.path("table"), &self.machine)?;
            if self.options.caches.is_some() {
                table::begin_caching(&self.folder.path("table"))?;
            }
        }
        guest.tell("RUN");
        let begin = Instant::now();
        let until = begin + Duration::from_secs(self.options.timeout);
        let mut out = Stream::open(&self.folder.path("guest/out"), false)?;
        let mut err = Stream::open(&self.folder.path("guest/err"), true)?;
        let status = loop {
            let said = guest.expect("EXIT", until.min(Instant::now() + PASS_ON));
            out.pass_on()?;
            err.pass_on()?;
            match said {
                Ok(status) => break status,
                Err(Silence::Failed(failure)) => return Err(failure),
                Err(Silence::Late) if Instant::now() >= until => return Err(Failure::Timeout(self.options.timeout)),
                Err(Silence::Late) => {}
            }
        };
        self.say(|| format!("the command took {:.1} s, its start included", begin.elapsed().as_secs_f64()));
        status.parse().map_err(|_| Failure::Lab(format!("the guest gives {status:?} as the command's status")))
    }

    fn in_time(&self, said: Result<String, Silence>, what: &str) -> Result<String, Failure> {
        said.map_err(|silence| match silence {
            Silence::Failed(failure) => failure,
            Silence::Late => Failure::Lab(format!("the guest {what}: this machine may be too busy")),
        })
    }

    fn write_matrix(&self, file: &Path, complete: bool) -> Result<(), Failure> {
        let counted = table::read(&self.folder.path("table"), &self.machine)?;
        let matrix = Matrix::new(&self.machine, &counted, self.options, complete);
        let text = serde_json::to_string_pretty(&matrix).map_err(|error| Failure::Lab(error.to_string()))?;
        fs::write(file, text + "\n").map_err(failure::file("write", file))
    }
}

/// The folder that the guest may write to.
fn share(path: &Path) -> Result<PathBuf, Failure> {
    fs::create_dir_all(path).and_then(|()| path.canonicalize()).map_err(failure::file("share", path))
}

/// What lies on disk for one run.
struct Folder(PathBuf);

const PREFIX: &str = "numamma-lab-";

impl Folder {
    fn make() -> Result<Folder, Failure> {
        let base = env::temp_dir();
        remove_forgotten(&base);
        let path = base.join(format!("{PREFIX}{}", std::process::id()));
        let made = fs::create_dir(&path).and_then(|()| fs::create_dir(path.join("guest")));
        made.and_then(|()| fs::create_dir(path.join("nothing"))).map_err(failure::file("make", &path))?;
        Ok(Folder(path))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), Failure> {
        let path = self.path(name);
        fs::write(&path, bytes).map_err(failure::file("write", &path))
    }
}

impl AsRef<Path> for Folder {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _: io::Result<()> = fs::remove_dir_all(&self.0); // the next run tries again
    }
}

/// Folders of runs that were killed.
fn remove_forgotten(base: &Path) {
    for entry in fs::read_dir(base).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let maker = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.parse().ok());
        if maker.is_some_and(|maker| !process::exists(maker)) {
            let _ = fs::remove_dir_all(entry.path()); // somebody else's
        }
    }
}
