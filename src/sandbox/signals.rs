//! Signals of a command without a PID namespace: its calls wait for the supervisor, which sends them to the command's
//! processes only. For all others it answers that there is no such process, as a namespace would.
//!
//! A caller that is interrupted while it waits makes its call again. So it is answered before the signal is sent:
//! otherwise SIGCHLD could interrupt it before the answer.

use std::fs;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::processes::{self, ProcessStat};
use super::raw;

/// The calls that send a signal to what their first argument names.
pub(super) const SIGNALS: &[libc::c_long] = &[
    libc::SYS_kill,
    libc::SYS_tkill,
    libc::SYS_tgkill,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
];

/// Maximum number of a signal (SIGRTMAX, signal(7)).
const SIGNAL_MAX: i32 = 64;

/// Maximum number of looks at a group that grows while it is sent a signal.
const ROUNDS_MAX: usize = 8;

/// A call that sends a signal, by who makes it.
pub(super) enum SignalCall {
    /// The kernel makes it: it cannot leave the caller.
    Own,
    /// It is sent after the answer.
    ToOthers(Signalling),
}

/// A signal on its way to processes of the command.
pub(super) struct Signalling {
    first: Pid,
    to: Recipients,
    /// The recipients with their pidfds. No other process can take their numbers as long as these are open.
    found: Vec<(Pid, OwnedFd)>,
    signal: i32,
}

enum Recipients {
    One(Pid),
    Group(i32),
    AllBut(Pid),
}

/// Parses a call of a thread. `first`: the first process of the command, which is ours.
pub(super) fn read(
    call: libc::c_long,
    args: [i32; 2],
    thread: Pid,
    first: Pid,
) -> Result<SignalCall, Errno> {
    let caller = processes::process_of(thread).ok_or(Errno::SRCH)?;
    let [target, signal] = args;
    let own = caller.as_raw_nonzero().get();
    match call {
        libc::SYS_kill | libc::SYS_rt_sigqueueinfo if target == own => return Ok(SignalCall::Own),
        libc::SYS_tgkill | libc::SYS_rt_tgsigqueueinfo if target == own => {
            return Ok(SignalCall::Own);
        }
        libc::SYS_tkill if fs::exists(format!("/proc/{own}/task/{target}")).unwrap_or(false) => {
            return Ok(SignalCall::Own);
        }
        libc::SYS_kill => {}
        // Programs send these only to themselves.
        _ => return Err(Errno::SRCH),
    }
    let to = match target {
        0 => Recipients::Group(processes::stat(caller).ok_or(Errno::SRCH)?.group),
        -1 => Recipients::AllBut(caller),
        group if group < 0 => Recipients::Group(group.checked_neg().ok_or(Errno::SRCH)?),
        one => Recipients::One(Pid::from_raw(one).ok_or(Errno::SRCH)?),
    };
    if !(0..=SIGNAL_MAX).contains(&signal) {
        return Err(Errno::INVAL);
    }
    let mut signalling = Signalling { first, to, found: Vec::new(), signal };
    match signalling.find_more() {
        true => Ok(SignalCall::ToOthers(signalling)),
        false => Err(Errno::SRCH),
    }
}

impl Signalling {
    /// Returns true if there are recipients that were not found before.
    fn find_more(&mut self) -> bool {
        let known: Vec<Pid> = self.found.iter().map(|(pid, _)| *pid).collect();
        let candidates = match self.to {
            Recipients::One(one) => vec![one],
            Recipients::Group(_) | Recipients::AllBut(_) => processes::of_command(self.first),
        };
        let new = candidates.into_iter().filter(|pid| !known.contains(pid)).filter_map(|pid| {
            let open = pidfd_open(pid, PidfdFlags::empty()).ok()?;
            // A process that ends after this keeps its number.
            let stat = processes::stat(pid)?;
            (self.is_recipient(pid, &stat) && processes::is_below(pid, self.first))
                .then_some((pid, open))
        });
        let new: Vec<_> = new.collect();
        let is_more = !new.is_empty();
        self.found.extend(new);
        is_more
    }

    fn is_recipient(&self, pid: Pid, stat: &ProcessStat) -> bool {
        match self.to {
            Recipients::One(one) => one == pid,
            Recipients::Group(group) => stat.group == group,
            Recipients::AllBut(caller) => pid != caller,
        }
    }

    /// Sends the signal, also to processes that join the group meanwhile.
    pub(super) fn send(mut self) {
        let mut sent = 0;
        for _ in 0..ROUNDS_MAX {
            for (_, process) in &self.found[sent..] {
                // It may have ended, as it may after any signal.
                raw::send_signal(process, self.signal).ok();
            }
            sent = self.found.len();
            if self.signal == 0 || matches!(self.to, Recipients::One(_)) || !self.find_more() {
                return;
            }
        }
    }
}
