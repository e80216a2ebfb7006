//! Waits until the file system makes files as fast as it usually does.
//!
//! Ext4 does not give an inode again that was removed in the last half minute, and looks at all of those
//! whenever it makes a file. Whoever has just removed some ten thousand files would measure that.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, Instant};

/// What making a directory with a file in it usually takes at most.
const USUAL: Duration = Duration::from_micros(120);
const PATIENCE: Duration = Duration::from_secs(90);
const LOOK_EVERY: Duration = Duration::from_secs(2);
const DIRS: u32 = 20;

pub(crate) fn wait(dir: &Path) {
    let began = Instant::now();
    for look in 0.. {
        let start = Instant::now();
        for number in 0..DIRS {
            // They stay, as all that is made here.
            let made = dir.join(format!("look-{look}-{number}"));
            fs::create_dir(&made).unwrap();
            File::create(made.join("file")).unwrap();
        }
        let each = start.elapsed() / DIRS;
        if each <= USUAL {
            println!("making a directory with a file in it takes {each:?} here");
            return;
        }
        if began.elapsed() > PATIENCE {
            println!(
                "making a directory with a file in it takes {each:?} here: somebody removes many, and the times are too long"
            );
            return;
        }
        std::thread::sleep(LOOK_EVERY);
    }
}
