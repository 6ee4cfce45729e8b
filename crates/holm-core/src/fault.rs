//! Every error that a user can see: its stable code, its kind, and the kind's exit code and HTTP
//! status. CLI, HTTP and MCP all use this table.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// The kind of failure, which decides the exit code and the HTTP status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The operation failed.
    Failed,
    /// The request was wrong.
    Usage,
    /// The named thing does not exist.
    NotFound,
    /// Policy or safety forbids the operation.
    Refused,
    /// The daemon does not answer.
    Unreachable,
    /// The caller is not identified.
    Unauthorized,
    /// The caller is known and has no right to do this.
    Forbidden,
    /// The content type is not accepted.
    Unsupported,
    /// The route exists, with other methods.
    Method,
    /// Another server failed.
    Upstream,
    /// The database of the daemon does not answer; the daemon itself does.
    Unavailable,
}

/// An error as users see it: a stable code, what failed on what, its cause, and the next command to
/// type.
#[derive(Clone, Debug)]
pub struct Fault {
    pub code: Code,
    what: String,
    pub hint: String,
    source: Option<Arc<dyn Error + Send + Sync>>,
}

/// The cause of an error: another error, or its text when that came from another process.
pub type Cause = Box<dyn Error + Send + Sync>;

/// The text of an error and of its causes, for logs and records. An error prints only its own part
/// and has its cause as `source`; a [`Fault`] prints the whole chain.
pub fn with_causes(error: &dyn Error) -> String {
    chain(error.to_string(), error.source())
}

fn chain(mut text: String, mut source: Option<&(dyn Error + 'static)>) -> String {
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        // Some errors of other crates repeat their cause in their own text.
        if !text.ends_with(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source().filter(|_| !cause.is::<Fault>());
    }
    text
}

macro_rules! codes {
    ($($variant:ident, $text:literal, $kind:ident, $doc:literal;)*) => {
        /// The stable code of an error.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Code {
            $(#[doc = $doc] $variant,)*
        }

        impl Code {
            /// Every code, in the order of the table.
            pub const ALL: &'static [Code] = &[$(Code::$variant,)*];

            pub fn as_str(self) -> &'static str {
                match self {
                    $(Code::$variant => $text,)*
                }
            }

            pub fn kind(self) -> Kind {
                match self {
                    $(Code::$variant => Kind::$kind,)*
                }
            }

            /// One line for the documentation.
            pub fn doc(self) -> &'static str {
                match self {
                    $(Code::$variant => $doc,)*
                }
            }
        }
    };
}

