//! What `up`, `exec`, `run` and `ls` ask of the kernel, the store and keepers, counted with `strace`: times differ from
//! machine to machine, counts do not. A change that needs more has to say so here.

use crate::support::{Island, Repository, eventually, follow, skipped};
use rustix::process::Signal;
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// How many of these calls happen depends on the scheduler and the allocator.
const UNSTEADY: &str = "trace=!futex,epoll_wait,epoll_pwait,epoll_ctl,poll,ppoll,sched_yield,restart_syscall,\
    mmap,munmap,mprotect,madvise,brk,mremap,rt_sigprocmask,rt_sigaction,sigaltstack,rseq,set_robust_list,\
    clock_gettime,gettid,getrandom,clone,clone3,exit,exit_group,wait4,waitid";

/// Of one command, from the start of the client to its end.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    /// System calls of the client and of the programs that it starts.
    client: usize,
    /// System calls of the daemon, the keeper and everything inside the workspace.
    others: usize,
    /// Programs executed, the client included.
    programs: usize,
    /// Of the store.
    writes: usize,
    reads: usize,
    /// Waits for a disk.
    flushes: usize,
    /// Output files of runs that were created after the wait for the disk began: such a creation may wait, too.
    late_files: usize,
}

// === impl Counts ===

impl Counts {
    fn of(client: &str, others: &str) -> Self {
        let is_flush = |line: &str| line.contains(" fdatasync(") || line.contains(" fsync(");
        let is_output = |line: &str| line.contains("/out.0") && line.contains("O_CREAT");
        let since_flush = others.lines().skip_while(|line| !is_flush(line));
        let in_both = |is_one: fn(&str) -> bool| {
            let lines = client.lines().chain(others.lines());
            lines.filter(|line| is_one(line)).count()
        };
        Self {
            client: client.lines().filter(|line| is_call(line)).count(),
            others: others.lines().filter(|line| is_call(line)).count(),
            programs: in_both(|line| line.contains(" execve") && !line.contains(" = -1 ")),
            writes: in_both(|line| line.contains("F_WRLCK") && line.contains("l_start=120,")),
            reads: in_both(|line| line.contains("F_RDLCK") && line.contains("l_start=12")),
            flushes: in_both(is_flush),
            late_files: since_flush.filter(|line| is_output(line)).count(),
        }
    }

    /// Of two measurements of the same command: other work of the daemon only ever adds.
    fn least(self, other: Self) -> Self {
        Self {
            client: self.client.min(other.client),
            others: self.others.min(other.others),
            programs: self.programs.min(other.programs),
            writes: self.writes.min(other.writes),
            reads: self.reads.min(other.reads),
            flushes: self.flushes.min(other.flushes),
            late_files: self.late_files.min(other.late_files),
        }
    }

    fn are_within(self, limits: Self) -> bool {
        let pairs = [
            (self.client, limits.client),
            (self.others, limits.others),
            (self.programs, limits.programs),
            (self.writes, limits.writes),
            (self.reads, limits.reads),
            (self.flushes, limits.flushes),
            (self.late_files, limits.late_files),
        ];
        pairs.iter().all(|(counted, limit)| counted <= limit)
    }
}

/// A call has one line, or one where it begins and one where it ends, which is not counted.
fn is_call(line: &str) -> bool {
    line.contains('(') && !line.contains(" resumed>") && !line.contains("--- SIG")
}

/// One command of holm with everything that it causes. `None`: this user may not trace.
fn counted(island: &Island, repository: &Repository<'_>, arguments: &[&str]) -> Option<Counts> {
    let client = island.write("client.trace", "");
    let others = island.write("others.trace", "");
    // The daemon starts the next keeper ahead, and the next `up` uses it.
    eventually("a keeper waits", || !island.spares().is_empty());
    let keepers = island.inhabitants().into_iter().chain(island.spares());
    let mut followed: Vec<i32> = keepers.map(|(pid, _)| pid).collect();
    followed.extend(island.daemon_of_the_lock());
    let output = fs::File::create(&others).unwrap();
    let mut tracer = follow(&followed, &["-e", UNSTEADY], output.into())?;
    let earlier = wait_until_quiet(&others);
    let mut command = island.command("strace", &repository.path);
    command
        .args(["-f", "-qq", "-e", UNSTEADY, "-o"])
        .arg(&client);
    command.arg(crate::support::program()).args(arguments);
    let done = command.stdout(Stdio::null()).status().unwrap();
    tracer.signal(Signal::KILL);
    tracer.code();
    assert!(done.success(), "holm {arguments:?}: {done}");
    let [client, others] = [client, others].map(|path| fs::read_to_string(path).unwrap());
    Some(Counts::of(&client, &others[earlier..]))
}

