//! MCP: holm's tools for agents, with the names of the command line. Served on stdio by `holm mcp`
//! and as streamable HTTP by the daemon ([`http`]).
//!
//! Every tool makes one or a few API calls through the typed client, so rights are checked there
//! and nowhere else. A server that is scoped to one workspace offers only tools for one, and
//! accepts no other workspace as an argument. Faults become tool errors with the same code, message
//! and hint.

mod arguments;
mod catalogue;
mod creation;
mod execution;
mod files;
pub mod http;
mod inspection;
mod lifecycle;
mod progress;
mod resources;
mod stdio;

use crate::{connect, resolve};
use arguments::Arguments;
use catalogue::{Reach, Tool};
use holm_api::ErrorBody;
use holm_api::client::Client;
use holm_core::clone_url::CloneFrom;
use holm_core::{Cause, Code, Fault, WorkspaceId, hint};
use holm_server::helper::Local;
use progress::Progress;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, CustomRequest,
    CustomResult, ErrorCode, Implementation, ListResourceTemplatesResult, ListResourcesResult,
    ListToolsResult, PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse,
    ServerCapabilities, ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt};
use serde_json::Value;
use std::path::PathBuf;
use std::time::Duration;

/// One server: how it reaches the daemon, and its scope.
#[derive(Clone, Debug)]
pub struct Holm {
    door: Door,
    /// The one workspace that it is for; `None`: all.
    scope: Option<WorkspaceId>,
    reach: Reach,
    local: Local,
}

/// How the daemon is reached.
#[derive(Clone, Debug)]
enum Door {
    /// Like every command: outside through the user's socket, starting a daemon if necessary;
    /// inside through the workspace's.
    Command,
    /// In the daemon itself, for a caller.
    Daemon { socket: PathBuf, actor: String },
}

/// The context of one tool call.
struct Call<'a> {
    holm: &'a Holm,
    client: Client,
    arguments: Arguments,
    progress: Progress,
}

/// How long writing the last messages may take.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Supported methods with parameters.
const METHODS: [&str; 6] = [
    "initialize",
    "tools/call",
    "tools/list",
    "resources/list",
    "resources/read",
    "resources/templates/list",
];

const INSTRUCTIONS: &str = "holm gives every agent a workspace: an isolated, running copy of a git project with \
its own code, ports, databases, secrets, home and processes. `workspace` takes a label, project/label, an id or \
the beginning of one. Typical order: workspace_create, exec or run, changes and diff, then a person fetches the \
work with `holm fetch` or `holm apply`. Errors have a code, a message and a hint that names the next step.";

const SCOPED: &str = "This server is for one holm workspace: an isolated, running copy of a git project with its \
own code, ports, databases and processes. `workspace` can be left out of every call. `here` says what there is. \
Errors have a code, a message and a hint that names the next step.";

// === impl Holm ===

impl Holm {
    /// For a program of the user, outside of any workspace.
    pub fn of_user(scope: Option<WorkspaceId>) -> Self {
        let reach = match scope {
            Some(_) => Reach::Workspace,
            None => Reach::Everything,
        };
        Self {
            door: Door::Command,
            scope,
            reach,
            // The program that started this one could clone by itself.
            local: Local::Allowed(CloneFrom::Anywhere),
        }
    }

    /// For a program inside a workspace.
    pub fn inside(id: WorkspaceId) -> Self {
        Self {
            door: Door::Command,
            scope: Some(id),
            reach: Reach::Inside,
            local: Local::Refused,
        }
    }

    /// In the daemon, for a caller with the rights of its user.
    pub fn in_daemon(socket: PathBuf, actor: String, local: Local) -> Self {
        Self {
            door: Door::Daemon { socket, actor },
            scope: None,
            reach: Reach::Everything,
            local,
        }
    }

    /// Serves on stdin and stdout until they end.
    pub async fn serve_stdio(self) -> Result<(), Fault> {
        let broken = |error: Cause| {
            Fault::new(
                Code::BadRequest,
                "the MCP client could not be understood",
                "`holm mcp` is started by an MCP client; `holm mcp install` writes its configuration",
            ).because(error)
        };
        let (lines, writing) = stdio::Lines::new(tokio::io::stdin(), tokio::io::stdout());
        let served = match self.serve(lines).await {
            Ok(running) => {
                let ended = running.waiting().await;
                ended.map(drop).map_err(|error| broken(error.into()))
            }
            // A client that closed before its first message is no failure.
            Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => Ok(()),
            Err(error) => Err(broken(error.into())),
        };
        // A client that does not read the last messages is not waited for.
        let _ = tokio::time::timeout(LAST_WORDS, writing).await;
        served
    }

    async fn client(&self) -> Result<Client, Fault> {
        match &self.door {
            Door::Command => connect::started().await,
            Door::Daemon { socket, actor } => Client::connect_for(socket.clone(), actor).await,
        }
    }

    fn offered(&self, name: &str) -> Option<&'static Tool> {
        catalogue::find(name).filter(|tool| tool.is_within(self.reach))
    }

    async fn perform(
        &self,
        tool: &Tool,
        arguments: Arguments,
        progress: Progress,
    ) -> Result<Value, Fault> {
        arguments.check(tool, self.scope.is_some())?;
        let call = Call {
            holm: self,
            client: self.client().await?,
            arguments,
            progress,
        };
        (tool.perform)(&call).await
    }
}