codes! {
    DashboardMissing, "dashboard_missing", Failed, "holm was built without the page of the dashboard";
    Internal, "internal", Failed, "an error in holm itself; the daemon's log has the details";
    Usage, "usage", Usage, "the command line is not right";
    BadRequest, "bad_request", Usage, "the request does not have the documented form";
    InvalidLabel, "invalid_label", Usage, "a label has 1 to 40 characters of a-z, 0-9 and -";
    InvalidConfig, "invalid_config", Usage, "holm.toml or config.toml has errors";
    NotARepository, "not_a_repository", Usage, "the directory is not inside a git work tree";
    InvalidPath, "invalid_path", Usage, "the path is not one below the project's root";
    InvalidSecret, "invalid_secret", Usage, "the name or the value is not valid for a secret";
    InvalidImage, "invalid_image", Usage, "the text is not the name of an image";
    WorkspaceNotFound, "workspace_not_found", NotFound, "no workspace has this name";
    ProjectNotFound, "project_not_found", NotFound, "no project has this name";
    ServiceNotFound, "service_not_found", NotFound, "the workspace has no service of this name";
    SessionNotFound, "session_not_found", NotFound, "no session has this name";
    VolumeNotFound, "volume_not_found", NotFound, "the workspace has no volume of this name";
    SnapshotNotFound, "snapshot_not_found", NotFound, "the workspace has no snapshot of this name";
    CommentNotFound, "comment_not_found", NotFound, "the workspace has no comment of this id";
    TurnNotFound, "turn_not_found", NotFound, "the workspace has no turn of this number";
    CheckNotFound, "check_not_found", NotFound, "the project has no check of this name, or none at all";
    RunNotFound, "run_not_found", NotFound, "the workspace has no run of this id";
    AgentNotFound, "agent_not_found", NotFound, "no agent has this name, or none is the default";
    SecretNotFound, "secret_not_found", NotFound, "no secret of this name is stored there";
    RefNotFound, "ref_not_found", NotFound, "the repository has no such ref";
    PathNotFound, "path_not_found", NotFound, "the file or directory does not exist";
    TokenNotFound, "token_not_found", NotFound, "there is no such token";
    PortNotFound, "port_not_found", NotFound, "the workspace has no port of this name";
    NotFound, "not_found", NotFound, "the API has no such route";
    ImageNotFound, "image_not_found", NotFound, "no image has this name, here or in its registry";
    Unauthorized, "unauthorized", Unauthorized, "the request has no token that is valid here";
    Forbidden, "forbidden", Forbidden, "the caller is known and has no right to do this";
    MethodNotAllowed, "method_not_allowed", Method, "the API has this route, but not with this method";
    UnsupportedType, "unsupported_type", Unsupported, "the request body has a content type that the route does not accept";
    Ambiguous, "ambiguous", Refused, "the name matches more than one workspace";
    LabelTaken, "label_taken", Refused, "another live workspace of the project has this label";
    AlreadyExists, "already_exists", Refused, "the workspace exists, and the options describe a different one";
    ConfigExists, "config_exists", Refused, "the repository already has a holm.toml, and replacing it was not requested";
    ProjectInUse, "project_in_use", Refused, "the project still has workspaces";
    ProjectElsewhere, "project_elsewhere", Refused, "the project's id belongs to a repository at another path";
    UnsavedWork, "unsaved_work", Refused, "the workspace has work that your repository does not have";
    DirtyCheckout, "dirty_checkout", Refused, "your checkout has uncommitted changes that the operation would overwrite";
    DoesNotApply, "does_not_apply", Refused, "the change does not fit your checkout";
    NeedsYes, "needs_yes", Refused, "the change contains files that tools execute by themselves, and it was not confirmed";
    NotTrusted, "not_trusted", Refused, "holm.toml or the repository's git settings request access to the host that was not approved";
    SignInNotApproved, "sign_in_not_approved", Refused, "an agent's sign-in may not be used in workspaces of this project yet";
    Policy, "policy", Refused, "the machine's policy (/etc/holm/policy.toml) does not allow it";
    InvalidPolicy, "invalid_policy", Refused, "the machine's policy cannot be read, so nothing is started";
    SecretsLocked, "secrets_locked", Refused, "the key of the stored secrets needs a passphrase that was not entered, or is in a locked keyring";
    WrongPassphrase, "wrong_passphrase", Refused, "the passphrase is wrong, or the encrypted data was changed";
    RecordChanged, "record_changed", Failed, "the audit record of secrets was changed outside holm";
    NotAFile, "not_a_file", Refused, "it is a directory, a link, a pipe, a socket or a device, and the request needs a file";
    NotADirectory, "not_a_directory", Refused, "it is not a directory, and the request needs one";
    NotEmpty, "not_empty", Refused, "the directory is not empty, and the request is not recursive";
    PermissionDenied, "permission_denied", Refused, "the workspace's own user may not do this to the file";
    TooLarge, "too_large", Refused, "the content exceeds the size limit of one request";
    NotRunning, "not_running", Refused, "the workspace is stopped and may not be started";
    Busy, "busy", Refused, "another operation on this workspace is in progress";
    SessionEnded, "session_ended", Refused, "the program of the session has ended";
    VolumeTaken, "volume_taken", Refused, "another running workspace uses a volume that only one may use at a time";
    KeyReused, "key_reused", Refused, "the idempotency key was used for a different request";
    ImageInUse, "image_in_use", Refused, "workspaces use the image";
    ImageRefused, "image_refused", Refused, "the image or the archive of images breaks a rule or a limit, or is for another machine";
    RegistryDenied, "registry_denied", Refused, "the registry wants credentials, or other ones";
    Refused, "refused", Refused, "the request is not allowed here";
    TreeChanged, "tree_changed", Refused, "the tree is another one than the person saw or approved";
    NotApproved, "not_approved", Refused, "the work needs an approval of exactly this tree";
    PortTaken, "port_taken", Refused, "another program holds the port";
    NoBrowser, "no_browser", Failed, "no browser can be started on this machine";
    InsideWorkspace, "inside_workspace", Refused, "this command does not work inside a workspace";
    OutsideWorkspace, "outside_workspace", Refused, "this command works only inside a workspace";
    IsolationMissing, "isolation_missing", Refused, "a required part of the isolation is not available on this machine";
    LimitUnavailable, "limit_unavailable", Refused, "a limit of holm.toml cannot be enforced on this machine";
    DriverUnavailable, "driver_unavailable", Refused, "the driver is not available on this machine";
    ProtectedPath, "protected_path", Refused, "a protected path cannot be protected as it is";
    RootUser, "root_user", Refused, "holm does not run as root, and there is no user `holm` to run as";
    UnsupportedSystem, "unsupported_system", Refused, "holm runs on Linux and WSL2";
    AnotherDaemon, "another_daemon", Refused, "another daemon owns this data directory";
    GitFailed, "git_failed", Failed, "a git command failed";
    RegistryFailed, "registry_failed", Upstream, "the registry of images cannot be reached, or its answers are wrong";
    CredentialsUnreadable, "credentials_unreadable", Failed, "the credentials for a registry cannot be read from your files or from their helper";
    ImportFailed, "import_failed", Failed, "images cannot be read from the file, the directory or the engine";
    BuildFailed, "build_failed", Failed, "the builder could not build the image of a service";
    NoBuilder, "no_builder", Failed, "neither docker nor podman nor buildah can build images here";
    RemoteFailed, "remote_failed", Upstream, "the remote repository cannot be reached or read";
    GitTimedOut, "git_timed_out", Failed, "a git command inside the workspace said nothing for too long and was ended";
    GitTooOld, "git_too_old", Failed, "git is missing or older than holm needs";
    DiskLimit, "disk_limit", Refused, "the workspace takes more disk than its limit";
    Overcommitted, "overcommitted", Refused, "the declared limits are more than the machine has";
    DiskFull, "disk_full", Failed, "the disk is full";
    ReadOnly, "read_only", Failed, "the data directory cannot be written";
    CorruptState, "corrupt_state", Failed, "stored state is not understood";
    NewerState, "newer_state", Failed, "the state was written by a newer holm";
    StoreUnavailable, "store_unavailable", Unavailable, "the database does not answer, so nothing can be changed; what runs goes on";
    StoreInUse, "store_in_use", Refused, "another daemon uses this database";
    StoreNotEmpty, "store_not_empty", Refused, "the store that would be written has content already";
    StoreUnequal, "store_unequal", Failed, "a store that was written does not read back as it was read";
    StartFailed, "start_failed", Failed, "the workspace could not be started";
    ServiceNotReady, "service_not_ready", Failed, "a service is not ready; the workspace runs";
    SetupFailed, "setup_failed", Failed, "a command of `setup` failed, or changed files that git tracks";
    SeedFailed, "seed_failed", Failed, "a command of a volume's `seed` failed, or the first start of the service that fills it, or what was running did not end";
    CheckFailed, "check_failed", Failed, "a check of the project failed on this tree, or was cancelled";
    ExecFailed, "exec_failed", Failed, "the command could not be run inside";
    Cancelled, "cancelled", Failed, "the operation was cancelled and undone";
    DaemonUnreachable, "daemon_unreachable", Unreachable, "the daemon cannot be reached or started";
}

