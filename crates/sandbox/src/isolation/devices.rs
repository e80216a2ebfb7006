//! The devices that every program needs, and no others: the machine's disks are not among them.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::symlink;
use std::path::Path;

use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_string, fsmount, fsopen,
};

use super::mounts::{AttributeScope, attach, clone_tree, set_attributes};

const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];
const LINKS: [(&str, &str); 5] = [
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("ptmx", "pts/ptmx"),
];

/// Device files, held open.
pub(super) struct DeviceFiles(Vec<(&'static str, OwnedFd)>);

impl DeviceFiles {
    /// Those that are there.
    pub(super) fn open() -> Self {
        let cloned = DEVICES.iter().filter_map(|name| {
            let device = clone_tree(&Path::new("/dev").join(name)).ok()?;
            // The owner of a device file could change its mode and times. Through such a mount the device can
            // be written to as before.
            let flags = MountAttrFlags::MOUNT_ATTR_RDONLY | MountAttrFlags::MOUNT_ATTR_NOSUID;
            set_attributes(device.as_fd(), "", AttributeScope::This, flags).ok()?;
            Some((*name, device))
        });
        Self(cloned.collect())
    }

    /// Puts them into a new `/dev`, with places for what else belongs there.
    pub(super) fn fill(&self, dev: &Path) -> io::Result<()> {
        for (name, device) in &self.0 {
            let place = dev.join(name);
            File::create(&place)?;
            attach(device, &place)?;
        }
        for (name, target) in LINKS {
            symlink(target, dev.join(name))?;
        }
        fs::create_dir(dev.join("shm"))?;
        let pts = dev.join("pts");
        fs::create_dir(&pts)?;
        attach(&terminals()?, &pts)
    }
}

/// Terminals of the command's own; those of the user are not to be seen.
fn terminals() -> io::Result<OwnedFd> {
    let context = fsopen("devpts", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(&context, "ptmxmode", "0666")?;
    fsconfig_set_string(&context, "mode", "0620")?;
    fsconfig_create(&context)?;
    let flags = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    Ok(fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, flags)?)
}