impl ServerHandler for Holm {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_resources()
            .build();
        let named = Implementation::new("holm", env!("CARGO_PKG_VERSION"));
        let instructions = match self.scope {
            Some(_) => SCOPED,
            None => INSTRUCTIONS,
        };
        ServerConfig::new(capabilities)
            .with_server_info(named)
            .with_instructions(instructions)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let offered = catalogue::all().filter(|tool| tool.is_within(self.reach));
        let tools = offered.map(|tool| tool.on_wire(self.scope.is_some()));
        Ok(ListToolsResult::with_all_items(tools.collect()))
    }

    fn get_tool(&self, name: &str) -> Option<rmcp::model::Tool> {
        let tool = self.offered(name)?;
        Some(tool.on_wire(self.scope.is_some()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = self.offered(&request.name) else {
            let message = format!("unknown tool `{}`", request.name.escape_debug());
            return Err(ErrorData::invalid_params(message, None));
        };
        let arguments = Arguments::new(request.arguments.unwrap_or_default());
        let progress = Progress::new(&context);
        let outcome = tokio::select! {
            outcome = self.perform(tool, arguments, progress) => outcome,
            // Dropping the call cancels it; the client wants no answer any more.
            () = context.ct.cancelled() => Err(cancelled()),
        };
        Ok(answer(outcome).into())
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let resources = self.resources().await.map_err(|fault| error_data(&fault))?;
        Ok(ListResourcesResult::with_all_items(resources))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let templates = resources::templates();
        Ok(ListResourceTemplatesResult::with_all_items(templates))
    }

    /// Requests with the name of a method but another form come here too, and are distinguished.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let method = request.method.escape_debug();
        if METHODS.contains(&request.method.as_str()) {
            let message = format!("the parameters of `{method}` are not of its form");
            Err(ErrorData::invalid_params(message, None))
        } else {
            let message = format!("there is no method `{method}`");
            Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, message, None))
        }
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let read = self.read(&request.uri).await;
        read.map(Into::into).map_err(|fault| error_data(&fault))
    }
}

// === impl Call ===

impl Call<'_> {
    /// The workspace of the call: the argument, or the server's own.
    async fn workspace(&self) -> Result<WorkspaceId, Fault> {
        let typed = self.arguments.text("workspace");
        match (&self.holm.scope, typed) {
            (None, Some(typed)) => resolve::one(&self.client, typed).await,
            (None, None) => Err(arguments::missing("workspace")),
            (Some(scope), None) => Ok(scope.clone()),
            (Some(scope), Some(typed)) => self.in_scope(scope, typed).await,
        }
    }

    /// As [`Self::workspace`]; `None` if the call is for all workspaces.
    async fn workspace_if_any(&self) -> Result<Option<WorkspaceId>, Fault> {
        let is_of_one = self.holm.scope.is_some() || self.arguments.text("workspace").is_some();
        if is_of_one {
            self.workspace().await.map(Some)
        } else {
            Ok(None)
        }
    }

    /// Any other workspace does not exist for this server.
    async fn in_scope(&self, scope: &WorkspaceId, typed: &str) -> Result<WorkspaceId, Fault> {
        let is_meant = typed == "."
            || typed == scope.as_str()
            || self.client.workspace(scope).await?.label == typed;
        if is_meant {
            Ok(scope.clone())
        } else {
            Err(Fault::new(
                Code::WorkspaceNotFound,
                format!(
                    "no workspace `{}` can be seen from here",
                    typed.escape_debug()
                ),
                "leave `workspace` out: this server is for one workspace",
            ))
        }
    }
}

/// The result of a tool.
fn answer(outcome: Result<Value, Fault>) -> CallToolResult {
    match outcome {
        Ok(value) => CallToolResult::structured(value),
        Err(fault) => {
            let hint = hint::for_tools(&fault.hint);
            let fault = fault.with_hint(hint);
            let text = format!("{}: {}\nhint: {}", fault.code, fault.message(), fault.hint);
            let mut result = CallToolResult::error(vec![ContentBlock::text(text)]);
            result.structured_content = Some(error_of(&fault));
            result
        }
    }
}

fn error_of(fault: &Fault) -> Value {
    serde_json::to_value(ErrorBody::from(fault)).unwrap_or_default()
}

/// A fault outside of a tool call.
fn error_data(fault: &Fault) -> ErrorData {
    let message = format!("{} ({})", fault.message(), fault.hint);
    match fault.code.kind() {
        holm_core::Kind::NotFound => ErrorData::resource_not_found(message, Some(error_of(fault))),
        holm_core::Kind::Usage => ErrorData::invalid_params(message, Some(error_of(fault))),
        _ => ErrorData::internal_error(message, Some(error_of(fault))),
    }
}

fn cancelled() -> Fault {
    Fault::new(
        Code::Cancelled,
        "the call was cancelled",
        "call the tool again",
    )
}

/// API types always serialise.
fn value_of(document: &impl serde::Serialize) -> Result<Value, Fault> {
    serde_json::to_value(document).map_err(|error| {
        let message = "an answer cannot be written as JSON";
        Fault::new(Code::Internal, message, "report this").because(error)
    })
}