// === impl Kind ===

impl Kind {
    pub fn exit_code(self) -> u8 {
        match self {
            Kind::Failed | Kind::Upstream | Kind::Unavailable => 1,
            Kind::Usage | Kind::Unsupported | Kind::Method => 2,
            Kind::NotFound => 3,
            Kind::Refused | Kind::Unauthorized | Kind::Forbidden => 4,
            Kind::Unreachable => 5,
        }
    }

    pub fn http_status(self) -> u16 {
        match self {
            Kind::Failed => 500,
            Kind::Usage => 400,
            Kind::NotFound => 404,
            Kind::Refused => 409,
            Kind::Unreachable | Kind::Unavailable => 503,
            Kind::Unauthorized => 401,
            Kind::Forbidden => 403,
            Kind::Unsupported => 415,
            Kind::Method => 405,
            Kind::Upstream => 502,
        }
    }
}

// === impl Code ===

impl Code {
    pub fn parse(text: &str) -> Option<Code> {
        Code::ALL.iter().copied().find(|code| code.as_str() == text)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

// === impl Fault ===

impl Fault {
    /// `what` says what failed and on what, without the cause.
    pub fn new(code: Code, what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            code,
            what: what.into(),
            hint: hint.into(),
            source: None,
        }
    }

    /// An error whose own text says what failed.
    pub fn of(code: Code, error: impl Into<Cause>, hint: impl Into<String>) -> Self {
        let error = error.into();
        Self::new(code, error.to_string(), hint).because(error)
    }

    pub fn because(mut self, cause: impl Into<Cause>) -> Self {
        self.source = Some(Arc::from(cause.into()));
        self
    }

    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }

