//! The routes that take one request and answer with one JSON document, as a table.

use super::Client;
use crate::browser::Browser;
use crate::check::{CheckList, RunChecks};
use crate::comment::{Act, Comment, CommentList, NewComment, Round, Send};
use crate::daemon::{Doctor, Status, Stop};
use crate::dashboard::Opened;
use crate::disk::Disk;
use crate::egress::EgressList;
use crate::image::{Image, ImageList, RemoveImage, TakeImages};
use crate::inbox::{InboxList, Notified, Notify};
use crate::numbers::{NumbersList, WorkspaceNumbers};
use crate::port::{Checkout, CheckoutList, PortList};
use crate::project::{
    ChangeProject, Project, ProjectList, Refs, Sync, SyncAnswer, TreeBrought, TreeName, TreePlace,
    TrustApprove, TrustCheck, TrustReport,
};
use crate::reload::{Reload, Reloaded};
use crate::review::{
    Approval, Approve, Approved, Comparison, Looked, Marked, Review, TurnList, TurnState, TurnWish,
};
use crate::run::Run;
use crate::secret::{
    DeclaredList, Export, Exported, Give, HandedOver, Import, Imported, KeyState, RemoveSecret,
    RotateKey, Secret, SecretList, SetSecret, Unlock,
};
use crate::service::{ServiceAct, ServiceList};
use crate::session::{NewSession, SendInput, Sent, SessionList};
use crate::token::{NewToken, Token, TokenList, TokenMade};
use crate::work::ChangeList;
use crate::workspace::{Fork, NameList, Reset, TakeSnapshot, Workspace, WorkspaceList};
use holm_core::session::protocol::{ReadText, Session};
use holm_core::{Fault, ProjectId, RunId, SessionId, TokenId, WorkspaceId};
use hyper::Method;

