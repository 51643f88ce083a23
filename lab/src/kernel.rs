//! Kernels of Debian, taken out of their packages: the program itself and the few drivers that the guest needs.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::str::FromStr;
use std::{env, fmt};

use crate::archive::Archive;
use crate::cache::Cache;
use crate::failure::{self, Failure, lab};
use crate::process::tied;

/// The guest's first program, which `guest/` holds.
const INIT: &[u8] = include_bytes!(env!("NUMAMMA_LAB_INIT"));

/// Raised when what is made of a package changes.
const FORM: u32 = 1;

/// In the order they are loaded. Kernels differ in which of them are built in, and these they lack.
const MODULES: [&str; 12] = [
    "virtio",
    "virtio_ring",
    "virtio_pci_modern_dev",
    "virtio_pci_legacy_dev",
    "virtio_pci",
    "virtio_console",
    "overlay",
    "fscache",
    "netfs",
    "9pnet",
    "9pnet_virtio",
    "9p",
];

const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// A kernel that the lab knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// Of Debian 12; without weighted interleaving.
    V6_1,
    /// Of Debian 13 and of the backports for 12.
    V6_12,
}

impl FromStr for Version {
    type Err = String;

    fn from_str(text: &str) -> Result<Version, String> {
        match text {
            "6.1" => Ok(Version::V6_1),
            "6.12" => Ok(Version::V6_12),
            _ => Err("the lab knows 6.1 and 6.12".to_owned()),
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Version::V6_1 => "6.1",
            Version::V6_12 => "6.12",
        })
    }
}

impl Version {
    /// The parts of Debian that have it.
    fn suites(self) -> &'static [&'static str] {
        match self {
            Version::V6_1 => &["bookworm"],
            Version::V6_12 => &["bookworm-backports", "trixie"],
        }
    }
}

/// A kernel that lies in the cache.
#[derive(Debug)]
pub struct Kernel {
    folder: PathBuf,
}

impl Kernel {
    /// From the cache, or fetched into it.
    pub fn get(version: Version, cache: &Cache) -> Result<Kernel, Failure> {
        let folder = cache.path(&format!("kernel-{version}-{FORM}"));
        if !folder.is_dir() {
            let unfinished = cache.unfinished(&folder);
            eprintln!("lab/run: fetching Linux {version} for the guest");
            let made = fetch(version, &unfinished);
            // Where two runs made one at the same time, that of the other is as good.
            let kept = made.and_then(|()| match fs::rename(&unfinished, &folder) {
                Err(error) if !folder.is_dir() => Err(failure::file("make", &folder)(error)),
                _ => Ok(()),
            });
            let _ = fs::remove_dir_all(&unfinished);
            kept?;
        }
        Ok(Kernel { folder })
    }

    /// The program, as QEMU starts it.
    pub fn program(&self) -> PathBuf {
        self.folder.join("vmlinux")
    }

    /// What it unpacks into memory when it begins.
    pub fn first_files(&self) -> Result<Vec<u8>, Failure> {
        if INIT.is_empty() {
            return lab(
                "this binary was built without the guest's program: install libc6-dev (libc.a) and build again",
            );
        }
        let mut archive = Archive::default();
        for folder in ["proc", "sys", "dev", "host", "over", "root", "modules"] {
            archive.folder(folder);
        }
        archive.file("init", INIT);
        for number in 0..MODULES.len() {
            let name = format!("modules/{number:02}.ko");
            let path = self.folder.join(&name);
            if path.exists() {
                archive.file(&name, &fs::read(&path).map_err(failure::file("read", &path))?);
            }
        }
        Ok(archive.finish())
    }
}

fn fetch(version: Version, folder: &Path) -> Result<(), Failure> {
    fs::create_dir_all(folder.join("modules")).map_err(failure::file("make", folder))?;
    let work = folder.join("work");
    let mut why = String::new();
    for mirror in mirrors() {
        for suite in version.suites() {
            match download(version, &mirror, suite, &work) {
                Ok(package) => {
                    unpack(&package, &work, folder)?;
                    return fs::remove_dir_all(&work).map_err(failure::file("remove", &work));
                }
                Err(error) => why = error.to_string(),
            }
        }
    }
    if why.is_empty() {
        why = "this system has no package source of Debian".to_owned();
    }
    lab(format!(
        "no Linux {version} for the guest: {why}; set NUMAMMA_LAB_MIRROR to the address of a Debian mirror that can be reached"
    ))
}

// ---- The package

/// The mirror that the user names, else those that this system gets its own packages from.
fn mirrors() -> Vec<String> {
    if let Ok(mirror) = env::var("NUMAMMA_LAB_MIRROR") {
        return vec![mirror];
    }
    let mut apt = tied("apt-get");
    apt.args(["indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"]);
    output(&mut apt).map_or(Vec::new(), |targets| of_debian(&targets))
}

