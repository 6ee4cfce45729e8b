//! A repository that is reached by URL. git is real and speaks its ssh transport; in place of ssh a
//! script runs the server's command here and records the request.

use super::{Island, Repository};
use std::os::unix::fs::PermissionsExt;

pub struct Remote<'a> {
    /// Where its commits are made.
    pub repository: Repository<'a>,
    /// With an unused address, which a program with a token may name.
    pub url: String,
}

/// The last argument is the command for the server.
const SSH: &str =
    "#!/bin/sh\necho \"$@\" >> ~/ssh.log\nfor last; do :; done\nexec sh -c \"$last\"\n";

// === impl Island ===

impl Island {
    /// A repository of a server, which has one commit.
    pub fn remote(&self, path: &str) -> Remote<'_> {
        self.answer_ssh();
        let place = self.make_dir("home/server").join(path);
        if let Some(above) = place.parent() {
            self.make_dir(above);
        }
        let url = format!("ssh://git@192.0.2.1{}", place.display());
        Remote {
            repository: Repository::new(self, place),
            url,
        }
    }

    /// Every repository of this machine is also on every server that git reaches by ssh.
    pub fn answer_ssh(&self) {
        let script = self.write("home/ssh", SSH);
        std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
        let config = format!("[core]\n\tsshCommand = {}\n", script.display());
        self.write("home/.gitconfig", config);
    }

    /// How often a server was asked for anything.
    pub fn connections(&self) -> usize {
        let log = std::fs::read_to_string(self.home().join("ssh.log"));
        log.map_or(0, |log| log.lines().count())
    }
}