/// Writes one method of [`Client`] per row: its name, the HTTP method, the route with the arguments
/// that it contains, the type of the body, and the type of the answer.
macro_rules! requests {
    ($(
        $(#[doc = $doc:literal])*
        $name:ident: $method:ident $route:literal ($($argument:ident: $type:ty),*)
            $(sends $body:ident)? -> $answer:ty;
    )*) => {
        impl Client {
            $(
                $(#[doc = $doc])*
                pub async fn $name(
                    &self,
                    $($argument: $type,)*
                    $(body: &$body,)?
                ) -> Result<$answer, Fault> {
                    let route = format!($route);
                    requests!(@send self, $method, route $(, body as $body)?)
                }
            )*
        }
    };
    (@send $client:ident, $method:ident, $route:ident) => {
        $client.transport.plain(Method::$method, &$route).await
    };
    (@send $client:ident, $method:ident, $route:ident, $body:ident as $type:ident) => {
        $client.transport.json(Method::$method, &$route, $body).await
    };
}

requests! {
    /// An address that signs a browser in, once.
    open_dashboard: POST "/dashboard" () -> Opened;
    tokens: GET "/tokens" () -> TokenList;
    make_token: POST "/tokens" () sends NewToken -> TokenMade;
    /// Revokes a token and cuts its connections.
    remove_token: DELETE "/tokens/{id}" (id: &TokenId) -> Token;
    /// The last `limit` entries.
    egress: GET "/workspaces/{id}/egress?limit={limit}"
        (id: &WorkspaceId, limit: u64) -> EgressList;
    status: GET "/daemon" () -> Status;
    stop_daemon: POST "/daemon/stop" () sends Stop -> Status;
    doctor: GET "/doctor" () -> Doctor;
    /// Resource use of every live workspace.
    numbers: GET "/numbers" () -> NumbersList;
    /// Resource use of one workspace.
    numbers_of: GET "/workspaces/{id}/numbers" (id: &WorkspaceId) -> WorkspaceNumbers;
    images: GET "/images" () -> ImageList;
    /// Removes the name of an image; `gc` deletes what no name reaches.
    remove_image: DELETE "/images" () sends RemoveImage -> Image;
    projects: GET "/projects" () -> ProjectList;
    remove_project: DELETE "/projects/{id}" (id: &ProjectId) -> Project;
    /// Where to put a tree that the client provides, if the daemon does not have it.
    begin_tree: POST "/projects/{id}/trees" (id: &str) sends TreeName -> TreePlace;
    /// Tells the daemon that the tree is complete or uploaded.
    finish_tree: PUT "/projects/{id}/trees" (id: &str) sends TreeBrought -> TreePlace;
    change_project: PATCH "/projects/{id}" (id: &ProjectId) sends ChangeProject -> Project;
    sync_project: POST "/projects/sync" () sends Sync -> SyncAnswer;
    set_refs: POST "/projects/{id}/refs" (id: &ProjectId) sends Refs -> Project;
    check_trust: POST "/trust/check" () sends TrustCheck -> TrustReport;
    approve_trust: POST "/trust" () sends TrustApprove -> TrustApprove;
    workspaces: GET "/workspaces" () -> WorkspaceList;
    /// The workspaces in the trash, the last removed first.
    trash: GET "/workspaces?trash=true" () -> WorkspaceList;
    /// Disk use.
    disk: GET "/disk" () -> Disk;
    /// The names of the live workspaces. Cheaper than [`Client::workspaces`], because the daemon
    /// does not observe any workspace.
    names: GET "/names" () -> NameList;
    ports: GET "/ports" () -> PortList;
    ports_of: GET "/workspaces/{id}/ports" (id: &WorkspaceId) -> PortList;
    /// Which workspace holds which canonical port.
    checked_out: GET "/checkout" () -> CheckoutList;
    /// Gives a workspace canonical ports.
    check_out: POST "/checkout" () sends Checkout -> CheckoutList;
    /// Frees all canonical ports.
    release_ports: DELETE "/checkout" () -> CheckoutList;
    workspace: GET "/workspaces/{id}" (id: &WorkspaceId) -> Workspace;
    /// The SOCKS endpoint for the workspace's browser.
    browser: POST "/workspaces/{id}/browser" (id: &WorkspaceId) -> Browser;
    start: POST "/workspaces/{id}/start" (id: &WorkspaceId) -> Workspace;
    stop: POST "/workspaces/{id}/stop" (id: &WorkspaceId) -> Workspace;
    restart: POST "/workspaces/{id}/restart" (id: &WorkspaceId) -> Workspace;
    /// Gives services images that were built again, from the next start on.
    take_images: POST "/workspaces/{id}/images" (id: &WorkspaceId) sends TakeImages -> Workspace;
    /// Takes a snapshot of code and volumes.
    take_snapshot: POST "/workspaces/{id}/snapshots"
        (id: &WorkspaceId) sends TakeSnapshot -> Workspace;
    /// Creates a workspace as a copy of this one or of its snapshot.
    fork: POST "/workspaces/{id}/fork" (id: &WorkspaceId) sends Fork -> Workspace;
    /// Resets code and volumes, or one volume.
    reset: POST "/workspaces/{id}/reset" (id: &WorkspaceId) sends Reset -> Workspace;
    /// Applies the `holm.toml` of the workspace's tree, or only reports what would change.
    reload: POST "/workspaces/{id}/reload" (id: &WorkspaceId) sends Reload -> Reloaded;
    /// Restores a workspace from the trash.
    restore: POST "/workspaces/{id}/restore" (id: &WorkspaceId) -> Workspace;
    run: GET "/workspaces/{id}/runs/{run}" (id: &WorkspaceId, run: &RunId) -> Run;
    /// Ends every process of a run and waits for that. A run that has ended stays as it is.
    cancel_run: POST "/workspaces/{id}/runs/{run}/cancel" (id: &WorkspaceId, run: &RunId) -> Run;
    secrets: GET "/secrets" () -> SecretList;
    set_secret: PUT "/secrets" () sends SetSecret -> Secret;
    remove_secret: DELETE "/secrets" () sends RemoveSecret -> Secret;
    /// The secrets that a workspace's `holm.toml` declares, with their states.
    declared_secrets: GET "/workspaces/{id}/secrets" (id: &WorkspaceId) -> DeclaredList;
    give_secrets: POST "/workspaces/{id}/secrets" (id: &WorkspaceId) sends Give -> DeclaredList;
    hand_over_secrets: POST "/secrets/handover" () sends Give -> HandedOver;
    rotate_secrets_key: POST "/secrets/rotate-key" () sends RotateKey -> KeyState;
    unlock_secrets: POST "/secrets/unlock" () sends Unlock -> KeyState;
    export_secrets: POST "/secrets/export" () sends Export -> Exported;
    import_secrets: POST "/secrets/import" () sends Import -> Imported;
    services: GET "/workspaces/{id}/services" (id: &WorkspaceId) -> ServiceList;
    service: POST "/workspaces/{id}/services" (id: &WorkspaceId) sends ServiceAct -> ServiceList;
    /// Sessions of every workspace.
    all_sessions: GET "/sessions" () -> SessionList;
    sessions: GET "/workspaces/{id}/sessions" (id: &WorkspaceId) -> SessionList;
    new_session: POST "/workspaces/{id}/sessions" (id: &WorkspaceId) sends NewSession -> Session;
    session: GET "/workspaces/{id}/sessions/{session}"
        (id: &WorkspaceId, session: &SessionId) -> Session;
    /// Ends a session and its children; returns the sessions that ended.
    kill_session: DELETE "/workspaces/{id}/sessions/{session}"
        (id: &WorkspaceId, session: &SessionId) -> SessionList;
    send_to_session: POST "/workspaces/{id}/sessions/{session}/send"
        (id: &WorkspaceId, session: &SessionId) sends SendInput -> Sent;
    /// The screen as text.
    session_screen: GET "/workspaces/{id}/sessions/{session}/read"
        (id: &WorkspaceId, session: &SessionId) -> ReadText;
    /// The output after a cursor as text; after 0: all that is stored.
    session_output: GET "/workspaces/{id}/sessions/{session}/read?since={since}"
        (id: &WorkspaceId, session: &SessionId, since: u64) -> ReadText;
    turns: GET "/workspaces/{id}/turns" (id: &WorkspaceId) -> TurnList;
    /// Records a turn by hand.
    mark_turn: POST "/workspaces/{id}/turns" (id: &WorkspaceId) -> Marked;
    /// A turn as the uncommitted state of a new workspace.
    turn_state: POST "/workspaces/{id}/turns/state"
        (id: &WorkspaceId) sends TurnWish -> TurnState;
    /// Risks, evidence and files since `look`, `base` or a turn (`@2`).
    review: GET "/workspaces/{id}/review?since={since}" (id: &WorkspaceId, since: &str) -> Review;
    /// Records a look.
    looked: POST "/workspaces/{id}/review" (id: &WorkspaceId) sends Looked -> Review;
    /// Begins the checks of the tree of now.
    run_checks: POST "/workspaces/{id}/checks" (id: &WorkspaceId) sends RunChecks -> CheckList;
    /// The checks of a tree, when their revision is another one, or after 20 seconds.
    checks_after: GET "/workspaces/{id}/checks?tree={tree}&after={after}"
        (id: &WorkspaceId, tree: &str, after: u64) -> CheckList;
    /// Cancels the checks of a workspace, and waits for that.
    cancel_checks: POST "/workspaces/{id}/checks/cancel" (id: &WorkspaceId) -> CheckList;
    /// Workspaces of one project side by side; their ids with commas between.
    compare: GET "/compare?workspaces={ids}" (ids: &str) -> Comparison;
    comments: GET "/workspaces/{id}/comments?open={is_open}"
        (id: &WorkspaceId, is_open: bool) -> CommentList;
    /// Comments on lines of the last turn.
    comment: POST "/workspaces/{id}/comments" (id: &WorkspaceId) sends NewComment -> Comment;
    /// Sends what was not sent yet as one round.
    send_comments: POST "/workspaces/{id}/comments/send" (id: &WorkspaceId) sends Send -> Round;
    /// Answers, resolves or reopens.
    act_on_comments: POST "/workspaces/{id}/comments/act"
        (id: &WorkspaceId) sends Act -> CommentList;
    /// What needs a person.
    inbox: GET "/inbox" () -> InboxList;
    /// A question of a program inside; works only from inside.
    notify: POST "/workspaces/{id}/notify" (id: &WorkspaceId) sends Notify -> Notified;
    /// The newest approval, and whether one is demanded.
    approval: GET "/workspaces/{id}/approve" (id: &WorkspaceId) -> Approval;
    /// Approves the tree of now.
    approve: POST "/workspaces/{id}/approve" (id: &WorkspaceId) sends Approve -> Approved;
    /// Changed files between the start and a captured tree.
    changes: GET "/workspaces/{id}/changes?tree={tree}"
        (id: &WorkspaceId, tree: &str) -> ChangeList;
}
