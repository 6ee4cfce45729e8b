//! `holm token`: access tokens for programs that use the API at the front door.

use super::output::{FAINT, GOOD, printable};
use super::table::Table;
use super::{Context, Outcome, connect, resolve};
use clap::{Args, Subcommand};
use holm_api::client::Client;
use holm_api::token::{NewToken, Token};
use holm_core::config::parse_duration;
use holm_core::{Code, Fault, TokenId};
use std::process::ExitCode;
use std::time::Duration;

/// Make, list and remove tokens of the API
///
/// A program that does not use the daemon's Unix socket sends a token as `Authorization: Bearer …`
/// to http://localhost:7070/api/v1. The file `token` in the data directory always has a valid one,
/// for programs of this user.
#[derive(Debug, Args)]
pub struct TokenArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    New(NewArgs),
    Ls(LsArgs),
    Rm(RmArgs),
}

/// Make a token; it is printed now and never again
///
/// With --json: {id,name,workspace,created_at,expires_at,expired,may,token}.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    holm token new --name laptop --expires 30d\n  \
    holm token new --workspace fix-login\n  \
    holm token new --name reviewer --may approve")]
struct NewArgs {
    /// Its name
    #[arg(long)]
    name: Option<String>,
    /// How long it is valid (12h, 30d); default: until it is removed
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    expires: Option<Duration>,
    /// Give it the rights of a program inside this workspace, and no others
    #[arg(long, value_name = "WS")]
    workspace: Option<String>,
    /// Let it approve trees, as `holm approve` does
    #[arg(long, value_name = "RIGHT", value_parser = ["approve"], conflicts_with = "workspace")]
    may: Vec<String>,
}

/// List the tokens, without their secrets
///
/// With --json: {"tokens":[{id,name,workspace,created_at,expires_at,expired,may}]}.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  holm token ls")]
struct LsArgs {}

/// Remove a token and cut its connections
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  holm token rm laptop")]
struct RmArgs {
    /// Name or id of the token
    token: String,
}

pub fn run(context: &Context, arguments: TokenArgs) -> Outcome {
    match arguments.action {
        Action::New(arguments) => new(context, arguments),
        Action::Ls(_) => ls(context),
        Action::Rm(arguments) => rm(context, &arguments.token),
    }
}

fn new(context: &Context, arguments: NewArgs) -> Outcome {
    let made = connect::block_on(async {
        let client = connect::started().await?;
        let workspace = match &arguments.workspace {
            Some(typed) => Some(resolve::one(&client, typed).await?.to_string()),
            None => None,
        };
        let new = NewToken {
            name: arguments.name,
            // Less than a second counts as zero.
            expires_seconds: arguments.expires.map(|time| time.as_secs().max(1)),
            workspace,
            may: arguments.may,
        };
        client.make_token(&new).await
    })?;
    context.output.result(&made, || made.token.clone());
    let end = match &made.made.expires_at {
        Some(end) => format!("valid until {end}"),
        None => "valid until it is removed".to_owned(),
    };
    let (id, name) = (&made.made.id, printable(&made.made.name));
    context.output.remark(&format!(
        "{GOOD}✓{GOOD:#} {name}  {id}  {end} {FAINT}(it is not shown again){FAINT:#}"
    ));
    Ok(ExitCode::SUCCESS)
}

fn ls(context: &Context) -> Outcome {
    let (list, labels) = connect::block_on(async {
        let client = connect::started().await?;
        Ok((client.tokens().await?, resolve::labels(&client).await?))
    })?;
    context.output.result(&list, || {
        let mut table = Table::new(["id", "name", "for", "created", "expires"]);
        for token in &list.tokens {
            let expires = token.expires_at.clone().unwrap_or_else(|| "-".to_owned());
            let expires = if token.expired {
                format!("{expires} (expired)")
            } else {
                expires
            };
            table.row([
                token.id.clone(),
                token.name.clone(),
                match &token.workspace {
                    Some(id) => labels.get(id).unwrap_or(id).clone(),
                    None if token.may.iter().any(|right| right == "dashboard") => {
                        "the dashboard".to_owned()
                    }
                    None => "you".to_owned(),
                },
                token.created_at.clone(),
                expires,
            ]);
        }
        table.render()
    });
    Ok(ExitCode::SUCCESS)
}

fn rm(context: &Context, typed: &str) -> Outcome {
    let removed = connect::block_on(async {
        let client = connect::started().await?;
        let id = resolve_token(&client, typed).await?;
        client.remove_token(&id).await
    })?;
    context.output.done(&removed, || {
        let (name, id) = (printable(&removed.name), &removed.id);
        format!("{GOOD}✓{GOOD:#} {name}  {id}  removed")
    });
    Ok(ExitCode::SUCCESS)
}

/// The token with this id, or the only one with this name.
async fn resolve_token(client: &Client, typed: &str) -> Result<TokenId, Fault> {
    if let Ok(id) = TokenId::parse(typed) {
        return Ok(id);
    }
    let list = client.tokens().await?;
    let named: Vec<&Token> = list
        .tokens
        .iter()
        .filter(|token| token.name == typed)
        .collect();
    let id = match named.as_slice() {
        [only] => TokenId::parse(&only.id).ok(),
        [] => None,
        several => {
            let ids: Vec<&str> = several.iter().map(|token| token.id.as_str()).collect();
            let message = format!("`{}` stands for {}", typed.escape_debug(), ids.join(", "));
            return Err(Fault::new(Code::Ambiguous, message, "type the id"));
        }
    };
    id.ok_or_else(|| {
        let message = format!("no token `{}`", typed.escape_debug());
        Fault::new(Code::TokenNotFound, message, "`holm token ls` lists them")
    })
}