    /// The message that users see: what failed and why.
    pub fn message(&self) -> String {
        self.to_string()
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&chain(self.what.clone(), self.source()))
    }
}

impl Error for Fault {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|cause| cause as _)
    }
}

/// Causes count by their text.
impl PartialEq for Fault {
    fn eq(&self, other: &Self) -> bool {
        (self.code, self.message(), &self.hint) == (other.code, other.message(), &other.hint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot use the disk")]
    struct Disk(#[source] io::Error);

    #[test]
    fn codes_are_unique_words_and_can_be_read_back() {
        for code in Code::ALL {
            assert_eq!(Code::parse(code.as_str()), Some(*code));
            assert!(
                code.as_str()
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b == b'_')
            );
            assert!(!code.doc().is_empty());
        }
    }

    #[test]
    fn a_cause_is_kept_and_shown_once() {
        let disk = || Disk(io::Error::from_raw_os_error(28));
        let full = disk().0.to_string();
        let fault = Fault::new(Code::DiskFull, "cannot write a.txt", "make room").because(disk());
        let copy = fault.clone();
        drop(fault);
        assert_eq!(
            copy.message(),
            format!("cannot write a.txt: cannot use the disk: {full}")
        );
        let cause = copy.source().and_then(Error::source).unwrap();
        let cause = cause.downcast_ref::<io::Error>().unwrap();
        assert_eq!(cause.kind(), io::ErrorKind::StorageFull);

        let same = Fault::of(Code::DiskFull, disk(), "make room");
        assert_eq!(same.message(), format!("cannot use the disk: {full}"));
        assert!(same.source().is_some_and(|cause| cause.is::<Disk>()));
        assert_ne!(same, copy);
        let rebuilt = Fault::new(copy.code, copy.message(), &*copy.hint);
        assert_eq!(rebuilt, copy);
    }

    #[test]
    fn a_fault_inside_another_is_shown_once() {
        let disk = Disk(io::Error::other("it is gone"));
        let inner = Fault::new(Code::Internal, "cannot read a.txt", "").because(disk);
        let outer = Fault::new(Code::StartFailed, "cannot start", "").because(inner);
        assert_eq!(
            outer.message(),
            "cannot start: cannot read a.txt: cannot use the disk: it is gone"
        );
        let disk = outer.source().and_then(Error::source);
        assert!(disk.is_some_and(|cause| cause.is::<Disk>()));
    }

    #[test]
    fn a_cause_that_an_error_repeats_is_shown_once() {
        let cause = io::Error::from_raw_os_error(2);
        let text = format!("cannot read a.txt: {cause}");
        let fault = Fault::new(Code::Internal, text.clone(), "").because(cause);
        assert_eq!(fault.message(), text);
    }
}