/// The daemon works on after a command, for the inbox among others. Returns the length of the trace of that.
fn wait_until_quiet(trace: &Path) -> usize {
    let quiet = Duration::from_millis(400);
    let (mut length, mut since) = (0, Instant::now());
    eventually("the daemon is quiet", || {
        let now = fs::metadata(trace).unwrap().len();
        if now != length {
            (length, since) = (now, Instant::now());
        }
        since.elapsed() >= quiet
    });
    length as usize
}

/// What one command has the keepers and the processes inside do.
fn calls_of_keepers(island: &Island, arguments: &[&str]) -> usize {
    let trace = island.write("keepers.trace", "");
    let keepers = island.inhabitants().into_iter().map(|(pid, _)| pid);
    let keepers: Vec<i32> = keepers.collect();
    let output = fs::File::create(&trace).unwrap();
    let tracer = follow(&keepers, &["-e", UNSTEADY], output.into());
    let mut tracer = tracer.expect("it could be traced before");
    island.holm(arguments).ok();
    tracer.signal(Signal::KILL);
    tracer.code();
    let trace = fs::read_to_string(trace).unwrap();
    trace.lines().filter(|line| is_call(line)).count()
}

/// Measures until the least of the measurements is within the limits. On a loaded machine more of the daemon's other
/// work falls into a measurement. `None`: this user may not trace.
#[track_caller]
fn needs(limits: Counts, mut measure: impl FnMut(usize) -> Option<Counts>) -> Option<Counts> {
    let mut least = measure(0)?;
    for number in 1..10 {
        if least.are_within(limits) {
            break;
        }
        println!("more than allowed: {least:?}");
        least = least.least(measure(number)?);
    }
    println!("counted {least:?}");
    assert!(least.are_within(limits), "{least:?} exceeds {limits:?}");
    Some(least)
}

#[test]
fn up_exec_run_and_ls_need_no_more_than_they_did() {
    // On a disk: of files in memory holm asks git each time, because writes through a mapping change no time there.
    let island = Island::in_tmp();
    let repository = island.repository("shop");
    // The first one builds the base.
    repository.up("first");
    let up = Counts {
        client: 230,
        others: 1550,
        // holm, init, and the next keeper. git would be one more.
        programs: 5,
        writes: 6,
        // Includes one check of the inbox, which on a slow machine happens while the command runs.
        reads: 20,
        flushes: 1,
        late_files: 0,
    };
    let measure_up = |number: usize| {
        let label = format!("w{number}");
        let counts = counted(&island, &repository, &["up", &label]);
        if number > 0 {
            // What `ls` needs depends on how many there are.
            island.holm(&["rm", &label, "--force"]).ok();
        }
        counts
    };
    let Some(counted_up) = needs(up, measure_up) else {
        return skipped("this user may not trace the daemon");
    };
    assert_eq!(counted_up.flushes, 1, "a workspace is not on the disk");
    let check = |limits: Counts, arguments: &[&str]| {
        let measure = |_| counted(&island, &repository, arguments);
        needs(limits, measure).expect("it could be traced before");
    };
    let exec = Counts {
        client: 76,
        others: 190,
        programs: 3,
        // The time of use, and who began it and how it ended: in one transaction if both wait already.
        writes: 3,
        reads: 4,
        flushes: 0,
        late_files: 0,
    };
    check(exec, &["exec", "w0", "--", "true"]);
    let run = Counts {
        client: 88,
        others: 850,
        // git inside would be about fifty.
        programs: 3,
        // With one that may be written together with another, as above.
        writes: 9,
        // With one look at the inbox, as above.
        reads: 22,
        flushes: 1,
        late_files: 0,
    };
    check(run, &["run", "w0", "--", "true"]);
    let ls = Counts {
        client: 80,
        others: 80,
        programs: 1,
        writes: 0,
        // One more read of the store than before: what needs a person.
        reads: 6,
        flushes: 0,
        late_files: 0,
    };
    check(ls, &["ls"]);
    check(ls, &["inbox", "--count"]);
    for verb in [&["ls"][..], &["inbox", "--count"]] {
        let mut asked = (0..10).map(|_| calls_of_keepers(&island, verb));
        assert!(asked.any(|calls| calls == 0), "each {verb:?} asked keepers");
    }
    // The run before recorded its tree, so git is not asked what that is.
    let after_a_change = |number: usize| {
        // Few contents, because each directory of git's objects is looked at.
        let script = format!("echo {} > changed", number % 2);
        island.holm(&["run", "w0", "--", "sh", "-c", &script]).ok();
        counted(&island, &repository, &["run", "w0", "--", "true"])
    };
    let with_objects = Counts {
        // For up to six directories of git's objects, before and after the run.
        others: 900,
        ..run
    };
    needs(with_objects, after_a_change).expect("it could be traced before");
}
