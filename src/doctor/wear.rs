//! The wear of the disk, as far as it reports it: flash memory in cards of the board (eMMC) does, SD cards do not.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::Finding;

/// The steps of ten per cent from which a disk is near its end, and those from which it is past it (JEDEC JESD84-B51,
/// `DEVICE_LIFE_TIME_EST`).
const NEAR_END: u8 = 9;
const PAST_END: u8 = 11;

/// Looks at the disk of a home. `sys` is where the kernel shows its devices.
pub fn check_wear(home: &Path, sys: &Path) -> Finding {
    let reports = devices(home, sys).into_iter().find_map(|device| {
        let read = |name: &str| fs::read_to_string(device.join("device").join(name)).ok();
        Some((read("life_time")?, read("pre_eol_info").unwrap_or_default()))
    });
    match reports {
        Some((life_time, reserve)) => wear_finding(&life_time, &reserve),
        None => Finding::ok("wear of the disk", "the disk does not report it"),
    }
}

/// The device of the home; those of all disks if the file system does not tell it, as in a container.
fn devices(home: &Path, sys: &Path) -> Vec<PathBuf> {
    let known = home.ancestors().find_map(|folder| fs::metadata(folder).ok()).and_then(|folder| {
        let (major, minor) = (rustix::fs::major(folder.dev()), rustix::fs::minor(folder.dev()));
        sys.join(format!("dev/block/{major}:{minor}")).canonicalize().ok()
    });
    match known {
        // A partition is below its disk.
        Some(device) => device.ancestors().take(2).map(Path::to_owned).collect(),
        None => {
            let disks = fs::read_dir(sys.join("block")).into_iter().flatten();
            let mut disks: Vec<_> = disks.filter_map(Result::ok).map(|disk| disk.path()).collect();
            disks.sort();
            disks
        }
    }
}

/// Judges the estimates of both kinds of cells, in steps of ten per cent, and the state of the spare blocks.
pub fn wear_finding(life_time: &str, reserve: &str) -> Finding {
    const CHECK: &str = "wear of the disk";
    let number = |word: &str| u8::from_str_radix(word.trim().trim_start_matches("0x"), 16).ok();
    let worst = life_time.split_whitespace().filter_map(number).max().unwrap_or_default();
    let advice = "make backups on another disk, and replace this one soon";
    if worst >= PAST_END {
        let words = "it has reached the end of the life that its maker expects";
        return Finding::wrong(CHECK, words).advise(advice);
    }
    // 1 is normal, 2 means that 80 % of the spare blocks are used, 3 that 90 % are.
    if let Some(state @ 2..) = number(reserve) {
        let used = if state == 2 { 80 } else { 90 };
        let words = format!("{used} % of its spare blocks are used");
        return Finding::warning(CHECK, words).advise(advice);
    }
    match worst {
        0 => Finding::ok(CHECK, "the disk does not report it"),
        worst => {
            let words = format!("at most {} % of its expected life is used", u32::from(worst) * 10);
            match worst >= NEAR_END {
                true => Finding::warning(CHECK, words).advise(advice),
                false => Finding::ok(CHECK, words),
            }
        }
    }
}