/// Of the sources of a system's packages those that may have Debian's kernels, each once.
fn of_debian(targets: &str) -> Vec<String> {
    let mut mirrors: Vec<String> = Vec::new();
    for mirror in targets.lines().map(|line| line.trim().trim_end_matches('/')) {
        let is_debian = mirror.rsplit('/').next().is_some_and(|folder| folder == "debian");
        if is_debian && !mirrors.iter().any(|other| other == mirror) {
            mirrors.push(mirror.to_owned());
        }
    }
    mirrors
}

fn download(version: Version, mirror: &str, suite: &str, work: &Path) -> Result<PathBuf, Failure> {
    let apt = work.join(suite);
    for folder in ["lists/partial", "cache/archives/partial"] {
        fs::create_dir_all(apt.join(folder)).map_err(failure::file("make", &apt))?;
    }
    if !Path::new(KEYRING).exists() {
        return lab("its packages cannot be verified: install debian-archive-keyring");
    }
    let list = apt.join("sources.list");
    let source = format!("deb [arch=amd64 signed-by={KEYRING}] {mirror} {suite} main\n");
    fs::write(&list, source).map_err(failure::file("write", &list))?;
    output(apt_tool("apt-get", &apt).arg("update"))?;
    let names = output(apt_tool("apt-cache", &apt).args(["pkgnames", &format!("linux-image-{version}.")]))?;
    let mut names: Vec<&str> = names.lines().filter(|name| is_plain(name)).collect();
    names.sort_by_cached_key(|name| numbers(name));
    let mut last = Failure::Lab(format!("{suite} has none"));
    // The index may name versions that the archive has dropped.
    for name in names.iter().rev().take(3) {
        match output(apt_tool("apt-get", &apt).args(["download", name]).current_dir(&apt)) {
            Ok(_) => return find(&apt, |file| file.ends_with(".deb")).ok_or(last),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// apt with lists and packages of our own, so that it changes nothing on this system and needs no root.
fn apt_tool(name: &str, folder: &Path) -> Command {
    let mut command = tied(name);
    let mut set = |key: &str, value: &OsStr| {
        let mut option = std::ffi::OsString::from(format!("{key}="));
        option.push(value);
        command.arg("-o").arg(option);
    };
    set("Dir::Etc::SourceList", folder.join("sources.list").as_os_str());
    set("Dir::Etc::SourceParts", OsStr::new("/dev/null"));
    set("Dir::State::Lists", folder.join("lists").as_os_str());
    set("Dir::Cache", folder.join("cache").as_os_str());
    set("APT::Sandbox::User", OsStr::new(""));
    set("APT::Get::List-Cleanup", OsStr::new("false"));
    set("Acquire::Languages", OsStr::new("none"));
    set("Acquire::Retries", OsStr::new("2"));
    set("Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled", OsStr::new("false"));
    command
}

/// Not a flavour (`-rt-amd64`, `-cloud-amd64`), nor `-dbg` or `-unsigned`: `linux-image-6.12.9+deb12-amd64`.
fn is_plain(name: &str) -> bool {
    let version = name.strip_prefix("linux-image-").and_then(|name| name.strip_suffix("-amd64"));
    let is_version = |text: &str| text.chars().all(|c| c.is_ascii_digit() || ".+-".contains(c));
    version.is_some_and(|version| is_version(&version.replace("+deb", "+")))
}

fn numbers(name: &str) -> Vec<u64> {
    let version = name.trim_end_matches("-amd64");
    version.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect()
}

// ---- What is in it

fn unpack(package: &Path, work: &Path, folder: &Path) -> Result<(), Failure> {
    let root = work.join("root");
    fs::create_dir_all(&root).map_err(failure::file("make", &root))?;
    let mut reader = tied("dpkg-deb");
    let mut reader = start(reader.arg("--fsys-tarfile").arg(package).stdout(Stdio::piped()))?;
    let tar = reader.stdout.take().map_or_else(Stdio::null, Stdio::from);
    let folders = ["net/9p", "fs/9p", "fs/overlayfs", "fs/netfs", "fs/fscache", "drivers/virtio", "drivers/char"];
    let mut writer = tied("tar");
    writer.current_dir(&root).args(["--extract", "--wildcards", "./boot/vmlinuz-*"]);
    writer.args(folders.map(|folder| format!("*/kernel/{folder}/*")));
    // tar fails where one of the patterns is not found: what counts is what is there afterwards.
    let writer = writer.stdin(tar).stderr(Stdio::null()).status();
    writer.map_err(|error| Failure::Lab(format!("cannot run tar: {error}: install tar and util-linux")))?;
    let _ = reader.wait();
    let lacks = |what: &str| Failure::Lab(format!("{} has no {what}", package.display()));
    let image = find(&root, |name| name.starts_with("vmlinuz-")).ok_or_else(|| lacks("vmlinuz"))?;
    extract_program(&image, &folder.join("vmlinux"))?;
    for (number, module) in MODULES.iter().enumerate() {
        let is_it = |name: &str| name.strip_prefix(module).is_some_and(|rest| rest.starts_with(".ko"));
        if let Some(file) = find(&root, is_it) {
            expand(&file, &folder.join(format!("modules/{number:02}.ko")))?;
        }
    }
    find(&root, |name| name.starts_with("9p.ko")).map(|_| ()).ok_or_else(|| lacks("9p driver"))
}

/// The kernel proper out of what a boot loader loads: it would unpack itself, which an emulator is slow at.
fn extract_program(image: &Path, to: &Path) -> Result<(), Failure> {
    let bytes = fs::read(image).map_err(failure::file("read", image))?;
    // Offsets of the boot protocol's header; behind the payload stands its size.
    let number =
        |at: usize| bytes.get(at..at + 4).map_or(0, |four| u32::from_le_bytes(four.try_into().unwrap_or_default()));
    let sectors = bytes.get(0x1f1).map_or(0, |&byte| usize::from(byte));
    let begin = (sectors + 1) * 512 + number(0x248) as usize;
    let payload = bytes.get(begin..begin + (number(0x24c) as usize).saturating_sub(4));
    let payload = payload.ok_or_else(|| Failure::Lab(format!("{} is no kernel as expected", image.display())))?;
    let packed = to.with_extension(if payload.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) { "zst" } else { "xz" });
    fs::write(&packed, payload).map_err(failure::file("write", &packed))?;
    expand(&packed, to)?;
    fs::remove_file(&packed).map_err(failure::file("remove", &packed))
}

fn expand(from: &Path, to: &Path) -> Result<(), Failure> {
    let tool: &[&str] = match from.extension().and_then(OsStr::to_str) {
        Some("xz") => &["xz", "--decompress", "--stdout", "--single-stream"],
        Some("zst") => &["zstd", "--decompress", "--stdout", "--quiet"],
        _ => &["cat"],
    };
    let input = File::open(from).map_err(failure::file("open", from))?;
    let output = File::create(to).map_err(failure::file("write", to))?;
    let mut child = start(tied(tool[0]).args(&tool[1..]).stdin(input).stdout(output))?;
    let status = child.wait().map_err(failure::file("expand", from))?;
    if status.success() { Ok(()) } else { lab(format!("{} could not expand {}: install it", tool[0], from.display())) }
}

/// A file with such a name in or below a folder.
fn find(folder: &Path, is_it: impl Fn(&str) -> bool + Copy) -> Option<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).find_map(|path| {
        if path.is_dir() {
            return find(&path, is_it);
        }
        path.file_name().and_then(OsStr::to_str).is_some_and(is_it).then_some(path)
    })
}

