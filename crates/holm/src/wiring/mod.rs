//! Puts the program together. Besides `main` this is the only module that names the kernel driver: commands take from
//! here what they need of the machine that they run on.

pub mod guest;
mod network;
mod page;
pub mod store;

use holm_config::daemon_user::DaemonUser;
use holm_config::paths::Paths;
use holm_core::fitness::Check;
use holm_core::{Code, Fault};
use holm_engine::{Driver, Drivers};
use holm_keeper::wire::GrantSource;
use holm_keeper::wire::{Defence, switched_off};
use holm_linux::cgroup::{self, Stay};
use holm_linux::probe::{self, Means};
use holm_linux::{Layout, LinuxDriver};
use holm_server::{Mcp, Parts};
use std::path::Path;
use std::sync::Arc;

pub use holm_keeper::files::remove::remove_tree;
pub use holm_linux::measure::disk_usage;
pub use holm_linux::mover::{Source, copy_entry};
pub use holm_linux::open_files::{as_inherited, raise as raise_limits};
pub use holm_linux::probe::basics;
pub use holm_linux::sys::process::keep_from_children;

/// The small program of keepers and inits; empty when `build.rs` was given none.
const ROLES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/holm-roles"));

/// Tries everything that a daemon needs which this process would become. `data_dir` is where workspaces would be.
pub fn probe(data_dir: &Path) -> Result<Vec<Check>, Fault> {
    let means = Means::own().map_err(|error| {
        let message = "holm cannot find its own program";
        Fault::new(Code::Internal, message, "install it again").because(error)
    })?;
    Ok(probe::doctor(data_dir, &means))
}

/// What only root can do for the daemon's limits. What is returned has to live until the daemon was started.
pub fn prepare_groups(user: &DaemonUser) -> Option<Stay> {
    let DaemonUser::Service(account) = user else {
        return None;
    };
    // A machine that has none is told by `doctor`, and where a limit is refused.
    cgroup::prepare(account.uid, account.gid).ok().flatten()
}

/// Serves as the daemon until a signal or a client says to stop. `ready` is called once, when clients can connect.
pub fn serve(paths: Paths, mcp: Mcp, ready: impl FnOnce()) -> Result<(), Fault> {
    holm_keeper::keeper::keep_from_dumps();
    let parts = Parts {
        store: store::open,
        drivers,
        network: network::source,
        mcp,
        dashboard: page::ASSETS,
    };
    holm_server::run(paths, parts, ready)
}

/// The drivers that a workspace's spec can name.
fn drivers(paths: &Paths, secrets: GrantSource) -> Result<Drivers, Fault> {
    let layout = Layout {
        data_dir: paths.data_dir.clone(),
        run_dir: paths.run_dir.clone(),
    };
    let linux = LinuxDriver::new(layout, secrets, ROLES)?.in_network(network::source(paths));
    let linux: Arc<dyn Driver> = Arc::new(linux);
    Ok(Drivers::of([linux]))
}

/// Whether a person is asked before git runs what a repository configures. Only tests switch it off.
pub fn asks_about_git_settings() -> bool {
    !switched_off().contains(&Defence::GitSettings)
}