fn start(command: &mut Command) -> Result<std::process::Child, Failure> {
    let name = command.get_args().nth(3).unwrap_or_default().to_owned();
    command.spawn().map_err(|error| Failure::Lab(format!("cannot run {}: {error}; see lab/setup", name.display())))
}

/// What a command writes, if it succeeds.
fn output(command: &mut Command) -> Result<String, Failure> {
    let child = start(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()))?;
    let output = child.wait_with_output().map_err(|error| Failure::Lab(error.to_string()))?;
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let failed = !output.status.success() || errors.contains("Failed to fetch");
    let told = errors.lines().find(|line| !line.trim().is_empty()).unwrap_or("it gives no reason");
    if failed { lab(told.trim()) } else { Ok(String::from_utf8_lossy(&output.stdout).into_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mirrors_are_those_of_the_system() {
        let targets = "http://mirror/debian/\nhttp://mirror/debian/\nhttp://mirror/debian-security/\nftp://b/debian\n";
        assert_eq!(of_debian(targets), ["http://mirror/debian", "ftp://b/debian"]);
        assert!(of_debian("").is_empty());
    }

    #[test]
    fn the_newest_plain_kernel_is_taken() {
        let mut names = [
            "linux-image-6.12.9+deb12-amd64",
            "linux-image-6.12.90+deb12.1-amd64",
            "linux-image-6.12.90+deb12-amd64",
            "linux-image-6.12.95+deb12-cloud-amd64",
            "linux-image-6.12.95+deb12-amd64-dbg",
            "linux-image-6.1.0-50-rt-amd64",
            "linux-image-6.1.0-50-amd64",
        ]
        .to_vec();
        names.retain(|name| is_plain(name) && name.contains("6.12."));
        names.sort_by_cached_key(|name| numbers(name));
        let sorted =
            ["linux-image-6.12.9+deb12-amd64", "linux-image-6.12.90+deb12-amd64", "linux-image-6.12.90+deb12.1-amd64"];
        assert_eq!(names, sorted);
        assert!(is_plain("linux-image-6.1.0-50-amd64"));
    }
}
